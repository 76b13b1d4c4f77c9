"""The load generator: prompts, clients, records, metrics and evidence.

Modules import downwards only. What is said of requests: `records`, then
`metrics`, `rates` and `laws`. What sends them: `wire`, `targets` with its
two protocols, `sse`, `exchange`, then `client`. What answers in tests:
`timelines`, `playing`, then `scripted`. This package itself imports nothing.
"""
