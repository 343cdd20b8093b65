"""Commits that need not be looked at for an offset of a partition, as found by those who looked there before.

Always true: below a commit that is given, no live batch of the partition ends at the offset or after it. That stays
true for ever: rows of announced commits are never added, only cut, expired, or merged, which keeps their commits; and
what is written later stands in later commits, after a cut too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from operator import attrgetter
from typing import Final, NamedTuple

from fairlead.streamlog.values import PartitionKey

PARTITIONS_MAX: Final = 4096
"""Partitions of a log of which something is known; the ones that were asked for least recently leave first."""
PLACES_MAX: Final = 16
"""What is known of each, at most; the ones that were used least recently leave first. All are some 10 MB for a log."""


class _Place(NamedTuple):
    """Below the commit all ends before the offset."""

    offset: int
    commit: int


class Passed:
    """What is known of one log's partitions. Any thread may call it."""

    def __init__(self) -> None:
        self._known: OrderedDict[PartitionKey, list[_Place]] = OrderedDict()
        self._lock = threading.Lock()

    def below(self, key: PartitionKey, offset: int) -> int:
        """The commit below which all batches of the partition end before the offset; 0 if nothing is known."""
        with self._lock:
            known = self._known.get(key, ())
            found = max((place for place in known if place.offset <= offset), default=None, key=attrgetter("commit"))
            if found is None:
                return 0
            self._put(key, found)
            return found.commit

    def add(self, key: PartitionKey, offset: int, commit: int) -> None:
        """All batches of the partition in commits below this one end before the offset."""
        with self._lock:
            self._put(key, _Place(offset, commit))

    def _put(self, key: PartitionKey, new: _Place) -> None:
        """Note a place as the one that was used last, in place of those that tell no more."""
        kept = [place for place in self._known.get(key, ()) if place.offset < new.offset or place.commit > new.commit]
        self._known[key] = [*kept, new][-PLACES_MAX:]
        self._known.move_to_end(key)
        if len(self._known) > PARTITIONS_MAX:
            self._known.popitem(last=False)
