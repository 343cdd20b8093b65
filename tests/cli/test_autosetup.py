"""`stream replica autosetup`: what it says, and how it waits. `test_guide.py` has it with a replicator."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fairlead.cli.progress import Progress
from fairlead.cli.two_clusters import autosetup as module
from fairlead.cli.two_clusters import copystream, set_up
from fairlead.client.admin import Envelope
from fairlead.client.command import Command
from fairlead.model.errors import Unreachable
from tests.cli.desk import CommandLine

PROGRAM = [sys.executable, "-m", "fairlead.cli.main"]
MADE = "created /mapr/sanfrancisco/{0}2 with the settings of /mapr/sanfrancisco/{0}1"


def setup(name: str, *more: str) -> str:
    return " ".join([f"stream replica autosetup -path /{name}1 -replica /{name}2", *more])


def test_it_says_what_it_did_and_what_happens_now(fairlead: CommandLine) -> None:
    """It said nothing, and whoever looked at the replica at once found nothing there. For programs it is JSON."""
    fairlead.ok("stream create -path /said1")
    lines = fairlead.ok(setup("said")).out.splitlines()
    assert lines[:3] == [
        MADE.format("said"),
        "named /mapr/sanfrancisco/said2 a replica of /mapr/sanfrancisco/said1",
        "named /mapr/sanfrancisco/said1 an upstream of /mapr/sanfrancisco/said2",
    ]
    assert "nothing is copied yet: no replicator is connected" in lines[3] or "starts Spark first" in lines[3]
    assert "fairlead stream replica list -path /mapr/sanfrancisco/said1" in lines[4]
    fairlead.ok("stream create -path /json1")
    (row,) = fairlead.ok(setup("json", "-json")).json["data"]
    assert (row["replicaPath"], len(row["done"])) == ("/mapr/sanfrancisco/json2", 3)
    for name in ("said", "json"):
        fairlead.ok(f"stream replica remove -path /{name}1 -replica /{name}2 --yes")


def test_waiting_has_a_limit(fairlead: CommandLine) -> None:
    """Here without a replicator. Replication goes on, and the same command waits again; without `--wait` it refuses."""
    fairlead.ok("stream create -path /limit1")
    subprocess.run([*PROGRAM, "produce", "/limit1:t"], input=b"one\n", check=True, timeout=60)
    done = fairlead(setup("limit", "--wait --timeout 0.5"))
    assert (done.code, done.out) == (1, "")
    assert MADE.format("limit") in done.err
    assert "\n  0 %  " in done.err
    assert "the replica /limit2 is not in step after 0.5 s" in done.err
    assert "replication goes on: `fairlead stream replica list -path /limit1` shows" in done.err
    again = fairlead(setup("limit", "--wait --timeout 0"))
    assert (again.code, "this command waits until it is in step" in again.err) == (1, True)
    fairlead.refused(setup("limit"), "already")
    fairlead.refused(setup("limit", "--timeout 5"), "only with --wait")
    fairlead.ok("stream replica remove -path /limit1 -replica /limit2 --yes")
    fairlead.refused(setup("limit", "--wait"), "exists")


def test_ctrl_c_ends_the_waiting_and_says_what_goes_on(fairlead: CommandLine) -> None:
    """With how far it is, and 130 as the exit code."""
    fairlead.ok("stream create -path /stop1")
    subprocess.run([*PROGRAM, "produce", "/stop1:t"], input=b"one\n", check=True, timeout=60)
    command = subprocess.Popen([*PROGRAM, *setup("stop", "--wait").split()], stderr=subprocess.PIPE, text=True)
    assert command.stderr is not None
    while " %  " not in command.stderr.readline():
        assert command.poll() is None
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "stopped; the replica /stop2 is not in step yet" in errors
    assert "replication goes on" in errors
    assert "Traceback" not in errors
    fairlead.ok("stream replica remove -path /stop1 -replica /stop2 --yes")


def test_a_copy_that_nobody_carries_says_so(fairlead: CommandLine) -> None:
    """`copystream` waited without a word where no terminal showed its percentage."""
    fairlead.ok("stream create -path /nobody1")
    subprocess.run([*PROGRAM, "produce", "/nobody1:t"], input=b"one\n", check=True, timeout=60)
    line = "copystream -src /nobody1 -dst /nobody2"
    command = subprocess.Popen([*PROGRAM, *line.split()], stderr=subprocess.PIPE, text=True)
    assert command.stderr is not None
    while "no replicator is connected" not in command.stderr.readline():
        assert command.poll() is None
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=60)
    fairlead.ok("stream delete -path /nobody1 --yes")


def row(
    state: str,
    percent: int,
    pending: int,
    error: str = "",
    replicator: str = "carrying",
    *,
    behind: int = 0,
    conflicts: int = 0,
) -> dict[str, Any]:
    """Of `replica list`."""
    return {
        "cluster": "sanfrancisco",
        "stream": "/r",
        "replicaPath": "/mapr/sanfrancisco/r",
        "replicaState": f"REPLICA_STATE_{state}",
        "copyTableCompletionPercentage": percent,
        "putsPending": pending,
        "partitionsBehind": behind,
        "conflicts": conflicts,
        "errors": {"Msg": error} if error else {},
        "replicator": {"state": replicator},
    }


@pytest.fixture
def answers(fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `replica list` says each time; autosetup itself goes well."""
    found: list[dict[str, Any] | Exception] = []
    rows: Iterator[dict[str, Any] | Exception] = iter(found)

    def call(command: Command, params: Mapping[str, Any], cluster: str | None = None) -> Envelope:
        if command.verb == "autosetup":
            return Envelope(
                ({"source": "/s", "replicaPath": "/r", "done": ["created /r"], "next": "it is copied"},), {}
            )
        answer = next(rows)
        if isinstance(answer, Exception):
            raise answer
        return Envelope((answer,), {})

    for each in (module, set_up):
        monkeypatch.setattr(each, "call", call)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    return found


