"""A stream keeps the topics of a real Apache Kafka, at Kafka's offsets."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from fairlead.kafka import EARLIEST, LATEST, ClientSettings, Cluster
from fairlead.kafka import TopicPartition as Place
from fairlead.kafka.fetching.aborted import AbortedData
from fairlead.model.addresses import parse_address
from fairlead.protocol.batch import LENGTH_END, read_header
from tests.interop.clients.kafka_tools import PATIENCE, java
from tests.interop.clients.process import run
from tests.interop.kafka_pair import KafkaPair
from tests.interop.test_mirror import compact
from tests.support.carrier import Carrier
from tests.support.kafka_nodes import OUTSIDE, kafka_nodes
from tests.support.mirrors import MirrorProcess, make_topic, produce, properties
from tests.support.records import read_all, wait_for_markers
from tests.support.sites import Site, kill_pid
from tests.support.waiting import WAIT_SECONDS, wait_until
from tests.support.wires import Wires

STREAM = "/x"


class Replica:
    """A site whose stream keeps topics of a Kafka cluster."""

    def __init__(self, site: Site, folder: Path, bootstrap: str) -> None:
        self.site = site
        self.bootstrap = bootstrap
        self.file = properties(folder / "consumer.properties", bootstrap)

    def set_up(self, topics: str, *more: str) -> str:
        """Name the Kafka cluster an upstream; what the command says."""
        words = ("stream", "replica", "autosetup", "-path", "kafka://old", "-replica", STREAM, "-topics", topics)
        return self.site.cli(*words, "-consumerconfig", str(self.file), *more).stdout

    @property
    def row(self) -> dict[str, Any]:
        (row,) = self.site.replica_status("kafka://old")
        return row

    @property
    def names(self) -> tuple[str, ...]:
        """As commands name it."""
        return "-path", "kafka://old", "-replica", STREAM

    def kept(self, topic: str, partitions: int) -> dict[int, list[bytes]]:
        """What the stream has of a topic, byte for byte."""
        return batches(self.site.kafka, f"{STREAM}:{topic}", partitions)

    def in_step(self) -> bool:
        row = self.row
        assert not row["errors"] or row["errors"]["Code"] == "replicator_down", row["errors"]
        return bool(row["isUptodate"])


@contextmanager
def running(folder: Path) -> Iterator[Site]:
    """A server without a replicator."""
    site = Site("ny", folder)
    site.start("server")
    site.cli("cluster", "add", "--name", "ny", "--http", site.url)
    try:
        yield site
    finally:
        site.stop()


def batches(bootstrap: str, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """Every committed batch and marker of a topic, byte for byte as the brokers have it."""

    async def read() -> dict[int, list[bytes]]:
        addresses = tuple(parse_address(each, "broker") for each in bootstrap.split(","))
        cluster = await Cluster.open(ClientSettings(addresses))
        try:
            return await all_batches(cluster, topic, partitions)
        finally:
            await cluster.close()

    return asyncio.run(read())


async def all_batches(cluster: Cluster, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """To the end that each answer tells: a log that is cut while it is read never reaches the end it had before."""
    places = [Place(topic, each) for each in range(partitions)]
    firsts = await cluster.offsets(places, EARLIEST)
    ends = await cluster.offsets(places, LATEST, committed=True)
    found: dict[int, list[bytes]] = {each: [] for each in range(partitions)}
    left = {place for place in places if firsts[place].offset < ends[place].offset}
    fetcher = cluster.fetcher()
    for place in left:
        fetcher.assign(place, firsts[place].offset)
    while left:
        for each in await fetcher.next():
            assert not each.error, each.detail
            dropped, records, at = AbortedData(each.aborted), each.records, 0
            while at < len(records):
                header = read_header(records[at:])
                if at + header.length + LENGTH_END > len(records):
                    break
                batch = records[at : at + header.length + LENGTH_END]
                at += len(batch)
                if not dropped.has(header, batch):
                    found[each.place.partition].append(bytes(batch))
                if header.last_offset + 1 >= each.last_stable:
                    left.discard(each.place)
    await fetcher.close()
    return found


def transactions(bootstrap: str, topic: str, *, values: int, abort: bool) -> None:
    """One transaction, over all partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{abort}"})
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(values):
        producer.produce(topic, b"t%d" % number, key=b"k%d" % number)
    producer.flush()
    (producer.abort_transaction if abort else producer.commit_transaction)()
    wait_for_markers(bootstrap, topic)


