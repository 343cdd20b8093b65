"""CreateTopics, CreatePartitions, DeleteTopics and ListOffsets of many topics at once, each with its own answer."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.handlers.asking import asking, topic_id, versions
from tests.support.batches import produced_to

from fairlead.broker.handlers.topics import create_partitions, delete_topics
from fairlead.broker.topics.topic_changes import change_all
from fairlead.cluster.stream import CHANGED_TOGETHER, uuid5_bytes
from fairlead.cluster.values import StreamSettings
from fairlead.protocol.batch import build_batch

LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 2, 19, 20, 37
MANY = 2 * CHANGED_TOGETHER + 1
SECOND = timedelta(seconds=1)


def wanted(name: str, partitions: int = 1, **configs: Any) -> Any:
    pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": pairs,
    }


async def create(asker: Any, *topics: Any, version: int = 7, validate_only: bool = False) -> Any:
    answer = await asker.ask(CREATE_TOPICS, version, topics=topics, timeout=SECOND, validate_only=validate_only)
    return answer.topics


def commits(asker: Any, path: str = "/default") -> Any:
    return sum(shard.announced.end for shard in asker.cluster.stream(path).shards)


@pytest.mark.parametrize("version", versions(CREATE_TOPICS))
async def test_each_topic_has_its_own_answer(version: int) -> None:
    """In the order of the request, whatever became of the others."""
    async with asking() as asker:
        made, there, bad, other, twice, again, odd = await create(
            asker,
            wanted("made", 3, cleanup_policy="compact"),
            wanted("a"),
            wanted("bad name"),
            wanted("/ships:other", -1),
            wanted("twice"),
            wanted("twice"),
            wanted("odd", no_such="1"),
            version=version,
        )
        codes = [topic.error_code for topic in (made, there, bad, other, twice, again, odd)]
        assert codes == [
            ErrorCode.none,
            ErrorCode.topic_already_exists,
            ErrorCode.invalid_topic_exception,
            ErrorCode.none,
            ErrorCode.invalid_request,
            ErrorCode.invalid_request,
            ErrorCode.invalid_config,
        ]
        assert [made.name, made.error_message, other.name] == ["made", None, "/ships:other"]
        assert "exists" in there.error_message
        _, topic = asker.cluster.stream("/default").topic("made")
        assert (topic.partitions, topic.configs) == (3, {"cleanup.policy": "compact"})
        assert asker.cluster.stream("/ships").topic("other")[1].partitions == 1
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            assert (there.num_partitions, there.replication_factor, there.configs) == (-1, -1, None)
            found = {config.name: (config.value, config.config_source) for config in made.configs}
            assert found["cleanup.policy"] == ("compact", 1)
            assert found["retention.bytes"] == ("-1", 5)
            of_other = {config.name: (config.value, config.config_source) for config in other.configs}
            assert of_other["cleanup.policy"] == ("delete", 5)
        if version >= 7:
            assert made.topic_id.bytes == topic_id(asker.cluster.stream("/default"), "made")
            assert there.topic_id is None


@pytest.mark.parametrize("version", versions(CREATE_TOPICS))
async def test_an_assignment_says_alone_how_many_partitions_there_are(version: int) -> None:
    """With a number or a factor beside it nobody knows which was meant: INVALID_REQUEST, as in Kafka."""
    assignments = [{"partition_index": index, "broker_ids": [1]} for index in range(3)]
    numbers = {"alone": (-1, -1), "number": (3, -1), "factor": (-1, 1), "both": (3, 1)}
    asked = [
        {**wanted(name, number), "replication_factor": factor, "assignments": assignments}
        for name, (number, factor) in numbers.items()
    ]
    async with asking() as asker:
        codes = [topic.error_code for topic in await create(asker, *asked, version=version)]
        assert codes == [ErrorCode.none] + 3 * [ErrorCode.invalid_request]
        assert asker.cluster.stream("/default").topic("alone")[1].partitions == 3


@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_replication_factor_is_one_that_kafka_knows(validate_only: bool) -> None:
    """Whatever number of copies is asked for there is one, but none at all nobody can have meant."""
    factors = {-2: ErrorCode.invalid_replication_factor, 0: ErrorCode.invalid_replication_factor}
    factors |= dict.fromkeys((-1, 1, 3), ErrorCode.none)
    asked = [{**wanted(f"factor{factor}"), "replication_factor": factor} for factor in factors]
    async with asking() as asker:
        answers = await create(asker, *asked, validate_only=validate_only)
        assert [topic.error_code for topic in answers] == list(factors.values())
        assert answers[0].error_message == "Replication factor must be larger than 0, or -1 to use the default value."
        made = {topic.name for topic in asker.cluster.stream("/default").topics()} - {"a"}
        assert made == (set() if validate_only else {"factor-1", "factor1", "factor3"})


async def test_validation_makes_nothing() -> None:
    """It says what would become of each topic."""
    async with asking() as asker:
        before = commits(asker)
        new, there = await create(asker, wanted("new", 2), wanted("a"), validate_only=True)
        assert (new.error_code, new.num_partitions, new.topic_id) == (ErrorCode.none, 2, None)
        assert there.error_code == ErrorCode.topic_already_exists
        assert asker.cluster.stream("/default").find_topic("new") is None
        assert commits(asker) == before


async def test_many_topics_share_commits() -> None:
    """Made, given partitions and deleted in a few commits each; one that is refused stops no other."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        names = [f"m{i}" for i in range(MANY)]
        before = commits(asker)
        answers = await create(asker, wanted("a"), *(wanted(name) for name in names))
        assert [topic.error_code for topic in answers] == [ErrorCode.topic_already_exists] + MANY * [ErrorCode.none]
        assert [topic.name for topic in answers] == ["a", *names]
        assert commits(asker) - before <= 3
        assert stream.topic_count == MANY + 1

        before = commits(asker)
        counts = [{"name": name, "count": 4, "assignments": None} for name in ("nothing", "a", "a", *names)]
        result = await asker.ask(CREATE_PARTITIONS, 3, topics=counts, timeout=SECOND, validate_only=False)
        codes = [each.error_code for each in result.results]
        assert codes == [
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.none,
            ErrorCode.invalid_request,
            *(MANY * [ErrorCode.none]),
        ]
        assert commits(asker) - before <= 3
        assert {topic.partitions for topic in stream.topics()} == {4}

        before = commits(asker)
        unknown = uuid.uuid4()
        asked = [
            {"name": None, "topic_id": uuid.UUID(bytes=topic_id(stream, "a"))},
            {"name": None, "topic_id": unknown},
            {"name": "nothing", "topic_id": None},
            *({"name": name, "topic_id": None} for name in [*names, names[0]]),
        ]
        answer = await asker.ask(DELETE_TOPICS, 6, topics=asked, timeout=SECOND)
        first, second, third, *others, again = answer.responses
        assert (first.name, first.error_code) == ("a", ErrorCode.none)
        assert (second.topic_id, second.error_code) == (unknown, ErrorCode.unknown_topic_id)
        assert third.error_code == again.error_code == ErrorCode.unknown_topic_or_partition
        assert [(each.name, each.error_code) for each in others] == [(name, ErrorCode.none) for name in names]
        assert commits(asker) - before <= 3
        assert stream.topic_count == 0


