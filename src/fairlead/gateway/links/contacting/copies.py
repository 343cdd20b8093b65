"""The end of copies: a copy is a link that ends, and the command that waits for it is told how.

Owns what became of the copies that ended since the server started. How one begins is in `copystream.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.grants.granting import Granting
from fairlead.gateway.links.running.running_link import LinkCounts, RunningLink, urls_of
from fairlead.model.errors import FairleadError
from fairlead.model.names import StreamPath


@dataclass(frozen=True, slots=True)
class CopyNumbers:
    """How far a copy is, or how it ended in this process."""

    counts: LinkCounts
    error: FairleadError | None
    conflicts: int


def numbers_of(link: RunningLink, stream: Stream | None, error: FairleadError | None) -> CopyNumbers:
    """Of a copy of `stream`, unless that was deleted, which is under way or ends now."""
    deleted = [] if stream is None else link.deleted_there(stream)
    return CopyNumbers(link.counts, error, link.conflicts + len(deleted))


class EndedCopies:
    """By the paths of the source and the replica."""

    def __init__(self, cluster: Cluster, granting: Granting) -> None:
        self._cluster = cluster
        self._granting = granting
        self._ended: dict[tuple[str, StreamPath], CopyNumbers] = {}

    def get(self, source_path: str, replica_path: StreamPath) -> CopyNumbers | None:
        """How the last copy of this pair ended."""
        return self._ended.get((source_path, replica_path))

    def forget(self, source_path: str, replica_path: StreamPath) -> None:
        """Another one begins."""
        self._ended.pop((source_path, replica_path), None)

    async def finish(self, link: RunningLink) -> None:
        """All of it has arrived: take back the permission at the destination, then forget the link.

        Its grants go first: who held one would report the end of the permission as a failure.

        Raises:
            FairleadError: the destination does not answer, or the record cannot be removed.
        """
        self._granting.take_back(link, "the copy is done")
        request = replace(link.request(self._cluster), once=link.shares is None)
        await link.gateways.tell(urls_of(self._cluster, link.record), request, "/gateway/copy/end")
        await self.end(link, None)

    async def end(self, link: RunningLink, error: FairleadError | None) -> None:
        """Remember how a copy ended, for the command that waits for it, and remove its link (which ends its loop).

        Raises:
            FairleadError: the record cannot be removed.
        """
        self._ended[link.record.source_path, link.record.replica_path] = numbers_of(
            link, self._cluster.stream_by_id(link.record.source), error
        )
        await asyncio.shield(self._cluster.links.remove(link.record.id))