def test_topics_are_kept_byte_for_byte_at_kafka_s_offsets(pair: KafkaPair, tmp_path: Path) -> None:
    """With the markers of transactions, without what was aborted, and with the holes that compaction left."""
    old = pair.source.bootstrap
    make_topic(old, "kept-plain", 3)
    produce(old, "kept-plain", [(b"k%d" % n, b"v%d" % n) for n in range(1000)])
    transactions(old, "kept-plain", values=20, abort=False)
    transactions(old, "kept-plain", values=20, abort=True)
    transactions(old, "kept-plain", values=20, abort=False)
    transactions(old, "kept-plain", values=5, abort=True)
    with running(tmp_path) as site, Carrier(site):
        replica = Replica(site, tmp_path, old)
        said = replica.set_up("kept-.*")
        assert "named kafka://old" in said
        wait_until(replica.in_step, "all is there")
        assert batches(site.kafka, f"{STREAM}:kept-plain", 3) == batches(old, "kept-plain", 3)
        assert read_all(site.kafka, ["kept-plain"], prefix=f"{STREAM}:") == read_all(old, ["kept-plain"], prefix="")


def read_by_java(bootstrap: str, topic: str, group: str, number: int, *more: str) -> list[str]:
    """So many records, as Java's consumer reads them as the one member of a group, committed ones only; it commits what
    it has read. `more` are options of the tool."""
    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--isolation-level", "read_committed")
    until = ("--max-messages", str(number), *PATIENCE)
    settings = ("--consumer-property", "max.poll.records=1")
    return run(java("consumer.ConsoleConsumer", *where, *until, *settings, *more)).splitlines()


