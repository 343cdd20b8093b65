"""Which cursors go over a link: those of the consumer groups that it is to tell of."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.model.errors import CorruptBatch
from fairlead.model.expressions import whole_matches
from fairlead.storage.interface import Storage
from fairlead.streamlog import payloads
from fairlead.streamlog.reading.located import LocatedRows, load
from fairlead.streamlog.rows import Kind, Row

ALL: Final = "all"
NONE: Final = "none"


def told(storage: Storage, rows: LocatedRows, places: NDArray[np.intp], groups: str) -> NDArray[np.intp]:
    """Those of the `places` in rows that are no cursors, or cursors of `groups`: all, none, or those whose names a
    regular expression matches.

    Raises:
        Damaged, Missing, StorageUnavailable: their object cannot be read.
    """
    if groups == ALL:
        return places
    is_cursor = rows.columns.kind[places] == Kind.CURSOR
    kept = ~is_cursor
    if groups == NONE or not is_cursor.any():
        return np.compress(kept, places)
    names = [_group_of(row) for row in load(storage, rows.take(places[is_cursor])).rows()]
    kept[is_cursor] = whole_matches(groups, names)
    return np.compress(kept, places)


def _group_of(row: Row) -> str:
    """Of one that cannot be read, nobody can say whether it may be told."""
    try:
        return payloads.decode_cursor(row.batch).group
    except CorruptBatch:
        return ""
