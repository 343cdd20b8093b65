"""The topic epochs of owners: each change of owner has one that no other change of the topic has.

Epochs that merely counted would meet: A hands a topic to B (epoch 1, from offset 130) while B, which does not hear A,
takes it over (epoch 1 too, from 100). There would be one epoch with two beginnings, and a consumer that asks where it
ends would be told by one owner and skip the other's records. So an epoch tells of itself which writer made it: of 2,048
numbers that follow a known one, each writer uses one. Two changes of one writer follow each other in its log, so the
later has the higher epoch; whose it is, and how it came about, need not be told too.
"""

from __future__ import annotations

import hashlib
from typing import Final

from fairlead.model.errors import NotAllowed
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.ranges import EPOCH_MAX
from fairlead.streamlog.values import Topic

CLASSES: Final = 2048
"""Two writers that both follow an epoch make the same one once in so many times; that is a conflict, which people
settle. Each change uses up at most so many of the 2^30 epochs."""


def order_of(topic: Topic | TopicPayload) -> tuple[int, int]:
    """Of two rows of a topic the one with the higher order counts: a later owner's, whatever its version."""
    return topic.epoch, topic.version


def next_epoch(newest: int, writer_epoch_id: bytes) -> int:
    """The topic epoch in which another owner, or the same one again, gives the offsets.

    `newest` is the highest epoch of the topic and of its partitions. `writer_epoch_id` is the random id of the writer
    epoch of the log in which the change is written: a site that was restored from a backup, and makes the same change
    once more from other ends, has another one.

    Raises:
        NotAllowed: the topic has had all epochs that there are.
    """
    wanted = int.from_bytes(hashlib.sha256(writer_epoch_id).digest()[:2], "big") % CLASSES
    found = newest + 1 + (wanted - newest - 1) % CLASSES
    if found > EPOCH_MAX:
        raise NotAllowed(f"topic epoch {newest} is the last; the owner cannot change any more, use another topic")
    return found
