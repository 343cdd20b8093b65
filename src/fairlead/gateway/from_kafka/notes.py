"""What is noted as missing of a Kafka cluster's topics: it is read again, but for what is in conflict."""

from __future__ import annotations

from functools import partial

from fairlead.cluster.stream import Stream
from fairlead.streamlog.payloads import BehindPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard


def is_set_aside(shard: Shard, link: bytes, incarnation: bytes, partition: int) -> bool:
    """Whether a partition is in conflict."""
    note = shard.state.note((link, incarnation, partition))
    return note is not None and note.behind.conflict


async def clear_notes(stream: Stream, link: bytes) -> None:
    """What is noted behind is read again, from where the log ends; what is in conflict stays."""
    for shard in stream.shards:
        if any(not note.behind.conflict for note in shard.state.notes(link).values()):
            await shard.submit(partial(_clear, link))


def _clear(link: bytes, draft: Draft) -> None:
    for note in draft.state.notes(link).values():
        at = note.behind
        if not at.conflict:
            cleared = BehindPayload(link, at.topic, at.incarnation, at.partition, 0, None, draft.now_ms)
            draft.add_control(Kind.BEHIND, cleared)
