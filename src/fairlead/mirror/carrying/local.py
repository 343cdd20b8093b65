"""Partitions carried in this process: some streams of each source, and the producers of the mirror itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any

from fairlead.mirror.bytes.handled import Handler
from fairlead.mirror.carrying.copying import Copy
from fairlead.mirror.carrying.engine import Load, Run, Way
from fairlead.mirror.carrying.exact_copy import ExactCopy
from fairlead.mirror.carrying.line import Line
from fairlead.mirror.carrying.making import Maker
from fairlead.mirror.carrying.standing import Standing
from fairlead.mirror.carrying.stream import Carried, Stream
from fairlead.mirror.lanes import LANES, Part, stream_of
from fairlead.mirror.ports import Answer


class LocalCarrier:
    """Of one source."""

    def __init__(
        self,
        way: Way,
        streams: int,
        queue_records: int,
        handler: Handler | None,
        back: Callable[[Copy], None] | None = None,
    ) -> None:
        """`back` hears which partition is to be fetched again from its position, since something of it has failed; it
        may be left to this carrier."""
        self._way = way
        self._back = back or self._fetch_again
        self._wanted = streams
        self._queue_records = queue_records
        self._handler = handler
        self._streams: list[Stream] = []
        self._carried: dict[Part, Carried] = {}
        self._loads: dict[Part, Load] = {}
        self._most: dict[str, int] = {}
        """Topics that take less than they said, and how large batches for them are at most."""
        self._moved = asyncio.Event()

    @property
    def down(self) -> str | None:
        return next((stream.down for stream in self._streams if stream.down is not None), None)

    async def open(self) -> None:
        way = self._way
        await way.destination.open_sender(way.source.id)
        await self.close()  # a start before this one came no further
        self._streams.clear()
        for _ in range(min(self._wanted, LANES)):  # those without a partition get what appears later
            feed = way.source.feed()
            self._streams.append(
                Stream(feed, way.origins, way.destination, way.tally, self._queue_records, self._worry)
            )

    def take(self, load: Load) -> Standing:
        copy = self._copy(load)
        if load.to in self._most:
            copy.prove()
        carried = Carried(copy, self._maker(load), load.part.topic_id, load.begin.offset)
        self._carried[load.part], self._loads[load.part] = carried, load
        self._stream(copy).add(carried)
        return copy

    def _maker(self, load: Load) -> Maker:
        said = load.limits.message_bytes_max
        limits = replace(load.limits, message_bytes_max=min(said, self._most.get(load.to, said)))
        return Maker(load.route, limits, self._stream_of(load.part).buffers, load.part, self._handler)

    def _smaller(self, copy: Copy, size_bytes: int) -> None:
        """Half of what was refused, and less if that is refused too: what the topic takes, need not be asked."""
        self._most[copy.to] = min(size_bytes, self._most.get(copy.to, size_bytes))
        for part, load in self._loads.items():
            if load.to == copy.to:
                self._carried[part].maker = self._maker(load)
                self._carried[part].copy.prove()

    def _copy(self, load: Load) -> Copy:
        way, lanes = self._way, self._way.destination.lanes
        given, line = (load.part, load.to, load.begin), None if load.route.by_key else Line(load.begin)
        if lanes is None:
            senders = way.destination.sender
            return Copy(*given, senders, way.tally, self._heard, load.end, line, self._back, self._smaller)
        lane = lanes.of(load.part)
        return ExactCopy(*given, lane, way.tally, self._heard, load.end, self._back, line, self._smaller)

    def _fetch_again(self, copy: Copy) -> None:
        self._stream(copy).back(self._carried[copy.part])

    def again(self, standing: Standing, offset: int) -> None:
        carried = self._carried[standing.part]
        self._stream(standing).again(carried, offset)

    def remove(self, standing: Standing) -> None:
        assert isinstance(standing, Copy)
        self._stream(standing).remove(standing)

    def resume(self, standing: Standing) -> None:
        self._stream(standing).add(self._carried[standing.part])

    def pause(self, paused: bool) -> None:
        for stream in self._streams:
            stream.pause(paused)

    async def look(self) -> bool:
        """It is known all the time."""
        return True

    async def leave(self, standing: Standing) -> None:
        """What is in a transaction is committed or forgotten then: who takes the partition again begins behind it."""
        self.remove(standing)
        while isinstance(standing, ExactCopy) and not standing.idle:
            await self._next_move()

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return [stream.run() for stream in self._streams]

    async def drain(self) -> None:
        for carried in self._carried.values():
            while not carried.copy.at_rest:
                await self._next_move()

    async def close(self) -> None:
        for stream in self._streams:
            await stream.close()

    async def _next_move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def _worry(self, carried: Carried, answer: Answer) -> None:
        await self._way.worry(carried.copy, carried.offset, answer)

    def _heard(self, standing: Standing) -> None:
        assert isinstance(standing, Copy)
        self._stream(standing).heard(standing)
        self._way.moved(standing)
        self._moved.set()

    def _stream(self, standing: Standing) -> Stream:
        return self._stream_of(standing.part)

    def _stream_of(self, part: Part) -> Stream:
        return self._streams[stream_of(part, len(self._streams))]


class LocalEngine:
    """All in this process and its event loop; what computes goes to threads."""

    def __init__(self, streams: int, queue_records: int, handler: Handler | None) -> None:
        self._given = (streams, queue_records, handler)

    sends_here = True

    async def open(self, run: Run) -> None:
        """Nothing is needed."""

    def carrier(self, way: Way) -> LocalCarrier:
        return LocalCarrier(way, *self._given)

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return ()

    async def close(self) -> None:
        """Nothing is left."""
