"""Which objects a shard's log consists of: `manifest/<e>/<k>`, the highest (e, k) rules.

A manifest says which commits of each writer epoch count, which segments stand for the commits [begin, merged_end),
and where a checkpoint is. Commits from merged_end on are objects of their own; of the ruling manifest's epoch they
count up to the first missing number. A run of commits [first, end) may be several segments: data by topic, and
control rows. Stored as JSON, read strictly, with a checksum.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

import crc32c

from fairlead.model.errors import Damaged
from fairlead.model.names import SLICES
from fairlead.storage import names
from fairlead.storage.interface import Storage
from fairlead.streamlog.values import EpochRange, LogObject

MANIFEST_VERSION: Final = 1
SegmentKind = Literal["data", "control"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SliceCount:
    """Rows of one slice in a segment that may be sent, the bytes of their batches and payloads, and the records."""

    rows: int
    bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One segment. `data` holds record batches, `control` all other rows."""

    name: str
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
    """`appended_at` up to which deletions of topics have been looked at: their rows are gone, or too few to matter."""
    expired_to: int
    """The cut-off of expiry when it was made: rows appended before are exempt from it."""
    slices: tuple[SliceCount, ...]
    """16 slices, then the rows that are never sent."""

    @property
    def object(self) -> LogObject:
        """The segment as a reader is told of it."""
        return LogObject(self.name, self.first, self.end, segment=True)


class CommitRange(NamedTuple):
    """Commits [first, end) that one writer epoch wrote: names of as many objects, which nobody needs to write down."""

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
    commit: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest of a shard."""

    prefix: str
    epoch: int
    k: int
    epochs: tuple[EpochRange, ...]
    """Of every writer epoch that ever was; the last one is this manifest's own and has no end."""
    segments: tuple[SegmentEntry, ...] = ()
    """By (first, kind, name)."""
    begin: int = 0
    """The first commit that anything is known of."""
    checkpoint: CheckpointEntry | None = None

    @property
    def name(self) -> str:
        """Name of the object."""
        return names.manifest(self.prefix, self.epoch, self.k)

    @property
    def merged_end(self) -> int:
        """Segments stand for all commits below this one."""
        return max((segment.end for segment in self.segments), default=self.begin)

    def epoch_of(self, commit: int) -> EpochRange | None:
        """The writer epoch in which a commit lies; None if it was never written in any that counts."""
        for epoch in reversed(self.epochs):
            if commit >= epoch.first and (epoch.end is None or commit < epoch.end):
                return epoch
        return None

    def commit_name(self, commit: int) -> str:
        """Name of the object of one commit. Raises: KeyError, no epoch holds it."""
        found = self.epoch_of(commit)
        if found is None:
            raise KeyError(commit)
        return names.commit(self.prefix, found.number, commit)

    def commit_ranges(self, first: int, end: int) -> tuple[CommitRange, ...]:
        """The objects of commits [first, end), in order. Raises: KeyError, no epoch holds one of them."""
        found: list[CommitRange] = []
        while first < end:
            epoch = self.epoch_of(first)
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


def first_manifest(prefix: str, number: int, id: bytes) -> Manifest:
    """The first manifest of an empty log."""
    return Manifest(prefix, number, 0, (EpochRange(number, id, 0, None),))


def encode(manifest: Manifest) -> bytes:
    """The object's bytes: JSON with a checksum over everything before it."""
    body = {
        "version": MANIFEST_VERSION,
        "epoch": manifest.epoch,
        "k": manifest.k,
        "begin": manifest.begin,
        "epochs": [[e.number, e.id.hex(), e.first, e.end] for e in manifest.epochs],
        "segments": [_segment_fields(manifest.prefix, s) for s in manifest.segments],
        "checkpoint": None if manifest.checkpoint is None else [manifest.checkpoint.name, manifest.checkpoint.commit],
        "prefix": manifest.prefix,
    }
    text = json.dumps(body, separators=(",", ":"))[:-1].encode()
    return text + b',"checksum":"%08x"}' % crc32c.crc32c(text)


_CHECKSUM_LENGTH: Final = len(b',"checksum":"00000000"}')


def _segment_fields(prefix: str, segment: SegmentEntry) -> list[Any]:
    """A list and not an object, since there may be thousands; their names all begin with the prefix."""
    return [
        segment.name.removeprefix(prefix + "/"),
        segment.kind,
        segment.first,
        segment.end,
        segment.rows,
        segment.bytes,
        segment.oldest_at,
        segment.newest_at,
        segment.cleaned_at,
        segment.expired_to,
        [[count.rows, count.bytes, count.records] for count in segment.slices],
    ]


