"""An unclean election at the source: a broker that lacks what was mirrored becomes the leader, and the log goes on
otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.test_mirror import numbers, once, records
from tests.support.broker import run_broker
from tests.support.kafka_nodes import kafka_nodes
from tests.support.mirrors import produce
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash
TOPIC = "unclean"
SETTINGS = {"unclean.leader.election.enable": "true", "min.insync.replicas": 1, "transaction.state.log.min.isr": 1}


def test_a_source_that_lost_what_was_mirrored_is_noticed(tmp_path: Path) -> None:
    """It stops, and goes on where the two part if it is told to; the destination keeps what it has."""
    with kafka_nodes(tmp_path / "kafka", 3, settings=SETTINGS) as kafka, run_broker(tmp_path / "data") as target:
        source, (first, second, _) = kafka.bootstrap(), kafka.nodes
        admin = AdminClient({"bootstrap.servers": source})
        made = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[first.number, second.number]])
        admin.create_topics([made])[TOPIC].result(WAIT_SECONDS)
        produce(source, TOPIC, numbers(10))
        second.kill()
        _wait_for_leader(admin, first.number)
        produce(source, TOPIC, numbers(20, 10))
        once(tmp_path, source, target.bootstrap, TOPIC)
        first.kill()
        second.start()
        _wait_for_leader(admin, second.number)
        others = [(b"k", b"other %d" % number) for number in range(15)]
        produce(source, TOPIC, others)
        said = once(tmp_path, source, target.bootstrap, TOPIC, code=1)
        assert "the source has lost records that were mirrored: its log went on otherwise below offset 20" in said
        once(tmp_path, source, target.bootstrap, TOPIC, "--on.truncated", "continue", code=1)
        values = [content.value for content in records(target.bootstrap, TOPIC)[0]]
        assert values == [value for _, value in [*numbers(20), *others]]


def _wait_for_leader(admin: AdminClient, node: int) -> None:
    """It leads, and no other replica is in sync."""

    def leads() -> bool:
        found = admin.list_topics(TOPIC, timeout=WAIT_SECONDS).topics[TOPIC].partitions.get(0)
        return found is not None and found.leader == node and list(found.isrs) == [node]

    wait_until(leads, f"node {node} leads the partition", every_seconds=0.2)