WAIT = "stream replica autosetup -path /s -replica /r --wait"


def test_without_a_terminal_it_writes_a_line_at_each_change_that_matters(
    fairlead: CommandLine, answers: list[Any]
) -> None:
    """A log is not filled, and what holds it up is said once. Standard output has the result alone."""
    answers += [row("COPY_SCHEDULE", 0, 1000, replicator="starting")] * 5
    answers += [row("COPY_IN_PROGRESS", percent, 1000 - 10 * percent) for percent in range(0, 50, 2)]
    answers += [row("COPY_IN_RECOVER", 50, 500, "no gateway answers: http://x:1")] * 3
    answers += [row("COPY_IN_PROGRESS", 90, 100), row("REPLICATING", 100, 0)]
    done = fairlead(WAIT)
    assert (done.code, done.out) == (0, "/mapr/sanfrancisco/r is in step\n")
    assert done.err.splitlines() == [
        "created /r",
        "it is copied",
        "  0 %  the replicator starts",
        "  0 %  1,000 records to go",
        " 10 %  900 records to go",
        " 20 %  800 records to go",
        " 30 %  700 records to go",
        " 40 %  600 records to go",
        " 50 %  no gateway answers: http://x:1",
        " 90 %  100 records to go",
    ]


def test_a_link_that_has_stopped_is_not_waited_for(fairlead: CommandLine, answers: list[Any]) -> None:
    """Only a person can mend it; the error says how."""
    answers += [row("UNEXPECTED", 0, 1, "it is another stream; run: this")]
    done = fairlead(WAIT)
    assert done.code == 1
    assert "the replica /r has stopped: it is another stream; run: this" in done.err


