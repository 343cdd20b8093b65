"""Whether topics of a Kafka cluster may be taken over: only once all that it has is here; of one of which no broker
answers, all that it is known to have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Final

from fairlead.cluster.stream import Stream
from fairlead.gateway.from_kafka.looks import Heard
from fairlead.gateway.from_kafka.upstream import RunningUpstream
from fairlead.gateway.from_kafka.upstreams import RunningUpstreams
from fairlead.streamlog.requests.diverged import parent_of
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard

_HINT: Final = "(-force takes it over all the same)"


async def obstacles(
    upstreams: RunningUpstreams, stream: Stream, topics: Sequence[Topic]
) -> Callable[[Shard, Topic], str]:
    """What says why one of these topics of Kafka clusters stays as it is, or nothing.

    Each cluster is asked once: one that is lost is waited for.
    """
    owners = {topic.owner for topic in topics if parent_of(topic) is None}
    running = {each.record.source: each for each in upstreams.of(stream.id) if each.record.source in owners}
    asked = {source: each for source, each in running.items() if not each.record.paused}
    answers = dict(zip(asked, await asyncio.gather(*(each.look_again() for each in asked.values())), strict=True))
    its = {source: [each for each in topics if each.owner == source] for source in asked}
    answering = [source for source, heard in answers.items() if heard is Heard.ALL]
    missed = await asyncio.gather(*(asked[source].missed(its[source]) for source in answering))
    return partial(_obstacle, running, answers, frozenset[bytes]().union(*missed))


def heard_ago_ms(upstreams: RunningUpstreams, stream: Stream, owner: bytes) -> int | None:
    """How long ago the Kafka cluster with that id as an owner has told all that it is asked."""
    return next((each.heard_ago_ms for each in upstreams.of(stream.id) if each.record.source == owner), None)


def _obstacle(
    running: Mapping[bytes, RunningUpstream],
    answers: Mapping[bytes, Heard],
    missed: Set[bytes],
    shard: Shard,
    topic: Topic,
) -> str:
    upstream = None if parent_of(topic) is not None else running.get(topic.owner)
    if upstream is None:  # of what Kafka has lost nothing is still to come either
        return ""
    path = upstream.record.path
    if topic.owner not in answers:
        return f"{path} is paused, so nobody knows what is still to come: resume it {_HINT}"
    notes = (shard.state.note((upstream.record.link, topic.incarnation, each)) for each in range(topic.partitions))
    conflict = next((note.behind for note in notes if note is not None and note.behind.conflict), None)
    if conflict is not None:
        return f"partition {conflict.partition} is set aside ({conflict.reason}) {_HINT}"
    why, unknown, heard = upstream.lacking(topic.incarnation), upstream.unknown(topic), answers[topic.owner]
    if heard is Heard.NOTHING:
        why = why or unknown
        return f"{why}; {path} does not answer, so a takeover goes on without that {_HINT}" if why else ""
    if heard is Heard.SOME:
        unknown = unknown or f"{path} answers, but has not told all in time ({upstream.error or 'it is still asked'})"
    if topic.incarnation in missed:
        unknown = f"{path} does not list it, and its brokers do not all say that it was deleted"
    if unknown and not why:
        return f"nobody knows what is still to come: {unknown} {_HINT}"
    return f"{why}; stop its producers and wait {_HINT}" if why else ""
