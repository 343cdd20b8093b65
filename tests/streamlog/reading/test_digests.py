"""Digests of batches: the same for the same history, however it lies in objects."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from tests.streamlog.world import SeededRandomness, committed, fresh, installed, made, produced

from fairlead.model.settings import Settings
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.reading.digests import MODULUS, boundaries, digests
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.writing.writer import ShardLog

WHOLE = (0, 100)


def of(log: ShardLog, number: int, first: int = 0, end: int = 100, *, without: tuple[tuple[int, int], ...] = ()) -> int:
    """The digest of a range of the first partition."""
    return digests(log.reader, number, 0, [(first, end)], without)[0]


def filled(count: int = 6) -> tuple[ShardLog, int]:
    """A topic with so many batches of two records, beside another one."""
    log = fresh(settings=Settings(merge_commits_min=1, merge_idle_seconds=0.01))
    number, other = made(log).number, made(log, "other").number
    for value in range(count):
        produced(log, number, b"%d" % value, b"x")
        produced(log, other, b"other")
    return log, number


@given(split=st.integers(0, 12))
def test_ranges_add_up_wherever_they_are_cut(split: int) -> None:
    """A batch counts where it begins, so neighbours never count one twice and lose none."""
    log, number = filled()
    assert (of(log, number, 0, split) + of(log, number, split, 12)) % MODULUS == of(log, number)
    assert of(log, number, 12) == 0


def test_what_differs_in_one_batch_has_another_digest_from_there_on() -> None:
    """Offsets, epoch or contents: here the contents, which only the CRC tells."""
    one, number = filled()
    other, _ = filled(3)
    produced(other, number, b"3", b"y")
    for value in (b"4", b"5"):
        produced(other, number, value, b"x")
    assert of(one, number, 0, 6) == of(other, number, 0, 6)
    assert of(one, number, 6, 8) != of(other, number, 6, 8)
    assert of(one, number, 8) == of(other, number, 8)


def test_what_is_dead_or_left_out_does_not_count() -> None:
    """A log that was cut is as one that never had more, and a gap of either side is left out at both."""
    log, number = filled()
    below = of(log, number, 0, 8)
    without = of(log, number, without=((4, 6),))
    assert without == (of(log, number, 0, 4) + of(log, number, 6)) % MODULUS
    committed(log, partial(cut, number=number, partition=0, offset=8, reason="test", by_epoch=1, keep=None))
    assert of(log, number) == below
    assert boundaries(log.reader, number, 0, WHOLE, ((2, 4),)).tolist() == [0, 4, 6]


def test_a_merge_changes_no_digest() -> None:
    """It changes only where batches lie."""
    log, number = filled()
    before = of(log, number)
    while (job := log.upkeep.plan()) is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(log.announced.end), job))
    assert log.announced.manifest.segments
    assert of(log, number) == before
