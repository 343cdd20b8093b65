"""Hostile frames at the level of apply: whatever a source sends, a restart finds the state that was there before.

A row that passes apply is durable and is replayed at each start. So after each frame the log is opened anew, and its
state compared. Each seed is one run of some frames; `FAIRLEAD_TEST_RUNS` says how many, `FAIRLEAD_TEST_SEEDS` which.
"""

from __future__ import annotations

import os
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.properties.hostile import Hostile, honest_frames
from tests.properties.sites import RUNS
from tests.streamlog.world import SeededRandomness, applied, fresh, installed, made, opened, produced, values_at

from fairlead.model.errors import FairleadError
from fairlead.model.settings import Settings
from fairlead.streamlog.frames.codec import decode_frame
from fairlead.streamlog.fsck import check_all
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.writing.writer import ShardLog

A, B = b"a" * 16, b"b" * 16
FRAMES = honest_frames(A, B)
FRAMES_A_RUN = 8
SETTINGS = Settings(merge_commits_min=2, merge_idle_seconds=1.0)


def seeds() -> list[int]:
    """The fixed ones, or those that are asked for."""
    first, _, asked = os.environ.get("FAIRLEAD_TEST_SEEDS", "").partition(":")
    return list(range(int(first), int(first) + int(asked or 1))) if first else list(range(2 * RUNS))


def state_of(log: ShardLog) -> Any:
    """All that the log's state holds, to be compared."""
    tables, meta = snapshot.dump(log.announced.state)
    meta["owned"] = log.announced.state.topic_table.owned
    plain = {name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in tables.items()}
    return plain, meta


def reopened(log: ShardLog) -> ShardLog:
    """The log after a restart, whose state is what it was."""
    again = opened(log.announced.storage, B, settings=SETTINGS)
    assert state_of(again) == state_of(log)
    return again


def merged(log: ShardLog) -> None:
    """Merge what there is, if there is enough."""
    job = log.upkeep.plan()
    if job is not None:
        installed(log, run_job.run(log.announced.storage, SeededRandomness(job.first + 1), job))


def play(seed: int) -> None:
    """Some frames, each with a restart after it; then honest ones, a merge and a last restart."""
    random = Random(seed)
    log = fresh(B, settings=SETTINGS)
    mine = made(log, "mine")
    produced(log, mine.number, b"1", b"2")
    hostile = Hostile(random)
    try:
        for _ in range(FRAMES_A_RUN):
            data = hostile.bytes_of(FRAMES)
            with suppress(FairleadError):
                applied(log, decode_frame(data))
            assert log.health.stopped is None
            log = reopened(log)
        for each in FRAMES:
            applied(log, each)
        merged(log)
        log = reopened(log)
        assert values_at(log, mine.number) == {0: b"1", 1: b"2"}
        assert check_all(log.announced.storage) == []
    except BaseException as error:
        error.add_note(f"seed {seed}: again with FAIRLEAD_TEST_SEEDS={seed}:1; changed: {hostile.said}")
        raise


@pytest.mark.parametrize("part", range(4))
def test_no_frame_makes_a_log_that_cannot_be_opened(part: int) -> None:
    """Nor one that is opened with another state; and what others wrote stays as it was."""
    for seed in seeds()[part::4]:
        play(seed)


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: str(frame.slices))
def test_the_honest_frames_are_applied(frame: Any) -> None:
    """Else the others would be refused for another reason than their change."""
    log = fresh(B)
    (outcome,) = applied(log, frame)
    assert (outcome.behind, outcome.conflicts, outcome.refused_position) == (0, 0, None)
