"""What `stream replica list` and `copystream status` show of a link: the original's fields, and ours after them.

`replicaState` takes the original's names:

    REPLICA_STATE_CREATE_SCHEDULE    the replica was not reached yet, or has not agreed
    REPLICA_STATE_COPY_SCHEDULE      it waits for a reader (is a replicator running?)
    REPLICA_STATE_COPY_IN_PROGRESS   what existed is being copied for the first time
    REPLICA_STATE_COPY_IN_RECOVER    a copy goes on after a break, or the destination does not answer during one
    REPLICA_STATE_REPLICATING        caught up once; new records follow
    REPLICA_STATE_UNEXPECTED         stopped; `errors` says which command goes on
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.cluster.stream import Stream
from fairlead.gateway.links.errors import shown_code
from fairlead.gateway.links.grants.grant_table import SPLIT_BYTES
from fairlead.gateway.links.health.cures import cure
from fairlead.gateway.links.replicator_life import Ailment, ReplicatorNow
from fairlead.gateway.links.running.backlog import Backlog, backlog, has_begun
from fairlead.gateway.links.running.lifecycle import State
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.model.names import StreamPath
from fairlead.streamlog.values import DELETED_HERE, NAME_HELD, NO_NAME_HERE
from fairlead.wire.neighbours import BehindPartition, DeletedTopic, GapRange, LinkAnswer

SHOWN_MAX = 100
"""Partitions behind, gaps and conflicts listed one by one; the counts are whole."""


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One link of a stream, as `replica list` shows it, or one copy."""

    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def row(self) -> dict[str, Any]:
        """All of it."""
        return dict(self.values)


def status(
    link: RunningLink,
    stream: Stream,
    index: int,
    *,
    side: RunningLink | None = None,
    granted: bool,
    source: StreamPath,
    ailment: Ailment | None,
    replicator: ReplicatorNow,
    cursors_ms: int,
    now_ms: int,
) -> ReplicaStatus:
    """The row of one link; `index` counts from 1. `side`: its side copy, if topics come in. `granted`: a reader holds
    some of it. `cursors_ms`: how old the oldest cursor is that has not arrived."""
    left = backlog(link, stream)
    link.note_caught_up()
    state = state_of(link, granted=granted)
    return ReplicaStatus(
        {
            **_original(link, stream, left, state, index),
            **_ours(link, stream),
            "comingIn": {} if side is None else _coming_in(link, side, stream),
            "oldestPendingSeconds": max(now_ms - left.oldest_ms, 0) // 1000 if left.records else 0,
            "cursorsPendingSeconds": cursors_ms // 1000,
            "replicator": replicator.row(),
            "errors": {} if ailment is None else errors_of(link, ailment, source, now_ms),
        }
    )


def state_of(link: RunningLink, *, granted: bool) -> str:
    """The original's name for what the link is doing."""
    return f"REPLICA_STATE_{_state(link, granted=granted)}"


def _state(link: RunningLink, *, granted: bool) -> str:
    if link.state is State.STOPPED:
        return "UNEXPECTED"
    if link.answer is None:
        return "CREATE_SCHEDULE"
    if not _copying(link):
        return "REPLICATING"
    if not link.state.ready or not link.began_empty:
        return "COPY_IN_RECOVER"
    return "COPY_IN_PROGRESS" if granted else "COPY_SCHEDULE"


def _copying(link: RunningLink) -> bool:
    """The first copy is not over, or what was left when this server started is as large as one."""
    return link.copy_bytes is not None and (link.began_empty or link.copy_bytes > SPLIT_BYTES)


