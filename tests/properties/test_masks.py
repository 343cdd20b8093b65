"""Frames of any masks of slices, lost, repeated and in any order, under Hypothesis: every row arrives once.

A source writes; a link's frames say honestly which commits of which slices they hold. Positions of the slices stand
wherever the frames that arrived have left them, and the replica merges its log and opens it again.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.properties.sites import RUNS
from tests.streamlog.world import (
    SETTINGS,
    FakeClock,
    SeededRandomness,
    applied,
    fresh,
    installed,
    made,
    masked_frame,
    opened,
    produced,
    values_at,
)

from fairlead.model.names import slice_of
from fairlead.streamlog.frames.frame import Frame
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.numbers import ALL_SLICES, mask_of, slices_of_mask
from fairlead.streamlog.values import GrantRun

A, B, LINK = b"a" * 16, b"b" * 16, b"l" * 16
NAMES = ("ships", "ports", "a", "b")
USED = sorted({slice_of(name) for name in NAMES})
MASKS = st.just(ALL_SLICES) | st.lists(st.sampled_from(USED), min_size=1, unique=True).map(mask_of)
TINY = replace(SETTINGS, merge_commits_min=4, merge_idle_seconds=3600.0)


class Masks(RuleBasedStateMachine):
    """One source, one replica, one link."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.source = fresh(A)
        self.replica = fresh(B, clock=self.clock, settings=TINY)
        self.numbers = [made(self.source, name).number for name in NAMES]
        self.ids = SeededRandomness(7)
        self.flight: list[Frame] = []
        self.run = 1
        self.appended = 0
        self.reached = dict.fromkeys(range(16), 0)

    @rule(topic=st.integers(0, len(NAMES) - 1), records=st.integers(1, 3))
    def produce(self, topic: int, records: int) -> None:
        """One batch of one topic, in a commit of its own."""
        produced(self.source, self.numbers[topic], *[b"%d" % place for place in range(records)])

    @rule(slices=MASKS, back=st.integers(-3, 6), length=st.none() | st.integers(0, 4), newer=st.booleans())
    def send(self, slices: int, back: int, length: int | None, newer: bool) -> None:
        """A frame is in flight that begins before, at or beyond where its slices stand."""
        self.run += newer
        end = self.source.announced.end
        start = min(max(min(self.at(each) for each in slices_of_mask(slices)) - back, 0), end)
        to = end if length is None else min(start + length, end)
        self.flight.append(masked_frame(self.source, B, slices, start, to, run=GrantRun(1, self.run)))

    @rule(which=st.integers(0, 9), count=st.integers(1, 3), keep=st.booleans())
    def deliver(self, which: int, count: int, keep: bool) -> None:
        """Frames arrive together, perhaps not for the last time."""
        if self.flight:
            which %= len(self.flight)
            frames = self.flight[which : which + count]
            if not keep:
                del self.flight[which : which + count]
            self.apply(*frames)

    @rule(which=st.integers(0, 9))
    def lose(self, which: int) -> None:
        """A frame never arrives."""
        if self.flight:
            self.flight.pop(which % len(self.flight))

    @rule()
    def merge(self) -> None:
        """All that the replica's merger finds to do."""
        while (job := self.replica.upkeep.plan()) is not None:
            installed(self.replica, run_job.run(self.replica.announced.storage, self.ids, job))

    @rule()
    def reopen(self) -> None:
        """The replica begins anew, from its log."""
        self.replica = opened(self.replica.announced.storage, B, clock=self.clock, settings=TINY)

    def at(self, slice: int) -> int:
        """Where a slice stands."""
        position = self.replica.announced.state.position((LINK, 0, slice))
        return 0 if position is None else position.commit

    def apply(self, *frames: Frame) -> None:
        """Frames are applied or refused by the rule, and tell where their slices stand then."""
        for frame in frames:
            before = {each: self.at(each) for each in slices_of_mask(frame.slices)}
            (outcome,) = applied(self.replica, frame)
            after = {each: self.at(each) for each in before}
            self.appended += outcome.appended
            assert dict(outcome.positions) == after
            if outcome.reason == "from":
                assert frame.from_commit > min(before.values())
            if outcome.reason:
                assert after == before
            else:
                assert after == {each: max(at, frame.to_commit) for each, at in before.items()}

    @invariant()
    def nothing_is_behind_and_no_position_goes_back(self) -> None:
        """Honest frames leave no hole, whatever their masks."""
        state = self.replica.announced.state
        assert not state.behind(LINK)
        for each in range(16):
            assert self.at(each) >= self.reached[each]
            self.reached[each] = self.at(each)

    @invariant()
    def what_lies_below_a_position_is_here(self) -> None:
        """Row by row."""
        for name, number in zip(NAMES, self.numbers, strict=True):
            end = 0
            for part in (masked_frame(self.source, B, 1 << slice_of(name), 0, self.at(slice_of(name))),):
                end = max((row.last_offset + 1 for row in part.rows if row.topic == number), default=0)
            copy = self.replica.announced.state.by_name(name)
            assert (0 if copy is None else self.replica.announced.state.partition(copy.number, 0).end) >= end

    def teardown(self) -> None:
        """Laggards first, in frames of their own masks, then one of all: the replica equals the source."""
        end, self.run = self.source.announced.end, self.run + 1
        levels = sorted({self.at(each) for each in range(16)})
        for low, high in zip(levels, [*levels[1:], end], strict=True):
            slices = mask_of(each for each in range(16) if self.at(each) <= low)
            self.apply(masked_frame(self.source, B, slices, low, high, run=GrantRun(1, self.run)))
        assert {self.at(each) for each in range(16)} == {end}
        records = 0
        for name, number in zip(NAMES, self.numbers, strict=True):
            copy = self.replica.announced.state.by_name(name)
            assert copy is not None
            values = values_at(self.source, number)
            assert values_at(self.replica, copy.number) == values
            records += len(values)
        assert self.appended == records


def test_frames_of_any_masks_bring_every_row_once() -> None:
    """However they come."""
    profile = settings(
        max_examples=RUNS,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Masks, settings=profile)
