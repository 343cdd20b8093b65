"""The announced part of a shard's log: the state it leads to, and the objects it lies in.

Always true: only the log's writer changes it, on its own thread; any thread may read it. A merged commit leaves `tail`
after `manifest` has the segment that stands for it, so whoever needs every commit looks at the tail first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fairlead.model.errors import Damaged
from fairlead.storage.interface import Storage
from fairlead.streamlog.objects.manifest import Manifest
from fairlead.streamlog.reading.index import Tail
from fairlead.streamlog.reading.recent import LogBatches
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import EpochRange, LogObject, Pending, epoch_before


@dataclass(slots=True, eq=False)
class AnnouncedLog:
    """The announced part of one shard's log."""

    storage: Storage
    manifest: Manifest
    state: ShardState
    tail: Tail
    recent: LogBatches
    end: int
    """Number of the next commit: all below are announced."""
    damage: Damaged | None = None
    """What the log was opened with that cannot be read; it is then only for reading what lies elsewhere."""
    news_end: int = field(init=False)
    """End of the last commit that links are told of: the commits from here on have only local rows."""

    def __post_init__(self) -> None:
        self.news_end = self.end

    @property
    def prefix(self) -> str:
        """Prefix of the names of its objects."""
        return self.manifest.prefix

    @property
    def epochs(self) -> tuple[EpochRange, ...]:
        """Every writer epoch with those of its commits that count."""
        return self.manifest.epochs

    def objects(self, from_commit: int, to_commit: int) -> list[LogObject]:
        """What to read for the announced commits [from_commit, to_commit), in order."""
        return self.manifest.objects(from_commit, min(to_commit, self.end))

    def needs(self, name: str) -> bool:
        """Whether an object still stands for commits. If not, a merge has replaced it, and it may be deleted."""
        manifest = self.manifest
        return any(item.name == name for item in manifest.objects(manifest.begin, self.end))

    def knows(self, epoch_id: bytes, commit: int) -> bool:
        """Whether this log has every commit below `commit`, the last of them in that writer epoch. If not, it was
        rolled back after somebody read it."""
        return commit <= self.end and epoch_before(self.epochs, commit).id == epoch_id

    def pending(self, from_commits: Mapping[int, int]) -> dict[int, Pending]:
        """What the commits of each slice hold, from the given one on; segments count as a whole.

        A link is never told of commits with only local rows, so a link that stands where they begin is at the end.
        Otherwise a segment that holds them and what the link has sent would be pending for ever.
        """
        from_commits = {each: self.end if at >= self.news_end else at for each, at in from_commits.items()}
        found = {slice: Pending() for slice in from_commits}
        lowest = min(from_commits.values(), default=self.end)
        for segment in self.manifest.segments:
            if segment.end > lowest:
                for slice, from_commit in from_commits.items():
                    counts = segment.slices[slice]
                    if segment.end > from_commit and counts.rows:
                        found[slice].add(counts.records, counts.bytes, segment.oldest_at, segment.newest_at)
        for stats in reversed(self.tail.commits):
            if stats.commit < max(lowest, self.manifest.merged_end):
                break
            for slice, records, size_bytes in stats.slices:
                if slice in found and stats.commit >= from_commits[slice]:
                    found[slice].add(records, size_bytes, stats.appended_at, stats.appended_at)
        return found

    @property
    def unmerged_commits(self) -> int:
        """Commits that no segment stands for yet."""
        return self.end - self.manifest.merged_end

    def size_bytes(self) -> int:
        """Bytes of segments, and of the batches in commits that wait for merging. On the owner's thread."""
        merged_end = self.manifest.merged_end
        waiting = (stats.size_bytes for stats in self.tail.commits if stats.commit >= merged_end)
        return sum(segment.bytes for segment in self.manifest.segments) + sum(waiting)

    def locate(self, slices: Collection[int]) -> list[LogObject]:
        """Objects that hold rows of these slices, control rows included, in order of commits.

        Any thread may ask while commits are merged: the tail is looked at before the manifest, so that a commit is in
        one of the two. Whoever copies rows would skip a commit that was left out.
        """
        commits = list(self.tail.commits)
        manifest = self.manifest
        merged_end = manifest.merged_end
        segments = [s.object for s in manifest.segments if any(s.slices[each].rows for each in slices)]
        tail = [
            LogObject(manifest.commit_name(stats.commit), stats.commit, stats.commit + 1, segment=False)
            for stats in commits
            if stats.commit >= merged_end and any(found in slices for found, _, _ in stats.slices)
        ]
        return segments + tail
