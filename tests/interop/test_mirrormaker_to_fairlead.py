"""A real MirrorMaker 2 copies from Apache Kafka to this broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from tests.interop.kafka_pair import KafkaPair
from tests.interop.mirrormaker import mirrormaker
from tests.interop.site import Site
from tests.interop.test_mirror import numbers, records
from tests.interop.test_mirror_following import change, own_settings
from tests.support.mirrors import make_topic, produce
from tests.support.waiting import wait_until

SETTINGS: dict[str, Any] = {"retention.ms": "3600000", "cleanup.policy": "compact,delete", "segment.bytes": "52428800"}


def test_mirrormaker_2_brings_a_topic_with_its_settings_and_its_records(
    pair: KafkaPair, site: Site, tmp_path: Path
) -> None:
    """What the source's topic has of its own, and nothing else, is shown as the copy's own; a change of it follows."""
    source, target = pair.source.bootstrap, site.main
    make_topic(source, "settled", 3, **SETTINGS)
    produce(source, "settled", numbers(300))
    here, there = AdminClient({"bootstrap.servers": target}), AdminClient({"bootstrap.servers": source})
    with mirrormaker(tmp_path, source, target, "settled", sync_topic_configs_interval_seconds=1) as maker:
        maker.wait_copied("settled", 300)
        assert own_settings(here, "source.settled") == SETTINGS
        assert records(target, "source.settled") == records(source, "settled")
        change(there, "settled", "retention.ms", "7200000")
        changed = SETTINGS | {"retention.ms": "7200000"}
        wait_until(lambda: own_settings(here, "source.settled") == changed, "the change follows", every_seconds=0.2)
        maker.check()
