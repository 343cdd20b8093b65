"""Rows and frames of topics that a Kafka cluster owns."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.protocol.batch import build_batch, read_header
from fairlead.streamlog import payloads
from fairlead.streamlog.frames.frame import Frame, FrameTopic
from fairlead.streamlog.payloads import TopicPayload
from fairlead.streamlog.rows import ABORT, NO_COMMIT, Kind, Row
from fairlead.streamlog.values import GrantRun
from tests.support.rows import control_row

SOURCE = b"k" * 16
INCARNATION = b"t" * 16
LINK = b"l" * 16
NUMBER = 16
FIRST_RUN = GrantRun(1, 1)


def topic_row(name: str = "ships", partitions: int = 1, *, owner_at: str = "kafka://old", version: int = 0) -> Row:
    """The row that makes a topic of a Kafka cluster, or, with another `owner_at`, one of a stream."""
    payload = TopicPayload(name, INCARNATION, partitions, SOURCE, 0, version, {}, name, owner_at)
    return control_row(Kind.TOPIC, payloads.encode(payload), topic=NUMBER)


def batch_of_epoch(epoch: int, offset: int, *values: bytes, attributes: int = 0, producer_id: int = -1) -> bytes:
    """A batch as a Kafka log has it."""
    numbers = (0, 0) if producer_id >= 0 else (-1, -1)
    return build_batch(
        [(None, value) for value in values],
        base_offset=offset,
        leader_epoch=epoch,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=numbers[0],
        base_sequence=numbers[1],
    )


def row_of(batch: bytes, *, after: tuple[int, int], partition: int = 0, abort: bool = False) -> Row:
    """The row of a batch, which the sender had `after` (end, epoch of the record before)."""
    header = read_header(batch)
    return Row(
        *(int(Kind.BATCH), NUMBER, partition, header.base_offset, header.last_offset, header.leader_epoch, *after),
        *(SOURCE, None, NO_COMMIT, 1000, header.max_timestamp, header.record_count),
        *(header.attributes | (ABORT if abort else 0), header.crc, 0, 0, batch),
    )


def frame_of(rows: Sequence[Row], *, first: int = 0, run: GrantRun = FIRST_RUN) -> Frame:
    """A frame of these rows, which is number `first` of its link."""
    topics = {NUMBER: FrameTopic(INCARNATION, "ships")}
    placed = [row._replace(commit=first, row=place) for place, row in enumerate(rows)]
    return Frame(LINK, run, SOURCE, 0, 0xFFFF, first, first + 1, bytes(16), topics, placed)
