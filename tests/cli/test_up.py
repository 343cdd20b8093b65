"""How `fairlead up` keeps its replicator running."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.cli import up


class Told:
    """Who is told of the child's lives."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def began(self) -> None:
        self.heard.append("began")

    def ended(self, why: str) -> None:
        self.heard.append(why)


@pytest.mark.parametrize(
    ("life", "waits", "ended"),
    [
        ("import os; os.kill(os.getpid(), 9)", ["0.01", "0.01", "0.01", "0.01"], "it was killed by signal 9"),
        ("raise SystemExit(1)", ["0.01", "0.02", "0.04", "0.08"], "it ended with exit code 1"),
    ],
)
async def test_one_that_was_killed_is_started_again_at_once_one_that_gave_up_ever_later(
    life: str, waits: list[str], ended: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing Java is not asked for every second, and a killed process is not missed for a minute. The server hears
    of each life and its end, for health and status."""
    monkeypatch.setattr(up, "RESTART_FIRST_SECONDS", 0.01)
    lives = 0

    async def counted(command: list[str]) -> int:
        nonlocal lives
        lives += 1
        if lives > len(waits) and keeping is not None:
            keeping.cancel()
        return await up.run_replicator(command)

    told = Told()
    keeping = asyncio.current_task()
    assert keeping is not None
    with pytest.raises(asyncio.CancelledError):
        await up.keep_replicating([sys.executable, "-c", life], told, counted)
    said = "".join(capsys.readouterr())
    assert re.findall(r"started again in ([0-9.]+) s", said) == waits
    assert told.heard == (["began", ended] * lives)[:-1]  # the last life is cut short


async def test_the_replicator_is_given_the_address_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are told what is advertised."""
    commands: list[list[str]] = []

    async def keep(command: list[str], life: up.Life) -> None:
        commands.append(command)

    monkeypatch.setattr(up, "keep_replicating", keep)
    server = SimpleNamespace(http="http://public.example:7660", local_http="http://127.0.0.1:7660", replicator=Told())
    async with up.replicating(cast(Any, server), Path("data"), None):
        await asyncio.sleep(0)
    (command,) = commands
    assert command[command.index("--server") + 1] == "http://127.0.0.1:7660"
    assert command[command.index("--with-parent") + 1] == str(os.getpid())
    assert "public.example" not in " ".join(command)


async def test_one_that_cannot_be_started_is_tried_again_ever_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine that has no process or file left for a moment has some again later; meanwhile health says why."""
    monkeypatch.setattr(up, "RESTART_FIRST_SECONDS", 0.01)
    outcomes: list[OSError | int] = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENOMEM, "None"), 1]
    keeping = asyncio.current_task()
    assert keeping is not None

    async def run(command: list[str]) -> int:
        if not outcomes:
            keeping.cancel()
            return await up.run_replicator(command)
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    told = Told()
    with pytest.raises(asyncio.CancelledError):
        await up.keep_replicating([sys.executable, "-c", ""], told, run)
    said = "".join(capsys.readouterr())
    assert re.findall(r"started again in ([0-9.]+) s", said) == ["0.01", "0.02", "0.04"]
    assert said.count("Too many open files") == 1
    assert told.heard == [
        "began",
        "it could not be started: [Errno 24] Too many open files",
        "began",
        "it could not be started: [Errno 12] None",
        "began",
        "it ended with exit code 1",
        "began",
    ]
