"""Which objects of a log nobody needs: those that a manifest replaces, and those that no manifest names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.streamlog.merging.job import MergeResult
from fairlead.streamlog.objects.manifest import CommitRange, Manifest
from fairlead.streamlog.values import epoch_of


class Replaced(NamedTuple):
    """Objects that a manifest no longer needs; they are deleted ten minutes after it."""

    names: tuple[str, ...]
    commits: tuple[CommitRange, ...] = ()

    def all(self, prefix: str) -> Iterator[str]:
        """The name of each."""
        yield from self.names
        for commits in self.commits:
            yield from (item.name for item in commits.objects(prefix))


def replaced_by(before: Manifest, after: Manifest, result: MergeResult) -> Replaced:
    """Objects that `after` no longer needs. A segment that lies below another prefix may be needed there."""
    found = [*(name for name in result.removed if names.is_below(before.prefix, name)), before.name]
    if before.checkpoint is not None and before.checkpoint != after.checkpoint:
        found.append(before.checkpoint.name)
    return Replaced(tuple(found), before.commit_ranges(before.merged_end, after.merged_end))


def unreferenced(storage: Storage, manifest: Manifest) -> list[str]:
    """Objects of the log that the ruling manifest does not name: left by merges that were never installed, by deletes
    that a crash cut off, by writers that were fenced. Claims are never among them. Lists the storage."""
    needed = {segment.name for segment in manifest.segments} | {manifest.name}
    if manifest.checkpoint is not None:
        needed.add(manifest.checkpoint.name)
    found: list[str] = []
    for prefix in (names.segments_of, names.checkpoints_of, names.manifests_of):
        found += [name for name in storage.list(prefix(manifest.prefix)) if name not in needed]
    for name in storage.list(names.commits_of(manifest.prefix)):
        commit = names.parse_commit(name)
        if commit is not None and _is_dead(manifest, commit):
            found.append(name)
    return [name for name in found if not _is_newer(manifest, name)]


def _is_dead(manifest: Manifest, commit: names.Numbered) -> bool:
    if commit.epoch >= manifest.epoch:
        return commit.epoch == manifest.epoch and commit.number < manifest.merged_end
    counted = epoch_of(manifest.epochs, commit.number)
    return commit.number < manifest.merged_end or counted is None or counted.number != commit.epoch


def _is_newer(manifest: Manifest, name: str) -> bool:
    parsed = names.parse_manifest(name)
    return parsed is not None and (parsed.epoch, parsed.number) > (manifest.epoch, manifest.k)
