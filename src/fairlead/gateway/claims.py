"""`stream topic claim`: what diverged topics keep is appended to the topics that they were cut off, and what pending
topics keep to those for which it was put aside. Below, *diverged* means both.

In: which diverged topics, and into which topic if not into the one that each came from. Out: a job; for each topic of
it records at the end of another (`cluster/claims.py`). Always true: a topic is refused or claimed as far as it is here;
the diverged topic itself stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from fairlead.cluster.claims import Claiming, parent
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import BatchOutcome, JobRecord, Refusal
from fairlead.cluster.owner_changes import kept_apart
from fairlead.cluster.reaching import not_owner
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.orders.chosen import chosen
from fairlead.model.errors import (
    Closed,
    FairleadError,
    InvalidValue,
    NotAllowed,
    OwnerPending,
    TryAgain,
    UnknownStream,
)
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.values import Topic

CLAIM: Final = "claim"
"""Kind of these jobs."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    """How diverged topics are claimed."""

    into: str = ""
    """Name of the topic that gets the records; empty: the one that each was cut off."""
    dry_run: bool = False
    """Say how much would come, and append nothing."""

    def as_texts(self) -> dict[str, str]:
        """For the job's record."""
        return {"into": self.into, "dry_run": str(self.dry_run).lower()}

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> ClaimOptions:
        """The inverse of `as_texts`."""
        return cls(texts["into"], texts["dry_run"] == "true")


class Claims:
    """Of all streams of a cluster; it is the work of their jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def prepare(self, path: str, topics: str, options: ClaimOptions) -> tuple[JobRecord, Sequence[str]]:
        """The job that claims diverged topics, and their names. `topics`: a name, names with line breaks between, or a
        regular expression, which means diverged ones only.

        Raises:
            UnknownStream, UnknownTopic: nothing has such a name. InvalidValue: the expression is wrong, or matches no
                diverged topic, or too many.
            NotOwner: the topic that is to get the records is written elsewhere.
        """
        stream = self._cluster.stream(path)
        if options.into:
            self._owned_here(stream, stream.topic(options.into)[1])
        loop = asyncio.get_running_loop()
        meant = partial(chosen, stream, topics, kept_apart(stream), f"diverged or pending topic of {stream.path}")
        names = await loop.run_in_executor(self._cluster.lookups, meant)
        return self._cluster.jobs.new(CLAIM, stream, options.as_texts(), len(names)), names

    async def do(self, job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        """Claim a batch, as far as each topic is here; up to the first that may go later, if something was claimed
        before that. Raises: FairleadError."""
        stream = self._cluster.stream_of(job.stream, job.path)
        options = ClaimOptions.of(job.options)
        claimed, refused, came, done = list[str](), list[Refusal](), list[int](), 0
        for name in topics:
            if not self._cluster.jobs.get(job.id).running:
                break
            before = sum(came)
            try:
                why_not = await self._claim(stream, name, options, job.id, came.append)
            except (Closed, UnknownStream):
                raise
            except FairleadError as error:
                if isinstance(error, TryAgain) and not isinstance(error, OwnerPending):
                    if done or sum(came):
                        break
                    raise
                why_not = str(error)
            done += 1
            if why_not:
                refused.append(Refusal(name, why_not))
            elif sum(came) > before:
                claimed.append(name)
        brought = sum(came)
        if brought and not options.dry_run:
            log.info("records are claimed", stream=stream.path, topics=claimed[:5], total=len(claimed), records=brought)
        return BatchOutcome(len(claimed), refused, brought, done=done)

    async def _claim(
        self, stream: Stream, name: str, options: ClaimOptions, job: bytes, told: Callable[[int], None]
    ) -> str:
        """Why some of it cannot be claimed."""
        claiming = claiming_of(stream, stream.topic(name)[1], options.into)
        self._owned_here(stream, claiming.into)
        if not options.dry_run:
            return await claiming.run(lambda: self._cluster.jobs.get(job).running, told)
        told(sum(claiming.unclaimed(partition) for partition in range(claiming.topic.partitions)))
        return ""

    def _owned_here(self, stream: Stream, topic: Topic) -> None:
        """Check that the stream writes the topic. Raises: NotOwner."""
        if topic.owner != stream.id:
            raise not_owner(self._cluster, stream, topic)


def claiming_of(stream: Stream, topic: Topic, into: str = "") -> Claiming:
    """The claim of a diverged topic.

    Raises:
        NotAllowed: it is none, or the topic that it was cut off is not here.
        UnknownTopic: there is no such topic to have the records.
    """
    if parent_of(topic) is None:
        raise NotAllowed(f"{topic.name} is no diverged or pending topic: it keeps nothing for another one")
    found = stream.topic(into)[1] if into else parent(stream, topic)
    if found is None:
        raise NotAllowed(f"the topic of which {topic.name} keeps records is not here; name another one (-into)")
    if found.number == topic.number and found.name == topic.name:
        raise InvalidValue(f"-into {into}: that is the diverged topic itself")
    return Claiming(stream, topic, found)
