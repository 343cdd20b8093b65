"""How often a log is read, and for how many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.replication.fakes import DESTINATION, LINK, SOURCE, fake_control, running
from tests.replication.reader.test_task import THIRD, Site, row
from tests.support.waiting import WAIT_SECONDS, in_time

from fairlead.model.errors import Missing
from fairlead.replication.carried.addresses import parse_address
from fairlead.replication.reader.shared_reads import Found, FrameWork, Place, ReadPace, SharedReads
from fairlead.replication.reader.task import ReaderSettings, ReaderTask
from fairlead.spark.handover import Handover
from fairlead.spark.packets import Packet
from fairlead.streamlog.frames.codec import decode_frame
from fairlead.streamlog.objects.dead import NOTHING_DEAD
from fairlead.streamlog.reading.slices import Route, read_routes, read_slices

LINKS = 64
PLACE: Place = (((0, 5),), ((0, 5),), None)


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def read(pace: ReadPace, clock: Clock, took: float) -> None:
    """A read that takes so long."""
    pace.begin()
    clock.now += took
    pace.end()


@pytest.mark.parametrize(("took", "waits"), [(0.0, 0.0), (2.0, 2.0), (6.0, 4.0), (15.0, 0.0)])
def test_between_two_reads_passes_as_much_time_as_the_first_took_within_the_interval(took: float, waits: float) -> None:
    """A cheap read is soon followed by the next; a dear one lets commits gather; a long one has let them gather."""
    clock = Clock()
    pace = ReadPace(clock, interval_max=10.0)
    read(pace, clock, took)
    assert pace.wait_seconds() == pytest.approx(waits)


def test_the_first_commit_and_one_after_a_rest_are_read_at_once() -> None:
    """Nothing is waited for when the last read is long ago."""
    clock = Clock()
    pace = ReadPace(clock, interval_max=10.0)
    assert pace.wait_seconds() == 0
    read(pace, clock, 4.0)
    clock.now += 4.0
    assert pace.wait_seconds() == 0


def test_the_frames_of_many_links_are_work_for_others_too() -> None:
    """The next read waits for that work, not longer than a quarter of a second; a lone link's frame is none to wait
    for: commits gather for longer before they are announced."""
    clock = Clock()
    pace, work = ReadPace(clock), FrameWork(clock)
    pace.begin()
    pace.end(work.made(1))
    assert pace.wait_seconds() == pytest.approx(0.002)
    pace.end(work.made(31))
    assert pace.wait_seconds() == pytest.approx(0.064)
    pace.end(work.made(1000))
    assert pace.wait_seconds() == pytest.approx(0.25)


def test_after_long_load_a_lone_commit_waits_no_longer_than_before_it() -> None:
    """A minute of twice as many frames as can be passed on leaves no minute of waiting behind."""
    clock = Clock()
    pace, work = ReadPace(clock), FrameWork(clock)
    for _ in range(240):
        pace.begin()
        pace.end(work.made(256))
        clock.now += pace.wait_seconds()
    clock.now += 0.25
    pace.begin()
    pace.end(work.made(1))
    assert pace.wait_seconds() == pytest.approx(0.002)


class Log:
    """Counts how often it is read, and for whom."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.reads: list[int] = []
        self.end = 10
        self._fails = fails

    async def read(self, routes: Sequence[Route], target: int) -> Found | None:
        """Nothing is there."""
        self.reads.append(len(routes))
        if self._fails is not None:
            raise self._fails
        return Found([[] for _ in routes], 7)


def waiting(reads: SharedReads, log: Log, place: Place = PLACE) -> asyncio.Task[object]:
    """A grant that waits for its turn there."""
    return asyncio.ensure_future(reads.turn(place, Route(DESTINATION), lambda: log.end, log.read))


async def test_64_links_at_one_place_read_the_log_once() -> None:
    """Also those that were slower: all go on to one commit, and are at one place from then on."""
    reads, log = SharedReads(), Log()
    for _ in range(LINKS):
        reads.join()
    late: Place = (((0, 3),), ((0, 3),), None)
    turns = [waiting(reads, log) for _ in range(LINKS - 2)] + [waiting(reads, log, late) for _ in range(2)]
    async with in_time():
        found = await asyncio.gather(*turns)
    assert sorted(log.reads) == [2, LINKS - 2]
    assert {turn.target for turn in found} == {10}  # type: ignore[attr-defined]


