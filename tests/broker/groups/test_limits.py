"""What groups keep of their members is bounded, and given back when they go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.groups.stage import REQUEST, Stage, Unkept

from fairlead.broker.groups import members
from fairlead.broker.groups.coordinator import Coordinator
from fairlead.broker.groups.values import GroupKey, Identity, SyncRequest
from fairlead.model.clock import SystemRandomness
from fairlead.model.settings import Settings

KEY = GroupKey("", "g")


def said(size_bytes: int) -> tuple[tuple[str, bytes], ...]:
    return (("range", bytes(size_bytes)),)


def test_members_of_a_group_say_no_more_than_it_may_keep() -> None:
    """All together, and a member that joins again with more is refused too: it kept 10 times 50 MB."""
    stage = Stage(group_bytes_max=1000)
    one, two = stage.running(stage.actor(protocols=said(400)), stage.actor(protocols=said(400)))
    assert stage.actor(protocols=said(400)).join().joins[-1].error is ErrorCode.group_max_size_reached
    assert one.join(protocols=said(700)).joins[-1].error is ErrorCode.group_max_size_reached
    assert two.leave() is ErrorCode.none
    assert one.join(protocols=said(700)).joins[-1].error is ErrorCode.none


def test_an_assignment_is_bounded_too() -> None:
    """The leader may bring it again, smaller."""
    stage = Stage(group_bytes_max=1000)
    leader = stage.actor().join()
    member_id = leader.identity.member_id
    assert leader.sync({member_id: bytes(1001)}).syncs[-1].error is ErrorCode.group_max_size_reached
    assert leader.sync({member_id: bytes(1000)}).syncs[-1].error is ErrorCode.none


def test_names_of_protocols_go_with_the_member_that_knew_them() -> None:
    """Else a group that goes on keeps those of everybody who ever joined, and asks for them at each join."""
    stage = Stage()
    stage.running(stage.actor(), stage.actor(protocols=(("range", b""), ("own", b""))))[1].leave()
    assert stage.group.members.common_protocols() == {"range"}
    assert stage.actor(protocols=(("own", b""),)).join().joins[-1].error is ErrorCode.inconsistent_group_protocol


def coordinator(**settings: Any) -> Coordinator:
    return Coordinator(Settings(initial_rebalance_delay_ms=0, **settings), SystemRandomness(), Unkept())


async def test_all_groups_together_keep_no_more_than_some_of_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    """COORDINATOR_NOT_AVAILABLE, which clients try again: groups come and go. Ids that were given out count too."""
    monkeypatch.setattr(members, "GROUPS_HELD", 3)
    groups = coordinator(group_bytes_max=10_000)
    codes = [(await groups.join(GroupKey("", str(n)), replace(REQUEST, protocols=said(9000)))).error for n in range(5)]
    assert codes == [ErrorCode.none] * 3 + [ErrorCode.coordinator_not_available] * 2
    given = [await groups.join(KEY, replace(REQUEST, id_required=True)) for _ in range(10)]
    assert given[0].error is ErrorCode.member_id_required
    assert given[-1].error is ErrorCode.coordinator_not_available
    groups.close()


async def test_assignments_of_all_groups_together_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that say little joined as many groups as there may be, and were assigned a megabyte in each."""
    monkeypatch.setattr(members, "GROUPS_HELD", 3)
    groups = coordinator(group_bytes_max=10_000)
    codes = []
    for number in range(5):
        key = GroupKey("", str(number))
        joined = await groups.join(key, REQUEST)
        assigned = SyncRequest(Identity(joined.member_id), 1, assignments={joined.member_id: bytes(9000)})
        codes.append((await groups.sync(key, assigned)).error)
    assert codes == [ErrorCode.none] * 3 + [ErrorCode.coordinator_not_available] * 2
    groups.close()


async def test_what_a_member_said_is_given_back_when_it_goes() -> None:
    """By leaving, and as an id that never came."""
    groups = coordinator()
    answer = await groups.join(KEY, replace(REQUEST, protocols=said(5000)))
    member = Identity(answer.member_id)
    await groups.sync(KEY, SyncRequest(member, 1, assignments={answer.member_id: bytes(700)}))
    given = await groups.join(KEY, replace(REQUEST, id_required=True))
    assert groups.held.bytes > 5700
    assert groups.leave(KEY, Identity(given.member_id)) is ErrorCode.none
    assert groups.leave(KEY, member) is ErrorCode.none
    assert (groups.held.bytes, len(groups)) == (0, 0)


async def test_what_a_new_member_said_goes_with_the_connection_of_its_join() -> None:
    """It has no answer, so it knows of no membership. It stayed for five minutes."""
    groups = coordinator()
    first = Identity((await groups.join(KEY, REQUEST)).member_id)
    await groups.sync(KEY, SyncRequest(first, 1))
    before = groups.held.bytes
    waiting = asyncio.ensure_future(groups.join(KEY, replace(REQUEST, protocols=said(5000))))
    await asyncio.sleep(0)
    assert groups.held.bytes > before + 5000
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert groups.held.bytes == before
    groups.close()


async def test_a_server_has_so_many_groups() -> None:
    """A further one is refused with a code that clients take for final."""
    groups = coordinator(groups_max=2)
    codes = [(await groups.join(GroupKey("", str(n)), REQUEST)).error for n in range(3)]
    assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.group_max_size_reached]
    groups.close()
