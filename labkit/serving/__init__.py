"""A small HTTP server around one language model.

`protocol` says what a request may hold, and `interface` what happens to it
in an engine. `worker` and `engine` run one generation at a time, on a model
that `backend` loads, with the conversations of `chat`. `text` makes text of
token ids; `native` and `openai_routes` put it into answers, `page` shows
them arrive, and `metrics` counts. `access` says who may use the server,
`app` joins all that, and `server`, with `channel`, puts the app on a socket.
Imports go one way.
"""
