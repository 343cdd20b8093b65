"""What a link and its destination agree on at contact, and what follows from the answer.

In: what the destination says of its positions and of what is behind. Out: what is known of the link, grants, repairs.
Owns how often was asked. It never tries again by itself (`contact_loop.py`). Always true: nothing is granted unless the
destination is the one that the link began with, and has applied nothing that the source's log does not hold; where it
has less than it had, what it says now counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.jobs import BATCH
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.contacting.copies import EndedCopies
from fairlead.gateway.links.contacting.widening import Widenings
from fairlead.gateway.links.errors import RolledBack, StreamChanged
from fairlead.gateway.links.grants.grant_table import GrantTable
from fairlead.gateway.links.grants.granting import Granting
from fairlead.gateway.links.grants.source_logs import SourceLogs
from fairlead.gateway.links.passing import sent_ones
from fairlead.gateway.links.running.backlog import backlog
from fairlead.gateway.links.running.lifecycle import Event
from fairlead.gateway.links.running.positions import SliceKey
from fairlead.gateway.links.running.running_link import RunningLink, source_of, urls_of
from fairlead.gateway.links.running.timing import REPAIR_DELAY_MAX_S
from fairlead.model.names import StreamPath
from fairlead.streamlog.applying.admission import ANYBODY
from fairlead.streamlog.applying.claims import hear
from fairlead.streamlog.numbers import slices_of_mask
from fairlead.streamlog.requests.rollback import rolled_back_message
from fairlead.streamlog.values import CONFLICT, HARMED
from fairlead.wire.neighbours import LinkAnswer

log = structlog.get_logger()

SHOWN_MAX = 10
"""Topics that a line of the log names."""
REPAIRS_BESIDE_TRAFFIC = 2
"""A partition that is still behind after this many repairs is repaired while its slices stand still. Otherwise rows
that come meanwhile would be refused, and the next repair would find them missing, for as long as they keep coming."""


class Contacts:
    """With the destinations of all links."""

    def __init__(
        self,
        cluster: Cluster,
        table: GrantTable,
        granting: Granting,
        logs: SourceLogs,
        copies: EndedCopies,
        widenings: Widenings,
    ) -> None:
        self.count = 0
        self._cluster = cluster
        self._table = table
        self._granting = granting
        self._logs = logs
        self._copies = copies
        self._widenings = widenings

    async def ask(self, link: RunningLink) -> None:
        """Ask the destination where it stands, check that it is still the same and so are we, and grant.

        Raises:
            FairleadError: it does not answer, refuses, or one of the two is not what it was.
        """
        record, stream = link.record, source_of(self._cluster, link.record)
        self.count += 1
        known = link.positions.recorded()
        answer = await link.gateways.ask(urls_of(self._cluster, record), link.request(self._cluster))
        await self._bind(link, answer)
        if _outdated(link, record):
            return
        await self._check_history(link, stream, answer)
        self._check_positions(link, known, answer)
        self._learn(link, stream, answer)
        await self._hear(link, stream, answer)
        if _outdated(link, record):
            return
        if link.copy_is_done:
            await self._copies.finish(link)
            return
        self._logs.follow(stream)
        self._repair(link, stream, answer)
        self._granting.fill(link, stream)
        self._widenings.look(link)

    async def _bind(self, link: RunningLink, answer: LinkAnswer) -> None:
        record = link.record
        if record.replica_stream is None:
            await self._cluster.links.edit(record.id, replica_stream=answer.stream)
        elif record.replica_stream != answer.stream:
            names = f"-path {self._source_path(record)} -replica {record.replica_path}"
            raise StreamChanged(
                f"{record.replica_path} is another stream than the one this link began with; to start with the new one "
                f"run: fairlead stream replica remove {names}, then: fairlead stream replica add {names}"
            )

    async def _check_history(self, link: RunningLink, stream: Stream, answer: LinkAnswer) -> None:
        """The stream has all that the destination has applied of it; if not, it writes nothing more. A partner's word
        stops the link alone."""
        for position in answer.positions:
            known = position.shard < len(stream.shards) and stream.shards[position.shard].announced.knows(
                position.epoch_id, position.commit
            )
            if known:
                continue
            path, replica = self._source_path(link.record), link.record.replica_path
            if link.record.moves_owners:
                await stream.note_rolled_back(str(replica))
                raise RolledBack(rolled_back_message(str(path), str(replica)))
            raise RolledBack(
                f"source rolled back: {replica} has applied commits up to {position.commit} that {path} does not have "
                f"(was it restored from a copy?); to send the whole log again run: fairlead stream replica resume "
                f"-path {path} -replica {replica} -rescan"
            )

    def _source_path(self, record: LinkRecord) -> StreamPath:
        return self._cluster.global_path(record.source_path)

    def _check_positions(self, link: RunningLink, known: Mapping[SliceKey, int], answer: LinkAnswer) -> None:
        """A destination that was restored from a copy has less than it had answered before it was asked (`known`): what
        it says now counts, or it would be sent only what is new, and refuse that or never hear of the rest."""
        found = {(at.shard, each): at.commit for at in answer.positions for each in slices_of_mask(at.slices)}
        lost = [key for key, before in known.items() if found.get(key, 0) < before]
        if not lost:
            return
        log.warning("replica has less than it had: restored from a copy?", replica=str(link.record.replica_path))
        self._granting.take_back(link, "the replica has less than it had")
        link.positions.unlearn(lost)

    def _learn(self, link: RunningLink, stream: Stream, answer: LinkAnswer) -> None:
        if link.answer is None:
            link.began_empty = not answer.positions
        link.answer = answer
        link.on(Event.ANSWERED)
        for position in answer.positions:
            link.positions.advance(position.shard, dict.fromkeys(slices_of_mask(position.slices), position.commit))
        for position in answer.positions:
            self._granting.runs.seen(link.wire_id, position.shard, position.run)
        self._logs.note_passed(link)
        if not link.copy_ends:
            link.copy_ends = stream.ends
            link.copy_bytes = backlog(link, stream).size_bytes

    async def _hear(self, link: RunningLink, stream: Stream, answer: LinkAnswer) -> None:
        """Take what the destination says of topics that have another owner by now. A partner's word for it counts only
        where a person has said so. Asked once more, the destination hears of what was taken that it need not say it
        again; what was refused it says each time, since it may count one day."""
        taken = answer.superseded if link.record.moves_owners else ()
        if taken:
            await _take(stream, answer)
        elif answer.superseded:
            log.warning(
                "ownership-claim refused: the replica names other owners of topics, which a partner may not",
                replica=str(link.record.replica_path),
                topics=[topic.name for topic in answer.superseded[:SHOWN_MAX]],
                total=len(answer.superseded),
            )
        link.heard = {topic.incarnation: topic.epoch for topic in taken}
        if link.heard:
            link.on(Event.LOOK)

    def _repair(self, link: RunningLink, stream: Stream, answer: LinkAnswer) -> None:
        noted = [each for each in answer.behind if not each.reason.startswith(CONFLICT)]
        behind = sent_ones(stream, link.record.brings, link.record.forward, noted)
        link.not_sent = len(noted) - len(behind)
        if any(held.repair for held in self._table.of(link.record.id)):
            return
        link.note_behind(link.behind)
        alone = link.repairs > REPAIRS_BESIDE_TRAFFIC and any(
            each.reason != HARMED and stream.by_incarnation(each.incarnation) is not None for each in behind
        )
        if alone:
            self._granting.take_back(link, "a repair goes first")
        if link.conflicts or link.deleted_there(stream):
            # Nobody tells this side when it is resolved there.
            link.attention.look_in(REPAIR_DELAY_MAX_S)
        if behind and not self._granting.repair(link, stream, behind, alone=alone):
            link.attention.look_in(REPAIR_DELAY_MAX_S)


def _outdated(link: RunningLink, asked: LinkRecord) -> bool:
    """While others had their turn the link was told to stand still, or to begin anew: its answer is of no use."""
    if not link.state.still and link.record.rescan == asked.rescan:
        return False
    link.on(Event.LOOK)
    return True


async def _take(stream: Stream, answer: LinkAnswer) -> None:
    for shard in stream.shards:
        admission = replace(ANYBODY, falls_here=stream.falls_into(shard))
        told = [each for each in answer.superseded if shard.state.by_incarnation(each.incarnation) is not None]
        for first in range(0, len(told), BATCH):
            some = told[first : first + BATCH]
            await shard.submit(partial(hear, source=answer.stream, topics=some, admission=admission))
