"""`make soak HOURS=1`: a mirror under load for hours, with a harm a minute, and a report at the end.

Between two clusters of Apache Kafka, of three nodes each by default. While it runs, a line a minute tells how it is.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.crash.mirrors.ends import kafka_end
from tests.crash.mirrors.harms import ALL
from tests.crash.mirrors.story import Story
from tests.support.wires import Wires

RARE = {"a topic is made": 0.2, "a topic gets more partitions": 0.2, "the source is away": 0.3}
"""How often, beside the others: topics that are made stay."""


class Sample(NamedTuple):
    """How the mirror was at a moment."""

    minutes: float
    memory_mb: float
    files: int
    behind: int
    """Records that were not mirrored yet, as the mirror said last."""


@dataclass
class Samples:
    """Taken each ten seconds."""

    story: Story
    began: float = field(default_factory=time.monotonic)
    taken: list[Sample] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._ending.wait(10):
            if not self.story.begun:
                continue
            pid = self.story.mirror_pid
            memory, files, behind = _memory_mb(pid), _open_files(pid), self.story.mirror.behind
            if memory and behind is not None:
                self.taken.append(Sample((time.monotonic() - self.began) / 60, memory, files, behind))

    def end(self) -> None:
        self._ending.set()


def _memory_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def _open_files(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


class Harming:
    """Harms by chance, one a minute, until the time is over."""

    def __init__(self, seed: int, seconds: float, every_seconds: float) -> None:
        self._choose = random.Random(seed)
        self._until = time.monotonic() + seconds
        self._every = every_seconds

    def __iter__(self) -> Harming:
        return self

    def __next__(self) -> str:
        rest = self._until - time.monotonic()
        if rest <= 0:
            raise StopIteration
        time.sleep(min(self._every * self._choose.uniform(0.5, 1.5), rest))
        if time.monotonic() >= self._until:
            raise StopIteration
        names = list(ALL)
        return self._choose.choices(names, [RARE.get(name, 1.0) for name in names])[0]


def report(story: Story, samples: Sequence[Sample], line: str, minutes: float) -> str:
    """What a person reads at the end."""
    lines = [f"soak: {minutes:.0f} minutes, {story.kills} kills of the mirror", line]
    lines += [f"records at risk of coming twice, by kills: {story.at_risk:,}", "", "minute  memory MB  files  behind"]
    step = max(len(samples) // 20, 1)
    lines += [f"{s.minutes:6.1f} {s.memory_mb:10.0f} {s.files:6} {s.behind:7,}" for s in samples[::step]]
    if samples:
        lines.append(
            f"most: {max(s.memory_mb for s in samples):.0f} MB, {max(s.files for s in samples)} files, "
            f"{max(s.behind for s in samples):,} records behind"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if nothing was lost, changed, out of order, or doubled without a reason."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=3, help="of each cluster")
    parser.add_argument("--every-seconds", type=float, default=60.0, help="between two harms, about")
    parser.add_argument("--away-seconds", type=float, default=None, help="how long a cluster that is away stays away")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path, default=None, help="where all files are and stay; else a temporary one")
    parser.add_argument("mirror", nargs="*", help="further options of `fairlead mirror`, behind --")
    given = parser.parse_args(arguments)
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as temporary:
        return _soak(given, given.folder or Path(temporary))


def _soak(given: argparse.Namespace, folder: Path) -> int:
    began = time.monotonic()
    with (
        Wires() as wires,
        kafka_end(folder, "source", given.nodes, wires) as source,
        kafka_end(folder, "target", given.nodes, wires) as target,
    ):
        story = Story(
            folder / "soak",
            source,
            target,
            given.seed,
            options=given.mirror,
            away_seconds=min(60.0, given.hours * 600) if given.away_seconds is None else given.away_seconds,
            pause_seconds=0.25,
        )
        samples = Samples(story)
        watching = threading.Thread(target=samples.watch)
        watching.start()
        try:
            found = story.tell(Harming(given.seed, given.hours * 3600, given.every_seconds))
        finally:
            samples.end()
            watching.join()
        print(report(story, samples.taken, found.line(), (time.monotonic() - began) / 60))
        try:
            story.check(found)
        except AssertionError as error:
            print(f"FAILED: {error}; {[*found.lost[:5], *found.wrong[:5]]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
