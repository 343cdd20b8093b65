"""`make demo-failover`: two clusters that feed each other; one is killed, the other takes over, the first returns.

    python -m examples.ships.failover [--ships 10] [--rate 300] [--keep]

Every line of the table at the end is a claim with what was measured. The exit code is 0 only if all of them hold.
Everything that was started is stopped, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from examples.ships import ais, traffic
from examples.ships.compare import compare, started
from examples.ships.crew import Group, Read, Reader, Writer
from examples.ships.sites import Site, Sites
from examples.ships.stage import Stage, run, table
from examples.ships.traffic import PREFIX, STREAM
from rich.console import Console

WEST, EAST = "sanfrancisco", "newyork"
GROUP = "harbour-office"
NUMBERS_EACH = 1_000_000_000
"""Each writer's records have numbers of their own."""


@dataclass(slots=True)
class Story:
    """What was written, read and found."""

    stage: Stage
    writers: list[Writer] = field(default_factory=list)
    sure: int = 0


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description="Two clusters in multi-master: a site is lost, and comes back.")
    parser.add_argument("--ships", type=int, default=10, help="topics that each site owns")
    parser.add_argument("--rate", type=int, default=300, help="records a second at each site")
    parser.add_argument("--keep", action="store_true", help="keep data and logs")
    options = parser.parse_args()
    os.environ.setdefault("FAIRLEAD_REPLICATOR_WORKERS", "1")  # each replicator has little to carry
    os.environ.setdefault("FAIRLEAD_MERGE_INTERVAL_SECONDS", "1")  # what the lost site alone had is copied soon
    return run("fairlead-failover-", lambda sites, console: _play(sites, console, options), _verdict, keep=options.keep)


def _verdict(story: Story) -> str | None:
    if not story.stage.good:
        return None
    return f"{len(story.stage.claims)} claims hold; {story.sure:,} acknowledged records, none lost"


def _play(sites: Sites, console: Console, options: argparse.Namespace) -> Story:
    story = Story(Stage(sites, console))
    try:
        Failover(sites, console, story, options).play()
    finally:
        for writer in story.writers:
            writer.give_up()
    console.print(table(f"{WEST} ⇄ {EAST}", story.stage.claims))
    return story


