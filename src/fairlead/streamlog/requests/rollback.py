"""A stream whose log was rolled back writes nothing until it is recovered.

A site that is restored from a copy gives offsets once more that it gave before, in the same topic epoch: two histories
that nobody can tell apart. So from the moment that it is noticed, its log has an entry that refuses what gives offsets,
in the same order as everything else in the log; a restart does not lift it.
"""

from __future__ import annotations

from typing import Final

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