def made_again_in_between(monkeypatch: pytest.MonkeyPatch, handler: Any, stream: Any) -> None:
    """Topic `a` goes, and another one gets its name, after the handler has found it."""

    async def late(changes: Any) -> Any:
        await stream.delete_topic("a")
        await stream.create_topic("a")
        return await change_all(changes)

    monkeypatch.setattr(handler, "change_all", late)


async def test_a_topic_made_again_in_between_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the id nor by the name of the one before: the answer names that one."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        made_again_in_between(monkeypatch, delete_topics, stream)
        for by_id in (True, False):
            before = uuid.UUID(bytes=topic_id(stream, "a"))
            asked = {"name": None, "topic_id": before} if by_id else {"name": "a", "topic_id": None}
            (answer,) = (await asker.ask(DELETE_TOPICS, 6, topics=[asked], timeout=SECOND)).responses
            gone = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
            assert answer.error_code == gone
            assert topic_id(stream, "a") != before.bytes


async def test_a_topic_made_again_in_between_gets_no_more_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the one that was looked at."""
    async with asking() as asker:
        stream = asker.cluster.stream("/default")
        made_again_in_between(monkeypatch, create_partitions, stream)
        wanted_topics = [{"name": "a", "count": 5, "assignments": None}]
        answer = await asker.ask(CREATE_PARTITIONS, 3, topics=wanted_topics, timeout=SECOND, validate_only=False)
        assert answer.results[0].error_code == ErrorCode.unknown_topic_or_partition
        assert stream.topic("a")[1].partitions == 1


async def test_topics_of_several_shards_are_made_together() -> None:
    """Each in the shard of its name, answered in the order of the request."""
    async with asking() as asker:
        stream = await asker.cluster.create_stream("/wide", StreamSettings(shards=3))
        names = [f"/wide:w{i}" for i in range(30)]
        before = commits(asker, "/wide")
        answers = await create(asker, *map(wanted, names))
        assert [topic.name for topic in answers] == names
        for topic in answers:
            plain = topic.name.removeprefix("/wide:")
            assert stream.topic(plain)[0] is stream.shard_for(plain)
            assert topic.topic_id.bytes == topic_id(stream, plain)
        assert commits(asker, "/wide") - before == 3


def test_a_topic_id_is_a_uuid_of_stream_and_incarnation() -> None:
    """UUIDv5, as `uuid` makes it: clients may keep ids over an upgrade."""
    space, name = uuid.uuid4(), uuid.uuid4().hex
    assert uuid5_bytes(space.bytes, name) == uuid.uuid5(space, name).bytes


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
async def test_offsets_are_listed_in_every_version(version: int) -> None:
    """The ends of what exists; a code and no offset for what does not."""
    async with asking() as asker:
        shard, topic = asker.cluster.stream("/default").topic("a")
        await produced_to(shard, topic.number, 1, build_batch([(None, b"v")] * 3))

        def partition(index: Any, timestamp: Any) -> Any:
            return {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}

        answer = await asker.ask(
            LIST_OFFSETS,
            version,
            replica_id=-1,
            isolation_level=0,
            timeout=timedelta(seconds=1),
            topics=[
                {"name": "a", "partitions": [partition(1, -1), partition(1, -2), partition(9, -1), partition(0, -1)]},
                {"name": "nothing", "partitions": [partition(0, -1)]},
            ],
        )
        known, unknown = answer.topics
        assert (known.name, unknown.name) == ("a", "nothing")
        found = [(each.partition_index, each.error_code, each.offset, each.timestamp) for each in known.partitions]
        missing = ErrorCode.unknown_topic_or_partition
        assert found == [(1, 0, 3, -1), (1, 0, 0, -1), (9, missing, -1, -1), (0, 0, 0, -1)]
        assert unknown.partitions[0].error_code == missing
        if version >= 4:
            assert [each.leader_epoch for each in known.partitions] == [0, 0, -1, 0]
