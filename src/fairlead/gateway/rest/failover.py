"""`stream failover preview`: where a group would go on at this site, if it came here now."""

from __future__ import annotations

from typing import Any

from fairlead.client.command import Given
from fairlead.cluster.stream import Stream
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.gateway.rest.cursor import committed_in
from fairlead.gateway.rest.long_json import in_turns
from fairlead.model.errors import UnknownGroup
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.values import Topic


async def preview(context: RestContext, given: Given) -> Rows:
    stream, group = context.stream(given), given["group"]
    now_ms = context.cluster.clock.wall_ms()
    found = [each async for each in in_turns(stream.committed(group))]
    if not found:
        raise UnknownGroup(f"consumer group {group} has committed nothing that has come to {stream.path}")
    rows = [_row(context, stream, topic, partition, cursor, now_ms) for topic, partition, cursor in found]
    return sorted(rows, key=lambda row: (row["topic"], row["partitionid"]))


def _row(
    context: RestContext, stream: Stream, topic: Topic, partition: int, cursor: Cursor, now_ms: int
) -> dict[str, Any]:
    state = stream.shard_for(topic.name).state.partition(topic.number, partition)
    told = cursor.served(state, topic.epoch, stream.id)
    return {
        "topic": topic.name,
        "partitionid": partition,
        "committedoffset": cursor.offset,
        "committedin": committed_in(context, stream, cursor),
        "commitageseconds": max(0, now_ms - cursor.committed_at) // 1000,
        "goesonat": told.offset,
        "skips": max(0, state.log_start - told.offset),
        "readsagain": max(0, cursor.offset - told.offset),
        "produceroffset": state.end - 1,
        "apart": cursor.apart,
    }


HANDLERS: dict[str, Handler] = {"/rest/stream/failover/preview": preview}
