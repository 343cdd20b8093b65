"""Where frames under way may make topics that a stream of several shards does not have yet.

Two frames of one topic must go to one shard, though its name may change between them, and though two links may give it
two names. So the first one decides, for as long as a frame of the topic is under way; after that the log tells.
"""

from __future__ import annotations


class Arrivals:
    """By incarnation; what no frame holds is forgotten."""

    def __init__(self) -> None:
        self._shards: dict[bytes, int] = {}
        self._frames: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._shards)

    def hold(self, incarnation: bytes, shard: int) -> int:
        """A frame may make the topic: in this shard, or in the one to which a frame under way has gone."""
        self._frames[incarnation] = self._frames.get(incarnation, 0) + 1
        return self._shards.setdefault(incarnation, shard)

    def release(self, incarnation: bytes) -> None:
        """That frame is applied, or has failed."""
        self._frames[incarnation] -= 1
        if not self._frames[incarnation]:
            del self._frames[incarnation], self._shards[incarnation]
