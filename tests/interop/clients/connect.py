"""A Kafka Connect worker in distributed mode, driven by its REST API, with connectors that read and write files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.interop.clients.kafka_tools import java
from tests.interop.site import Site
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

_TEXT = "org.apache.kafka.connect.storage.StringConverter"
ANSWER_SECONDS = 60


class Connector:
    """A connector of a worker."""

    def __init__(self, worker: str, name: str) -> None:
        self._client = httpx.Client(
            base_url=f"{worker}/connectors/{name}", timeout=ANSWER_SECONDS, trust_env=False, follow_redirects=True
        )

    def configure(self, kind: str, config: Mapping[str, str]) -> None:
        named = f"org.apache.kafka.connect.file.FileStream{kind}Connector"
        self._asked("PUT", "/config", {"connector.class": named, "tasks.max": "1", **config})

    def offsets(self) -> list[dict[str, Any]]:
        """Where it stands, as it says."""
        return list(self._asked("GET", "/offsets").json()["offsets"])

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Its tasks are stopped until the block ends."""
        self._asked("PUT", "/stop")
        wait_until(lambda: not self._asked("GET", "/status").json()["tasks"], "the connector's tasks have stopped")
        yield
        self._asked("PUT", "/resume")

    def reset_offsets(self) -> None:
        """It starts again at the beginning."""
        self._asked("DELETE", "/offsets")

    def set_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        self._asked("PATCH", "/offsets", {"offsets": [{"partition": partition, "offset": offset}]})

    def delete(self) -> None:
        self._asked("DELETE", "")
        self._client.close()

    def _asked(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """It is asked again while it is busy with a change of before."""

        def answered() -> httpx.Response | None:
            answer = self._client.request(method, path, json=body)
            return None if answer.status_code == httpx.codes.CONFLICT else answer

        answer = wait_until(answered, f"the worker does {method} {path}")
        assert answer is not None
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer


@contextmanager
def connect_worker(site: Site, folder: Path) -> Iterator[str]:
    """A worker on the stream's listener, until the block ends; the address of its REST API."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    settings = {
        "bootstrap.servers": site.of_stream,
        "group.id": "connect workers",
        **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "2",
        "status.storage.partitions": "1",
        "key.converter": _TEXT,
        "value.converter": _TEXT,
        "offset.flush.interval.ms": "200",
        "consumer.auto.offset.reset": "earliest",
        "plugin.discovery": "service_load",
        "listeners": address,
    }
    properties = folder / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = java("ConnectDistributed", str(properties), package="connect.cli")
    with (folder / "worker.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as worker:
        try:
            wait_until(lambda: worker.poll() is not None or _answers(address), "the worker answers")
            assert worker.poll() is None, (folder / "worker.log").read_text()[-2000:]
            yield address
        finally:
            worker.kill()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/connectors", timeout=ANSWER_SECONDS, trust_env=False).is_success
    except httpx.TransportError:
        return False
