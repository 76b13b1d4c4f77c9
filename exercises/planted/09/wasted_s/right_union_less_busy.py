import numpy as np


def wasted_s(requests, starts):
    """From arrival to end somebody is there; the rest of that is service."""
    spans = sorted(
        (arrival, start + service)
        for (_, arrival, service), start in zip(requests, starts, strict=True)
    )
    there, until = 0.0, -np.inf
    for first, last in spans:
        there += max(0.0, last - max(first, until))
        until = max(until, last)
    return np.float64(there - sum(service for *_, service in requests))
