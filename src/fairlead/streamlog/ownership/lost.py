"""Epochs that are not in a log any more: consumers that have read them ask where they ended."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.values import Cut, PartitionState


def lowest_cut(state: PartitionState, cuts: Iterable[Cut], epoch: int) -> int:
    """The offset below which a log still has what a reader of that epoch has read, as far as cuts tell. An epoch that
    the log lacks was cut off by a later owner's history, with all of its records; which of the cuts it was, nothing
    tells any more, and the lowest one is not above it."""
    if any(held == epoch for held, _ in state.history):
        return OFFSET_MAX
    return min((cut.offset for cut in cuts if cut.by_epoch > epoch), default=OFFSET_MAX)


def end_of_epoch(state: PartitionState, cuts: Iterable[Cut], current: int, asked: int) -> tuple[int, int]:
    """(epoch, end offset) as `PartitionState.end_of_epoch` says them, but for an epoch that was cut off here. There the
    largest epoch below it may be that of a log which went on elsewhere, and has other records in its place."""
    epoch, end = state.end_of_epoch(current, asked)
    cut = lowest_cut(state, cuts, asked) if 0 <= asked < current else end
    return (epoch, end) if end <= cut else (state.epoch_before(cut), cut)
