"""Kafka's topics become topics of a replica stream: each by a TOPIC row as if a link had brought it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.kafka import ConfigValue, TopicMetadata
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.frames.frame import Frame, FrameTopic, Repair
from fairlead.streamlog.payloads import TopicDeletedPayload, TopicPayload
from fairlead.streamlog.rows import NO_COMMIT, NO_EPOCH, NO_OFFSET, Kind, Row
from fairlead.streamlog.state import effects
from fairlead.streamlog.values import GrantRun, Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

_NUMBER: Final = 16
_NO_RUN: Final = GrantRun(0, 0)
_OF_KAFKA_S_BROKERS: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
"""Settings that say nothing of the records."""


def payload_of(
    upstream: KafkaUpstream, topic: TopicMetadata, configs: Mapping[str, str], known: Topic | None = None
) -> TopicPayload:
    """A Kafka topic as the rows of the replica describe it, where it is `known` by an earlier one."""
    if known is not None:
        partitions = max(known.partitions, len(topic.partitions))
        newer = known._replace(partitions=partitions, configs=configs, version=known.version + 1)
        return replace(effects.payload_of(newer), name=topic.name)
    return TopicPayload(
        name=topic.name,
        incarnation=topic.topic_id,
        partitions=len(topic.partitions),
        owner=upstream.source,
        epoch=0,
        version=0,
        configs=configs,
        home=topic.name,
        owner_at=str(upstream.path),
    )


def own_configs(found: Mapping[str, ConfigValue]) -> dict[str, str]:
    """The settings that were made on a topic itself, as far as they are of its records."""
    return {
        name: each.value
        for name, each in sorted(found.items())
        if each.own and each.value is not None and not each.sensitive and name not in _OF_KAFKA_S_BROKERS
    }


async def put_topic(stream: Stream, upstream: KafkaUpstream, topic: TopicMetadata, configs: Mapping[str, str]) -> None:
    """Bring a topic in line with Kafka's, if it is not: it is made, gets partitions or settings, or waits, noted, for
    its name. A topic that has another owner by now, or was deleted here, stays as it is.

    Raises:
        FairleadError: the log takes nothing.
    """
    found = stream.by_incarnation(topic.topic_id)
    known = None if found is None else found[1]
    if known is not None and (known.owner != upstream.source or _is_as(known, topic, configs)):
        return
    with stream.placing(upstream.link) as place_of:
        shard = stream.shards[place_of(topic.topic_id, topic.name)]
        if shard.state.tombstone(topic.topic_id) is not None:
            return
        payload = payload_of(upstream, topic, configs, known)
        await _apply(stream, shard, upstream, topic.topic_id, topic.name, Kind.TOPIC, payloads.encode(payload))


def _is_as(known: Topic, topic: TopicMetadata, configs: Mapping[str, str]) -> bool:
    return known.partitions >= len(topic.partitions) and dict(known.configs) == dict(configs)


async def delete_topic(stream: Stream, upstream: KafkaUpstream, known: Topic) -> None:
    """Delete a topic that Kafka has no more. Raises: as `put_topic`."""
    found = stream.by_incarnation(known.incarnation)
    if found is not None:
        payload = payloads.encode(TopicDeletedPayload(known.name, known.incarnation, epoch=known.epoch))
        await _apply(stream, found[0], upstream, known.incarnation, known.name, Kind.TOPIC_DELETED, payload)


async def _apply(
    stream: Stream, shard: Shard, upstream: KafkaUpstream, incarnation: bytes, name: str, kind: Kind, payload: bytes
) -> None:
    """Apply one row that speaks of a topic."""
    frame = frame_of(upstream, FrameTopic(incarnation, name), kind, payload)
    admission = replace(admission_of(stream, upstream), falls_here=stream.falls_into(shard))

    def request(draft: Draft) -> None:
        apply_frame(draft, frame, admission)

    await shard.submit(request)


def frame_of(upstream: KafkaUpstream, topic: FrameTopic, kind: Kind, payload: bytes) -> Frame:
    """A frame of one row that speaks of a topic. It comes as a repair does: it moves no position."""
    return Frame(
        link=upstream.link,
        run=_NO_RUN,
        source=upstream.source,
        shard=0,
        slices=1,
        from_commit=0,
        to_commit=1,
        epoch_id=bytes(16),
        topics={_NUMBER: topic},
        rows=[_control_row(kind, payload)],
        repair=Repair(_NUMBER, 0, 1, last=False),
    )


def admission_of(stream: Stream, upstream: KafkaUpstream) -> Admission:
    """A Kafka cluster speaks for itself alone."""
    return Admission(frozenset({upstream.source}))


def _control_row(kind: Kind, payload: bytes) -> Row:
    return Row(
        kind=int(kind),
        topic=_NUMBER,
        partition=0,
        base_offset=NO_OFFSET,
        last_offset=NO_OFFSET,
        epoch=NO_EPOCH,
        previous_end=NO_OFFSET,
        previous_epoch=NO_EPOCH,
        origin=None,
        via=None,
        via_commit=NO_COMMIT,
        appended_at=0,
        max_timestamp=-1,
        records=0,
        bits=0,
        crc=0,
        commit=0,
        row=0,
        batch=payload,
    )