def test_what_is_repaired_is_waited_for_and_what_is_set_aside_is_told(
    fairlead: CommandLine, answers: list[Any]
) -> None:
    """A replica is not in step while partitions are behind; those that wait for somebody who decides are behind for
    ever."""
    answers += [row("REPLICATING", 100, 0, behind=3, conflicts=2), row("REPLICATING", 100, 0)]
    done = fairlead(WAIT)
    assert (done.code, done.out) == (0, "/mapr/sanfrancisco/r is in step\n")
    assert done.err.splitlines()[2:] == ["100 %  1 partitions to repair"]
    answers += [row("REPLICATING", 100, 0, behind=2, conflicts=2)]
    said = "the replica /r has all but 2 partitions, which are set aside: `fairlead stream replica list -path /s` names"
    done = fairlead(WAIT)
    assert (done.code, done.out) == (1, "")
    assert said in done.err.splitlines()[-1]


def test_a_copy_says_how_much_was_set_aside(
    fairlead: CommandLine, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its exit code too, since nobody looks at it once it has ended. The link that was made beside it goes on."""
    copied = {"state": "done", "error": "", "recordsCopied": 5, "conflicts": 2}
    monkeypatch.setattr(copystream, "_start", lambda *_: None)
    monkeypatch.setattr(copystream, "call", lambda *_: Envelope((copied,), {}))
    said = "2 partitions were set aside: topics there have their names, or other records"
    fairlead.refused("copystream -src /a -dst /b", f"the copy to /b has ended; {said}")
    begun_and_resumed: list[dict[str, Any]] = [{}, {}]
    answers += begun_and_resumed
    with_copy = "stream replica autosetup -path /s -replica /r -directcopy false"
    ended = f"copied 5 records of /mapr/sanfrancisco/s to /mapr/sanfrancisco/r; {said}"
    fairlead.refused(with_copy, f"created /r; {ended}; what comes later follows")
    copied["conflicts"] = 0
    answers += begun_and_resumed
    for line in ("copystream -src /a -dst /b", with_copy):
        fairlead.ok(line)


def test_a_server_that_is_away_for_a_moment_is_waited_for(fairlead: CommandLine, answers: list[Any]) -> None:
    """Replication goes on meanwhile; why nothing is seen is said once. Where there is a limit, it holds."""
    away = Unreachable("no server answers at http://x:1")
    answers += [away, row("COPY_IN_PROGRESS", 50, 500), away, away, row("REPLICATING", 100, 0)]
    done = fairlead(WAIT)
    assert (done.code, done.out) == (0, "/mapr/sanfrancisco/r is in step\n")
    said = "no server answers at http://x:1"
    assert done.err.splitlines()[2:] == [f"  0 %  {said}", " 50 %  500 records to go", f" 50 %  {said}"]
    answers += [away]
    done = fairlead(f"{WAIT} --timeout 0")
    assert done.code == 1
    assert f"the replica /r is not in step after 0 s ({said}); replication goes on" in done.err


def test_a_copy_is_waited_for_while_its_server_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes on all the same; that a question was not answered did not say so."""
    copying = {"state": "copying", "error": "", "recordsCopied": 5, "copyTableCompletionPercentage": 40}
    away = Unreachable("no server answers")
    answers: list[dict[str, Any] | Exception] = [copying, away, {**copying, "state": "done"}]

    def call(*_: object) -> Envelope:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Envelope((answer,), {})

    monkeypatch.setattr(copystream, "call", call)
    monkeypatch.setattr(copystream, "POLL_SECONDS", 0.0)
    assert copystream.ended({"src": "/a", "dst": "/b"}, None).first["state"] == "done"
    assert capsys.readouterr().err == " 40 %  5 records copied\n 40 %  no server answers\n"


@pytest.mark.parametrize("timeout", ["nan", "-1"])
def test_a_limit_that_is_no_time_is_refused(fairlead: CommandLine, timeout: str) -> None:
    """Nothing is ever later than nan."""
    fairlead.refused(f"{WAIT} --timeout={timeout}", f"--timeout {timeout}: give seconds, 0 or more")


def test_on_a_terminal_it_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which goes away at the end."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress()
    progress.show(40, "600 records to go", "")
    progress.end()
    assert "40%" in terminal.getvalue()
    assert "600 records to go" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")
