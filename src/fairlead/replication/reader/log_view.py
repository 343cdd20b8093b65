"""What the source server has said on one connection about one shard: its announced end, its objects, its topics.

Nothing here is read from storage, and nothing is known except what the server said.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from fairlead.model.errors import Damaged
from fairlead.streamlog.frames.frame import FrameTopic
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.values import DeadFrom, LogObject
from fairlead.wire.control import (
    Announce,
    ListObjects,
    Locate,
    Located,
    Passing,
    PassingWanted,
    Topics,
    TopicsWanted,
)

Send = Callable[[object], Awaitable[None]]
_T = TypeVar("_T")
NUMBERS_ASKED_MAX = 10_000
"""Topics in one question whether they pass."""
LISTS_MAX = 3
"""A list that was made for another grant may come first; a hole that remains after this many lists is the log's."""


class LogView:
    """One shard, for all grants of it on a connection."""

    def __init__(self, source: bytes, shard: int, send: Send) -> None:
        self._source = source
        self._shard = shard
        self._send = send
        self._objects: list[LogObject] = []
        self._cuts: set[DeadFrom] = set()
        self._topics: dict[int, FrameTopic] = {}
        self._asked_topics: deque[asyncio.Future[Topics]] = deque()
        self._asked_passing: deque[asyncio.Future[Passing]] = deque()
        self._asked_places: deque[asyncio.Future[Located]] = deque()
        self._news = asyncio.Event()
        self.end = 0
        """Commits below this one may be read, and all their objects are named."""
        self._lists = 0

    # ------------------------------------------------------------ what the server says

    def announce(self, message: Announce) -> None:
        """Take in new objects, or with `reset` a list that replaces the known one from its first object on.

        New objects also replace known ones: announced commits may have been merged with later ones since.
        """
        if message.reset:
            self._lists += 1
        if message.objects:
            self._replace_from(message.objects[0], whole_run=message.reset)
        self._objects.extend(message.objects)
        self._cuts.update(message.cuts)
        self.end = message.end
        self._news.set()

    def _replace_from(self, first: LogObject, *, whole_run: bool) -> None:
        """Drop the known objects that the list beginning with `first` replaces. Objects of that run are dropped only
        with `whole_run`, since a list may be cut within a run."""
        if not self._objects or self._objects[-1].end <= first.first:
            return
        run = None if whole_run else (first.first, first.end)
        self._objects = [
            known for known in self._objects if known.end <= first.first or (known.first, known.end) == run
        ]

    def topics(self, message: Topics) -> None:
        """Take the answer to the oldest question about topics."""
        _answer(self._asked_topics, message)

    def passing(self, message: Passing) -> None:
        """Take the answer to the oldest question about topics that pass."""
        _answer(self._asked_passing, message)

    def located(self, message: Located) -> None:
        """Take the answer to the oldest question about places."""
        _answer(self._asked_places, message)

    # ------------------------------------------------------------ what grants ask

    async def beyond(self, commit: int) -> None:
        """Wait until commits from `commit` on may be read."""
        while self.end <= commit:
            await self._next_news()

    async def objects(self, first: int, end: int) -> list[LogObject]:
        """The objects of commits [first, end), without a hole; the first and last may hold other commits too.

        The view outlives a grant. A later grant may begin below what is still known here: then the server is asked,
        since rows left out by mistake would never be sent.

        Raises:
            Damaged: the server does not name objects for all of these commits either.
        """
        for _ in range(LISTS_MAX):
            if self._covers(first, end):
                return self._known(first, end)
            await self.list_again(first)
            while self.end < end:
                await self._next_news()
        raise Damaged(f"shard {self._shard} of {self._source.hex()}", f"no objects for all of [{first}, {end})")

    def _known(self, first: int, end: int) -> list[LogObject]:
        return [known for known in self._objects if known.end > first and known.first < end]

    def _covers(self, first: int, end: int) -> bool:
        reached = first
        for known in self._known(first, end):
            if known.first > reached:
                return False
            reached = max(reached, known.end)
        return reached >= end

    def dead(self) -> DeadRows:
        """What is dead of the commits that may be read. A cut that the server has not told of yet makes more of them
        dead: if these are sent, the other end drops them, since they belong to an epoch that has ended below them."""
        return DeadRows(self._cuts)

    def forget(self, before: int) -> None:
        """Forget the objects below this commit: nobody reads them any more. Of one that goes on behind it a later grant
        may read all, so what is dead in it stays known."""
        self._objects = [known for known in self._objects if known.end > before]
        first = min([before, *(known.first for known in self._objects[:1])])
        self._cuts = {cut for cut in self._cuts if cut[3] >= first}

    async def list_again(self, first: int) -> None:
        """Ask for the objects from `first` on, after one was missing, and wait for the new list."""
        lists = self._lists
        await self._send(ListObjects(self._source, self._shard, first))
        while self._lists == lists:
            await self._next_news()

    def learn(self, topics: Mapping[int, FrameTopic]) -> None:
        """Note what rows of the log say of their topics."""
        self._topics.update(topics)

    async def names(self, numbers: Iterable[int]) -> dict[int, FrameTopic]:
        """What these topic numbers mean; each number is asked for once. Those that no longer exist are left out."""
        wanted = set(numbers)
        missing = tuple(sorted(wanted - self._topics.keys()))
        if missing:
            question = _ask(self._asked_topics)
            await self._send(TopicsWanted(self._source, self._shard, missing))
            for topic in (await question).topics:
                self._topics[topic.number] = FrameTopic(topic.incarnation, topic.name)
        return {number: self._topics[number] for number in sorted(wanted) if number in self._topics}

    async def ask_passing(self, grant: int, numbers: Sequence[int]) -> list[int]:
        """Those of these topics that a grant brings."""
        found: list[int] = []
        for first in range(0, len(numbers), NUMBERS_ASKED_MAX):
            question = _ask(self._asked_passing)
            some = tuple(numbers[first : first + NUMBERS_ASKED_MAX])
            await self._send(PassingWanted(self._source, self._shard, grant, some))
            found += (await question).numbers
        return found

    async def locate(self, number: int, partition: int, offset: int) -> Located:
        """Which objects hold rows of this partition from `offset` on."""
        question = _ask(self._asked_places)
        await self._send(Locate(self._source, self._shard, number, partition, offset))
        return await question

    async def _next_news(self) -> None:
        self._news.clear()
        await self._news.wait()


def _ask(asked: deque[asyncio.Future[_T]]) -> asyncio.Future[_T]:
    """Queue a question; the server answers in the order of the questions."""
    question: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
    asked.append(question)
    return question


def _answer(asked: deque[asyncio.Future[_T]], message: _T) -> None:
    if asked:
        question = asked.popleft()
        if not question.cancelled():
            question.set_result(message)
