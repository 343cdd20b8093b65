"""Where two logs of one partition part, by their epoch histories.

A history is [(topic epoch, first offset of it), …] and ends where the log ends. All records of one epoch are of one
owner's log, so two logs that both hold an epoch hold the same records of it as far as both go (as in Raft's log
matching). A history may begin with a later epoch than the log did; what is before it is not compared.
"""

from __future__ import annotations

from itertools import pairwise

from fairlead.streamlog.payloads import History


def parting(one: History, one_end: int, other: History, other_end: int) -> int:
    """The offset D below which two logs hold the same: what both have at or above it is not the same history.

    It is the end of the newest epoch that both have, in the log where that is lower. Without such an epoch nothing is
    the same from where the later history begins, or where the earlier one has an epoch that the later one lacks.
    """
    ends = _ends(other, other_end)
    for epoch, end in reversed(_ends(one, one_end).items()):
        if epoch in ends:
            return min(end, ends[epoch])
    if not one or not other:
        return min(one_end, other_end)
    earlier, end, later = (one, one_end, other) if one[0] < other[0] else (other, other_end, one)
    newest, first = later[0]
    return min(first, next((at for epoch, at in earlier if epoch > newest), end))


def _ends(history: History, end: int) -> dict[int, int]:
    """Epoch → the offset where it ends."""
    followed = {epoch: first for (epoch, _), (_, first) in pairwise(history)}
    return {epoch: min(followed.get(epoch, end), end) for epoch, _ in history}


def history_below(history: History, offset: int) -> History:
    """The part of a history that is left of a log which is cut at that offset."""
    return tuple(entry for entry in history if entry[1] < offset)
