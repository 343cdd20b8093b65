"""The epoch histories that a job tells the merger, each of which goes into a START row if records of its partition go.

They may be those of a million partitions. A job takes them as copies of the state's arrays, which is quick; who looks
one up, or writes them, puts them in order first: the merger, or a thread.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.streamlog.numbers import Numbers
from fairlead.streamlog.objects.by_partition import packed_key, packed_keys
from fairlead.streamlog.payloads import History
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import PartitionKey

_ENTRY_BYTES: Final = 20


class _Entries(NamedTuple):
    """One for each epoch: those of a partition together, the oldest first."""

    key: NDArray[np.uint64]
    """Packed keys of the partitions, in order."""
    first: NDArray[np.int64]
    epoch: NDArray[np.int32]


class Histories:
    """Histories of partitions, but for those that are only epoch 0 from offset 0 on."""

    def __init__(self, entries: Callable[[], _Entries]) -> None:
        """`entries` is asked once, when they are needed."""
        self._ask = entries

    @classmethod
    def of_all(cls, state: ShardState) -> Histories:
        """Those of a log as they are now."""
        topics, table = state.topic_table, state.partition_table
        slots, counts = np.array(topics.slot), np.array(topics.count)
        return cls(
            partial(_entries, slots, counts, np.array(table.epoch), np.array(table.epoch_first), dict(table.older))
        )

    @classmethod
    def given(cls, histories: Mapping[PartitionKey, History]) -> Histories:
        """These, which are few."""
        rows = sorted((packed_key(*key), *entry) for key, history in histories.items() for entry in history)
        key, epoch, first = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(lambda: _Entries(np.array(key, np.uint64), np.array(first, np.int64), np.array(epoch, np.int32)))

    @cached_property
    def _all(self) -> _Entries:
        return self._ask()

    def __len__(self) -> int:
        """How many epochs they have together."""
        return len(self._all.key)

    def of(self, key: PartitionKey) -> History:
        """That of a partition; empty if it is not among them."""
        known, wanted = self._all, packed_key(*key)
        first, end = known.key.searchsorted(np.array((wanted, wanted + 1), np.uint64)).tolist()
        return tuple(zip(known.epoch[first:end].tolist(), known.first[first:end].tolist(), strict=True))

    def text(self) -> str:
        """For the merger's pipe."""
        return b64encode(zlib.compress(b"".join(column.tobytes() for column in self._all), level=1)).decode()

    @classmethod
    def read(cls, text: str) -> Histories:
        """The inverse of `text`."""
        data = zlib.decompress(b64decode(text))
        count = len(data) // _ENTRY_BYTES
        key, first = np.frombuffer(data, np.uint64, count), np.frombuffer(data, np.int64, count, 8 * count)
        return cls(lambda: _Entries(key, first, np.frombuffer(data, np.int32, count, 16 * count)))


NO_HISTORIES: Final = Histories.given({})


def _entries(
    first_slot: Numbers,
    counts: NDArray[np.int32],
    epoch: NDArray[np.int32],
    epoch_first: Numbers,
    older: Mapping[int, History],
) -> _Entries:
    """Out of the columns of topics (their first slots and numbers of partitions) and of slots."""
    number = np.flatnonzero(first_slot >= 0)
    count = counts[number].astype(np.int64)
    partition = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    slot = np.repeat(first_slot[number], count) + partition
    key = np.zeros(len(epoch), np.uint64)
    key[slot] = packed_keys(np.repeat(number, count).astype(np.uint32), partition.astype(np.int32))
    has_older = np.zeros(len(epoch), np.bool_)
    older_slot = np.fromiter(older, np.int64, len(older))
    has_older[older_slot] = True
    told = slot[(epoch[slot] > 0) | ((epoch[slot] == 0) & (epoch_first[slot] != 0)) | has_older[slot]]
    lengths = np.fromiter(map(len, older.values()), np.int64, len(older))
    pairs: NDArray[Any] = np.fromiter(_flat(older), np.int64, 2 * int(lengths.sum())).reshape(-1, 2)
    keys = np.concatenate((np.repeat(key[older_slot], lengths), key[told]))
    order = np.argsort(keys, kind="stable")  # the newest entry of a partition stays behind its older ones
    firsts, epochs = np.concatenate((pairs[:, 1], epoch_first[told])), np.concatenate((pairs[:, 0], epoch[told]))
    return _Entries(keys[order], firsts[order], epochs[order].astype(np.int32))


def _flat(older: Mapping[int, History]) -> chain[int]:
    return chain.from_iterable(chain.from_iterable(older.values()))
