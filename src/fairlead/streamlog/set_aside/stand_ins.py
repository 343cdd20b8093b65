"""Rows in the place of those that are lost, and the same in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fairlead.streamlog import marks, payloads
from fairlead.streamlog.payloads import DELETED_RECORDS, EntryPayload, StartPayload, TruncatePayload
from fairlead.streamlog.rows import NO_COMMIT, NO_EPOCH, NO_OFFSET, NO_TOPIC, Kind, Row
from fairlead.streamlog.set_aside.evidence import LAST_ROW, Gap, Lost, LostCut
from fairlead.streamlog.state.shard_state import ShardState

REASON: Final = "set-aside"
"""In the rows that declare a gap."""


def gap_rows(gaps: Iterable[Gap], lost: Sequence[Lost], state: ShardState) -> Iterator[Row]:
    """START rows that declare the gaps, each in an object's place."""
    for gap in gaps:
        before = [each for each in lost if each.first <= gap.commit] or lost[:1]
        last = before[-1].end - 1
        at = (gap.commit, gap.row - 1) if gap.commit <= last else (last, LAST_ROW)
        known = state.partition(gap.topic, gap.partition)
        # A topic begins with epoch 0, whose first record may be the one that is lost.
        firsts = [(epoch, 0 if epoch == 0 else first) for epoch, first in known.history]
        known = known._replace(history=tuple(entry for entry in firsts if entry[1] < gap.end))
        row = control_row(
            Kind.START,
            *at,
            StartPayload(
                REASON,
                max(gap.end, known.deleted_to),
                known.history,
                gap.start,
                known.deleted_to,
                max(known.epoch_before(gap.end), 0),
            ),
            topic=gap.topic,
            partition=gap.partition,
        )
        yield row._replace(
            base_offset=gap.end,
            previous_end=gap.start,
            epoch=known.epoch_before(gap.end),
            previous_epoch=known.epoch_before(gap.start),
        )


def deletion_rows(lost: Sequence[Lost], state: ShardState) -> Iterator[Row]:
    """START rows that delete again what the topics' owners have deleted, as far as that is known: the rows that said it
    may be lost."""
    place = lost[-1].end - 1
    for (number, partition), offset in state.deleted_to().items():
        end = state.partition(number, partition).end
        payload = StartPayload(DELETED_RECORDS, max(end, offset), (), deleted_to=offset)
        row = control_row(Kind.START, place, LAST_ROW, payload, topic=number, partition=partition)
        yield row._replace(base_offset=0)


def cut_rows(cuts: Iterable[LostCut]) -> Iterator[Row]:
    """The TRUNCATE rows that are lost, where they stood. Which producers they forgot is lost with them: all of them."""
    for each in cuts:
        payload = TruncatePayload(REASON, each.cut.by_epoch, each.cut.keep, None, each.cut.history)
        at = each.cut.commit, each.cut.row
        row = control_row(Kind.TRUNCATE, *at, payload, topic=each.topic, partition=each.partition)
        yield row._replace(base_offset=each.cut.offset)


def mark_rows(unknown: dict[int, list[int]], lost: Sequence[Lost]) -> Iterator[Row]:
    """Marks on the partitions, by topic number, that take no records."""
    last = lost[-1]
    for number, partitions in unknown.items():
        mark = EntryPayload(marks.key(number), marks.value(last.name, partitions))
        yield control_row(Kind.ENTRY, last.end - 1, LAST_ROW, mark)


def told(state: ShardState, gaps: Sequence[Gap], unknown: dict[int, list[int]]) -> list[str]:
    """What is lost, a line each."""

    def name(number: int) -> str:
        return f"topic {topic_name(state, number)}"

    said = [f"{name(g.topic)}, partition {g.partition}: offsets {g.start:,} to {g.end - 1:,} are lost" for g in gaps]
    for number, partitions in unknown.items():
        which = ", ".join(map(str, partitions))
        said.append(f"{name(number)}, partitions {which}: nobody knows where they ended; they take no records")
    return said


def topic_name(state: ShardState, number: int) -> str:
    """Its name, as far as that is known."""
    topic = state.topic(number)
    return f"number {number}" if topic is None else topic.name


def control_row(
    kind: Kind, commit: int, row: int, payload: payloads.Payload, *, topic: int = NO_TOPIC, partition: int = -1
) -> Row:
    """A control row that nobody wrote; its time is before all others, and it is nobody's."""
    data = payloads.encode(payload)
    end, epoch = NO_OFFSET, NO_EPOCH
    return Row(
        kind,
        topic,
        partition,
        NO_OFFSET,
        NO_OFFSET,
        epoch,
        end,
        epoch,
        None,
        None,
        NO_COMMIT,
        0,
        -1,
        0,
        0,
        0,
        commit,
        row,
        data,
    )
