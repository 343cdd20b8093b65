"""Checkpoints in MirrorMaker 2's form, in `<alias of the source>.checkpoints.internal` at the destination: what a group
has committed there and here. Java's `RemoteClusterUtils.translateOffsets` reads them.

Key: group, topic and partition at the destination. Value: version 0, offset at the source, offset at the destination,
metadata, or none where it is longer than a text may be. Numbers are big-endian; a text is its length in two bytes and
UTF-8.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from fairlead.mirror.ports import Commit, Place

_VERSION = 0
_NOT_KNOWN = -1
_TEXT_BYTES_MAX = 2**15 - 1


class Checkpoint(NamedTuple):
    """Where a group stands in a partition."""

    group: str
    place: Place
    """At the destination."""
    upstream: int | None
    """What the group has committed at the source; None: its records come from several partitions."""
    commit: Commit
    """The same at the destination."""


def checkpoint_record(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Key and value."""
    place, commit = checkpoint.place, checkpoint.commit
    upstream = _NOT_KNOWN if checkpoint.upstream is None else checkpoint.upstream
    key = _text(checkpoint.group) + _text(place.topic) + struct.pack(">i", place.partition)
    # A cluster may let groups commit more than the form holds; where the group stands is what is asked for.
    metadata = commit.metadata if len(commit.metadata.encode()) <= _TEXT_BYTES_MAX else ""
    return key, struct.pack(">hqq", _VERSION, upstream, commit.offset) + _text(metadata)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
