"""What demos share: a temporary folder, clusters that are stopped whatever happens, commands as they are typed, bars,
and a verdict that is the exit code."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TypeVar

import httpx
from confluent_kafka import KafkaException
from examples.ships import traffic
from examples.ships.sites import PATIENCE_SECONDS, SiteFailed, Sites, printed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

Story = TypeVar("Story")


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of the table at the end: something that is to hold, and what was measured."""

    what: str
    holds: bool
    measured: str


def table(title: str, claims: Iterable[Claim]) -> Table:
    """The claims as people see them."""
    made = Table(title=title)
    for heading in ("claim", "measured", "holds"):
        made.add_column(heading)
    for claim in claims:
        made.add_row(claim.what, claim.measured, "yes" if claim.holds else "[bold red]no[/]")
    return made


def add_chart_options(parser: argparse.ArgumentParser, default: Path) -> None:
    """The options of a demo that draws what was seen."""
    parser.add_argument("--chart", type=Path, default=default, help="where the picture goes")
    parser.add_argument("--no-chart", action="store_true", help="draw none")


def chart_file(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Path | None:
    """Where the picture goes, None: nowhere. Ends the program, before it does anything, where nothing could draw it."""
    if options.no_chart:
        return None
    if find_spec("matplotlib") is None:
        parser.error("the picture needs matplotlib: install it (`pip install matplotlib`), or use --no-chart")
    chart: Path = options.chart
    return chart


class Stage:
    """What acts do again and again: say what comes, run a command, wait for something, claim something."""

    def __init__(self, sites: Sites, console: Console) -> None:
        self.claims: list[Claim] = []
        self._sites = sites
        self._console = console
        self._began = time.monotonic()

    @property
    def good(self) -> bool:
        """There are claims, and all hold."""
        return bool(self.claims) and all(claim.holds for claim in self.claims)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def say(self, what: str) -> None:
        """A line of the story, with its time."""
        self._console.print(f"\n{self.seconds:3.0f} s  {what}", style="cyan", highlight=False, soft_wrap=True)

    def note(self, what: str) -> None:
        """A line between those of the story."""
        self._console.print(what, highlight=False, soft_wrap=True)

    def run(self, *arguments: str, shown: str | None = None) -> str:
        """Show a command, shorter if that is given, run it, and give what it printed."""
        return command(self._sites, self._console, *arguments, shown=shown)

    def until(self, what: str, done: Callable[[], bool], *, fails: bool = True) -> None:
        """Wait while all clusters run; if it does not happen in time, that is a failure, or left to a claim.

        Raises:
            TimeoutError: it did not happen in time.
            SiteFailed: a cluster ended.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            self._sites.check_running()
            if time.monotonic() > deadline:
                if not fails:
                    return
                raise TimeoutError(f"not within {PATIENCE_SECONDS} s: {what}")
            time.sleep(0.1)

    def claim(self, what: str, holds: bool, measured: str) -> None:
        """Add a line to the table at the end."""
        self.claims.append(Claim(what, holds, measured))


def run(
    prefix: str, play: Callable[[Sites, Console], Story], verdict: Callable[[Story], str | None], *, keep: bool
) -> int:
    """Play, stop everything that was started, also on Ctrl-C, and say how it went; the exit code."""
    console = Console()
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    sites = Sites(folder)
    failure, good = None, None
    try:
        good = verdict(play(sites, console))
    except KeyboardInterrupt:
        failure = "interrupted"
    except (SiteFailed, TimeoutError, KafkaException, httpx.HTTPError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    finally:
        left = _stop(sites, console)
        if keep:
            console.print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return _told(console, good, failure, left)


def command(sites: Sites, console: Console, *arguments: str, shown: str | None = None) -> str:
    """Show a command, as it is typed if that is given, run it, and give what it printed."""
    console.print(f"$ {shown or printed(arguments)}", style="bold", highlight=False, soft_wrap=True)
    return sites.command(*arguments)


@contextmanager
def bar(console: Console, what: str, total: int) -> Iterator[traffic.Progress]:
    """A bar for `what`, told how many of `total` are done."""
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=max(done, 0))


@contextmanager
def errors_into(log: Path) -> Iterator[None]:
    """What is written to standard error meanwhile, and by processes that are started meanwhile, goes to a log."""
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop(sites: Sites, console: Console) -> list[int]:
    """Stop all; a second Ctrl-C does not leave anything behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with console.status("stopping"):
        return sites.stop()


def _told(console: Console, good: str | None, failure: str | None, left: list[int]) -> int:
    if failure is not None:
        console.print(f"[bold red]FAILED[/]: {failure}", highlight=False, soft_wrap=True)
    elif left:
        console.print(f"[bold red]FAILED[/]: processes {left} did not stop by themselves and were killed")
    elif good is None:
        console.print("[bold red]FAILED[/]: not all of it holds; see the table")
    else:
        console.print(f"[bold green]OK[/]: {good}", highlight=False, soft_wrap=True)
        return 0
    return 1
