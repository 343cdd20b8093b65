"""Opening a shard: claim the next writer epoch, find out which commits count, say so in a manifest.

A manifest is believed only if nothing says that a newer one was lost: no commit of an epoch above its own, and no
segment or checkpoint that stands for commits beyond the end that it gives. Otherwise it cannot be said what counts, and
the log is not opened. If the manifest is good and some of what it names is missing or damaged, the log is opened for
reading the rest. In both cases nothing but a claim is written, and nothing is deleted.

Why it holds (F1): a writer checks after its put. If the check passed, the put came before the next writer's claim, and
so before that writer's listing, so it counts; if the check failed, nothing was acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from typing_extensions import Buffer

from fairlead.model.clock import Randomness
from fairlead.model.errors import Damaged, Fenced, Missing, StorageFull, StorageUnavailable
from fairlead.storage import names
from fairlead.storage.interface import Put, Storage
from fairlead.storage.names import Numbered
from fairlead.streamlog.objects import checkpoint, format
from fairlead.streamlog.objects import claim as claims
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.layout import FileMeta
from fairlead.streamlog.objects.manifest import Manifest
from fairlead.streamlog.values import Opener, WriterEpoch

PUT_ATTEMPTS = 5
"""How often the same bytes are put while the outcome stays unknown; then the shard stops."""
CLAIM_ATTEMPTS = 100
"""How many epoch numbers are tried while other servers take each one first; then opening fails."""


def put_known(storage: Storage, name: str, data: Buffer | Sequence[Buffer]) -> Put:
    """Put an object until the outcome is known: WRITTEN, MINE or ANOTHER.

    Raises:
        StorageFull: certainly nothing was written.
        StorageUnavailable: the outcome stays unknown.
    """
    failure: Exception | None = None
    for attempt in range(PUT_ATTEMPTS):
        try:
            outcome = storage.put_if_absent(name, data)
        except StorageFull as error:
            if attempt == 0:
                raise
            failure = error
        except StorageUnavailable as error:
            failure = error
        else:
            if outcome is not Put.UNKNOWN:
                return outcome
    raise StorageUnavailable(
        f"{name}: not known to be written after {PUT_ATTEMPTS} attempts ({failure or 'no answer'}); restart the server"
    )


def claim(
    storage: Storage, prefix: str, log: bytes, randomness: Randomness, opener: Opener, now_ms: int
) -> WriterEpoch:
    """Put the next `epoch/<e>` of the log with that id; from now on nothing of an older writer is acknowledged.

    Raises:
        Fenced: others claim faster than we do.
        StorageUnavailable, StorageFull
    """
    for _ in range(CLAIM_ATTEMPTS):
        number = newest_epoch(storage, prefix) + 1
        id = randomness.id16()
        moves = _moves(last_claim(storage, prefix), opener)
        made = claims.Claim(prefix, number, id, log, opener.node, opener.run, moves, now_ms)
        if put_known(storage, made.name, claims.encode(made)) is not Put.ANOTHER:
            return WriterEpoch(number, id)
    raise Fenced(f"{prefix}: other servers keep opening it; stop all but one")


def _moves(before: claims.Claim | None, opener: Opener) -> int:
    return 0 if before is None else before.moves + (before.node != opener.node)


def last_claim(storage: Storage, prefix: str) -> claims.Claim | None:
    """The newest claim that can be read; None if there is none."""
    found = [name for name in storage.list(names.epochs_of(prefix)) if names.parse_epoch(name) is not None]
    for name in reversed(found):
        try:
            return claims.decode(storage.get(name), name)
        except Damaged:
            continue
    return None


def newest_epoch(storage: Storage, prefix: str) -> int:
    """The highest epoch of a claim, a manifest or a commit, so that a number is not given again though its claim was
    lost; 0 if there is none."""
    found = [
        number for name in storage.list(names.epochs_of(prefix)) if (number := names.parse_epoch(name)) is not None
    ]
    found += [
        parsed.epoch for name in storage.list(names.manifests_of(prefix)) if (parsed := names.parse_manifest(name))
    ]
    last = deque(storage.list(names.commits_of(prefix)), maxlen=1)
    found += [parsed.epoch for name in last if (parsed := names.parse_commit(name))]
    return max(found, default=0)


def check_fence(storage: Storage, prefix: str, epoch: WriterEpoch) -> None:
    """Check that no newer writer has claimed the shard; claims are consecutive.

    Raises:
        Fenced: a newer writer has.
    """
    if storage.size(names.epoch(prefix, epoch.number + 1)) is not None:
        raise Fenced(f"{prefix}: a newer server has opened it (epoch {epoch.number + 1}); this one stops")


def next_manifest(storage: Storage, prefix: str, log: bytes, epoch: WriterEpoch, damages: list[Damaged]) -> Manifest:
    """Manifest 0 of our epoch, not yet put: the ruling manifest, with its epoch ended where its commits end.

    Commits and segments that are missing are added to `damages`: the manifest is then for reading, and never put.

    Raises:
        Damaged: the ruling manifest is lost, damaged or another log's.
    """
    ruling = manifests.newest(storage, prefix)
    if ruling is None:
        for doubt in _orphans(storage, prefix):
            raise doubt
        return manifests.first_manifest(prefix, epoch.number, epoch.id, log)
    if ruling.log != log:
        raise Damaged(ruling.name, f"is of the log {ruling.log.hex()}, and is opened as that of {log.hex()}")
    for doubt in _unreadable(ruling):
        raise doubt
    commits = commits_there(storage, prefix)
    end = end_of(storage, ruling, commits, damages)
    for doubt in _newer(storage, ruling, end, commits):
        raise doubt
    damages += _missing(storage, ruling)
    return ruling.with_epoch(epoch.number, epoch.id, end)


def doubts(storage: Storage, prefix: str, ruling: Manifest | None) -> Iterator[Damaged]:
    """What says that this is not the manifest that ruled last, or that commits of its epoch are missing."""
    if ruling is None:
        yield from _orphans(storage, prefix)
        return
    yield from _unreadable(ruling)
    damages: list[Damaged] = []
    commits = commits_there(storage, prefix)
    end = end_of(storage, ruling, commits, damages)
    yield from damages
    yield from _newer(storage, ruling, end, commits)


def _unreadable(ruling: Manifest) -> Iterator[Damaged]:
    """Segments of a kind that a newer program makes; a log without their rows would be another one."""
    for segment in ruling.segments:
        if segment.kind not in manifests.READABLE:
            why = f"is a {segment.kind} segment, which this program cannot read; open the log with a newer program"
            yield Damaged(segment.name, why)


def _missing(storage: Storage, ruling: Manifest) -> Iterator[Damaged]:
    there = set(storage.list(names.segments_of(ruling.prefix)))
    for segment in ruling.segments:
        elsewhere = not names.is_below(ruling.prefix, segment.name)
        if storage.size(segment.name) is None if elsewhere else segment.name not in there:
            yield Missing(segment.name)


def commits_there(storage: Storage, prefix: str) -> Sequence[Numbered]:
    """Every commit of a log that is there, also those that do not count; there may be a hundred thousand."""
    parsed = map(names.parse_commit, storage.list(names.commits_of(prefix)))
    return [commit for commit in parsed if commit is not None]


def _newer(storage: Storage, ruling: Manifest, end: int, commits: Sequence[Numbered]) -> Iterator[Damaged]:
    """Traces of a newer manifest."""
    for epoch in sorted({commit.epoch for commit in commits if commit.epoch > ruling.epoch}):
        why = f"the manifest is missing, and commits of its epoch are there; the newest manifest is {ruling.name}"
        yield Damaged(names.manifest(ruling.prefix, epoch, 0), why)
    yield from _beyond(storage, ruling, end)


def _orphans(storage: Storage, prefix: str) -> Iterator[Damaged]:
    """Objects of a log that has no manifest; a claim alone is what a start leaves that was cut off."""
    for kind in (names.commits_of, names.segments_of, names.checkpoints_of):
        first = next(iter(storage.list(kind(prefix))), None)
        if first is not None:
            yield Damaged(
                names.manifests_of(prefix), f"no manifest is there, and nobody else says what {first} counts for"
            )
            return


def _beyond(storage: Storage, ruling: Manifest, end: int) -> Iterator[Damaged]:
    """Segments and checkpoints that the manifest does not name and that a newer one must have named: merges are made of
    commits that count, so none stands for a commit at or beyond the end."""
    named = {segment.name for segment in ruling.segments}
    if ruling.checkpoint is not None:
        named.add(ruling.checkpoint.name)
    for name in storage.list(names.segments_of(ruling.prefix)):
        if name not in named and names.is_segment(name):
            yield from _too_new(ruling, end, name, _segment_end(storage, name))
    for name in storage.list(names.checkpoints_of(ruling.prefix)):
        if name not in named:
            yield from _too_new(ruling, end, name, _checkpoint_end(storage, name))


def _too_new(ruling: Manifest, end: int, name: str, stands_to: int) -> Iterator[Damaged]:
    if stands_to > end:
        why = (
            f"ends the log at commit {end:,}, but {name} stands for commits below {stands_to:,}: a newer one is missing"
        )
        yield Damaged(ruling.name, why)


def _segment_end(storage: Storage, name: str) -> int:
    """The end of a segment that nobody names; 0 if it cannot be read, since it is of no use."""
    try:
        return format.commits_of(storage, name)[1]
    except Damaged:
        return 0


def _checkpoint_end(storage: Storage, name: str) -> int:
    try:
        return checkpoint.commit_of(storage, name)
    except Damaged:
        return 0


def check_rules(storage: Storage, manifest: Manifest) -> None:
    """Check that a manifest of ours, which was put, is the ruling one: what is written would be lost otherwise.

    Raises:
        Damaged: it is not.
    """
    ruling = manifests.newest_name(storage, manifest.prefix)
    if ruling != manifest.name:
        raise Damaged(manifest.name, f"was put to rule, and {ruling} rules")


def end_of(storage: Storage, ruling: Manifest, commits: Sequence[Numbered], damages: list[Damaged]) -> int:
    """The end of the commits of the ruling manifest's own epoch, of all that are there.

    Every commit says below which number all were known to be durable when it was put, and so does the manifest's
    checkpoint. So what is missing there is an acknowledged commit that was lost: it is added to `damages`, and those
    after it are no left-overs. At a number that is missing and that none of them knows to be durable, and at a seal,
    the epoch ends.
    """
    first = max(ruling.epochs[-1].first, ruling.merged_end)
    written = {commit.number for commit in commits if commit.epoch == ruling.epoch and commit.number >= first}
    after = max(written, default=first - 1) + 1
    checkpointed = 0 if ruling.checkpoint is None else ruling.checkpoint.commit
    known = max(_known(storage, ruling, written), checkpointed)
    end = max(after, checkpointed)
    for number in range(first, end):
        if number not in written and number < known:
            why = f"later ones up to {after - 1} are there" if number < after else "a checkpoint knows it"
            name = names.commit(ruling.prefix, ruling.epoch, number)
            damages.append(Damaged(name, f"the commit is missing, and {why}"))
        elif number >= known and (number not in written or _is_seal(storage, ruling, number)):
            return number
    return end


def _known(storage: Storage, ruling: Manifest, written: set[int]) -> int:
    """Below this number the newest commit knows all to be durable; all, if it cannot be read: it may be one that
    counts. Today's writers put one commit at a time, so it is the newest commit's own number."""
    newest = max(written, default=0)
    meta = _own_meta(storage, ruling, newest) if written else None
    return newest + 1 if meta is None else meta.known


def _is_seal(storage: Storage, ruling: Manifest, number: int) -> bool:
    meta = _own_meta(storage, ruling, number)
    return meta is not None and meta.kind == "seal"


def _own_meta(storage: Storage, ruling: Manifest, number: int) -> FileMeta | None:
    """What a commit or seal of the ruling manifest's epoch says of itself; None if it cannot be read, or is of another
    epoch of that number, which recovery finds too."""
    name = names.commit(ruling.prefix, ruling.epoch, number)
    try:
        meta = format.read_meta(storage.get(name), name)
    except Damaged:
        return None
    return meta if meta.epoch_id == ruling.epochs[-1].id else None


def put_manifest(storage: Storage, manifest: Manifest, epoch: WriterEpoch) -> None:
    """Put a manifest of ours and check that it may rule.

    Raises:
        Fenced, StorageFull, StorageUnavailable
        Damaged: its name is taken.
    """
    outcome = put_known(storage, manifest.name, manifests.encode(manifest))
    check_fence(storage, manifest.prefix, epoch)
    if outcome is Put.ANOTHER:
        raise Damaged(manifest.name, "another object has the name of our manifest")
