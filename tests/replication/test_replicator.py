"""The replicator process while it has nothing to carry, and what decides when it has."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from pathlib import Path
from typing import Any

import pyspark
import pytest
from structlog.testing import capture_logs
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from fairlead.model.conversation import from_json
from fairlead.model.errors import Unreachable
from fairlead.model.settings import Settings
from fairlead.replication import replicator as replicator_module
from fairlead.replication.control_client import open_control
from fairlead.replication.replicator import Wanted, options_from, run_once, until_told
from fairlead.spark.control import RECONNECT_SECONDS
from fairlead.spark.process import SparkFailed, first_line
from fairlead.spark.rounds import seconds_left
from fairlead.spark.session import home_of_jars
from fairlead.spark.settings import SparkSettings, spark_configuration
from fairlead.wire.control import LeftWanted, LinkEnds, LinksActive, LinksLeft, ReplicatorState, SinkHello
from fairlead.wire.messages import REPLICATOR_SAYS, SINK_HEARS, to_json
from tests.replication.fakes import fake_control, running, url_of
from tests.support.sites import command_of, descendants
from tests.support.stepped import SteppedLoop
from tests.support.waiting import WAIT_SECONDS, a_quiet_while, in_time, until

MODULE = "fairlead.replication"
SECRET_FILE = tempfile.NamedTemporaryFile("w", prefix="control-secret-")  # noqa: SIM115 - until the tests end
SECRET_FILE.write("5e" * 32)
SECRET_FILE.flush()
ENDS = (LinkEnds(b"l" * 16, (9,)),)


@pytest.fixture(autouse=True)
def _connections_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catch-up asks its server once."""
    monkeypatch.setattr("fairlead.spark.control.CONNECT_SECONDS", WAIT_SECONDS)


async def test_links_are_waited_for() -> None:
    """Nothing is wanted until the server names a link."""
    wanted = Wanted()
    async with running(wanted.until_some()) as waiting:
        await asyncio.sleep(0)
        assert not waiting.done()
        await wanted.set(2)
        async with in_time():
            await waiting


def test_a_link_that_comes_back_keeps_spark() -> None:
    """Only a pause as long as asked ends the wait."""

    async def work() -> None:
        wanted = Wanted()
        await wanted.set(1)
        async with running(wanted.until_none_for(20)) as waiting:
            await wanted.set(0)
            await asyncio.sleep(19)
            await wanted.set(1)
            await asyncio.sleep(300)
            assert not waiting.done()
            await wanted.set(0)
            await waiting

    with closing(SteppedLoop()) as loop:
        loop.run(work())


@asynccontextmanager
async def idle_server(
    links: int = 0, heard: list[ReplicatorState] | None = None, waiting: int = 0, lacks: Sequence[int] = ()
) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A source server that says how many links there are and how many wait; the event tells that somebody has asked.
    What the replicator says of itself is added to `heard`. `lacks`: how many commits one link lacks each time that a
    catch-up asks; in the end none."""
    asked = asyncio.Event()
    lacking = iter(lacks)

    async def tell(socket: ServerConnection) -> None:
        await socket.send(to_json(LinksActive(links, waiting)))
        asked.set()
        async for text in socket:
            message = from_json(text, REPLICATOR_SAYS)
            if isinstance(message, LeftWanted):
                assert message.since in (None, ENDS)
                commits = next(lacking, 0)
                await socket.send(to_json(LinksLeft(ENDS, int(commits > 0), commits, 0)))
            elif heard is not None:
                heard.append(message)

    async with serve(tell, "127.0.0.1", 0) as server, in_time():
        yield url_of(server), asked


def start(command: list[str], **environment: str) -> subprocess.Popen[bytes]:
    """A process."""
    return subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def replicator(url: str, *more: str) -> list[str]:
    """Its command."""
    return [sys.executable, "-m", MODULE, "--server", url, "--secret-file", SECRET_FILE.name, *more]


async def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Exit code and what it wrote on standard error."""
    _, errors = await asyncio.to_thread(process.communicate, timeout=WAIT_SECONDS)
    return process.returncode, errors.decode()


async def test_sigterm_ends_a_waiting_replicator_at_once() -> None:
    """Without a link there is no Java to end; the exit code is 0."""
    async with idle_server() as (url, asked):
        process = start(replicator(url))
        await asked.wait()
        assert list(descendants(process.pid)) == []
        process.send_signal(signal.SIGTERM)
        code, _ = await ended(process)
    assert code == 0


