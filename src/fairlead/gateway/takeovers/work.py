"""The job of `stream topic takeover`: asks, brings, takes over; batch by batch."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import BatchOutcome, Flags, JobRecord, Lack, Refusal, refusals
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.orders.chosen import chosen, owned_at
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.pulling.taking import Pulls
from fairlead.gateway.takeovers.asking import Answers, Asking
from fairlead.gateway.takeovers.plan import Plan, plan
from fairlead.model.errors import FairleadError, Moved, NotAllowed, NotFound, TryAgain, Unreachable
from fairlead.streamlog.ownership.standing import pending_partitions
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.neighbours import PartitionAt

log = structlog.get_logger()

TAKEOVER: Final = "takeover"
"""Kind of these jobs."""
_HINT: Final = "(-force takes it over all the same)"
_WITHOUT: Final = "(-force takes it over all the same; topics of diverged records keep what is elsewhere)"

KafkaObstacle = Callable[[Shard, Topic], str]
"""Why a topic that a Kafka cluster owns may not be taken over; empty if it may."""
KafkaObstacles = Callable[[Stream, Sequence[Topic]], Awaitable[KafkaObstacle]]
"""Asks the Kafka clusters that own topics."""
KafkaHeard = Callable[[Stream, bytes], int | None]
"""How many ms ago the Kafka cluster with that id as an owner has told all that it is asked; None: it has told nothing
since this server started, or the owner is none."""


@dataclass(frozen=True, slots=True)
class TakeoverOptions(Flags):
    """How topics are taken over."""

    force: bool = False
    """Also a topic whose owner answers, or of which a neighbour has more than can be brought."""
    dry_run: bool = False
    """Ask, and change nothing."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known before anything is done, for a person who is to decide."""

    neighbours: Sequence[Mapping[str, Any]]
    """Whether each answers."""
    owners: Sequence[Mapping[str, Any]]
    """Of each owner of the topics: when it was last heard, and how much it had that has not come."""


