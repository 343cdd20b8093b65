"""The process from which Spark forks the Python processes of tasks, `spark.python.daemon.module`.

It is Spark's own, but has already imported what tasks need, so tasks share its memory and begin without imports. Who
carries has a module of its own that imports it and calls `serve`.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable

import pyspark.daemon
import pyspark.worker

from fairlead.process.logs import configure_logs_as_told

_worker = pyspark.daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """What Spark's daemon does in each process that it forks, but without a word where the JVM closed its connection.

    It does so up to twice a round: planning processes have a last word, for which it does not wait.
    """
    try:
        return _worker(sock, authenticated)
    except (EOFError, ConnectionError):
        return 1


def serve(prepare: Callable[[], None]) -> None:
    """Be that process, after `prepare`."""
    configure_logs_as_told(os.environ)
    prepare()
    gc.collect()
    gc.freeze()
    """A garbage collection writes to the objects it looks at, and memory that a fork writes to is no longer shared."""
    os.environ["PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"] = "1"  # else it prints a traceback by itself
    pyspark.daemon.worker = worker
    pyspark.daemon.manager()
