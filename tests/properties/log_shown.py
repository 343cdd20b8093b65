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


class PositionRow(NamedTuple):
    """A row that moves positions of a link."""

    row_commit: int
    link: bytes
    slices: int
    commit: int
    """0: they are forgotten."""


class MadeRoom(NamedTuple):
    """A topic that had its name no more from a commit on."""

    commit: int
    name: str
    owner: bytes


@dataclass
class LogShown:
    """Of one site, and with its backup."""

    ends: dict[tuple[int, int], int] = field(default_factory=dict)
    """By topic number and partition, where the log of the rows so far ends."""
    buried: list[Buried] = field(default_factory=list)
    brought: dict[bytes, bytes | None] = field(default_factory=dict)
    """By incarnation, from which stream the last row came that speaks of the topic."""
    since: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """By incarnation and topic epoch, the commit that has said so first."""
    positions: list[PositionRow] = field(default_factory=list)
    made_room: MadeRoom | None = None
    """The last topic that yielded its name to another one."""

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
            made = payloads.decode_topic(row.batch)
            self.brought[made.incarnation] = row.via
            self.since.setdefault((made.incarnation, made.epoch), row.commit)
        elif row.kind == Kind.POSITION:
            at = payloads.decode_position(row.batch)
            self.positions.append(PositionRow(row.commit, at.link, at.slices, at.commit or 0))
        elif row.kind == Kind.TOPIC_DELETED and topic is not None:
            self._bury(row, topic)

    def stood_at(self, link: bytes, slice_: int, commit: int) -> int:
        """The position of a link once that commit was announced."""
        found = (each for each in self.positions if each.link == link and each.slices >> slice_ & 1)
        return next((each.commit for each in reversed([*found]) if each.row_commit <= commit), 0)

    def _bury(self, row: Row, topic: TopicPayload) -> None:
        payload = payloads.decode_topic_deleted(row.batch)
        if not payload.yielded:
            slice_ = slice_of_number(row.topic)
            self.buried.append(Buried(row.commit, slice_, topic.incarnation, payload.epoch, row.origin, row.via))
        else:
            self.made_room = MadeRoom(row.commit, topic.name, topic.owner)
