"""A stream keeps topics of Kafka under load while everything around it fails: Kafka's nodes, the server, what carries,
the wires between them.

`FAIRLEAD_TEST_ROUNDS=20` (`make crash`) takes a cluster of three nodes of Apache Kafka, and so many harms in an order
by chance, each of them at least once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.mirrors.ends import kafka_end
from tests.crash.mirrors.harms import ALL, by_chance
from tests.crash.mirrors.keeping import Keeping
from tests.support.carrier import CarriedSite
from tests.support.rounds import rounds, seed
from tests.support.wires import Wires

pytestmark = pytest.mark.crash

ROUNDS = rounds(0)
SEED = seed(14)
NODES = 3 if ROUNDS else 1
AWAY_SECONDS = 60.0 if ROUNDS else 2.0


@pytest.mark.timeout(900)  # it takes minutes where others work beside it
def test_a_stream_has_what_kafka_has_whatever_fails(tmp_path: Path) -> None:
    """Byte for byte, at Kafka's offsets: none lost, none doubled, whatever is killed, cut, slow or new."""
    site = CarriedSite("keeper", tmp_path)
    with Wires() as wires, kafka_end(tmp_path, "kafka", NODES, wires) as source:
        try:
            site.start()
            story = Keeping(tmp_path / "kept", source, site, SEED, away_seconds=AWAY_SECONDS)
            story.tell(by_chance(SEED, ROUNDS) if ROUNDS else ALL)
            story.check()
        finally:
            site.stop()
        assert site.cli("fsck", "--data", str(site.data)).returncode == 0
