"""`stream recover`: a stream that was restored from a backup gets back what its neighbours have, and writes again.

In: a stream. Out: a job; for each batch of its topics, questions to its neighbours where their histories and ours part,
a commit that cuts ours there and begins our next epoch behind theirs, and a pull of what is in between. Always true:
what was written here since the backup is kept, in a topic of its own where it has no place any more; a topic whose
records are on their way is not written until they are here; the stream gives no offsets until all topics had their
turn; of several jobs of a stream one is at work at a time. Whatever is interrupted is looked at again: what is done
shows no difference, but for a topic that has come and has no epoch of its own yet, which the log notes before it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import BatchOutcome, JobRecord, Refusal
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.errors import RolledBack
from fairlead.gateway.links.orders.commands import LinkCommands
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.gateway.pulling.comparing import Common, Comparing
from fairlead.gateway.pulling.neighbours import Neighbour, neighbours
from fairlead.gateway.pulling.restored import Plan, Source, is_ours_or_gone, our_topic, planned, row_of, shown, why_new
from fairlead.gateway.pulling.taking import PartitionKey, Pulled, Pulls
from fairlead.model.errors import FairleadError, NotAgreed, NotAllowed, StorageFull, TryAgain
from fairlead.streamlog.requests.deletion import put_deletion
from fairlead.streamlog.requests.ownership import Recovered, begin_epoch, recover
from fairlead.streamlog.requests.rollback import is_coming, note_coming
from fairlead.streamlog.requests.topics import bury, delete_topic, release_waiting
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

RECOVER: Final = "recover"
"""Kind of these jobs."""
SHOWN_MAX: Final = 1000
"""Partitions that a plan shows."""
PLANNED_AT_ONCE: Final = 500
"""Topics."""
_LEFT_OUT: Final = "its records are left out: run it again, or `stream topic takeover -force` to go on without them"
FINISH: Final = "-"
"""The last entry of a job's list: the stream writes again."""


class _Done(NamedTuple):
    """What became of some topics."""

    topics: int
    refused: list[Refusal]
    brought: int
    """Records."""
    later: list[str]
    """Entries of those that came with a later epoch, or as a whole: perhaps with more partitions than were looked at,
    and without what was deleted of their records, which only the owner's own rows tell of our topics."""


