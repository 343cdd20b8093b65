"""Putting records of the cluster into its own log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.cluster.keys import STREAM
from fairlead.model.errors import UnknownStream
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import put_entry


def put_record(draft: Draft, key: str, value: Mapping[str, Any]) -> None:
    """Put an entry. Fields that the one in its place has and this program does not know stay: a newer program wrote
    them. `value` has every field that it does know."""
    put_entry(draft, key, {**(draft.state.entry(key) or {}), **value})


def put_record_of(draft: Draft, stream: bytes, key: str, value: Mapping[str, Any]) -> None:
    """Put an entry that is removed with a stream. Raises: UnknownStream: that was removed already."""
    if draft.state.entry(STREAM.key(stream)) is None:
        raise UnknownStream("the stream was deleted meanwhile")
    put_record(draft, key, value)
