"""Payloads of control rows: read as they were written, or refused."""

from __future__ import annotations

import json

import pytest

from fairlead.model.errors import CorruptBatch
from fairlead.streamlog import payloads
from fairlead.streamlog.payloads import EntryPayload
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
