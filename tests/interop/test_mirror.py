"""`fairlead mirror` between real brokers of Apache Kafka, as a process: what it copies, and what it survives."""

from __future__ import annotations

import random
import time
from collections import Counter
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop.kafka_pair import KafkaPair
from tests.support.broker import run_broker
from tests.support.mirrors import MirrorProcess, count, load, make_topic, mirroring, produce, properties
from tests.support.records import Content, Place, read_all, wait_for_markers
from tests.support.waiting import WAIT_SECONDS, wait_until

of_every_engine = pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])


def options(folder: Path, source: str, target: str, whitelist: str, *more: str, **consumer: str) -> list[str]:
    """Of a mirror of these topics, with its files."""
    files = [
        "--consumer.config",
        str(properties(folder / "consumer.config", source, group_id=f"mirror-{folder.name}", **consumer)),
        "--producer.config",
        str(properties(folder / "producer.config", target)),
    ]
    return [*files, "--whitelist", whitelist, *more]


def once(folder: Path, source: str, target: str, whitelist: str, *more: str, code: int = 0) -> str:
    """Mirror what is there; what it said."""
    mirror = MirrorProcess(folder, [*options(folder, source, target, whitelist, *more), "--once"])
    assert mirror.wait() == code, mirror.said()
    return mirror.said()


def records(bootstrap: str, topic: str) -> dict[int, list[Content]]:
    """Those of each partition, in order."""
    found: dict[int, list[Content]] = {}
    for place, content in sorted(read_all(bootstrap, [topic], prefix="").items()):
        found.setdefault(place.partition, []).append(content)
    return found


def numbers(end: int, first: int = 0) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % (number % 11), b"%d" % number) for number in range(first, end)]


# ---------------------------------------------------------------- the original's tests, on the right topic


def test_the_three_tests_of_the_original_hold_for_the_destination(pair: KafkaPair, tmp_path: Path) -> None:
    """Its own read the source: 100 messages arrive; partitions are preserved; the order is, with three producers."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    for topic, partitions in (("works", 1), ("partitions", 5), ("order", 5)):
        make_topic(source, f"original-{topic}", partitions)
        produce(source, f"original-{topic}", numbers(100))
    flags = ("--preserve.partitions", "--preserve.order", "--num.producers", "3", "--prefix", "mirror_")
    once(tmp_path, source, target, "original-.*", *flags)
    for topic in ("works", "partitions", "order"):
        found = records(target, f"mirror_original-{topic}")
        assert sum(map(len, found.values())) == 100
        assert found == records(source, f"original-{topic}")


# ---------------------------------------------------------------- kinds of batches


@of_every_engine
def test_every_kind_of_batch_arrives_as_consumers_of_the_source_see_it(
    pair: KafkaPair, tmp_path: Path, engine: str
) -> None:
    """Compacted ones with holes, the broker's time, aborted and committed transactions, codecs, tombstones, no keys."""
    source, target, kinds = pair.source.bootstrap, pair.target.bootstrap, f"kinds-{engine}"
    compact(source, f"{kinds}-compacted")
    make_topic(source, f"{kinds}-append-time", message_timestamp_type="LogAppendTime")
    produce(source, f"{kinds}-append-time", numbers(50))
    make_topic(source, f"{kinds}-transactions")
    _transactions(source, f"{kinds}-transactions")
    make_topic(source, f"{kinds}-codecs")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        pairs = [(None, b"x" * 300), (b"k", None), (b"", b"")] * 9
        produce(source, f"{kinds}-codecs", pairs, compression_type=codec)
    said = once(tmp_path, source, target, f"{kinds}-.*", "--engine", engine)
    assert "10 records of transactions that were aborted" in said
    for topic in ("compacted", "append-time", "transactions", "codecs"):
        assert records(target, f"{kinds}-{topic}") == records(source, f"{kinds}-{topic}")


