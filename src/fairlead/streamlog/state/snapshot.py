"""A shard's state as tables, and back: what a checkpoint holds. `checkpoint.py` gives them bytes.

Topics that are gone leave nothing: slots are packed anew. Large parts are arrays; the rest is JSON.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog import payloads
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.numbers import masks_alike, slices_of_mask
from fairlead.streamlog.payloads import PositionPayload
from fairlead.streamlog.state.effects import Note, Tombstone, cursor_of, payload_of_cursor, payload_of_note
from fairlead.streamlog.state.keyed import Kept
from fairlead.streamlog.state.producers import ProducerBatch, ProducerState
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.state.transactions import Aborted, Transactions
from fairlead.streamlog.values import Behind, Cut, Gap, GrantRun, LinkPosition, PartitionKey, Since, Topic

SNAPSHOT_VERSION = 4
_THEIRS = -1
"""In the place of the version that was published, of a cursor that came over a link."""
Tables = dict[str, Any]
"""Arrays, and lists of texts or of bytes, by name."""
_TOPIC_COLUMNS = ("number", "count", "epoch", "version", "owner", "owner_at")
_PARTITION_COLUMNS = ("start", "end", "epoch", "epoch_first")


def dump(state: ShardState) -> tuple[Tables, dict[str, Any]]:
    """Tables and JSON of a state."""
    numbers = np.flatnonzero(np.array(state.topic_table.slot, np.int64) >= 0)
    tables: Tables = {}
    _dump_topics(state, numbers, tables)
    older = _dump_partitions(state, numbers, tables)
    _dump_producers(state, tables)
    _dump_tombstones(state, tables)
    _dump_cursors(state, tables)
    tables["positions"] = [payloads.encode(payload) for payload in _position_payloads(state)]
    tables["notes"] = [payloads.encode(payload_of_note(key[0], note)) for key, note in state.all_notes().items()]
    _dump_kept(state, tables)
    configs = {int(n): dict(c) for n, c in state.topic_table.configs.items()}
    return tables, {
        "version": SNAPSHOT_VERSION,
        "appended_at": state.appended_at_last,
        "counters": list(state.next_counter),
        "configs": sorted(configs.items()),
        "homes": sorted(state.topic_table.homes.items()),
        "since": sorted(state.topic_table.since.items()),
        "deleted_before": sorted(state.topic_table.deleted_to.items()),
        "ext": [[number, dict(found)] for number, found in sorted(state.topic_table.ext.items())],
        "older": older,
        "gaps": [[*key, [[g.topic, g.start, g.end, g.reason] for g in gaps]] for key, gaps in state.gap_items()],
        "deleted_to": [[*key, offset] for key, offset in sorted(state.deleted_to().items())],
        "cuts": [[*key, [_cut_row(cut) for cut in cuts]] for key, cuts in state.cut_items()],
        "handed_on": sorted(state.handed_on),
        "yielded": sorted(state.yielded.items()),
        "entries": dict(state.entries),
        "transactions": [list(each) for each in state.partition_transactions.items()],
        "topic_states": [list(each) for each in state.topic_states.items()],
    }


def load(stream_id: bytes, tables: Mapping[str, Any], meta: Mapping[str, Any]) -> ShardState:
    """The state that was dumped.

    Raises:
        ValueError: these are no state's tables, or have a version that this program does not know.
        KeyError: a table is missing.
    """
    if meta["version"] != SNAPSHOT_VERSION:
        raise ValueError(f"state of version {meta['version']}; this program reads version {SNAPSHOT_VERSION}")
    state = ShardState(stream_id)
    state.appended_at_last = meta["appended_at"]
    _load_partitions(state, tables)
    _load_topics(state, tables, meta)
    _load_older(state, tables, meta["older"])
    _load_producers(state, tables)
    _load_tombstones(state, tables)
    _load_cursors(state, tables)
    _load_links(state, tables)
    _load_kept(state, tables)
    for number, partition, (begun, aborted) in meta["transactions"]:
        found = Transactions(tuple((each, first) for each, first in begun), tuple(Aborted(*each) for each in aborted))
        state.put_transactions(number, partition, found)
    for number, key, value in meta["topic_states"]:
        state.put_topic_state(number, key, value)
    for number, partition, gaps in meta["gaps"]:
        for topic, start, end, reason in gaps:
            state.put_gap(number, partition, Gap(topic, partition, start, end, reason))
    for number, partition, offset in meta["deleted_to"]:
        known = state.partition(number, partition)
        state.put_partition(number, partition, known._replace(deleted_to=offset))
    for number, partition, cuts in meta["cuts"]:
        for row in cuts:
            state.load_cut(number, partition, _cut(row))
    state.handed_on.update(meta["handed_on"])
    state.yielded.update(dict(meta["yielded"]))
    for key, value in meta["entries"].items():
        state.put_entry(key, value)
    state.next_counter[:] = meta["counters"]
    return state


def _cut_row(cut: Cut) -> list[Any]:
    keep = None if cut.keep is None else cut.keep.hex()
    return [cut.offset, cut.commit, cut.row, cut.by_epoch, keep, cut.history]


def _cut(row: Sequence[Any]) -> Cut:
    offset, commit, place, by_epoch, keep, history = row
    known = None if keep is None else bytes.fromhex(keep)
    return Cut(offset, commit, place, by_epoch, known, tuple((epoch, first) for epoch, first in history))


def _dump_topics(state: ShardState, numbers: NDArray[np.int64], tables: Tables) -> None:
    table = state.topic_table
    live = numbers.tolist()
    owners = {owner: place for place, owner in enumerate(dict.fromkeys(table.owners[n] for n in live))}
    tables["topic.number"] = numbers
    for name in ("count", "epoch", "version"):
        tables[f"topic.{name}"] = np.array(getattr(table, name), np.int32)[numbers]
    tables["topic.name"] = [table.names[n] for n in live]
    tables["topic.incarnation"] = [table.incarnations[n] for n in live]
    tables["topic.owner"] = np.array([owners[table.owners[n]] for n in live], np.int32)
    tables["owners"] = list(owners)
    places = {place: number for number, place in enumerate(dict.fromkeys(table.owner_places[n] for n in live))}
    tables["topic.owner_at"] = np.array([places[table.owner_places[n]] for n in live], np.int32)
    tables["owner_places"] = list(places)


def _load_topics(state: ShardState, tables: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    numbers, counts = tables["topic.number"], tables["topic.count"]
    owners, places = tables["owners"], tables["owner_places"]
    columns = (tables[f"topic.{name}"].tolist() for name in _TOPIC_COLUMNS)
    state.topic_table.reserve(int(numbers[-1]) + 1 if len(numbers) else 0)
    slots = (np.cumsum(counts) - counts).tolist()
    ids = zip(tables["topic.name"], tables["topic.incarnation"], strict=True)
    configs, homes = dict(meta["configs"]), dict(meta["homes"])
    ext, deleted_to = dict(meta["ext"]), dict(meta["deleted_before"])
    since = {number: _since(found) for number, found in meta["since"]}
    for slot, (number, count, epoch, version, owner, place), (name, incarnation) in zip(
        slots, zip(*columns, strict=True), ids, strict=True
    ):
        topic = Topic(
            number,
            name,
            incarnation,
            count,
            owners[owner],
            epoch,
            configs.get(number, {}),
            version,
            homes.get(number, name),
            places[place],
            since.get(number, ()),
            ext.get(number, {}),
            tuple(deleted_to.get(number, ())),
        )
        state.load_topic(topic, slot)


def _since(found: Sequence[Any]) -> Since:
    return tuple((start, tuple((epoch, first) for epoch, first in history)) for start, history in found)


def _slots(state: ShardState, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The slots of all partitions of these topics, in order."""
    firsts = np.array(state.topic_table.slot, np.int64)[numbers]
    counts = np.array(state.topic_table.count, np.int64)[numbers]
    before = np.cumsum(counts) - counts
    found: NDArray[np.int64] = np.repeat(firsts - before, counts) + np.arange(int(counts.sum()))
    return found