def read_by_librdkafka(bootstrap: str, topic: str, group: str, reset: str = "error") -> list[str]:
    """The same of librdkafka, to the end of each partition. Raises: KafkaException: it has nowhere to begin."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": reset}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.subscribe([topic])
    values, ended = list[str](), set[int]()
    partitions = len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic).topics[topic].partitions)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while len(ended) < partitions and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                values.append((message.value() or b"").decode())
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
                ended.add(message.partition() or 0)
            else:
                raise KafkaException(error)
        assert len(ended) == partitions
        consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=False)
    finally:
        consumer.close()
    return values


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, each) for each in range(partitions)], timeout=WAIT_SECONDS)
        return [each.offset for each in found]
    finally:
        consumer.close()


def test_groups_move_from_kafka_without_a_reset(pair: KafkaPair, tmp_path: Path) -> None:
    """The steps of docs/guides/migrating-from-kafka.md, with a group of Java's client and one of librdkafka's, which
    read committed records. One has read to the end, behind the marker of an aborted transaction; the other has not.
    Until the takeover nobody writes at the replica, and while records are still to come there is none."""
    old, topic = pair.source.bootstrap, "moved-orders"
    commits = partial(committed, topic=topic, partitions=2)
    make_topic(old, topic, 2)
    produce(old, topic, [(b"k%d" % n, b"v%d" % n) for n in range(200)])
    transactions(old, topic, values=20, abort=True)
    first = read_by_java(old, topic, "java", 60, "--from-beginning")
    assert sorted(read_by_librdkafka(old, topic, "c", "earliest")) == sorted(f"v{n}" for n in range(200))
    with running(tmp_path) as site:
        replica = Replica(site, tmp_path, old)
        with Carrier(site):
            replica.set_up("moved-.*")
            wait_until(replica.in_step, "all is there")
        exposed = site.cli("stream", "expose", "-path", STREAM, "-port", "0").stdout
        new = re.search(r"127\.0\.0\.1:\d+", exposed)[0]  # type: ignore[index]
        assert "topic moved-orders: the destination owns it" in mirrored_back(tmp_path, new, old)
        said = refused(new, topic)
        assert "kafka://old" in site.log.read_text()
        assert "POLICY" in said.upper()
        produce(old, topic, [(b"k", b"late")])
        takeover = ("stream", "topic", "takeover", "-path", STREAM, "-from", "kafka://old", "--yes")
        done = site.cli(*takeover, check=False)
        assert "are still to come from kafka://old" in done.stdout + done.stderr
        with Carrier(site):
            wait_until(
                lambda: all(commits(new, each) == commits(old, each) for each in ("java", "c")), "groups are told"
            )
            wait_until(replica.in_step, "the last record is there")
            site.cli(*takeover)
        produce(new, topic, [(b"k%d" % n, b"new%d" % n) for n in range(10)])
        news = [f"new{n}" for n in range(10)]
        assert sorted(read_by_librdkafka(new, topic, "c")) == sorted(["late", *news])
        never_reset = ("--consumer-property", "auto.offset.reset=none")
        rest = read_by_java(new, topic, "java", 211 - len(first), *never_reset)
        assert sorted([*first, *rest]) == sorted([*(f"v{n}" for n in range(200)), "late", *news])
        site.cli("stream", "upstream", "remove", "-path", STREAM, "-upstream", "kafka://old", "--yes")
        assert not site.cli("stream", "upstream", "list", "-path", STREAM, "--json").stdout.count("kafka://")
        site.stop()
        assert site.cli("fsck", "--data", str(site.data)).returncode == 0


def mirrored_back(folder: Path, source: str, destination: str) -> str:
    """What a mirror of all topics says."""
    files = [properties(folder / f"{name}.properties", at) for name, at in (("c", source), ("p", destination))]
    configs = ("--consumer.config", str(files[0]), "--producer.config", str(files[1]))
    mirror = MirrorProcess(folder, (*configs, "--whitelist", ".*", "--once", "--name", "back", "--groups", "none"))
    assert mirror.wait() == 0, mirror.said()
    return mirror.said()


def refused(bootstrap: str, topic: str) -> str:
    """Why a produce is refused."""
    why: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"no", on_delivery=lambda error, _: why.append(str(error)))
    producer.flush(WAIT_SECONDS)
    return why[0]


def test_new_topics_partitions_and_leaders_are_followed(pair: KafkaPair, tmp_path: Path) -> None:
    """Clients are told the epochs of partitions, which rise when a broker starts again."""
    kafka = pair.target
    old = kafka.bootstrap
    make_topic(old, "told-a", 1)
    produce(old, "told-a", [(None, b"1")], 0)
    with running(tmp_path) as site, Carrier(site):
        replica = Replica(site, tmp_path, old)
        replica.set_up("told-.*")
        wait_until(replica.in_step, "all is there")
        make_topic(old, "told-b", 1)
        produce(old, "told-b", [(None, b"b")])
        admin = AdminClient({"bootstrap.servers": old})
        admin.create_partitions([NewPartitions("told-a", 3)])["told-a"].result()
        wait_until(lambda: replica.row["partitionsKept"] == 4 and replica.in_step(), "they come")
        produce(old, "told-a", [(None, b"%d" % n) for n in range(20)], 2)
        del admin  # it would look for the broker while that is away, and say so
        kafka.restart()
        produce(old, "told-a", [(None, b"later")], 2)
        wait_until(lambda: replica.kept("told-a", 3) == batches(old, "told-a", 3), "the leader has changed")
        assert leader_epochs(site.kafka, f"{STREAM}:told-a")[2] == leader_epochs(old, "told-a")[2] > 0


def test_a_topic_that_is_made_again_in_kafka_is_set_aside(pair: KafkaPair, tmp_path: Path) -> None:
    """One that is gone is kept, and told; another of its name waits. An expression that matches less leaves the others
    as they are; what is written while nobody reads comes later."""
    old = pair.source.bootstrap
    for topic in ("again-a", "again-b"):
        make_topic(old, topic, 1)
        produce(old, topic, [(None, b"1")])
    with running(tmp_path) as site, Carrier(site):
        replica = Replica(site, tmp_path, old)
        replica.set_up("again-.*")
        wait_until(replica.in_step, "all is there")
        admin = AdminClient({"bootstrap.servers": old})
        admin.delete_topics(["again-a"])["again-a"].result()
        wait_until(lambda: "again-a: Kafka has it no more" in str(replica.row["stopped"]), "it is gone")
        make_topic(old, "again-a", 1)
        produce(old, "again-a", [(None, b"another")])
        wait_until(lambda: replica.row["conflicts"] == 1, "another has its name")
        assert [content.value for content in read_all(site.kafka, ["again-a"], prefix=f"{STREAM}:").values()] == [b"1"]
        site.cli("stream", "replica", "edit", *replica.names, "-topics", "again-b")
        site.cli("stream", "replica", "pause", *replica.names)
        produce(old, "again-b", [(None, b"while paused")])
        assert replica.row["paused"]
        site.cli("stream", "replica", "resume", *replica.names)
        wait_until(lambda: replica.kept("again-b", 1) == batches(old, "again-b", 1), "it goes on")
        assert replica.row["topicsKept"] == 1
        site.cli("stream", "replica", "remove", *replica.names, "--yes")
        assert "keeps topics" in site.cli("stream", "replica", "list", "-path", "kafka://old", check=False).stderr


def test_what_is_said_of_a_kafka_cluster_holds_from_then_on(pair: KafkaPair, tmp_path: Path) -> None:
    """Of which groups commits are kept and whether deletions are followed, each changed while the topic is read. What
    another group has committed since tells that Kafka was looked at."""
    old, topic = pair.source.bootstrap, "edited"
    make_topic(old, topic, 1)
    produce(old, topic, [(None, b"%d" % n) for n in range(10)])
    commit(old, "a", topic, 3)
    with running(tmp_path) as site:
        replica, there = Replica(site, tmp_path, old), f"{STREAM}:{topic}"

        def edit(*options: str) -> None:
            site.cli("stream", "replica", "edit", *replica.names, *options)

        def looked_at(group: str, offset: int) -> None:
            commit(old, group, topic, offset)
            wait_until(lambda: committed(site.kafka, group, there, 1) == [offset], f"{group} is told")

        with Carrier(site):
            replica.set_up(topic, "-cursors", "none")
            wait_until(replica.in_step, "all is there")
            assert committed(site.kafka, "a", there, 1) == [OFFSET_INVALID]
            edit("-cursors", "a")
            looked_at("a", 3)
            edit("-cursors", "b.*")
            commit(old, "a", topic, 4)
            deleted(old, topic, 5)
            looked_at("b1", 6)
            assert committed(site.kafka, "a", there, 1) == [3]
            assert begins(site.kafka, there) == 0
            edit("-deletes", "follow")
            wait_until(lambda: begins(site.kafka, there) == 5, "records are deleted here")
            edit("-deletes", "keep")
            deleted(old, topic, 7)
            looked_at("b2", 8)
            assert begins(site.kafka, there) == 5
        assert [place.offset for place in read_all(site.kafka, [topic], prefix=f"{STREAM}:")] == list(range(5, 10))


def leader_epochs(bootstrap: str, topic: str) -> list[int]:
    """As Metadata tells them."""

    async def ask() -> list[int]:
        cluster = await Cluster.open(ClientSettings((parse_address(bootstrap, "broker"),)))
        try:
            return [each.epoch for each in (await cluster.topics([topic]))[topic].partitions]
        finally:
            await cluster.close()

    return asyncio.run(ask())


def test_what_retention_overtakes_is_a_gap(pair: KafkaPair, tmp_path: Path) -> None:
    """What is deleted while nobody reads never comes, and is told; what follows comes. What is deleted after it came
    is deleted here too, where nothing gets too old."""
    old = pair.source.bootstrap
    make_topic(old, "short", 1)
    make_topic(old, "short-not", 1, retention_ms="-1")
    for topic in ("short", "short-not"):
        produce(old, topic, [(None, b"%d" % n) for n in range(10)])
    with running(tmp_path) as site:
        replica = Replica(site, tmp_path, old)
        with Carrier(site):
            replica.set_up("short.*")
            wait_until(replica.in_step, "all is there")
            deleted(old, "short-not", 4)
            wait_until(lambda: begins(site.kafka, f"{STREAM}:short-not") == 4, "records are deleted here")
        for low, high in ((10, 25), (25, 30)):  # a batch each
            produce(old, "short", [(None, b"%d" % n) for n in range(low, high)], linger_ms=200)
        deleted(old, "short", 25)
        with Carrier(site):
            wait_until(lambda: replica.row["gapsTotal"] == 1, "what was deleted is known")
            wait_until(lambda: bool(replica.row["isUptodate"]), "the rest is there")
        found = read_all(site.kafka, ["short"], prefix=f"{STREAM}:")
        assert sorted(place.offset for place in found if place.offset >= 10) == [25, 26, 27, 28, 29]
        assert read_all(old, ["short"], prefix="").items() <= found.items()


def deleted(bootstrap: str, topic: str, before: int) -> None:
    """Delete what partition 0 of a topic has below an offset."""
    asked = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # lives until it has its answer
    done = admin.delete_records([asked])[asked]
    assert done.result(WAIT_SECONDS).low_watermark == before


def begins(bootstrap: str, topic: str) -> int:
    """Where partition 0 of a topic begins."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_SECONDS)[0])
    finally:
        consumer.close()


