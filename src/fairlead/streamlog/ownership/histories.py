"""Epoch histories of one partition, beside each other: what both logs hold, and what only one of them does.

A history is [(topic epoch, first offset of it), …] and ends where the log ends. All records of one epoch are of one
owner's log, so two logs that both hold an epoch hold the same records of it as far as both go (as in Raft's log
matching). A history may begin with a later epoch than the log did; what is before it is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest

from fairlead.streamlog.payloads import History

Beginning = tuple[int, History]
"""Where an owner's epoch begins in a partition: its first offset S, and the history of what is below S."""
FROM_NOTHING: Beginning = (0, ())
"""Of partitions that the owner did not know when its epoch began."""


def parting(one: History, one_end: int, other: History, other_end: int) -> int:
    """The offset D below which two logs hold the same: what both have at or above it is not the same history.

    It is the end of the newest epoch that both have, in the log where that is lower. Without such an epoch nothing is
    the same from where the later history begins, or where the earlier one has an epoch that the later one lacks.
    """
    ends = _ends(other, other_end)
    for epoch, end in reversed(_ends(one, one_end).items()):
        if epoch in ends:
            return min(end, ends[epoch])
    if not one or not other:
        return min(one_end, other_end)
    earlier, end, later = (one, one_end, other) if one[0] < other[0] else (other, other_end, one)
    newest, first = later[0]
    return min(first, next((at for epoch, at in earlier if epoch > newest), end))


def _ends(history: History, end: int) -> dict[int, int]:
    """Epoch → the offset where it ends."""
    followed = {epoch: first for (epoch, _), (_, first) in pairwise(history)}
    return {epoch: min(followed.get(epoch, end), end) for epoch, _ in history}


def history_below(history: History, offset: int) -> History:
    """The part of a history that is left of a log which is cut at that offset."""
    return tuple(entry for entry in history if entry[1] < offset)


def beginning_of(since: Sequence[Beginning], partition: int) -> Beginning:
    """Where the owner's epoch begins in a partition, by what the topic's row says of each."""
    return since[partition] if partition < len(since) else FROM_NOTHING


def joined_since(one: Sequence[Beginning], other: Sequence[Beginning]) -> tuple[Beginning, ...] | None:
    """Where the epoch of a diverged topic begins, by two holders of its tail: each says it of the partitions of which
    it had a part. None if they contradict each other."""
    found: list[Beginning] = []
    for here, there in zip_longest(one, other, fillvalue=FROM_NOTHING):
        if here != there and FROM_NOTHING not in (here, there):
            return None
        found.append(there if here == FROM_NOTHING else here)
    return tuple(found)


def start_of_next_epoch(epoch: int, topic_epoch: int, since: Beginning) -> int | None:
    """The offset B from which on no record of that epoch is in the owner's log, since others follow it there; None for
    the owner's present epoch and later ones.

    An epoch that the owner's log lacks has no place in it: all of its records were superseded. Only one from before the
    log's history may have records below where that begins.
    """
    start, history = since
    if epoch >= topic_epoch:
        return None
    own_log = (*history, (topic_epoch, start))
    following = next(first for newer, first in own_log if newer > epoch)
    if epoch < own_log[0][0] or any(held == epoch for held, _ in history):
        return following
    return 0
