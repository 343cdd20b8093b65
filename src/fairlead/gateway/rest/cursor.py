"""`stream cursor list` and `delete`. A committed offset is the next record to read, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.client.command import Given
from fairlead.cluster.stream import Stream
from fairlead.gateway.rest.context import Handler, RestContext, Rows
from fairlead.gateway.rest.long_json import in_turns
from fairlead.model.errors import InvalidValue, UnknownGroup
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.values import Topic


async def list_cursors(context: RestContext, given: Given) -> Rows:
    stream = _chosen_stream(context, given)
    now_ms = context.cluster.clock.wall_ms()
    rows = [_row(context, stream, *found, now_ms=now_ms) async for found in in_turns(_chosen(stream, given))]
    return sorted(rows, key=lambda row: (row["consumergroup"], row["topic"], row["partitionid"]))


async def delete(context: RestContext, given: Given) -> Rows:
    stream = _chosen_stream(context, given)
    count = await stream.delete_cursors(given["consumergroup"], given["topic"], given["partition"])
    if count == 0 and given["consumergroup"] is not None:
        raise UnknownGroup(f"consumer group {given['consumergroup']} has no such cursor in {stream.path}")
    return [{"deleted": count}]


async def adopt(context: RestContext, given: Given) -> Rows:
    stream = _chosen_stream(context, given)
    return [{"adopted": await stream.adopt_cursors(given["consumergroup"], given["topic"], given["partition"])}]


def _chosen_stream(context: RestContext, given: Given) -> Stream:
    stream = context.stream(given)
    if given["partition"] is not None and given["topic"] is None:
        raise InvalidValue("-partition needs -topic")
    if given["topic"] is not None:
        stream.topic(given["topic"])
    return stream


def _chosen(stream: Stream, given: Given) -> Iterator[tuple[str, Topic, int, Cursor]]:
    for group, topic, partition, cursor in stream.cursors(given["consumergroup"]):
        if given["topic"] in {None, topic.name} and given["partition"] in {None, partition}:
            yield group, topic, partition, cursor


def _row(
    context: RestContext, stream: Stream, group: str, topic: Topic, partition: int, cursor: Cursor, *, now_ms: int
) -> dict[str, Any]:
    state = stream.shard_for(topic.name).state.partition(topic.number, partition)
    behind = state.end > cursor.offset
    return {
        "consumergroup": group,
        "topic": topic.name,
        "partitionid": partition,
        "committedoffset": cursor.offset,
        "produceroffset": state.end - 1,
        "consumerlag": max(0, state.end - cursor.offset),
        "consumerlagmillis": now_ms - cursor.committed_at if behind else 0,
        "consumertimestamp": cursor.committed_at,
        "topicepoch": cursor.leader_epoch,
        "metadata": cursor.metadata,
        "committedin": committed_in(context, stream, cursor),
        "apart": cursor.apart,
    }


def committed_in(context: RestContext, stream: Stream, cursor: Cursor) -> str:
    """Where the cursor was committed: a global path, or an id where no link and no upstream says more."""
    if cursor.origin == stream.id:
        return stream.global_path
    kafka = next((each for each in context.cluster.kafka.of(stream.id) if each.source == cursor.origin), None)
    path = context.cluster.links.path_of(stream.id, cursor.origin) if kafka is None else str(kafka.path)
    return path or f"the stream with id {cursor.origin.hex()}"


HANDLERS: dict[str, Handler] = {
    "/rest/stream/cursor/list": list_cursors,
    "/rest/stream/cursor/delete": delete,
    "/rest/stream/cursor/adopt": adopt,
}
