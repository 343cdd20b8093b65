"""5: what a log says is the same announced commit by commit, replayed after merges, and from a checkpoint on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.properties.model import Site
from tests.streamlog.world import SeededRandomness, rows_of

from fairlead.storage import names
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.reading.announced import AnnouncedLog
from fairlead.streamlog.state import effects
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.writing.writer import ShardLog


def a_log_says_at_once_what_it_says_again(site: Site) -> None:
    """At every step: what was announced is replayed row by row; what was merged, swept or opened again, as a whole and
    without its checkpoint."""
    if not isinstance(site.storage, MemoryStorage):
        return
    end = site.log.announced.end
    if site.changed or site.replayed is None:
        bare = {name: data for name, data in _objects(site).items() if "/checkpoint/" not in name}
        again = _opened(site, bare)
        _is_the_same(site, again.state, "opened without its checkpoint")
        site.replayed = again.state, again.end
    elif site.replayed[1] < end:
        state, before = site.replayed
        with site.storage.faults.held_off():
            for row in rows_of(site.log, before, end):
                effects.replay(state, row)
        _is_the_same(site, state, "replayed")
        site.replayed = state, end


def a_log_says_the_same_again(site: Site) -> None:
    """The same, and opened anew with its checkpoint, which is a shortcut only. (Directories are opened anew often.)"""
    if isinstance(site.storage, MemoryStorage):
        a_log_says_at_once_what_it_says_again(site)
        _is_the_same(site, _opened(site, _objects(site)).state, "opened with its checkpoint")


def _objects(site: Site) -> dict[str, bytes]:
    """What is stored, but for a manifest of which the site does not know that it is there: it goes on without it."""
    ruling = site.log.announced.manifest
    manifests = names.manifests_of(ruling.prefix)
    objects = site.storage.snapshot().items()
    return {name: data for name, data in objects if not name.startswith(manifests) or name <= ruling.name}


def _is_the_same(site: Site, again: ShardState, how: str) -> None:
    live, found = dict(_said(site.log.announced.state)), dict(_said(again))
    for what in live.keys() | found.keys():
        assert live.get(what) == found.get(what), (
            f"{site.name}: {what} is {live.get(what)}, and {how} {found.get(what)}"
        )


def _opened(site: Site, objects: dict[str, bytes]) -> AnnouncedLog:
    storage = MemoryStorage()
    storage.replace(objects)
    return ShardLog.open(
        storage, "x", stream_id=site.stream_id, clock=site.clock, randomness=SeededRandomness(len(objects))
    ).announced


def _said(state: ShardState) -> Iterator[tuple[Any, Any]]:
    """What a state says of topics, deleted ones, partitions, cuts, gaps, positions, notes, cursors and producers. Of
    them it remembers batches that are gone, also with a deleted topic, until they expire; a merge drops them."""
    for topic in state.topics():
        yield ("topic", topic.name), topic
        for partition in range(topic.partitions):
            yield ("partition", topic.name, partition), state.partition(topic.number, partition)
            yield ("cuts", topic.name, partition), state.cuts_of(topic.number, partition)
            yield ("gaps", topic.name, partition), sorted(map(repr, state.gaps_of(topic.number, partition)))
        yield ("was ours", topic.name), state.was_ours(topic.number)
    for (number, partition, producer), known in state.producers.items():
        start = state.partition(number, partition).start
        kept = tuple(batch for batch in known.batches if batch.base_offset >= start)
        if kept and state.topic(number) is not None:
            yield ("producer", number, partition, producer), known._replace(batches=kept)
    for group, (number, partition), cursors in state.cursor_table.all():
        yield ("cursors", group, number, partition), cursors
    for incarnation, tombstone in state.tombstones.items():
        yield ("tombstone", incarnation), tombstone
    for key, note in state.all_notes().items():
        yield ("note", key), note
    for at, position in state.all_positions().items():
        yield ("position", at), position
    for number, what, value in state.topic_states.items():
        yield ("state", number, what), value
    for name, value in state.entries.items():
        yield ("entry", name), value
