"""All groups of a server: the async side that handlers call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.group import Group
from fairlead.broker.groups.joining import join
from fairlead.broker.groups.values import (
    GroupDescription,
    GroupKey,
    GroupState,
    Held,
    Identity,
    JoinAnswer,
    JoinRequest,
    RefusedMember,
    Scheduler,
    SyncAnswer,
    SyncRequest,
)
from fairlead.model.clock import Randomness
from fairlead.model.names import GROUP_ID_BYTES_MAX
from fairlead.model.settings import Settings

T = TypeVar("T")

GROUP_BYTES: Final = 3_000
MEMBER_OBJECTS_BYTES: Final = 1_500
"""Of memory, beside what is `held`."""


class Coordinator:
    """Groups by (listener namespace, group id). Only groups with members, or with ids given out, are here."""

    def __init__(self, settings: Settings, randomness: Randomness, scheduler: Scheduler | None = None) -> None:
        self._settings = settings
        self._randomness = randomness
        self._scheduler = scheduler
        self.held = Held()
        """What all groups keep of their members."""
        self._groups: dict[GroupKey, Group] = {}
        self._by_id: dict[str, list[Group]] = {}
        """The same by group id: mostly one, on whichever listener."""

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def size_bytes(self) -> int:
        """About what groups and members take up, with what the members have said."""
        members = sum(len(group.members) for group in self._groups.values())
        return GROUP_BYTES * len(self._groups) + MEMBER_OBJECTS_BYTES * members + self.held.bytes

    async def join(self, key: GroupKey, request: JoinRequest) -> JoinAnswer:
        """Join, waiting for the generation to begin. Refusals come as answers."""
        future: asyncio.Future[JoinAnswer] = asyncio.get_running_loop().create_future()
        answer = _resolve(future)
        try:
            self._check_join(key, request)
            group = self._groups.get(key) or self._create(key)
            try:
                join(group, request, self._new_id, answer)
            finally:
                group.release_if_unused()
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
        """The group as it stands; Dead if nobody is in it."""
        group = self._groups.get(key)
        return GroupDescription(key.group, GroupState.DEAD) if group is None else group.description()

    def active(self, namespace: str) -> list[GroupDescription]:
        """Every group of a listener that has members or waits for some, without its members."""
        return [group.summary() for key, group in self._groups.items() if key.namespace == namespace]

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

    def close(self) -> None:
        """Stop every timer and answer all requests that wait."""
        groups, self._groups, self._by_id = self._groups, {}, {}
        for group in groups.values():
            group.close()

    def _check_join(self, key: GroupKey, request: JoinRequest) -> None:
        check_group_id(key.group)
        low, high = self._settings.session_timeout_min_ms, self._settings.session_timeout_max_ms
        if not low <= request.session_timeout_ms <= high:
            raise RefusedMember(ErrorCode.invalid_session_timeout)

    def _check_commit(self, key: GroupKey, identity: Identity, generation: int) -> None:
        check_group_id(key.group)
        group = self._groups.get(key)
        if group is not None:
            group.check_commit(identity, generation)
        elif generation >= 0:
            raise RefusedMember(ErrorCode.illegal_generation)

    def _group(self, key: GroupKey) -> Group:
        check_group_id(key.group)
        group = self._groups.get(key)
        if group is None:
            raise RefusedMember(ErrorCode.unknown_member_id)
        return group

    def _create(self, key: GroupKey) -> Group:
        if len(self._groups) >= self._settings.groups_max:
            raise RefusedMember(ErrorCode.group_max_size_reached)
        scheduler = self._scheduler or asyncio.get_running_loop()
        group = self._groups[key] = Group(key, self._settings, scheduler, self._forget, self.held)
        self._by_id.setdefault(key.group, []).append(group)
        return group

    def _forget(self, group: Group) -> None:
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
            self._by_id[group.key.group].remove(group)
            if not self._by_id[group.key.group]:
                del self._by_id[group.key.group]

    def _new_id(self, name: str) -> str:
        return f"{name}-{self._randomness.id16().hex()}"


def check_group_id(group_id: str) -> None:
    """
    Raises:
        Refused: INVALID_GROUP_ID, it is empty or too long.
    """
    if not group_id or len(group_id.encode()) > GROUP_ID_BYTES_MAX:
        raise RefusedMember(ErrorCode.invalid_group_id)


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
