"""Text of every message of the link protocol; `docs/formats/link-protocol.md` tells the whole conversation.

The messages are frozen values in `control`, `apply` and `neighbours`.

    source server  ⇄  reader task      WebSocket /control/reader       READER_SAYS, READER_HEARS
    source server  ⇄  sink task        WebSocket /control/sink         SINK_SAYS, SINK_HEARS
    source server  ⇄  replicator       WebSocket /control/replicator   REPLICATOR_SAYS, REPLICATOR_HEARS
    sink task      ⇄  gateway          Upgrade /gateway/apply          APPLY_SAYS, APPLY_HEARS (and frames)
    source server  →  gateway          POST /gateway/link              LinkRequest, LinkAnswer
    source server  →  gateway          POST /gateway/pulse             ServerStart
    source server  →  gateway          POST /gateway/transfer          TransferRequest, TransferAnswer
    server         →  gateway          POST /gateway/pull              PullRequest, PullAnswer (and frames)
    server         →  gateway          POST /gateway/standing          StandingRequest, StandingAnswer
    server         →  gateway          POST /gateway/compare           CompareRequest, CompareAnswer
    server         →  gateway          POST /gateway/owned             OwnedRequest, OwnedAnswer

`to_json(message)` and `from_json(text, READER_SAYS)` are each other's inverse. Text messages carry the name of their
kind as `type`. Ids are bytes here and hex in JSON. Commits are half-open: a position `commit` means all below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fairlead.model.conversation import kinds_of, prepare_forms, read
from fairlead.model.errors import InvalidValue
from fairlead.model.strict_json import JsonForm
from fairlead.wire.apply import Applied, ApplyHello, Error, Ok, Refused
from fairlead.wire.control import (
    Announce,
    Credit,
    Done,
    Failed,
    Grant,
    KafkaGrant,
    KafkaReport,
    LeftWanted,
    LinksActive,
    LinksLeft,
    ListObjects,
    Locate,
    Located,
    Passing,
    PassingWanted,
    Progress,
    ReaderHello,
    ReadReport,
    RepairGrant,
    ReplicatorState,
    SinkHello,
    SlicesRefused,
    Topics,
    TopicsWanted,
    Withdraw,
    WithdrawRun,
)
from fairlead.wire.link_protocol import PROTOCOL, PROTOCOL_OLDEST
from fairlead.wire.neighbours import (
    CompareAnswer,
    CompareRequest,
    LinkAnswer,
    LinkRequest,
    OwnedAnswer,
    OwnedRequest,
    PullAnswer,
    PullRequest,
    ServerStart,
    SideCopyEnd,
    StandingAnswer,
    StandingRequest,
    TransferAnswer,
    TransferRequest,
)

READER_SAYS = kinds_of(
    {
        "hello": ReaderHello,
        "list": ListObjects,
        "topics": TopicsWanted,
        "passing": PassingWanted,
        "read": ReadReport,
        "locate": Locate,
        "done": Done,
        "kafka": KafkaReport,
    }
)
READER_HEARS = kinds_of(
    {
        "grant": Grant,
        "repair": RepairGrant,
        "kafka": KafkaGrant,
        "announce": Announce,
        "topics": Topics,
        "passing": Passing,
        "located": Located,
        "withdraw": Withdraw,
        "credit": Credit,
    }
)
SINK_SAYS = kinds_of({"hello": SinkHello, "progress": Progress, "failed": Failed, "refused": SlicesRefused})
SINK_HEARS = kinds_of({"withdraw": WithdrawRun})
REPLICATOR_HEARS = kinds_of({"links": LinksActive, "left": LinksLeft})
REPLICATOR_SAYS = kinds_of({"state": ReplicatorState, "left": LeftWanted})
APPLY_SAYS = kinds_of({"hello": ApplyHello})
APPLY_HEARS = kinds_of({"ok": Ok, "error": Error, "applied": Applied, "refused": Refused})

_ALL = (READER_SAYS, READER_HEARS, SINK_SAYS, SINK_HEARS, REPLICATOR_HEARS, REPLICATOR_SAYS, APPLY_SAYS, APPLY_HEARS)
_COMPARING: Final[tuple[type[Any], ...]] = (CompareRequest, CompareAnswer, OwnedRequest, OwnedAnswer)
_BODIES: Final[tuple[JsonForm[Any], ...]] = tuple(
    JsonForm(kind, unknown="forbid")
    for kind in (
        LinkRequest,
        LinkAnswer,
        ServerStart,
        SideCopyEnd,
        TransferRequest,
        TransferAnswer,
        PullRequest,
        PullAnswer,
        StandingRequest,
        StandingAnswer,
        *_COMPARING,
    )
)
_FORMS: Final = {form.kind: form for form in (*_BODIES, *(form for kinds in _ALL for form in kinds.values()))}

T = TypeVar("T")


def prepare() -> None:
    """Load what reading and writing needs, for a process whose forks are to share it."""
    prepare_forms(_FORMS.values())


def to_json(message: object) -> str:
    """The text of any message above; bodies of HTTP requests and answers have no `type`."""
    return _FORMS[type(message)].write(message).decode()


def body_from_json(text: str | bytes, kind: type[T]) -> T:
    """Read the body of an HTTP request or answer.

    Raises:
        InvalidValue: as `from_json`.
    """
    body: T = read(text, _FORMS[kind])
    return body


@dataclass(frozen=True, slots=True)
class _Spoken:
    """What a first message and each request has, whatever its version."""

    protocol: Any = PROTOCOL


_SPOKEN: Final = JsonForm(_Spoken)


def check_protocol(text: str | bytes) -> None:
    """Refuse a hello or request of another version of the link protocol, before the fields of that version are judged.

    Raises:
        InvalidValue: not JSON, or a version that this gateway does not take; the message names both.
    """
    check_version(read(text, _SPOKEN).protocol)


def check_version(version: object) -> None:
    """Refuse another version of the link protocol. Raises: InvalidValue, which names both."""
    if type(version) is not int or not PROTOCOL_OLDEST <= version <= PROTOCOL:
        raise InvalidValue(f"the source speaks version {version!r:.20} of the link protocol, this gateway {PROTOCOL}")