def without_the_end(topic: str, until: int, data: Path) -> None:
    """Take from partition 0 of a topic what a broker's disk has lost: its batches from an offset on."""
    folder = data / f"{topic}-0"
    segment = folder / f"{0:020}.log"
    content, at = memoryview(segment.read_bytes()), 0
    while at < len(content):
        header = read_header(content[at:])
        if header.base_offset >= until:
            break
        at += header.length + LENGTH_END
    assert 0 < at < len(content)
    segment.write_bytes(content[:at])
    for other in (*folder.glob("*index"), *folder.glob("*.snapshot"), data / ".kafka_cleanshutdown"):
        other.unlink(missing_ok=True)


def test_what_kafka_has_lost_is_kept_in_a_topic_of_its_own(pair: KafkaPair, tmp_path: Path) -> None:
    """Its log became shorter, and went on with other records, as after an unclean election: the stream does the same,
    and so does another site behind it. What a group has committed beyond is told as where the logs part."""
    kafka, topic = pair.target, "lost-end"
    old = kafka.bootstrap
    make_topic(old, topic, 2)
    for values in (range(10), range(10, 20)):  # a batch each
        produce(old, topic, [(None, b"%d" % n) for n in values], 0, linger_ms=200)
    produce(old, topic, [(None, b"other")], 1)
    far = Site("sf", tmp_path)
    far.start("server")
    with running(tmp_path) as site:
        try:
            for each in (site, far):
                each.cli("cluster", "add", "--name", each.name, "--http", each.url)
            with Carrier(site):
                replica = Replica(site, tmp_path, old)
                replica.set_up(topic)
                site.cli("stream", "replica", "autosetup", "-path", STREAM, "-replica", f"/mapr/sf{STREAM}")
                wait_until(lambda: replica.in_step() and site.in_sync(STREAM), "all is there")
                commit(site.kafka, "g", f"{STREAM}:{topic}", 20)
                epoch = leader_epochs(old, topic)[0]
                kafka.restart(partial(without_the_end, topic, 10))
                produce(old, topic, [(None, b"new%d" % n) for n in range(5)], 0)
                expected = batches(old, topic, 2)
                wait_until(lambda: replica.kept(topic, 2) == expected, "it goes on as Kafka does")
                name = f"{topic}.diverged.old.{epoch}"
                wait_until(lambda: replica.row["divergedTopics"] == [name], "the rest is kept")
                wait_until(lambda: bool(replica.row["isUptodate"]) and site.in_sync(STREAM), "at both sites")
            lost = {n: b"%d" % n for n in range(10, 20)}
            for each in (site, far):
                assert batches(each.kafka, f"{STREAM}:{topic}", 2) == expected
                kept = read_all(each.kafka, [name], prefix=f"{STREAM}:")
                assert {place.offset: content.value for place, content in kept.items()} == lost
            assert committed(site.kafka, "g", f"{STREAM}:{topic}", 1) == [10]
        finally:
            far.stop()
        site.stop()
        assert site.cli("fsck", "--data", str(site.data)).returncode == 0


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def test_what_compaction_has_removed_is_a_hole(pair: KafkaPair, tmp_path: Path) -> None:
    """The others stand at the same offsets."""
    old = pair.source.bootstrap
    compact(old, "holes")
    with running(tmp_path) as site, Carrier(site):
        replica = Replica(site, tmp_path, old)
        replica.set_up("holes")
        wait_until(replica.in_step, "all is there")
        assert read_all(site.kafka, ["holes"], prefix=f"{STREAM}:") == read_all(old, ["holes"], prefix="")


