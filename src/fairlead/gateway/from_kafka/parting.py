"""What Kafka's log has no more, as after an unclean election, is cut off here too, and kept in a topic of its own.

Kafka writes no row that says from where its log goes on otherwise, so the replica's server writes one in its place: a
TOPIC row of a new topic epoch, with the offset and a fence (`ownership/histories.py`). It is applied as if a link had
brought it: what stands here from that offset on is cut, in the same commit, and copied into the diverged topic; every
site to which the stream goes on does the same by that row.

Always true: the offset is one below which Kafka says that it has the same epochs, and what Kafka has from there on is
of the fence or a later one. A partition of which that cannot be said, or whose leader is none of a later election,
stays as it is, stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import structlog

from fairlead.cluster.stream import Stream
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka.known import Known
from fairlead.gateway.from_kafka.topics import admission_of, frame_of
from fairlead.kafka import EARLIEST, TopicMetadata, TopicPartition
from fairlead.kafka import Cluster as Kafka
from fairlead.kafka.values import NO_NODE
from fairlead.model.errors import TryAgain
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.frames.frame import FrameTopic
from fairlead.streamlog.ownership.epochs import next_epoch
from fairlead.streamlog.ownership.histories import Beginning, beginning_of, fence_of
from fairlead.streamlog.parting import history_below
from fairlead.streamlog.payloads import History, TopicPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import PartitionState, Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

log = structlog.get_logger()

RETURNED = (
    "its log has records of an epoch from before those that are here from offset {at} on: a leader of before is back"
)
NOT_YET = "its leader does not know the epochs that are here"
UNSURE = "its log and what is here may part below offset {at}: here an epoch ends in a hole there"


class Parted(NamedTuple):
    """A partition whose log Kafka has otherwise."""

    at: int
    """Below it Kafka has the same."""
    stood: PartitionState
    """The partition here, as Kafka was asked about it."""


async def cut_all(
    kafka: Kafka,
    stream: Stream,
    upstream: KafkaUpstream,
    known: Known,
    owned: Mapping[bytes, tuple[Shard, Topic]],
    stop_reading: Callable[[], None],
) -> None:
    """Cut off what `known.parted` names, of the topics that Kafka owns; where that cannot be yet, it stays stopped, and
    where Kafka does not say it now, it is asked with the next look. What was read of a partition that is cut may be on
    its way still, and is refused then, by the fence.

    Raises:
        FairleadError: the log takes nothing; then it is done with the next look.
    """
    places = sorted(place for place in known.parted if place[0] in owned)
    asked = (parted_of(kafka, *owned[id], known.topics[id], partition) for id, partition in places)
    found: dict[bytes, dict[int, Parted]] = {}
    for (id, partition), each in zip(places, await asyncio.gather(*asked), strict=True):
        if isinstance(each, str):
            known.stopped[id, partition] = each
        elif each is not None:
            found.setdefault(id, {})[partition] = each
    if found:
        stop_reading()
    for id, its in found.items():
        shard, topic = owned[id]
        await shard.submit(partial(cut_off, stream, shard, upstream, topic, its))
        known.parted -= {(id, partition) for partition in its}


async def parted_of(
    kafka: Kafka, shard: Shard, topic: Topic, told: TopicMetadata, partition: int
) -> Parted | str | None:
    """Where a partition is to be cut, or why it is not; None: it is not to be cut, or Kafka does not say it now."""
    state = shard.state.partition(topic.number, partition)
    if state.epoch >= _elected(told, partition):  # no election has done it
        return None
    place = TopicPartition(told.name, partition)
    with suppress(TryAgain):
        at = await common_end(kafka, place, state.history, state.end)
        if at is not None and at < state.end:
            return await _why_not(kafka, place, shard, topic, Parted(at, state)) or Parted(at, state)
    return None


def _elected(told: TopicMetadata, partition: int) -> int:
    """The epoch of a partition's leader; -1: there is none that could be asked."""
    if partition >= len(told.partitions) or told.partitions[partition].leader == NO_NODE:
        return -1
    return told.partitions[partition].epoch


async def _why_not(kafka: Kafka, place: TopicPartition, shard: Shard, topic: Topic, parted: Parted) -> str:
    """Why a partition must not be cut there; empty if it may be.

    What Kafka has from there on may be of an epoch below the fence: a leader is back that had gone on in it. And where
    records before the epoch of the tail end in a hole here, nobody knows where in that hole the tail's log began.
    """
    at, state = parted
    epoch, end = await kafka.end_of_epoch(place, state.epoch)
    if epoch < 0:
        return NOT_YET
    if end > at:
        return RETURNED.format(at=at)
    if state.epoch_before(at) == state.epoch or at <= state.start:
        return ""
    stands = await shard.submit(lambda draft: draft.stored_at(topic.number, place.partition, at - 1) is not None)
    return "" if stands else UNSURE.format(at=at)


