"""What partitions hold, as tools ask: bytes, and the producers that are remembered."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import Asker, a_copy, asking, versions
from tests.support.batches import changed, produced_to

from fairlead.broker.handlers.cluster import describe_log_dirs
from fairlead.broker.handlers.records import describe_producers
from fairlead.model.errors import Damaged
from fairlead.protocol.batch import build_batch

LOG_DIRS, PRODUCERS = describe_log_dirs.API_KEY, describe_producers.API_KEY
BATCH = build_batch([(b"k", b"v" * 100)])


async def produced(asker: Asker, name: str, partition: int, batch: bytes = BATCH) -> None:
    found = asker.listener.find(name)
    await produced_to(found.shard, found.topic.number, partition, batch)


def by(producer: int, sequence: int = 0, epoch: int = 0) -> bytes:
    return changed(BATCH, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


async def sizes(asker: Asker, version: int, topics: Any = None) -> dict[str, dict[tuple[str, int], int]]:
    """Bytes of partitions, by directory."""
    answer = await asker.ask(LOG_DIRS, version, topics=topics)
    assert {directory.error_code for directory in answer.results} == {ErrorCode.none}
    return {
        directory.log_dir: {
            (t.name, p.partition_index): p.partition_size for t in directory.topics for p in t.partitions
        }
        for directory in answer.results
    }


@pytest.mark.parametrize("version", versions(LOG_DIRS))
async def test_a_stream_is_a_directory_with_the_bytes_of_its_partitions(version: int) -> None:
    """All topics are those of the listener's own stream; named ones may be another's, and none that does not exist."""
    async with asking() as asker:
        await produced(asker, "a", 1)
        await produced(asker, "a", 1)
        found = await sizes(asker, version)
        assert found == {"/default": {("a", 0): 0, ("a", 1): found["/default"]["a", 1]}}
        assert found["/default"]["a", 1] > 2 * len(BATCH)
        named = [{"topic": "/ships:a", "partitions": [1, 7, -1, 1]}, {"topic": "no", "partitions": [0]}]
        assert await sizes(asker, version, named) == {"/default": {}, "/ships": {("/ships:a", 1): 0}}
        assert list(await sizes(asker.on_stream("/ships"), version)) == ["/ships"]


async def test_the_room_that_is_left_is_the_storages() -> None:
    """Both numbers stand from version 4 on."""
    async with asking() as asker:
        (directory,) = (await asker.ask(LOG_DIRS, 4, topics=None)).results
        storage = asker.cluster.storage
        assert (directory.total_bytes, directory.usable_bytes) == (storage.total_bytes(), storage.free_bytes())


async def test_a_directory_that_cannot_be_measured_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are answered."""
    async with asking() as asker:

        def damaged(sizes: Any) -> Any:
            raise Damaged("segment 1", "it is short")

        shard = asker.listener.find("/ships:a").shard
        monkeypatch.setattr(shard, "sizes", type("Sick", (), {"all": damaged})())
        topics = [{"topic": name, "partitions": [0]} for name in ("a", "/ships:a")]
        answer = await asker.ask(LOG_DIRS, 4, topics=topics)
        codes = {directory.log_dir: directory.error_code for directory in answer.results}
        assert codes == {"/default": ErrorCode.none, "/ships": ErrorCode.kafka_storage_error}


async def test_sizes_end_where_the_answer_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes ask for all partitions."""
    monkeypatch.setattr(describe_log_dirs, "ANSWER_BYTES_MAX", 20)
    async with asking() as asker:
        (directory,) = (await asker.ask(LOG_DIRS, 4, topics=None)).results
        assert (directory.error_code, directory.topics) == (ErrorCode.invalid_request, ())


async def active(asker: Asker, **topics: list[int]) -> dict[tuple[str, int], Any]:
    """The answer for each partition."""
    asked = [{"name": name, "partition_indexes": partitions} for name, partitions in topics.items()]
    answer = await asker.ask(PRODUCERS, 0, topics=asked)
    return {(topic.name, part.partition_index): part for topic in answer.topics for part in topic.partitions}


async def test_a_partition_tells_its_producers() -> None:
    """With their newest epoch and sequence; those of other partitions are not named."""
    async with asking() as asker:
        for batch in (by(5), by(5, 1), by(6), by(6, 0, epoch=3), BATCH):
            await produced(asker, "a", 1, batch)
        await produced(asker, "a", 0, by(7))
        await produced(asker, "/ships:a", 1, by(8))
        answers = await active(asker, a=[1, 1, 0, 2], no=[0])
        found = {p.producer_id: (p.producer_epoch, p.last_sequence) for p in answers["a", 1].active_producers}
        assert found == {5: (0, 1), 6: (3, 0)}
        first = answers["a", 1].active_producers[0]
        assert first.last_timestamp > 0
        assert (first.coordinator_epoch, first.current_txn_start_offset) == (-1, -1)
        assert [p.producer_id for p in answers["a", 0].active_producers] == [7]
        assert answers["a", 2].error_code is ErrorCode.unknown_topic_or_partition
        assert answers["no", 0].error_code is ErrorCode.unknown_topic_or_partition
        assert len(answers) == 4


async def test_producers_that_are_packed_away_are_told_too() -> None:
    """The newest eight thousand of a shard are kept as values, others as bytes; one that is in both is named once."""
    async with asking() as asker:
        await produced(asker, "a", 0, by(2**62))
        shard = asker.listener.find("a").shard
        assert len(shard.state.producers) == 1  # counting packs them
        await produced(asker, "a", 0, by(2**62, 1))
        (producer,) = (await active(asker, a=[0]))["a", 0].active_producers
        assert (producer.producer_id, producer.last_sequence) == (2**62, 1)


async def test_producers_end_where_the_answer_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after is refused by its own code, so that a client may ask for fewer."""
    monkeypatch.setattr(describe_producers, "PRODUCERS_MAX", 1)
    async with asking() as asker:
        for partition in (0, 1):
            await produced(asker, "a", partition, by(5))
        answers = await active(asker, a=[0, 1])
        assert answers["a", 0].error_code is ErrorCode.none
        assert answers["a", 1].error_code is ErrorCode.invalid_request


async def test_a_copy_does_not_say_what_it_has_heard_of_producers() -> None:
    """It may lie behind what its owner has acknowledged: whoever counts on from there would send a number twice."""
    async with asking() as asker:
        await a_copy(asker, "/ships", "copy", owner="/default")
        (topic,) = (await asker.ask(PRODUCERS, 0, topics=[{"name": "/ships:copy", "partition_indexes": [0]}])).topics
        (answer,) = topic.partitions
        assert (answer.error_code, answer.active_producers) == (ErrorCode.policy_violation, ())
        assert "topic /ships:copy is owned by /mapr/site/default" in answer.error_message
        assert "it is in this cluster" in answer.error_message
