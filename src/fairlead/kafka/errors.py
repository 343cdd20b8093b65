"""Kafka's error codes as kinds of `model/errors.py`: try again, change the call, stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode as Code

from fairlead.model.errors import (
    Aborted,
    AlreadyExists,
    BadRequest,
    BatchTooLarge,
    CorruptBatch,
    FairleadError,
    Fenced,
    InvalidName,
    InvalidValue,
    NotAllowed,
    SwitchedOff,
    TryAgain,
    Unanswered,
    UnknownGroup,
    UnknownTopic,
)
from fairlead.protocol.wire import Malformed

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = int(Code.offset_out_of_range)
UNKNOWN_TOPIC_OR_PARTITION: Final = int(Code.unknown_topic_or_partition)
UNKNOWN_TOPIC_ID: Final = int(Code.unknown_topic_id)

PASSING: Final = (TryAgain, Unanswered, Malformed)
"""What a call that may be repeated is repeated after. A broker that answers wrongly may be replaced by one that does
not."""

_KINDS: Final[Mapping[Code, type[FairleadError]]] = {
    Code.unknown_topic_or_partition: UnknownTopic,
    Code.unknown_topic_id: UnknownTopic,
    Code.message_too_large: BatchTooLarge,
    Code.record_list_too_large: BatchTooLarge,
    Code.corrupt_message: CorruptBatch,
    Code.topic_already_exists: AlreadyExists,
    Code.invalid_topic_exception: InvalidName,
    Code.invalid_partitions: InvalidValue,
    Code.invalid_transaction_timeout: InvalidValue,
    Code.invalid_replication_factor: InvalidValue,
    Code.invalid_config: InvalidValue,
    Code.topic_authorization_failed: NotAllowed,
    Code.group_authorization_failed: NotAllowed,
    Code.cluster_authorization_failed: NotAllowed,
    Code.transactional_id_authorization_failed: NotAllowed,
    Code.sasl_authentication_failed: NotAllowed,
    Code.unsupported_sasl_mechanism: NotAllowed,
    Code.illegal_sasl_state: NotAllowed,
    Code.policy_violation: NotAllowed,
    Code.security_disabled: SwitchedOff,
    Code.unknown_member_id: NotAllowed,
    Code.illegal_generation: NotAllowed,
    Code.rebalance_in_progress: NotAllowed,
    Code.group_id_not_found: UnknownGroup,
    Code.invalid_producer_epoch: Fenced,
    Code.producer_fenced: Fenced,
    Code.invalid_txn_state: Aborted,
    Code.invalid_producer_id_mapping: Aborted,
    Code.transaction_abortable: Aborted,
    Code.transaction_coordinator_fenced: TryAgain,
}


def _code(number: int) -> Code | None:
    try:
        return Code(number)
    except ValueError:
        return None


def name_of(number: int) -> str:
    """The code as Kafka writes it."""
    code = _code(number)
    return f"error {number}" if code is None else code.name.upper()


def may_pass(number: int) -> bool:
    """Whether Kafka says that the same call may work later. A code that nobody here knows may, too."""
    code = _code(number)
    return is_unexplained(number) or (code is not None and code.retriable)


def is_unexplained(number: int) -> bool:
    """Whether a broker failed and cannot say why, or says it by a code that nobody here knows."""
    return _code(number) in (None, Code.unknown_server_error)


def kind_of(number: int) -> type[FairleadError]:
    """The kind of error that a code stands for."""
    code = _code(number)
    kind = _KINDS.get(code) if code is not None else None
    if kind is None:
        kind = TryAgain if may_pass(number) else BadRequest
    return kind


def error_of(number: int, what: str, message: str | None = None) -> FairleadError:
    """The error for a code; `what` is the thing that was asked for, `message` the broker's own words."""
    return kind_of(number)(f"{what}: {name_of(number)}" + (f" ({_one_line(message)})" if message else ""))


def _one_line(message: str) -> str:
    return " ".join(message.split())[:500]


def leader_error(number: int, what: str, message: str | None = None) -> FairleadError:
    """The same from a leader, as metadata names it: what it does not know it is about to hear of, or leads no more."""
    error = error_of(number, what, message)
    return TryAgain(str(error)) if number in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID) else error


def check(number: int, what: str, message: str | None = None) -> None:
    """Raises: the error for the code, unless it is none."""
    if number != NONE:
        raise error_of(number, what, message)


def final_error(number: int, what: str, message: str | None = None) -> FairleadError | None:
    """Why one of several things was refused for good; None: it was not. Raises: what may pass."""
    if number == NONE:
        return None
    error = error_of(number, what, message)
    if isinstance(error, PASSING):
        raise error
    return error


def check_leader(number: int, what: str, message: str | None = None) -> None:
    """The same of a leader's answer."""
    if number != NONE:
        raise leader_error(number, what, message)
