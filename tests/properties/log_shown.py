"""What the rows of one site's log say one after the other, as far as it is a matter of that log alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fairlead.streamlog import payloads
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.rows import Kind, Row


class Buried(NamedTuple):
    """A deletion that a site announced."""

    commit: int
    slice: int
    incarnation: bytes
    epoch: int
    origin: bytes | None
    via: bytes | None


@dataclass
class LogShown:
    """Of one site, and with its backup."""

    ends: dict[tuple[int, int], int] = field(default_factory=dict)
    """By topic number and partition, where the log of the rows so far ends."""
    buried: list[Buried] = field(default_factory=list)
    brought: dict[bytes, bytes | None] = field(default_factory=dict)
    """By incarnation, from which stream the last row came that speaks of the topic."""

    def see(self, site: str, row: Row, topic: TopicPayload | None, gaps: Sequence[tuple[int, int]]) -> None:
        """The next row of the log; `topic` is what its number means, `gaps` are those of its partition before it.

        2: no offset comes twice in a log, and a cut takes a gap as a whole.
        """
        key = row.topic, row.partition
        end = self.ends.get(key, 0)
        if row.kind == Kind.BATCH:
            assert row.base_offset >= end, f"{site}: {row[:6]} stands below the end {end} of its partition"
            self.ends[key] = row.last_offset + 1
        elif row.kind == Kind.START:
            self.ends[key] = max(end, row.base_offset)
        elif row.kind == Kind.TRUNCATE and row.base_offset >= 0:
            cut = [gap for gap in gaps if gap[0] < row.base_offset < gap[1]]
            assert not cut, f"{site}: {row[:6]} cuts through the gaps {cut}"
            self.ends[key] = min(end, row.base_offset)
        elif row.kind == Kind.TOPIC:
            self.brought[payloads.decode_topic(row.batch).incarnation] = row.via
        elif row.kind == Kind.TOPIC_DELETED and topic is not None:
            self._bury(row, topic)

    def _bury(self, row: Row, topic: TopicPayload) -> None:
        payload = payloads.decode_topic_deleted(row.batch)
        if not payload.yielded:
            slice_ = slice_of_number(row.topic)
            self.buried.append(Buried(row.commit, slice_, topic.incarnation, payload.epoch, row.origin, row.via))
