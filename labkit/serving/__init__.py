"""A small HTTP server around one language model.

`protocol` says what a request may hold, `engine` runs one generation at a
time, `app` maps both to HTTP, and `server` puts the app on a socket. Each
imports only those before it.
"""
