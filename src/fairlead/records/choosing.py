"""Chooses the rows of an object that a task reads, by commit, topic, partition, share and offset, without row loops."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fairlead.records.client import RecordsClient
from fairlead.records.task import Choice
from fairlead.streamlog.objects.by_partition import Offsets, packed_keys
from fairlead.streamlog.objects.columns import Columns
from fairlead.streamlog.objects.dead import DeadRows
from fairlead.streamlog.rows import Kind

Places = npt.NDArray[np.intp]
_NO_LIMIT = np.iinfo(np.int64).max
_SPREAD = 2_654_435_761
"""Knuth's multiplier: it deals neighbouring topic numbers to different tasks."""


class Chooser:
    """Chooses rows of one shard; asks the server for the names of topic numbers it meets, each once."""

    def __init__(self, choice: Choice, client: RecordsClient) -> None:
        self.choice = choice
        self._client = client
        self._pattern = None if choice.pattern is None else re.compile(choice.pattern)
        self._index: dict[int, int] = {}
        self._names: list[str] = []
        self._low = Offsets(choice.low, 0)
        self._high = Offsets(choice.high, _NO_LIMIT)
        self.dead = DeadRows(choice.cuts)
        """What is not read since it is dead; newer when the objects were named again."""
        for number, name in (choice.topics or {}).items():
            self._learn_wanted(number, name)

    def topics(self) -> pa.StringArray:
        """The names that `topic_index` gives indices of."""
        return pa.array(self._names, pa.string())

    def batches(self, columns: Columns) -> Places:
        """Places of the record batches to be read, in the object's order."""
        places = self._places(columns, Kind.BATCH)
        if self.dead:
            places = places[~self.dead.among(columns.take(places))]
        low, high = self.bounds(columns, places)
        return places[(columns.last_offset[places] >= low) & (columns.base_offset[places] < high)]

    def starts(self, columns: Columns) -> Places:
        """Places of the `start` rows of chosen partitions."""
        return self._places(columns, Kind.START)

    def bounds(self, columns: Columns, places: Places) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The offsets [low, high) that are wanted from each row's partition."""
        keys = packed_keys(columns.topic[places], columns.partition[places])
        return self._low.of(keys), self._high.of(keys)

    @property
    def bounded(self) -> bool:
        """Whether any partition is wanted only in part."""
        return bool(self.choice.low or self.choice.high)

    def topic_index(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        """Index of each number's name; -1 for a topic that is deleted or not wanted."""
        distinct, place = np.unique(numbers, return_inverse=True)
        unknown = [number for number in distinct.tolist() if number not in self._index]
        if unknown:
            self._ask(unknown)
        return np.array([self._index[number] for number in distinct.tolist()], np.int32)[place]

    def _places(self, columns: Columns, kind: Kind) -> Places:
        choice = self.choice
        wanted = (columns.kind == kind) & (columns.commit >= choice.first) & (columns.commit < choice.end)
        if choice.shares > 1:
            spread = columns.topic.astype(np.uint64) * np.uint64(_SPREAD) + columns.partition.astype(np.uint64)
            wanted &= (spread >> np.uint64(4)) % np.uint64(choice.shares) == choice.share
        if choice.partitions is not None:
            wanted &= np.isin(columns.partition, list(choice.partitions))
        places = np.flatnonzero(wanted)
        if not len(places):
            return places
        return places[self.topic_index(columns.topic[places]) >= 0]

    def _ask(self, numbers: list[int]) -> None:
        found = {} if self.choice.topics is not None else self._client.names(self.choice.shard, numbers)
        for number in numbers:
            self._learn_wanted(number, found.get(number))

    def _learn_wanted(self, number: int, name: str | None) -> None:
        if name is None or (self._pattern is not None and not self._pattern.fullmatch(name)):
            self._index[number] = -1
            return
        self._index[number] = len(self._names)
        self._names.append(name)