def _dump_partitions(state: ShardState, numbers: NDArray[np.int64], tables: Tables) -> list[Any]:
    slots = _slots(state, numbers)
    table = state.partition_table
    for name in _PARTITION_COLUMNS:
        tables[f"partition.{name}"] = np.array(getattr(table, name))[slots]
    if not table.older:
        return []
    places = {int(slot): place for place, slot in enumerate(slots.tolist()) if slot in table.older}
    return [[place, table.older[slot]] for slot, place in places.items()]


def _load_partitions(state: ShardState, tables: Mapping[str, Any]) -> None:
    for name in _PARTITION_COLUMNS:
        column: array[int] = getattr(state.partition_table, name)
        column.frombytes(np.ascontiguousarray(tables[f"partition.{name}"]).tobytes())


def _load_older(state: ShardState, tables: Mapping[str, Any], older: Sequence[Any]) -> None:
    for place, history in older:
        state.partition_table.older[place] = tuple((epoch, first) for epoch, first in history)


def _dump_producers(state: ShardState, tables: Tables) -> None:
    items = list(state.producers.items())
    heads = [(*key, s.epoch, s.last_at_ms, len(s.batches)) for key, s in items]
    batches = [tuple(batch) for _, s in items for batch in s.batches]
    tables["producer"] = np.array(heads, np.int64).reshape(-1)
    tables["producer.batch"] = np.array(batches, np.int64).reshape(-1)


