"""A Spark session: its start, its one query, its end."""

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
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.query import StreamingQuery

from fairlead.process.environment import variables_set
from fairlead.spark.output import SparkOutput
from fairlead.spark.settings import LOG4J, SparkSettings, spark_configuration, spark_environment

_JVM_END_SECONDS = 3.0

log = structlog.get_logger("fairlead.spark")


def start_session(
    source: type[DataSource], settings: SparkSettings, folder: Path, environment: Mapping[str, str]
) -> SparkSession:
    """Start the JVM and a session that knows `source`. Blocks for some seconds."""
    (folder / "log4j2.properties").write_text(LOG4J)
    configuration = SparkConf(loadDefaults=False).setAll(list(spark_configuration(settings, folder).items()))
    home = _own_home(environment) or home_of_jars(folder)
    with variables_set({**environment, **spark_environment(settings, folder), "SPARK_HOME": str(home)}):
        gateway = _start_jvm(configuration)
        try:
            return _session(configuration, source)
        except BaseException:
            forget_session()
            _end_jvm(gateway, gateway.proc)
            raise


def _session(configuration: SparkConf, source: type[DataSource]) -> SparkSession:
    session = SparkSession.builder.config(conf=configuration).getOrCreate()
    # It says with a traceback that the JVM has died, which is known by other ways.
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    session.dataSource.register(source)
    return session


def _start_jvm(configuration: SparkConf) -> Any:
    """Start the JVM as a new context would, but with its output in our log; returns its gateway, which has both."""
    output = SparkOutput()
    try:
        gateway = launch_gateway(configuration, output.streams())  # type: ignore[no-untyped-call]
    finally:
        output.close()
    gateway.output = output
    SparkContext._gateway = gateway
    SparkContext._jvm = gateway.jvm
    return gateway


def _own_home(environment: Mapping[str, str]) -> Path | None:
    """The user's SPARK_HOME, if it is the Spark that this PySpark speaks with."""
    named = environment.get("SPARK_HOME")
    if not named:
        return None
    if any((Path(named) / "jars").glob(f"spark-core_*-{pyspark.__version__}.jar")):
        return Path(named)
    log.info("SPARK_HOME is not used: it is another Spark than PySpark", home=named, pyspark=pyspark.__version__)
    return None


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


def start_rounds(
    session: SparkSession, source: type[DataSource], texts: Mapping[str, str], checkpoint: Path
) -> StreamingQuery:
    """Start the query that carries the rows of a source's readers to its sinks: round after round until it is stopped.

    The checkpoint holds the number of the round and nothing else; it may be lost.
    """
    rows = session.readStream.format(source.name()).options(**texts).load()
    writer = rows.writeStream.format(source.name()).options(**texts).queryName(source.name())
    return writer.option("checkpointLocation", str(checkpoint)).start()


def run_once(session: SparkSession, source: type[DataSource], texts: Mapping[str, str]) -> None:
    """Carry what is there now, as a batch job with the same readers and sinks; returns once it has been applied."""
    rows = session.read.format(source.name()).options(**texts).load()
    rows.write.format(source.name()).options(**texts).mode("append").save()


def stop_session(session: SparkSession) -> None:
    """Stop the session and end its JVM, with the Python workers. Blocks for a few seconds at most."""
    gateway: Any = session.sparkContext._gateway
    jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    gateway.output.ending()
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
