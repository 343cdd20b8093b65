"""For whom a source may speak here, and how much it may bring: what the replica's owner granted its upstream.

The origin rule: rows of a topic count only if the stream that owns the topic, and that in which the row began, are
among the upstream's origins. Without it, a partner's cluster could write into the topics of others, delete them, or
take their names. It is not asked of the owners before the present one: the present one vouches for what its topic held
when it took it over, whoever brings that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.model.errors import NotAllowed
from fairlead.streamlog.state.overlay import Overlay


def _any_name(name: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Admission:
    """Of one upstream, for one shard."""

    origins: frozenset[bytes] | None = None
    """Ids of the streams whose topics it may bring; None: of any, so that chains and meshes of one's own work."""
    topics_max: int | None = None
    partitions_max: int | None = None
    notes_max: int | None = None
    """None: without a limit."""
    moves_owners: bool = False
    """It may give another owner to topics of streams that are not among its origins, ours too."""
    aliases: bool = False
    """A topic whose name another one holds gets a name of its own; else it waits for somebody to decide."""
    prefix: str = ""
    """Stands before the names of topics that are not known here."""
    falls_here: Callable[[str], bool] = _any_name
    """Whether a topic of that name lives in this shard."""

    @property
    def speaks_for_all(self) -> bool:
        """Whether rows of every stream count."""
        return self.origins is None

    def speaks_for(self, *streams: bytes) -> bool:
        """Whether rows of these streams count."""
        return self.origins is None or self.origins.issuperset(streams)

    def check_topics(self, state: Overlay, topics: int, partitions: int) -> None:
        """
        Raises:
            NotAllowed: with so many more there would be too many. The frame is refused, so that nothing is missing once
                there is room.
        """
        if self.origins is None:
            return
        owned = [state.owned_by(origin) for origin in self.origins]
        _check(sum(count for count, _ in owned) + topics, self.topics_max, "topics", "partner_topics_max")
        _check(
            sum(count for _, count in owned) + partitions, self.partitions_max, "partitions", "partner_partitions_max"
        )

    def check_kept(self, state: Overlay) -> None:
        """
        Raises:
            NotAllowed: of one row more, of a kind that only others know, there would be too many.
        """
        if self.origins is not None:
            _check(state.kept_count + 1, self.topics_max, "rows of kinds that are not known here", "partner_topics_max")

    def check_notes(self, notes: int) -> None:
        """
        Raises:
            NotAllowed: these are too many.
        """
        _check(notes, self.notes_max, "partitions behind or in conflict", "partner_notes_max")


ANYBODY = Admission(moves_owners=True)
"""One's own."""


def _check(count: int, most: int | None, what: str, setting: str) -> None:
    if most is not None and count > most:
        raise NotAllowed(
            f"the upstream would have {count:,} {what} in a shard, {most:,} are allowed; raise {setting} to go on"
        )