async def test_a_link_alone_reads_by_itself() -> None:
    """Whether it is the only one, or the only one there: part by part, which takes less memory."""
    reads, log = SharedReads(), Log()
    reads.join()
    assert (await reads.turn(PLACE, Route(DESTINATION), lambda: 10, log.read)).parts is None
    reads.join()
    assert (await reads.turn(PLACE, Route(DESTINATION), lambda: 10, log.read)).parts is None
    assert log.reads == []


@pytest.mark.parametrize("error", [Missing("an object"), ValueError("a fault of the program")])
async def test_if_the_one_who_reads_fails_or_goes_the_others_go_on(error: Exception) -> None:
    """Each reads by itself then, and meets the damage, or what is left of it; a link that is withdrawn takes nobody's
    rows with it."""
    reads, log = SharedReads(), Log(fails=error)
    for _ in range(3):
        reads.join()
    leader, *others = [waiting(reads, log) for _ in range(3)]
    await asyncio.sleep(0)
    leader.cancel()
    async with in_time():
        found = await asyncio.gather(*others)
    assert all(turn.parts is None for turn in found)  # type: ignore[attr-defined]
    assert log.reads == [3]


async def test_those_who_come_after_a_meeting_that_nobody_waited_for_read_all_the_same() -> None:
    """All links were withdrawn at once while they waited, and are granted anew."""
    reads, log = SharedReads(), Log()
    for _ in range(2):
        reads.join()
    withdrawn = [waiting(reads, log) for _ in range(2)]
    await asyncio.sleep(0)
    for turn in withdrawn:
        turn.cancel()
        reads.leave()
    await asyncio.gather(*withdrawn, return_exceptions=True)
    for _ in range(2):
        reads.join()
    async with in_time():
        found = await asyncio.gather(*(waiting(reads, log) for _ in range(2)))
    assert [turn.target for turn in found] == [10, 10]  # type: ignore[attr-defined]
    assert log.reads == [2]


def test_routes_by_which_the_same_rows_go_share_their_parts(tmp_path: Path) -> None:
    """One scan and one body for all of them; a destination that some rows came from gets its own, as if it were read
    for alone."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0), row(0, 2, 0, via=THIRD, origin=THIRD))
    site.commit(row(1, 1, 1, origin=DESTINATION))
    others = [Route(bytes([number]) * 16) for number in range(1, 63)]
    routes = [*others, Route(THIRD), Route(DESTINATION), Route(DESTINATION, SOURCE)]
    how = {"framed": {1: 0, 2: 0}, "frame_bytes": 1 << 20, "refer_bytes": 1 << 20, "dead": NOTHING_DEAD}
    found = read_routes(site.storage, site.objects, {1: 0, 2: 0}, routes, **how)  # type: ignore[arg-type]
    assert len({id(parts) for parts in found[: len(others)]}) == 1
    for route, parts in zip(routes, found, strict=True):
        alone = read_slices(site.storage, site.objects, {1: 0, 2: 0}, route=route, framed={1: 0, 2: 0})
        rows = [(part.slices, part.to_commit, list(part.columns.rows())) for part in parts]
        assert rows == [(part.slices, part.to_commit, list(part.columns.rows())) for part in alone]


async def test_each_link_gets_frames_of_its_own_from_what_was_read_for_all(tmp_path: Path) -> None:
    """The same rows under its own name, and without those that came from its destination."""
    site = Site(tmp_path)
    site.commit(row(0, 1, 0), row(0, 1, 1, via=THIRD, origin=THIRD))
    grants = []
    for number in range(4):
        grant = site.grant({1: 0}, grant=number + 1, link=bytes([number]) * 16)
        stream = THIRD if number == 3 else bytes([100 + number]) * 16
        grants.append(replace(grant, destination=replace(grant.destination, stream=stream)))
    handover: Handover[Packet] = Handover(1 << 20)
    async with (
        fake_control(site.server(*grants, site.announce(site.objects))) as control,
        running(ReaderTask(control.url, "w", ReaderSettings(), handover).run()),
    ):
        taken = [(await asyncio.to_thread(handover.take_some, WAIT_SECONDS, 0))[0] for _ in grants]
    frames = {parse_address(each.address).link: decode_frame(bytes(each.data)) for each in taken}
    assert LINK not in frames
    for grant in grants:
        frame = frames[grant.link]
        assert frame.link == grant.link
        assert [found.base_offset for found in frame.rows] == ([0] if grant.destination.stream == THIRD else [0, 1])
