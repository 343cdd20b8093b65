"""What is kept of a group, so that its members go on after a restart as if nothing had happened.

A record is the whole group at the end of a rebalance: it is written before the members are told their assignments, when
a static member comes back under another id, and when the last member has gone. What happens in between (heartbeats, a
rebalance that has begun) is not: after a restart the group is as its newest record says, every session begins anew, and
whoever does not come back is timed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairlead.broker.groups.values import MEMBER_BYTES, GroupKey
from fairlead.model.strict_json import JsonForm, Natural

Since = Mapping[str, tuple[int, ...]]
"""By the id of a stream in hex: for each of its shards the number of its next commit when the group's first member
joined, 0 where the group had no cursor then. Streams without any cursor of the group are not there."""
Cuts = Mapping[str, tuple[int, ...]]
"""By the id of a stream in hex: for each of its shards the number of the commit after its newest cut, 0 where none is.
Streams without any cut are not there."""


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member: what it said with its join, and its assignment."""

    id: str
    instance: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Natural
    rebalance_timeout_ms: Natural
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes

    @property
    def size_bytes(self) -> int:
        """About what it takes in a record."""
        return MEMBER_BYTES + len(self.assignment) + sum(len(name) + len(data) for name, data in self.protocols)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A stable group, or one that is empty: then without members, protocol and leader."""

    generation: Natural = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    members: tuple[MemberRecord, ...] = ()
    nonempty_since: Mapping[str, tuple[Natural, ...]] = field(default_factory=dict)
    known_cuts: Mapping[str, tuple[Natural, ...]] = field(default_factory=dict)
    """Of when the generation began."""

    @property
    def size_bytes(self) -> int:
        """About what its members take in it."""
        return sum(member.size_bytes for member in self.members)


RECORD: Final = JsonForm(GroupRecord, unknown="forbid", whole=True)


def nobody_waits() -> None:
    """In place of a callback, for a record that nobody waits for."""


class GroupStore(Protocol):
    """Where records are kept; one for each group, the newest."""

    @property
    def size_bytes(self) -> int:
        """Of memory, for all records."""
        ...

    def known(self) -> Iterable[tuple[GroupKey, GroupRecord]]:
        """All that was kept when the server started."""
        ...

    def keep(self, key: GroupKey, record: GroupRecord, done: Callable[[], object]) -> None:
        """Keep a record in the place of the one before; `done` is called once it, or a newer one, is durable. It is
        called too if it could not be written: the group goes on, and after a restart its members join again."""
        ...

    def forget(self, key: GroupKey) -> asyncio.Future[None]:
        """Forget a group's record. The future fails with FairleadError if that could not be written."""
        ...

    def commits_now(self, group_id: str) -> Since:
        """The next commits of the shards in which the group has cursors."""
        ...

    def cuts_now(self) -> Cuts:
        """Where the logs were cut."""
        ...
