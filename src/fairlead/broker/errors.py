"""Our errors as Kafka's codes: the only place where the two meet.

A client retries what Kafka marks as retriable, so the choice of the code is a choice of what the client does next.
"""

from __future__ import annotations

import structlog
from kio.schema.errors import ErrorCode

from fairlead.model import errors

log = structlog.get_logger(__name__)

_CODES: tuple[tuple[type[BaseException], ErrorCode], ...] = (
    (errors.StorageUnavailable, ErrorCode.kafka_storage_error),
    (errors.StorageFull, ErrorCode.kafka_storage_error),
    (errors.Busy, ErrorCode.request_timed_out),
    # Retriable, and Kafka's word for a leader that has not got all it needs.
    (errors.OwnerPending, ErrorCode.not_enough_replicas),
    (errors.TryAgain, ErrorCode.request_timed_out),
    # The one retriable code after which clients do not take it for granted that nothing was written.
    (errors.Unanswered, ErrorCode.request_timed_out),
    (errors.InvalidName, ErrorCode.invalid_topic_exception),
    (errors.UnknownGroup, ErrorCode.group_id_not_found),
    (errors.NotFound, ErrorCode.unknown_topic_or_partition),
    (errors.AlreadyExists, ErrorCode.topic_already_exists),
    (errors.NotOwner, ErrorCode.policy_violation),
    (errors.NotAllowed, ErrorCode.policy_violation),
    (errors.OffsetOutOfRange, ErrorCode.offset_out_of_range),
    # Not retriable, other than CORRUPT_MESSAGE; a batch that is too large, Java's client splits.
    (errors.InvalidBatch, ErrorCode.invalid_record),
    (errors.OverlargeRecords, ErrorCode.message_too_large),
    (errors.CorruptBatch, ErrorCode.corrupt_message),
    (errors.BatchTooLarge, ErrorCode.message_too_large),
    (errors.OutOfOrderSequence, ErrorCode.out_of_order_sequence_number),
    (errors.StaleProducerEpoch, ErrorCode.invalid_producer_epoch),
    (errors.InvalidValue, ErrorCode.invalid_request),
    (errors.BadRequest, ErrorCode.invalid_request),
    # Retriable, and the client asks for metadata before it tries again: what it must do when a server goes.
    (errors.Fenced, ErrorCode.not_leader_or_follower),
    (errors.Closed, ErrorCode.not_leader_or_follower),
    (errors.Damaged, ErrorCode.kafka_storage_error),
)


class RefusedRequest(errors.BadRequest):
    """A handler's own refusal with the code that Kafka has for it, where no error of ours says as much."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: BaseException) -> ErrorCode:
    """Kafka's code for an error; what is not ours is a fault of ours, logged with its traceback."""
    if isinstance(error, RefusedRequest):
        return error.code
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    log.error("a request failed for a reason that was not foreseen", exc_info=error)
    return ErrorCode.unknown_server_error


def message_of(error: BaseException) -> str:
    """The one line for an `error_message` field; nothing of the inside for errors that are not ours."""
    return str(error) if isinstance(error, errors.FairleadError) else "internal error; the server's log says more"
