"""Giving the slices of links to readers and taking them back: what is missing, how much is to be read, who has room.

Owns the numbers of grants and runs; fills the grant table. Never asks a destination.
Always true: a slice of a link is held by one reader at a time; what stands still, or is to be looked at first, is given
to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.links.grants.connected_reader import ConnectedReader
from fairlead.gateway.links.grants.grant_table import SPLIT_BYTES, GrantTable, Held, Runs, groups
from fairlead.gateway.links.passing import passing_partitions
from fairlead.gateway.links.running.running_link import RunningLink, place_of, source_of, urls_of
from fairlead.gateway.links.running.running_links import RunningLinks
from fairlead.model.errors import Damaged, UnknownStream
from fairlead.model.names import SLICES
from fairlead.storage.names import shard_prefix
from fairlead.streamlog.numbers import slice_of_number
from fairlead.streamlog.values import GrantRun
from fairlead.wire.control import Grant, RepairGrant, RepairPartition, WithdrawRun
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import BehindPartition
from fairlead.wire.urls import named

REPAIRED_AT_ONCE = 1000
"""Partitions in one repair grant; the next contact brings more."""
NOWHERE = (-1, -1)
"""A place before all partitions."""


class Granting:
    """Keeps the grant table full."""

    def __init__(self, cluster: Cluster, data_root: str, links: RunningLinks, table: GrantTable) -> None:
        self.runs = Runs()
        self._table = table
        self._cluster = cluster
        self._data_root = data_root
        self._links = links
        self._numbers = count(1)

    def withdraw(self, link: RunningLink, reason: str) -> None:
        """Take all grants of a link back, and give others the room."""
        self.take_back(link, reason)
        self.serve_waiting()

    def take_back(self, link: RunningLink, reason: str) -> None:
        """Take all grants of a link back, from readers and sinks."""
        self.take_back_of(link.record.id, reason)

    def take_back_of(self, link: bytes, reason: str) -> None:
        """The same of whatever is granted under that id, which need not be a link's."""
        last = self._table.withdraw(self._table.of(link), reason)
        for (known_as, shard), run in last.items():
            for sink in self._table.sinks:
                sink.put(WithdrawRun(known_as, run, shard))

    def number(self) -> int:
        """The number of the next grant."""
        return next(self._numbers)

    def serve_waiting(self) -> None:
        """There is room: fill every link that may be granted as it stands."""
        for link in self._links:
            if link.state.grantable:
                with suppress(UnknownStream, Damaged):  # its next contact says so
                    self.fill(link, source_of(self._cluster, link.record))

    def end(self, held: Held) -> None:
        """A grant is done."""
        self._table.drop(held.number)
        held.reader.release(None if held.repair else held.key)

    def fill(self, link: RunningLink, stream: Stream) -> None:
        """Grant every slice of a link that nobody holds, if there is a reader with room."""
        if link.held_back:
            return
        for shard in range(len(stream.shards)):
            missing = self._missing(link, shard)
            if missing:
                self._give(link, stream, shard, missing)

    def repair(
        self, link: RunningLink, stream: Stream, behind: Sequence[BehindPartition], *, alone: bool = False
    ) -> bool:
        """Grant a repair for partitions that are behind and whose topics are here; False if none could be. `alone`:
        nobody else is granted their slices until it is done."""
        given = False
        for shard_number, shard in enumerate(stream.shards):
            found = passing_partitions(shard.state, link.record.brings, link.record.forward, behind)
            partitions = tuple(RepairPartition(number, each.partition, each.end, each.reason) for number, each in found)
            turn = _turn(partitions, link.repaired_to.get(shard_number, NOWHERE))
            if turn and self._give_repair(link, stream, shard_number, turn, alone=alone):
                link.repaired_to[shard_number] = _place(turn[-1])
                given = True
        return given

    def should_spread(self, link: RunningLink, stream: Stream) -> bool:
        """A big backlog of this link is read by fewer tasks than there are."""
        for number, shard in enumerate(stream.shards):
            readers = {id(held.reader) for held in self._table.of(link.record.id) if held.key[1] == number}
            if not readers or len(readers) >= min(len(self._table.readers), SLICES):
                continue
            if (
                sum(left.bytes for left in shard.announced.pending(link.positions.effective_of(number)).values())
                > SPLIT_BYTES
            ):
                return True
        return False

    def _missing(self, link: RunningLink, shard: int) -> dict[int, int]:
        """By slice that nobody holds, where to begin."""
        held = self._table.slices(link.record.id, shard)
        starts = {each: start for each, start in link.positions.start_of(shard).items() if each not in held}
        until = _until(link, shard)
        if until is None:
            return starts
        if link.record.once is None:  # it is recorded how far it has come
            return {each: start for each, start in starts.items() if start < until}
        return {each: start for each, start in starts.items() if link.positions.effective((shard, each)) < until}

    def _give(self, link: RunningLink, stream: Stream, shard: int, missing: dict[int, int]) -> None:
        free = self._table.free()
        if not free:
            return
        log = stream.shards[shard].announced
        pending = {each: left.bytes for each, left in log.pending(missing).items()}
        for reader, group in zip(free, groups(pending, len(free)), strict=False):
            self._grant(reader, link, stream, shard, {each: missing[each] for each in group})

    def _grant(
        self, reader: ConnectedReader, link: RunningLink, stream: Stream, shard: int, slices: dict[int, int]
    ) -> None:
        log = stream.shards[shard].announced
        read_from = {each: max(start, link.positions.effective((shard, each))) for each, start in slices.items()}
        grant = Grant(
            grant=next(self._numbers),
            link=link.wire_id,
            run=self._run(link, stream, shard),
            source=place_of(self._cluster, stream),
            shard=shard,
            destination=self._destination(link, shard),
            forward=link.record.forward,
            data_root=self._data_root,
            prefix=shard_prefix(stream.id, shard),
            slices=slices,
            epochs=log.epochs,
            end=log.end,
            until=_until(link, shard),
            created=_created(link, shard),
            cursors=link.record.told_groups,
            filtered=bool(link.record.brings),
            record_end=bool(link.record.until) and link.record.once is None,
            topic_prefix=link.record.prefix,
            read_from=read_from,
            begin=link.record.begins_at(shard),
        )
        key = (stream.id, shard)
        held = Held(grant.grant, link.record.id, grant.link, grant.run, key, frozenset(slices), reader)
        self._table.add(held)
        link.positions.unread(shard, read_from)
        reader.grant(grant, link.record.brings if grant.filtered else None)

    def _give_repair(
        self, link: RunningLink, stream: Stream, shard: int, partitions: tuple[RepairPartition, ...], *, alone: bool
    ) -> bool:
        free = self._table.free()
        if not free:
            return False
        log = stream.shards[shard].announced
        grant = RepairGrant(
            grant=next(self._numbers),
            link=link.wire_id,
            run=self._run(link, stream, shard),
            source=place_of(self._cluster, stream),
            shard=shard,
            destination=self._destination(link, shard),
            forward=link.record.forward,
            data_root=self._data_root,
            prefix=shard_prefix(stream.id, shard),
            partitions=partitions,
            epochs=log.epochs,
            end=log.end,
            created=_created(link, shard),
            cursors=link.record.told_groups,
            topic_prefix=link.record.prefix,
            begin=link.record.begins_at(shard),
        )
        key = (stream.id, shard)
        slices = frozenset(slice_of_number(each.number) for each in partitions) if alone else frozenset()
        held = Held(grant.grant, link.record.id, grant.link, grant.run, key, slices, free[0], repair=True)
        self._table.add(held)
        free[0].repair(grant)
        return True

    def _run(self, link: RunningLink, stream: Stream, shard: int) -> GrantRun:
        return self.runs.next(link.wire_id, shard, stream.shards[shard].announced.epochs[-1].number)

    def _destination(self, link: RunningLink, shard: int) -> StreamPlace:
        """Where the frames of a link's shard go; the URLs begin with the one whose turn it is."""
        replica = link.record.replica_path
        told = () if link.answer is None else named(link.answer.urls.get(shard, ()))
        urls = link.gateways.in_turn(told or urls_of(self._cluster, link.record))
        return StreamPlace(replica.cluster or "", replica.path, link.record.replica_stream or b"", urls)


def _until(link: RunningLink, shard: int) -> int | None:
    until = link.record.until
    return until[shard] if until else None


def _created(link: RunningLink, shard: int) -> int | None:
    created = link.record.created
    return created[shard] if shard < len(created) else None


def _turn(partitions: tuple[RepairPartition, ...], after: tuple[int, int]) -> tuple[RepairPartition, ...]:
    """Those of a repair, which follow the last one of the repair before: of what cannot be repaired as many may be
    behind for ever, and the others come all the same."""
    if len(partitions) <= REPAIRED_AT_ONCE:
        return partitions
    ordered = sorted(partitions, key=lambda each: (_place(each) <= after, _place(each)))
    return tuple(ordered[:REPAIRED_AT_ONCE])


def _place(partition: RepairPartition) -> tuple[int, int]:
    return partition.number, partition.partition
