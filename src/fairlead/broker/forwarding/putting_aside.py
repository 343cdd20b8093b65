"""Where a client's batch goes in a stream that passes writes on: to the owner, aside, or nowhere.

In: a checked batch and its topic, which may be ours by now. Out: its way (`known.Way`), and what was put aside. Always
true: what decides is read and noted without a pause in between, so two connections of one producer do not part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from fairlead.broker.forwarding.known import End, Key, KnownProducers, Way
from fairlead.broker.topics.topics import Found
from fairlead.broker.traffic import Traffic
from fairlead.model.errors import BadRequest, FairleadError, StorageUnavailable, TryAgain, another
from fairlead.protocol.batch import NO_PRODUCER, BatchHeader, CheckedBatch
from fairlead.streamlog.requests.pending import (
    Place,
    Standing,
    behind,
    close,
    is_pending_of,
    names,
    put_aside,
    standing,
)
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard


class Route(NamedTuple):
    """Where a batch goes."""

    way: Way
    place: Place | None = None
    """Where it is put aside."""


class AsideBatch(NamedTuple):
    """A batch that is put aside."""

    found: Found
    partition: int
    batch: CheckedBatch
    route: Route


AsideOutcome = bool | FairleadError
"""Whether it was there already, or why it was not put aside."""
_PLAIN = Route(Way.TO_OWNER)


class PuttingAside:
    """Of one server."""

    def __init__(self, known: KnownProducers, traffic: Traffic) -> None:
        self._known = known
        self._traffic = traffic
        self._closing: set[asyncio.Future[None]] = set()

    def route(self, found: Found, partition: int, header: BatchHeader, *, cut_off: bool | None) -> Route:
        """Where a batch goes that has come. `cut_off`: the owner cannot be reached, and the stream puts writes aside;
        None: nobody knows.

        Raises:
            TryAgain: first what was put aside must be done with.
            OutOfOrderSequence: what follows the batch was put aside.
        """
        if header.producer_id == NO_PRODUCER:
            return Route(Way.ENTERS, _place_of(found)[0]) if cut_off else _PLAIN
        place, pending = _place_of(found)
        shard = found.stream.shard_for(place.name)
        stands = Standing.ELSEWHERE if pending is None else standing(shard.state, pending, partition, header)
        copy = found.shard.state.producer(found.topic.number, partition, header.producer_id)
        way = self._known.way(_key(found, partition, header), header, stands, copy, cut_off=cut_off)
        if way is Way.BEHIND and pending is not None:
            raise behind(pending, header)
        if way is Way.CLOSE and pending is not None:
            self._close(shard, pending.number, partition)
            raise TryAgain(f"{pending.name} is being closed, then writes go to the owner of {found.topic.name} again")
        if way is Way.WAIT:
            raise TryAgain(f"batches of this producer are on their way to {place.name}")
        return Route(way, place)

    def _close(self, shard: Shard, number: int, partition: int) -> None:
        closing = shard.submit(partial(close, number=number, partition=partition))
        self._closing.add(closing)
        closing.add_done_callback(self._closed)

    def _closed(self, closing: asyncio.Future[None]) -> None:
        self._closing.discard(closing)
        if not closing.cancelled():
            closing.exception()  # whoever comes next closes it, or meets the same

    def passes_on(self, found: Found, partition: int, header: BatchHeader) -> None:
        """A batch is on its way to the owner."""
        if header.producer_id != NO_PRODUCER:
            self._known.begins(_key(found, partition, header), header, aside=False)

    def passed_on(self, found: Found, partition: int, header: BatchHeader, end: End) -> None:
        """That is what has become of it."""
        if header.producer_id != NO_PRODUCER:
            self._known.ends(_key(found, partition, header), header, end, aside=False)

    def put(self, batches: Sequence[AsideBatch]) -> asyncio.Future[Sequence[AsideOutcome]]:
        """Put batches aside, all of them in the same shard."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Sequence[AsideOutcome]] = loop.create_future()
        for each in batches:
            if each.batch.header.producer_id != NO_PRODUCER:
                key = _key(each.found, each.partition, each.batch.header)
                self._known.begins(key, each.batch.header, aside=True)
        size_bytes = sum(len(each.batch.data) for each in batches)
        written = shard_of(batches[0]).submit(lambda draft: [_put(draft, each) for each in batches], size_bytes)
        written.add_done_callback(partial(self._written, batches, done))
        return done

    def _written(
        self,
        batches: Sequence[AsideBatch],
        done: asyncio.Future[Sequence[AsideOutcome]],
        written: asyncio.Future[list[AsideOutcome]],
    ) -> None:
        error = written.exception()
        assert error is None or isinstance(error, FairleadError), error
        outcomes = written.result() if error is None else [another(error) for _ in batches]
        for each, outcome in zip(batches, outcomes, strict=True):
            header = each.batch.header
            if header.producer_id != NO_PRODUCER:
                self._known.ends(_key(each.found, each.partition, header), header, _end(outcome), aside=True)
            if outcome is False:
                self._traffic.put_aside_batches += 1
                self._traffic.put_aside_bytes += len(each.batch.data)
                _tell(each)
        if not done.done():
            done.set_result(outcomes)


def _tell(each: AsideBatch) -> None:
    """The server's log says that writes are put aside."""
    assert each.route.place is not None
    told = each.found.stream.owner_log
    told.put_aside(each.found.topic.name, each.route.place.name, each.batch.header.record_count)


def shard_of(batch: AsideBatch) -> Shard:
    """The log of the pending topic."""
    assert batch.route.place is not None
    return batch.found.stream.shard_for(batch.route.place.name)


def _key(found: Found, partition: int, header: BatchHeader) -> Key:
    return found.topic.incarnation, partition, header.producer_id


def _put(draft: Draft, each: AsideBatch) -> AsideOutcome:
    assert each.route.place is not None
    enters = each.route.way is Way.ENTERS
    request = partial(put_aside, place=each.route.place, partition=each.partition, batch=each.batch, enters=enters)
    try:
        return draft.run(request)
    except FairleadError as error:
        return another(error)


def _end(outcome: AsideOutcome) -> End:
    """A commit whose outcome the storage did not tell may be there after a restart: until then nobody knows."""
    if isinstance(outcome, bool):
        return End.APPENDED
    if isinstance(outcome, StorageUnavailable):
        return End.UNKNOWN
    return End.NOT_DONE if isinstance(outcome, TryAgain | BadRequest) else End.UNKNOWN


def _place_of(found: Found) -> tuple[Place, Topic | None]:
    """Where batches for a topic are put aside, and the pending topic if there is one."""
    stream, topic = found.stream, found.topic
    first, second = names(topic.name, topic.incarnation, stream.cluster)
    known = stream.find_topic(first)
    name = first if known is None or is_pending_of(known[1], topic, stream.cluster) else second
    if name is second:
        known = stream.find_topic(second)
    place = Place(topic, name, stream.cluster, stream.global_path, stream.partitions_max(name))
    return place, None if known is None else known[1]