def segment_to_json(segment: SegmentEntry) -> list[Any]:
    """A segment entry for the merger's pipe."""
    return _segment_fields("", segment)


def segment_from_json(fields: list[Any]) -> SegmentEntry:
    """The reverse of `segment_to_json`. Raises: ValueError, TypeError."""
    return _segment("", fields)


def decode(data: bytes, name: str) -> Manifest:
    """The manifest in an object.

    Raises:
        Damaged: not a manifest, of another version, or one that contradicts its name or itself.
    """
    try:
        fields = json.loads(data)
        version = fields["version"]
        if type(version) is int and version != MANIFEST_VERSION:
            raise Damaged(name, f"manifest of version {version}; this program reads version {MANIFEST_VERSION}")
        if fields["checksum"] != f"{crc32c.crc32c(data[:-_CHECKSUM_LENGTH]):08x}":
            raise ValueError("the checksum does not fit")
        manifest = _manifest(fields)
        _check(manifest)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(name, f"not a manifest that can be read ({error})") from error
    if data != encode(manifest) or (name and name != manifest.name):
        raise Damaged(name, f"is the manifest {manifest.name}, or not in its exact form")
    return manifest


def _manifest(fields: Mapping[str, Any]) -> Manifest:
    prefix = _is(str, fields["prefix"])
    checkpoint = fields["checkpoint"]
    return Manifest(
        prefix,
        _natural(fields["epoch"]),
        _natural(fields["k"]),
        _all(fields["epochs"], _epoch),
        _all(fields["segments"], lambda f: _segment(prefix + "/", f)),
        _natural(fields["begin"]),
        None if checkpoint is None else CheckpointEntry(_is(str, checkpoint[0]), _natural(checkpoint[1])),
    )


def _epoch(fields: Any) -> EpochRange:
    number, id, first, end = fields
    return EpochRange(
        _natural(number), bytes.fromhex(_is(str, id)), _natural(first), None if end is None else _natural(end)
    )


def _segment(prefix: str, fields: Any) -> SegmentEntry:
    name, kind, *numbers, slices = fields
    first, end, rows, size, oldest_at, newest_at, cleaned_at, expired_to = (_is(int, number) for number in numbers)
    if kind not in {"data", "control"}:
        raise ValueError(f"kind {kind!r}")
    counts = _all(slices, lambda counts: SliceCount(*_all(counts, _natural)))
    name, kind = prefix + _is(str, name), cast(SegmentKind, kind)
    return SegmentEntry(name, kind, first, end, rows, size, oldest_at, newest_at, cleaned_at, expired_to, counts)


def _check(manifest: Manifest) -> None:
    """Epochs grow and touch, the last is open and our own; segments' runs touch and each is listed in order."""
    for before, after in zip(manifest.epochs, manifest.epochs[1:], strict=False):
        if before.number >= after.number or before.end is None or not before.first <= before.end <= after.first:
            raise ValueError(f"epochs {before.number} and {after.number} do not follow each other")
    last = manifest.epochs[-1]
    if last.end is not None or last.number != manifest.epoch or any(len(e.id) != 16 for e in manifest.epochs):
        raise ValueError("the last epoch is not the manifest's own, or an id has another length than 16 bytes")
    expected = manifest.begin
    for first, end in dict.fromkeys((s.first, s.end) for s in manifest.segments):
        if first != expected or end <= first:
            raise ValueError(f"segments of [{first}, {end}) follow those that end at {expected}")
        expected = end
    if any(len(s.slices) != SLICES + 1 for s in manifest.segments):
        raise ValueError("a segment does not count all slices")


def newest(storage: Storage, prefix: str) -> Manifest | None:
    """The ruling manifest; None if there is none yet. Lists. Raises: Damaged."""
    found = [name for name in storage.list(names.manifests_of(prefix)) if names.parse_manifest(name)]
    if not found:
        return None
    name = max(found)
    return decode(storage.get(name), name)


def order(segments: Iterable[SegmentEntry]) -> tuple[SegmentEntry, ...]:
    """Segments in the order in which a manifest lists them."""
    return tuple(sorted(segments, key=lambda s: (s.first, s.kind, s.name)))


def _all(values: Any, build: Callable[[Any], T]) -> tuple[T, ...]:
    return tuple(build(value) for value in _is(list, values))


def _is(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is not of the kind {kind.__name__}")
    return value


def _natural(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number from 0 on")
    return value
