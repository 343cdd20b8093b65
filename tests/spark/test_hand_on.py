"""Lines that Spark's processes write, in our log."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from fairlead.spark.output import hand_on


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("OpenJDK 64-Bit Server VM warning: out of memory", "warning"),
        ("py4j.protocol.Py4JNetworkError: Answer from Java side is empty", "warning"),
        ('  File "/usr/lib/python3/socketserver.py", line 317', "debug"),
        ("\tat org.apache.spark.Something(Something.java:12)", "debug"),
        ("Traceback (most recent call last):", "debug"),
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
