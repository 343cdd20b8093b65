"""Objects that are damaged, cut short or gone: one shard takes no more writes and says which object; others go on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support import http_calls
from tests.support.records import read_all
from tests.support.sites import Site
from tests.support.waiting import wait_until

SETTINGS = {"merge_interval_seconds": "0.2", "delete_grace_seconds": "0.2", "merge_idle_seconds": "0.2"}
UNMERGED = {"merge_commits_min": "1000000"}
WELL = "/well"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site("sanfrancisco", tmp_path, SETTINGS)
    site.start("server")
    yield site
    site.stop()


def flip_a_bit(file: Path) -> None:
    """In a record's value."""
    data = bytearray(file.read_bytes())
    data[data.index(b"record-2") + 8] ^= 1
    file.write_bytes(data)


def cut_short(file: Path) -> None:
    """As a disk that lost its last writes."""
    file.write_bytes(file.read_bytes()[:-100])


HARMS: dict[str, Callable[[Path], None]] = {"/damaged": flip_a_bit, "/cut": cut_short, "/missing": Path.unlink}


def filled(site: Site, path: str, batches: int) -> None:
    """A stream with a topic, each record in a commit of its own."""
    http_calls.post(f"{site.url}/rest/stream/create", data={"path": path}).raise_for_status()
    producer = Producer({"bootstrap.servers": site.kafka})
    for number in range(batches):
        producer.produce(f"{path}:t", b"record-%d" % number + bytes(2000))
        assert producer.flush(60) == 0


def shard_of(site: Site, path: str) -> Path:
    """The directory of a stream's one shard."""
    (stream,) = http_calls.get(f"{site.url}/rest/stream/info", params={"path": path}).json()["data"]
    return site.data / "streams" / str(stream["id"]) / "shard-0000"


def merged_into(shard: Path) -> Path | None:
    """The segment of records, once all commits are merged into one and deleted."""
    if list((shard / "commit").glob("*/*")):
        return None
    return next((file for file in (shard / "segment").glob("*") if b"record-2" in file.read_bytes()), None)


def health(site: Site) -> tuple[str, str]:
    """Status and text of /health."""
    answer = http_calls.get(f"{site.url}/health")
    return answer.json()["status"], answer.text


def produce_error(site: Site, path: str, timeout_ms: int = 30_000) -> str | None:
    """What a producer is told that does not try again, or at the latest after the timeout."""
    errors = []
    producer = Producer({"bootstrap.servers": site.kafka, "retries": 0, "message.timeout.ms": timeout_ms})
    producer.produce(f"{path}:t", b"later", on_delivery=lambda error, message: errors.append(error))
    producer.flush(60)
    return None if errors[0] is None else errors[0].name()


def fsck(site: Site) -> tuple[int, str]:
    """Exit code and what is said."""
    done = site.cli("fsck", "--data", str(site.data), check=False)
    return done.returncode, done.stdout + done.stderr


def test_merged_records_that_are_harmed_stop_their_own_stream_only(site: Site, tmp_path: Path) -> None:
    """Found when somebody reads them; producers there are refused, other streams go on, fsck names each object."""
    for path in (*HARMS, WELL):
        filled(site, path, 6)
    shards = {path: shard_of(site, path) for path in (*HARMS, WELL)}
    for path, shard in shards.items():
        wait_until(lambda shard=shard: merged_into(shard), f"{path} is merged")  # type: ignore[misc]
    site.stop()
    shutil.copytree(site.data, tmp_path / "copy")
    assert fsck(site)[0] == 0
    harmed = {path: merged_into(shards[path]) for path in HARMS}
    for path, file in harmed.items():
        assert file is not None
        HARMS[path](file)
    site.start("server")
    for path, file in harmed.items():
        assert file is not None
        read_until_found(site, path, file.name)
        assert produce_error(site, path, 2000) is not None
        assert produce_error(site, WELL) is None
    assert len(read_all(site.kafka, ["t"], prefix=WELL + ":")) == 6 + len(HARMS)
    site.stop()
    code, said = fsck(site)
    assert code == 1
    assert [file.name in said for file in harmed.values() if file] == [True] * len(HARMS), said
    restored_from_copy(site, tmp_path / "copy", [file for file in harmed.values() if file])


def read_until_found(site: Site, path: str, name: str) -> None:
    """Read the stream until the server says which object is harmed."""
    consumer = Consumer({"bootstrap.servers": site.kafka, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(f"{path}:t", 0, 0)])

    def found() -> bool:
        consumer.poll(0.1)
        status, text = health(site)
        return status == "degraded" and name in text

    try:
        wait_until(found, f"{name} is named")
    finally:
        consumer.close()


def restored_from_copy(site: Site, copy: Path, files: list[Path]) -> None:
    """As the message says: each object from a copy, and all is well."""
    for file in files:
        shutil.copy(copy / file.relative_to(site.data), file)
    assert fsck(site)[0] == 0
    site.start("server")
    for path in HARMS:
        assert len(read_all(site.kafka, ["t"], prefix=path + ":")) == 6
    assert health(site)[0] == "ok"


def value_at(site: Site, path: str, offset: int) -> bytes:
    """The beginning of the record at an offset."""
    consumer = Consumer({"bootstrap.servers": site.kafka, "group.id": "g", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(f"{path}:t", 0, offset)])
    try:
        message = wait_until(lambda: consumer.poll(0.1), f"the record at {offset}")
        assert message is not None
    finally:
        consumer.close()
    value, error = message.value(), message.error()
    assert (error, message.offset()) == (None, offset)
    return bytes(value or b"")[:8]


def test_a_hole_among_commits_stops_its_own_stream_only(tmp_path: Path) -> None:
    """A commit is gone and later ones are there: the log is not taken to end before it. It takes nothing more, and what
    lies before and after the hole is read."""
    site = Site("sanfrancisco", tmp_path, UNMERGED)
    site.start("server")
    try:
        for path in ("/hole", WELL):
            filled(site, path, 4)
        commits = sorted((shard_of(site, "/hole") / "commit").glob("*/*"))
        site.stop()
        commits[2].unlink()
        code, said = fsck(site)
        assert (code, commits[2].name in said) == (1, True), said
        site.start("server")
        status, said = health(site)
        assert (status, commits[2].name in said) == ("degraded", True), said
        assert len(read_all(site.kafka, ["t"], prefix=WELL + ":")) == 4
        assert produce_error(site, WELL) is None
        assert produce_error(site, "/hole", 2000) is not None
        assert [value_at(site, "/hole", offset) for offset in (0, 2, 3)] == [b"record-0", b"record-2", b"record-3"]
        site.stop()
        done = site.cli("fsck", "--data", str(site.data), "--set-aside", str(commits[2].relative_to(site.data)))
        assert "topic t, partition 0: offsets 1 to 1 are lost" in done.stdout
        assert f"{site.data}: no damage" in done.stdout
        site.start("server")
        assert health(site)[0] == "ok"
        assert produce_error(site, "/hole") is None
        assert len(read_all(site.kafka, ["t"], prefix="/hole:")) == 4
    finally:
        site.stop()
