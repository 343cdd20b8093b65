"""One member of a group, what it waits for, and the timer that ends it."""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.records import MemberRecord
from fairlead.broker.groups.values import (
    Identity,
    JoinAnswer,
    JoinCallback,
    JoinedMember,
    JoinRequest,
    MemberDescription,
    Scheduler,
    SyncAnswer,
    SyncCallback,
    Timer,
)

NEW_MEMBER_WAIT_SECONDS = 300.0
"""How long a join of a new member may wait before it is taken for gone (Kafka's NewMemberJoinTimeout)."""


class Member:
    """A member; its session timer runs except while it waits for an answer of ours."""

    __slots__ = (
        "_expired",
        "_join",
        "_scheduler",
        "_sync",
        "_timer",
        "assignment",
        "identity",
        "is_new",
        "request",
        "synced",
    )

    def __init__(
        self, request: JoinRequest, member_id: str, scheduler: Scheduler, expired: Callable[[Member], None]
    ) -> None:
        self.identity = Identity(member_id, request.identity.instance_id)
        self.request = request
        self.assignment = b""
        self.is_new = True
        """No join of it was ever answered."""
        self.synced = False
        """It has sent its sync in this generation."""
        self._expired = expired
        self._scheduler = scheduler
        self._join: JoinCallback | None = None
        self._sync: SyncCallback | None = None
        self._timer: Timer | None = None

    @classmethod
    def resumed(
        cls, record: MemberRecord, protocol_type: str, scheduler: Scheduler, expired: Callable[[Member], None]
    ) -> Member:
        """A member that was told its assignment before the server was started again, or will ask for it."""
        request = JoinRequest(
            Identity(record.id, record.instance),
            record.client_id,
            record.client_host,
            record.session_timeout_ms,
            record.rebalance_timeout_ms,
            protocol_type,
            record.protocols,
        )
        member = cls(request, record.id, scheduler, expired)
        member.is_new, member.synced = False, True
        return member

    def record(self) -> MemberRecord:
        """What is kept of it."""
        said = self.request
        return MemberRecord(
            self.id,
            self.identity.instance_id,
            said.client_id,
            said.client_host,
            said.session_timeout_ms,
            said.rebalance_timeout_ms,
            said.protocols,
            self.assignment,
        )

    @property
    def id(self) -> str:
        return self.identity.member_id

    @property
    def is_static(self) -> bool:
        return self.identity.instance_id is not None

    @property
    def awaits_join(self) -> bool:
        return self._join is not None

    @property
    def awaits_sync(self) -> bool:
        return self._sync is not None

    def subscription(self, protocol: str | None) -> bytes:
        """What it said with its join for this protocol; empty if it does not know it."""
        return dict(self.request.protocols).get(protocol or "", b"")

    def wait_join(self, answer: JoinCallback) -> None:
        """Answer this join when the generation begins; an earlier one of the same member is dropped unanswered by us
        (its connection has given up on it)."""
        self._join = answer
        self._start_timer(NEW_MEMBER_WAIT_SECONDS if self.is_new else None)

    def wait_sync(self, answer: SyncCallback) -> None:
        """Answer this sync when the leader has sent the assignment."""
        self._sync = answer
        self.stop_timer()

    def answer_join(self, answer: JoinAnswer) -> None:
        """Answer the waiting join, if any; from here on it must heartbeat."""
        waiting, self._join = self._join, None
        if waiting is not None:
            self.is_new = False
            self.beat()
            waiting(answer)

    def answer_sync(self, answer: SyncAnswer) -> None:
        """Answer the waiting sync, if any; from here on it must heartbeat."""
        waiting, self._sync = self._sync, None
        if waiting is not None:
            self.beat()
            waiting(answer)

    def refuse_all(self, error: ErrorCode) -> None:
        """Answer whatever waits with an error."""
        self.answer_join(JoinAnswer(self.id, error))
        self.answer_sync(SyncAnswer(error))

    def gave_up(self, answer: JoinCallback | SyncCallback) -> bool:
        """Whether it was this one's answer that a connection waited for that is gone: only a session is left to come
        back."""
        if answer not in {self._join, self._sync}:
            return False
        if self._join == answer:
            self._join = None
        else:
            self._sync = None
        self.beat()
        return True

    def beat(self) -> None:
        """It was heard of: its session begins anew, unless it waits for us."""
        if not self.awaits_join and not self.awaits_sync:
            self._start_timer(self.request.session_timeout_ms / 1000)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(self.identity, self.subscription(protocol))

    def description(self, protocol: str | None) -> MemberDescription:
        request = self.request
        return MemberDescription(
            self.identity, request.client_id, request.client_host, self.subscription(protocol), self.assignment
        )

    def _start_timer(self, seconds: float | None) -> None:
        self.stop_timer()
        if seconds is not None:
            self._timer = self._scheduler.call_later(seconds, lambda: self._expired(self))
