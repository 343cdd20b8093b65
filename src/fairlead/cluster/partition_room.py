"""How many partitions a stream and a cluster may have: memory is taken for each, whether it is used or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead.model.settings import Settings
from fairlead.streamlog.writing.shard import Shard


class PartitionRoom:
    """The room of one cluster. What others have is counted once for each commit, so that of several streams or shards
    each may take in its next commit what is left for all."""

    def __init__(self, settings: Settings, total: Callable[[], int]) -> None:
        """`total` counts the partitions of all streams."""
        self._settings = settings
        self._total = total
        self._found: dict[Shard, tuple[int, int]] = {}

    def of_shard(self, shard: Shard, shards: Sequence[Shard], commit: int) -> int:
        """How many partitions this one of a stream's shards may have after a commit, given what the others have. Any
        thread may ask."""
        counted_at, found = self._found.get(shard, (-1, 0))
        if counted_at != commit:
            in_stream = sum(each.state.partitions_total for each in shards)
            left = min(
                self._settings.partitions_per_stream_max - in_stream, self._settings.partitions_max - self._total()
            )
            found = shard.state.partitions_total + left
            self._found[shard] = (commit, found)
        return found

    def forget(self, shards: Sequence[Shard]) -> None:
        """Their stream is gone."""
        for shard in shards:
            self._found.pop(shard, None)
