"""A server of its own process, for Spark to read from and to write to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer

from tests.support.waiting import WAIT_SECONDS, wait_until

QUICK_MERGING = {
    "FAIRLEAD_MERGE_INTERVAL_SECONDS": "0.1",
    "FAIRLEAD_MERGE_COMMITS_MIN": "2",
    "FAIRLEAD_DELETE_GRACE_SECONDS": "0.1",
}


@dataclass(frozen=True)
class RunningServer:
    """A server of its own process."""

    kafka: str
    http: str
    data: Path

    def post(self, route: str, **body: Any) -> None:
        answer = httpx.post(self.http + route, json=body, timeout=WAIT_SECONDS, trust_env=False).json()
        assert answer["status"] == "OK", answer

    def produce(self, topic: str, values: list[str], stream: str = "/default") -> None:
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 1})
        for value in values:
            producer.produce(f"{stream}:{topic}", value.encode(), key=b"k", headers=[("h", b"1")])
        assert producer.flush(WAIT_SECONDS) == 0

    def segments(self) -> int:
        return len(list(self.data.glob("streams/*/*/segment/*")))


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[RunningServer]:
    """A server that merges within a second, until the block ends."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    environment = QUICK_MERGING | {f"FAIRLEAD_{key.upper()}": value for key, value in settings.items()}
    command = [str(Path(sys.executable).with_name("fairlead")), "server", "--name", "port", "--data", str(folder / "d")]
    command += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ready-file", str(ready)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, "the server is up")
        assert ready.exists(), (folder / "log").read_text()
        found = json.loads(ready.read_text())
        yield RunningServer(found["kafka"], found["http"], folder / "d")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_SECONDS)