def percentage(link: RunningLink, left: Backlog) -> int:
    """How much of the copy is done, 0 to 100."""
    if link.answer is None:
        return 0
    if link.copy_bytes is None or left.records == 0:
        return 100
    return min(max(0, 100 - 100 * left.size_bytes // max(link.copy_bytes, 1)), 99)


def _original(link: RunningLink, stream: Stream, left: Backlog, state: str, index: int) -> dict[str, Any]:
    replica = link.record.replica_path
    return {
        "cluster": replica.cluster,
        "stream": replica.path,
        "type": "FairleadStream",
        "replicaPath": str(replica),
        "replicaState": state,
        "paused": link.record.paused,
        "throttle": False,
        "idx": index,
        "networkencryption": False,
        "synchronous": False,
        "networkcompression": "off",
        "propagateExistingData": not link.record.begin,
        "isUptodate": _is_up_to_date(link, stream, left),
        "minPendingTS": left.oldest_ms,
        "maxPendingTS": left.newest_ms,
        "bytesPending": left.size_bytes,
        "putsPending": left.records,
        "bucketsPending": left.slices,
        "uuid": str(uuid.UUID(bytes=link.record.id)),
        "copyTableCompletionPercentage": percentage(link, left),
    }


def _is_up_to_date(link: RunningLink, stream: Stream, left: Backlog) -> bool:
    if link.answer is None or link.record.filter_next is not None:
        return False
    return left.records == 0 and _behind_total(link, stream) == link.not_sent and has_begun(link, stream)


def _ours(link: RunningLink, stream: Stream) -> dict[str, Any]:
    answer, deleted = link.answer, link.deleted_there(stream)
    return {
        "replicaUrls": list(link.record.replica_urls),
        "from": "now" if link.record.begin else "beginning",
        "forward": link.record.forward,
        "acceptWrites": link.record.accept_writes,
        "topics": link.record.topics or "",
        "excludeTopics": link.record.exclude_topics or "",
        "cursors": link.record.told_groups,
        "prefix": link.record.prefix,
        "recordsCopied": link.counts.records,
        "bytesCopied": link.counts.size_bytes,
        "bytesPerSecond": link.rate.bytes_per_second,
        "duplicates": link.counts.duplicates,
        "positions": _positions(link, stream),
        "partitionsBehind": _behind_total(link, stream) - link.not_sent,
        "conflicts": link.conflicts + len(deleted),
        "unconfirmedOwner": sum(1 for _ in link.unconfirmed(stream)),
        "superseded": 0 if answer is None else answer.superseded_records,
        "behind": [] if answer is None else _all_behind(link, answer, deleted)[:SHOWN_MAX],
        "gapsTotal": 0 if answer is None else answer.gaps_total,
        "gaps": [] if answer is None else [_gap(each) for each in answer.gaps[:SHOWN_MAX]],
    }


def _coming_in(link: RunningLink, side: RunningLink, stream: Stream) -> dict[str, Any]:
    """What the link leaves out once the past of the topics that come in is there, and how much of it is. What is
    pending is of all topics; those that do not come in are only looked at."""
    left, following = backlog(side, stream), link.record.filter_next
    side.note_caught_up()
    return {
        "topics": "" if following is None else following.topics or "",
        "excludeTopics": "" if following is None else following.exclude_topics or "",
        "percentage": percentage(side, left),
        "recordsCopied": side.counts.records,
        "bytesCopied": side.counts.size_bytes,
        "bytesPending": left.size_bytes,
        "partitionsBehind": side.behind,
        "conflicts": side.conflicts,
    }


def _all_behind(link: RunningLink, answer: LinkAnswer, deleted: Sequence[DeletedTopic]) -> list[dict[str, Any]]:
    return [*_deleted(link, deleted), *(_behind(link, each) for each in answer.behind)]


def _behind_total(link: RunningLink, stream: Stream) -> int:
    return 0 if link.answer is None else link.answer.behind_total + len(link.deleted_there(stream))


def _deleted(link: RunningLink, topics: Sequence[DeletedTopic]) -> Iterator[dict[str, Any]]:
    """Topics that were deleted there, and the command that takes them again."""
    for each in topics:
        command = f"fairlead stream topic resolve -path {link.record.replica_path} -topic {each.topic} -take source"
        reason = f"{DELETED_HERE}; to take it again from its source run: {command}"
        yield {"topic": each.topic, "partition": 0, "offset": 0, "reason": reason}


def _positions(link: RunningLink, stream: Stream) -> list[dict[str, int]]:
    return [
        {
            "shard": number,
            "end": shard.announced.end,
            "lowest": min(link.positions.effective_of(number).values()),
            "highest": max(link.positions.effective_of(number).values()),
        }
        for number, shard in enumerate(stream.shards)
    ]


def _behind(link: RunningLink, each: BehindPartition) -> dict[str, Any]:
    reason = each.reason
    if reason.startswith((NAME_HELD, NO_NAME_HERE)):
        there = f"fairlead stream topic resolve -path {link.record.replica_path} -topic {each.topic} -as NAME"
        reason += f"; to have it there under another name run: {there}; its owner can -rename it everywhere"
    return {"topic": each.topic, "partition": each.partition, "offset": each.end, "reason": reason}


def _gap(each: GapRange) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "start": each.start,
        "end": each.end,
        "reason": each.reason,
    }


def errors_of(link: RunningLink, ailment: Ailment, source: StreamPath, now_ms: int) -> dict[str, Any]:
    """What is wrong with a link: the original's fields, then which command mends it, and since when."""
    return {
        "Code": shown_code(ailment.error),
        "Host": ",".join(link.record.replica_urls),
        "Msg": str(ailment.error),
        "Command": cure(ailment.error, source, link.record),
        "Since": ailment.since_ms,
        "Seconds": max(now_ms - ailment.since_ms, 0) // 1000,
    }
