"""Who holds the lanes of a worker: one attempt, with both its processes, and nobody before the one before is gone."""

from __future__ import annotations

from typing import cast

from fairlead.mirror.workers.line import Line
from fairlead.mirror.workers.messages import End, Withdraw
from fairlead.mirror.workers.pairs import Pair, Slot


class FakeLine:
    """Notes what is said."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.was_cut = False
        self.said_bye = False

    def send(self, message: object) -> None:
        self.said.append(message)

    def cut(self) -> None:
        self.was_cut = True


class Rig:
    """A slot and what it told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Pair]] = []
        self.slot = Slot(lambda pair: self.told.append(("held", pair)), lambda pair: self.told.append(("lost", pair)))
        self.lines: dict[tuple[str, int], FakeLine] = {}

    def came(self, side: str, attempt: int) -> FakeLine:
        line = self.lines[side, attempt] = FakeLine()
        came = self.slot.reader_came if side == "reader" else self.slot.sink_came
        came(attempt, cast(Line, line))
        return line

    def gone(self, side: str, attempt: int, *, bye: bool = False) -> None:
        line = self.lines[side, attempt]
        line.said_bye = bye
        self.slot.gone(attempt, cast(Line, line))

    @property
    def events(self) -> list[str]:
        return [what for what, _ in self.told]


async def test_an_attempt_holds_once_both_its_processes_are_there() -> None:
    """In whichever order they come."""
    for first, second in (("reader", "sink"), ("sink", "reader")):
        rig = Rig()
        rig.came(first, 7)
        assert rig.events == []
        rig.came(second, 7)
        assert rig.events == ["held"]


async def test_a_new_attempt_waits_until_both_of_the_old_one_are_gone() -> None:
    """The old sink is told to withdraw when its reader dies, and ends its connection when it sends nothing more."""
    rig = Rig()
    rig.came("reader", 1)
    sink = rig.came("sink", 1)
    rig.gone("reader", 1)
    assert sink.said == [Withdraw()]
    rig.came("reader", 2)
    rig.came("sink", 2)
    assert rig.events == ["held"]
    rig.gone("sink", 1)
    assert rig.events == ["held", "lost", "held"]
    assert rig.slot.holder is rig.told[-1][1]


async def test_a_killed_sink_takes_its_reader_with_it() -> None:
    """The reader's rows would go to nobody."""
    rig = Rig()
    reader = rig.came("reader", 1)
    rig.came("sink", 1)
    rig.gone("sink", 1)
    assert reader.was_cut
    rig.gone("reader", 1)
    assert rig.events == ["held", "lost"]


async def test_a_reader_that_ends_in_order_leaves_its_sink_time() -> None:
    """What is under way at the end of a round is acknowledged."""
    rig = Rig()
    rig.came("reader", 1)
    sink = rig.came("sink", 1)
    rig.gone("reader", 1, bye=True)
    assert sink.said == []
    rig.gone("sink", 1, bye=True)
    assert rig.events == ["held", "lost"]


async def test_an_older_attempt_that_still_lives_is_withdrawn() -> None:
    """Spark has started another, whatever it took the old one for."""
    rig = Rig()
    reader, sink = rig.came("reader", 1), rig.came("sink", 1)
    rig.came("reader", 2)
    assert reader.was_cut
    assert sink.said == [Withdraw()]


async def test_at_the_end_nobody_holds_it_any_more() -> None:
    """The next round finds nothing to do, and is left in peace."""
    rig = Rig()
    reader = rig.came("reader", 1)
    rig.came("sink", 1)
    rig.slot.end()
    assert reader.said == [End()]
    for side in ("reader", "sink"):
        rig.gone(side, 1, bye=True)
    rig.came("reader", 2)
    assert rig.came("sink", 2).said == []
    assert rig.events == ["held", "lost"]
    assert rig.slot.holder is None
