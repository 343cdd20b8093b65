"""What a topic demands of each record: a key where it is compacted, a time that is near enough where it says so.

Only batches for topics with such settings are opened, and those that do not say the largest time of their records: some
clients leave it out, and look-ups by time would pass such batches over. As in Kafka, whatever is opened gets its true
one. Codes and messages are those of Kafka's `LogValidator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest
from fairlead.broker.settings.topic_settings import CREATE_TIME, TIMESTAMP_AFTER, TIMESTAMP_BEFORE, timestamp_type
from fairlead.cluster.stream import Stream
from fairlead.model.errors import CorruptBatch, InvalidBatch, OverlargeRecords
from fairlead.protocol.batch import NO_TIMESTAMP, CheckedBatch, with_max_timestamp
from fairlead.protocol.messages import no_pause
from fairlead.protocol.record_checks import Head, heads
from fairlead.streamlog.topic_policy import COMPACT, cleanup_policies, number

_AT_ONCE_BYTES: Final = 16 * 1024
_AT_ONCE_PLAIN_BYTES: Final = 64 * 1024
"""Once they are decompressed."""
_AT_ONCE_RECORDS: Final = 500
"""More than that is looked at on a thread: it would hold the loop for longer than half a millisecond."""
_SHOWN_MAX: Final = 1000
"""So many records of a batch are named in the answer; the client fails all of them anyway."""
_DECOMPRESSED_TIMES: Final = 4
"""A batch that decompresses to more than this many times the server's largest batch is not looked through."""


class RecordRules(NamedTuple):
    """The demands of one topic; times are milliseconds, None: any."""

    keyed: bool
    before_ms: int | None
    after_ms: int | None


ANY_RECORD: Final = RecordRules(False, None, None)
"""Of a batch that is opened for the largest time of its records."""
_TIME_MAX: Final = 2**63 - 1


class RecordsRefused(RefusedRequest):
    """Some records of a batch are not taken, and so the batch is not."""

    def __init__(self, code: ErrorCode, message: str, records: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.records = tuple(records)
        """Place in the batch and reason."""


def rules_of(stream: Stream, configs: Mapping[str, str]) -> RecordRules | None:
    """What a topic with these settings demands; None: nothing that takes opening a batch."""
    if not configs:
        return None
    keyed = COMPACT in cleanup_policies(configs)
    timed = timestamp_type(stream, configs) == CREATE_TIME
    before_ms, after_ms = (number(configs, name) if timed else None for name in (TIMESTAMP_BEFORE, TIMESTAMP_AFTER))
    return RecordRules(keyed, before_ms, after_ms) if keyed or before_ms is not None or after_ms is not None else None


def plain_bytes_max(message_bytes_max: int) -> int:
    """The most bytes that the records of a batch that is opened may have, once they are decompressed."""
    return _DECOMPRESSED_TIMES * message_bytes_max


def looked_through_at_once(
    rules: RecordRules, batch: CheckedBatch, where: str, now_ms: int, bytes_max: int
) -> CheckedBatch | None:
    """As `looked_through`, on the loop; None: that would hold the loop for too long."""
    if len(batch.data) > _AT_ONCE_BYTES or batch.header.record_count > _AT_ONCE_RECORDS:
        return None
    try:
        return looked_through(rules, batch, where, now_ms, min(bytes_max, _AT_ONCE_PLAIN_BYTES), no_pause)
    except OverlargeRecords:
        return None


def looked_through(
    rules: RecordRules, batch: CheckedBatch, where: str, now_ms: int, bytes_max: int, rest: Callable[[], None]
) -> CheckedBatch:
    """Look at each record; `rest` is called now and then. The batch says the largest time of its records then.

    Raises:
        RecordsRefused: INVALID_TIMESTAMP or INVALID_RECORD, naming the records. `where` is topic and partition.
        InvalidBatch: the records cannot be read.
        OverlargeRecords: they are more than `bytes_max` once they are decompressed.
    """
    try:
        return _looked_through(rules, batch, where, now_ms, bytes_max, rest)
    except OverlargeRecords:
        raise
    except CorruptBatch as error:
        raise InvalidBatch(str(error)) from error


def _looked_through(
    rules: RecordRules, batch: CheckedBatch, where: str, now_ms: int, bytes_max: int, rest: Callable[[], None]
) -> CheckedBatch:
    faults: list[tuple[int, str]] = []
    count, of_time, newest = 0, False, -_TIME_MAX - 1
    for head in heads(batch, bytes_max, rest):
        newest = max(newest, head.timestamp)
        keyless = rules.keyed and not head.has_key
        why = _no_key(where) if keyless else _time_fault(rules, head, now_ms)
        if why is not None:
            count, of_time = count + 1, of_time or not keyless
            if len(faults) < _SHOWN_MAX:
                faults.append((head.place, why))
    if of_time:
        message = "One or more records have been rejected due to invalid timestamp"
        raise RecordsRefused(ErrorCode.invalid_timestamp, message, faults)
    if faults:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{why}')" for index, why in faults[:3])
        message = (
            f"One or more records have been rejected due to {count} record errors in total, and only showing the first "
            f"three errors at most: [{shown}]"
        )
        raise RecordsRefused(ErrorCode.invalid_record, message, faults)
    if newest > _TIME_MAX:
        raise CorruptBatch("a record's time has more than 64 bits")
    return batch if newest == batch.header.max_timestamp else with_max_timestamp(batch, newest)


def _no_key(where: str) -> str:
    return f"Compacted topic cannot accept message without key in topic partition {where}."


def _time_fault(rules: RecordRules, head: Head, now_ms: int) -> str | None:
    ahead_ms = head.timestamp - now_ms
    late = rules.before_ms is not None and -ahead_ms > rules.before_ms
    early = rules.after_ms is not None and ahead_ms > rules.after_ms
    if head.timestamp == NO_TIMESTAMP or not (late or early):
        return None
    least, most = (
        "any" if limit_ms is None else now_ms + sign * limit_ms
        for sign, limit_ms in ((-1, rules.before_ms), (1, rules.after_ms))
    )
    return (
        f"Timestamp {head.timestamp} of message with offset {head.offset} is out of range. "
        f"The timestamp should be within [{least}, {most}]"
    )
