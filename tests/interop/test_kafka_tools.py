"""Apache Kafka 4's own tools beyond producing and consuming: what its developers test brokers with."""

from __future__ import annotations

import json

import pytest

from tests.interop.clients.confluent_client import Confluent
from tests.interop.clients.kafka_tools import KafkaTools, groups_command, java
from tests.interop.clients.process import run
from tests.interop.site import Site
from tests.interop.test_behaviours import messages, stored


def test_the_client_compatibility_test_passes(tools: KafkaTools, site: Site) -> None:
    """Kafka's test of what a broker can do for a Java client, with everything expected of a current one."""
    supported = (
        "offsets-for-times-supported",
        "cluster-id-supported",
        "create-topics-supported",
        "describe-acls-supported",  # SECURITY_DISABLED is an answer
        "describe-configs-supported",
        "idempotent-producer-supported",
    )
    said = run(
        java(
            "ClientCompatibilityTest",
            *("--bootstrap-server", site.of_stream, "--topic", site.make_topic("compatibility")),
            *("--num-cluster-nodes", "1", "--expect-record-too-large-exception", "False"),
            *(part for name in supported for part in (f"--{name}", "True")),
        )
    )
    assert "All tests passed" in said or "SUCCESS" in said.upper(), said


def test_the_verifiable_producer_has_everything_acknowledged(tools: KafkaTools, site: Site, topic: str) -> None:
    """Each number it sends is acknowledged at an offset, and is stored once, in order."""
    said = run(
        java(
            "VerifiableProducer",
            *("--bootstrap-server", site.main, "--topic", tools.topic(site, topic)),
            *("--max-messages", "1000", "--acks", "-1"),
        )
    )
    events = [json.loads(line) for line in said.splitlines()]
    offsets = [event["offset"] for event in events if event["name"] == "producer_send_success"]
    assert sorted(offsets) == list(range(1000))
    assert [record.value for record in stored(site, topic)] == [str(number).encode() for number in range(1000)]


def test_groups_are_shown_moved_and_deleted(tools: KafkaTools, confluent: Confluent, site: Site, topic: str) -> None:
    """kafka-consumer-groups: list, describe, reset-offsets, delete."""
    confluent.produce(site, topic, messages(30))
    group = f"group-of-{topic}"
    tools.read_in_group(site, topic, group, 10)

    def command(*options: str) -> str:
        return run(groups_command(site.of_stream, *options))

    assert group in command("--list").split()
    described = command("--describe", "--group", group).split()
    assert described[described.index(topic) : described.index(topic) + 5] == [topic, "0", "10", "30", "20"]
    assert "Empty" in command("--describe", "--group", group, "--state")
    move = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "25", "--execute")
    command(*move)
    assert len(tools.read_in_group(site, topic, group, 5)) == 5
    assert "deletion of requested consumer groups" in command("--delete", "--group", group).lower()
    assert group not in command("--list").split()


def test_topics_are_made_changed_and_deleted(tools: KafkaTools, site: Site) -> None:
    """kafka-topics: create with a setting, describe, add partitions, list, delete."""

    def command(*options: str) -> str:
        return run(java("TopicCommand", "--bootstrap-server", site.of_stream, *options))

    name = "made-by-kafka-topics"
    command(
        "--create",
        "--topic",
        name,
        "--partitions",
        "2",
        "--replication-factor",
        "3",
        "--config",
        "cleanup.policy=compact",
    )
    described = command("--describe", "--topic", name)
    assert "PartitionCount: 2" in described
    assert "ReplicationFactor: 1" in described
    assert "cleanup.policy=compact" in described
    command("--alter", "--topic", name, "--partitions", "5")
    assert site.stream.topic(name)[1].partitions == 5
    assert name in command("--list").split()
    command("--delete", "--topic", name)
    assert site.stream.find_topic(name) is None


def test_topics_with_settings_of_their_own_are_told_apart(tools: KafkaTools, site: Site) -> None:
    """kafka-topics --topics-with-overrides: those alone; --describe shows their settings, even such without effect."""

    def command(*options: str) -> str:
        return run(java("TopicCommand", "--bootstrap-server", site.of_stream, *options))

    settings = ("--config", "segment.bytes=52428800", "--config", "min.insync.replicas=2")
    command("--create", "--topic", "with-overrides", "--replication-factor", "1", *settings)
    command("--create", "--topic", "without-overrides", "--replication-factor", "1")
    described = command("--describe", "--topics-with-overrides")
    assert "with-overrides" in described.split()
    assert "without-overrides" not in described
    assert "segment.bytes=52428800" in described
    assert "min.insync.replicas=2" in described


SAID = {
    ("MetadataQuorumCommand", "describe", "--status"): "LeaderId:               1",
    ("MetadataQuorumCommand", "describe", "--replication"): "Leader",
    ("LogDirsCommand", "--describe"): '"logDir":"/interop"',
    (
        "LeaderElectionCommand",
        "--election-type",
        "preferred",
        "--topic",
        "TOPIC",
        "--partition",
        "0",
    ): "already elected",
    ("FeatureCommand", "describe"): "FinalizedVersionLevel: 4.1",
    ("reassign.ReassignPartitionsCommand", "--list"): "No partition reassignments found.",
    ("TransactionsCommand", "describe-producers", "--topic", "TOPIC", "--partition", "0"): "CurrentTransactionStart",
}
"""What a tool says of a healthy cluster of one node."""


@pytest.mark.parametrize("command", SAID, ids=" ".join)
def test_a_tool_shows_a_healthy_cluster(command: tuple[str, ...], tools: KafkaTools, site: Site, topic: str) -> None:
    """kafka-metadata-quorum, kafka-log-dirs, kafka-leader-election, kafka-features and others end without an error."""
    tool, *options = (part.replace("TOPIC", topic) for part in command)
    assert SAID[command] in run(java(tool, "--bootstrap-server", site.of_stream, *options))
