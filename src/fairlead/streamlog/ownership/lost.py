"""Epochs that are not in a log any more: consumers that have read them ask where they ended."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.streamlog.ranges import OFFSET_MAX
from fairlead.streamlog.state.effects import KAFKA_EPOCHS_MAX
from fairlead.streamlog.values import Cut, PartitionState, Topic


def lowest_cut(topic: Topic, state: PartitionState, cuts: Iterable[Cut], epoch: int) -> int:
    """The offset below which a log still has what a reader of that epoch has read, as far as cuts tell. An epoch that
    the log lacks was cut off by a later owner's history, with all of its records; which of the cuts it was, nothing
    tells any more, and the lowest one is not above it. Of a Kafka cluster's topic it may also lack an epoch because
    there were many since (`effects.KAFKA_EPOCHS_MAX`)."""
    if any(held == epoch for held, _ in state.history) or _is_folded(topic, state, epoch):
        return OFFSET_MAX
    return min((cut.offset for cut in cuts if cut.by_epoch > epoch), default=OFFSET_MAX)


def _is_folded(topic: Topic, state: PartitionState, epoch: int) -> bool:
    history = state.history
    return topic.is_of_kafka and len(history) >= KAFKA_EPOCHS_MAX and epoch < history[0][0]


def end_of_epoch(topic: Topic, state: PartitionState, cuts: Iterable[Cut], asked: int) -> tuple[int, int]:
    """(epoch, end offset) as `PartitionState.end_of_epoch` says them, but for an epoch that was cut off here. There the
    largest epoch below it may be that of a log which went on elsewhere, and has other records in its place."""
    epoch, end = state.end_of_epoch(topic.epoch, asked)
    cut = lowest_cut(topic, state, cuts, asked) if 0 <= asked < topic.epoch else end
    return (epoch, end) if end <= cut else (state.epoch_before(cut), cut)
