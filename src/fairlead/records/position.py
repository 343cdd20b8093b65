"""The streaming offset: how far each shard's log has been read.

Its size does not grow with topics. Spark keeps it as JSON in its checkpoint:

    {"version": 1, "stream": "<id>", "shards": {"0": {"commit": 812, "epoch": "<id>", "began": 500}},
     "starting": {"0/16": {"0": 23}}, "topics": "<digest>"}

`epoch` is the random id of the writer epoch in which commit - 1 lies: a log without that epoch was rolled back
(restored from a copy). `began` is the log's end when the query first started: records expired before that are no loss.
`starting` holds the offsets at which the query was told to begin, by shard/topic number and partition, since a position
in the log cannot express them; it is empty if no such offsets were given. Where a partition was cut since, that counts
if it is lower. `topics` is a digest of the options that choose topics, since a position does not say where topics begin
that are chosen later; it may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from fairlead.model.errors import InvalidValue
from fairlead.model.strict_json import AsText, JsonForm, OtherVersion, Unreadable

VERSION: Final = 1


def _topic(text: str) -> tuple[int, int]:
    shard, _, number = text.partition("/")
    return int(shard), int(number)


TopicKey = Annotated[tuple[int, int], AsText(_topic, "{0[0]}/{0[1]}".format)]
"""(shard, topic number)."""
Offsets = Mapping[TopicKey, Mapping[int, int]]
"""Offset by topic and partition. A topic that is made again under the same name has another number."""


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """Every commit below `commit` has been read."""

    commit: int
    epoch: str
    """Hex id of the writer epoch."""
    began: int


@dataclass(frozen=True, slots=True)
class RecordsPosition:
    """One streaming offset."""

    stream: str
    shards: Mapping[int, ShardPosition]
    starting: Offsets
    topics: str = ""
    """`Options.chosen` of the query; empty: it is not known."""

    def commits(self) -> dict[int, int]:
        """The commit of each shard."""
        return {shard: position.commit for shard, position in self.shards.items()}

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return _FORM.to_plain(replace(self, shards=dict(sorted(self.shards.items()))))


_FORM: Final = JsonForm(RecordsPosition, head={"version": VERSION})


def from_json(found: Mapping[str, Any]) -> RecordsPosition:
    """The inverse of `RecordsPosition.to_json`.

    Raises:
        InvalidValue: this is no position, or has a version that this program does not know.
    """
    try:
        return _FORM.from_plain(found)
    except OtherVersion as error:
        why = f"of version {error.version}; this program knows version {VERSION}"
        raise InvalidValue(f"checkpoint {why}") from error
    except Unreadable as error:
        raise InvalidValue(f"the checkpoint holds no position of format fairlead: {error}") from error
