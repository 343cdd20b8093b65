"""Settings and access rules of topics follow their source, between real brokers of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.systems.kafka import SMALL, SMALL_HEAP, Kafka, kafka
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
)

from tests.interop.kafka_pair import KafkaPair
from tests.interop.test_mirror import once, options
from tests.support.mirrors import count, make_topic, mirroring, produce
from tests.support.waiting import WAIT_SECONDS, wait_until

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker with access rules, which do not hold for us."""
    with kafka(tmp_path_factory.mktemp("guarded"), SMALL | AUTHORIZER, "guarded", SMALL_HEAP) as broker:
        yield broker


def own_settings(admin: AdminClient, topic: str) -> dict[str, str | None]:
    """Those that were set for a topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(WAIT_SECONDS)
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: entry.value for name, entry in found.items() if entry.source == own}


def change(admin: AdminClient, topic: str, name: str, value: str | None) -> None:
    kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=kind)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)


def test_settings_that_change_while_it_runs_follow(pair: KafkaPair, tmp_path: Path) -> None:
    """Set, changed, and given their default again; what belongs to a place stays. A dry run had shown it."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = make_topic(source, "follows", retention_ms="3600000", min_insync_replicas="1")
    make_topic(target, topic, segment_ms="70000")
    here, there = AdminClient({"bootstrap.servers": target}), AdminClient({"bootstrap.servers": source})
    said = once(tmp_path, source, target, topic, "--dry-run")
    assert f"{topic}: retention.ms = 3600000" in said
    assert f"{topic}: segment.ms gets its default" in said
    given = options(tmp_path, source, target, topic, metadata_max_age_ms="300")
    with mirroring(tmp_path, *given) as mirror:
        wait_until(lambda: own_settings(here, topic) == {"retention.ms": "3600000"}, "it is as at the source")
        change(there, topic, "cleanup.policy", "compact")
        change(there, topic, "retention.ms", None)
        wait_until(lambda: own_settings(here, topic) == {"cleanup.policy": "compact"}, "what has changed follows")
        produce(source, topic, [(b"k", b"v")])
        wait_until(lambda: count(target, topic) == 1, "records go on")
        assert mirror.stop() == 0, mirror.said()
    assert "settings of topics that followed their source: 4" in mirror.said()


def rules(admin: AdminClient, topic: str) -> set[tuple[str, AclOperation, AclPermissionType]]:
    """Who may do what with a topic."""
    anybody: Any = None
    asked = AclBindingFilter(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, anybody, anybody),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    found = admin.describe_acls(asked).result(WAIT_SECONDS)
    return {(each.principal, each.operation, each.permission_type) for each in found}


def test_who_may_read_a_topic_may_read_its_copy(guarded: Kafka, tmp_path: Path) -> None:
    """And may not write it. Within one cluster, from one name to another."""
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
    topic = make_topic(guarded.bootstrap, "ruled")
    allow, deny, every = AclPermissionType.ALLOW, AclPermissionType.DENY, AclOperation.ALL
    given = [
        ("User:reader", AclOperation.READ, allow),
        ("User:writer", AclOperation.WRITE, allow),
        ("User:owner", every, allow),
        ("User:stranger", every, deny),
    ]
    literal = ResourcePatternType.LITERAL
    bindings = [AclBinding(ResourceType.TOPIC, topic, literal, who, "*", what, may) for who, what, may in given]
    for future in admin.create_acls(bindings).values():
        future.result(WAIT_SECONDS)
    wait_until(lambda: len(rules(admin, topic)) == 4, "the rules are there")
    bootstrap = guarded.bootstrap
    assert "3 ACLs to be added" in once(
        tmp_path, bootstrap, bootstrap, topic, "--prefix", "copy.", "--sync.topic.acls", "--dry-run"
    )
    for _ in range(2):
        said = once(tmp_path, bootstrap, bootstrap, topic, "--prefix", "copy.", "--sync.topic.acls")
        wait_until(lambda: len(rules(admin, f"copy.{topic}")) == 3, "the rules have followed")
    assert rules(admin, f"copy.{topic}") == {
        ("User:reader", AclOperation.READ, allow),
        ("User:owner", AclOperation.READ, allow),
        ("User:stranger", every, deny),
    }
    assert "ACLs that followed" not in said


def test_a_cluster_without_an_authorizer_is_told_and_records_go_on(pair: KafkaPair, tmp_path: Path) -> None:
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = make_topic(source, "unruled")
    produce(source, topic, [(b"k", b"v")])
    said = once(tmp_path, source, target, topic, "--sync.topic.acls")
    assert "ACLs of topics do not follow: the ACLs of topics: SECURITY_DISABLED" in said
    assert count(target, topic) == 1
