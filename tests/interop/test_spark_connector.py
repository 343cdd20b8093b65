"""Spark's own Kafka connector on a stream's listener."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.site import Site
from tests.interop.test_behaviours import stored
from tests.interop.test_streams import KEYS, TIMES, send

PROGRAM = Path(__file__).parent / "clients" / "spark_program.py"
JARS = Path(__file__).parents[2] / ".make" / "bench" / "spark-jars"


@pytest.fixture
def spark_jars() -> str:
    """The connector, on a class path."""
    if not JARS.is_dir():
        pytest.fail("Spark's Kafka connector is not there; run scripts/interop-setup")
    return os.pathsep.join(map(str, sorted(JARS.glob("*.jar"))))


def test_spark_reads_a_batch_and_copies_a_stream(
    spark_jars: str, site: Site, wide_topic: str, topic: str, tmp_path: Path
) -> None:
    """A batch query finds all; a streaming query writes to another topic, and goes on where its checkpoint ends."""
    send(site, wide_topic)
    arguments = [site.of_stream, wide_topic, topic, str(tmp_path / "checkpoint"), spark_jars]
    command = [sys.executable, str(PROGRAM), *arguments]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as spark,
    ):
        assert spark.stdin is not None
        assert spark.stdout is not None

        def said() -> str:
            assert spark.stdout is not None
            return spark.stdout.readline().decode().strip() or (tmp_path / "log").read_text()[-2000:]

        def copy() -> None:
            assert spark.stdin is not None
            spark.stdin.write(b"\n")
            spark.stdin.flush()
            assert said() == "copied"

        try:
            assert json.loads(said()) == {"records": KEYS * TIMES, "keys": KEYS}
            copy()
            assert len(stored(site, topic)) == KEYS * TIMES
            send(site, wide_topic)
            copy()
            assert len(stored(site, topic)) == 2 * KEYS * TIMES
        finally:
            spark.stdin.close()
            spark.kill()
