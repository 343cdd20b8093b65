"""The topic epochs of owners: each change of owner has one that no other change of the topic has.

Epochs that merely counted would meet: A hands a topic to B (epoch 1, from offset 130) while B, which does not hear A,
takes it over (epoch 1 too, from 100). There would be one epoch with two beginnings, and a consumer that asks where it
ends would be told by one owner and skip the other's records. So an epoch tells of itself who has it, how it came about
and which writer made it: of 2,048 numbers that follow a known one, each change uses one.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from fairlead.model.errors import NotAllowed
from fairlead.streamlog.ranges import EPOCH_MAX

CLASSES: Final = 2048
"""Two changes that both follow an epoch make the same one once in so many times; that is a conflict, which people
settle. Each change uses up at most so many of the 2^30 epochs."""

ChangeOfOwner = Literal["transfer", "takeover"]


def next_epoch(newest: int, owner: bytes, kind: ChangeOfOwner, writer_epoch_id: bytes) -> int:
    """The topic epoch in which the stream `owner` gives the offsets. `newest` is the highest epoch of the topic and of
    its partitions; `writer_epoch_id` that of the log in which the change is written: a site that was restored from a
    backup, and makes the same change once more from other ends, has another one.

    Raises:
        NotAllowed: the topic has had all epochs that there are.
    """
    digest = hashlib.sha256(b"\0".join((owner.hex().encode(), kind.encode(), writer_epoch_id.hex().encode()))).digest()
    wanted = int.from_bytes(digest[:2], "big") % CLASSES
    found = newest + 1 + (wanted - newest - 1) % CLASSES
    if found > EPOCH_MAX:
        raise NotAllowed(f"topic epoch {newest} is the last; the owner cannot change any more, use another topic")
    return found
