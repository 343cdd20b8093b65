"""The ends of transactions whose records came from a Kafka cluster without them.

Kafka gives readers of committed records those of a transaction only once it is known to be committed, and its marker
may lie behind records of others that are not. So whoever takes the topic over knows how each transaction ended of which
it has records, and says so where Kafka's marker would stand; else readers of committed records would wait for ever.
"""

from __future__ import annotations

import struct
from typing import Final

from fairlead.protocol.batch import CONTROL, TRANSACTIONAL, build_batch, read_header
from fairlead.streamlog.rows import ATTRIBUTES_MASK
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft

_COMMIT: Final = struct.pack(">hh", 0, 1)
"""Key of a control record: its version, and what it says."""
_BY_NO_COORDINATOR: Final = struct.pack(">hi", 0, 0)
"""Its value: a version, and the epoch of the coordinator that has written it."""


def end_transactions(draft: Draft, topic: Topic) -> None:
    """Commit the transactions that are open in a topic which is this stream's from now on.

    Raises:
        StorageFull
    """
    for partition in range(topic.partitions):
        for producer_id, _ in draft.state.transactions(topic.number, partition).open:
            _commit(draft, topic, partition, producer_id)


def _commit(draft: Draft, topic: Topic, partition: int, producer_id: int) -> None:
    at = draft.state.partition(topic.number, partition).end
    producer = draft.state.producer(topic.number, partition, producer_id)
    batch = build_batch(
        [(_COMMIT, _BY_NO_COORDINATOR)],
        base_offset=at,
        leader_epoch=topic.epoch,
        timestamp_ms=draft.now_ms,
        producer_id=producer_id,
        producer_epoch=0 if producer is None else producer.epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )
    header = read_header(batch)
    numbers = (topic.number, partition, at, at, topic.epoch)
    draft.add_batch(
        *(*numbers, draft.stream_id, None, header.max_timestamp, batch),
        records=header.record_count,
        bits=header.attributes & ATTRIBUTES_MASK,
        crc=header.crc,
    )
