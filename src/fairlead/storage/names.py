"""Every object name, built and parsed in one place.

    cluster.json                                   format version, cluster name and id
    lock                                           not an object: the lock of a local directory
    meta/…                                         the cluster's own log, same layout as a shard
    streams/<stream id hex>/shard-0000/…           one shard of a stream
        epoch/<e>                                  claim of a writer epoch
        commit/<e>/<n>                             one commit
        segment/<random hex>.arrow                 stands for a run of commits once a manifest names it
        manifest/<e>/<k>                           the highest (e, k) rules
        checkpoint/<random hex>                    a shortcut past the replay of the log
    set-aside/<name with _ for />                  a damaged object that its log goes on without
    nodes/… packs/… lake/…                         reserved: nothing below them is of a log, and nothing is made there

Numbers have 20 digits, so that the order of the names is the order of the numbers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CLUSTER = "cluster.json"
META = "meta"
STREAMS = "streams"
SET_ASIDE = "set-aside"
RESERVED = ("nodes", "packs", "lake")
"""What later programs put there is no log of this one: it is neither opened, checked nor deleted."""

_NUMBER = r"(\d{20})"
_EPOCH = re.compile(rf"(.+)/epoch/{_NUMBER}\Z")
_COMMIT = re.compile(rf"(.+)/commit/{_NUMBER}/{_NUMBER}\Z")
_MANIFEST = re.compile(rf"(.+)/manifest/{_NUMBER}/{_NUMBER}\Z")
_SEGMENT = re.compile(r"(.+)/segment/[0-9a-f]{32}\.arrow\Z")
_CHECKPOINT = re.compile(r"(.+)/checkpoint/[0-9a-f]{32}\Z")


class Numbered(NamedTuple):
    """Writer epoch and number within it, of a commit or manifest."""

    epoch: int
    number: int


def stream_prefix(stream_id: bytes) -> str:
    """Where everything of a stream lies, without a `/` at the end."""
    return f"{STREAMS}/{stream_id.hex()}"


def shard_prefix(stream_id: bytes, number: int) -> str:
    """Prefix of one shard's log."""
    return f"{stream_prefix(stream_id)}/shard-{number:04d}"


def epoch(prefix: str, number: int) -> str:
    """The claim of writer epoch `number`."""
    return f"{prefix}/epoch/{number:020d}"


def commit(prefix: str, epoch_number: int, number: int) -> str:
    """Commit `number`, written in that epoch."""
    return f"{prefix}/commit/{epoch_number:020d}/{number:020d}"


def manifest(prefix: str, epoch_number: int, k: int) -> str:
    """Manifest `k` of that epoch."""
    return f"{prefix}/manifest/{epoch_number:020d}/{k:020d}"


def segment(prefix: str, random: bytes) -> str:
    """A segment; `random` is 16 random bytes, so that no two attempts meet."""
    return f"{prefix}/segment/{random.hex()}.arrow"


def checkpoint(prefix: str, random: bytes) -> str:
    """A checkpoint; named as a segment is."""
    return f"{prefix}/checkpoint/{random.hex()}"


def set_aside(name: str) -> str:
    """Where a damaged object is kept that a log goes on without; no object of any log."""
    return f"{SET_ASIDE}/{name.replace('/', '_')}"


def epochs_of(prefix: str) -> str:
    """What to list for all claims."""
    return f"{prefix}/epoch/"


def commits_of(prefix: str) -> str:
    """What to list for all commits."""
    return f"{prefix}/commit/"


def manifests_of(prefix: str) -> str:
    """What to list for all manifests."""
    return f"{prefix}/manifest/"


def of_epoch(prefix: str, number: int) -> str:
    """The folder of a writer epoch in `commits_of` or `manifests_of`."""
    return f"{prefix}{number:020d}"


def segments_of(prefix: str) -> str:
    """What to list for all segments, named by a manifest or not."""
    return f"{prefix}/segment/"


def checkpoints_of(prefix: str) -> str:
    """What to list for all checkpoints."""
    return f"{prefix}/checkpoint/"


def parse_epoch(name: str) -> int | None:
    """The number of a claim; None if the name is not one."""
    found = _EPOCH.match(name)
    return int(found[2]) if found else None


def parse_commit(name: str) -> Numbered | None:
    """Epoch and number of a commit; None if the name is not one."""
    found = _COMMIT.match(name)
    return Numbered(int(found[2]), int(found[3])) if found else None


def parse_manifest(name: str) -> Numbered | None:
    """Epoch and k of a manifest; None if the name is not one."""
    found = _MANIFEST.match(name)
    return Numbered(int(found[2]), int(found[3])) if found else None


def is_checkpoint(name: str) -> bool:
    """Whether the name is a checkpoint's."""
    return _CHECKPOINT.match(name) is not None


def is_segment(name: str) -> bool:
    """Whether the name is a segment's."""
    return _SEGMENT.match(name) is not None


def is_below(prefix: str, name: str) -> bool:
    """Whether the name is of an object of the log of that prefix, and so may be deleted with it."""
    return name.startswith(prefix + "/")


def prefix_of(name: str) -> str | None:
    """The shard's prefix of any object of a log; None if it belongs to no log."""
    if name.partition("/")[0] in RESERVED:
        return None
    for pattern in (_COMMIT, _SEGMENT, _MANIFEST, _EPOCH, _CHECKPOINT):
        found = pattern.match(name)
        if found:
            return found[1]
    return None
