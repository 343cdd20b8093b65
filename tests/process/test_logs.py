"""Log lines: one form for ours, those of libraries and those of processes that this one started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import structlog
from tests.streamlog.world import FakeClock

from fairlead.process.logs import LineLimit

PROGRAM = """
import logging, os, structlog
from fairlead.process.logs import configure_logs, configure_logs_as_told, log_variables, relay
"""
TEXT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z \[")


def written(form: str, program: str, level: str = "info") -> list[str]:
    """The lines of a process that is set up like this."""
    command = [sys.executable, "-c", f"{PROGRAM}configure_logs({level!r}, {form!r})\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


EVENTS = """
structlog.get_logger("ours").info("links to carry", links=2)
logging.getLogger("uvicorn.error").warning("Invalid HTTP %s", "request")
relay('{"level":"ERROR","logger":"spark.Word","event":"no\\\\nroom","error":""}')
"""


def test_text_has_one_form() -> None:
    """Time, level, what happened, values."""
    lines = written("text", EVENTS)
    assert len(lines) == 3
    assert all(TEXT.match(line) for line in lines)
    assert [line.partition("] ")[2] for line in lines] == [
        "links to carry links=2",
        "Invalid HTTP request [uvicorn.error]",
        "no room [spark.Word]",
    ]


def test_json_is_an_object_a_line() -> None:
    """With the same names everywhere."""
    found = [json.loads(line) for line in written("json", EVENTS)]
    assert all(TEXT.match(event.pop("timestamp") + " [") for event in found)
    assert found == [
        {"event": "links to carry", "level": "info", "links": 2},
        {"event": "Invalid HTTP request", "level": "warning", "logger": "uvicorn.error"},
        {"event": "no room", "level": "error", "logger": "spark.Word"},
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_librarys_error_is_one_line(form: str) -> None:
    """py4j wrote thirty when the JVM died."""
    (line,) = written(
        form, "try: 1/0\nexcept ZeroDivisionError: logging.getLogger('py4j').exception('while sending a command')"
    )
    assert "ZeroDivisionError: division by zero" in line
    assert "while sending a command" in line


def test_where_our_own_error_comes_from_is_shown() -> None:
    """It is a bug; in JSON it is a field, so that the line stays one."""
    program = "try: 1/0\nexcept ZeroDivisionError: structlog.get_logger().exception('task ended')"
    assert "Traceback (most recent call last):" in written("text", program)
    (line,) = written("json", program)
    assert "Traceback" in json.loads(line)["exception"]


def test_a_process_that_is_started_writes_as_it_is_told() -> None:
    """Level and form come by variables."""
    program = (
        "os.environ.update(log_variables('warning', 'json')); configure_logs_as_told(os.environ)\n"
        "structlog.get_logger().info('quiet'); structlog.get_logger().warning('loud')"
    )
    assert [json.loads(line)["event"] for line in written("text", program)] == ["loud"]
    unset = "os.environ.pop('FAIRLEAD_LOG_FORMAT', 0); configure_logs_as_told(os.environ); " + EVENTS.splitlines()[1]
    assert [line.partition("] ")[2] for line in written("json", unset)] == ["links to carry links=2"]


def test_what_is_no_event_is_not_handed_on() -> None:
    """Its reader decides what becomes of it."""
    program = "assert [relay(line) for line in ('', 'words', '7', '{}', '[]', '{\"event\":1}')] == 6 * [False]"
    assert written("json", program) == []


def test_lines_of_a_kind_are_bounded_and_those_left_out_are_counted() -> None:
    """A neighbour with bad connections filled the disk. Other kinds are written, also those of libraries."""
    clock = FakeClock()
    limit = LineLimit(clock)
    written = [limit.left_out("client disconnected") for _ in range(100)]
    assert written == [0] * 30 + [None] * 70
    assert limit.left_out("link failed") == 0
    with pytest.raises(structlog.DropEvent):
        limit.processor(None, "warning", {"event": "client disconnected"})
    assert limit.processor(None, "info", {"event": "client disconnected"}) == {"event": "client disconnected"}
    clock.pass_ms(60_000)
    event = limit.processor(None, "warning", {"event": "client disconnected"})
    assert event == {"event": "client disconnected", "left_out": 71}
    assert limit.left_out("client disconnected") == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_line_commands_no_terminal(form: str) -> None:
    """Also one of a library."""
    program = """
structlog.get_logger().warning("link failed", error="\\x1b[2J", replica="/a\\u202eb")
logging.getLogger("library").warning("\\x1b[2J")
for number in range(100): logging.getLogger("uvicorn.error").warning("Invalid HTTP request")
"""
    lines = written(form, program)
    assert len(lines) == 32
    assert not {"\x1b", "\u202e"} & set("".join(lines))
    assert "x1b[2J" in lines[0]


def full_disk() -> int:
    """Standard error on a disk that has no room."""
    return os.open("/dev/full", os.O_WRONLY)


def gone_reader() -> int:
    """Standard error into a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("standard_error", [full_disk, gone_reader])
def test_a_line_that_cannot_be_written_is_lost_and_harms_nobody(standard_error: Callable[[], int]) -> None:
    """A full disk ended what watched for links, and the process lived on deaf. Once there is room, lines come again."""
    program = """
structlog.get_logger().warning("lost")
logging.getLogger("library").warning("lost too")
os.dup2(1, 2)
structlog.get_logger().warning("there is room")
logging.getLogger("library").warning("for both")
"""
    command = [sys.executable, "-c", f"{PROGRAM}configure_logs('info')\n{program}"]
    descriptor = standard_error()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=descriptor, text=True, check=True)
    finally:
        os.close(descriptor)
    assert "there is room" in done.stdout
    assert "for both" in done.stdout
    assert "Traceback" not in done.stdout
