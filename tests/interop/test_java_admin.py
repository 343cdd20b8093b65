"""Java's admin client: the calls that no command line tool makes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from fairlead.broker.settings.topic_settings import SETTINGS
from tests.broker.handlers.asking import topic_id
from tests.interop.clients.java_vm import JavaVM
from tests.interop.site import Site

KAFKA = "org.apache.kafka"


def admin_of(java: JavaVM, address: str) -> Any:
    return java.of(f"{KAFKA}.clients.admin.Admin").create(java.map({"bootstrap.servers": address}))


def java_id(java: JavaVM, topic_id: bytes) -> Any:
    halves = (int.from_bytes(half, "big", signed=True) for half in (topic_id[:8], topic_id[8:]))
    return java.of(f"{KAFKA}.common.Uuid")(*halves)


def test_topics_are_described_by_id(java: JavaVM, site: Site, wide_topic: str) -> None:
    """Java sends an empty name beside the id. An id that nobody has is UNKNOWN_TOPIC_ID, of a topic on its own."""
    known = java_id(java, topic_id(site.stream, wide_topic))
    unknown = java_id(java, uuid.uuid4().bytes)
    by_ids = java.of(f"{KAFKA}.common.TopicCollection").ofTopicIds(java.list(known, unknown))
    for address, name in ((site.main, f"{site.path}:{wide_topic}"), (site.of_stream, wide_topic)):
        with java.closing(admin_of(java, address)) as admin:
            answers = admin.describeTopics(by_ids).topicIdValues()
            described = answers.get(known).get()
            assert (described.name(), described.partitions().size()) == (name, 4)
            with pytest.raises(Py4JJavaError, match="UnknownTopicIdException"):
                answers.get(unknown).get()


def test_an_assignment_alone_says_how_many_partitions(java: JavaVM, site: Site, topic: str) -> None:
    """Java asks for neither a number nor a factor then."""
    nodes = java.map({index: java.list(1) for index in range(3)})
    asked = java.of(f"{KAFKA}.clients.admin.NewTopic")(f"assigned-{topic}", nodes)
    with java.closing(admin_of(java, site.of_stream)) as admin:
        admin.createTopics(java.list(asked)).all().get()
    assert site.stream.topic(f"assigned-{topic}")[1].partitions == 3


def test_topics_have_the_settings_that_kafkas_have(java: JavaVM) -> None:
    """Of the kinds that its broker declares; a later Kafka brings further ones: this says which. One is for Kafka's own
    tests."""
    declared = java.of(f"{KAFKA}.storage.internals.log.LogConfig")
    kinds = {name: declared.configType(name).get().toString() for name in declared.configNames()}
    del kinds["internal.segment.bytes"]
    assert kinds == {name: setting.type.name for name, setting in SETTINGS.items()}
