"""Every call of Java's AdminClient against this broker, beside the guide's table of them.

The table names each method of Kafka's `Admin` once: it works, or is refused with a text that a person reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.clients.confluent_client import SESSION, Confluent, ConfluentMember
from tests.interop.clients.java_vm import JavaVM, refusal
from tests.interop.site import Site
from tests.interop.test_behaviours import messages
from tests.support.waiting import wait_until

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "kafka-clients.md"
ADMIN = "org.apache.kafka.clients.admin"
COMMON = "org.apache.kafka.common"
ANSWER_SECONDS = 60
WORKS = "works"
LONG = 2**40
"""Too large for py4j to make an Integer of it."""


class Walk:
    """An AdminClient, and a topic of two partitions with records that it may do anything to."""

    def __init__(self, java: JavaVM, site: Site, topic: str) -> None:
        self.java = java
        self.site = site
        self.topic = topic
        self.admin = self.client()
        self._groups = 0

    def client(self, **settings: str) -> Any:
        return self.new("Admin").create(self.java.map({"bootstrap.servers": self.site.of_stream, **settings}))

    def new(self, name: str) -> Any:
        """A class of the admin package."""
        return self.java.of(f"{ADMIN}.{name}")

    def common(self, name: str) -> Any:
        """A class of the package of what clients share."""
        return self.java.of(f"{COMMON}.{name}")

    def done(self, future: Any) -> Any:
        """What a KafkaFuture brings."""
        return future.get(ANSWER_SECONDS, self.java.of("java.util.concurrent.TimeUnit").SECONDS)

    def partition(self, index: int = 0) -> Any:
        return self.common("TopicPartition")(self.topic, index)

    def optional(self, value: Any = None) -> Any:
        return self.java.of("java.util.Optional").ofNullable(value)

    def set(self, *items: Any) -> Any:
        return self.java.of("java.util.HashSet")(self.java.list(*items))

    def resource(self) -> Any:
        kind = self.common("config.ConfigResource$Type")
        return self.common("config.ConfigResource")(kind.TOPIC, self.topic)

    def offsets(self, offset: int = 1) -> Any:
        return self.java.map(
            {self.partition(): self.java.of("org.apache.kafka.clients.consumer.OffsetAndMetadata")(offset)}
        )

    def group(self) -> str:
        """A new group without members that has committed an offset."""
        self._groups += 1
        name = f"group-{self._groups}"
        self.done(self.admin.alterConsumerGroupOffsets(name, self.offsets()).all())
        return name

    def listed_groups(self) -> frozenset[str]:
        return frozenset(found.groupId() for found in self.done(self.admin.listGroups().all()))

    def committed(self, group: str) -> int | None:
        """What the group has committed for the first partition."""
        found = self.done(self.admin.listConsumerGroupOffsets(group).all()).get(group).get(self.partition())
        return None if found is None else int(found.offset())


@pytest.fixture(scope="module")
def walk(java: JavaVM, site: Site) -> Iterator[Walk]:
    site.make_topic("walked", 2)
    Confluent().produce(site, "walked", messages(10))
    made = Walk(java, site, "walked")
    yield made
    made.admin.close()


def _new_topic(w: Walk, name: str) -> Any:
    return w.new("NewTopic")(name, w.optional(), w.optional())


def _create_topics(w: Walk) -> None:
    w.done(w.admin.createTopics(w.java.list(_new_topic(w, "made"))).all())
    assert w.site.stream.find_topic("made") is not None


def _list_topics(w: Walk) -> None:
    assert w.topic in set(w.done(w.admin.listTopics().names()))


def _delete_topics(w: Walk) -> None:
    w.done(w.admin.createTopics(w.java.list(_new_topic(w, "goes"))).all())
    w.done(w.admin.deleteTopics(w.java.list("goes")).all())
    assert w.site.stream.find_topic("goes") is None


def _describe_topics(w: Walk) -> None:
    options = w.new("DescribeTopicsOptions")().includeAuthorizedOperations(True).partitionSizeLimitPerResponse(1)
    found = w.done(w.admin.describeTopics(w.java.list(w.topic), options).allTopicNames()).get(w.topic)
    assert found.partitions().size() == 2
    assert "WRITE" in found.authorizedOperations().toString()


def _describe_cluster(w: Walk) -> None:
    result = w.admin.describeCluster(w.new("DescribeClusterOptions")().includeAuthorizedOperations(True))
    assert w.done(result.nodes()).size() == 1
    assert "CREATE" in w.done(result.authorizedOperations()).toString()


def _any_acl(w: Walk) -> Any:
    resource = w.common("resource.ResourcePattern")(
        w.common("resource.ResourceType").TOPIC, "a", w.common("resource.PatternType").LITERAL
    )
    operation, allow = w.common("acl.AclOperation").READ, w.common("acl.AclPermissionType").ALLOW
    return w.common("acl.AclBinding")(resource, w.common("acl.AccessControlEntry")("User:a", "*", operation, allow))


def _describe_configs(w: Walk) -> None:
    assert _cleanup_policy(w) == ("delete", "DEFAULT_CONFIG", False)


def _cleanup_policy(w: Walk) -> tuple[str, str, bool]:
    """Value, source, and whether it is read-only."""
    found = w.done(w.admin.describeConfigs(w.java.list(w.resource())).all()).get(w.resource()).get("cleanup.policy")
    return found.value(), found.source().toString(), found.isReadOnly()


def _alter_configs(w: Walk) -> None:
    kinds = w.new("AlterConfigOp$OpType")
    steps = (
        (kinds.APPEND, ("delete,compact", "DYNAMIC_TOPIC_CONFIG", False)),
        (kinds.SUBTRACT, ("delete", "DYNAMIC_TOPIC_CONFIG", False)),
        (kinds.SET, ("compact", "DYNAMIC_TOPIC_CONFIG", False)),
        (kinds.DELETE, ("delete", "DEFAULT_CONFIG", False)),
    )
    for kind, shown in steps:
        op = w.new("AlterConfigOp")(w.new("ConfigEntry")("cleanup.policy", "compact"), kind)
        w.done(w.admin.incrementalAlterConfigs(w.java.map({w.resource(): w.java.list(op)})).all())
        assert _cleanup_policy(w) == shown


def _replica(w: Walk) -> Any:
    return w.common("TopicPartitionReplica")(w.topic, 0, 1)


def _describe_log_dirs(w: Walk) -> None:
    directories = w.done(w.admin.describeLogDirs(w.java.list(1)).allDescriptions()).get(1)
    (name,) = directories.keySet()
    assert directories.get(name).replicaInfos().get(w.partition()).size() > 0


def _describe_replica_log_dirs(w: Walk) -> None:
    found = w.done(w.admin.describeReplicaLogDirs(w.java.list(_replica(w))).all()).get(_replica(w))
    assert found.getCurrentReplicaLogDir() == "/interop"


def _create_partitions(w: Walk) -> None:
    w.done(w.admin.createTopics(w.java.list(_new_topic(w, "widened"))).all())
    w.done(w.admin.createPartitions(w.java.map({"widened": w.new("NewPartitions").increaseTo(7)})).all())
    assert w.site.stream.topic("widened")[1].partitions == 7


def _delete_records(w: Walk) -> None:
    # By reflection: it has a method of an object by the same name, and py4j takes that for the only one.
    methods = w.java.of("java.lang.Class").forName(f"{ADMIN}.RecordsToDelete").getMethods()
    before = next(m for m in methods if m.getName() == "beforeOffset" and m.getParameterCount() == 1)
    result = w.admin.deleteRecords(w.java.map({w.partition(): before.invoke(None, w.java.objects(1))}))
    assert w.done(result.lowWatermarks().get(w.partition())).lowWatermark() == 1


def _elect_leaders(w: Walk) -> None:
    preferred = w.common("ElectionType").PREFERRED
    outcome = w.done(w.admin.electLeaders(preferred, w.set(w.partition())).partitions()).get(w.partition())
    assert "ElectionNotNeededException" in outcome.get().toString()


def _group_offsets(w: Walk) -> None:
    assert w.committed(w.group()) == 1


def _alter_group_offsets(w: Walk) -> None:
    group = w.group()
    w.done(w.admin.alterConsumerGroupOffsets(group, w.offsets(3)).all())
    assert w.committed(group) == 3


def _alter_streams_group_offsets(w: Walk) -> None:
    group = w.group()
    w.done(w.admin.alterStreamsGroupOffsets(group, w.offsets(3)).all())
    assert w.committed(group) == 3


def _delete_group_offsets(w: Walk) -> None:
    group = w.group()
    w.done(w.admin.deleteConsumerGroupOffsets(group, w.set(w.partition())).all())
    assert w.committed(group) is None


def _delete_streams_group_offsets(w: Walk) -> None:
    group = w.group()
    w.done(w.admin.deleteStreamsGroupOffsets(group, w.set(w.partition())).all())
    assert w.committed(group) is None


def _deletes_groups(call: str) -> Callable[[Walk], None]:
    """Of all kinds of groups, each by a call of its own."""

    def delete(w: Walk) -> None:
        group = w.group()
        assert group in w.listed_groups()
        w.done(getattr(w.admin, call)(w.java.list(group)).all())
        assert group not in w.listed_groups()

    return delete


def _list_groups(w: Walk) -> None:
    assert w.group() in w.listed_groups()


def _list_consumer_groups(w: Walk) -> None:
    assert w.group() in {found.groupId() for found in w.done(w.admin.listConsumerGroups().all())}


def _stream_group_offsets(w: Walk) -> None:
    group = w.group()
    spec = w.new("ListStreamsGroupOffsetsSpec")().topicPartitions(w.java.list(w.partition()))
    assert w.done(w.admin.listStreamsGroupOffsets(w.java.map({group: spec})).all()).get(group).size() == 1


def _remove_members(w: Walk) -> None:
    confluent = Confluent()
    settings = {**SESSION, "group.instance.id": "one"}
    member = ConfluentMember(confluent.consumer(w.site, "left", **settings), confluent.topic(w.site, w.topic))
    try:
        wait_until(lambda: len(member.assigned) == 2, "the member has its partitions")
        options = w.new("RemoveMembersFromConsumerGroupOptions")(w.set(w.new("MemberToRemove")("one")))
        with w.java.closing(w.client(**{"bootstrap.servers": w.site.main})) as admin:
            w.done(admin.removeMembersFromConsumerGroup("left", options).all())
    finally:
        member.stop()


def _client_instance_id(w: Walk) -> None:
    with w.java.closing(w.client(**{"enable.metrics.push": "true"})) as admin:
        assert admin.clientInstanceId(w.java.of("java.time.Duration").ofSeconds(5)) is None


def _list_offsets(w: Walk) -> None:
    found = w.done(w.admin.listOffsets(w.java.map({w.partition(): w.new("OffsetSpec").latest()})).all())
    assert found.get(w.partition()).offset() == 10


def _alter_quotas(w: Walk) -> None:
    entity = w.common("quota.ClientQuotaEntity")(w.java.map({"user": "a"}))
    change = w.common("quota.ClientQuotaAlteration")(entity, w.java.list())
    w.done(w.admin.alterClientQuotas(w.java.list(change)).all())


def _alter_scram(w: Walk) -> None:
    gone = w.new("UserScramCredentialDeletion")("a", w.new("ScramMechanism").SCRAM_SHA_256)
    w.done(w.admin.alterUserScramCredentials(w.java.list(gone)).all())


def _describe_features(w: Walk) -> None:
    found = w.done(w.admin.describeFeatures().featureMetadata())
    level = found.finalizedFeatures().get("metadata.version").maxVersionLevel()
    version = w.java.of("org.apache.kafka.server.common.MetadataVersion").fromFeatureLevel(level).toString()
    assert (version, found.finalizedFeatures().size()) == ("4.1-IV1", 1)


def _update_features(w: Walk) -> None:
    change = w.new("FeatureUpdate")(27, w.new("FeatureUpdate$UpgradeType").UPGRADE)
    w.done(w.admin.updateFeatures(w.java.map({"metadata.version": change}), w.new("UpdateFeaturesOptions")()).all())


def _describe_quorum(w: Walk) -> None:
    found = w.done(w.admin.describeMetadataQuorum().quorumInfo())
    assert (found.leaderId(), found.voters().size()) == (1, 1)


def _describe_producers(w: Walk) -> None:
    topic = w.site.make_topic("produced-once")
    Confluent().produce(w.site, topic, messages(3), idempotent=True)
    place = w.common("TopicPartition")(topic, 0)
    (producer,) = w.done(w.admin.describeProducers(w.java.list(place)).all()).get(place).activeProducers()
    assert (producer.producerEpoch(), producer.lastSequence()) == (0, 2)


def _abort_transaction(w: Walk) -> None:
    w.done(w.admin.abortTransaction(w.new("AbortTransactionSpec")(w.partition(), 1, 0, 0)).all())


def _list_config_resources(w: Walk) -> None:
    assert w.topic in w.done(w.admin.listConfigResources().all()).toString()


def _uuid(w: Walk) -> Any:
    return w.common("Uuid").ZERO_UUID


def _describe_groups(w: Walk) -> None:
    group = w.group()
    options = w.new("DescribeConsumerGroupsOptions")().includeAuthorizedOperations(True)
    found = w.done(w.admin.describeConsumerGroups(w.java.list(group), options).all()).get(group)
    assert "DELETE" in found.authorizedOperations().toString()


def _describe_classic_groups(w: Walk) -> None:
    group = w.group()
    assert w.done(w.admin.describeClassicGroups(w.java.list(group)).all()).get(group).state().toString() == "Empty"


def _none(found: Callable[[Walk], Any]) -> Callable[[Walk], None]:
    """A call that finds nothing."""

    def call(w: Walk) -> None:
        assert w.done(found(w)).size() == 0

    return call


def _list_share_offsets(w: Walk) -> None:
    spec = w.new("ListShareGroupOffsetsSpec")().topicPartitions(w.java.list(w.partition()))
    w.done(w.admin.listShareGroupOffsets(w.java.map({w.group(): spec})).all())


CALLS: dict[str, Callable[[Walk], Any]] = {
    "create": lambda w: w.client().close(),
    "close": lambda w: w.client().close(),
    "createTopics": _create_topics,
    "deleteTopics": _delete_topics,
    "listTopics": _list_topics,
    "describeTopics": _describe_topics,
    "describeCluster": _describe_cluster,
    "describeAcls": lambda w: w.done(w.admin.describeAcls(w.common("acl.AclBindingFilter").ANY).values()),
    "createAcls": lambda w: w.done(w.admin.createAcls(w.java.list(_any_acl(w))).all()),
    "deleteAcls": lambda w: w.done(w.admin.deleteAcls(w.java.list(w.common("acl.AclBindingFilter").ANY)).all()),
    "describeConfigs": _describe_configs,
    "incrementalAlterConfigs": _alter_configs,
    "alterReplicaLogDirs": lambda w: w.done(w.admin.alterReplicaLogDirs(w.java.map({_replica(w): "/x"})).all()),
    "describeLogDirs": _describe_log_dirs,
    "describeReplicaLogDirs": _describe_replica_log_dirs,
    "createPartitions": _create_partitions,
    "deleteRecords": _delete_records,
    "createDelegationToken": lambda w: w.done(w.admin.createDelegationToken().delegationToken()),
    "renewDelegationToken": lambda w: w.done(w.admin.renewDelegationToken(b"x").expiryTimestamp()),
    "expireDelegationToken": lambda w: w.done(w.admin.expireDelegationToken(b"x").expiryTimestamp()),
    "describeDelegationToken": lambda w: w.done(w.admin.describeDelegationToken().delegationTokens()),
    "describeConsumerGroups": _describe_groups,
    "listConsumerGroups": _list_consumer_groups,
    "listConsumerGroupOffsets": _group_offsets,
    "listStreamsGroupOffsets": _stream_group_offsets,
    "deleteConsumerGroups": _deletes_groups("deleteConsumerGroups"),
    "deleteStreamsGroups": _deletes_groups("deleteStreamsGroups"),
    "deleteConsumerGroupOffsets": _delete_group_offsets,
    "deleteStreamsGroupOffsets": _delete_streams_group_offsets,
    "listGroups": _list_groups,
    "electLeaders": _elect_leaders,
    "alterPartitionReassignments": lambda w: w.done(
        w.admin.alterPartitionReassignments(
            w.java.map({w.partition(): w.optional(w.new("NewPartitionReassignment")(w.java.list(1)))})
        ).all()
    ),
    "listPartitionReassignments": _none(lambda w: w.admin.listPartitionReassignments().reassignments()),
    "removeMembersFromConsumerGroup": _remove_members,
    "alterConsumerGroupOffsets": _alter_group_offsets,
    "alterStreamsGroupOffsets": _alter_streams_group_offsets,
    "listOffsets": _list_offsets,
    "describeClientQuotas": _none(
        lambda w: w.admin.describeClientQuotas(w.common("quota.ClientQuotaFilter").all()).entities()
    ),
    "alterClientQuotas": _alter_quotas,
    "describeUserScramCredentials": lambda w: w.done(w.admin.describeUserScramCredentials().all()),
    "alterUserScramCredentials": _alter_scram,
    "describeFeatures": _describe_features,
    "updateFeatures": _update_features,
    "describeMetadataQuorum": _describe_quorum,
    "unregisterBroker": lambda w: w.done(w.admin.unregisterBroker(1).all()),
    "describeProducers": _describe_producers,
    "describeTransactions": lambda w: w.done(w.admin.describeTransactions(w.java.list("orders")).all()),
    "abortTransaction": _abort_transaction,
    "forceTerminateTransaction": lambda w: w.done(w.admin.forceTerminateTransaction("orders").result()),
    "listTransactions": lambda w: w.done(w.admin.listTransactions().all()),
    "fenceProducers": lambda w: w.done(w.admin.fenceProducers(w.java.list("orders")).all()),
    "listConfigResources": _list_config_resources,
    "listClientMetricsResources": _none(lambda w: w.admin.listClientMetricsResources().all()),
    "clientInstanceId": _client_instance_id,
    "addRaftVoter": lambda w: w.done(w.admin.addRaftVoter(2, _uuid(w), w.set()).all()),
    "removeRaftVoter": lambda w: w.done(w.admin.removeRaftVoter(2, _uuid(w)).all()),
    "describeShareGroups": lambda w: w.done(w.admin.describeShareGroups(w.java.list(w.group())).all()),
    "alterShareGroupOffsets": lambda w: w.done(
        w.admin.alterShareGroupOffsets(w.group(), w.java.map({w.partition(): LONG})).all()
    ),
    "listShareGroupOffsets": _list_share_offsets,
    "deleteShareGroupOffsets": lambda w: w.done(w.admin.deleteShareGroupOffsets(w.group(), w.set(w.topic)).all()),
    "deleteShareGroups": _deletes_groups("deleteShareGroups"),
    "describeStreamsGroups": lambda w: w.done(w.admin.describeStreamsGroups(w.java.list(w.group())).all()),
    "describeClassicGroups": _describe_classic_groups,
    "metrics": lambda w: w.admin.metrics(),
    "registerMetricForSubscription": lambda w: w.admin.registerMetricForSubscription(_metric(w)),
    "unregisterMetricFromSubscription": lambda w: w.admin.unregisterMetricFromSubscription(_metric(w)),
}


def _metric(w: Walk) -> Any:
    return next(iter(w.admin.metrics().values()))


def told() -> dict[str, str]:
    """What the guide says of each call: `works`, or the text of the refusal."""
    rows = re.findall(r"^\| `(\w+)` \| (works|refused)(?:: `([^`]+)`)? \|", GUIDE.read_text(), re.MULTILINE)
    return {call: text or word for call, word, text in rows}


def test_the_guide_names_every_call_that_the_client_has(java: JavaVM) -> None:
    """A later Kafka brings further calls: this says which."""
    admin = java.of("java.lang.Class").forName(f"{ADMIN}.Admin")
    names = {method.getName() for method in admin.getMethods()}
    assert told().keys() == names == CALLS.keys()


@pytest.mark.parametrize("call", CALLS)
def test_each_call_works_or_is_refused_as_the_guide_says(call: str, walk: Walk) -> None:
    """The row says `works`, or has the error that Java raises: never a time-out, never a connection that closes."""
    shown = refusal(lambda: CALLS[call](walk)) or WORKS
    assert shown.replace("`", "'") == told().get(call)  # the guide's own quotes of code
