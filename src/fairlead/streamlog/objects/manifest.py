"""Which objects a shard's log consists of: `manifest/<e>/<k>`, the highest (e, k) rules.

A manifest says which commits of each writer epoch count, which segments stand for the commits [begin, merged_end),
and where a checkpoint is. Commits from merged_end on are objects of their own; those of the ruling manifest's epoch
count up to the first missing number. A run of commits [first, end) may be several segments: data by topic, and
control rows. Stored as JSON, read strictly, with a checksum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, NamedTuple

from fairlead.model.errors import Damaged
from fairlead.model.names import SLICES
from fairlead.model.strict_json import AS_ARRAY, Id, JsonForm, Natural, OtherVersion
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.storage.sealed_json import check_seal, sealed
from fairlead.streamlog.values import EpochRange, LogObject, epoch_of

MANIFEST_VERSION: Final = 3
SegmentKind = Literal["data", "control", "keyed"]
READABLE: Final[frozenset[SegmentKind]] = frozenset({"data", "control"})
"""Kinds of segments that this program reads. `keyed` is reserved: a manifest that names one is read, but the log is not
opened (`opening`), since what is in such a segment is not known."""


@dataclass(frozen=True, slots=True)
class SliceCount:
    """The rows of one slice in a segment that may be sent, with the bytes of their batches and payloads, and their
    records."""

    rows: Natural
    bytes: Natural
    records: Natural


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One segment. `data` holds record batches, `control` all other rows."""

    name: str
    """Whole name; of an object below another prefix too, which this log reads and never deletes."""
    kind: SegmentKind
    first: int
    end: int
    rows: int
    bytes: int
    """Length of the object."""
    oldest_at: int
    """Smallest `appended_at` of its rows, milliseconds."""
    newest_at: int
    cleaned_at: int
    """Topics deleted up to this `appended_at` have been looked for: their rows are gone, or too few to matter."""
    expired_to: int
    """The cut-off of expiry when the segment was made: rows in it that were appended before are exempt from expiry."""
    oldest_timestamp: int
    """Smallest `max_timestamp` of its batches, milliseconds; -1: no batch has one."""
    newest_timestamp: int
    slices: tuple[Annotated[SliceCount, AS_ARRAY], ...]
    """16 slices, then the rows that are never sent."""

    @property
    def object(self) -> LogObject:
        """The segment in the form that readers are told."""
        return LogObject(self.name, self.first, self.end, segment=True)


class CommitRange(NamedTuple):
    """Commits [first, end) that one writer epoch wrote; each is an object whose name follows from these numbers."""

    epoch: int
    first: int
    end: int

    def objects(self, prefix: str) -> Iterator[LogObject]:
        """Each of them."""
        for number in range(self.first, self.end):
            yield LogObject(names.commit(prefix, self.epoch, number), number, number + 1, segment=False)


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A checkpoint and the commit it stands before: rows of commits from `commit` on are not in it."""

    name: str
    commit: Natural


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest of a shard."""

    prefix: str
    epoch: int
    k: int
    epochs: tuple[EpochRange, ...]
    """Ranges of all writer epochs there ever were; the last one is this manifest's own and has no end."""
    segments: tuple[SegmentEntry, ...] = ()
    """Sorted by (first, kind, name)."""
    begin: int = 0
    """The first commit of which anything is known."""
    checkpoint: CheckpointEntry | None = None
    log: bytes = bytes(16)
    """Id of the stream; of `meta/` that of the cluster."""
    ext: Mapping[str, str] = field(default_factory=dict)
    """What later programs add. It means nothing here, and stays as it is in every manifest that follows this one."""

    @property
    def name(self) -> str:
        """Name of the object."""
        return names.manifest(self.prefix, self.epoch, self.k)

    @property
    def merged_end(self) -> int:
        """Segments stand for all commits below this one."""
        return max((segment.end for segment in self.segments), default=self.begin)

    def commit_name(self, commit: int) -> str:
        """Name of the object of one commit. Raises: KeyError, no epoch holds it."""
        found = epoch_of(self.epochs, commit)
        if found is None:
            raise KeyError(commit)
        return names.commit(self.prefix, found.number, commit)

    def epoch_id(self, commit: int) -> bytes:
        """Id of the writer epoch of one commit. Raises: KeyError, no epoch holds it."""
        found = epoch_of(self.epochs, commit)
        if found is None:
            raise KeyError(commit)
        return found.id

    def commit_ranges(self, first: int, end: int) -> tuple[CommitRange, ...]:
        """The objects of commits [first, end), in order. Raises: KeyError, no epoch holds one of them."""
        found: list[CommitRange] = []
        while first < end:
            epoch = epoch_of(self.epochs, first)
            if epoch is None:
                raise KeyError(first)
            found.append(CommitRange(epoch.number, first, end if epoch.end is None else min(end, epoch.end)))
            first = found[-1].end
        return tuple(found)

    def objects(self, from_commit: int, end: int) -> list[LogObject]:
        """What to read for commits [from_commit, end), in order; segments may reach beyond on both sides."""
        found = [s.object for s in self.segments if s.end > from_commit and s.first < end]
        for commits in self.commit_ranges(max(from_commit, self.merged_end), end):
            found += commits.objects(self.prefix)
        return found

    def with_epoch(self, number: int, id: bytes, first: int) -> Manifest:
        """Manifest 0 of a new writer epoch whose first commit is `first`."""
        closed = tuple(e if e.end is not None else replace(e, end=first) for e in self.epochs)
        return replace(self, epoch=number, k=0, epochs=(*closed, EpochRange(number, id, first, None)))


