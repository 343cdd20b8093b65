"""A Spark that does not do what it should, seen from the process that started it; without one."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from fairlead.spark import process as process_module
from fairlead.spark import session as session_module
from fairlead.spark.process import SparkFailed, SparkProcess
from fairlead.spark.settings import SparkSettings
from tests.support.waiting import WAIT_SECONDS, in_time, until

SETTINGS = SparkSettings("fairlead-test", "none", 1)


def no_source() -> Any:
    """Nobody asks for it."""


class Silent:
    """A session whose JVM lives and answers nothing."""

    def __init__(self, jvm: subprocess.Popen[bytes]) -> None:
        self._jvm = jvm
        output = SimpleNamespace(ending=lambda: None)
        gateway = SimpleNamespace(proc=jvm, output=output, shutdown=lambda: None)
        self.sparkContext = SimpleNamespace(_gateway=gateway)

    @property
    def streams(self) -> None:
        """Comes back when the JVM has gone."""
        self._jvm.wait()
        raise ConnectionError("Answer from Java side is empty")


def below(folder: Path) -> list[str]:
    """Names of all that is there."""
    return [path.name for path in folder.rglob("*")]


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing."""
    with subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE) as found:
        yield found
        found.kill()


async def test_a_jvm_that_does_not_answer_is_killed(
    monkeypatch: pytest.MonkeyPatch, jvm: subprocess.Popen[bytes]
) -> None:
    """It held its process for ever, also when that was told to end."""
    monkeypatch.setattr(process_module, "_STOP_SECONDS", 0.05)
    spark = SparkProcess(no_source, SETTINGS, {})
    monkeypatch.setattr(spark, "_session", Silent(jvm))  # as `start` leaves it
    with capture_logs() as events:
        async with in_time():
            await spark.stop()
    assert jvm.poll() is not None
    assert "Spark does not answer, killing it" in [event["event"] for event in events]


async def test_a_place_that_has_no_room_is_a_failed_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is tried again, as any other; it ended all mirrors of the process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    spark = SparkProcess(no_source, SETTINGS, {})
    with pytest.raises(SparkFailed, match="set TMPDIR"):
        await spark.start()
    await spark.stop()


async def test_the_checkpoint_of_a_query_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that dies every half a minute would fill the disk."""

    def start_rounds(_session: Any, _source: Any, _texts: Any, checkpoint: Path) -> Any:
        checkpoint.mkdir()
        (checkpoint / "offsets").touch()
        raise RuntimeError("died")

    monkeypatch.setattr(session_module, "start_session", lambda *_: SimpleNamespace(sparkContext=None))
    monkeypatch.setattr(session_module, "start_rounds", start_rounds)
    monkeypatch.setattr(session_module, "stop_session", lambda _: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("fairlead.spark.folder._SOCKET_FOLDER_BYTES_MAX", 1000)
    spark = SparkProcess(no_source, SETTINGS, {})
    await spark.start()
    assert await spark.rounds({}) == "died"
    assert not any(name.startswith("checkpoint") for name in below(tmp_path))
    assert below(tmp_path)
    await spark.stop()
    assert below(tmp_path) == []


async def test_a_start_that_is_given_up_fails_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while Spark starts: what is being started is killed, and that is no news to anybody."""
    begun, killed = threading.Event(), threading.Event()

    def start_session(*_: Any) -> Any:
        begun.set()
        killed.wait(WAIT_SECONDS)
        raise RuntimeError("Java gateway process exited before sending its port number")

    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    monkeypatch.setattr(session_module, "start_session", start_session)
    monkeypatch.setattr(process_module, "kill_children", killed.set)
    spark = SparkProcess(no_source, SETTINGS, {})
    starting = asyncio.create_task(spark.start())
    await until(begun.is_set)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await spark.stop()
    await asyncio.sleep(0)  # what the thread has left for the loop is done
    del spark, starting
    gc.collect()
    assert told == []