async def test_a_signal_that_comes_again_leaves_nothing_half_ended() -> None:
    """Linux sends the signal of a parent's death for each of its threads: Spark was left when it came while the
    replicator ended."""
    began, ending, may_end, ended = (asyncio.Event() for _ in range(4))

    async def end() -> None:
        ending.set()
        await may_end.wait()
        ended.set()

    async def program() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.shield(end())

    told = asyncio.ensure_future(until_told(program()))
    await began.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await ending.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await a_quiet_while()
    may_end.set()
    assert await told is signal.SIGTERM
    assert ended.is_set()


async def test_ctrl_c_that_the_starter_had_ignored_stays_ignored() -> None:
    """nohup: the terminal's Ctrl-C is for others. SIGTERM is heard all the same."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        told = asyncio.ensure_future(until_told(asyncio.sleep(2 * WAIT_SECONDS)))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        await a_quiet_while()
        assert not told.done()
        os.kill(os.getpid(), signal.SIGTERM)
        async with in_time():
            assert await told is signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_replicator_waits_for_its_server() -> None:
    """An address at which nobody answers is said once, and asked again."""
    process = start(replicator("http://127.0.0.1:1"))
    assert process.stderr is not None
    said = await asyncio.to_thread(process.stderr.readline)
    assert b"waiting for the server" in said
    await asyncio.sleep(3 * RECONNECT_SECONDS)  # that it asks again shows only in that it says no more
    process.send_signal(signal.SIGTERM)
    code, errors = await ended(process)
    assert code == 0
    assert "waiting for the server" not in errors


async def test_a_catch_up_without_a_server_is_one_line() -> None:
    """At once, before Spark is started; the exit code is 1."""
    code, errors = await ended(start(replicator("http://127.0.0.1:1", "--once")))
    assert code == 1
    assert errors.startswith("fairlead replicator: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_catch_up_that_is_ended_says_so(number: signal.Signals, code: int) -> None:
    """By its exit code: not all was carried. Here it waits for a server that does not say what there is."""
    async with fake_control() as server:
        process = start(replicator(server.url, "--once"))
        await until(lambda: server.sockets)
        process.send_signal(number)
        assert await ended(process) == (code, "")


async def test_the_log_level_is_kept() -> None:
    """`error` hides what is only information."""
    async with idle_server() as (url, asked):
        process = start(replicator(url), FAIRLEAD_LOG_LEVEL="error")
        await asked.wait()
        process.send_signal(signal.SIGTERM)
        _, errors = await ended(process)
    assert errors == ""


async def test_java_that_is_missing_is_one_line(tmp_path: Path) -> None:
    """As soon as there is a link; the exit code is 1. The server hears of it first, and shows it."""
    heard: list[ReplicatorState] = []
    async with idle_server(1, heard) as (url, _):
        code, errors = await ended(start(replicator(url), PATH=str(tmp_path), JAVA_HOME=""))
    assert code == 1
    lines = [line for line in errors.splitlines() if line.startswith("fairlead replicator:")]
    assert len(lines) == 1
    assert "no java found" in lines[0]
    assert "Traceback" not in errors
    assert heard[0].doing in {"waiting", "starting"}
    assert (heard[-1].doing, heard[-1].failures) == ("failed", 1)
    assert "no java found" in heard[-1].error


def fake_spark(folder: Path, script: str) -> dict[str, str]:
    """Variables by which a replicator finds a Java that says its version, and this instead of `spark-submit`."""
    for file, text in (("java", "echo 'openjdk version \"17.0.1\"' >&2"), ("spark/bin/spark-submit", script)):
        program = folder / file
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    (folder / "tmp").mkdir()
    jars = folder / "spark" / "jars"
    jars.mkdir()
    (jars / f"spark-core_2.13-{pyspark.__version__}.jar").touch()  # else it would not be taken for this PySpark's
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "JAVA_HOME": "",
        "SPARK_HOME": str(folder / "spark"),
        "TMPDIR": str(folder / "tmp"),
    }


async def test_ended_while_spark_starts_it_leaves_nothing(tmp_path: Path) -> None:
    """No temporary folder, no process; at once, however long the start would take."""
    begun = tmp_path / "begun"
    variables = fake_spark(tmp_path, f"echo $$ > {begun}.new; mv {begun}.new {begun}; exec sleep 1000")
    async with idle_server(links=1) as (url, _):
        process = start(replicator(url), **variables)
        await until(begun.exists)
        process.send_signal(signal.SIGTERM)
        code, errors = await ended(process)
    assert code == 0
    assert "Traceback" not in errors
    assert list((tmp_path / "tmp").iterdir()) == []
    await until(lambda: not command_of(int(begun.read_text())))


async def test_spark_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    """The exit code is 1, and what the JVM said is in the log."""
    variables = fake_spark(tmp_path, "echo 'Could not reserve enough space' >&2; exit 1")
    async with idle_server(links=1) as (url, _):
        code, errors = await ended(start(replicator(url), **variables))
    assert code == 1
    assert "Spark wrote line='Could not reserve enough space'" in errors
    assert errors.splitlines()[-1].startswith("fairlead replicator: Spark did not start: ")
    assert "Traceback" not in errors
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_a_replicator_ends_with_the_process_that_started_it() -> None:
    """`kill -9` of the parent is enough."""
    script = (
        "import os, subprocess, sys, time; print(subprocess.Popen([*sys.argv[1:], str(os.getpid())]).pid, flush=True);"
        "time.sleep(60)"
    )
    async with idle_server() as (url, asked):
        parent = start([sys.executable, "-c", script, *replicator(url, "--with-parent")])
        assert parent.stdout is not None
        child = int(await asyncio.to_thread(parent.stdout.readline))
        await asked.wait()
        assert MODULE in command_of(child)
        parent.kill()
        await ended(parent)
        await until(lambda: not command_of(child))


def test_settings_reach_the_tasks() -> None:
    """What a site sets is what the options say."""
    settings = Settings(replicator_workers=5, round_seconds=7.0, frame_bytes=5000, spark_memory_mb=600)
    options = options_from("http://one", settings)
    assert (options.link.workers, options.link.round_seconds, options.link.frame_bytes) == (5, 7.0, 5000)
    assert options.memory_mb == 600


def test_spark_gets_every_setting_that_long_rounds_need(tmp_path: Path) -> None:
    """Each of these was paid for (case F9)."""
    found = spark_configuration(SparkSettings("name", "fairlead.replication.spark.worker_daemon", 3), tmp_path)
    assert found["spark.master"] == "local[5,4]"
    assert found["spark.sql.execution.arrow.maxRecordsPerBatch"] == "1"
    assert int(found["spark.buffer.size"]) < 4096
    assert found["spark.python.unix.domain.socket.enabled"] == "true"
    assert found["spark.python.unix.domain.socket.dir"] == str(tmp_path)
    assert found["spark.speculation"] == "false"
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
    assert importlib.util.find_spec(found["spark.python.daemon.module"]) is not None


def test_sparks_home_lacks_only_the_zip(tmp_path: Path) -> None:
    """Else every Python process compiles PySpark anew."""
    home = home_of_jars(tmp_path)
    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-sql_*.jar"))
    assert not (home / "python").exists()


def test_planning_processes_do_not_load_what_tasks_need() -> None:
    """Spark keeps five of them; what they unpickle is the format."""
    program = "import sys, fairlead.replication.spark.format; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "numpy", "websockets", "fairlead.replication.spark.rounds"} & set(loaded)


@pytest.mark.parametrize(("until_ms", "left"), [(1_000_000, 10.0), (-4000, 5.0), (4000, 5.0), (7000, 7.0)])
def test_rounds_end_together_whatever_the_clocks_say(until_ms: int, left: float) -> None:
    """At the moment that the driver names, if its clock can be that of the task."""
    assert seconds_left(until_ms, 10.0) == left


def test_the_reason_of_a_dead_query_is_one_line() -> None:
    """Without the stack."""
    assert first_line(ValueError("one\n\tat x\nCaused by: two")) == "one · Caused by: two"
    assert first_line(ValueError()) == "ValueError"


class FakeSpark:
    """A Spark whose query dies once, and then runs until it is told to stop."""

    alive = True

    catch_ups = 0

    def __init__(self, *_: object) -> None:
        self._deaths = 1

    async def start(self) -> None:
        """At once."""

    async def rounds(self, texts: object) -> str:
        if self._deaths:
            self._deaths -= 1
            return "out of memory"
        await asyncio.Event().wait()
        raise AssertionError

    def ended(self) -> bool:
        """Its Java process lives on."""
        return False

    async def once(self, texts: object) -> None:
        """Carry whatever is granted."""
        FakeSpark.catch_ups += 1

    async def stop(self) -> None:
        """At once."""


@pytest.mark.parametrize(("waiting", "said"), [(0, None), (1, "1 of 2 links cannot be carried now")])
async def test_a_catch_up_fails_if_links_could_not_be_carried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waiting: int, said: str | None
) -> None:
    """Their destination is away: its tasks were granted nothing, or not all of it, and ended well."""
    monkeypatch.setattr(replicator_module, "SparkProcess", FakeSpark)
    monkeypatch.setattr(replicator_module, "find_java", lambda _: tmp_path / "java")
    async with idle_server(2, waiting=waiting) as (url, _):
        options = options_from(url, Settings(), SECRET_FILE.name)
        with pytest.raises(SparkFailed, match=said) if said else nullcontext():
            await run_once(options, {})


@pytest.mark.parametrize(
    ("lacks", "rounds", "said"),
    [
        ([9, 9, 3, 0], 3, None),
        ([9, 9, 9], 2, "1 of 2 links lack 9 commits of before this began"),
        ([9, 0], 1, None),
    ],
)
async def test_a_catch_up_goes_on_while_links_lack_less_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacks: list[int], rounds: int, said: str | None
) -> None:
    """A destination that answered late got nothing at first, and the tasks had ended well. What does not come with the
    next round is an error."""
    monkeypatch.setattr(replicator_module, "SparkProcess", FakeSpark)
    monkeypatch.setattr(replicator_module, "find_java", lambda _: tmp_path / "java")
    monkeypatch.setattr(FakeSpark, "catch_ups", 0)
    async with idle_server(2, lacks=lacks) as (url, _):
        options = options_from(url, Settings(), SECRET_FILE.name)
        with pytest.raises(SparkFailed, match=said) if said else nullcontext():
            await run_once(options, {})
    assert FakeSpark.catch_ups == rounds


async def test_a_catch_up_without_links_needs_no_java(tmp_path: Path) -> None:
    """There is nothing to carry; the exit code is 0."""
    async with idle_server() as (url, _):
        code, _ = await ended(start(replicator(url, "--once"), PATH=str(tmp_path), JAVA_HOME=""))
    assert code == 0


async def test_a_query_that_dies_is_told_to_the_server_until_it_has_run_for_a_while(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever looks at the links sees why nothing moves, and that it was started again."""
    monkeypatch.setattr(replicator_module, "SparkProcess", FakeSpark)
    monkeypatch.setattr(replicator_module, "find_java", lambda _: tmp_path / "java")
    monkeypatch.setattr(replicator_module, "RESTART_SECONDS_MIN", 0.01)
    monkeypatch.setattr(replicator_module, "RESTART_SECONDS_MAX", 0.05)
    heard: list[ReplicatorState] = []
    async with idle_server(1, heard) as (url, _):
        program = replicator_module.Replicator(options_from(url, Settings(), SECRET_FILE.name), {})
        async with running(program.run()):
            await until(lambda: heard and heard[-1].failures == 1 and not heard[-1].error)
    said = [(state.doing, state.error) for state in heard]
    assert said[-3:] == [("failed", "out of memory"), ("carrying", "out of memory"), ("carrying", "")]
    assert "starting" in {state.doing for state in heard}


