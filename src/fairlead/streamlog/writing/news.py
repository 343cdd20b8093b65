"""What a commit has changed that people want to read of in the log of the server."""

from __future__ import annotations

from typing import NamedTuple


class OwnerChanged(NamedTuple):
    """A topic has another owner."""

    topic: str
    before: bytes
    """Id of the stream that owned it."""
    owner: bytes
    owner_at: str
    """The new owner's global path."""
    epoch: int


class LogCut(NamedTuple):
    """A partition's log ends at an offset since the owner of an epoch gives others from there on."""

    topic: str
    partition: int
    offset: int
    by_epoch: int
    reason: str


News = OwnerChanged | LogCut
