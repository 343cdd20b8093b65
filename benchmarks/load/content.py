"""What the records hold, the same for every system, made and checked as arrays.

A value, little-endian: producer uint16 in the upper and topic number in the lower 48 bits of a uint64 | sequence uint64
| filler. The sequence counts from 0 for each (producer, topic); the topic number is the place in the list of topics,
so it does not depend on what a system calls the topic. The filler is a window of one pool, chosen by the 16 bytes
before it: text in which names of fields return and their contents do not, which lz4 makes about half as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

HEADER_BYTES = 16
VALUE_BYTES_MIN = 100
"""Smaller records are refused: their filler would be too short to compress like anything real."""
_POOL_BYTES = 1 << 22
"""Far more than the 64 KiB in which lz4 looks back: a window is hardly ever met twice there."""
_PRODUCER_SHIFT = np.uint64(48)
_TOPIC_MASK = np.uint64((1 << 48) - 1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FIELDS = (b',"vessel":"', b',"longitude":', b',"latitude":', b',"course":', b',"status":"', b',"reported":"')
_CONTENT_BYTES = 7


class WrongContent(Exception):
    """A record is not what was produced, or is not where its sequence says."""


def topic_names(topics: Sequence[str] | dict[str, Any]) -> list[str]:
    """The topics as a list; `{"format": "/bench:t{:06d}", "count": 1000, "first": 0}` stands for many."""
    if not isinstance(topics, dict):
        return list(topics)
    first = int(topics.get("first", 0))
    return [topics["format"].format(number) for number in range(first, first + int(topics["count"]))]


def _pool() -> Bytes:
    """The same bytes in every process."""
    random = np.random.default_rng(1)
    letters = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-", np.uint8)
    whole = sum(len(name) + _CONTENT_BYTES for name in _FIELDS)
    rows = np.empty((_POOL_BYTES // whole, whole), np.uint8)
    place = 0
    for name in _FIELDS:
        rows[:, place : place + len(name)] = np.frombuffer(name, np.uint8)
        place += len(name)
        contents = letters[random.integers(0, len(letters), (len(rows), _CONTENT_BYTES))]
        rows[:, place : place + _CONTENT_BYTES] = contents
        place += _CONTENT_BYTES
    return rows.ravel()


class Content:
    """Makes the values of records of one size and takes them apart again."""

    def __init__(self, record_bytes: int) -> None:
        if record_bytes < VALUE_BYTES_MIN:
            raise ValueError(f"records of {record_bytes} bytes; at least {VALUE_BYTES_MIN}")
        self.record_bytes = record_bytes
        filler = record_bytes - HEADER_BYTES
        pool = _pool()
        if filler * 2 > len(pool):
            pool = np.tile(pool, filler * 2 // len(pool) + 1)
        self._windows = np.lib.stride_tricks.sliding_window_view(pool, filler)
        self._places = np.uint64(len(self._windows))

    def values(self, producer: int, topics: npt.ArrayLike, sequences: npt.ArrayLike) -> Bytes:
        """A row of bytes for each record; `topics` and `sequences` are numbers or arrays of equal length."""
        topic, sequence = np.broadcast_arrays(
            np.atleast_1d(np.asarray(topics, np.uint64)), np.asarray(sequences, np.uint64)
        )
        head = np.empty((len(topic), 2), "<u8")
        head[:, 0] = (np.uint64(producer) << _PRODUCER_SHIFT) | topic
        head[:, 1] = sequence
        out = np.empty((len(topic), self.record_bytes), np.uint8)
        out[:, :HEADER_BYTES] = head.view(np.uint8)
        out[:, HEADER_BYTES:] = self._filler(head)
        return out

    def messages(self, producer: int, topic: int, first: int, count: int) -> list[bytes]:
        """The values of `count` records from sequence `first` on, as bytes."""
        return as_bytes(self.values(producer, topic, np.arange(first, first + count, dtype=np.uint64)))

    def read(self, values: Bytes) -> tuple[Longs, Longs, Longs]:
        """Producer, topic number and sequence of each row.

        Raises:
            WrongContent: a row's filler is not what its beginning says.
        """
        if values.ndim != 2 or values.shape[1] != self.record_bytes:
            raise WrongContent(f"values of {values.shape[-1]} bytes, not {self.record_bytes}")
        head = np.ascontiguousarray(values[:, :HEADER_BYTES]).view("<u8")
        same = (self._filler(head) == values[:, HEADER_BYTES:]).all(axis=1)
        if not same.all():
            raise WrongContent(f"{np.count_nonzero(~same)} of {len(values)} records differ from what was produced")
        key, sequence = head[:, 0], head[:, 1]
        return (
            (key >> _PRODUCER_SHIFT).astype(np.int64),
            (key & _TOPIC_MASK).astype(np.int64),
            sequence.astype(np.int64),
        )

    def _filler(self, head: npt.NDArray[np.uint64]) -> Bytes:
        mixed = (head[:, 0] * _MIX + head[:, 1]) * _MIX
        found: Bytes = self._windows[(mixed >> np.uint64(24)) % self._places]
        return found


def as_bytes(rows: Bytes) -> list[bytes]:
    """Each row as bytes."""
    rows = np.ascontiguousarray(rows)
    found: list[bytes] = rows.view(f"V{rows.shape[1]}").ravel().tolist()
    return found


class SequenceCheck:
    """Each (producer, topic) sequence arrives from its first number on, every number once, in order."""

    def __init__(self, topics: int, producers: Sequence[int] = (0,), first: int = 0) -> None:
        self._slots = np.full(1 << 16, -1, np.int64)
        self._slots[list(producers)] = np.arange(len(producers))
        self._producers = list(producers)
        self._topics = topics
        self._first = first
        self._next = np.full(len(producers) * topics, first, np.int64)

    def take(self, topics_read: npt.ArrayLike, producers: Longs, topics: Longs, sequences: Longs) -> None:
        """Records in the order of their arrival; `topics_read` is where each was read, by number.

        Raises:
            WrongContent: a record is in another topic, twice there, out of order, or one before it is missing.
        """
        if not len(sequences):
            return
        if (np.asarray(topics_read) != topics).any():
            raise WrongContent("a record was read in another topic than it was produced to")
        slots = self._slots[producers]
        if slots.min() < 0 or topics.max() >= self._topics:
            raise WrongContent(f"a record of an unknown producer or topic: {producers.max()}, {topics.max()}")
        place = slots * self._topics + topics
        order = np.argsort(place, kind="stable")
        place, sequences = place[order], sequences[order]
        index = np.arange(len(place))
        starts = np.concatenate(([True], place[1:] != place[:-1]))
        expected = self._next[place] + index - np.maximum.accumulate(np.where(starts, index, 0))
        if (wrong := np.flatnonzero(expected != sequences)).size:
            at = wrong[0]
            who, topic = divmod(int(place[at]), self._topics)
            raise WrongContent(
                f"producer {self._producers[who]}, topic {topic}: record {sequences[at]} where {expected[at]} was due"
            )
        ends = np.concatenate((starts[1:], [True]))
        self._next[place[ends]] = sequences[ends] + 1

    @property
    def records(self) -> int:
        """Records that were taken."""
        return int((self._next - self._first).sum())

    def spread(self) -> tuple[int, int]:
        """Records of the shortest and of the longest sequence."""
        return int(self._next.min()) - self._first, int(self._next.max()) - self._first
