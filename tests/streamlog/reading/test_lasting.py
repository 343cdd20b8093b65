"""Replaying many rows at once gives the state that replaying each gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.batches import changed
from tests.support.rows import batch_row, control_row, entry_row

from fairlead.protocol.batch import CONTROL
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.objects import format
from fairlead.streamlog.objects.format import encode, encode_columns, read_whole
from fairlead.streamlog.payloads import (
    CursorPayload,
    ExpiredPayload,
    StartPayload,
    StatePayload,
    TopicDeletedPayload,
    TopicPayload,
    TruncatePayload,
)
from fairlead.streamlog.reading import lasting
from fairlead.streamlog.reading.located import together
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state import effects, snapshot
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import LogObject

OURS, OTHERS = b"a" * 16, b"b" * 16


def lived(seed: int, count: int) -> list[Row]:
    """A log in which few topics see all that can happen to them."""
    chance = random.Random(seed)
    topics, control = chance.randint(1, 3), chance.choice([0.1, 0.3, 1.0])
    made = (_row(chance, place, topics, control) for place in range(count))
    return [row._replace(commit=place // 3, row=place % 3) for place, row in enumerate(made)]


def _row(chance: random.Random, place: int, topics: int, control: float) -> Row:
    """A control row four times in ten, or `control` times as often."""
    topic, partition, action = chance.randrange(topics), chance.randrange(2), chance.random() / control
    fields: dict[str, Any] = {"topic": topic, "appended_at": 1000 + place // 3 + chance.randrange(20)}
    incarnation = bytes([topic]) * 16
    if action < 0.08 or place < topics:
        fields["topic"] = topic = place if place < topics else topic
        owner = chance.choice([OURS, OURS, OTHERS])
        named = TopicPayload(f"t{topic}", bytes([topic]) * 16, 2, owner, chance.randrange(3), place)
        return control_row(Kind.TOPIC, payloads.encode(named), **fields)
    if action < 0.1:
        gone = TopicDeletedPayload(f"t{topic}", incarnation, chance.random() < 0.5)
        return control_row(Kind.TOPIC_DELETED, payloads.encode(gone), **fields)
    if action < 0.18:
        offset = chance.randrange(2 * place + 1)
        gap_from = chance.choice([None, offset // 2])
        start = StartPayload("link", offset, ((0, 0), (chance.randrange(1, 4), offset // 2)), gap_from)
        return control_row(Kind.START, payloads.encode(start), partition=partition, base_offset=offset, **fields)
    if action < 0.24:
        cursor = CursorPayload("g", chance.choice([None, 5]), 0, "", 1, 1)
        kind = chance.choice([Kind.CURSOR, Kind.COMMITTED])
        return control_row(kind, payloads.encode(cursor), partition=partition, **fields)
    if action < 0.3:
        return _cut(chance, partition, 2 * place, **fields)
    if action < 0.34:
        expired, offset = payloads.encode(ExpiredPayload()), chance.randrange(2 * place + 1)
        return control_row(Kind.EXPIRED, expired, partition=partition, base_offset=offset, **fields)
    if action < 0.36:
        said = StatePayload(chance.choice(["one", "two"]), chance.choice([None, place]))
        return control_row(Kind.STATE, payloads.encode(said), **fields)
    if action < 0.4:
        return entry_row("key", place)._replace(appended_at=fields["appended_at"])
    row = batch_row(offset=2 * place, count=chance.randrange(1, 3), partition=partition, **fields)
    row = row._replace(epoch=chance.choice([0, 0, 0, 1, 2, chance.randrange(4)]))
    producer, producer_epoch = chance.choice([-1, 7, 7, 8]), chance.choice([0, 0, 0, 1])
    data = changed(bytes(row.batch), producer_id=producer, producer_epoch=producer_epoch, base_sequence=place)
    return row._replace(batch=chance.choice([data, data, data, b""]), bits=chance.choice([0, 0, 0, CONTROL]))


def _cut(chance: random.Random, partition: int, end: int, **fields: Any) -> Row:
    """What stood from some offset on is dead, or what that kept was copied. Records of the same epoch may follow."""
    keep, forgets = chance.choice([None, b"k" * 16]), chance.choice([None, (), (7,), (7, 8)])
    if keep is not None and chance.random() < 0.3:
        copied = TruncatePayload("copied", 0, keep, ())
        return control_row(Kind.TRUNCATE, payloads.encode(copied), partition=partition, **fields)
    cut = payloads.encode(TruncatePayload("ownership", 3, keep, forgets))
    return control_row(Kind.TRUNCATE, cut, partition=partition, base_offset=chance.randrange(end + 1), **fields)


def tables(state: ShardState) -> dict[str, Any]:
    """All of a state, where its dicts have no order."""
    found, meta = snapshot.dump(state)
    plain = {name: table.tolist() if isinstance(table, np.ndarray) else list(table) for name, table in found.items()}
    for name in ("producer", "producer.batch"):
        del plain[name]
    return {**plain, **meta, "producers": dict(state.producers.items())}


def one_by_one(rows: list[Row]) -> ShardState:
    state = ShardState(OURS)
    for row in rows:
        effects.replay(state, row)
    return state


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(3, 200), st.integers(0, 5))
def test_the_state_is_the_same(seed: int, count: int, cuts: int) -> None:
    """Whatever the rows, and wherever they are cut into several replays."""
    rows = lived(seed, count)
    state = ShardState(OURS)
    places = sorted(random.Random(seed).randrange(count) for _ in range(cuts))
    for first, end in zip([0, *places], [*places, count], strict=True):
        part = rows[first:end]
        if part:
            data = b"".join(bytes(memoryview(piece)) for piece in encode(part))
            lasting.replay_rows(MemoryStorage(), state, together([read_whole(data)]))
    assert tables(state) == tables(one_by_one(rows))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**9), st.integers(3, 200), st.integers(0, 40), st.sampled_from([0, 100, 10**6]))
def test_out_of_segments_too(seed: int, count: int, from_commit: int, loaded_bytes: int) -> None:
    """Their rows are sorted by topic, and only those from a commit on count."""
    rows = lived(seed, count)
    storage = MemoryStorage()
    whole = read_whole(b"".join(bytes(memoryview(piece)) for piece in encode(rows)))
    end = rows[-1].commit + 1
    objects = []
    for name, chosen in (("data", whole.kind == Kind.BATCH), ("control", whole.kind != Kind.BATCH)):
        part = whole.take(np.flatnonzero(chosen))
        part = part.take(np.lexsort((part.row, part.commit, part.partition, part.topic)))
        pieces = [part.batch(place) for place in range(len(part))]
        storage.put_if_absent(name, encode_columns(part, pieces, name=name, object_kind="segment", first=0, end=end))
        objects.append(LogObject(name, 0, end, segment=True))
    before = [row for row in rows if row.commit < from_commit]
    state = one_by_one(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(format, "READ_WHOLE_BYTES", 0)
        patch.setattr(lasting, "LOAD_BYTES", max(loaded_bytes, 1))
        lasting.replay_segments(storage, state, objects, from_commit)
    assert tables(state) == tables(one_by_one(rows))


def test_of_many_batches_few_are_replayed() -> None:
    """The first and the last of a partition, and of a producer as many as are remembered."""
    rows = [batch_row(topic=place % 2, offset=place, row=place) for place in range(1000)]
    storage = MemoryStorage()
    storage.put_if_absent("segment", encode(rows, name="segment"))
    replayed: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effects, "replay", lambda _, row: replayed.append(row.row))
        lasting.replay_segments(storage, ShardState(OURS), [LogObject("segment", 0, 1, segment=True)], 0)
    assert sorted(replayed) == [0, 1, 998, 999]
