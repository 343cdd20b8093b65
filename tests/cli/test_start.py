"""How a command begins: what it loads, and that Ctrl-C ends it without a traceback, however early it comes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.desk import CommandLine
from tests.support import http_calls
from tests.support.sites import Site
from tests.support.waiting import wait_until

HEAVY = {
    "pyarrow",
    "numba",
    "numpy",
    "fastapi",
    "uvicorn",
    "pyspark",
    "pydantic",
    "confluent_kafka",
    "asyncio",
    "crc32c",
}
PROGRAM = [sys.executable, "-m", "fairlead.cli.main"]
REPLICATOR = [sys.executable, "-m", "fairlead.replication", "--server", "http://127.0.0.1:1"]
INTERRUPTING = "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n"


def loaded_by(line: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    program = (
        "import sys\nfrom fairlead.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *line.split()], capture_output=True, text=True)
    assert done.returncode == 0, done
    return set(done.stderr.split())


def copying(site: Site) -> bool:
    pair = {"src": "/copied", "dst": "/copy"}
    answer = http_calls.get(f"{site.url}/rest/copystream/status", params=pair).json()
    return bool(answer["status"] == "OK" and answer["data"][0]["state"] == "copying")


@pytest.mark.parametrize("line", ["--version", "status", "stream list"])
def test_a_command_loads_nothing_of_the_server(fairlead: CommandLine, line: str) -> None:
    """Nor what a call of a cluster can do without: half of a command's time went there."""
    loaded = loaded_by(line)
    allowed = {"pydantic"} if line == "stream list" else set()  # Typer reads its options by it
    assert "fairlead.cli.program" in loaded
    assert loaded & HEAVY <= allowed


def test_the_version_needs_no_http(empty: CommandLine) -> None:
    """Nor Rich."""
    assert not loaded_by("--version") & {"httpx", "rich"}


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ([*PROGRAM, "--version"], "typer"),
        ([*PROGRAM, "status"], "httpx"),
        ([*PROGRAM, "server", "--name", "x", "--data", "nowhere"], "uvloop"),
        ([*PROGRAM, "consume", "t"], "confluent_kafka"),
        ([*PROGRAM, "produce", "t"], "confluent_kafka"),
        ([*PROGRAM, "fsck", "--data", "nowhere"], "pyarrow"),
        (REPLICATOR, "structlog"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_ctrl_c_while_something_is_imported_ends_without_a_word(
    fairlead: CommandLine, tmp_path: Path, command: list[str], module: str
) -> None:
    """Here a module of that name sends the signal, in the middle of the imports."""
    (tmp_path / f"{module}.py").write_text(INTERRUPTING)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONPATH": path}
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, "", "")


def test_ctrl_c_ends_what_follows_a_topic_with_130(fairlead: CommandLine) -> None:
    """As every program that Ctrl-C ends; and without a word, since it is the way to end it."""
    subprocess.run([*PROGRAM, "produce", "followed"], input=b"one\n", check=True, timeout=60)
    reader = subprocess.Popen(
        [*PROGRAM, "consume", "followed", "--from-beginning", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"one\n"
    reader.send_signal(signal.SIGINT)
    assert reader.communicate(timeout=60) == (b"", b"")
    assert reader.returncode == 130


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("copystream -src /a -dst /b", "the copy to /b goes on, if the cluster was asked already; the same command"),
        (
            "stream replica autosetup -path /a -replica /b",
            "`fairlead stream replica list -path /a` shows",
        ),
        ("stream create -path /a", "the cluster does it all the same, if it was asked already"),
    ],
)
def test_an_interrupted_command_says_what_goes_on(empty: CommandLine, line: str, said: str) -> None:
    """The cluster, here one that does not answer, ends nothing because nobody waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        empty.ok(f"cluster add -name mute -kafka x:1 -http http://127.0.0.1:{silent.getsockname()[1]}")
        command = subprocess.Popen([*PROGRAM, *line.split()], stderr=subprocess.PIPE, text=True)
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1)
            wait_until(lambda: waits_for_bytes(command), "the command waits for its answer")
            command.send_signal(signal.SIGINT)
            _, errors = command.communicate(timeout=60)
    assert command.returncode == 130
    assert errors.startswith("fairlead: stopped")
    assert said in errors
    assert errors.count("\n") == 1


def waits_for_bytes(process: subprocess.Popen[str]) -> bool:
    """Whether a process sleeps in the kernel. Python looks for signals before it does: one that comes between that look
    and a read of a socket is seen only after the read, which here never ends."""
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S"


def test_a_copy_under_way_is_waited_for(fairlead: CommandLine, site: Site) -> None:
    """So that the same command can be given again after an interruption; without a replicator it stays under way."""
    fairlead.ok("stream create -path /copied")
    subprocess.run([*PROGRAM, "produce", "/copied:t"], input=b"one\n", check=True, timeout=60)
    for number in range(2):
        command = subprocess.Popen(
            [*PROGRAM, "copystream", "-src", "/copied", "-dst", "/copy"], stderr=subprocess.PIPE, text=True
        )
        assert command.stderr is not None
        if number == 0:
            wait_until(lambda: copying(site), "the copy is under way")
        else:
            assert "a copy of /copied to /mapr/sanfrancisco/copy is under way" in command.stderr.readline()
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=60)
        assert "the copy to /copy goes on" in errors
    assert fairlead.ok("copystream list -path /copy").out == "(none)\n", "the one under way has used it up"
    fairlead.ok("stream delete -path /copied --yes")  # or health says for ever after that the copy stands still


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("closing", "code", "said"),
    [(">/dev/full", 1, "No space left on device"), (">&-", 0, ""), ("<&- >&-", 0, ""), ("<&- >&- 2>&-", 0, "")],
)
def test_an_output_that_takes_nothing_is_no_bug(
    empty: CommandLine, monkeypatch: pytest.MonkeyPatch, unbuffered: str, closing: str, code: int, said: str
) -> None:
    """What the command did is done; whoever closes its output does not want to read it."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    command = ["sh", "-c", f'exec "$@" {closing}', "sh", *PROGRAM, "cluster", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == (1 if said else 0)


def test_nobody_can_answer_where_the_input_is_closed(empty: CommandLine) -> None:
    """The question would come from nowhere."""
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, "stream", "delete", "-path", "/a"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "add --yes" in done.stderr) == (1, True)


def test_a_closed_output_is_open_in_what_is_started(empty: CommandLine) -> None:
    """The replicator, and its Java, would else write their output into whatever they open first."""
    program = (
        "import subprocess, sys\nfrom fairlead.cli import main, program\n"
        "child = [sys.executable, '-c', 'import sys; sys.exit(sys.stdout is None)']\n"
        "program.run = lambda *_: subprocess.call(child)\nmain.main()"
    )
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", program], check=False)
    assert done.returncode == 0
