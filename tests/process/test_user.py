"""The name of the user that a process runs as."""

from __future__ import annotations

import os
import pwd

import pytest

from fairlead.process.user import user_name

VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def test_a_user_without_a_name_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as any number; that is no reason to run nothing."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_123)
    assert user_name() == "2000000123"
    monkeypatch.setenv("USER", "tester")
    assert user_name() == "tester"
