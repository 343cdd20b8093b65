"""What a JVM of Spark writes is in our log."""

from __future__ import annotations

import os
import sys

import pytest
from structlog.testing import capture_logs

from fairlead.replication.spark.format import LinkDataSource
from fairlead.spark.java import find_java, java_environment
from fairlead.spark.session import start_session, stop_session
from fairlead.spark.settings import SparkSettings
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def test_sparks_log_is_in_ours_and_the_jvms_chatter_only_for_debug(
    tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each event is one line, and nothing comes on the console by itself; also when the session starts again."""
    environment = java_environment(find_java(os.environ), os.environ)
    settings = SparkSettings("test", "fairlead.replication.spark.worker_daemon", 1, python=sys.executable)
    with capture_logs() as events:
        for _ in range(2):
            folder = tmp_path_factory.mktemp("short")  # Spark's sockets lie there: their paths have 107 characters
            session = start_session(LinkDataSource, settings, folder, environment)
            assert {event["log_level"] for event in events} <= {"debug"}
            jvm = session.sparkContext._jvm  # noqa: SLF001 - there is no public way to Java's log
            assert jvm is not None
            cause = jvm.java.io.IOException("no\nroom")
            jvm.org.apache.logging.log4j.LogManager.getLogger("org.b.Word").error('say "hello"\n\tthere', cause)
            found = wait_until(lambda: [event for event in events if event["log_level"] != "debug"], "it is logged")
            (event,) = found
            assert (event["log_level"], event["event"]) == ("error", 'say "hello" there')
            assert event["logger"] == "spark.Word"
            assert event["error"].startswith("java.io.IOException: no room")
            stop_session(session)
            events.clear()
    assert capfd.readouterr() == ("", "")
