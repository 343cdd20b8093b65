"""`retention.ms` and `retention.bytes` as a client sees them."""

from __future__ import annotations

import pytest
from tests.broker.handlers.asking import asking
from tests.support.batches import produced_to
from tests.support.waiting import in_time, until

from fairlead.protocol.batch import build_batch

INCREMENTAL = 44


@pytest.mark.parametrize(("setting", "left"), [("retention.ms", 0), ("retention.bytes", 1)])
async def test_records_expire_while_the_server_runs(setting: str, left: int) -> None:
    """By age all, by bytes those before the last that are needed; another topic of the stream keeps what it has. Who
    waits at the partition is woken."""
    async with asking(merge_interval_seconds=0.02, topic_expiry_interval_seconds=0.02) as asker:
        stream = asker.cluster.stream("/default")
        await stream.create_topic("b", 1)
        places = [stream.topic(name) for name in ("a", "b")]
        for shard, topic in places:
            for _ in range(3):
                await produced_to(shard, topic.number, 0, build_batch([(b"k", bytes(100))]))
        shard, topic = places[0]
        watch = shard.watch(topic.number, 0)
        configs = [{"name": setting, "config_operation": 0, "value": "1"}]
        resource = {"resource_type": 2, "resource_name": "a", "configs": configs}
        answer = await asker.ask(INCREMENTAL, 1, resources=[resource], validate_only=False)
        assert answer.responses[0].error_code == 0
        async with in_time():
            await watch.wait()
        watch.close()
        await until(lambda: shard.state.partition(topic.number, 0).start == 3 - left)
        kept_shard, kept = places[1]
        assert kept_shard.state.partition(kept.number, 0).start == 0
