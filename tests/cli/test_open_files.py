"""A server that may have few files open."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from confluent_kafka import Producer

from tests.support.waiting import wait_until

LIMIT = 200


def test_more_clients_than_files_stop_no_stream(tmp_path: Path) -> None:
    """Connections are refused before the files run out that commits need."""
    ready = tmp_path / "ready"
    arguments = ["server", "--name", "sf", "--data", str(tmp_path / "sf"), "--ready-file", str(ready)]
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead.cli.main", *arguments, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT)),
    )
    try:
        wait_until(lambda: ready.exists() and ready.read_text().endswith("}"), "the server is up")
        host, port = json.loads(ready.read_text())["kafka"].split(":")
        producer = Producer({"bootstrap.servers": f"{host}:{port}", "message.timeout.ms": 20_000})
        outcomes: list[object] = []
        for value in (b"before", b"while"):
            with ExitStack() as crowd:
                for _ in range(2 * LIMIT if value == b"while" else 0):
                    with suppress(OSError):
                        crowd.enter_context(socket.create_connection((host, int(port)), 1))
                producer.produce("ships", value, on_delivery=lambda error, _: outcomes.append(error))
                producer.flush(30)
        assert outcomes == [None, None]
    finally:
        process.terminate()
        process.wait(20)
