"""A group on a stage: a scheduler whose clock the test turns, and members that write down what they are told."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from kio.schema.errors import ErrorCode

from fairlead.broker.groups.group import Group
from fairlead.broker.groups.joining import join
from fairlead.broker.groups.records import RECORD, Cuts, GroupRecord, Since
from fairlead.broker.groups.values import (
    GroupKey,
    Identity,
    JoinAnswer,
    JoinRequest,
    RefusedMember,
    SyncAnswer,
    SyncRequest,
)
from fairlead.model.settings import Settings


class Unkept:
    """Keeps nothing: groups live as long as the process."""

    size_bytes = 0

    def known(self) -> Iterable[tuple[GroupKey, GroupRecord]]:
        return ()

    def keep(self, key: GroupKey, record: GroupRecord, done: Callable[[], object]) -> None:
        done()

    def forget(self, key: GroupKey) -> asyncio.Future[None]:
        forgotten = asyncio.get_running_loop().create_future()
        forgotten.set_result(None)
        return forgotten

    def commits_now(self, group_id: str) -> Since:
        return {}

    def cuts_now(self) -> Cuts:
        return {}


class Handle:
    def __init__(self, at_s: float, callback: Callable[[], object]) -> None:
        self.at_s = at_s
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandTurned:
    """A scheduler that runs what is due when the test turns its clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = count()
        self._due: list[tuple[float, int, Handle]] = []

    def call_later(self, delay: float, callback: Callable[[], object]) -> Handle:
        handle = Handle(self.now_s + delay, callback)
        heapq.heappush(self._due, (handle.at_s, next(self._order), handle))
        return handle

    def turn(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self._due and self._due[0][0] <= until_s:
            at_s, _, handle = heapq.heappop(self._due)
            self.now_s = at_s
            if handle.callback is not None:
                handle.callback()
        self.now_s = until_s

    @property
    def timers(self) -> int:
        return sum(handle.callback is not None for _, _, handle in self._due)


REQUEST = JoinRequest(
    Identity(""), "client", "127.0.0.1", 10_000, 30_000, "consumer", (("range", b"sub"),), id_required=False
)


@dataclass
class Actor:
    """A client as the group sees it."""

    stage: Stage
    request: JoinRequest
    joins: list[JoinAnswer] = field(default_factory=list)
    syncs: list[SyncAnswer] = field(default_factory=list)

    @property
    def identity(self) -> Identity:
        return self.request.identity

    @property
    def generation(self) -> int:
        return self.joins[-1].generation

    @property
    def leads(self) -> bool:
        return self.joins[-1].leader == self.identity.member_id

    def join(self, **changes: Any) -> Actor:
        self.request = replace(self.request, **changes)
        try:
            join(self.stage.group, self.request, self.stage.new_id, self.hear)
        except RefusedMember as refused:
            self.hear(JoinAnswer(self.identity.member_id, refused.code))
        return self

    def hear(self, answer: JoinAnswer) -> None:
        self.joins.append(answer)
        if answer.error in {ErrorCode.none, ErrorCode.member_id_required}:
            self.request = replace(self.request, identity=replace(self.identity, member_id=answer.member_id))

    def sync(self, assignments: dict[str, bytes] | None = None, generation: int | None = None) -> Actor:
        generation = self.generation if generation is None else generation
        request = SyncRequest(self.identity, generation, assignments=assignments or {})
        try:
            self.stage.group.sync(request, self.syncs.append)
        except RefusedMember as refused:
            self.syncs.append(SyncAnswer(refused.code))
        return self

    def beat(self, generation: int | None = None) -> ErrorCode:
        return code(
            lambda: self.stage.group.heartbeat(self.identity, self.generation if generation is None else generation)
        )

    def leave(self) -> ErrorCode:
        return code(lambda: self.stage.group.leave(self.identity))


def code(step: Callable[[], None]) -> ErrorCode:
    try:
        step()
    except RefusedMember as refused:
        return refused.code
    return ErrorCode.none


class Stage:
    """One group, its scheduler, who was forgotten, and what was kept of the group."""

    def __init__(self, *, keeps_late: bool = False, **settings: Any) -> None:
        """`keeps_late`: a record is kept when the test says so."""
        self.keeps_late = keeps_late
        self.kept: GroupRecord | None = None
        """The newest record that is durable."""
        self._waiting: list[tuple[GroupRecord, Callable[[], object]]] = []
        self._settings = Settings(**{"initial_rebalance_delay_ms": 0, **settings})
        self._ids = count(1)
        self._start()

    def _start(self) -> None:
        self.scheduler = HandTurned()
        self.forgotten: list[Group] = []
        self.group = Group(GroupKey("", "g"), self._settings, self.scheduler, self.forgotten.append, keep=self._keep)

    def _keep(self, group: Group, done: Callable[[], object]) -> None:
        self._waiting.append((group.record({}), done))
        if not self.keeps_late:
            self.keep()

    def keep(self) -> None:
        """What waits to be kept becomes durable."""
        while self._waiting:
            self.kept, done = self._waiting.pop(0)
            done()

    def kill(self) -> None:
        """The server ends as by `kill -9`, and another one goes on with what was kept."""
        self._waiting.clear()
        self._start()
        if self.kept is not None:
            self.group.resume(RECORD.read(RECORD.write(self.kept)))

    def new_id(self, name: str) -> str:
        return f"{name}-{next(self._ids)}"

    def actor(self, **changes: Any) -> Actor:
        return Actor(self, replace(REQUEST, **changes))

    def static(self, instance: str, **changes: Any) -> Actor:
        return self.actor(identity=Identity("", instance), **changes)

    def running(self, *actors: Actor) -> tuple[Actor, ...]:
        """Bring actors into one stable generation; the first one leads, each is assigned its own member id."""
        for place, actor in enumerate(actors):
            actor.join()
            for earlier in actors[:place]:
                earlier.join()
        assignments = {actor.identity.member_id: actor.identity.member_id.encode() for actor in actors}
        for actor in actors:
            actor.sync(assignments if actor.leads else None)
        return actors
