"""The process from which Spark forks those of tasks, here without Spark."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import WAIT_SECONDS

DAEMON = [sys.executable, "-m", "fairlead.replication.spark.worker_daemon"]


def test_a_connection_that_the_jvm_closed_is_no_error(tmp_path: Path) -> None:
    """It has what it wanted from a planning process and closes the connection while that still writes.

    What the process wrote of it was a traceback with a BrokenPipeError, in the console of `fairlead up`.
    """
    environment = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(tmp_path),
        "SPARK_REUSE_WORKER": "1",
    }
    with subprocess.Popen(
        [*DAEMON, "pyspark.sql.worker.plan_data_source_read"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as daemon:
        assert daemon.stdout is not None
        (length,) = struct.unpack("!i", daemon.stdout.read(4))
        path = daemon.stdout.read(length).decode()
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as jvm:
                jvm.settimeout(WAIT_SECONDS)
                jvm.connect(path)
                assert len(jvm.recv(4)) == 4  # the id of the process
                jvm.sendall(struct.pack("!i", 3) + b"no ")  # a version of Python that it refuses, with many words
        _, errors = daemon.communicate(timeout=WAIT_SECONDS)
    assert errors == b""
