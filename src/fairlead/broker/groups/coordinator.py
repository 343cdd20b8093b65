"""All groups of a server: the async side that handlers call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.group import Group
from fairlead.broker.groups.joining import join
from fairlead.broker.groups.records import Cuts, GroupRecord, GroupStore, Since, nobody_waits
from fairlead.broker.groups.values import (
    GroupDescription,
    GroupKey,
    GroupState,
    Held,
    Identity,
    JoinAnswer,
    JoinRequest,
    RefusedMember,
    SyncAnswer,
    SyncRequest,
)
from fairlead.model.clock import Randomness
from fairlead.model.names import GROUP_ID_BYTES_MAX
from fairlead.model.settings import Settings

T = TypeVar("T")

GROUP_BYTES: Final = 3_000
MEMBER_OBJECTS_BYTES: Final = 1_500
EMPTY_BYTES: Final = 500
"""Of memory, beside what is `held`."""
EMPTY_GROUPS_MAX: Final = 10_000
"""So many groups that their members have left are remembered; the one that has been empty for longest is forgotten."""


class Coordinator:
    """Groups by (listener namespace, group id): those with members or with ids given out, and the empty ones."""

    def __init__(self, settings: Settings, randomness: Randomness, store: GroupStore) -> None:
        self._settings = settings
        self._randomness = randomness
        self._store = store
        self.held = Held()
        """What all groups keep of their members."""
        self._groups: dict[GroupKey, Group] = {}
        self._by_id: dict[str, list[Group]] = {}
        """The same by group id: mostly one, on whichever listener."""
        self._closed = False
        self._empty: dict[GroupKey, GroupRecord] = {}
        """What is known of groups without members, those that have been empty for longest first."""
        self._since: dict[str, Since] = {}
        """Of group ids that have members: where the log was when the first one joined, on whichever listener."""

    def resume(self) -> None:
        """Go on with the groups that were kept, before clients come."""
        for key, record in self._store.known():
            if record.members:
                self._create(key).resume(record)
                self._since.setdefault(key.group, record.nonempty_since)
            else:
                self._empty[key] = record

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def size_bytes(self) -> int:
        """About what groups and members take up, with what the members have said."""
        members = sum(len(group.members) for group in self._groups.values())
        groups = GROUP_BYTES * len(self._groups) + EMPTY_BYTES * len(self._empty)
        return groups + MEMBER_OBJECTS_BYTES * members + self.held.bytes + self._store.size_bytes

    async def join(self, key: GroupKey, request: JoinRequest) -> JoinAnswer:
        """Join, waiting for the generation to begin. Refusals come as answers."""
        future: asyncio.Future[JoinAnswer] = asyncio.get_running_loop().create_future()
        answer = _resolve(future)
        try:
            self._check_join(key, request)
            group = self._groups.get(key) or self._admit(key)
            was_empty = not self.has_members(key.group)
            try:
                join(group, request, self._new_id, answer)
            finally:
                group.release_if_unused()
            if was_empty and self.has_members(key.group):
                self._since[key.group] = self._store.commits_now(key.group)
        except RefusedMember as refused:
            return JoinAnswer(request.identity.member_id, refused.code)
        try:
            return await future
        except asyncio.CancelledError:
            group.gave_up(answer)
            raise

    async def sync(self, key: GroupKey, request: SyncRequest) -> SyncAnswer:
        """The member's assignment, waiting for the leader. Refusals come as answers."""
        future: asyncio.Future[SyncAnswer] = asyncio.get_running_loop().create_future()
        answer = _resolve(future)
        try:
            group = self._group(key)
            group.sync(request, answer)
        except RefusedMember as refused:
            return SyncAnswer(refused.code)
        try:
            return await future
        except asyncio.CancelledError:
            group.gave_up(answer)
            raise

    def heartbeat(self, key: GroupKey, identity: Identity, generation: int) -> ErrorCode:
        """Begin the member's session anew."""
        return _code(lambda: self._group(key).heartbeat(identity, generation))

    def leave(self, key: GroupKey, identity: Identity) -> ErrorCode:
        """Take a member out."""
        return _code(lambda: self._group(key).leave(identity))

    def check_commit(self, key: GroupKey, identity: Identity, generation: int) -> ErrorCode:
        """May offsets be committed by this member, or by somebody who is none (generation -1)?"""
        return _code(lambda: self._check_commit(key, identity, generation))

    def describe(self, key: GroupKey) -> GroupDescription:
        """The group as it stands; Dead if it is not known."""
        group = self._groups.get(key)
        if group is not None:
            return group.description()
        record = self._empty.get(key)
        return GroupDescription(key.group, GroupState.DEAD) if record is None else _description(key, record)

    def known(self, namespace: str) -> list[GroupDescription]:
        """Every group of a listener that has members, waits for some or had some, without its members."""
        return [
            *(group.summary() for key, group in self._groups.items() if key.namespace == namespace),
            *(
                _description(key, record)
                for key, record in self._empty.items()
                if key.namespace == namespace and key not in self._groups
            ),
        ]

    def remember(self, key: GroupKey) -> None:
        """Know a group that nobody is in, although it has no cursor any more."""
        if key not in self._groups and key not in self._empty:
            self._keep_empty(key, GroupRecord())

    async def forget(self, key: GroupKey) -> bool:
        """Forget a group that nobody is in; False if none was known.

        Raises:
            FairleadError: it could not be written.
        """
        record = self._empty.get(key)
        if record is None:
            return False
        await self._store.forget(key)
        if self._empty.get(key) is record:
            del self._empty[key]
        return True

    def forget_namespaces(self, left: Container[str]) -> None:
        """Forget the groups of listeners that are no more: their streams were deleted."""
        for group in [group for key, group in self._groups.items() if key.namespace not in left]:
            group.close()
            self._forget(group)
        for key in [key for key in self._empty if key.namespace not in left]:
            del self._empty[key]
            self._store.forget(key)

    def nonempty_since(self, group_id: str, stream: bytes, shard: int) -> int | None:
        """The commit of a shard from which on rows came while the group had members, through whichever listener; None
        while it has none. What the shard knew of the group before the first member joined lies below it."""
        if not self.has_members(group_id):
            return None
        commits = self._since.get(group_id, {}).get(stream.hex(), ())
        return commits[shard] if shard < len(commits) else 0

    def has_members(self, group_id: str) -> bool:
        """Is anybody in this group, through whichever listener?"""
        return any(len(group.members) for group in self._by_id.get(group_id, ()))

    def subscriptions(self, group_id: str) -> list[tuple[str, bytes]]:
        """(protocol type, subscription) of each member, through whichever listener."""
        return [
            (group.protocol_type, member.subscription(group.protocol))
            for group in self._by_id.get(group_id, ())
            for member in group.members
        ]

    def known_cuts(self, key: GroupKey) -> Cuts | None:
        """The cuts that the members of the group's generation know of; None while it has none."""
        group = self._groups.get(key)
        return group.known_cuts if group is not None and len(group.members) else None

    def cuts_now(self) -> Cuts:
        """Where the logs were cut."""
        return self._store.cuts_now()

    def is_in(self, key: GroupKey, generation: int) -> bool:
        """Whether the group has members and no later generation."""
        group = self._groups.get(key)
        return group is not None and len(group.members) > 0 and group.generation == generation

    def behind_cuts(self) -> list[Group]:
        """The groups with members that were told where to read before the newest cut."""
        now = self._store.cuts_now()
        return [group for group in self._groups.values() if len(group.members) and group.known_cuts != now]

    def close(self) -> None:
        """Stop every timer and answer all requests that wait, and those that still come: the members have not left."""
        self._closed = True
        groups, self._groups, self._by_id = self._groups, {}, {}
        self._empty = {}
        for group in groups.values():
            group.close()

    def _check(self, key: GroupKey) -> None:
        check_group_id(key.group)
        if self._closed:
            raise RefusedMember(ErrorCode.not_coordinator)

    def _check_join(self, key: GroupKey, request: JoinRequest) -> None:
        self._check(key)
        low, high = self._settings.session_timeout_min_ms, self._settings.session_timeout_max_ms
        if not low <= request.session_timeout_ms <= high:
            raise RefusedMember(ErrorCode.invalid_session_timeout)

    def _check_commit(self, key: GroupKey, identity: Identity, generation: int) -> None:
        self._check(key)
        group = self._groups.get(key)
        if group is not None:
            group.check_commit(identity, generation)
        elif generation >= 0:
            raise RefusedMember(ErrorCode.illegal_generation)

    def _group(self, key: GroupKey) -> Group:
        self._check(key)
        group = self._groups.get(key)
        if group is None:
            raise RefusedMember(ErrorCode.unknown_member_id)
        return group

    def _admit(self, key: GroupKey) -> Group:
        if len(self._groups) >= self._settings.groups_max:
            raise RefusedMember(ErrorCode.group_max_size_reached)
        group = self._create(key)
        if key in self._empty:
            group.resume(self._empty[key])
        return group

    def _create(self, key: GroupKey) -> Group:
        loop, cuts_now = asyncio.get_running_loop(), self._store.cuts_now
        group = Group(key, self._settings, loop, self._forget, self.held, keep=self._keep, cuts_now=cuts_now)
        self._groups[key] = group
        self._by_id.setdefault(key.group, []).append(group)
        return group

    def _keep(self, group: Group, done: Callable[[], object]) -> None:
        if self._groups.get(group.key) is not group:
            done()  # its stream was deleted
        elif len(group.members):
            self._empty.pop(group.key, None)
            self._store.keep(group.key, group.record(self._since.get(group.key.group, {})), done)
        else:
            self._keep_empty(group.key, group.record({}))

    def _keep_empty(self, key: GroupKey, record: GroupRecord) -> None:
        self._empty.pop(key, None)
        self._empty[key] = record
        self._store.keep(key, record, nobody_waits)
        if len(self._empty) > EMPTY_GROUPS_MAX:
            oldest = next(iter(self._empty))
            del self._empty[oldest]
            self._store.forget(oldest)

    def _forget(self, group: Group) -> None:
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
            self._by_id[group.key.group].remove(group)
            if not self._by_id[group.key.group]:
                del self._by_id[group.key.group]
                self._since.pop(group.key.group, None)

    def _new_id(self, name: str) -> str:
        return f"{name}-{self._randomness.id16().hex()}"


def check_group_id(group_id: str) -> None:
    """
    Raises:
        Refused: INVALID_GROUP_ID, it is empty or too long.
    """
    if not group_id or len(group_id.encode()) > GROUP_ID_BYTES_MAX:
        raise RefusedMember(ErrorCode.invalid_group_id)


def _description(key: GroupKey, record: GroupRecord) -> GroupDescription:
    return GroupDescription(key.group, GroupState.EMPTY, record.protocol_type)


def _resolve(future: asyncio.Future[T]) -> Callable[[T], None]:
    def resolve(answer: T) -> None:
        if not future.done():
            future.set_result(answer)

    return resolve


def _code(step: Callable[[], None]) -> ErrorCode:
    try:
        step()
    except RefusedMember as refused:
        return refused.code
    return ErrorCode.none