@pytest.mark.parametrize("seed", [1])
def test_kills_lose_and_double_nothing(pair: KafkaPair, tmp_path: Path, seed: int) -> None:
    """Records and transactions are written all the time. The server and what carries are killed, and Kafka is away
    once; in the end the copy, and a copy of the copy at another site, are what Kafka has, byte for byte."""
    chance, kafka = random.Random(seed), pair.target
    old = kafka.bootstrap
    make_topic(old, "killed", 3)
    writer = Writer(old, "killed")
    far = Site("sf", tmp_path)
    far.start("server")
    with running(tmp_path) as site, writer:
        for each in (site, far):
            each.cli("cluster", "add", "--name", each.name, "--http", each.url)
        replica = Replica(site, tmp_path, old)
        replica.set_up("killed")
        site.cli("stream", "replica", "autosetup", "-path", STREAM, "-replica", f"/mapr/sf{STREAM}")
        carrier = Carrier(site)
        try:
            for turn in range(6):
                time.sleep(chance.uniform(0.3, 1.5))
                carrier.kill()
                if turn % 2:
                    site.kill()
                    site.start("server")
                if turn == 2:
                    kafka.restart()
                carrier = Carrier(site)
            written = writer.stop()
            expected = batches(old, "killed", 3)
            assert sum(map(len, expected.values())) > 10
            # Not until it says that all is there: it says so by what it knew of Kafka when it looked last.
            wait_until(lambda: batches(site.kafka, f"{STREAM}:killed", 3) == expected, "all is there")
            wait_until(lambda: batches(far.kafka, f"{STREAM}:killed", 3) == expected, "and at the other site")
            values = Counter(content.value for content in read_all(far.kafka, ["killed"], prefix=f"{STREAM}:").values())
            assert values == Counter(written)
        finally:
            carrier.kill()
            far.stop()
        site.stop()
        assert site.cli("fsck", "--data", str(site.data)).returncode == 0


