"""librdkafka's administration calls."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.interop.clients.confluent_client import Confluent
from tests.interop.site import Site
from tests.interop.test_behaviours import messages
from tests.support.waiting import WAIT_SECONDS, wait_until


@pytest.fixture(scope="module")
def admin(site: Site) -> AdminClient:
    return AdminClient({"bootstrap.servers": site.of_stream})


def test_topics_are_made_widened_described_and_deleted(admin: AdminClient, site: Site) -> None:
    """CreateTopics, CreatePartitions, DescribeTopics, DeleteTopics."""
    admin.create_topics([NewTopic("administered", 2, 3)])["administered"].result(WAIT_SECONDS)
    admin.create_partitions([NewPartitions("administered", 4)])["administered"].result(WAIT_SECONDS)
    assert site.stream.topic("administered")[1].partitions == 4
    admin.delete_topics(["administered"])["administered"].result(WAIT_SECONDS)
    assert site.stream.find_topic("administered") is None


def test_settings_of_topics_are_shown_and_changed(admin: AdminClient, topic: str) -> None:
    """IncrementalAlterConfigs and DescribeConfigs; what Kafka does not know is refused by name."""
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)
    shown = admin.describe_configs([resource])[resource].result(WAIT_SECONDS)
    assert shown["cleanup.policy"].value == "compact"
    assert not shown["retention.ms"].is_read_only
    entry = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    with pytest.raises(KafkaException, match=r"retention\.ms"):
        admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)


def test_settings_of_the_broker_are_shown(admin: AdminClient) -> None:
    """DescribeConfigs of the node that DescribeCluster names."""
    cluster = admin.describe_cluster().result(WAIT_SECONDS)
    (node,) = cluster.nodes
    resource = ConfigResource(ConfigResource.Type.BROKER, node.id_string)
    assert admin.describe_configs([resource])[resource].result(WAIT_SECONDS)["message.max.bytes"].value == "10000000"


def test_groups_are_listed_described_moved_and_deleted(confluent: Confluent, site: Site, topic: str) -> None:
    """An active group cannot be deleted, an empty one can be moved and deleted."""
    admin = AdminClient({"bootstrap.servers": site.main})  # where the member is: membership is per listener
    group = f"administered {topic}"
    name = confluent.topic(site, topic)
    confluent.produce(site, topic, messages(10))
    member = confluent.member(site, topic, group)
    try:
        wait_until(lambda: len(member.values) == 10, "the member reads")
        described = admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
        assert described.state.name == "STABLE"
        assert [part.partition for part in described.members[0].assignment.topic_partitions] == [0]
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(WAIT_SECONDS)
    finally:
        member.stop()
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 4)])
    admin.alter_consumer_group_offsets([moved])[group].result(WAIT_SECONDS)
    asked = ConsumerGroupTopicPartitions(group)
    assert admin.list_consumer_group_offsets([asked])[group].result(WAIT_SECONDS).topic_partitions[0].offset == 4
    assert group in {found.group_id for found in admin.list_consumer_groups().result(WAIT_SECONDS).valid}
    admin.delete_consumer_groups([group])[group].result(WAIT_SECONDS)
    assert group not in {found.group_id for found in admin.list_consumer_groups().result(WAIT_SECONDS).valid}


ANY: Any = None
"""Of a filter; the stubs ask for a text."""


def test_there_are_no_acls(admin: AdminClient) -> None:
    """DescribeAcls answers SECURITY_DISABLED, which librdkafka shows as none."""
    everything = AclBindingFilter(
        ResourceType.ANY, ANY, ResourcePatternType.ANY, ANY, ANY, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(everything).result(WAIT_SECONDS) == []


def test_an_assignment_of_replicas_is_taken_for_its_partitions(admin: AdminClient, site: Site, topic: str) -> None:
    """As librdkafka sends it."""
    name = f"assigned-{topic}"
    admin.create_topics([NewTopic(name, 3, replica_assignment=[[1], [1], [1]])])[name].result(WAIT_SECONDS)
    assert site.stream.topic(name)[1].partitions == 3
