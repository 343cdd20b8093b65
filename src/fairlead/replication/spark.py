"""The Spark session of the replicator, with every setting that long rounds need, and its end.

Each setting was paid for (why-the-rules, F9): without `,4` in the master one killed worker ends the query; with fewer
slots than tasks a task waits a whole round; with the default batch size a frame waits for the next ones.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from pyspark.core.context import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fairlead.replication.link_format import FORMAT, LinkDataSource
from fairlead.replication.options import LinkOptions

TASK_FAILURES_MAX = 4
"""A task that dies (a killed Python process) is tried again this often before the query ends."""

_JVM_END_SECONDS = 3.0
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %p %c{1}: %m%n%ex{short}
logger.killed.name = org.apache.spark.util.Utils
logger.killed.level = off
logger.aborted.name = org.apache.spark.sql.execution.datasources.v2
logger.aborted.level = off
"""
"""Spark reports every stopped round as errors of several classes; a query that dies is logged by us with its reason."""

log = structlog.get_logger("fairlead.replication")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What a site may choose."""

    memory_mb: int = 1024
    python: str = ""
    """Interpreter of the workers; empty: the one of this process."""


def spark_configuration(workers: int, settings: SparkSettings, folder: Path) -> dict[str, str]:
    """Every setting of the session. `folder` takes Spark's temporary files and is removed by the caller."""
    return {
        "spark.app.name": "fairlead-replicator",
        "spark.master": f"local[{workers + 2},{TASK_FAILURES_MAX}]",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.buffer.size": "512",
        "spark.speculation": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{settings.memory_mb}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.task.maxFailures": str(TASK_FAILURES_MAX),
    }


def start_session(workers: int, settings: SparkSettings, folder: Path, environment: Mapping[str, str]) -> SparkSession:
    """Start the JVM and the session. Blocks for some seconds."""
    (folder / "log4j2.properties").write_text(_LOG4J)
    os.environ.update(environment)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if settings.python:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = settings.python
    builder = SparkSession.builder
    for name, value in spark_configuration(workers, settings, folder).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(LinkDataSource)
    return session


def start_rounds(session: SparkSession, options: LinkOptions, checkpoint: Path) -> StreamingQuery:
    """Start the one query of all links: round after round until it is stopped.

    The checkpoint holds the number of the round and nothing else; it may be lost.
    """
    texts = options.to_texts()
    frames = session.readStream.format(FORMAT).options(**texts).load()
    writer = frames.writeStream.format(FORMAT).options(**texts).queryName("links")
    return writer.option("checkpointLocation", str(checkpoint)).start()


def run_once(session: SparkSession, options: LinkOptions) -> None:
    """Carry what is there now, as a batch job with the same source and sink, and return when it was applied."""
    texts = options.to_texts()
    session.read.format(FORMAT).options(**texts).load().write.format(FORMAT).options(**texts).mode("append").save()


def stop_session(session: SparkSession) -> None:
    """Stop the session and end its JVM, with the Python workers. Blocks for a few seconds at most."""
    gateway: Any = session.sparkContext._gateway
    jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    try:
        session.stop()
    except Exception as error:
        log.warning("Spark did not stop by itself", error=str(error).splitlines()[:1])
    finally:
        _end_jvm(gateway, jvm)


def _end_jvm(gateway: Any, jvm: subprocess.Popen[bytes] | None) -> None:
    """Spark's JVM ends when its stdin does; a new session starts a new one."""
    SparkContext._gateway = None
    SparkContext._jvm = None
    try:
        gateway.shutdown()
    except Exception as error:
        log.debug("gateway of Spark did not shut down", error=str(error))
    if jvm is None:
        return
    if jvm.stdin is not None:
        jvm.stdin.close()
    try:
        jvm.wait(_JVM_END_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