class Recoveries:
    """Of all streams of a cluster; it is the work of their jobs."""

    def __init__(
        self, cluster: Cluster, new_gateways: Callable[[], Gateways], links: LinkCommands, running: RunningLinks
    ) -> None:
        self._cluster = cluster
        self._comparing = Comparing(cluster, new_gateways)
        self._pulls = Pulls(cluster, new_gateways)
        self._links = links
        self._running = running
        self._at_work: set[bytes] = set()
        """Streams of which a batch has its turn: what was found of its topics holds until all is brought."""

    async def prepare(self, path: str, *, force: bool) -> tuple[JobRecord, Sequence[str]]:
        """The job that recovers a stream, and its list.

        Raises:
            UnknownStream. NotAgreed: nobody has anything of it.
            Unreachable: a neighbour is away; with `force` it is done without.
        """
        stream = self._cluster.stream(path)
        found = {each.incarnation: (each.partitions, each.name) for each in stream.topics() if each.owner == stream.id}
        copies = [each for each in stream.topics() if each.owner != stream.id]
        for neighbour in self._neighbours(stream):
            try:
                for each in await self._comparing.owned(stream, neighbour):
                    known, name = found.get(each.incarnation, (0, each.name))
                    if known or not is_ours_or_gone(stream, each.incarnation):
                        found[each.incarnation] = max(known, each.partitions), name
                # No link tells of a deletion whom it came from: we may have taken the topic over and deleted it since.
                for copy in await self._comparing.deleted(stream, neighbour, copies):
                    found[copy.incarnation] = copy.partitions, copy.name
            except TryAgain as error:
                if not force:
                    raise type(error)(f"{neighbour.path}: {error}; -force recovers without it") from error
        here = [each for each in found if stream.by_incarnation(each) is not None]
        # What is not here comes last: a name may have become free by then.
        parts = (here, found.keys() - here)
        names = [name for part in parts for name in sorted(_entry(each, *found[each]) for each in part)]
        names.append(FINISH)
        return self._cluster.jobs.new(RECOVER, stream, {"force": str(force).lower()}, len(names)), names

    async def plan(self, path: str, *, force: bool) -> list[dict[str, object]]:
        """What a recovery would do now, a row for each partition that it would change. Raises as `prepare`."""
        stream = self._cluster.stream(path)
        _, names = await self.prepare(path, force=force)
        rows: list[dict[str, object]] = []
        entries = iter(names[:-1])
        while len(rows) < SHOWN_MAX and (some := list(islice(entries, PLANNED_AT_ONCE))):
            plans, unknown = await self._plans(stream, some, force=force)
            rows += [row for plan in plans for row in shown(plan)]
            for topic, count in _grown(stream, some):
                new_ones = range(topic.partitions, count)
                rows += [row_of(topic.name, each, 0, 0, 0, "partition is not here") for each in new_ones]
            new = ((incarnation, name, each) for incarnation, count, name in unknown for each in range(count))
            rows += [row_of(name, each, 0, 0, 0, why_new(stream, incarnation)) for incarnation, name, each in new]
        return rows[:SHOWN_MAX]

    async def do(self, job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        """Recover a batch.

        Raises:
            TryAgain: another job is at work at that stream. FairleadError.
        """
        if job.stream in self._at_work:
            raise TryAgain(f"another job recovers topics of {job.path} at this moment")
        self._at_work.add(job.stream)
        try:
            return await self._batch(job, topics)
        finally:
            self._at_work.remove(job.stream)

    async def _batch(self, job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        stream = self._cluster.stream_of(job.stream, job.path)
        force = job.options["force"] == "true"
        entries = [each for each in topics if each != FINISH]
        await self._hear_news(stream, entries, force=force)
        done = await self._do(stream, entries, force=force)
        refused, brought = done.refused, done.brought
        if done.later:
            again = await self._do(stream, done.later, force=force)
            refused, brought = refused + again.refused, brought + again.brought
        failed = set[str]() if force else {each.topic for each in refused}
        for incarnation, _, name in map(_parsed, entries):
            # One that could not be brought, and is written all the same, must not be written in an epoch of before.
            if failed.isdisjoint(_names(stream, incarnation, name)):
                await self._begin_epoch(stream, incarnation)
        outcome = BatchOutcome(done.topics - len(refused), refused, brought)
        if FINISH in topics:
            await self._finish(stream, job.refused + len(refused), force=force)
        return outcome

    async def _do(self, stream: Stream, entries: Sequence[str], *, force: bool) -> _Done:
        """Recover topics as far as can be seen by what is known of them here."""
        plans, unknown = await self._plans(stream, entries, force=force)
        await self._note_coming(stream, plans, unknown)
        refused = [Refusal(plan.topic.name, why) for plan in plans if (why := await self._cut(stream, plan))]
        failures, brought = await self._pull(stream, plans, unknown, force=force)
        refused += [Refusal(name, why) for name, why in failures.items()]
        for plan in plans:
            if plan.topic.name not in failures:
                await self._delete_records(stream, plan)
        came = [plan.topic.incarnation for plan in plans if plan.given_up and plan.topic.name not in failures]
        came += [incarnation for incarnation, _, name in unknown if name not in failures]
        later = [found for each in came if (found := _with_all_partitions(stream, each))]
        return _Done(len(plans) + len(unknown), refused, brought, later)

    def _neighbours(self, stream: Stream) -> list[Neighbour]:
        """Those of one's own: a partner's word for what we have written counts for nothing.

        Raises:
            NotAgreed: there is none.
        """
        found = [each for each in neighbours(self._cluster, stream) if each.own and each.urls]
        if not found:
            here = self._cluster.global_path(stream.path)
            raise NotAgreed(f"{here} has no replica and no upstream of its own that could have its records")
        return found

    async def _plans(
        self, stream: Stream, entries: Iterable[str], *, force: bool
    ) -> tuple[list[Plan], list[tuple[bytes, int, str]]]:
        """What is to become of topics that are ours here, or were deleted since, and those that are not here, or not
        ours here although they are by now."""
        parsed = [_parsed(entry) for entry in entries]
        here = [each for each in parsed if our_topic(stream, each[0])]
        others = [each for each in parsed if not is_ours_or_gone(stream, each[0])]
        later = await self._later(stream, [each[0] for each in others], force=force)
        live = {each for each, source in later.items() if source.common.held.held}
        unknown = [each for each in others if stream.by_incarnation(each[0]) is None or each[0] in live]
        keys = [(incarnation, each) for incarnation, count, _ in here for each in range(count)]
        sources: dict[PartitionKey, list[Source]] = {}
        for neighbour in self._neighbours(stream):
            for key, common in (await self._common(stream, neighbour, keys, force=force)).items():
                sources.setdefault(key, []).append(Source(neighbour, common))
        plans = [planned(stream, incarnation, sources) for incarnation, _, _ in here]
        plans += [
            Plan(*known, deleted_at=source)
            for each, source in later.items()
            if each not in live and (known := stream.by_incarnation(each)) is not None
        ]
        return [plan for plan in plans if plan is not None], unknown

    async def _later(self, stream: Stream, incarnations: Sequence[bytes], *, force: bool) -> dict[bytes, Source]:
        """Those that were given to us or deleted since the backup, and who knows that: neighbours have them in a later
        epoch than they have here, or had when they were deleted."""
        found = {each: known for each in incarnations if (known := stream.by_incarnation(each)) is not None}
        later: dict[bytes, Source] = {}
        for neighbour in self._neighbours(stream) if found else ():
            keys = [(each, 0) for each in found]
            for (each, _), common in (await self._common(stream, neighbour, keys, force=force)).items():
                source, epoch = Source(neighbour, common), found[each][1].epoch
                is_later = common.held.epoch > epoch or (common.held.deleted and common.held.epoch == epoch)
                if is_later and (each not in later or source.rank > later[each].rank):
                    later[each] = source
        return later

    async def _common(
        self, stream: Stream, neighbour: Neighbour, keys: Sequence[PartitionKey], *, force: bool
    ) -> Mapping[PartitionKey, Common]:
        try:
            return await self._comparing.common(stream, neighbour, keys)
        except TryAgain:
            if force:
                return {}
            raise

    async def _hear_news(self, stream: Stream, entries: Iterable[str], *, force: bool) -> None:
        """Give our topics the settings and the partitions that they have got since the backup: what is set next must be
        newer than those, or no replica takes it."""
        ours = [each for each, _, _ in map(_parsed, entries) if our_topic(stream, each)]
        for neighbour in self._neighbours(stream):
            try:
                await self._pulls.news(stream, neighbour.stream, ours)
            except TryAgain:
                if not force:
                    raise

    async def _note_coming(
        self, stream: Stream, plans: Sequence[Plan], unknown: Sequence[tuple[bytes, int, str]]
    ) -> None:
        """Have it in the log, before they come, which topics may come with an epoch of ours."""
        coming: dict[Shard, list[bytes]] = {}
        for plan in plans:
            if plan.given_up:
                coming.setdefault(plan.shard, []).append(plan.topic.incarnation)
        for incarnation, _, name in unknown:
            found = stream.by_incarnation(incarnation)
            coming.setdefault(stream.shard_for(name) if found is None else found[0], []).append(incarnation)
        for shard, some in coming.items():
            await shard.submit(partial(note_coming, incarnations=some))

    async def _cut(self, stream: Stream, plan: Plan) -> str:
        """Make the longer history the topic's; why not, if it cannot be."""
        if plan.deleted_at is not None:
            await self._delete(stream, plan, plan.deleted_at)
        if not plan.better:
            return ""
        parts = {
            each: Recovered(source.common.offset, source.common.held.end, source.common.held.history)
            for each, source in plan.better.items()
        }
        request = partial(
            recover,
            incarnation=plan.topic.incarnation,
            partitions=parts,
            owner_at=str(self._cluster.global_path(stream.path)),
            writer_epoch_id=plan.shard.epoch.id,
            gives_up=plan.given_up,
        )
        try:
            await plan.shard.submit(request)
        except TryAgain:
            raise
        except FairleadError as error:
            return str(error)
        for neighbour in plan.only_heard:
            await self._pulls.owners(stream, neighbour, [plan.topic.incarnation])
        return ""

    async def _delete(self, stream: Stream, plan: Plan, told: Source) -> None:
        """Delete a topic that was deleted since the backup, unless somebody has meanwhile."""
        neighbour, epoch = told.neighbour.stream, told.common.held.epoch

        def request(draft: Draft) -> None:
            known = draft.state.by_incarnation(plan.topic.incarnation)
            if known is None or known.epoch > epoch:
                return
            if known.owner == stream.id:
                delete_topic(draft, known.name)
            else:
                bury(draft, known._replace(epoch=epoch), neighbour, neighbour)
                release_waiting(draft, known.name)

        await plan.shard.submit(request)

    async def _pull(
        self, stream: Stream, plans: Sequence[Plan], unknown: Sequence[tuple[bytes, int, str]], *, force: bool
    ) -> tuple[dict[str, str], int]:
        """Bring what is missing; by topic, why it did not come, and how many records came."""
        failures: dict[str, str] = {}
        brought = 0
        wanted: dict[bytes, dict[bytes, list[int]]] = {}
        names = {plan.topic.incarnation: plan.topic.name for plan in plans}
        for plan in plans:
            for partition, source in plan.brought(stream):
                of_neighbour = wanted.setdefault(source.neighbour.stream, {})
                of_neighbour.setdefault(plan.topic.incarnation, []).append(partition)
        for neighbour, partitions in wanted.items():
            pulled = await self._brought(stream, neighbour, partitions, force=force)
            brought += pulled.records
            failures |= {names[incarnation]: why for (incarnation, _), why in pulled.failures.items()}
        for incarnation, count, name in unknown:
            await self._make_room(stream, name)
            why, records = await self._bring(stream, incarnation, count, force=force)
            brought += records
            if why:
                failures[name] = why
        return failures, brought

    async def _brought(
        self, stream: Stream, neighbour: bytes, wanted: Mapping[bytes, Collection[int]], *, force: bool
    ) -> Pulled:
        """What a pull has brought. With `force`, what the neighbour did not answer about is among its failures; the
        total is 0 if it has answered nothing. Raises as `Pulls.pull`."""
        steps = [Pulled(left=[(incarnation, each) for incarnation, some in wanted.items() for each in some])]
        try:
            return await self._pulls.pull(stream, neighbour, wanted, steps.append)
        except StorageFull:
            raise
        except TryAgain as error:
            if not force:
                raise
            last, why = steps[-1], f"{error}; {_LEFT_OUT}"
            return replace(last, failures={**last.failures, **dict.fromkeys(last.left, why)})

    async def _make_room(self, stream: Stream, name: str) -> None:
        """A client that asked for a topic which is not here has made an empty one; it yields to what comes."""
        found = stream.find_topic(name)
        if found is not None and found[1].owner == stream.id:
            shard, topic = found
            if all(shard.state.partition(topic.number, each).end == 0 for each in range(topic.partitions)):
                await stream.delete_topic(name)

    async def _bring(self, stream: Stream, incarnation: bytes, partitions: int, *, force: bool) -> tuple[str, int]:
        """Bring a topic that is not here from every neighbour that has some of it; why not, if none has it or one could
        not bring all that it has, and how many records came."""
        failures, brought = list[str](), 0
        for neighbour in self._neighbours(stream):
            wanted = {incarnation: range(partitions)}
            pulled = await self._brought(stream, neighbour.stream, wanted, force=force)
            brought += pulled.records
            if pulled.total and incarnation not in pulled.lacking:
                failures.append(next(iter(pulled.failures.values()), ""))
        return max(failures, default="no neighbour that has it answers"), brought

    async def _delete_records(self, stream: Stream, plan: Plan) -> None:
        """Delete once more what was deleted here since the backup; where the topic is still ours."""
        found = stream.by_incarnation(plan.topic.incarnation)
        if not plan.deletions or found is None or found[1].owner != stream.id:
            return
        shard, topic = found

        def request(draft: Draft) -> None:
            for partition, offset in plan.deletions.items():
                if offset > draft.state.partition(topic.number, partition).deleted_to:
                    number, epoch = topic.number, topic.epoch
                    put_deletion(draft, number, partition, offset, origin=stream.id, via=None, epoch=epoch)

        await shard.submit(request)

    async def _begin_epoch(self, stream: Stream, incarnation: bytes) -> None:
        """Give a topic that was noted as coming its later epoch. If it has come to another shard than the one that
        notes it, it has the epoch before that is forgotten."""
        noted = [shard for shard in stream.shards if is_coming(shard.state, incarnation)]
        found = stream.by_incarnation(incarnation)
        holders = [found[0]] if noted and found is not None else []
        at = str(self._cluster.global_path(stream.path))
        for shard in dict.fromkeys([*holders, *noted]):
            epoch = shard.epoch.id
            await shard.submit(partial(begin_epoch, incarnation=incarnation, owner_at=at, writer_epoch_id=epoch))

    async def _finish(self, stream: Stream, refused: int, *, force: bool) -> None:
        """Let the links and the writers go on.

        Raises:
            NotAllowed: topics were refused.
        """
        if refused and not force:
            raise NotAllowed(
                f"{refused:,} topics could not be recovered, so nothing is written yet; "
                f"`fairlead job show` names them; run it again, or with -force to leave them as they are"
            )
        for link in self._running.of_source(stream.id):
            if isinstance(link.error, RolledBack):
                await self._links.resume(stream.path, link.record.replica_path, rescan=True)
        await stream.forget_rolled_back()


def _grown(stream: Stream, entries: Iterable[str]) -> list[tuple[Topic, int]]:
    """Topics of ours that have got partitions since the backup, and how many they have by now."""
    found: list[tuple[Topic, int]] = []
    for incarnation, count, _ in map(_parsed, entries):
        topic = our_topic(stream, incarnation)
        if topic is not None and topic.partitions < count:
            found.append((topic, count))
    return found


def _names(stream: Stream, incarnation: bytes, name: str) -> set[str]:
    """The name that a job's list has of a topic, and that by which it is here."""
    found = stream.by_incarnation(incarnation)
    return {name} if found is None else {name, found[1].name}


def _with_all_partitions(stream: Stream, incarnation: bytes) -> str:
    """The entry of a topic with the partitions that it has by now; empty if it is not ours."""
    topic = our_topic(stream, incarnation)
    return "" if topic is None else _entry(incarnation, topic.partitions, topic.name)


def _entry(incarnation: bytes, partitions: int, name: str) -> str:
    """As a job's list has a topic: one that is not here is known by its incarnation alone."""
    return f"{incarnation.hex()} {partitions} {name}"


def _parsed(entry: str) -> tuple[bytes, int, str]:
    incarnation, partitions, name = entry.split(" ", 2)
    return bytes.fromhex(incarnation), int(partitions), name
