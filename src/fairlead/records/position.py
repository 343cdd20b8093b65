"""The streaming offset: how far each shard's log has been read.

Its size does not grow with topics. Spark keeps it as JSON in its checkpoint:

    {"version": 1, "stream": "<id>", "shards": {"0": {"commit": 812, "epoch": "<id>", "began": 500}},
     "starting": {"0/16": {"0": 23}}}

`epoch` is the random id of the writer epoch in which commit - 1 lies: a log that does not know it was rolled back
(restored from a copy). `began` is the log's end when the query first started: what had expired before that is no loss.
`starting` holds the offsets that the query was told to begin at, by shard/topic number and partition, since a position
in the log cannot say them; it is empty where no such offsets were given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.errors import InvalidValue

VERSION = 1

Offsets = Mapping[tuple[int, int], Mapping[int, int]]
"""Offset by (shard, topic number) and partition. A topic that is made anew under its name has another number."""


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """Every commit below `commit` has been read."""

    commit: int
    epoch_id: str
    began: int


@dataclass(frozen=True, slots=True)
class RecordsPosition:
    """One streaming offset."""

    stream: str
    shards: Mapping[int, ShardPosition]
    starting: Offsets = field(default_factory=dict)

    def commits(self) -> dict[int, int]:
        """The commit of each shard."""
        return {shard: position.commit for shard, position in self.shards.items()}

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        shards = {
            str(shard): {"commit": at.commit, "epoch": at.epoch_id, "began": at.began}
            for shard, at in sorted(self.shards.items())
        }
        starting = {
            f"{shard}/{number}": {str(partition): offset for partition, offset in places.items()}
            for (shard, number), places in self.starting.items()
        }
        return {"version": VERSION, "stream": self.stream, "shards": shards, "starting": starting}


def from_json(found: Mapping[str, Any]) -> RecordsPosition:
    """The inverse of `RecordsPosition.to_json`.

    Raises:
        InvalidValue: not a position, or of a version that this program does not know.
    """
    try:
        if found["version"] != VERSION:
            raise InvalidValue(f"checkpoint of version {found['version']}; this program knows version {VERSION}")
        shards = {
            int(shard): ShardPosition(at["commit"], at["epoch"], at["began"]) for shard, at in found["shards"].items()
        }
        return RecordsPosition(found["stream"], shards, _starting(found["starting"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue(f"the checkpoint holds no position of format fairlead: {error!r}") from error


def _starting(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    read: dict[tuple[int, int], dict[int, int]] = {}
    for key, places in found.items():
        shard, _, number = key.partition("/")
        read[int(shard), int(number)] = {int(partition): offset for partition, offset in places.items()}
    return read
