"""A server that is stopped and started again on its data: groups find their place."""

from __future__ import annotations

from pathlib import Path

from tests.interop.clients.base import Client, Member
from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_tools import KafkaTools, groups_command
from tests.interop.clients.process import run
from tests.interop.site import STREAM, Site
from tests.interop.test_behaviours import fill, written
from tests.support.broker import RunningBroker, run_broker
from tests.support.waiting import wait_until


def test_a_group_goes_on_after_a_restart(client: Client, tmp_path: Path) -> None:
    """What was committed is not read twice, what comes is read."""
    with run_broker(tmp_path) as broker:
        site = filled(broker)
        read_by(client, site, "g").stop()
        member = client.member(site, "kept", "g")
        wait_until(lambda: member.assigned == frozenset(range(4)), "the member is back")
    try:
        with run_broker(tmp_path) as broker:
            listen_again(broker, site)
            fill(site, "kept", "b")
            wait_until(lambda: len(member.values) >= 40, "the member has read what came after the restart")
            member.stop()
    finally:
        member.stop()
    assert sorted(member.values) == sorted(written("b"))


def test_tools_show_a_group_as_it_was_before_the_restart(
    tools: KafkaTools, confluent: Confluent, tmp_path: Path
) -> None:
    """kafka-consumer-groups with --members and --state: the same member, its partitions, Stable, by the same leader's
    choice. A group that its members left keeps its type."""
    with run_broker(tmp_path) as broker:
        site = filled(broker)
        read_by(confluent, site, "left").stop()
        member = read_by(confluent, site, "g")

        def shown(what: str) -> list[list[str]]:
            lines = run(groups_command(site.main, "--describe", "--group", "g", what, "--verbose")).splitlines()
            return [line.split() for line in lines if line.startswith("g ")]

        members, state = shown("--members"), shown("--state")
    try:
        with run_broker(tmp_path) as broker:
            listen_again(broker, site)
            assert shown("--members") == members
            assert shown("--state") == state
            listed = run(groups_command(site.main, "--list"))
            assert {"g", "left"} <= set(listed.split())
            member.stop()
    finally:
        member.stop()
    assert len(members) == 1
    assert "Stable" in state[0]


def filled(broker: RunningBroker) -> Site:
    """A site with a topic of four partitions and 40 records."""
    site = Site(broker, STREAM)
    site.make_topic("kept", 4)
    fill(site, "kept", "a")
    return site


def read_by(client: Client, site: Site, group: str) -> Member:
    """A member of a group, which has read the topic to its end."""
    member = client.member(site, "kept", group)
    wait_until(lambda: len(member.values) == 40, f"the member of {group} has read everything")
    return member


def listen_again(broker: RunningBroker, site: Site) -> None:
    """On the addresses that the clients know."""
    broker.call(broker.server.stop(None))
    for stream, address in ((None, site.main), (STREAM, site.of_stream)):
        host, port = address.rsplit(":", 1)
        broker.call(broker.server.start(host, int(port), stream))
