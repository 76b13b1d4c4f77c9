"""The load generator: prompts, clients, records, metrics and evidence.

Modules import downwards only. What is said of requests: `records`, then
`metrics`, `rates` and `laws`. What sends them: `wire`, `targets` with its
two protocols, `sse`, `exchange`, then `client`; many of them, `plan`, `loops`,
then `drive` (records in memory) or `runner` (evidence on disk). What answers
as it is told: `timelines`, `playing`, `slots`, then `scripted`. This package
itself imports nothing.
"""
