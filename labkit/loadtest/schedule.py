"""When the requests of an open loop are due: offsets from the first.

An absolute schedule: a request that is sent late moves no other one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from labkit.errors import LabError
from labkit.loadtest.plan import LONGEST_S

MAX_ARRIVALS_BYTES = 16 * 1024 * 1024


def constant_ns(rate_per_s: float, count: int) -> list[int]:
    """Every 1 / rate seconds; nanoseconds, not added up but computed.

    LabError when the last would be more than a day after the first.
    """
    _require_day((count - 1) / rate_per_s)
    return [round(place * 1e9 / rate_per_s) for place in range(count)]


def poisson_ns(rate_per_s: float, count: int, seed: int) -> list[int]:
    """Independent exponential gaps of mean 1 / rate; the first is at 0.

    LabError when the last would be more than a day after the first.
    """
    # No secret: a seed is there to give the same schedule again.
    drawn = random.Random(seed)  # noqa: S311
    now, offsets = 0.0, []
    for _ in range(count):
        _require_day(now)
        offsets.append(round(now * 1e9))
        now += drawn.expovariate(rate_per_s)
    return offsets


def recorded_ns(moments_s: Sequence[float]) -> list[int]:
    """Recorded moments in seconds, shifted so that the first is at 0.

    LabError for none, for one that is no number, or for falling ones.
    """
    if not moments_s:
        raise LabError("The recorded arrivals are empty: give one a line.")
    for before, moment in pairwise(moments_s):
        if not moment >= before:
            raise LabError(
                f"The recorded arrivals fall from {before} to {moment}:"
                " sort them."
            )
    span = moments_s[-1] - moments_s[0]
    if not span <= LONGEST_S or not math.isfinite(moments_s[0]):
        raise LabError(
            "The recorded arrivals span more than a day: give seconds."
        )
    return [round((moment - moments_s[0]) * 1e9) for moment in moments_s]


def read_moments_s(path: Path) -> list[float]:
    """Seconds from a file with a number on each line; LabError if not."""
    try:
        if path.stat().st_size > MAX_ARRIVALS_BYTES or not path.is_file():
            raise OSError(f"no file of up to {MAX_ARRIVALS_BYTES} bytes")
        return [
            float(line)
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = str(error)
    raise LabError(
        f"{path.name} is no list of arrivals ({reason}): write one number of"
        " seconds on each line."
    )


def _require_day(last_s: float) -> None:
    if not last_s <= LONGEST_S:
        raise LabError(
            "The last request would be due more than a day after the first:"
            " ask for a higher rate or fewer requests."
        )
