"""The state machine of one group.

    EMPTY ──join──► PREPARING ──all joined, or time is up──► COMPLETING ──leader's sync──► STABLE
      ▲                ▲  │ nobody came                          │                           │
      └────────────────┼──┘                                      │                           │
                       └────── join, leave or expiry ────────────┴───────────────────────────┘

What must outlive the process is handed to `keep`, see `records.py`: the generation becomes stable, and its members are
told their parts, once it is kept.

At most one timer of the group itself runs: the initial delay or the deadline of the joins in PREPARING, the deadline
of the syncs in COMPLETING and STABLE. Joins are in `joining.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.member import Member
from fairlead.broker.groups.members import Members
from fairlead.broker.groups.records import Cuts, GroupRecord, Since, nobody_waits
from fairlead.broker.groups.values import (
    GroupDescription,
    GroupKey,
    GroupState,
    Held,
    Identity,
    JoinAnswer,
    JoinCallback,
    RefusedMember,
    Scheduler,
    SyncAnswer,
    SyncCallback,
    SyncRequest,
    Timer,
)
from fairlead.model.settings import Settings

Keep = Callable[["Group", Callable[[], object]], None]


class Group:
    """One group of one listener; every method runs on the event loop and returns at once."""

    def __init__(
        self,
        key: GroupKey,
        settings: Settings,
        scheduler: Scheduler,
        on_unused: Callable[[Group], None],
        held: Held | None = None,
        *,
        keep: Keep,
        cuts_now: Callable[[], Cuts] = dict,
    ) -> None:
        """`keep` writes the group's record and calls back; also if it could not. `cuts_now`: where logs were cut."""
        self.key = key
        self.settings = settings
        self.scheduler = scheduler
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.members = Members(held)
        self._on_unused = on_unused
        self.keep = keep
        self._cuts_now = cuts_now
        self.known_cuts: Cuts = {}
        """Of when the generation began: where its members read, they were told after these."""
        self._timer: Timer | None = None
        self._delaying = False
        """The initial delay runs (KIP-134): nobody's join ends it early."""
        self._came_in_delay = False
        self._assigned = False
        """The leader has sent the assignments of this generation; they are being kept."""

    # what outlives the process

    def record(self, nonempty_since: Since) -> GroupRecord:
        """The group as it stands."""
        members = tuple(member.record() for member in self.members)
        return GroupRecord(
            self.generation,
            self.protocol_type,
            self.protocol,
            self.members.leader,
            members,
            nonempty_since,
            self.known_cuts,
        )

    def resume(self, record: GroupRecord) -> None:
        """Go on where a record says; for a group that nobody has joined yet. All sessions begin now."""
        self.generation, self.protocol_type, self.protocol = record.generation, record.protocol_type, record.protocol
        self.known_cuts = record.known_cuts
        for each in record.members:
            member = Member.resumed(each, record.protocol_type, self.scheduler, self.expire)
            self.members.add(member)
            self.members.assign(member, each.assignment)
            member.beat()
        if len(self.members):
            self.members.leader = record.leader
            self.state = GroupState.STABLE

    # members

    def add(self, member: Member) -> None:
        """Let a member in; the caller then rebalances."""
        self.members.add(member)
        self._came_in_delay = True

    def expire(self, member: Member) -> None:
        """A member was not heard of in time."""
        if self.members.get(member.id) is member:
            self.remove(member)

    def remove(self, member: Member, error: ErrorCode = ErrorCode.unknown_member_id) -> None:
        """Take a member out and let the others share its part."""
        member.refuse_all(error)
        self.members.remove(member)
        self.rebalance()
        self.release_if_unused()

    def gave_up(self, answer: JoinCallback | SyncCallback) -> None:
        """The connection that waited for this answer is gone. A member that never had an answer to a join knows of no
        membership: it and what it said go too."""
        for member in self.members:
            if member.gave_up(answer) and member.is_new:
                self.remove(member)

    def give_id(self, member_id: str, session_timeout_ms: int) -> None:
        """Remember an id that a client was told to come back with, for one session timeout (KIP-394)."""
        timer = self.scheduler.call_later(session_timeout_ms / 1000, lambda: self.forget_id(member_id))
        self.members.expect(member_id, timer)

    def forget_id(self, member_id: str) -> bool:
        """The client with this id will not come; False if no such id waits."""
        known = self.members.forget_pending(member_id)
        self.complete_join_if_all_came()
        self.release_if_unused()
        return known

    # rebalance

    def rebalance(self) -> None:
        """Begin a new generation, or see whether the one that is being gathered is complete."""
        if self.state is GroupState.PREPARING:
            self.complete_join_if_all_came()
        elif self.state is GroupState.EMPTY:
            self._begin_first()
        else:
            self._drop_assignments()
            self.state = GroupState.PREPARING
            self._start_join_deadline()
            self.complete_join_if_all_came()

    def rejoin(self) -> None:
        """Have all members join again and ask where to read, unless they are about to."""
        if self.state in {GroupState.COMPLETING, GroupState.STABLE}:
            self.rebalance()

    def complete_join_if_all_came(self) -> None:
        """End PREPARING early if every member has joined and no given id is still out."""
        if self.state is not GroupState.PREPARING or self._delaying or self.members.pending:
            return
        if all(member.awaits_join for member in self.members):
            self._complete_join()

    def _begin_first(self) -> None:
        if not len(self.members):
            return
        self.state = GroupState.PREPARING
        if self.settings.initial_rebalance_delay_ms == 0:
            self._start_join_deadline()
            self.complete_join_if_all_came()
            return
        self._delay(self._rebalance_timeout_ms())

    def _delay(self, left_ms: int) -> None:
        """Wait for members that start at the same time, again while some come, at most `left_ms` in all."""
        step_ms = min(self.settings.initial_rebalance_delay_ms, left_ms)
        self._delaying, self._came_in_delay = True, False
        self._start_timer(step_ms, lambda: self._end_delay(left_ms - step_ms))

    def _end_delay(self, left_ms: int) -> None:
        if self._came_in_delay and left_ms > 0:
            self._delay(left_ms)
        else:
            self._delaying = False
            self._complete_join()

    def _start_join_deadline(self) -> None:
        self._start_timer(self._rebalance_timeout_ms(), self._complete_join)

    def _complete_join(self) -> None:
        """The joins are in, or their time is up: those who did not come are out, static members excepted (KIP-345)."""
        self._stop_timer()
        for member in self.members:
            if not member.awaits_join and not member.is_static:
                self.members.remove(member)
        if not len(self.members):
            self._become_empty()
        elif not self.members.elect_joined_leader():
            self._start_join_deadline()
        else:
            self._begin_generation()

    def _become_empty(self) -> None:
        self._stop_timer()
        self.state = GroupState.EMPTY
        self.generation += 1
        self.protocol = None
        self.keep(self, nobody_waits)
        self.release_if_unused()

    def _begin_generation(self) -> None:
        self.generation += 1
        self.known_cuts = self._cuts_now()
        self.protocol = self.members.select_protocol()
        self.state = GroupState.COMPLETING
        self._assigned = False
        for member in self.members:
            member.synced = False
            self.members.assign(member, b"")
        self._start_timer(self._rebalance_timeout_ms(), self._drop_unsynced)
        for member in self.members:
            member.answer_join(self.join_answer(member))

    def join_answer(self, member: Member) -> JoinAnswer:
        """What a member is told of the running generation."""
        leads = member.id == self.members.leader
        return JoinAnswer(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.members.leader or "",
            members=tuple(m.joined(self.protocol) for m in self.members) if leads else (),
        )

    def _drop_assignments(self) -> None:
        for member in self.members:
            if self.state is GroupState.COMPLETING:
                self.members.assign(member, b"")
            member.answer_sync(SyncAnswer(ErrorCode.rebalance_in_progress))

    def _drop_unsynced(self) -> None:
        """Members that joined and sent no sync within the rebalance timeout are gone."""
        for member in self.members:
            if not member.synced:
                member.refuse_all(ErrorCode.unknown_member_id)
                self.members.remove(member)
        self.rebalance()

    def _rebalance_timeout_ms(self) -> int:
        return max((member.request.rebalance_timeout_ms for member in self.members), default=0)

    # what members ask

    def sync(self, request: SyncRequest, answer: SyncCallback) -> None:
        """Answer with the member's assignment, when the leader has given it.

        Raises:
            Refused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL or
                REBALANCE_IN_PROGRESS; then `answer` is not called.
        """
        member = self._check(request.identity, request.generation)
        if request.protocol_type not in {None, self.protocol_type} or request.protocol not in {None, self.protocol}:
            raise RefusedMember(ErrorCode.inconsistent_group_protocol)
        if self.state is GroupState.PREPARING:
            raise RefusedMember(ErrorCode.rebalance_in_progress)
        room = self.members.room_for_assignments(request.assignments.values(), self.settings.group_bytes_max)
        if room is not ErrorCode.none:
            raise RefusedMember(room)
        member.synced = True
        member.wait_sync(answer)
        if self.state is GroupState.COMPLETING and member.id == self.members.leader and not self._assigned:
            self._assign(request)
        elif self.state is GroupState.STABLE:
            member.answer_sync(self._sync_answer(member))
        if all(m.synced for m in self.members):
            self._stop_timer()

    def _assign(self, request: SyncRequest) -> None:
        """Nobody is told an assignment that a restart would forget: its commits would be refused."""
        self._assigned = True
        for member in self.members:
            self.members.assign(member, request.assignments.get(member.id, b""))
        generation = self.generation
        self.keep(self, lambda: self._become_stable(generation))

    def _become_stable(self, generation: int) -> None:
        if self.state is not GroupState.COMPLETING or self.generation != generation:
            return  # a rebalance has begun meanwhile
        self.state = GroupState.STABLE
        for member in self.members:
            member.answer_sync(self._sync_answer(member))

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(ErrorCode.none, self.protocol_type, self.protocol, member.assignment)

    def heartbeat(self, identity: Identity, generation: int) -> None:
        """Begin the member's session anew.

        Raises:
            Refused: REBALANCE_IN_PROGRESS (it must join), or it is not a member of this generation.
        """
        self._check(identity, generation).beat()
        if self.state is GroupState.PREPARING:
            raise RefusedMember(ErrorCode.rebalance_in_progress)

    def leave(self, identity: Identity) -> None:
        """Take a member out; a static one may be named by its instance id alone.

        Raises:
            Refused: no such member.
        """
        if identity.instance_id is not None and not identity.member_id:
            member = self.members.of_instance(identity.instance_id)
            if member is None:
                raise RefusedMember(ErrorCode.unknown_member_id)
            self.remove(member)
        elif identity.member_id in self.members.pending:
            self.forget_id(identity.member_id)
        else:
            self.remove(self.members.check(identity))

    def check_commit(self, identity: Identity, generation: int) -> None:
        """May offsets be committed so? A commit is a sign of life as well.

        Raises:
            Refused: the group is active and the committer is not a member of its generation, or REBALANCE_IN_PROGRESS.
        """
        if generation < 0 and self.state is GroupState.EMPTY:
            return
        if generation < 0 and not identity.member_id and identity.instance_id is None:
            raise RefusedMember(ErrorCode.unknown_member_id)
        self._check(identity, generation).beat()
        if self.state is GroupState.COMPLETING:
            raise RefusedMember(ErrorCode.rebalance_in_progress)

    def _check(self, identity: Identity, generation: int) -> Member:
        member = self.members.check(identity)
        if generation != self.generation:
            raise RefusedMember(ErrorCode.illegal_generation)
        return member

    def description(self) -> GroupDescription:
        """How DescribeGroups shows it."""
        return replace(self.summary(), members=tuple(member.description(self.protocol) for member in self.members))

    def summary(self) -> GroupDescription:
        """How ListGroups shows it: without its members."""
        protocol = (self.protocol or "") if self.state is GroupState.STABLE else ""
        return GroupDescription(self.key.group, self.state, self.protocol_type, protocol)

    # ends

    def release_if_unused(self) -> None:
        """Let the coordinator forget a group that nobody is in."""
        if self.state is GroupState.EMPTY and self.members.unused:
            self._on_unused(self)

    def close(self) -> None:
        """Stop all timers; requests that wait are told to look for the coordinator again."""
        self._stop_timer()
        for member_id in tuple(self.members.pending):
            self.members.forget_pending(member_id)
        for member in self.members:
            member.refuse_all(ErrorCode.not_coordinator)
            member.stop_timer()

    def _start_timer(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.scheduler.call_later(delay_ms / 1000, callback)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
