"""`fairlead mirror` goes on where another mirror has ended, in real clusters."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.interop.kafka_pair import KafkaPair
from tests.interop.mirrormaker import mirrormaker
from tests.interop.test_mirror import numbers, once, records
from tests.support.mirrors import count, make_topic, produce


def test_a_mirror_goes_on_where_a_mirrormaker_2_ended(pair: KafkaPair, tmp_path: Path) -> None:
    """Nothing is lost, and as that one ended in order, nothing comes twice; what it never saw comes from its start."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    make_topic(source, "taken-one", 3)
    produce(source, "taken-one", numbers(300))
    with mirrormaker(tmp_path, source, target, "taken-(one|two)") as maker:
        maker.wait_copied("taken-one", 300)
    produce(source, "taken-one", numbers(500, 300))
    make_topic(source, "taken-two")
    produce(source, "taken-two", numbers(10))
    said = once(tmp_path, source, target, "taken-(one|two)", "--from", "mm2", "--prefix", "source.")
    assert "3 where another mirror has ended" in said
    for topic in ("taken-one", "taken-two"):
        assert records(target, f"source.{topic}") == records(source, topic)
    once(tmp_path, source, target, "taken-(one|two)", "--from", "mm2", "--prefix", "source.")
    assert count(target, "source.taken-one") == 500


def test_a_mirror_goes_on_where_the_group_of_a_mirrormaker_1_ended(pair: KafkaPair, tmp_path: Path) -> None:
    """That one has committed at the source; what it has not committed, and partitions that it never saw, come."""
    source, target = pair.source.bootstrap, pair.target.bootstrap
    topic = make_topic(source, "taken-first", 2)
    for partition in range(2):
        produce(source, topic, numbers(20), partition=partition)
    consumer = Consumer({"bootstrap.servers": source, "group.id": f"mirror-{tmp_path.name}"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 12)], asynchronous=False)
    consumer.close()
    said = once(tmp_path, source, target, topic, "--from", "mm1")
    assert "1 where another mirror has ended" in said
    there, here = records(source, topic), records(target, topic)
    assert here == {0: there[0][12:], 1: there[1]}
    produce(source, topic, numbers(25, 20), partition=0)
    once(tmp_path, source, target, topic, "--from", "mm1")
    assert records(target, topic)[0] == records(source, topic)[0][12:]
