"""`stream replica autosetup`: makes the replica, names it here and the source there, and starts; or takes it back.

In: a source, a replica's path. Out: a stream, a link and an upstream, or nothing and an error that says what became of
each step. It copies nothing: that is the link's own work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.replica_cluster import Streams, copied_settings
from fairlead.model.envelope import code_of, to_error
from fairlead.model.errors import FairleadError
from fairlead.model.names import StreamPath

Undo = Callable[[], Awaitable[None]]


class Autosetup:
    """One run; its steps are taken back, last first, when one fails."""

    def __init__(self, cluster: Cluster, there: Streams) -> None:
        self._cluster = cluster
        self._there = there
        self._done: list[tuple[str, Undo]] = []

    @property
    def done(self) -> list[str]:
        """What it did, a line for each step."""
        return [what for what, _ in self._done]

    async def run(self, stream: Stream, target: StreamPath, new_link: Callable[[], LinkRecord]) -> LinkRecord:
        """Do all; `new_link` makes the record, paused.

        Raises:
            FairleadError: that of the step which failed, with what became of the others.
        """
        try:
            return await self._steps(stream, target, new_link)
        except FairleadError as error:
            raise await self._undone(error) from error

    async def _steps(self, stream: Stream, target: StreamPath, new_link: Callable[[], LinkRecord]) -> LinkRecord:
        source, there, links = self._cluster.global_path(stream.path), self._there, self._cluster.links
        await there.create(target.path, copied_settings(stream.settings))
        self._did(f"created {target} with the settings of {source}", lambda: there.delete(target.path))
        link = await links.add(new_link())
        self._did(f"named {target} a replica of {source}", lambda: links.remove(link.id))
        await there.add_upstream(target.path, source)
        self._did(f"named {source} an upstream of {target}", lambda: there.remove_upstream(target.path, source))
        return await links.edit(link.id, paused=False)

    def _did(self, what: str, undo: Undo) -> None:
        self._done.append((what, undo))

    async def _undone(self, error: FairleadError) -> FairleadError:
        """Take back what was done, last first; the same error with what became of each step."""
        if not self._done:
            return error
        told = []
        for what, undo in reversed(self._done):
            try:
                await undo()
                told.append(f"{what} (taken back)")
            except FairleadError as failure:
                told.append(f"{what} (still there: {failure})")
        desc = f"{error}; done before: {', '.join(reversed(told))}"
        return to_error({"errors": [{"code": code_of(error), "desc": desc}]})
