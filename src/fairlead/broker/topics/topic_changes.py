"""What one request asks of many topics: those of a stream share commits, and each has its own outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.broker.pacing import Pace
from fairlead.cluster.stream import Stream
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import DraftRequest


class Change(NamedTuple):
    """A topic of a stream, by its plain name, and what is to become of it."""

    stream: Stream
    name: str
    request: DraftRequest[Topic]


Outcome = Topic | Exception


async def change_all(wanted: Sequence[Change | Exception]) -> list[Outcome]:
    """What became of each, in order; what was refused before stays refused."""
    by_stream: dict[Stream, dict[int, Change]] = {}
    outcomes: dict[int, Outcome] = {}
    pace = Pace()
    for place, change in enumerate(wanted):
        await pace.turn()
        if isinstance(change, Change):
            by_stream.setdefault(change.stream, {})[place] = change
        else:
            outcomes[place] = change
    for stream, changes in by_stream.items():
        done = await stream.change_topics([(change.name, change.request) for change in changes.values()])
        outcomes.update(zip(changes, done, strict=True))
    return [outcomes[place] for place in range(len(wanted))]
