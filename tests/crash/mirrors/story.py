"""A mirror under load, harmed again and again, and what became of it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.crash.mirrors.checking import Verdict, verdict
from tests.crash.mirrors.ends import End
from tests.crash.mirrors.harms import ALL
from tests.crash.mirrors.load import Load
from tests.support.mirrors import MirrorProcess, count, properties
from tests.support.records import wait_for_markers
from tests.support.waiting import WAIT_SECONDS, wait_until

EXACTLY_ONCE: Final = "--exactly.once"


class Story:
    """One mirror from `source` to `target`, by its files in `folder`. A harm waits `unit_seconds` as its unit."""

    def __init__(
        self,
        folder: Path,
        source: End,
        target: End,
        seed: int,
        *,
        options: Sequence[str] = (),
        unit_seconds: float = 1.0,
        away_seconds: float = 3.0,
        pause_seconds: float = 0.1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.source, self.target = source, target
        self.choose = random.Random(seed)
        self.away_seconds = away_seconds
        """How long a destination stays away, in units."""
        self.load = Load(source, folder.name, seed, pause_seconds)
        self.kills = 0
        self.kills_of_destination = 0
        """Of its nodes, one or all at once."""
        self.at_risk = 0
        """Records that mirrors had mirrored that were killed: what comes twice is among these. Known in the end."""
        self._exactly_once = EXACTLY_ONCE in options
        self._folder = folder
        self._unit_seconds = unit_seconds
        consumer = properties(
            folder / "consumer.config", source.outside, group_id=folder.name, metadata_max_age_ms="1000"
        )
        producer = properties(folder / "producer.config", target.outside)
        files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        self._arguments = [*files, "--whitelist", f"{folder.name}-.*", *options]
        self._in_order = 0
        """Records that mirrors had mirrored that were stopped in order."""
        self.mirror: MirrorProcess
        self.begun = False
        """Whether there is a mirror."""

    # ------------------------------------------------------------ the mirror

    @property
    def mirror_pid(self) -> int:
        return self.mirror.process.pid

    def start_mirror(self) -> None:
        self.mirror = MirrorProcess(self._folder, self._arguments)
        self.begun = True

    def kill_mirror(self) -> None:
        self.mirror.kill()
        self.kills += 1

    def stop_mirror(self) -> None:
        """In order; under load it ends in time, and well."""
        code = self.mirror.stop()
        assert code == 0, self.mirror.said()
        self._in_order += self.mirror.mirrored

    def wait(self, units: float) -> None:
        """A part of a harm; not for a condition."""
        time.sleep(units * self._unit_seconds)

    def mirrors_again(self) -> None:
        """Something new arrives: each harm is to find the mirror at work, not what is left of one that was killed."""
        wait_until(lambda: self._runs() and self.mirror.at_work, "the mirror says what it has mirrored")
        before = wait_until(self._mirrored, "the destination says what it has", every_seconds=0.2)
        wait_until(
            lambda: self._runs() and self._mirrored() > before, "the mirror goes on", WAIT_SECONDS, every_seconds=0.2
        )

    def _runs(self) -> bool:
        if self.mirror.process.poll() is not None:
            raise AssertionError(f"the mirror has ended:\n{self.mirror.said()[-3000:]}")
        return True

    def _mirrored(self) -> int:
        return sum(count(self.target.inside, topic) for topic in self.load.names)

    # ------------------------------------------------------------ the whole

    def tell(self, harms: Iterable[str]) -> Verdict:
        """Load, these harms, the end; what both clusters have then."""
        try:
            self.load.begin()
            self.start_mirror()
            for name in harms:
                self.mirrors_again()
                print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
                ALL[name](self)
            self.mirrors_again()
        finally:
            try:
                self.load.end()
            finally:
                code = self.mirror.stop() if self.begun else 0
        assert code == 0, self.mirror.said()
        self._in_order += self.mirror.mirrored
        last = MirrorProcess(self._folder, [*self._arguments, "--once"])
        assert last.wait() == 0, last.said()
        if self._exactly_once:
            for topic in self.load.names:
                wait_for_markers(self.target.inside, topic)
        found = verdict(self.source.inside, self.target.inside, self.load.topics)
        self.at_risk = self._mirrored() - self._in_order - last.mirrored
        return found

    def check(self, found: Verdict) -> None:
        """Nothing lost, changed or out of order; what came twice is what mirrors that were killed had mirrored, or is
        old and was under way when a node of the destination was killed. With `--exactly.once` nothing did."""
        print(f"kills {self.kills}, {found.line()} of {self.at_risk} at risk")
        assert found.lost == []
        assert found.wrong == []
        if self._exactly_once:
            assert (found.doubled, found.doubled_old, found.steps) == (0, 0, {})
            return
        assert found.doubled <= self.at_risk
        old = {f"{topic.name}-0" for topic in self.load.topics if topic.old}
        for where, steps in found.steps.items():
            assert len(steps) <= self.kills + self.kills_of_destination * (where in old), (where, steps)