def compact(source: str, name: str) -> str:
    """A topic of which compaction has left batches with holes."""
    topic = make_topic(source, name, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    produce(source, topic, [(b"%d" % (number % 60), b"%d" % number) for number in range(100)], linger_ms=200)
    wait_until(lambda: is_compacted(source, topic), "the topic is compacted", every_seconds=0.3)
    return topic


def is_compacted(source: str, topic: str) -> bool:
    """Whether each key stands once, so that nothing is left to be removed. A record more is written, since only
    segments that are no more written to are compacted; it stays."""
    produce(source, topic, [(b"last %d" % count(source, topic), b"")])
    keys = [content.key for content in read_all(source, [topic], prefix="").values()]
    return len(set(keys)) == len(keys)


def _transactions(source: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": source, "transactional.id": "t", "linger.ms": 0})
    producer.init_transactions(WAIT_SECONDS)
    for turn in range(4):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, b"%d-%d" % (turn, number), b"k")
            producer.flush(WAIT_SECONDS)
        if turn % 2:
            producer.abort_transaction(WAIT_SECONDS)
        else:
            producer.commit_transaction(WAIT_SECONDS)
    wait_for_markers(source, topic)


# ---------------------------------------------------------------- kills and cuts


def test_a_mirror_that_is_killed_at_random_moments_loses_nothing(pair: KafkaPair, tmp_path: Path) -> None:
    """`kill -9` under load: each record is there, in order but for what comes twice. That is at most what the mirrors
    that were killed had mirrored: positions are written each second."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    make_topic(source, "killed-at-random", 3)
    choose, kills, doubles = random.Random(14), 3, 0
    with load(source, "killed-at-random", 3) as written:
        for _ in range(kills):
            before = count(target, "killed-at-random")
            with mirroring(tmp_path, *options(tmp_path, source, target, "killed-at-random")) as mirror:
                wait_until(partial(_is_beyond, target, before), "it mirrors")
                time.sleep(choose.random() * 2)  # the moment of the kill, not a condition
                mirror.kill()
    last = MirrorProcess(tmp_path, [*options(tmp_path, source, target, "killed-at-random"), "--once"])
    assert last.wait() == 0, last.said()
    found = records(target, "killed-at-random")
    for partition in range(3):
        values = [int(content.value or b"-1") for content in found[partition]]
        assert sorted(set(values)) == list(range(written[partition])), "lost"
        assert _steps_back(values) <= kills, "out of order"
        doubles += len(values) - len(set(values))
    at_risk = count(target, "killed-at-random") - last.mirrored
    print(f"kills {kills}, records {sum(written)}, lost 0, doubled {doubles} of {at_risk}")
    assert doubles <= at_risk


def _is_beyond(target: str, before: int) -> bool:
    return count(target, "killed-at-random") > before


def _steps_back(values: list[int]) -> int:
    """How often the order goes back: once for each time that something is mirrored again."""
    return sum(other <= one for one, other in pairwise(values))


@of_every_engine
def test_a_destination_that_restarts_loses_and_doubles_nothing(pair: KafkaPair, tmp_path: Path, engine: str) -> None:
    """The mirror waits for it, and sends again what had no answer; the producer's sequences keep doubles out."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = make_topic(source, f"restarts-{engine}", 2)
    with mirroring(tmp_path, *options(tmp_path, source, target, topic, "--engine", engine)) as mirror:
        with load(source, topic, 2) as written:
            wait_until(lambda: count(target, topic) > 0, "it mirrors")
            pair.target.restart()
        wait_until(lambda: count(target, topic) >= sum(written), "all is mirrored")
        assert mirror.stop() == 0, mirror.said()
    assert records(target, topic) == records(source, topic)


# ---------------------------------------------------------------- losses


def test_losses_at_the_source_stop_their_partition_by_name(pair: KafkaPair, tmp_path: Path) -> None:
    """Records deleted before they were mirrored, a topic made again; with the options it goes on."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    admin = AdminClient({"bootstrap.servers": source})
    for topic in ("loss-gap", "loss-again"):
        make_topic(source, topic)
        produce(source, topic, numbers(10))
    once(tmp_path, source, target, "loss-.*")
    produce(source, "loss-gap", numbers(20, 10))
    admin.delete_records([TopicPartition("loss-gap", 0, 15)])[TopicPartition("loss-gap", 0)].result(WAIT_SECONDS)
    admin.delete_topics(["loss-again"])["loss-again"].result(WAIT_SECONDS)
    wait_until(lambda: "loss-again" not in admin.list_topics(timeout=WAIT_SECONDS).topics, "the topic is deleted")
    wait_until(lambda: _made_again(source), "the topic is made again")
    produce(source, "loss-again", [(b"k", b"new")])
    said = once(tmp_path, source, target, "loss-.*", code=1)
    assert "topic loss-gap, partition 0: offsets 10 to 14 were gone" in said
    assert "topic loss-again, partition 0: the topic was deleted at the source and made again" in said
    once(tmp_path, source, target, "loss-.*", "--on.gap", "continue", "--on.recreated", "continue", code=1)
    assert [content.value for content in records(target, "loss-gap")[0]][-5:] == [b"%d" % n for n in range(15, 20)]
    assert records(target, "loss-again")[0][-1].value == b"new"


def _made_again(source: str) -> bool:
    try:
        make_topic(source, "loss-again")
    except Exception:  # the old one is not gone from all of the broker yet
        return False
    return True


# ---------------------------------------------------------------- Fairlead on either side


def test_from_kafka_to_fairlead_and_from_fairlead_to_kafka(pair: KafkaPair, tmp_path: Path) -> None:
    """Both ways at once with equal names: everything is at both ends once."""
    kafka = pair.source.bootstrap
    make_topic(kafka, "both-ways", 2)
    with run_broker(tmp_path / "data", name="site") as broker:
        for folder in ("there", "back"):
            (tmp_path / folder).mkdir()
        there = options(tmp_path / "there", kafka, broker.bootstrap, "both-ways")
        back = options(tmp_path / "back", broker.bootstrap, kafka, "both-ways", metadata_max_age_ms="500")
        with mirroring(tmp_path / "there", *there) as one, mirroring(tmp_path / "back", *back) as other:
            produce(kafka, "both-ways", [(b"k", b"kafka %d" % number) for number in range(50)])
            wait_until(lambda: count(broker.bootstrap, "both-ways") == 50, "Kafka's records are at Fairlead")
            produce(broker.bootstrap, "both-ways", [(b"k", b"fairlead %d" % number) for number in range(50)])
            wait_until(lambda: count(kafka, "both-ways") == 100, "Fairlead's records are at Kafka")
            assert (one.stop(), other.stop()) == (0, 0), one.said() + other.said()
        assert count(kafka, "both-ways") == count(broker.bootstrap, "both-ways") == 100
        ends = [_values(read_all(bootstrap, ["both-ways"], prefix="")) for bootstrap in (kafka, broker.bootstrap)]
        assert ends[0] == ends[1]
        assert set(ends[0].values()) == {1}


def _values(found: dict[Place, Content]) -> Counter[bytes | None]:
    return Counter(content.value for content in found.values())


# ---------------------------------------------------------------- never silently


def test_what_the_destination_cannot_take_stops_its_partition_by_name(pair: KafkaPair, tmp_path: Path) -> None:
    """No key for a compacted topic, times two hours ahead where the topic was made by somebody else; what the mirror
    makes itself takes any time."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    ahead = int(time.time() * 1000) + 2 * 3_600_000
    for topic in ("refused-keyless", "refused-ahead", "taken-ahead"):
        make_topic(source, topic, message_timestamp_after_max_ms=str(2**62))
    make_topic(target, "refused-keyless", cleanup_policy="compact")
    make_topic(target, "refused-ahead", message_timestamp_after_max_ms="3600000")
    produce(source, "refused-keyless", [(b"k", b"before"), (None, b"keyless")], linger_ms=0)
    for topic in ("refused-ahead", "taken-ahead"):
        producer = Producer({"bootstrap.servers": source})
        producer.produce(topic, b"ahead", b"k", timestamp=ahead)
        assert producer.flush(WAIT_SECONDS) == 0
    said = once(tmp_path, source, target, "(refused|taken)-.*", code=1)
    assert "topic refused-keyless, partition 0: the destination refused what lies at offsets" in said
    assert "topic refused-ahead, partition 0: the destination refused what lies at offsets 0 to 0" in said
    assert records(target, "taken-ahead") == records(source, "taken-ahead")
    assert count(target, "refused-ahead") == 0


def test_a_mirror_that_was_off_longer_than_groups_keep_offsets_goes_on_where_it_was(
    pair: KafkaPair, tmp_path: Path
) -> None:
    """Its positions are at the destination; the group's offsets at the source expire, and nothing is read from them."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic, group = make_topic(source, "ten-days-off"), f"mirror-{tmp_path.name}"
    produce(source, topic, numbers(20))
    once(tmp_path, source, target, topic)
    admin = AdminClient({"bootstrap.servers": source})
    assert group in {each.group_id for each in admin.list_consumer_groups().result(WAIT_SECONDS).valid}
    admin.delete_consumer_groups([group])[group].result(WAIT_SECONDS)  # as `offsets.retention.minutes` does in time
    produce(source, topic, numbers(30, 20))
    said = once(tmp_path, source, target, topic)
    assert "1 of them go on from their positions" in said
    assert records(target, topic) == records(source, topic)


def test_a_mirrormaker_that_still_runs_in_the_group_is_noticed(pair: KafkaPair, tmp_path: Path) -> None:
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic, group = make_topic(source, "still-runs"), f"mirror-{tmp_path.name}"
    produce(source, topic, numbers(5))
    consumer = Consumer({"bootstrap.servers": source, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is not None, "another program is a member of the group")
        mirror = MirrorProcess(tmp_path, options(tmp_path, source, target, topic))
        assert mirror.wait() == 1
        assert f"group {group}" in mirror.said()
        assert count(target, topic) == 0
    finally:
        consumer.close()
