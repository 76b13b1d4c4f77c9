"""Bytes of the tensors that are alive, counted as they come and go."""

from __future__ import annotations

import torch

from labkit.live_tensors import LiveTensors

KIB = 1024


def kib(count: int) -> torch.Tensor:
    """A new tensor of so many KiB."""
    return torch.ones(count * KIB // 4)


def test_what_is_alive_and_the_most_that_ever_was() -> None:
    with LiveTensors() as live:
        first = kib(8)
        second = kib(16)
        del first
        third = kib(4)
    assert live.now == 20 * KIB
    assert live.peak == 24 * KIB
    assert live.made == 28 * KIB
    del second, third
    assert live.now == 0


def test_a_view_takes_nothing() -> None:
    with LiveTensors() as live:
        whole = kib(8)
        part = whole[:100].view(10, 10)
        del whole
        assert live.now == 8 * KIB
        del part
    assert (live.now, live.made) == (0, 8 * KIB)


def test_tensors_made_before_are_not_counted() -> None:
    before = kib(8)
    with LiveTensors() as live:
        view = before[:10]
        before.add_(1)
        result = before + 1
    assert view.numel() == 10
    assert live.now == result.nbytes == 8 * KIB


def test_concatenation_needs_old_and_new_at_once() -> None:
    with LiveTensors() as live:
        old = kib(8)
        new = torch.cat((old, kib(1)))
        del old
    assert live.now == new.nbytes == 9 * KIB
    assert live.peak == 18 * KIB


def test_several_results_of_one_operation() -> None:
    before = torch.arange(256.0)
    with LiveTensors() as live, torch.inference_mode():
        values, places = before.topk(128)
    assert live.now == values.nbytes + places.nbytes
