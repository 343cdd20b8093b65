"""5: what a log says is the same announced commit by commit, replayed after merges, and from a checkpoint on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.properties.model import Site
from tests.streamlog.world import SeededRandomness

from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.writing.writer import ShardLog


def a_log_says_the_same_again(site: Site) -> None:
    """Opened anew, with its checkpoint and without, which is a shortcut only. (Directories are opened anew often.)"""
    if not isinstance(site.storage, MemoryStorage):
        return
    objects = site.storage.snapshot()
    bare = {name: data for name, data in objects.items() if "/checkpoint/" not in name}
    live = dict(_said(site.log.announced.state))
    for how, found in (("with its checkpoint", objects), ("without", bare)):
        again = dict(_said(_opened(site, found).announced.state))
        for what in live.keys() | again.keys():
            assert live.get(what) == again.get(what), (
                f"{site.name}: {what} is {live.get(what)}, and opened {how} {again.get(what)}"
            )


def _opened(site: Site, objects: dict[str, bytes]) -> ShardLog:
    storage = MemoryStorage()
    storage.replace(objects)
    return ShardLog.open(
        storage, "x", stream_id=site.stream_id, clock=site.clock, randomness=SeededRandomness(len(objects))
    )


def _said(state: ShardState) -> Iterator[tuple[Any, Any]]:
    """What a state says of topics, partitions, cuts, gaps, notes, cursors and producers. Of these it remembers batches
    that are gone, also with a deleted topic, until they expire; a merge drops them."""
    for topic in state.topics():
        yield ("topic", topic.name), topic
        for partition in range(topic.partitions):
            yield ("partition", topic.name, partition), state.partition(topic.number, partition)
            yield ("cuts", topic.name, partition), state.cuts_of(topic.number, partition)
            yield ("gaps", topic.name, partition), sorted(map(repr, state.gaps_of(topic.number, partition)))
    for (number, partition, producer), known in state.producers.items():
        start = state.partition(number, partition).start
        kept = tuple(batch for batch in known.batches if batch.base_offset >= start)
        if kept and state.topic(number) is not None:
            yield ("producer", number, partition, producer), known._replace(batches=kept)
    for group, (number, partition), cursors in state.cursor_table.all():
        yield ("cursors", group, number, partition), cursors
    for key, note in state.all_notes().items():
        yield ("note", key), note