async def test_a_replicator_ends_when_it_can_no_longer_hear_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the reason. It would live on and carry nothing; whoever started it starts another one."""

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(replicator_module, "open_control", fail)
    program = replicator_module.Replicator(options_from("http://127.0.0.1:1", Settings(), SECRET_FILE.name), {})
    with pytest.raises(RuntimeError, match="a bug"):
        async with in_time():
            await program.run()


class DyingSpark(FakeSpark):
    """A Spark whose JVM dies with its query."""

    async def rounds(self, texts: object) -> str:
        self.alive = False
        return "out of memory"


async def test_a_jvm_that_dies_again_and_again_is_started_ever_more_slowly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A start takes two processors for many seconds; each JVM counted anew."""
    monkeypatch.setattr(replicator_module, "SparkProcess", DyingSpark)
    monkeypatch.setattr(replicator_module, "find_java", lambda _: tmp_path / "java")
    monkeypatch.setattr(replicator_module, "RESTART_SECONDS_MIN", 0.001)
    monkeypatch.setattr(replicator_module, "RESTART_SECONDS_MAX", 0.004 + WAIT_SECONDS)
    with capture_logs() as events:
        async with idle_server(1) as (url, _):
            program = replicator_module.Replicator(options_from(url, Settings(), SECRET_FILE.name), {})
            async with running(program.run()):
                await until(lambda: len(pauses(events)) > 3)
    assert pauses(events)[:3] == [0.001, 0.002, 0.004]


def pauses(events: list[MutableMapping[str, Any]]) -> list[float]:
    """Before starts, as the log tells them."""
    return [event["pause_seconds"] for event in events if "pause_seconds" in event]


async def test_what_cannot_be_sent_is_a_server_that_is_away() -> None:
    """Each reader that was just reporting told of a bug, with a traceback, when a server was started again."""
    async with fake_control() as server, open_control(server.url, "/control/sink", SINK_HEARS) as control:
        await control.send(SinkHello("w"))
        await server.until(lambda: bool(server.heard))
        await server.sockets[-1].close()
        with pytest.raises(ConnectionClosed):
            await control.receive()
        with pytest.raises(Unreachable, match="the connection was closed"):
            await control.send(SinkHello("w"))
