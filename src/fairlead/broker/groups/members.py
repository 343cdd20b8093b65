"""The members of one group: by id, by static instance, ids given out and not yet used, and what all of them know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.member import Member
from fairlead.broker.groups.values import MEMBER_BYTES, Held, Identity, JoinRequest, RefusedMember, Timer

GROUPS_HELD: Final = 100
"""All groups together keep as much of their members as so many of the largest."""


class Members:
    """Who belongs to a group, in the order of joining; the leader is one of them whenever there is any."""

    def __init__(self, held: Held | None = None) -> None:
        """`held`: counts for all groups together."""
        self._held = held or Held()
        self.said_bytes = 0
        """What its members said with their joins."""
        self.leader: str | None = None
        self.pending: dict[str, Timer] = {}
        """Ids given out with MEMBER_ID_REQUIRED, each with the timer that forgets it (KIP-394)."""
        self._by_id: dict[str, Member] = {}
        self._by_instance: dict[str, str] = {}
        self._known_by: Counter[str] = Counter()
        """How many members know a protocol, so that a join costs the same in a group of thousands."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._by_id.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    @property
    def unused(self) -> bool:
        """Neither a member nor an id that may still come."""
        return not self._by_id and not self.pending

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def of_instance(self, instance_id: str) -> Member | None:
        """The static member of this `group.instance.id`."""
        return self._by_id.get(self._by_instance.get(instance_id, ""))

    def check(self, identity: Identity) -> Member:
        """The member that calls itself so.

        Raises:
            Refused: FENCED_INSTANCE_ID, another member holds this instance id now; UNKNOWN_MEMBER_ID, nobody is it.
        """
        if identity.instance_id is not None:
            holder = self._by_instance.get(identity.instance_id)
            if holder is None:
                raise RefusedMember(ErrorCode.unknown_member_id)
            if holder != identity.member_id:
                raise RefusedMember(ErrorCode.fenced_instance_id)
        member = self._by_id.get(identity.member_id)
        if member is None:
            raise RefusedMember(ErrorCode.unknown_member_id)
        return member

    def add(self, member: Member) -> None:
        if self.leader is None:
            self.leader = member.id
        self._by_id[member.id] = member
        self._count(member.request.size_bytes, MEMBER_BYTES)
        self._known_by.update(set(member.request.protocol_names))
        if member.identity.instance_id is not None:
            self._by_instance[member.identity.instance_id] = member.id
        self.forget_pending(member.id)

    def remove(self, member: Member) -> None:
        """Take a member out; another leads if it led."""
        member.stop_timer()
        if self._by_id.pop(member.id, None) is not None:
            self.assign(member, b"")
            self._count(-member.request.size_bytes, -MEMBER_BYTES)
            self._forget_protocols(member)
        instance = member.identity.instance_id
        if instance is not None and self._by_instance.get(instance) == member.id:
            del self._by_instance[instance]
        if self.leader == member.id:
            self.leader = next(iter(self._by_id), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back: the same member under a new id, leader if it was (KIP-345)."""
        led = self.leader == member.id
        self._by_id = {(member_id if known == member.id else known): value for known, value in self._by_id.items()}
        member.identity = Identity(member_id, member.identity.instance_id)
        if member.identity.instance_id is not None:
            self._by_instance[member.identity.instance_id] = member_id
        if led:
            self.leader = member_id

    def update(self, member: Member, request: JoinRequest) -> None:
        """What a member says with a new join stands from now on."""
        self._forget_protocols(member)
        self._known_by.update(set(request.protocol_names))
        self._count(request.size_bytes - member.request.size_bytes)
        member.request = request

    def assign(self, member: Member, assignment: bytes) -> None:
        """What a member shall read."""
        self._held.bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def expect(self, member_id: str, timer: Timer) -> None:
        """An id was given out, and the timer forgets it."""
        self.pending[member_id] = timer
        self._held.bytes += len(member_id) + MEMBER_BYTES

    def room_for(self, said_bytes: int, group_bytes_max: int) -> ErrorCode:
        """May its members say so much more? Groups come and go, so what is too much for all may fit later."""
        if self.said_bytes + said_bytes > group_bytes_max:
            return ErrorCode.group_max_size_reached
        return self._room_in_all(said_bytes, group_bytes_max)

    def room_for_assignments(self, assignments: Iterable[bytes], group_bytes_max: int) -> ErrorCode:
        """The same for what they are told to read."""
        assigned_bytes = sum(map(len, assignments))
        if assigned_bytes > group_bytes_max:
            return ErrorCode.group_max_size_reached
        return self._room_in_all(assigned_bytes, group_bytes_max)

    def _room_in_all(self, more_bytes: int, group_bytes_max: int) -> ErrorCode:
        full = more_bytes and self._held.bytes + more_bytes > GROUPS_HELD * group_bytes_max
        return ErrorCode.coordinator_not_available if full else ErrorCode.none

    def _forget_protocols(self, member: Member) -> None:
        for name in set(member.request.protocol_names):
            self._known_by[name] -= 1
            if not self._known_by[name]:
                del self._known_by[name]

    def _count(self, said_bytes: int, beside_bytes: int = 0) -> None:
        self.said_bytes += said_bytes
        self._held.bytes += said_bytes + beside_bytes

    def forget_pending(self, member_id: str) -> bool:
        """Drop an id that was given out; False if it was not."""
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()
            self._held.bytes -= len(member_id) + MEMBER_BYTES
        return timer is not None

    def elect_joined_leader(self) -> bool:
        """Let one that has joined lead if the leader has not; False if none has joined."""
        leader = self.get(self.leader or "")
        if leader is not None and leader.awaits_join:
            return True
        for member in self:
            if member.awaits_join:
                self.leader = member.id
                return True
        return False

    def common_protocols(self, without: Member | None = None) -> set[str]:
        """Protocol names that every member (but one) knows."""
        others = len(self) - (without is not None)
        own = set(without.request.protocol_names) if without is not None else set()
        return {name for name, known in self._known_by.items() if known - (name in own) == others} if others else set()

    def select_protocol(self) -> str:
        """The protocol that most members like best of those that all know; there is one, joins are checked for it."""
        common = self.common_protocols()
        votes = Counter(self._favourite(member.request.protocol_names, common) for member in self)
        return max(votes.items(), key=lambda vote: (vote[1], vote[0]))[0]

    @staticmethod
    def _favourite(names: Iterable[str], common: set[str]) -> str:
        return next(name for name in names if name in common)