class Takeovers:
    """Of all streams of a cluster; it is the work of their jobs."""

    def __init__(
        self, cluster: Cluster, running: RunningLinks, new_gateways: Callable[[], Gateways], pulls: Pulls
    ) -> None:
        self._cluster = cluster
        self._running = running
        self._asking = Asking(cluster, new_gateways)
        self._pulls = pulls
        self.of_kafka: KafkaObstacles | None = None
        """Why topics of Kafka clusters stay as they are."""
        self.heard_of_kafka: KafkaHeard = lambda stream, owner: None
        """They are asked, and have nothing new to send for as long as nobody writes."""

    async def prepare(
        self, path: str, topics: str, lost: str, options: TakeoverOptions
    ) -> tuple[JobRecord, Sequence[str], Outlook]:
        """The job that takes topics over, and their names. `topics` as for a transfer; if `lost` is given, a cluster or
        the path of a stream, all that it owns, or those of them that `topics` names or matches.

        Raises:
            UnknownStream, UnknownTopic: nothing has such a name. InvalidValue: the expression is wrong, or these are
                none or too many.
        """
        stream = self._cluster.stream(path)
        loop, lookups = asyncio.get_running_loop(), self._cluster.lookups
        choice = partial(owned_at, stream, lost, topics) if lost else partial(chosen, stream, topics)
        names = await loop.run_in_executor(lookups, choice)
        owners = await loop.run_in_executor(lookups, _owners, stream, names)
        answers = await self._asking.ask(stream, ())
        job = self._cluster.jobs.new(TAKEOVER, stream, options.as_texts(), len(names))
        return job, names, Outlook(_neighbour_rows(answers), [self._owner_row(stream, *each) for each in owners])

    def _owner_row(self, stream: Stream, topic: Topic, count: int) -> dict[str, Any]:
        now_ms, heard = self._cluster.clock.wall_ms(), stream.heard.of(topic.owner)
        ago_ms = self.heard_of_kafka(stream, topic.owner)
        at_ms = max(0 if heard is None else heard.at_ms, 0 if ago_ms is None else now_ms - ago_ms)
        return {
            "owner": stream.owner_path(topic),
            "topics": count,
            "lastheard": at_ms,
            "lastheardseconds": max(now_ms - at_ms, 0) // 1000 if at_ms else 0,
            "lackingcommits": 0 if heard is None else heard.lacking,
        }

    async def do(self, job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        """Take a batch over, as far as it may be. Raises: FairleadError."""
        stream = self._cluster.stream_of(job.stream, job.path)
        options = TakeoverOptions.of(job.options)
        found = [(name, stream.find_topic(name)) for name in topics]
        refused = [Refusal(name, "there is no such topic") for name, each in found if each is None]
        wanted = [each for _, each in found if each is not None and not _writable(stream, *each)]
        answers = await self._asking.ask(stream, [topic.incarnation for _, topic in wanted])
        alone = "" if options.force else self._alone(stream, answers)
        of_kafka = await self._of_kafka(stream, [topic for _, topic in wanted if topic.is_of_kafka], options)
        plans: dict[bytes, Plan] = {}
        for shard, topic in wanted:
            made = plan(topic, _here(shard, topic), answers.about(topic), stream=stream.id, force=options.force)
            asked_of_kafka = self._is_asked_of_kafka(stream, topic, answers)
            if why := (of_kafka(shard, topic) if asked_of_kafka else alone) or made.why_not:
                refused.append(Refusal(topic.name, why))
            else:
                plans[topic.incarnation] = made
        if options.dry_run:
            return BatchOutcome(len(plans), refused, sum(each.records for each in plans.values()))
        brought, failures = await self._bring(stream, plans, options)
        changed, lacks = await self._take_over(stream, plans, failures, refused, options)
        counts = {"topics": changed, "lacking": len(lacks), "refused": len(refused), "records": brought}
        log.info("topics are taken over", path=stream.path, **counts)
        return BatchOutcome(changed, refused, brought, lacks)

    async def _of_kafka(self, stream: Stream, topics: Sequence[Topic], options: TakeoverOptions) -> KafkaObstacle:
        """Why topics of Kafka clusters stay as they are, by what those say themselves."""
        if options.force or self.of_kafka is None or not topics:
            return lambda shard, topic: ""
        return await self.of_kafka(stream, topics)

    def _is_asked_of_kafka(self, stream: Stream, topic: Topic, answers: Answers) -> bool:
        """Whether the Kafka cluster that owns the topic is asked about it, and not the neighbours: this stream keeps
        its topics, or did and has no neighbour that is silent. A site behind hears of them from neighbours alone."""
        if not topic.is_of_kafka:
            return False
        return not answers.silent or any(each.source == topic.owner for each in self._cluster.kafka.of(stream.id))

    def _alone(self, stream: Stream, answers: Answers) -> str:
        """Why nothing is taken over by one that has not heard of anybody: it may itself be the one that is lost."""
        links = self._running.of_source(stream.id)
        if answers.heard or stream.heard or any(link.answer is not None for link in links):
            return ""
        why = "; ".join(f"{path}: {why}" for path, why in answers.silent.items())
        return f"no neighbour has answered since this server started{': ' if why else ''}{why} {_HINT}"

    async def _bring(
        self, stream: Stream, plans: Mapping[bytes, Plan], options: TakeoverOptions
    ) -> tuple[int, dict[bytes, str]]:
        """Bring what neighbours have and we lack: how many records came, and of which topics some could not be brought.

        Raises:
            TryAgain: they may come later; by force, nobody waits for a neighbour that does not answer any more. What
                came is here.
        """
        sources: dict[bytes, dict[bytes, set[int]]] = {}
        for incarnation, each in plans.items():
            for partition, furthest in each.to_bring.items():
                sources.setdefault(furthest.stream, {}).setdefault(incarnation, set()).add(partition)
        brought, failures = 0, dict[bytes, str]()
        for source, partitions in sources.items():
            try:
                pulled = await self._pulls.pull(stream, source, partitions)
            except FairleadError as error:
                away = isinstance(error, Unreachable | Moved)
                if isinstance(error, TryAgain) and not (away and options.force):
                    raise
                failures.update(dict.fromkeys(partitions, str(error)))
            else:
                brought += pulled.records
                failures.update({incarnation: why for (incarnation, _), why in pulled.failures.items()})
        return brought, failures

    async def _take_over(
        self,
        stream: Stream,
        plans: Mapping[bytes, Plan],
        failures: Mapping[bytes, str],
        refused: list[Refusal],
        options: TakeoverOptions,
    ) -> tuple[int, list[Lack]]:
        """How many topics were taken over, and which of them by force, though something of them is elsewhere."""
        changes = []
        lacks = dict[str, str]()
        for incarnation, made in plans.items():
            found = stream.by_incarnation(incarnation)
            if found is None:
                continue
            shard, topic = found
            is_done = _writable(stream, shard, topic)  # what it lacked has come, or another job has taken it over
            if lack := "" if is_done else _lacking(shard, topic, made, failures.get(incarnation, "")):
                lacks[topic.name] = lack
            if lack and not options.force:
                refused.append(Refusal(topic.name, f"{lack} {_WITHOUT}"))
            else:
                changes.append((topic.name, partial(_take_over, stream, topic, made.above)))
        outcomes = await stream.change_topics(changes)
        refused += refusals((name for name, _ in changes), outcomes)
        taken = [name for (name, _), outcome in zip(changes, outcomes, strict=True) if isinstance(outcome, Topic)]
        return len(taken), [Lack(name, lacks[name]) for name in taken if name in lacks]


def _writable(stream: Stream, shard: Shard, topic: Topic) -> bool:
    """Whether there is nothing to do: it is ours, and we have all that the owners before wrote."""
    return topic.owner == stream.id and not any(pending_partitions(topic, shard.state))


def _here(shard: Shard, topic: Topic) -> list[PartitionAt]:
    states = (shard.state.partition(topic.number, each) for each in range(topic.partitions))
    return [PartitionAt(state.end, state.history) for state in states]


def _lacking(shard: Shard, topic: Topic, made: Plan, why: str) -> str:
    """What of a topic is known to be elsewhere, and could not be brought; empty if nothing is."""
    said = f": {why}" if why else ""
    if topic.epoch < made.above:
        return f"a later owner is known elsewhere, and its row could not be brought{said}"
    if topic.epoch > made.above:
        return "it got another owner meanwhile; ask again"
    for partition, furthest in made.to_bring.items():
        end = shard.state.partition(topic.number, partition).end if partition < topic.partitions else 0
        if end < furthest.end:
            left = f"{furthest.end - end:,} records of partition {partition} of {furthest.path} could not be brought"
            return f"{left}{said}"
    return ""


def _take_over(stream: Stream, topic: Topic, above: int, draft: Draft) -> Topic:
    """Of this very topic, as it was judged: another may have its name, or have become its owner by now."""
    found = draft.state.by_incarnation(topic.incarnation)
    if found is None:
        raise NotFound("it was deleted meanwhile")
    if found.owner == stream.id and not any(pending_partitions(found, draft.state)):
        return found
    if found.epoch != topic.epoch:
        raise NotAllowed("it got another owner meanwhile; try again")
    epoch = stream.shard_for(topic.name).epoch
    return take_over(draft, found.number, owner_at=stream.global_path, writer_epoch_id=epoch.id, above=above)


def _owners(stream: Stream, names: Iterable[str]) -> list[tuple[Topic, int]]:
    """For each other owner of these topics, one of them, and how many it owns. Blocking: there may be many."""
    counts, first = Counter[bytes](), dict[bytes, Topic]()
    for name in names:
        found = stream.find_topic(name)
        if found is not None and found[1].owner != stream.id:
            counts[found[1].owner] += 1
            first.setdefault(found[1].owner, found[1])
    return [(first[owner], count) for owner, count in counts.most_common()]


def _neighbour_rows(answers: Answers) -> list[dict[str, Any]]:
    found = {str(each.path): "" for each in answers.heard} | dict(answers.silent)
    return [{"neighbour": path, "answers": not why, "error": why} for path, why in sorted(found.items())]
