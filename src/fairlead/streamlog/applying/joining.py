"""Two links from one source become one: a link, and the side copy that has brought topics which come into it."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.model.errors import InvalidValue
from fairlead.model.names import SLICES
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.numbers import mask_of
from fairlead.streamlog.payloads import BehindPayload, PositionPayload
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import GrantRun
from fairlead.streamlog.writing.draft import Draft


def join_links(
    draft: Draft,
    links: tuple[bytes, bytes],
    into: bytes,
    until: Sequence[tuple[int, bytes]],
    admission: Admission = ANYBODY,
) -> None:
    """Both `links` have recorded all below the commits `until` of the source's shards, which lie in these writer
    epochs: so has the link `into`, from now on, which has the notes of both. If it has, nothing happens. One of the two
    may be further: it has read an object to its end, with what it brought then alone.

    Raises:
        InvalidValue: one of the two lacks something.
        NotAllowed: the third would have more notes than the source may leave.
    """
    for shard, (commit, epoch_id) in enumerate(until):
        if commit and not _has_come(draft, into, shard, commit):
            run = _run(draft, links, shard, commit)
            payload = PositionPayload(into, shard, mask_of(range(SLICES)), commit, epoch_id, run.epoch, run.counter)
            draft.add_control(Kind.POSITION, payload)
    before = len(draft.rows)
    for link in links:
        _hand_notes(draft, link, into)
    if len(draft.rows) > before:
        admission.check_notes(len(draft.state.notes(into)))


def _run(draft: Draft, links: tuple[bytes, bytes], shard: int, commit: int) -> GrantRun:
    """The last run of the first link, once both have recorded that commit for all slices."""
    for link in links:
        if not _has_come(draft, link, shard, commit):
            raise InvalidValue(f"link {link.hex()} has not brought all below commit {commit} of shard {shard} yet")
    found = draft.state.position((links[0], shard, 0))
    assert found is not None
    return found.run


def _has_come(draft: Draft, link: bytes, shard: int, commit: int) -> bool:
    positions = (draft.state.position((link, shard, each)) for each in range(SLICES))
    return all(each is not None and each.commit >= commit for each in positions)


def _hand_notes(draft: Draft, link: bytes, into: bytes) -> None:
    """What a link has noted behind or set aside is noted for another one too, unless that has a note of its own."""
    for (_, incarnation, partition), note in draft.state.notes(link).items():
        if draft.state.note((into, incarnation, partition)) is None:
            at = note.behind
            ends = (at.topic, incarnation, partition, at.end, at.reason, at.noted_at)
            draft.add_control(Kind.BEHIND, BehindPayload(into, *ends, create=note.create))