def first_manifest(prefix: str, number: int, id: bytes, log: bytes = bytes(16)) -> Manifest:
    """The first manifest of an empty log."""
    return Manifest(prefix, number, 0, (EpochRange(number, id, 0, None),), log=log)


@dataclass(frozen=True, slots=True)
class _Body:
    """What stands in the object before the checksum, under these names and in this order."""

    epoch: Natural
    k: Natural
    begin: Natural
    epochs: tuple[tuple[Natural, Id, Natural, Natural | None], ...]
    segments: tuple[Annotated[SegmentEntry, AS_ARRAY], ...]
    """Stored as arrays, since there may be thousands, and with names as `_stored_name` gives them."""
    checkpoint: Annotated[CheckpointEntry, AS_ARRAY] | None
    prefix: str
    log: Id
    ext: Mapping[str, str]
    """Texts, so that each has one form and is kept byte for byte, in its order."""


_BODY: Final = JsonForm(_Body, head={"version": MANIFEST_VERSION})
_SEGMENTS: Final = "segment/"


def encode(manifest: Manifest) -> bytes:
    """The object's bytes: JSON with a checksum over everything before it."""
    body = _Body(
        manifest.epoch,
        manifest.k,
        manifest.begin,
        tuple((e.number, e.id, e.first, e.end) for e in manifest.epochs),
        tuple(replace(s, name=_stored_name(manifest.prefix, s.name)) for s in manifest.segments),
        manifest.checkpoint,
        manifest.prefix,
        manifest.log,
        manifest.ext,
    )
    return sealed(_BODY.write(body))


def _stored_name(prefix: str, name: str) -> str:
    """A segment's name as the object says it: from `segment/` on if it lies below the log's own prefix, else whole."""
    own = names.segments_of(prefix)
    return _SEGMENTS + name.removeprefix(own) if name.startswith(own) else name


def _whole_name(prefix: str, stored: str) -> str:
    return names.segments_of(prefix) + stored.removeprefix(_SEGMENTS) if stored.startswith(_SEGMENTS) else stored


def decode(data: bytes, name: str) -> Manifest:
    """The manifest in an object.

    Raises:
        Damaged: the object is no manifest, has another version, or contradicts its name or itself.
    """
    try:
        body = _BODY.read(data)
        check_seal(data)
        manifest = _manifest(body)
        _check(manifest)
    except OtherVersion as error:
        why = f"manifest of version {error.version}; this program reads version {MANIFEST_VERSION}"
        raise Damaged(name, why) from error
    except (ValueError, LookupError) as error:
        raise Damaged(name, f"not a manifest that can be read ({error})") from error
    if data != encode(manifest) or (name and name != manifest.name):
        raise Damaged(name, f"is the manifest {manifest.name}, or not in its exact form")
    return manifest


def _manifest(body: _Body) -> Manifest:
    return Manifest(
        body.prefix,
        body.epoch,
        body.k,
        tuple(EpochRange(*epoch) for epoch in body.epochs),
        tuple(replace(s, name=_whole_name(body.prefix, s.name)) for s in body.segments),
        body.begin,
        body.checkpoint,
        body.log,
        body.ext,
    )


def _check(manifest: Manifest) -> None:
    """Check that epochs grow and touch, the last being open and our own, and that runs touch and are in order."""
    for before, after in zip(manifest.epochs, manifest.epochs[1:], strict=False):
        if before.number >= after.number or before.end is None or not before.first <= before.end <= after.first:
            raise ValueError(f"epochs {before.number} and {after.number} do not follow each other")
    last = manifest.epochs[-1]
    if last.end is not None or last.number != manifest.epoch:
        raise ValueError("the last epoch is not the manifest's own")
    expected = manifest.begin
    for first, end in dict.fromkeys((s.first, s.end) for s in manifest.segments):
        if first != expected or end <= first:
            raise ValueError(f"segments of [{first}, {end}) follow those that end at {expected}")
        expected = end
    if any(len(s.slices) != SLICES + 1 for s in manifest.segments):
        raise ValueError("a segment does not count all slices")


def newest(storage: Storage, prefix: str) -> Manifest | None:
    """The ruling manifest; None if there is none yet. Lists. Raises: Damaged."""
    name = newest_name(storage, prefix)
    return None if name is None else decode(storage.get(name), name)


def newest_name(storage: Storage, prefix: str) -> str | None:
    """Name of the ruling manifest; None if there is none yet. Lists."""
    return max((name for name in storage.list(names.manifests_of(prefix)) if names.parse_manifest(name)), default=None)


def order(segments: Iterable[SegmentEntry]) -> tuple[SegmentEntry, ...]:
    """Segments in the order in which a manifest lists them."""
    return tuple(sorted(segments, key=lambda s: (s.first, s.kind, s.name)))
