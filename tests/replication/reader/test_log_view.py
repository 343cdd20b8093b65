"""What a reader knows of a shard's objects, and that it never takes a hole for the end of the log."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.model.errors import Damaged
from fairlead.replication.reader.log_view import LogView
from fairlead.streamlog.values import LogObject
from fairlead.wire.control import Announce, ListObjects

SOURCE = bytes(16)


def commits(first: int, end: int) -> tuple[LogObject, ...]:
    return tuple(LogObject(f"commit/{n}", n, n + 1, segment=False) for n in range(first, end))


class Server:
    """Answers each `ListObjects` with what it has, in messages of three objects."""

    def __init__(self, *objects: LogObject) -> None:
        self.objects = objects
        self.asked: list[int] = []
        self.view = LogView(SOURCE, 0, self.hear)

    async def hear(self, message: object) -> None:
        assert isinstance(message, ListObjects)
        self.asked.append(message.from_commit)
        asyncio.get_running_loop().call_soon(self.answer, message.from_commit)

    def answer(self, first: int) -> None:
        found = [known for known in self.objects if known.end > first]
        for index in range(0, len(found), 3):
            part = tuple(found[index : index + 3])
            self.view.announce(Announce(SOURCE, 0, end=part[-1].end, objects=part, reset=index == 0))


async def test_a_grant_that_begins_below_what_is_known_asks_for_the_objects_in_between() -> None:
    """A link that failed goes on at an older commit than the view still has: nothing is left out."""
    server = Server(*commits(0, 10))
    server.answer(0)
    server.view.forget(7)
    found = await server.view.objects(4, 10)
    assert [known.first for known in found] == [4, 5, 6, 7, 8, 9]
    assert server.asked == [4]


async def test_what_is_dead_in_an_object_is_known_as_long_as_the_object_is() -> None:
    """Commits were merged into one object, of which a grant has read the last ones only: a link that goes on at an
    older commit reads it without asking again, and would send what was cut."""
    server = Server(LogObject("segment/0", 0, 9, segment=True), *commits(9, 10))
    server.view.announce(Announce(SOURCE, 0, end=10, objects=server.objects, reset=True, cuts=((15, 0, 3, 5, 1),)))
    server.view.forget(8)
    await server.view.objects(1, 10)
    assert server.asked == []
    assert server.view.dead()
    server.view.forget(9)
    assert not server.view.dead()


async def test_objects_that_are_missing_before_the_announced_end_are_asked_for() -> None:
    """The list on this connection stopped short of the end that was announced."""
    server = Server(*commits(0, 10))
    server.view.announce(Announce(SOURCE, 0, end=10, objects=commits(0, 7), reset=True))
    found = await server.view.objects(0, 10)
    assert [known.first for known in found] == list(range(10))
    assert server.asked == [0]


async def test_objects_that_are_known_are_not_asked_for() -> None:
    """The usual case sends nothing."""
    server = Server(*commits(0, 5))
    server.answer(0)
    assert len(await server.view.objects(2, 5)) == 3
    assert server.asked == []


async def test_a_list_for_another_grant_is_not_taken_for_the_answer() -> None:
    """It begins later; taken for the answer, the commits before it would count as gone."""
    server = Server(*commits(0, 10))
    asking = asyncio.ensure_future(server.view.objects(2, 9))
    await asyncio.sleep(0)
    server.view.announce(Announce(SOURCE, 0, end=10, objects=commits(6, 10), reset=True))
    assert [known.first for known in await asking] == [2, 3, 4, 5, 6, 7, 8]


async def test_a_hole_that_the_server_has_too_is_damage() -> None:
    """Reading on would lose the rows of the missing commits."""
    server = Server(*commits(0, 3), *commits(5, 8))
    server.answer(0)
    with pytest.raises(Damaged, match=r"\[1, 8\)"):
        await server.view.objects(1, 8)


async def test_a_merged_run_replaces_the_commits_of_it_that_were_known() -> None:
    """Two commits were merged with a third that was not announced yet: read by both names they would come twice."""
    server = Server()
    server.view.announce(Announce(SOURCE, 0, end=3, objects=commits(0, 3), reset=True))
    run = LogObject("segment", 1, 4, segment=True)
    server.view.announce(Announce(SOURCE, 0, end=5, objects=(run, *commits(4, 5))))
    found = await server.view.objects(0, 5)
    assert [(known.first, known.end) for known in found] == [(0, 1), (1, 4), (4, 5)]
    assert server.asked == []


async def test_a_run_that_is_named_in_two_messages_is_read_whole() -> None:
    """The second message names more of the same run, and replaces nothing."""
    server = Server()
    control, data = (LogObject(name, 0, 4, segment=True) for name in ("control", "data"))
    server.view.announce(Announce(SOURCE, 0, end=0, objects=(control,), reset=True))
    server.view.announce(Announce(SOURCE, 0, end=5, objects=(data, *commits(4, 5))))
    assert await server.view.objects(0, 5) == [control, data, *commits(4, 5)]
