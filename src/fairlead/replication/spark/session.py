"""The Spark session of the replicator: its start, its one query, its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import structlog
from pyspark.core.context import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fairlead.replication.spark.format import FORMAT, LinkDataSource
from fairlead.replication.spark.options import LinkOptions
from fairlead.replication.spark.settings import LOG4J, SparkSettings, spark_configuration, spark_environment

_JVM_END_SECONDS = 3.0

log = structlog.get_logger("fairlead.replication")


def start_session(workers: int, settings: SparkSettings, folder: Path, environment: Mapping[str, str]) -> SparkSession:
    """Start the JVM and the session. Blocks for some seconds."""
    (folder / "log4j2.properties").write_text(LOG4J)
    builder = SparkSession.builder
    for name, value in spark_configuration(workers, settings, folder).items():
        builder = builder.config(name, value)
    home = environment.get("SPARK_HOME") or str(home_of_jars(folder))
    with _variables({**environment, **spark_environment(settings), "SPARK_HOME": home}):
        session = builder.getOrCreate()
    session.dataSource.register(LinkDataSource)
    return session


def home_of_jars(folder: Path) -> Path:
    """Spark as pip installs it, without the zip of PySpark that comes with it.

    Python would load every process's modules from that zip, and compile them each time: 0.3 s and 12 MB.
    """
    installed = Path(pyspark.__path__[0])
    if not (installed / "jars").is_dir():
        return installed
    home = folder / "spark"
    home.mkdir()
    for part in ("bin", "jars", "conf"):
        if (installed / part).exists():
            (home / part).symlink_to(installed / part)
    return home


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables for what is started meanwhile, the JVM."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def start_rounds(session: SparkSession, options: LinkOptions, checkpoint: Path) -> StreamingQuery:
    """Start the one query of all links: round after round until it is stopped.

    The checkpoint holds the number of the round and nothing else; it may be lost.
    """
    texts = options.to_texts()
    frames = session.readStream.format(FORMAT).options(**texts).load()
    writer = frames.writeStream.format(FORMAT).options(**texts).queryName("links")
    return writer.option("checkpointLocation", str(checkpoint)).start()


def run_once(session: SparkSession, options: LinkOptions) -> None:
    """Carry what is there now, as a batch job with the same source and sink; returns once it has been applied."""
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
