"""A server that may have few files open."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.waiting import WAIT_SECONDS, wait_until


@pytest.mark.parametrize(("listener", "limit", "clients"), [("kafka", 200, 400), ("http", 1024, 1100)])
def test_more_clients_than_files_stop_no_stream(tmp_path: Path, listener: str, limit: int, clients: int) -> None:
    """Connections are refused before the files run out that commits need; 1,100 idle ones of HTTP stopped a shard.
    A commit as large as the second one is a file of its own."""
    ready = tmp_path / "ready"
    arguments = ["server", "--name", "sf", "--data", str(tmp_path / "sf"), "--ready-file", str(ready)]
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead.cli.main", *arguments, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    try:
        wait_until(lambda: ready.exists() and ready.read_text().endswith("}"), "the server is up")
        addresses = json.loads(ready.read_text())
        host, port = addresses[listener].removeprefix("http://").split(":")
        producer = Producer({"bootstrap.servers": addresses["kafka"], "message.timeout.ms": 20_000})
        outcomes: list[object] = []
        for value in (b"before", b"while" * 100_000):
            with ExitStack() as crowd:
                for _ in range(0 if value == b"before" else clients):
                    with suppress(OSError):
                        crowd.enter_context(socket.create_connection((host, int(port)), 1))
                producer.produce("ships", value, on_delivery=lambda error, _: outcomes.append(error))
                producer.flush(30)
        assert outcomes == [None, None]
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)