def _load_producers(state: ShardState, tables: Mapping[str, Any]) -> None:
    batches = iter(tables["producer.batch"].reshape(-1, 3).tolist())
    for number, partition, producer_id, epoch, last_at, count in tables["producer"].reshape(-1, 6).tolist():
        kept = tuple(ProducerBatch(*next(batches)) for _ in range(count))
        state.put_producer(number, partition, producer_id, ProducerState(epoch, last_at, kept))


def _dump_tombstones(state: ShardState, tables: Tables) -> None:
    found = state.tombstones
    tables["tombstone.incarnation"] = list(found)
    tables["tombstone.name"] = [tombstone.name for tombstone in found.values()]
    tables["tombstone.via"] = [tombstone.via or b"" for tombstone in found.values()]
    numbers = [(tombstone.number, tombstone.deleted_at_ms, tombstone.epoch) for tombstone in found.values()]
    tables["tombstone"] = np.array(numbers, np.int64).reshape(-1)


def _load_tombstones(state: ShardState, tables: Mapping[str, Any]) -> None:
    numbers = tables["tombstone"].reshape(-1, 3).tolist()
    ids = zip(tables["tombstone.incarnation"], tables["tombstone.via"], strict=True)
    for (incarnation, via), name, (number, at, epoch) in zip(ids, tables["tombstone.name"], numbers, strict=True):
        state.remove_topic(incarnation, Tombstone(number, name, at, via or None, epoch), remember=True)


def _dump_cursors(state: ShardState, tables: Tables) -> None:
    found: list[tuple[str, PartitionKey, Cursor, int]] = []
    for group, key, (own, theirs, published) in state.cursor_table.all():
        found += [(group, key, own, published)] if own is not None else []
        found += [(group, key, theirs, _THEIRS)] if theirs is not None else []
    tables["cursor"] = [payloads.encode(payload_of_cursor(group, c)) for group, _, c, _ in found]
    tables["cursor.partition"] = np.array([key for _, key, _, _ in found], np.int64).reshape(-1)
    tables["cursor.origin"] = [c.origin for _, _, c, _ in found]
    tables["cursor.at"] = np.array([(c.at, published) for _, _, c, published in found], np.int64).reshape(-1)


def _load_cursors(state: ShardState, tables: Mapping[str, Any]) -> None:
    keys = tables["cursor.partition"].reshape(-1, 2).tolist()
    decoded = [payloads.decode_cursor(data) for data in tables["cursor"]]
    if "cursor.at" in tables:
        marks, origins = tables["cursor.at"].reshape(-1, 2).tolist(), tables["cursor.origin"]
    else:  # of before cursors were replicated: each is one of our own, and its row is what was to be published
        marks, origins = [(0, c.version) for c in decoded], [state.stream_id] * len(decoded)
    for payload, (number, partition), origin, (at, published) in zip(decoded, keys, origins, marks, strict=True):
        cursor, known = cursor_of(payload, origin, at), state.cursors(payload.group, number, partition)
        if published == _THEIRS:
            known = known._replace(theirs=cursor)
        else:
            known = known._replace(own=cursor, published=published)
        state.put_cursors(payload.group, number, partition, known)


def _position_payloads(state: ShardState) -> Iterator[PositionPayload]:
    """The positions of all links; slices that stand alike are one."""
    found = sorted(state.all_positions().items())
    alike = masks_alike(((link, shard, position), slice) for (link, shard, slice), position in found)
    for (link, shard, p), mask in alike.items():
        yield PositionPayload(link, shard, mask, p.commit, p.epoch_id, p.run.epoch, p.run.counter)


def _dump_kept(state: ShardState, tables: Tables) -> None:
    items = list(state.kept_rows.items())
    tables["kept"] = [kept.data for _, _, kept in items]
    keys = [(number, kind, partition) for number, (kind, partition, _), _ in items]
    tables["kept.key"] = np.array(keys, np.int64).reshape(-1)


def _load_kept(state: ShardState, tables: Mapping[str, Any]) -> None:
    keys = tables["kept.key"].reshape(-1, 3).tolist()
    for data, (number, kind, partition) in zip(tables["kept"], keys, strict=True):
        payload = payloads.decode_kept(data, kind)
        state.put_kept(number, (kind, partition, payload.k), Kept(payload.n, data))


def _load_links(state: ShardState, tables: Mapping[str, Any]) -> None:
    for data in tables["positions"]:
        p = payloads.decode_position(data)
        assert p.commit is not None
        position = LinkPosition(p.commit, p.epoch_id, GrantRun(p.run_epoch, p.run_counter))
        for each in slices_of_mask(p.slices):
            state.put_position((p.link, p.shard, each), position)
    for data in tables["notes"]:
        n = payloads.decode_behind(data)
        assert n.reason is not None
        behind = Behind(n.topic, n.incarnation, n.partition, n.end, n.reason, n.noted_at)
        state.put_note((n.link, n.incarnation, n.partition), Note(behind, n.refused_in, n.create))
