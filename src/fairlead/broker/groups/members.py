"""The members of one group: by id, by static instance, ids given out and not yet used, and what all of them know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.member import Member
from fairlead.broker.groups.values import Identity, JoinRequest, RefusedMember, Timer


class Members:
    """Who belongs to a group, in the order of joining; the leader is one of them whenever there is any."""

    def __init__(self) -> None:
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
        self._known_by.update(set(member.request.protocol_names))
        if member.identity.instance_id is not None:
            self._by_instance[member.identity.instance_id] = member.id
        self.forget_pending(member.id)

    def remove(self, member: Member) -> None:
        """Take a member out; another leads if it led."""
        member.stop_timer()
        if self._by_id.pop(member.id, None) is not None:
            self._known_by.subtract(set(member.request.protocol_names))
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
        self._known_by.subtract(set(member.request.protocol_names))
        self._known_by.update(set(request.protocol_names))
        member.request = request

    def forget_pending(self, member_id: str) -> bool:
        """Drop an id that was given out; False if it was not."""
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()
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
