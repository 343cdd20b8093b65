"""Entries of `meta/`: what belongs to only one cluster, as keys with JSON values."""

from __future__ import annotations

import json
from typing import Any

from fairlead.streamlog.payloads import EntryPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.draft import Draft


def put_entry(draft: Draft, key: str, value: Any) -> None:
    """Set an entry; the same value again writes no row. None is no value: use `delete_entry`."""
    if value is None:
        raise ValueError("an entry's value is never null")
    plain = json.loads(json.dumps(value))
    if draft.state.entry(key) != plain:
        draft.add_control(Kind.ENTRY, EntryPayload(key, plain))


def delete_entry(draft: Draft, key: str) -> bool:
    """Delete an entry; False if there was none."""
    if draft.state.entry(key) is None:
        return False
    draft.add_control(Kind.ENTRY, EntryPayload(key, None))
    return True
