"""Where an owner's epoch begins in its partitions, and what of the epochs before it is in its log.

Histories and where two of them part: `parting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from fairlead.streamlog.payloads import History

Beginning = tuple[int, History]
"""Where an owner's epoch begins in a partition: its first offset S, and the history of what is below S."""
FROM_NOTHING: Beginning = (0, ())
"""Of partitions that the owner did not know when its epoch began."""


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
