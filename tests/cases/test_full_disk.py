"""A disk that fills up under a running server, and has room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from fairlead.model.settings import Settings
from fairlead.storage.local import LocalStorage
from tests.support import http_calls
from tests.support.broker import run_broker
from tests.support.ledger import Ledger, faults
from tests.support.records import read_all
from tests.support.sites import Site
from tests.support.waiting import WAIT_SECONDS, wait_until

STREAM = "/ships"
PREFIX = STREAM + ":"
MB = 1_000_000
DISK_MB = 96
RESERVE_MB = 24
SETTINGS = {
    "reserve_bytes": str(RESERVE_MB * MB),
    "segment_bytes_max": str(RESERVE_MB * MB // 3),
    "merge_interval_seconds": "0.2",
    "merge_commits_min": "20",
    "delete_grace_seconds": "0.5",
}
TOPICS = ["a", "b", "c"]


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs more rights than this process has")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class Filler:
    """A file that takes room on the disk."""

    def __init__(self, disk: Path) -> None:
        self._file = disk / "filler"

    def leave(self, free_bytes: int) -> None:
        """Take all but so much."""
        with self._file.open("ab") as file:
            while (more := _free(self._file.parent) - free_bytes) > 0:
                file.write(bytes(min(more, MB)))
                file.flush()

    def go(self) -> None:
        """Give it back."""
        self._file.unlink()


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def site(tmp_path: Path, disk: Path) -> Iterator[Site]:
    """A server whose data directory alone is on the small disk."""
    site = Site("sanfrancisco", tmp_path, SETTINGS)
    site.data = disk / "data"
    site.start("server")
    try:
        post(site, "stream/create", path=STREAM)
        for topic in [*TOPICS, "old"]:
            post(site, "stream/topic/create", path=STREAM, topic=topic)
        yield site
    finally:
        site.stop()


def post(site: Site, command: str, **fields: str) -> None:
    """One command that must succeed."""
    answer = http_calls.post(f"{site.url}/rest/{command}", data=fields)
    assert answer.status_code == 200, answer.text


def produced(kafka: str, topic: str, value: bytes) -> str | None:
    """The error that a producer which does not try again is given; None if the record was written."""
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    producer = Producer({"bootstrap.servers": kafka, "retries": 0, "message.timeout.ms": 20_000})
    producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(30) == 0
    (error,) = errors
    return None if error is None else error.name()


def test_a_full_disk_refuses_records_loses_none_and_goes_on(site: Site, disk: Path) -> None:
    """Producers are told, topics can be deleted meanwhile, and with room again all goes on by itself."""
    filler = Filler(disk)
    with Ledger(site.kafka, TOPICS, prefix=PREFIX, label="full", per_second=1000) as ledger:
        ledger.wait_for(500)
        filler.leave(RESERVE_MB * MB // 2)
        wait_until(
            lambda: produced(site.kafka, PREFIX + "old", b"x") == "KAFKA_STORAGE_ERROR", "producers are refused", 30
        )
        refused_at = len(ledger.acknowledged)
        post(site, "stream/topic/delete", path=STREAM, topic="old")
        assert produced(site.kafka, PREFIX + "a", b"x") == "KAFKA_STORAGE_ERROR"
        filler.leave(0)
        answer = http_calls.post(f"{site.url}/rest/stream/topic/create", data={"path": STREAM, "topic": "no-room"})
        assert (answer.status_code, answer.json()["status"]) == (507, "ERROR"), answer.text
        assert http_calls.get(f"{site.url}/health").status_code == 200
        filler.go()
        ledger.wait_for(refused_at + 500)
    assert ledger.failed == []
    assert faults(ledger.acknowledged, read_all(site.kafka, TOPICS, prefix=PREFIX)) == []
    site.kill()
    site.start("server")
    assert faults(ledger.acknowledged, read_all(site.kafka, TOPICS, prefix=PREFIX)) == []


def test_a_deleted_topic_gives_its_room_back(site: Site) -> None:
    """The disk is full of one topic: once it is deleted, merging makes room and producers go on."""
    written_mb = 0

    def is_full() -> bool:
        nonlocal written_mb
        while (error := produced(site.kafka, PREFIX + "old", b"%d" % written_mb + bytes(MB - 1000))) is None:
            written_mb += 1
            assert written_mb < DISK_MB, "more than the disk holds was written"
        assert error == "KAFKA_STORAGE_ERROR"
        # Refused before that, producers only wait for what a merge has replaced.
        return written_mb > DISK_MB / 2 and produced(site.kafka, PREFIX + "a", b"x") == "KAFKA_STORAGE_ERROR"

    wait_until(is_full, "the disk is full of one topic")
    post(site, "stream/topic/delete", path=STREAM, topic="old")
    wait_until(lambda: produced(site.kafka, PREFIX + "a", b"x") is None, "there is room again")
    wait_until(lambda: _free(site.data) > DISK_MB * MB / 2, "the topic's room is free")


class ScarceDisk(LocalStorage):
    """A directory that says how much room it has."""

    room_bytes = 10**12

    def free_bytes(self) -> int:
        return self.room_bytes


def test_below_the_reserve_records_are_refused_and_deletions_are_not(tmp_path: Path) -> None:
    """An ordinary producer waits for room and loses nothing; whoever does not try again is told."""
    disk = ScarceDisk(tmp_path)
    settings = replace(Settings(), reserve_bytes=MB, reserve_ratio=0.0)
    with run_broker(disk, settings=settings) as broker:
        assert produced(broker.bootstrap, "a", b"0") is None
        assert produced(broker.bootstrap, "b", b"0") is None
        disk.room_bytes = MB - 1
        wait_until(lambda: produced(broker.bootstrap, "a", b"x") is not None, "producers are refused")
        assert produced(broker.bootstrap, "a", b"x") == "KAFKA_STORAGE_ERROR"
        patient = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "retry.backoff.ms": 20})
        patient.produce("a", b"patient")
        assert patient.flush(0.5) == 1
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["b"])["b"].result(WAIT_SECONDS)
        disk.room_bytes = MB
        assert patient.flush(WAIT_SECONDS) == 0
        values = [content.value for content in read_all(broker.bootstrap, ["a"], prefix="").values()]
        assert values[0] == b"0"
        assert values[-1] == b"patient"
        assert values.count(b"patient") == 1
