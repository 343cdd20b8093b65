"""`kill -9` of a server whose consumers commit by hand: the members of its groups go on.

`make crash ROUNDS=20` runs more rounds; FAIRLEAD_TEST_SEED repeats the moments of a run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.hands import AiokafkaHand, ConfluentHand, Hand, JavaHand, KafkaPythonHand, Owners
from tests.crash.test_kill import ROUNDS, SEED
from tests.interop.clients.java_vm import JavaVM, java_vm
from tests.support.ledger import Ledger
from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

PARTITIONS = 6
Make = Callable[[Site, str, str], Hand]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaVM]:
    with java_vm() as java:
        yield java


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server without a replicator."""
    with sites(tmp_path_factory.mktemp("groups"), "sanfrancisco", command="server") as (site,):
        yield site


@pytest.fixture(params=["confluent", "cooperative", "kafka-python", "aiokafka", "java", "java cooperative"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a member of some client: make(site, topic, group)."""
    if "java" in request.param:
        sticky = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        options = {"partition_assignment_strategy": sticky} if "cooperative" in request.param else {}
        java = request.getfixturevalue("java")
        return lambda site, topic, group: JavaHand(java, site.kafka, topic, group, **options)
    if request.param == "cooperative":
        return lambda site, topic, group: ConfluentHand(
            site.kafka, topic, group, partition_assignment_strategy="cooperative-sticky"
        )
    kinds: dict[str, Callable[..., Hand]]
    kinds = {"confluent": ConfluentHand, "kafka-python": KafkaPythonHand, "aiokafka": AiokafkaHand}
    return lambda site, topic, group: kinds[request.param](site.kafka, topic, group)


def test_members_of_a_stable_group_notice_nothing_of_a_kill(
    site: Site, make: Make, request: pytest.FixtureRequest
) -> None:
    """No commit is refused, nothing is read twice, nobody's partitions change: the same members own the same."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    name = request.node.callspec.id.replace(" ", "-")
    moments = random.Random(f"{SEED} {name}")
    topic = made(site, f"stable-{name}")
    with (
        members(lambda: make(site, topic, name), 2) as group,
        Ledger(site.kafka, [topic], prefix="", label=name, per_second=300) as ledger,
    ):
        wait_until(lambda: shared(group), "the members share the partitions")
        # While the group comes together a commit may meet a rebalance: Java raises an error then. One member may know
        # its partitions before the other has its answer.
        for each in group:
            commit_again(each)
        before = described(site, name)
        refused = [len(each.refused) for each in group]
        for _ in range(ROUNDS):
            time.sleep(moments.uniform(0, 0.5))
            site.kill()
            site.start("server")
            assert described(site, name) == before
            for each in group:
                commit_again(each)
            ledger.wait_for(len(ledger.acknowledged) + 100)
        ledger.stop()
        sent = sorted(ledger.acknowledged.values())
        wait_until(lambda: sum(len(each.values) for each in group) >= len(sent), "all is read")
        wait_until(lambda: committed(site, topic, name) == len(sent), "all is committed")
        assert described(site, name) == before
        # Here, since the first one that leaves makes the other meet a rebalance.
        assert [each.refused[count:] for each, count in zip(group, refused, strict=True)] == [[], []]
    assert sorted(value for each in group for value in each.values) == sent


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_rebalance_that_a_kill_interrupts_begins_again(site: Site, strategy: str) -> None:
    """Killed while members join, sync or leave: no partition has two owners, and in the end all is read and
    committed."""
    print(f"FAIRLEAD_TEST_SEED={SEED}")
    moments = random.Random(f"{SEED} {strategy}")
    topic, owners = made(site, f"moving-{strategy}"), Owners()

    def member() -> Hand:
        return ConfluentHand(site.kafka, topic, strategy, owners=owners, partition_assignment_strategy=strategy)

    with members(member, 2) as group, Ledger(site.kafka, [topic], prefix="", label=strategy, per_second=300) as ledger:
        wait_until(lambda: shared(group), "the members share the partitions")
        for number in range(2 * ROUNDS):
            if number % 2 == 0:
                group.append(member())
            else:
                group.pop(moments.randrange(len(group))).stop()
            time.sleep(moments.uniform(0, 1.0))
            site.kill()
            site.start("server")
            wait_until(lambda: shared(group), "the members share the partitions again")
        ledger.stop()
        sent = set(ledger.acknowledged.values())
        wait_until(lambda: committed(site, topic, strategy) == len(sent), "all is committed")
        assert shared(group)
    assert owners.faults == []


@contextmanager
def members(make: Callable[[], Hand], count: int) -> Iterator[list[Hand]]:
    """So many members, and whichever the block adds, until it ends."""
    group = [make() for _ in range(count)]
    try:
        yield group
    finally:
        for each in group:
            each.stop()


def commit_again(member: Hand) -> None:
    before = member.commits
    wait_until(lambda: member.commits > before, "the member commits again")


def made(site: Site, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": site.kafka})
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(WAIT_SECONDS)
    return topic


def shared(group: list[Hand]) -> bool:
    """Every partition has one owner, every member a part."""
    for each in group:
        each.check()
    parts = [each.assigned for each in group]
    return all(parts) and sorted(number for part in parts for number in part) == list(range(PARTITIONS))


def described(site: Site, group: str) -> list[tuple[str, list[int]]]:
    """Members and their partitions, of a group that is stable."""
    admin = AdminClient({"bootstrap.servers": site.kafka})
    found = admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
    assert found.state is ConsumerGroupState.STABLE
    return sorted(
        (member.member_id, sorted(part.partition for part in member.assignment.topic_partitions))
        for member in found.members
    )


def committed(site: Site, topic: str, group: str) -> int:
    """The group's committed offsets of all partitions together."""
    consumer = Consumer({"bootstrap.servers": site.kafka, "group.id": group})
    try:
        found = consumer.committed(
            [TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=WAIT_SECONDS
        )
    finally:
        consumer.close()
    return sum(max(part.offset, 0) for part in found)
