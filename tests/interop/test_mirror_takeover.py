"""`fairlead mirror` goes on where a real MirrorMaker 2 has ended."""

from __future__ import annotations

from pathlib import Path

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