def test_another_consumerconfig_is_used_at_once_while_records_come(tmp_path: Path) -> None:
    """Also where nobody answers any more by the one before, and where the file is the same and says something else.
    Transactions are written all the time; in the end the copy is what Kafka has, byte for byte."""
    with Wires() as wires, kafka_nodes(tmp_path / "kafka", wires=wires, listeners={"DIRECT": "PLAINTEXT"}) as kafka:
        wire, inside = kafka.nodes[0].wire, kafka.bootstrap()
        assert wire is not None
        make_topic(inside, "edited", 3)
        writer = Writer(inside, "edited")
        with running(tmp_path) as site, Carrier(site), writer:
            replica = Replica(site, tmp_path, kafka.bootstrap(OUTSIDE))
            direct = properties(tmp_path / "direct.properties", kafka.bootstrap("DIRECT"))

            def edit(file: Path) -> None:
                site.cli("stream", "replica", "edit", *replica.names, "-consumerconfig", str(file))
                assert replica.row["configFile"] == str(file)

            def more_comes() -> None:
                copied = replica.row["recordsCopied"]
                wait_until(lambda: replica.row["recordsCopied"] > copied + 100, "more comes")

            replica.set_up("edited")
            more_comes()
            edit(direct)
            wait_until(lambda: not wire.open, "nothing is asked by the old one any more")
            more_comes()
            assert not wire.open
            edit(replica.file)
            wait_until(lambda: wire.open, "the old one is used again")
            more_comes()
            wire.cut()
            edit(direct)
            more_comes()
            wire.heal()
            properties(direct, kafka.bootstrap(OUTSIDE))
            edit(direct)
            wait_until(lambda: wire.open, "what the file says now is used")
            more_comes()
            written = writer.stop()
            expected = batches(inside, "edited", 3)
            wait_until(lambda: replica.kept("edited", 3) == expected, "all is there")
            kept = read_all(site.kafka, ["edited"], prefix=f"{STREAM}:")
            assert Counter(content.value for content in kept.values()) == Counter(written)
            assert replica.row["gapsTotal"] == 0


