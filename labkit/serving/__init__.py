"""A small HTTP server around one language model.

`protocol` says what a request may hold, and `interface` what happens to it
in an engine. `worker` and `engine` run one generation at a time, on a model
that `backend` loads. `text` makes text of token ids, `http` and the modules
of routes put it into answers, `app` joins the routes, and `server`, with
`channel`, puts the app on a socket. Each imports only those before it.
"""
