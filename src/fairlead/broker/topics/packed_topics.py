"""Metadata of all topics of streams, kept packed: a run of topic numbers is packed once and again after a change.

A topic's number and incarnation never change; its slots move when it gets partitions or goes, its epoch changes with
its owner, its name seldom. So the slots, epochs and names of a run of numbers say whether the packed bytes still hold;
with them the epochs of the partitions of those topics that a Kafka cluster owns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from fairlead.broker.node import NODE_ID
from fairlead.broker.pacing import Pace
from fairlead.cluster.stream import Stream
from fairlead.protocol.metadata import TOPIC_IDS_FROM, Epochs
from fairlead.protocol.metadata import topic as pack_topic
from fairlead.streamlog.writing.shard import Shard

RUN = 256
"""Topic numbers packed together."""
_SLICE_SECONDS = 0.001
_REST_SECONDS = 0.002
"""A million topics take one second to pack the first time, with ids two; twice that is for others. With halves, a
produce every 5 ms fell behind by 60 ms while somebody made thousands of topics."""
_LAYOUTS = (0, 1, 5, 7, 8, 9, 10)
"""Versions of Metadata that changed how a topic is packed; 11 to 13 pack it as 10."""
_LAYOUTS_KEPT = 2
"""Layouts kept for one shard: clients of one site are mostly of one kind, and a million topics take 90 MB."""


class _Run(NamedTuple):
    slots: bytes
    epochs: bytes
    names: list[str | None]
    raised: dict[int, Epochs]
    """By number, of topics of Kafka clusters."""
    topics: int
    packed: bytes


_Runs = dict[int, _Run]


class _Place(NamedTuple):
    """A run of a shard's topics, and what stands before their names."""

    stream: Stream
    shard: Shard
    prefix: str
    first: int


class PackedTopics:
    """The packed topics of the shards of a cluster, by the names that one listener has for them."""

    def __init__(self) -> None:
        self._shards: WeakKeyDictionary[Shard, dict[tuple[int, str], _Runs]] = WeakKeyDictionary()
        self._packing = asyncio.Lock()
        """One at a time: the work of one is what the others wait for, and between its slices nobody else packs."""

    async def all(self, streams: Mapping[Stream, str], version: int) -> tuple[int, list[bytes]]:
        """How many topics the streams have, and their packed bytes in pieces, as they were at some moment each. Each
        stream has what stands before the names of its topics."""
        layout = max(layout for layout in _LAYOUTS if layout <= version)
        count = 0
        pieces: list[bytes] = []
        async with self._packing:
            pace = Pace(_SLICE_SECONDS, _REST_SECONDS)
            for stream, prefix, shard in ((a, prefix, b) for a, prefix in streams.items() for b in a.shards):
                runs = self._runs(shard, (layout, prefix))
                for first in range(0, len(shard.state.topic_table.slot), RUN):
                    run = await _current(_Place(stream, shard, prefix, first), layout, runs, pace)
                    count += run.topics
                    pieces.append(run.packed)
                    await pace.turn()
        return count, pieces

    def _runs(self, shard: Shard, layout: tuple[int, str]) -> _Runs:
        layouts = self._shards.setdefault(shard, {})
        runs = layouts.pop(layout, {})
        layouts[layout] = runs
        while len(layouts) > _LAYOUTS_KEPT:
            del layouts[next(iter(layouts))]
        return runs


async def _current(place: _Place, layout: int, runs: _Runs, pace: Pace) -> _Run:
    table, first = place.shard.state.topic_table, place.first
    slots = table.slot[first : first + RUN].tobytes()
    epochs = table.epoch[first : first + RUN].tobytes()
    names = table.names[first : first + RUN]
    raised = {each: table.leader_epochs(each) for each in range(first, first + RUN) if each in table.of_kafka}
    run = runs.get(first)
    if run is None or (run.slots, run.epochs, run.names, run.raised) != (slots, epochs, names, raised):
        packed = await _pack(place, layout, raised, pace)
        run = runs[first] = _Run(slots, epochs, names, raised, len(packed), b"".join(packed))
    return run


async def _pack(place: _Place, layout: int, raised: Mapping[int, Epochs], pace: Pace) -> list[bytes]:
    """The topics of a run as they are at the call. By columns: a `Topic` takes longer to make than to pack."""
    stream, shard, prefix, first = place
    table, numbers = shard.state.topic_table, slice(first, first + RUN)
    columns = (table.names[numbers], table.incarnations[numbers], table.count[numbers], table.epoch[numbers])
    packed: list[bytes] = []
    for number, (name, incarnation, partitions, epoch) in enumerate(zip(*columns, strict=True), first):
        if name is None or incarnation is None:
            continue
        topic_id = stream.id_of(shard, number, incarnation) if layout >= TOPIC_IDS_FROM else b""
        epochs = raised.get(number, epoch)
        packed.append(pack_topic(layout, NODE_ID, prefix + name, topic_id, partitions, epochs))
        await pace.turn()  # here, since a topic of 4,096 partitions takes as long as a thousand small ones
    return packed
