"""The topic that a request means, and whether the client and this copy agree on its epoch."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest
from fairlead.broker.topics.topics import Found, ListenerView
from fairlead.model.errors import NotFound


def find_topic(listener: ListenerView, name: str | None, topic_id: bytes | None) -> Found:
    """The topic that a request names, by name or, in newer versions, by id.

    Raises:
        InvalidName, UnknownStream, UnknownTopic; Refused with UNKNOWN_TOPIC_ID.
    """
    if name is not None:
        return listener.find(name)
    try:
        return listener.find_id(topic_id or b"")
    except NotFound as error:
        raise RefusedRequest(ErrorCode.unknown_topic_id, str(error)) from error


def check_epoch(found: Found, partition: int, asked: int) -> None:
    """Compare the leader epoch that a client knows with that of now; -1 is not compared (KIP-320). The topic may have
    another one since it was found, and then other records may stand where the client waits.

    Raises:
        Refused: FENCED_LEADER_EPOCH, the client must ask for metadata; UNKNOWN_LEADER_EPOCH, it knows more than this
            copy, which will hear of it.
    """
    if asked < 0:
        return
    epoch = found.shard.state.topic_table.leader_epoch(found.topic.number, partition)
    if asked != epoch:
        code = ErrorCode.fenced_leader_epoch if asked < epoch else ErrorCode.unknown_leader_epoch
        raise RefusedRequest(code, f"topic {found.topic.name}, partition {partition} has epoch {epoch}, not {asked}")
