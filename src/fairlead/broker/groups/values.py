"""What handlers ask of a group and what it answers, in this side's words; the wire's forms are in `handlers/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from kio.schema.errors import ErrorCode

from fairlead.broker import errors

NO_GENERATION = -1


class GroupState(Enum):
    """Kafka's names; they are shown to users."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Only answered, for a group that is not known."""


class RefusedMember(errors.RefusedRequest):
    """A member's request does not fit the group's state; `code` is what Kafka answers."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code, f"group: {code.name}")


class Timer(Protocol):
    """What a scheduler returns."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The event loop's `call_later`; tests give one whose clock they turn."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call back after `delay` seconds, unless cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A group as one listener sees it: membership is per listener, cursors are not."""

    namespace: str
    """`` for the main listener, else the path of the exposed stream."""
    group: str


@dataclass(frozen=True, slots=True)
class Identity:
    """How a member calls itself."""

    member_id: str
    instance_id: str | None = None
    """`group.instance.id` of a static member (KIP-345)."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A join; `protocols` are (name, subscription) in the member's order of preference."""

    identity: Identity
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    id_required: bool = True
    """The client takes MEMBER_ID_REQUIRED and comes again with the id it was given (version 4 and later)."""
    may_skip_assignment: bool = True
    """The client knows `skip_assignment` (version 9 and later)."""

    @property
    def size_bytes(self) -> int:
        """Bytes that the member keeps of it."""
        names_bytes = len(self.client_id) + len(self.identity.instance_id or "")
        return names_bytes + sum(len(name) + len(metadata) for name, metadata in self.protocols)

    @property
    def protocol_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.protocols)


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as its leader sees it."""

    identity: Identity
    subscription: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to a join; only the leader's has `members`."""

    member_id: str
    error: ErrorCode = ErrorCode.none
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A sync; the leader's carries everyone's assignment by member id."""

    identity: Identity
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The answer to a sync."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member as DescribeGroups shows it."""

    identity: Identity
    client_id: str
    client_host: str
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as ListGroups and DescribeGroups show it."""

    group: str
    state: GroupState
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


MEMBER_BYTES = 500
"""What a member takes, or an id that was given out, beside what it said."""


@dataclass(slots=True)
class Held:
    """Bytes that the groups of a server keep of their members."""

    bytes: int = 0


JoinCallback = Callable[[JoinAnswer], object]
SyncCallback = Callable[[SyncAnswer], object]