class Failover:
    """The play, act by act."""

    def __init__(self, sites: Sites, console: Console, story: Story, options: argparse.Namespace) -> None:
        self._sites = sites
        self._console = console
        self._story = story
        self._stage = story.stage
        self._rate: int = options.rate
        messages, what = ais.load()
        self._messages = messages
        names = sorted(Counter(message.topic for message in messages).items(), key=lambda each: (-each[1], each[0]))
        chosen = [name for name, _ in names[: 2 * options.ships]]
        self._west, self._east = chosen[::2], chosen[1::2]
        console.print(f"{what}: {len(self._west)} ships in {WEST}, {len(self._east)} in {EAST}")

    def play(self) -> None:
        """All of it."""
        west, east = self._set_up()
        at_west, at_east = self._write(west, self._west), self._write(east, self._east)
        office = Group(west, GROUP, [*self._west, *self._east])
        office.start()
        self._stage.until("the group reads", lambda: len(office.read) > self._rate)
        self._transfer(west, east, at_west)
        committed = self._committed(east, office)
        self._disaster(west, at_west, office)
        before = list(office.read)
        self._take_over(east)
        more = self._write(east, [name for name in self._west if name != self._moved])
        self._go_on(east, committed, before, [at_east, more])
        self._return(west, east, at_west, [at_east, more])

    # ------------------------------------------------------------ acts

    def _set_up(self) -> tuple[Site, Site]:
        with self._console.status("starting two clusters"), ThreadPoolExecutor() as threads:
            west, east = threads.map(self._sites.start, (WEST, EAST))
        self._stage.say("two clusters, one command: each feeds the other, and copies pass writes on to the owner")
        self._stage.run("stream", "create", "-path", _path(WEST), "-forwardwrites", "true")
        traffic.create_topics(west.kafka, self._west)
        pair = ("-path", _path(WEST), "-replica", _path(EAST))
        with self._console.status("Spark starts in both"):
            self._stage.run("stream", "replica", "autosetup", *pair, "-multimaster", "true", "--wait")
            traffic.create_topics(east.kafka, self._east)
            self._stage.until(
                "both have all topics", lambda: all(len(_topics(each)) >= 2 * len(self._west) for each in (west, east))
            )
        return west, east

    def _transfer(self, west: Site, east: Site, writer: Writer) -> None:
        self._stage.say(f"the topic {self._moved} moves to {EAST} while it is written in {WEST}")
        sure, began = sum(topic == self._moved for topic in writer.sure.values()), time.monotonic()
        self._stage.run(
            "stream", "topic", "transfer", "-path", _path(WEST), "-topic", self._moved, "-to", EAST, "--yes"
        )
        took = time.monotonic() - began
        self._stage.until(
            "the writer goes on", lambda: sum(topic == self._moved for topic in writer.sure.values()) > sure + 20
        )
        owner = _topics(east)[self._moved]["owner"]
        self._stage.claim(
            "a topic changes its owner under load",
            owner == _path(EAST) and not writer.failed,
            f"in {took:.1f} s; its writer in {WEST} saw {len(writer.failed)} errors",
        )

    def _committed(self, east: Site, office: Group) -> int:
        """So many records the group had read when it committed what the other site knows of by now."""
        self._stage.until("the group commits", lambda: office.committed > 0)
        positions, read = list(office.positions), office.committed

        def known() -> bool:
            rows = east.ask("/rest/stream/cursor/list", path=STREAM, consumergroup=GROUP)
            there = {(PREFIX + row["topic"], row["partitionid"]): row["committedoffset"] for row in rows}
            return all(there.get((each.topic, each.partition), 0) >= each.offset for each in positions)

        self._stage.until(f"what the group has committed is known in {EAST}", known)
        return read

    def _disaster(self, west: Site, writer: Writer, office: Group) -> None:
        self._stage.say(f"the line from {WEST} is cut; a second later {WEST} dies")
        self._stage.run("stream", "replica", "pause", "-path", _path(WEST), "-replica", _path(EAST))
        sure = len(writer.sure)
        self._stage.until("writes that nobody else has", lambda: len(writer.sure) > sure + self._rate)
        self._console.print(f"$ kill -9 {west.process.pid}", style="bold", highlight=False)
        self._sites.kill(west)
        writer.give_up()
        office.stop()

    def _take_over(self, east: Site) -> None:
        self._stage.say(f"{EAST} takes over what {WEST} owned")
        began = time.monotonic()
        self._stage.run("stream", "topic", "takeover", "-path", _path(EAST), "-from", WEST, "--yes")
        took = time.monotonic() - began
        owned = sum(row["owner"] == _path(EAST) for row in _topics(east).values())
        self._stage.claim(
            f"{EAST} owns all topics",
            owned == len(self._west) + len(self._east),
            f"{owned} topics, {took:.1f} s after the command",
        )

    def _go_on(self, east: Site, committed: int, before: list[Read], writers: list[Writer]) -> None:
        self._stage.say("the consumer group goes on there: nothing but its bootstrap.servers changes")
        self._stage.run("stream", "failover", "preview", "-path", _path(EAST), "-group", GROUP)
        preview = east.ask("/rest/stream/failover/preview", path=STREAM, group=GROUP)
        again = Group(east, GROUP, [*self._west, *self._east])
        again.start()
        began = time.monotonic()
        self._stage.until("the group reads", lambda: bool(again.read))
        took = time.monotonic() - began
        sure = len(writers[1].sure)
        self._stage.until("writers go on", lambda: len(writers[1].sure) > sure + self._rate)
        for writer in writers:
            writer.stop()
        live = self._all_of(east, [*self._west, *self._east])
        here = {(place, found) for place, found in live.contents.items()}
        self._stage.until("the group has read all", lambda: here <= {*before, *again.read}, fails=False)
        again.stop()
        skipped = len(here - {*before, *again.read})
        twice = len(set(before) & set(again.read))
        allowed = len(before) - committed
        self._stage.claim("the group skipped nothing", skipped == 0, f"{len(here):,} records there, {skipped} not read")
        said = {(row["topic"], row["partitionid"]): row["goesonat"] for row in preview}
        start = started(said, (place for place, _ in again.read))
        self._stage.claim(
            "it went on where the preview had said",
            start.as_said,
            f"in {start.right} of the {start.right + start.wrong} partitions that it read; {start.unread} it did not",
        )
        self._stage.claim(
            "it read again only what it had not committed",
            twice <= allowed,
            f"{twice:,} of {allowed:,}; it was reading {took:.1f} s after it joined",
        )
        failed = sum(len(writer.failed) for writer in writers)
        self._stage.claim(f"writers in {EAST} never failed", failed == 0, f"{failed} errors")

    def _return(self, west: Site, east: Site, lost: Writer, writers: list[Writer]) -> None:
        self._stage.say(f"{WEST} comes back, with records that nobody else has")
        west = self._sites.start_again(west)
        self._stage.run("stream", "replica", "resume", "-path", _path(WEST), "-replica", _path(EAST))
        names = [*self._west, *self._east]
        with self._console.status("the two come together"):
            self._stage.until("both are alike", lambda: _settled(west, east))
        here = set(self._all_of(east, names).contents.values())
        missing = {found for found in lost.sure if found not in here}
        # The owner is known a moment before the tails are copied, topic by topic.
        kept = partial(self._in_tails, east)
        self._stage.until("what is missing is in diverged topics", lambda: missing <= kept().keys(), fails=False)
        in_tails = {found: topic for found, topic in kept().items() if found in missing}
        topics = {*in_tails.values()}
        self._stage.claim(
            f"what {WEST} alone had is kept",
            bool(missing) and missing == in_tails.keys(),
            f"{len(in_tails):,} of {len(missing):,} acknowledged records, in {len(topics)} diverged topics",
        )
        self._stage.say("and is claimed")
        self._stage.run("stream", "topic", "claim", "-path", _path(EAST), "-topic", "ship-.*")
        self._stage.until("both are alike", lambda: _settled(west, east))
        at_west, at_east = self._all_of(west, names), self._all_of(east, names)
        counts = Counter(at_east.contents.values())
        every = [found for writer in (lost, *writers) for found in writer.sure]
        self._story.sure = len(every)
        gone, double = sum(not counts[each] for each in every), sum(count > 1 for count in counts.values())
        self._stage.claim(
            "every acknowledged record is there, once",
            gone == double == 0,
            f"{len(every):,} acknowledged, {gone} missing, {double} twice",
        )
        found = compare(at_west.held, at_east.held, set())
        self._stage.claim(
            "both sites hold the same at the same offsets",
            found.equal,
            f"{found.same:,} records alike, {found.missing + found.extra + found.different} not",
        )

    # ------------------------------------------------------------ helpers

    @property
    def _moved(self) -> str:
        """The topic that changes its owner before the disaster: the ship that is heard most."""
        return self._west[0]

    def _write(self, site: Site, names: Iterable[str]) -> Writer:
        chosen = set(names)
        messages = [message for message in self._messages if message.topic in chosen]
        writer = Writer(site.kafka, messages, self._rate, len(self._story.writers) * NUMBERS_EACH)
        self._story.writers.append(writer)
        return writer

    def _in_tails(self, site: Site) -> dict[bytes, str]:
        """What its diverged topics hold, and which of them."""
        tails = [name for name in _topics(site) if ".diverged." in name]
        return {found: place[0] for place, found in self._all_of(site, tails).contents.items()}

    def _all_of(self, site: Site, names: list[str]) -> Reader:
        """Everything that these topics hold at a site now."""
        count = sum(_records(site, name) for name in names)
        reader = Reader(site, names)
        try:
            reader.wait_for(count, lambda done: None)
        finally:
            reader.stop()
        return reader


def _path(name: str) -> str:
    return f"/mapr/{name}{STREAM}"


def _topics(site: Site) -> dict[str, dict[str, Any]]:
    return {row["topic"]: row for row in site.ask("/rest/stream/topic/list", path=STREAM)}


def _records(site: Site, name: str) -> int:
    rows = site.ask("/rest/stream/topic/info", path=STREAM, topic=name)
    return sum(row["maxoffset"] + 1 - row["minoffset"] for row in rows)


def _settled(west: Site, east: Site) -> bool:
    """Nothing is under way between the two, and both know the same topics and owners."""
    links = [*west.ask("/rest/stream/replica/list", path=STREAM), *east.ask("/rest/stream/replica/list", path=STREAM)]
    here, there = ({name: row["owner"] for name, row in _topics(each).items()} for each in (west, east))
    return here == there and all(row["isUptodate"] and not row["errors"] for row in links)


if __name__ == "__main__":
    sys.exit(main())
