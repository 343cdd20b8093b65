"""Records that a claim appended: their batches have a producer id below -1 (decision 0044). No client minds."""

from __future__ import annotations

from uuid import UUID, uuid5

from fairlead.gateway.claims import claiming_of
from fairlead.streamlog.requests.cuts import cut
from tests.interop.clients.base import CODECS, Client
from tests.interop.clients.confluent_client import Confluent
from tests.interop.site import Site
from tests.interop.test_behaviours import messages, stored

EPOCH = 9


def claimed(site: Site, topic: str) -> str:
    """Cut off all that a topic has, and claim what was cut off; answers the diverged topic's name."""
    shard, found = site.stream.topic(topic)
    keep = uuid5(UUID(bytes=found.incarnation), f"0 {EPOCH}").bytes

    async def cut_and_copy() -> None:
        await shard.submit(lambda draft: cut(draft, found.number, 0, 0, "takeover", EPOCH, keep))
        assert shard.copy_tails is not None
        await shard.copy_tails()

    site.broker.call(cut_and_copy())
    diverged = f"{topic}.diverged.site.0"
    claiming = claiming_of(site.stream, site.stream.topic(diverged)[1])
    site.broker.call(claiming.run(lambda: True))
    return diverged


def test_it_reads_what_was_claimed(client: Client, confluent: Confluent, site: Site, topic: str) -> None:
    """All of it, of every codec and of an idempotent producer, and what is written after it."""
    for name in CODECS:
        confluent.produce(site, topic, messages(20), name, idempotent=True)
    before = stored(site, topic)
    diverged = claimed(site, topic)
    confluent.produce(site, topic, messages(20))
    assert min(batch.producer_id for batch in site.headers(topic)) < -1
    assert stored(site, diverged) == before
    found = client.read(site, topic, len(before) + 20)
    assert [(each.key, each.value) for each in found[: len(before)]] == [(each.key, each.value) for each in before]
    assert found == stored(site, topic)
