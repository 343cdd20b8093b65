"""Kinds of membership beyond the plain one: incremental rebalances, static members."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.interop.clients import CLIENTS
from tests.interop.clients.base import Client, Member, Membership
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_tools import KafkaTools
from tests.interop.conftest import installed
from tests.interop.site import Site
from tests.interop.test_behaviours import fill, read_by, shared, written
from tests.support.waiting import wait_until

EVERYTHING = frozenset(range(4))
COOPERATIVE = Membership(cooperative=True)


def offering(membership: str) -> list[Client]:
    return [client for client in CLIENTS if membership in client.memberships]


@pytest.fixture(params=offering("cooperative"), ids=lambda client: client.name)
def cooperative_client(request: pytest.FixtureRequest) -> Client:
    return installed(request.param)


@pytest.fixture(params=offering("static"), ids=lambda client: client.name)
def static_client(request: pytest.FixtureRequest) -> Client:
    return installed(request.param)


@pytest.fixture(params=offering("fenced"), ids=lambda client: client.name)
def fenced_client(request: pytest.FixtureRequest) -> Client:
    return installed(request.param)


def test_only_what_moves_is_given_up_in_an_incremental_rebalance(
    cooperative_client: Client, site: Site, wide_topic: str
) -> None:
    """KIP-429: the first member gives up what the second gets, and gets it back, and nothing else."""
    rebalance_incrementally([cooperative_client] * 2, site, wide_topic)


def test_members_of_two_languages_rebalance_incrementally(
    tools: KafkaTools, confluent: Confluent, site: Site, wide_topic: str
) -> None:
    """The leader, which is Java's, says what moves between it and librdkafka."""
    rebalance_incrementally([tools, confluent], site, wide_topic)


def rebalance_incrementally(clients: Sequence[Client], site: Site, topic: str) -> None:
    group = f"cooperative {topic}"
    members = [clients[0].member(site, topic, group, COOPERATIVE)]
    try:
        wait_until(lambda: members[0].assigned == EVERYTHING, "the first member has all partitions")
        members.append(clients[1].member(site, topic, group, COOPERATIVE))
        wait_until(lambda: shared(members, EVERYTHING), "the two members share the partitions")
        moved = members[1].assigned
        assert members[0].given_up == moved
        fill(site, topic, "a")
        wait_until(lambda: read_by(members) == 40, "the members have read everything")
        members[1].stop()
        wait_until(lambda: members[0].assigned == EVERYTHING, "the first member has all partitions again")
        assert members[0].given_up == moved
    finally:
        stop(members)
    assert sorted(members[0].values + members[1].values) == sorted(written("a"))


def test_a_static_member_comes_back_to_its_partitions(static_client: Client, site: Site, wide_topic: str) -> None:
    """KIP-345: a member that restarts within its session gets the same partitions, and the other notices nothing."""
    group = f"static {wide_topic}"

    def member(instance: str) -> Member:
        return static_client.member(site, wide_topic, group, Membership(instance=instance))

    members = [member("one"), member("two")]
    try:
        wait_until(lambda: shared(members, EVERYTHING), "the two members share the partitions")
        before, given_up = members[1].assigned, members[0].given_up
        generation = generation_of(site, group)
        members[1].stop()
        members[1] = member("two")
        wait_until(lambda: members[1].assigned == before, "the second member is back")
        fill(site, wide_topic, "a")
        wait_until(lambda: read_by(members) == 40, "the members have read everything")
        assert members[0].given_up == given_up
        assert generation_of(site, group) == generation
    finally:
        stop(members)


def test_another_of_its_name_ends_a_static_member(fenced_client: Client, site: Site, wide_topic: str) -> None:
    """KIP-345: the older of two members with one `group.instance.id` is fenced and ends, the newer has the place."""
    group = f"fenced {wide_topic}"
    members: list[Member] = []

    def join() -> None:
        members.append(fenced_client.member(site, wide_topic, group, Membership(instance="only")))
        wait_until(lambda: members[-1].assigned == EVERYTHING, "the newest member has all partitions")

    join()
    try:
        join()
        failure = wait_until(lambda: members[0].failure or "", "the older member has ended")
        assert "fenced" in failure.lower() or "shutdown_complete" in failure  # all that Java's tool says
        fill(site, wide_topic, "a")
        wait_until(lambda: set(members[1].values) == set(written("a")), "the newer member reads on")
    finally:
        stop(members)


def stop(members: Sequence[Member]) -> None:
    """Those that have not ended by themselves."""
    for member in members:
        if member.failure is None:
            member.stop()


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
