"""What `replica list` shows of a Kafka cluster whose topics a stream keeps: as of a link, and what is Kafka's."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.gateway.apply.agreement import stand
from fairlead.gateway.from_kafka.upstream import RunningUpstream
from fairlead.gateway.links.replicator_life import Ailment, ReplicatorNow
from fairlead.model.envelope import code_of
from fairlead.model.errors import FairleadError, NotAllowed, TryAgain
from fairlead.streamlog.values import NAME_HELD, NO_NAME_HERE
from fairlead.wire.neighbours import BehindPartition

SHOWN_MAX: Final = 100
"""Partitions that are listed one by one; the counts are whole."""


def ailment_of(running: RunningUpstream, replicator: Ailment | None) -> Ailment | None:
    """What keeps it from going on, if anything does."""
    if running.record.paused:
        return None
    if running.error is not None:
        return Ailment(running.error, running.since_ms)
    if running.waits_for:
        return Ailment(TryAgain(running.waits_for), running.since_ms)
    if replicator is not None:
        return replicator
    alarms = [each["reason"] for each in alarms_of(running)]
    why = alarms[0] if alarms else running.known.groups_unread
    return Ailment(NotAllowed(why), running.since_ms) if why else None


def alarms_of(running: RunningUpstream) -> list[dict[str, Any]]:
    """Partitions that have stopped, and topics that Kafka has no more."""
    stream = running.stream
    found: list[dict[str, Any]] = []
    for (topic_id, partition), why in running.known.stopped.items():
        topic = running.known.topics.get(topic_id)
        name = topic_id.hex() if topic is None else topic.name
        found.append({"topic": name, "partition": partition, "reason": f"topic {name}, partition {partition}: {why}"})
    for topic_id in running.known.gone:
        known = None if stream is None else stream.by_incarnation(topic_id)
        if known is not None:
            name = known[1].name
            reason = f"topic {name}: Kafka has it no more; it is kept here (-deletes follow deletes it)"
            found.append({"topic": name, "partition": -1, "reason": reason})
    return found


def row(
    running: RunningUpstream,
    cluster: Cluster,
    stream: Stream,
    index: int,
    replicator: ReplicatorNow,
    ailing: Ailment | None,
) -> dict[str, Any]:
    """The row of one; `index` counts from 1."""
    record, heard = running.record, running.heard_ago_ms
    answer = stand(cluster, stream, record.link)
    left, ailment = running.lag, ailment_of(running, ailing)
    is_stopped = bool(running.known.stopped or running.known.silent) or answer.conflicts_total > 0
    alarms = alarms_of(running)
    replica = cluster.global_path(stream.path)
    now_ms = cluster.clock.wall_ms()
    return {
        "cluster": replica.cluster,
        "stream": replica.path,
        "type": "Kafka",
        "source": str(record.path),
        "kafkaCluster": record.kafka_cluster,
        "replicaPath": str(replica),
        "replicaState": f"REPLICA_STATE_{_state(running, left)}",
        "paused": record.paused,
        "idx": index,
        "isUptodate": heard is not None and not left and not is_stopped,
        "putsPending": left,
        "uuid": str(uuid.UUID(bytes=record.link)),
        "copyTableCompletionPercentage": _percentage(running, left),
        "configFile": record.config_file,
        "topics": record.topics,
        "excludeTopics": record.exclude_topics or "",
        "cursors": record.cursors,
        "deletes": record.deletes,
        "topicsKept": len({topic_id for topic_id, _ in running.known.ends}),
        "partitionsKept": len(running.known.ends),
        "recordsCopied": running.counts.records,
        "bytesCopied": running.counts.size_bytes,
        "duplicates": running.counts.duplicates,
        "cursorsCopied": running.counts.cursors,
        "groupsUnread": len(running.known.unread),
        "heardSeconds": None if heard is None else heard // 1000,
        "partitionsBehind": answer.behind_total,
        "conflicts": answer.conflicts_total,
        "behind": [_behind(each, replica) for each in answer.behind[:SHOWN_MAX]],
        "stopped": alarms[:SHOWN_MAX],
        "stoppedTotal": len(alarms),
        "divergedTopics": list(running.known.diverged[:SHOWN_MAX]),
        "divergedTotal": len(running.known.diverged),
        "gapsTotal": answer.gaps_total,
        "gaps": [[each.topic, each.partition, each.start, each.end, each.reason] for each in answer.gaps[:SHOWN_MAX]],
        "replicator": replicator.row(),
        "errors": {} if ailment is None else _errors(ailment, now_ms),
    }


def _state(running: RunningUpstream, left: int) -> str:
    if running.known.heard_ms is None:
        return "CREATE_SCHEDULE"
    if running.reached_end or not left:
        return "REPLICATING"
    return "COPY_IN_PROGRESS"


def _percentage(running: RunningUpstream, left: int) -> int:
    if running.known.heard_ms is None:
        return 0
    total = sum(running.known.ends.values())
    return 100 if not left or running.reached_end else min(100 - 100 * left // max(total, 1), 99)


def _behind(each: BehindPartition, replica: object) -> dict[str, Any]:
    reason = each.reason
    if reason.startswith((NAME_HELD, NO_NAME_HERE)):
        command = f"fairlead stream topic resolve -path {replica} -topic {each.topic} -as NAME"
        reason += f"; to have it here under another name run: {command}"
    return {"topic": each.topic, "partition": each.partition, "offset": each.end, "reason": reason}


def _errors(ailment: Ailment, now_ms: int) -> dict[str, Any]:
    error: FairleadError = ailment.error
    return {
        "Code": code_of(error),
        "Host": "",
        "Msg": str(error),
        "Command": "",
        "Since": ailment.since_ms,
        "Seconds": max(now_ms - ailment.since_ms, 0) // 1000,
    }


def upstream_row(running: RunningUpstream) -> Mapping[str, Any]:
    """As `upstream list` shows it."""
    record = running.record
    return {
        "upstream": str(record.path),
        "streamid": record.source.hex(),
        "peer": "kafka",
        "origins": [],
        "ownership": False,
        "multimaster": False,
    }


def rows_of(found: Sequence[RunningUpstream]) -> list[Mapping[str, Any]]:
    """Of all of a stream."""
    return [upstream_row(each) for each in found]
