"""Archives of the classes that the tests' virtual machines load (JEP 350): each starts in half the processor time.

`python -m tests.support.class_archives` makes them, in .make/classes, unless they are there for this Java and these
jars. Where there are none, a virtual machine starts as it does without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".make" / "classes"
SERVER = "server"
"""Apache Kafka's server and its tools beside it."""
TOOLS = "tools"
"""Kafka's tools of the interop tests."""
SPARK = "spark"
SPARK_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Options of each virtual machine that runs Spark; Spark's own launcher reads them."""
SMALL_SPARK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""As `fairlead` runs Spark: the virtual machines of tests live for some seconds."""
_QUIET = "-Xlog:disable"
"""What an archive leaves out would be told on standard output."""
_DUMP_SECONDS = 120
_STAMP = FOLDER / "made-for"


def archive_flags(name: str) -> tuple[str, ...]:
    """Flags of a virtual machine by which it takes its classes from an archive."""
    file = FOLDER / f"{name}.jsa"
    return (f"-XX:SharedArchiveFile={file}", _QUIET) if file.is_file() else ()


def main() -> int:
    """Make all of them; the exit code."""
    made_for = _made_for()
    if _STAMP.is_file() and _STAMP.read_text() == made_for:
        return 0
    print("making archives of the classes that the tests' virtual machines load")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        _kafka(Path(folder))
        _spark(Path(folder))
    _STAMP.write_text(made_for)
    return 0


def _made_for() -> str:
    """An archive is of no use to another Java, or to jars that were written anew."""
    from benchmarks.systems.kafka import JARS

    from tests.interop.clients.kafka_tools import JARS as TOOL_JARS

    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    jars = [Path(pyspark.__path__[0]) / "jars", JARS, TOOL_JARS]
    return "\n".join([java, *(f"{place} {place.stat().st_mtime_ns}" for place in jars)])


def _record(name: str) -> tuple[str, ...]:
    """Flags of a virtual machine that writes the archive when it ends in order."""
    return (f"-XX:ArchiveClassesAtExit={FOLDER / name}.jsa", _QUIET)


def _kafka(folder: Path) -> None:
    """A server that is asked for a little of each kind, by a tool that produces, consumes and makes its topic."""
    from benchmarks.systems.kafka import SMALL, SMALL_HEAP, kafka

    from tests.interop.clients.kafka_tools import java

    (place := folder / "kafka").mkdir()
    with kafka(place, SMALL, "kafka", (*SMALL_HEAP, *_record(SERVER))) as server:
        tool = java("EndToEndLatency", server.bootstrap, "latency", "10", "all", "100")
        subprocess.run(
            [tool[0], *_record(TOOLS), *tool[1:]], check=True, timeout=_DUMP_SECONDS, stdout=subprocess.DEVNULL
        )


def _spark(folder: Path) -> None:
    """A session that reads a topic as a table and as a stream, counts, and writes."""
    from examples.ships import analytics

    from tests.spark.running_server import running

    os.environ[SPARK_OPTIONS] = " ".join((*SMALL_SPARK, *_record(SPARK)))
    with running(folder) as server:
        server.produce("speed", ["1", "2"])
        session = analytics.session()
        options = {"server": server.http, "topics": "speed"}
        session.read.format("fairlead").options(**options).load("/default").groupBy("key").count().collect()
        rows = session.readStream.format("fairlead").options(**options, startingOffsets="earliest").load("/default")
        copied = rows.selectExpr("'copy' AS topic", "key", "value")
        writer = copied.writeStream.format("fairlead").option("server", server.http)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        writer.start("/default").awaitTermination()
        gateway = session.sparkContext._gateway  # noqa: SLF001 - nothing else knows the process
        session.stop()
        _end(gateway)


def _end(gateway: Any) -> None:
    """The virtual machine writes the archive once its standard input has ended."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_DUMP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
