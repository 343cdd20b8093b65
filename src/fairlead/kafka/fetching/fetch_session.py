"""A fetch session (KIP-227): the broker remembers what is asked for, and a request says only what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fairlead.protocol.client_fetch import Asked, Topic

Key = tuple[Topic, int]
_NONE: Final = 0
_FIRST: Final = 0
_EPOCH_MAX: Final = 2**31 - 1


class Question(NamedTuple):
    """What a request says of its session and its partitions; none of them twice."""

    session: tuple[int, int]
    topics: dict[Topic, list[Asked]]
    forgotten: dict[Topic, list[int]]


class FetchSession:
    """What one broker is to remember for one connection of ours, and what of that it has not been told."""

    def __init__(self) -> None:
        self._id = _NONE
        self._epoch = _FIRST
        self._wanted: dict[Key, Asked] = {}
        self._untold: set[Key] = set()
        self._gone: set[Key] = set()

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, key: Key, asked: Asked) -> None:
        """Ask for a partition, or for another place in it."""
        self._wanted[key] = asked
        self._untold.add(key)
        self._gone.discard(key)

    def drop(self, key: Key) -> None:
        """Ask for it no more."""
        if self._wanted.pop(key, None) is not None:
            self._untold.discard(key)
            self._gone.add(key)

    def question(self) -> Question:
        """The next request. What it says counts as told: call `lost` or `forget` if the answer is none."""
        told = self._epoch != _FIRST
        keys: Iterable[Key] = self._untold if told else self._wanted
        topics: dict[Topic, list[Asked]] = {}
        for key in keys:
            topics.setdefault(key[0], []).append(self._wanted[key])
        forgotten: dict[Topic, list[int]] = {}
        for topic, partition in self._gone if told else ():
            forgotten.setdefault(topic, []).append(partition)
        self._untold, self._gone = set(), set()
        return Question((self._id, self._epoch), topics, forgotten)

    def answered(self, session_id: int) -> None:
        """The broker has answered, in this session; 0: it keeps none, and is told all each time."""
        if session_id == _NONE:
            self.forget()
        elif session_id != self._id:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = self._epoch % _EPOCH_MAX + 1

    def lost(self) -> None:
        """The broker is at another epoch of it: tell all again, so that it drops the old one for a new one."""
        self._epoch = _FIRST

    def forget(self) -> None:
        """The broker does not know it."""
        self._id, self._epoch = _NONE, _FIRST
