"""The Spark session of the replicator: its start, its one query, its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from pyspark.core.context import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fairlead.replication.link_format import FORMAT, LinkDataSource
from fairlead.replication.options import LinkOptions
from fairlead.replication.spark_settings import LOG4J, SparkSettings, spark_configuration

_JVM_END_SECONDS = 3.0

log = structlog.get_logger("fairlead.replication")


def start_session(workers: int, settings: SparkSettings, folder: Path, environment: Mapping[str, str]) -> SparkSession:
    """Start the JVM and the session. Blocks for some seconds."""
    (folder / "log4j2.properties").write_text(LOG4J)
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
        for query in session.streams.active:
            query.stop()
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
