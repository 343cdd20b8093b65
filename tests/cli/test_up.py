"""How `fairlead up` keeps its replicator running."""

from __future__ import annotations

import asyncio
import re
import sys

import pytest

from fairlead.cli import up


@pytest.mark.parametrize(
    ("life", "waits"),
    [
        ("import os; os.kill(os.getpid(), 9)", ["0.01", "0.01", "0.01", "0.01"]),
        ("raise SystemExit(1)", ["0.01", "0.02", "0.04", "0.08"]),
    ],
)
async def test_one_that_was_killed_is_started_again_at_once_one_that_gave_up_ever_later(
    life: str, waits: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing Java is not asked for every second, and a killed process is not missed for a minute."""
    monkeypatch.setattr(up, "RESTART_FIRST_SECONDS", 0.01)
    lives = 0

    async def counted(command: list[str]) -> int:
        nonlocal lives
        lives += 1
        if lives > len(waits) and keeping is not None:
            keeping.cancel()
        return await up.run_replicator(command)

    keeping = asyncio.current_task()
    assert keeping is not None
    with pytest.raises(asyncio.CancelledError):
        await up.keep_replicating([sys.executable, "-c", life], counted)
    assert re.findall(r"started again in ([0-9.]+) s", capsys.readouterr().err) == waits
