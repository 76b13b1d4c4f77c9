"""Time lines that are taken from what a server did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from labkit.errors import LabError
from labkit.loadtest import metrics
from labkit.loadtest.client import Client
from labkit.loadtest.lab_target import LabTarget
from labkit.loadtest.records import Arrival, Record, Request
from labkit.loadtest.timelines import Step, TimeLine, one_by_one, replayed

MS = 1_000_000


def answered() -> Record:
    """Queued at 2 ms and begun at 10 ms by the server's clock; every event
    comes 3 ms later, and the last two together."""
    arrivals = (
        Arrival(13 * MS, "start", server_ns=10 * MS),
        Arrival(17 * MS, "token", (7,), 1, 14 * MS),
        Arrival(20 * MS, "other"),
        Arrival(21 * MS, "token", (8, 9), 2, 18 * MS),
        Arrival(21 * MS, "done", server_ns=18_500_000),
    )
    return Record(
        "m000",
        sent_ns=0,
        end_ns=22 * MS,
        arrivals=arrivals,
        status=200,
        new_tokens=3,
        counted="ids",
        queued_ns=2 * MS,
        start_ns=10 * MS,
    )


def test_a_record_is_replayed_by_the_stamps_of_the_server() -> None:
    assert replayed(answered()) == TimeLine(
        (
            Step(0, "start"),
            Step(4, "tokens", 1),
            Step(8, "tokens", 2),
            Step(8.5, "done"),
        )
    )


def test_a_time_line_survives_its_replay(replay: Callable[..., Any]) -> None:
    """The fixture begins when it sends the start event."""
    record = replay(one_by_one([3, 5.5, 9], 1), LabTarget("127.0.0.1:9"))
    assert replayed(record) == one_by_one([2, 4.5, 8])


def test_a_replay_on_the_wire_has_the_same_tokens(
    serve: Callable[..., Any],
) -> None:
    player = serve([replayed(answered())], slots=1)
    with Client(LabTarget(player.url)) as client:
        record = client.send(Request("m0", 3, text="a"))
    assert record.ok
    assert metrics.token_count(record) == 3
    (played,) = player.played
    assert played.end_ns == played.start_ns + 8_500_000


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"failure": "timeout"}, "take one that succeeded"),
        ({"start_ns": None}, "says when it began"),
        (
            {"arrivals": (Arrival(1, "token", (), 1), Arrival(2, "done"))},
            "no stamps of the server",
        ),
        ({"start_ns": 16 * MS}, "in order of time"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(LabError, match=sentence):
        replayed(replace(answered(), **changed))