class Writer:
    """Writes in transactions, of which some are aborted, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._stop = threading.Event()
        self._committed: list[bytes] = []
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._failed.append(error)

    def _write(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": self._topic, "linger.ms": 1}
        producer = Producer(settings)
        producer.init_transactions()
        for turn in itertools.count():
            if self._stop.is_set():
                return
            values = [b"%d.%d" % (turn, n) for n in range(10)]
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.produce(self._topic, value, partition=number % 3)
            producer.flush()
            if turn % 4 == 3:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                self._committed += values
            time.sleep(0.02)

    def stop(self) -> list[bytes]:
        """What was committed."""
        self._stop.set()
        self._thread.join()
        assert not self._failed, self._failed
        wait_for_markers(self._bootstrap, self._topic)
        return self._committed

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()


def test_spark_carries_it(pair: KafkaPair, tmp_path: Path) -> None:
    """`fairlead up`, with a replicator: the command waits until all is there. Then rounds turn and tasks are killed in
    the middle of much more."""
    old = pair.source.bootstrap
    make_topic(old, "sparked", 4)
    produce(old, "sparked", [(b"%d" % n, b"v" * 1000) for n in range(2000)])
    site = Site("ny", tmp_path, {"round_seconds": "5"})
    site.start("up")
    try:
        site.cli("cluster", "add", "--name", "ny", "--http", site.url)
        replica = Replica(site, tmp_path, old)
        replica.set_up("sparked", "--wait", "--timeout", str(int(WAIT_SECONDS)))
        assert batches(site.kafka, f"{STREAM}:sparked", 4) == batches(old, "sparked", 4)
        for turn in range(3):
            produce(old, "sparked", [(b"%d" % n, b"%d" % turn + b"v" * 1000) for n in range(10_000)])
            kill_pid(wait_until(site.spark_worker_pids, "a round has begun")[-(turn % 2)])
        wait_until(lambda: replica.kept("sparked", 4) == batches(old, "sparked", 4), "it follows")
    finally:
        site.stop()
    assert site.cli("fsck", "--data", str(site.data)).returncode == 0
