"""What a group committed at another site: it counts for members that come, not for those that are there."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from tests.broker.group_logs.test_cuts import commit, told, write
from tests.broker.group_logs.test_group_log import KEY, Server, serving

from fairlead.broker.groups.values import Identity
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.requests.cursors import MOVED_VERSIONS, put_published

ELSEWHERE = b"e" * 16


async def comes(server: Server, offset: int, version: int, seen: int = 0) -> None:
    """A link brings what the group has committed at the other site."""
    shard, topic = server.cluster.stream("/default").topic("a")
    cursor = Cursor(offset, 0, "", 1, version, ELSEWHERE, seen)
    await shard.submit(lambda draft: put_published(draft, "g", topic.number, 0, cursor))


async def test_members_begin_where_the_group_was_elsewhere_and_then_go_on_by_themselves() -> None:
    """Also after a restart: the group's record says since when it has members."""
    async with serving() as server:
        await write(server.cluster.stream("/default"), 20)
        assert await commit(server, None, 3) is ErrorCode.none
        await comes(server, 8, 7)
        assert await told(server) == (8, 0)
        member = await server.member(KEY)
        assert await told(server) == (8, 0)
        assert await commit(server, member, 9) is ErrorCode.none
        await comes(server, 15, 2 * MOVED_VERSIONS)
        assert await told(server) == (9, 0)
        await server.written()
        left = server.left()
    async with serving(left) as again:
        assert await told(again) == (9, 0)
        assert again.groups.leave(KEY, Identity(member.member_id)) is ErrorCode.none
        assert await told(again) == (15, 0)


async def test_what_is_ahead_of_the_records_is_told_as_their_end() -> None:
    """Beyond it, a consumer would be told that the offset is out of range, and might begin at the newest record."""
    async with serving() as server:
        await write(server.cluster.stream("/default"), 5)
        await comes(server, 8, 7)
        assert await told(server) == (5, 0)
        await write(server.cluster.stream("/default"), 5)
        assert await told(server) == (8, 0)
