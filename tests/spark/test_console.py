"""What comes on the console of `fairlead up`, from all of its processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.sites import java_of, kill_pid, sites
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def test_the_console_has_only_log_lines_also_when_the_jvm_dies(tmp_path: Path) -> None:
    """And Spark is started again by the same replicator."""
    settings = {"log_format": "json", "round_seconds": "2"}
    with sites(tmp_path, "sanfrancisco", settings=settings) as (site,):
        site.cli("stream", "create", "-path", "/one")
        site.cli("stream", "replica", "autosetup", "-path", "/one", "-replica", "/two")
        wait_until(site.spark_worker_pids, "Spark's workers run")
        replicator = site.replicator_pid()
        assert replicator is not None
        jvm = java_of(replicator)
        assert jvm is not None
        kill_pid(jvm)
        wait_until(lambda: site.log.read_text().count('"Spark started"') == 2, "Spark is started again")
        site.cli("stream", "topic", "create", "-path", "/one", "-topic", "later")
        wait_until(lambda: site.in_sync("/one"), "the replica has the topic")
        assert site.replicator_pid() == replicator
        site.stop()
        events = [json.loads(line) for line in site.log.read_text().splitlines()]
    said = [event["event"] for event in events]
    assert "cluster sanfrancisco is up" in said
    assert [event["reason"] for event in events if event["level"] == "error"] == ["Spark's Java process ended"]
    assert {event["level"] for event in events} <= {"info", "error"}
