"""What a cluster refuses while a batch is written: one line that names it, and the batch is there once afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.interop.site import STREAM, Site
from tests.kafka.client import opened
from tests.support.broker import run_broker

from fairlead.model.errors import NotAllowed, Unreachable
from fairlead.model.settings import Settings
from fairlead.protocol.batch import HEADER_BYTES, build_batch
from fairlead.records.writing.encoding import Encoded
from fairlead.records.writing.options import WriteOptions
from fairlead.records.writing.publishing import producer_id, publish, settled
from fairlead.records.writing.staging import Staging
from fairlead.storage.local import LocalStorage
from fairlead.streamlog.requests.topics import put_topic
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft

NOW_MS = 1_700_000_000_000
REMEMBERED_MS = 3_600_000
MB = 1_000_000
OPTIONS = WriteOptions(STREAM, ())
IMPATIENT = replace(OPTIONS, delivery_timeout_ms=3000)
OWNER = b"o" * 16


class SmallDisk(LocalStorage):
    """A directory that says it has so much room, less what its files take."""

    def __init__(self, root: Path, size_bytes: int) -> None:
        super().__init__(root)
        self.size_bytes = size_bytes
        self._folder = root

    def free_bytes(self) -> int:
        return max(0, self.size_bytes - sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file()))


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    return SmallDisk(tmp_path / "disk", 10**12)


@pytest.fixture
def site(disk: SmallDisk) -> Iterator[Site]:
    settings = replace(Settings(), reserve_bytes=MB, reserve_ratio=0.0)
    with run_broker(disk, name="site", settings=settings) as broker:
        yield Site(broker, STREAM)


def encoded(site: Site, topics: Sequence[str], size: int = 10) -> Iterator[Encoded]:
    """Batches of one record each."""
    for topic in topics:
        whole = build_batch([(None, bytes(size))], timestamp_ms=NOW_MS)
        yield Encoded(f"{site.path}:{topic}", 0, 1, whole[:HEADER_BYTES], whole[HEADER_BYTES:])


def written(site: Site, topic: str) -> list[tuple[int, int]]:
    """Producer and base sequence of what is stored."""
    return [(head.producer_id, head.base_sequence) for head in site.headers(topic)]


async def test_a_disk_that_fills_up_is_said_with_what_is_there_and_the_rest_comes_once(
    site: Site, disk: SmallDisk, tmp_path: Path
) -> None:
    """In the middle of a batch of 18 MB."""
    site.make_topic("full")
    staging = Staging(tmp_path / "staging", "q-full")
    disk.size_bytes = 6 * MB
    async with opened(site.main) as cluster:
        part = staging.write(0, encoded(site, ["full"] * 20, 900_000))
        manifest = await settled(cluster, staging, 0, [part], NOW_MS, REMEMBERED_MS)
        with pytest.raises(Unreachable) as raised:
            await publish(cluster, staging, manifest, IMPATIENT, NOW_MS)
        taken = len(written(site, "full"))
        assert 0 < taken < 20
        said = str(raised.value)
        told = re.match(r"the cluster took (\d+) records and then none for 3 s \(topic /interop:full, ", said)
        assert told
        assert int(told[1]) <= taken  # what was stored is acknowledged a little later
        assert "are kept in reserve; delete topics, lower the time-to-live or add space" in said
        assert "\n" not in said
        disk.size_bytes = 10**12
        assert await publish(cluster, staging, manifest, OPTIONS, NOW_MS) == 20 - taken
        assert await publish(cluster, staging, manifest, OPTIONS, NOW_MS) == 0
    assert written(site, "full") == [(producer_id("q-full"), number) for number in range(20)]


@pytest.mark.parametrize("forwards", [False, True])
async def test_a_topic_owned_elsewhere_is_refused_with_its_owner_before_anything_is_written(
    site: Site, tmp_path: Path, forwards: bool
) -> None:
    """Also where the stream passes writes on. Without the rows for it, the same batch is written once."""
    stream = site.another("/forwarding" if forwards else "/plain", forward_writes=forwards)
    stream.make_topic("own")

    def copy(draft: Draft) -> None:
        number = draft.state.next_number("copy")
        put_topic(
            draft, Topic(number, "copy", bytes(16), 1, OWNER, home="copy", owner_at="/mapr/sydney/c"), OWNER, OWNER
        )

    site.broker.submit(stream.stream.shard_for("copy"), copy)
    staging = Staging(tmp_path / "staging", "q-owned")
    async with opened(site.main) as cluster:
        part = staging.write(0, encoded(stream, ["own", "copy", "own"]))
        with pytest.raises(NotAllowed) as raised:
            await settled(cluster, staging, 0, [part], NOW_MS, REMEMBERED_MS)
        assert f"topic {stream.path}:copy is owned by /mapr/sydney/c" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert (written(stream, "own"), staging.manifest(0)) == ([], None)
        part = staging.write(0, encoded(stream, ["own", "own"]))
        manifest = await settled(cluster, staging, 0, [part], NOW_MS, REMEMBERED_MS)
        assert [await publish(cluster, staging, manifest, OPTIONS, NOW_MS) for _ in range(2)] == [2, 0]
    assert written(stream, "own") == [(producer_id("q-owned"), 0), (producer_id("q-owned"), 1)]
