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


class Resolved(NamedTuple):
    """A partition of a topic that waited for its name, or for a person, is to be brought by the link that had set it
    aside."""

    topic: str
    link: bytes


News = OwnerChanged | LogCut | Resolved
