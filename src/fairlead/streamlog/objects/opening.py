"""Opening a shard: claim the next writer epoch, find out which commits count, say so in a manifest.

Why it holds (F1): a writer checks after its put. If the check passed, the put came before the next writer's claim, and
so before that writer's listing, so it counts; if the check failed, nothing was acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from typing_extensions import Buffer

from fairlead.model.clock import Randomness
from fairlead.model.errors import Damaged, Fenced, StorageFull, StorageUnavailable
from fairlead.storage import names
from fairlead.storage.interface import Put, Storage
from fairlead.streamlog.objects import manifest as manifests
from fairlead.streamlog.objects.manifest import Manifest
from fairlead.streamlog.values import WriterEpoch

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


def claim(storage: Storage, prefix: str, randomness: Randomness) -> WriterEpoch:
    """Put the next `epoch/<e>`; from now on nothing of an older writer is acknowledged.

    Raises:
        Fenced: others claim faster than we do.
        StorageUnavailable, StorageFull
    """
    for _ in range(CLAIM_ATTEMPTS):
        number = newest_epoch(storage, prefix) + 1
        id = randomness.id16()
        data = json.dumps({"v": 1, "epoch": number, "id": id.hex()}).encode()
        if put_known(storage, names.epoch(prefix, number), data) is not Put.ANOTHER:
            return WriterEpoch(number, id)
    raise Fenced(f"{prefix}: other servers keep opening it; stop all but one")


def newest_epoch(storage: Storage, prefix: str) -> int:
    """Number of the newest claim; 0 if there is none."""
    found = (names.parse_epoch(name) for name in storage.list(names.epochs_of(prefix)))
    return max((number for number in found if number is not None), default=0)


def check_fence(storage: Storage, prefix: str, epoch: WriterEpoch) -> None:
    """Check that no newer writer has claimed the shard; claims are consecutive.

    Raises:
        Fenced: a newer writer has.
    """
    if storage.size(names.epoch(prefix, epoch.number + 1)) is not None:
        raise Fenced(f"{prefix}: a newer server has opened it (epoch {epoch.number + 1}); this one stops")


def next_manifest(storage: Storage, prefix: str, epoch: WriterEpoch) -> Manifest:
    """Manifest 0 of our epoch, not yet put: the ruling manifest, with its epoch ended where its commits end.

    Raises:
        Damaged: a commit is missing among those of its epoch.
    """
    ruling = manifests.newest(storage, prefix)
    if ruling is None:
        return manifests.first_manifest(prefix, epoch.number, epoch.id)
    return ruling.with_epoch(epoch.number, epoch.id, end_of(storage, ruling))


def end_of(storage: Storage, ruling: Manifest) -> int:
    """The first commit of the ruling manifest's own epoch that is missing.

    A writer puts a commit only once the one before is durable. So if a commit exists beyond a missing one, the log does
    not end there: an acknowledged commit was lost, and those after it would be taken for left-overs and deleted.

    Raises:
        Damaged: a commit exists beyond the missing one.
    """
    end = max(ruling.epochs[-1].first, ruling.merged_end)
    written = {
        parsed.number
        for name in storage.list(names.commits_of(ruling.prefix, ruling.epoch))
        if (parsed := names.parse_commit(name)) is not None
    }
    while end in written:
        end += 1
    if written and max(written) > end:
        missing = names.commit(ruling.prefix, ruling.epoch, end)
        raise Damaged(missing, f"the commit is missing, and later ones up to {max(written)} are there")
    return end


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
