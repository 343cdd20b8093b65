"""Lines that Spark's processes write, in our log."""

from __future__ import annotations

import os

import pytest
from structlog.testing import capture_logs

from fairlead.spark import output
from fairlead.spark.output import SparkOutput, hand_on
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("OpenJDK 64-Bit Server VM warning: out of memory", "warning"),
        ("py4j.protocol.Py4JNetworkError: Answer from Java side is empty", "warning"),
        ('  File "/usr/lib/python3/socketserver.py", line 317', "debug"),
        ("\tat org.apache.spark.Something(Something.java:12)", "debug"),
        ("Traceback (most recent call last):", "debug"),
        ("During handling of the above exception, another exception occurred:", "debug"),
        ("BrokenPipeError: [Errno 32] Broken pipe", "debug"),
        ("WARNING: Using incubator modules: jdk.incubator.vector", "debug"),
    ],
)
def test_what_is_no_event_is_one(line: str, level: str) -> None:
    """Of an error with its stack the line that names it is shown."""
    with capture_logs() as events:
        hand_on(line)
    assert events == [{"event": "Spark wrote", "line": line.strip(), "log_level": level}]


def test_an_event_is_handed_on() -> None:
    """Spark's own log and that of our Python processes is JSON."""
    with capture_logs() as events:
        hand_on('{"event":"task ended","level":"warning","timestamp":"2026-01-01T00:00:00Z","task":"sink"}')
        hand_on("")
    assert events == [{"event": "task ended", "task": "sink", "log_level": "warning"}]


SPARKS = '{"level":"ERROR","logger":"spark.MicroBatchExecution","event":"Query terminated with error","error":""}'
OURS = '{"link": "7f", "event": "sink failed", "level": "error", "timestamp": "2026-01-01T00:00:00Z"}'


@pytest.mark.parametrize(
    ("line", "running", "ending"),
    [
        (SPARKS, ("error", "Query terminated with error"), ("debug", "Spark wrote")),
        ("pyspark.errors.PySparkRuntimeError: no socket", ("warning", "Spark wrote"), ("debug", "Spark wrote")),
        (OURS, ("error", "sink failed"), ("error", "sink failed")),
    ],
)
def test_what_spark_says_of_its_own_end_is_for_debug(
    line: str, running: tuple[str, str], ending: tuple[str, str]
) -> None:
    """Who stops a cluster just as a query begins has no errors to read; what is ours is said as ever."""
    found = SparkOutput()
    with capture_logs() as events:
        os.write(found.streams()["stdout"], f"{line}\n".encode())
        wait_until(lambda: len(events) == 1, "the first is handed on")
        found.ending()
        os.write(found.streams()["stdout"], f"{line}\n".encode())
        found.close()
        wait_until(lambda: len(events) == 2, "the second is handed on")
    assert [(event["log_level"], event["event"]) for event in events] == [running, ending]


def test_a_line_that_cannot_be_handed_on_does_not_end_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipe would break, and with it every process of Spark that writes a line."""
    handed: list[str] = []

    def hand_on_or_fail(line: str, **_: bool) -> None:
        handed.append(line)
        if len(handed) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "hand_on", hand_on_or_fail)
    found = SparkOutput()
    os.write(found.streams()["stdout"], b"one\ntwo\n")
    found.close()
    wait_until(lambda: handed == ["one", "two"], "the second line comes")
