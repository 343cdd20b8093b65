"""The Spark session of the replicator: its start, its one query, its end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
import structlog
from pyspark.conf import SparkConf
from pyspark.core.context import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fairlead.process.environment import variables_set
from fairlead.replication.spark.format import FORMAT, LinkDataSource
from fairlead.replication.spark.options import LinkOptions
from fairlead.replication.spark.output import SparkOutput
from fairlead.replication.spark.settings import LOG4J, SparkSettings, spark_configuration, spark_environment

_JVM_END_SECONDS = 3.0

log = structlog.get_logger("fairlead.replication")


def start_session(workers: int, settings: SparkSettings, folder: Path, environment: Mapping[str, str]) -> SparkSession:
    """Start the JVM and the session. Blocks for some seconds."""
    (folder / "log4j2.properties").write_text(LOG4J)
    configuration = SparkConf(loadDefaults=False).setAll(list(spark_configuration(workers, settings, folder).items()))
    home = environment.get("SPARK_HOME") or str(home_of_jars(folder))
    with variables_set({**environment, **spark_environment(settings), "SPARK_HOME": home}):
        _start_jvm(configuration)
        session = SparkSession.builder.config(conf=configuration).getOrCreate()
    # It says with a traceback that the JVM has died, which is known by other ways.
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    session.dataSource.register(LinkDataSource)
    return session


def _start_jvm(configuration: SparkConf) -> None:
    """Start the JVM as a new context would, but with its output in our log."""
    output = SparkOutput()
    try:
        gateway = launch_gateway(configuration, output.streams())  # type: ignore[no-untyped-call]
    finally:
        output.close()
    SparkContext._gateway = gateway
    SparkContext._jvm = gateway.jvm


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
        if jvm is not None and jvm.poll() is None:
            for query in session.streams.active:
                query.stop()
            session.stop()
        else:
            session.sparkContext._accumulatorServer.shutdown()
    except Exception as error:
        log.warning("Spark did not stop by itself", error=str(error).splitlines()[:1])
    finally:
        forget_session()
        _end_jvm(gateway, jvm)


def forget_session() -> None:
    """The next session starts a JVM of its own, also where this one's died before it could be stopped."""
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _end_jvm(gateway: Any, jvm: subprocess.Popen[bytes] | None) -> None:
    """Spark's JVM ends when its stdin does."""
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
