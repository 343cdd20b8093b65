"""Kinds of membership beyond the plain one: incremental rebalances, static members."""

from __future__ import annotations

from tests.interop.clients.confluent_client import SESSION, Confluent, ConfluentMember
from tests.interop.clients.kafka_tools import KafkaTools
from tests.interop.site import Site
from tests.interop.test_behaviours import fill, read_by, shared, written
from tests.support.waiting import wait_until

EVERYTHING = frozenset(range(4))
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}


def test_members_keep_what_they_have_in_an_incremental_rebalance(
    confluent: Confluent, site: Site, wide_topic: str
) -> None:
    """KIP-429: the first member gives up only what the second gets, and nothing is read twice."""
    group = f"cooperative {wide_topic}"

    def member() -> ConfluentMember:
        return ConfluentMember(
            confluent.consumer(site, group, **SESSION, **COOPERATIVE), confluent.topic(site, wide_topic)
        )

    members = [member()]
    try:
        wait_until(lambda: members[0].assigned == EVERYTHING, "the first member has all partitions")
        members.append(member())
        wait_until(lambda: shared(members, EVERYTHING), "the two members share the partitions")
        fill(site, wide_topic, "a")
        wait_until(lambda: read_by(members) == 40, "the members have read everything")
    finally:
        for each in members:
            each.stop()
    assert sorted(members[0].values + members[1].values) == sorted(written("a"))


def test_a_static_member_comes_back_to_its_partitions(confluent: Confluent, site: Site, wide_topic: str) -> None:
    """KIP-345: a member that restarts within its session gets the same partitions, and the other notices nothing."""
    group = f"static {wide_topic}"

    def member(instance: str) -> ConfluentMember:
        settings = {**SESSION, "session.timeout.ms": 30_000, "group.instance.id": instance}
        return ConfluentMember(confluent.consumer(site, group, **settings), confluent.topic(site, wide_topic))

    members = [member("one"), member("two")]
    try:
        wait_until(lambda: shared(members, EVERYTHING), "the two members share the partitions")
        before = members[1].assigned
        generation = generation_of(site, group)
        members[1].stop()
        members[1] = member("two")
        wait_until(lambda: members[1].assigned == before, "the second member is back")
        assert generation_of(site, group) == generation
        fill(site, wide_topic, "a")
        wait_until(lambda: read_by(members) == 40, "the members have read everything")
    finally:
        for each in members:
            each.stop()


def test_java_and_c_members_share_a_group(confluent: Confluent, tools: KafkaTools, site: Site, wide_topic: str) -> None:
    """Two languages, one group: the leader assigns for the other."""
    group = f"mixed {wide_topic}"
    members = [tools.member(site, wide_topic, group), confluent.member(site, wide_topic, group)]
    try:
        wait_until(lambda: shared(members, EVERYTHING), "the two members share the partitions")
        fill(site, wide_topic, "a")
        wait_until(lambda: read_by(members) == 40, "the members have read everything")
    finally:
        for each in members:
            each.stop()


def generation_of(site: Site, group: str) -> int:
    groups = site.broker.server.groups._groups  # noqa: SLF001 - the protocol shows no generation
    return site.broker.do(lambda: next(found.generation for key, found in groups.items() if key.group == group))