async def note_returned(
    kafka: Kafka, upstream: KafkaUpstream, known: Known, owned: Mapping[bytes, tuple[Shard, Topic]]
) -> None:
    """Find the partitions that stand where they were cut, while a leader is back whose log goes on there in an epoch
    below the fence: its records would be dropped, time and again. Asked are those of which something is missing; what
    Kafka does not say now of one is as it was."""
    asked = {place for place in known.returned if place[0] in owned}
    for id, (shard, topic) in owned.items():
        notes = ((each, shard.state.note((upstream.link, id, each))) for each in range(topic.partitions))
        asked |= {(id, each) for each, note in notes if note is not None and not note.behind.conflict}
    places = sorted(asked)
    found = await asyncio.gather(*(_returned(kafka, known, id, partition, *owned[id]) for id, partition in places))
    known.returned = {place: why for place, why in zip(places, found, strict=True) if why}


async def _returned(kafka: Kafka, known: Known, id: bytes, partition: int, shard: Shard, topic: Topic) -> str:
    """That a leader of before is back whose log goes on where the partition was cut; empty if it is not."""
    since = beginning_of(topic.since, partition)
    fence = fence_of(since)
    if fence is None or shard.state.partition(topic.number, partition).epoch >= fence:
        return ""
    if _elected(known.topics[id], partition) >= 0:
        place = TopicPartition(known.topics[id].name, partition)
        with suppress(TryAgain):
            _, end = await kafka.end_of_epoch(place, fence - 1)
            # Of epochs before those that Kafka still knows it says that they end where its log begins.
            is_back = end > max(since[0], (await kafka.offsets([place], EARLIEST))[place].offset)
            return RETURNED.format(at=since[0]) if is_back else ""
    return known.returned.get((id, partition), "")


async def common_end(kafka: Kafka, place: TopicPartition, history: History, end: int) -> int | None:
    """The offset below which Kafka's log has the epochs of this history, which ends at `end`; None: nobody can tell.

    As a replica in Kafka does that follows another leader: the newest epoch that both have ends where it does in the
    log in which that is lower; one that Kafka lacks leads to the one before it.
    """
    following = [*(first for _, first in history[1:]), end]
    ends = {epoch: ended for (epoch, _), ended in zip(history, following, strict=False)}
    asked = max(ends, default=None)
    while asked is not None:
        epoch, there = await kafka.end_of_epoch(place, asked)
        if epoch in ends:
            return min(there, ends[epoch])
        highest = asked - 1 if epoch < 0 else min(epoch, asked - 1)
        asked = max((own for own in ends if own <= highest), default=None)
    return None


def cut_off(
    stream: Stream, shard: Shard, upstream: KafkaUpstream, topic: Topic, parted: Mapping[int, Parted], draft: Draft
) -> int:
    """A request: write the row, by which the partitions are cut; how many there were. Those that do not stand any more
    as Kafka was asked about them wait for the next time.

    Raises:
        NotLoaded: what stands at an offset is only on disk.
    """
    known = draft.state.by_incarnation(topic.incarnation)
    if known is None or known.owner != upstream.source:
        return 0
    states = [draft.state.partition(known.number, each) for each in range(known.partitions)]
    cuts = {each: found for each, found in parted.items() if each < len(states) and states[each] == found.stood}
    if not cuts:
        return 0
    row = payloads.encode(_row(known, states, cuts, next_epoch(_newest(known, states), shard.epoch.id)))
    frame = frame_of(upstream, FrameTopic(known.incarnation, known.home or known.name), Kind.TOPIC, row)
    apply_frame(draft, frame, replace(admission_of(stream, upstream), falls_here=stream.falls_into(shard)))
    for partition, found in cuts.items():
        at = {"topic": known.name, "partition": partition, "at": found.at, "end": found.stood.end}
        log.warning("Kafka's log went on otherwise", **at)
    return len(cuts)


def _newest(topic: Topic, states: list[PartitionState]) -> int:
    return max(topic.epoch, *(state.epoch for state in states))


def _row(topic: Topic, states: list[PartitionState], cuts: Mapping[int, Parted], epoch: int) -> TopicPayload:
    last = max(len(topic.since), *(each + 1 for each in cuts))
    since = tuple(_begins(each, topic, states[each], cuts) for each in range(last))
    deleted_to = tuple(min(states[each].deleted_to, start) for each, (start, _) in enumerate(since))
    newer = topic._replace(
        epoch=epoch,
        version=topic.version + 1,
        since=since,
        deleted_to=deleted_to if any(deleted_to) else (),
    )
    return payload_of(newer)


def _begins(partition: int, topic: Topic, state: PartitionState, cuts: Mapping[int, Parted]) -> Beginning:
    cut = cuts.get(partition)
    if cut is None:
        return beginning_of(topic.since, partition)
    return cut.at, (*history_below(state.history, cut.at), (state.epoch + 1, cut.at))
