"""`stream topic transfer`: topics of a stream here are handed over to one of its replicas, which owns them from then
on.

In: which topics, and to which neighbour. Out: a job; for each batch of it, a question to the replica's gateway how the
topics stand there, and a commit that hands over those that can go. Always true: a topic that the replica does not hold,
or has set aside, stays where it is unless that is forced. Offsets and epochs are no business of this module
(`streamlog/requests/ownership.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import BatchOutcome, Flags, JobRecord, Refusal, refusals
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.orders.chosen import chosen
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.running_link import place_of, urls_of, wire_id
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.errors import FairleadError, NotFound, UnknownCluster, UnknownStream
from fairlead.model.names import named_place, parse_stream_path
from fairlead.streamlog.requests.ownership import hand_over
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.wire.neighbours import HeldTopic, LinkRequest, TransferAnswer, TransferRequest

TRANSFER: Final = "transfer"
"""Kind of these jobs."""
ANSWER_SECONDS: Final = 1.5
"""A person who looks at a topic waits no longer for its owner."""


@dataclass(frozen=True, slots=True)
class TransferOptions(Flags):
    """How topics are handed over."""

    force: bool = False
    """Also a topic that the replica does not hold, has set aside or is far behind with, or that nobody could write
    there, as its disk is full."""
    oneway: bool = False
    """Also where the replica has no link back."""
    dry_run: bool = False
    """Ask, and hand nothing over."""


class _IsThere(FairleadError):
    """Another job has handed the topic over meanwhile: it is neither changed nor refused."""


class Transfers:
    """Of all streams of a cluster; it is the work of their jobs."""

    def __init__(self, cluster: Cluster, new_gateways: Callable[[], Gateways], running: RunningLinks) -> None:
        self._cluster = cluster
        self._running = running
        self._gateways = new_gateways()

    async def prepare(
        self, path: str, topics: str, to: str, options: TransferOptions
    ) -> tuple[JobRecord, Sequence[str]]:
        """The job that hands topics over, and their names. `topics`: a name, names with line breaks between, or a
        regular expression; `to`: a cluster, or the global path of a replica.

        Raises:
            UnknownStream, UnknownTopic: nothing has such a name. InvalidValue: the expression is wrong, or these are
                too many.
            UnknownCluster: no replica of the stream is there. NotAgreed, NotAllowed, Unreachable: what it answers.
        """
        stream = self._cluster.stream(path)
        link = self._link(stream, to)
        loop = asyncio.get_running_loop()
        names = await loop.run_in_executor(self._cluster.lookups, chosen, stream, topics)
        await self._ask(stream, link, ())
        texts = {"to": str(link.replica_path), **options.as_texts()}
        return self._cluster.jobs.new(TRANSFER, stream, texts, len(names)), names

    async def do(self, job: JobRecord, topics: Sequence[str]) -> BatchOutcome:
        """Hand a batch over, as far as it can go. Raises: FairleadError."""
        stream = self._cluster.stream_of(job.stream, job.path)
        options = TransferOptions.of(job.options)
        link = self._cluster.links.find(stream.id, parse_stream_path(job.options["to"]))
        found = [(name, stream.find_topic(name)) for name in topics]
        refused = [Refusal(name, "there is no such topic") for name, each in found if each is None]
        known = [each[1] for _, each in found if each is not None]
        away = [topic for topic in known if topic.owner not in {stream.id, link.replica_stream}]
        refused += [Refusal(topic.name, f"{stream.owner_path(topic)} owns it; hand it over there") for topic in away]
        here = [topic for topic in known if topic.owner == stream.id]
        out = {topic.name for topic in here if not link.filter.passes(topic.name)}
        refused += [
            Refusal(name, f"the link to {link.replica_path} leaves it out, so it would never hear") for name in out
        ]
        here = [topic for topic in here if topic.name not in out]
        answer = await self._ask(stream, link, [topic.incarnation for topic in here])
        going: list[Topic] = []
        for topic, held in zip(here, answer.topics, strict=True):
            why = self._obstacle(stream, link, topic, held, answer, options)
            if why:
                refused.append(Refusal(topic.name, why))
            else:
                going.append(topic)
        if options.dry_run:
            return BatchOutcome(len(going), refused)
        return await self._hand_over(stream, going, answer.stream, link, refused)

    async def _hand_over(
        self, stream: Stream, topics: Sequence[Topic], to: bytes, link: LinkRecord, refused: list[Refusal]
    ) -> BatchOutcome:
        owner_at = str(link.replica_path)
        changes = [(topic.name, partial(_hand_over, stream, topic, to=to, owner_at=owner_at)) for topic in topics]
        outcomes = await stream.change_topics(changes)
        running = self._running.get(link.id)
        changed = 0
        for topic in (topic for topic, outcome in zip(topics, outcomes, strict=True) if isinstance(outcome, Topic)):
            changed += 1
            if running is not None:
                shard = stream.shard_for(topic.name)
                row_is_below = (stream.shards.index(shard), shard.announced.end)
                running.handed_over.setdefault(row_is_below, []).append(topic.number)
        decided = [
            (topic.name, each) for topic, each in zip(topics, outcomes, strict=True) if not isinstance(each, _IsThere)
        ]
        refused += refusals((name for name, _ in decided), (outcome for _, outcome in decided))
        return BatchOutcome(changed, refused)

    def _obstacle(
        self,
        stream: Stream,
        link: LinkRecord,
        topic: Topic,
        held: HeldTopic,
        answer: TransferAnswer,
        options: TransferOptions,
    ) -> str:
        """Why a topic stays; empty if it goes."""
        if answer.way_back and not options.oneway:
            return f"{answer.way_back} (-oneway hands over all the same)"
        if options.force:
            return ""
        hint = "(-force hands over all the same)"
        if answer.refuses:
            return f"nobody could write it there: {answer.refuses} {hint}"
        return self._unready(stream, link, topic, held, hint)

    def _unready(self, stream: Stream, link: LinkRecord, topic: Topic, held: HeldTopic, hint: str) -> str:
        if held.conflict:
            return f"it is set aside there: {held.conflict} {hint}"
        if not held.held:
            return f"the replica does not have it yet {hint}"
        state, most = stream.shard_for(topic.name).state, self._cluster.settings.transfer_lag_max
        lag = sum(state.partition(topic.number, each).end for each in range(topic.partitions)) - held.ends
        if lag > most:
            return f"the replica lacks {lag:,} of its records, {most:,} are allowed {hint}"
        if _lacks_past(stream, link, topic):
            return f"the replica does not have its records of before it began (-from now) {hint}"
        return ""

    async def standing(self, stream: Stream, topic: Topic) -> str:
        """Whether the neighbour that owns a topic has heard of that: `confirmed`, or `not confirmed` with what keeps it
        from answering; empty for a topic that is ours, that never changed its owner, or of nobody to whom we send."""
        links = self._cluster.links.standing(stream.id)
        link = next((link for link in links if topic.owner == link.replica_stream), None)
        if link is None or topic.owner == stream.id or topic.epoch == 0:
            return ""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                (held,) = (await self._ask(stream, link, [topic.incarnation])).topics
        except (FairleadError, TimeoutError) as error:
            return f"not confirmed: {error or 'no answer in time'}"
        return "confirmed" if held.held and held.epoch >= topic.epoch else "not confirmed"

    async def _ask(self, stream: Stream, link: LinkRecord, incarnations: Iterable[bytes]) -> TransferAnswer:
        """What the replica's gateway says of these topics.

        Raises:
            UnknownCluster, UnknownStream: it is not the one that the link leads to. FairleadError: what it answers.
        """
        cluster = self._cluster
        source = place_of(cluster, stream)
        contact = LinkRequest(wire_id(link), source, link.replica_path.path)
        request = TransferRequest(contact, tuple(incarnations))
        answer = await self._gateways.ask_about(urls_of(cluster, link), "/gateway/transfer", request, TransferAnswer)
        if answer.cluster != link.replica_path.cluster:
            raise UnknownCluster(f"{link.replica_path}: the server there is of cluster {answer.cluster}")
        if link.replica_stream not in {None, answer.stream}:
            raise UnknownStream(
                f"{link.replica_path} is another stream than the one that the link began with; "
                "`fairlead stream replica list` says what to do"
            )
        return answer

    def _link(self, stream: Stream, to: str) -> LinkRecord:
        """The link to the neighbour that is meant.

        Raises:
            UnknownCluster: there is none, or there are several.
        """
        links = self._cluster.links.standing(stream.id)
        place = named_place(to)
        found = [link for link in links if place in {link.replica_path.cluster, str(link.replica_path)}]
        here = self._cluster.global_path(stream.path)
        if len(found) > 1:
            paths = ", ".join(str(link.replica_path) for link in found)
            raise UnknownCluster(f"-to {to}: {here} has several replicas there; give the path of one of {paths}")
        if not found:
            near = ", ".join(sorted(str(link.replica_path) for link in links))
            raise UnknownCluster(
                f"-to {to}: no replica of {here} is there; "
                + (f"go hop by hop, first to a neighbour: {near}" if near else "it has no replica")
            )
        return found[0]


def _lacks_past(stream: Stream, link: LinkRecord, topic: Topic) -> bool:
    """Whether there may be records here of which the replica has only heard where they end."""
    shard = stream.shard_for(topic.name)
    if not link.leaves_past_of(stream.shards.index(shard), topic.number):
        return False
    states = [shard.state.partition(topic.number, each) for each in range(topic.partitions)]
    return any(state.start < state.end for state in states)


def _hand_over(stream: Stream, topic: Topic, draft: Draft, *, to: bytes, owner_at: str) -> Topic:
    """Of this very topic: another may have its name by now. Raises: _IsThere."""
    found = draft.state.by_incarnation(topic.incarnation)
    if found is None:
        raise NotFound("it was deleted meanwhile")
    if found.owner == to:
        raise _IsThere
    epoch = stream.shard_for(topic.name).epoch
    return hand_over(draft, topic.number, to=to, owner_at=owner_at, writer_epoch_id=epoch.id)
