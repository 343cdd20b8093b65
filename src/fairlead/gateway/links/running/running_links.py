"""The set of links that run, and who is who among them.

Owns which links there are; any part that is given it may look. Only `runner.py` adds and removes.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.model.names import StreamPath


class RunningLinks:
    """By the id of the record, in the order in which they began."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, RunningLink] = {}

    def __iter__(self) -> Iterator[RunningLink]:
        return iter(self._by_id.values())

    def get(self, link: bytes) -> RunningLink | None:
        """The link of that record, if it runs."""
        return self._by_id.get(link)

    def add(self, link: RunningLink) -> None:
        """It runs from now on."""
        self._by_id[link.record.id] = link

    def remove(self, link: RunningLink) -> None:
        """It runs no more."""
        del self._by_id[link.record.id]

    def beside(self, link: RunningLink) -> list[RunningLink]:
        """Other links of the same source and replica: a standing one, or copies."""
        pairs = [other for other in self if other is not link and other.pair == link.pair]
        return [other for other in pairs if other.record.side_copy is None]

    def copy_of(self, source: bytes, replica_path: StreamPath) -> RunningLink | None:
        """The copy of a stream to a replica that is under way."""
        copies = (link for link in self if link.record.once is not None)
        return next((link for link in copies if link.pair == (source, replica_path)), None)

    def side_copy_of(self, link: RunningLink) -> RunningLink | None:
        """What brings the past of topics that come into a link."""
        following = link.record.filter_next
        return None if following is None else self._by_id.get(following.side)

    def of_source(self, source: bytes) -> list[RunningLink]:
        """The links of one source stream."""
        return [link for link in self if link.record.source == source]

    def known_as(self, wire_id: bytes) -> RunningLink | None:
        """The link that a destination calls so; the copy, if one moves a standing link's positions."""
        found = [link for link in self if link.wire_id == wire_id]
        return next((link for link in found if link.shares is not None), found[0] if found else None)
