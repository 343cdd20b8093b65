"""Payloads of control rows: read as they were written, or refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fairlead.model.errors import CorruptBatch
from fairlead.streamlog import payloads
from fairlead.streamlog.payloads import EntryPayload, TopicPayload
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.state.shard_state import ShardState


def test_a_payload_of_another_version_is_refused_naming_both() -> None:
    """Its writer knew something that this program does not."""
    data = payloads.encode(EntryPayload("key", 1))
    assert payloads.decode_entry(data) == EntryPayload("key", 1)
    newer = json.dumps({**json.loads(data), "v": 4}).encode()
    with pytest.raises(CorruptBatch, match="ENTRY row of version 4; this program knows version 3"):
        payloads.decode_entry(newer)


def test_a_state_of_another_version_is_refused_naming_both() -> None:
    """The checkpoint that holds it is then passed over."""
    tables, meta = snapshot.dump(ShardState(b"s" * 16))
    this = snapshot.SNAPSHOT_VERSION
    with pytest.raises(ValueError, match=f"state of version {this + 1}; this program reads version {this}"):
        snapshot.load(b"s" * 16, tables, {**meta, "version": this + 1})


def test_a_topic_row_that_was_just_read_is_known() -> None:
    """It is read when it comes, when it is drafted and when it is announced. Long ones are not remembered, since
    thousands of them would take gigabytes; what is refused is refused again."""
    payload = TopicPayload("ships", bytes(16), 1, b"o" * 16, 0, 0, {}, "ships", "/mapr/harbour/ships")
    short, long = (payloads.encode(replace(payload, configs=configs)) for configs in ({}, {"a": "b" * 1000}))
    assert payloads.decode_topic(short) is payloads.decode_topic(memoryview(bytes(short)))
    assert payloads.decode_topic(long) == payloads.decode_topic(long)
    assert payloads.decode_topic(long) is not payloads.decode_topic(long)
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            payloads.decode_topic(short[:-1])
