"""Every setting of a Spark session that carries rows.

Each has its reason (case F9): without `,4` in the master, one killed worker ends the query; with fewer slots than
tasks, a task waits a whole round; with the default batch size, a frame waits for the next ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairlead.process.logs import log_variables
from fairlead.spark.buffer import SPARK_BUFFER_BYTES

TASK_FAILURES_MAX = 4
"""A task that dies (a killed Python process) is tried again this often before the query ends."""

_FRUGAL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmn32m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
"""The JVM only plans and carries small rows. A collector with many threads and a second compiler would cost more work
and memory than they save here, and a small young generation is enough for objects that are soon garbage."""
_ENDS = "-XX:+ExitOnOutOfMemoryError"
"""A JVM whose threads have died of it would live on, and neither carry nor answer."""

_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Writes the few bytes of a round's number without starting a process; nothing relies on the checkpoint."""

LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = {"level":"%p","logger":"spark.%c{1}","event":"%enc{%m}{JSON}",\
"error":"%enc{%ex{short}}{JSON}"}%n
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
logger.killed.name = org.apache.spark.util.Utils
logger.killed.level = off
logger.aborted.name = org.apache.spark.sql.execution.datasources.v2
logger.aborted.level = off
logger.strangers.name = org.apache.spark.network.server.TransportRequestHandler
logger.strangers.level = off
"""
"""Spark's log as our JSON. It has errors of several classes for every round that is stopped; we log a query that dies,
with its reason. Without a level of its own (`shell`) Spark says which one it takes for its shell. Of a stranger who
speaks to its ports it logs a stack trace for each message, so that anybody could fill the log."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What one who carries chooses."""

    name: str
    """Of the application."""
    daemon: str
    """The module from whose process those of tasks are forked; see `daemon`."""
    workers: int
    """Tasks of a round."""
    memory_mb: int = 512
    python: str = ""
    """Interpreter of the workers; empty: the one of this process."""
    log_level: str = "info"


_NOT_OURS = (
    *("MASTER", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE_ENABLED", "SPARK_EXECUTOR_DIRS"),
    *("SPARK_LOCAL_DIRS", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE"),
)
"""Variables by which a user's own Spark is chosen and set up."""


def spark_environment(settings: SparkSettings, folder: Path) -> dict[str, str | None]:
    """Environment variables of the JVM and, through it, of all Python processes; None: there is none of that name. What
    a user has set for other Sparks decides nothing here."""
    interpreter = {"PYSPARK_PYTHON": settings.python} if settings.python else {}
    return {
        **dict.fromkeys(_NOT_OURS),
        **interpreter,
        # There is nothing: neither defaults nor a script of variables.
        "SPARK_CONF_DIR": str(folder / "conf"),
        "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
        "SPARK_API_MODE": "classic",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(folder),
        # Spark would ask this interpreter which data sources are installed, and keep two processes for that. Ours is
        # registered by the session, and Spark does not ask if this names nothing. No process runs with it.
        "PYSPARK_DRIVER_PYTHON": "none",
        **log_variables(settings.log_level, "json"),
        # Saves the memory of threads that would do nothing here.
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }


def spark_configuration(settings: SparkSettings, folder: Path) -> dict[str, str]:
    """Every setting of the session. `folder` takes Spark's temporary files and is removed by the caller."""
    return {
        "spark.app.name": settings.name,
        "spark.master": f"local[{settings.workers + 2},{TASK_FAILURES_MAX}]",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.buffer.size": str(SPARK_BUFFER_BYTES),
        # Spark leaves Nagle's algorithm on: over TCP a small row would wait up to 40 ms for an acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
        "spark.python.daemon.module": settings.daemon,
        "spark.speculation": "false",
        # Spark's own ports are open to every user of the machine, and deserialise what they get. With this, whoever
        # connects must know a secret, which Spark makes for itself in local mode and tells nobody.
        "spark.authenticate": "true",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{settings.memory_mb}m",
        "spark.driver.extraJavaOptions": " ".join(
            (
                *(_FRUGAL, _ENDS),
                f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}",
                f"-Djava.io.tmpdir={folder}",
            )
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.task.maxFailures": str(TASK_FAILURES_MAX),
    }
