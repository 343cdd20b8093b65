"""A stream whose log was rolled back writes nothing until it is recovered.

A site that is restored from a copy gives offsets once more that it gave before, in the same topic epoch: two histories
that nobody can tell apart; and a version of a topic that its replicas have with other settings. So from the moment that
it is noticed, its log has an entry that refuses what gives offsets and what changes topics, in the same order as
everything else in the log; a restart does not lift it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from fairlead.model.errors import NotAllowed
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import delete_entry, put_entry

ENTRY: Final = "rolled-back"
VERSION: Final = 1


def note_rolled_back(draft: Draft, path: str, replica: str) -> None:
    """A request: the replica has applied commits of this log that it does not hold. Both are global paths."""
    if draft.state.entry(ENTRY) is None:
        put_entry(draft, ENTRY, {"v": VERSION, "path": path, "replica": replica})


def forget_rolled_back(draft: Draft) -> None:
    """A request: what is written from now on has an epoch of its own, or a person has said that it does not matter."""
    delete_entry(draft, ENTRY)


class Entries(Protocol):
    """The state of a shard, or the overlay of a draft."""

    def entry(self, key: str) -> Any: ...


def note_coming(draft: Draft, incarnations: Iterable[bytes]) -> None:
    """A request: these topics come with an epoch in which this stream may have given offsets that it lost. Once they
    are here nothing else shows that they are not to be written in it."""
    for incarnation in incarnations:
        put_entry(draft, _coming(incarnation), {"v": VERSION})


def is_coming(entries: Entries, incarnation: bytes) -> bool:
    """Whether a topic was noted so, and has no later epoch yet."""
    return entries.entry(_coming(incarnation)) is not None


def forget_coming(draft: Draft, incarnation: bytes) -> None:
    """A request: the topic has a later epoch, or is another's."""
    delete_entry(draft, _coming(incarnation))


def _coming(incarnation: bytes) -> str:
    return f"coming/{incarnation.hex()}"


def check_not_rolled_back(draft: Draft) -> None:
    """Raises: NotAllowed: the log was rolled back."""
    found = draft.state.entry(ENTRY)
    if found is not None:
        raise NotAllowed(rolled_back_message(found["path"], found["replica"]))


def rolled_back_message(path: str, replica: str) -> str:
    """Why nothing is written, and what to do."""
    return (
        f"stream {path} was rolled back: {replica} has applied commits that it does not have (was it restored from a "
        f"copy?); to bring back what is missing and to write again run: fairlead stream recover -path {path}"
    )
