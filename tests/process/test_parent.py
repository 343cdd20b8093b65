"""A child ends with the process that started it, and with no other."""

from __future__ import annotations

import os
import signal

import pytest

from fairlead.process import parent


@pytest.mark.parametrize(
    ("expected", "found", "ends"),
    [
        (1, 1, False),  # the entry point of a container
        (7, 7, False),
        (7, 1, True),
        (7, 300, True),  # orphans go to a subreaper, as to `systemd --user`
        (1, 7, True),
    ],
)
def test_only_a_parent_that_is_dead_already_ends_the_child(
    expected: int, found: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number alone says nothing: process 1 may well be the parent."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(parent, "_ask_for_sigterm", lambda: None)
    monkeypatch.setattr(os, "getppid", lambda: found)
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    parent.end_with_parent(expected)
    assert sent == ([(os.getpid(), signal.SIGTERM)] if ends else [])
