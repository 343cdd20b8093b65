"""`make demo`: a stream of 1,933 ships replicated between two clusters, and both ends compared record by record.

    python -m examples.ships.demo [--records 300000] [--seconds 20] [--rate 2000] [--keep]

Two clusters, sanfrancisco and newyork, run as child processes on free loopback ports, with data and address book in a
temporary folder. The exit code is 0 only if every record is at the same offset with the same content on both sides.
Everything that was started is stopped, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field

from examples.ships import ais, traffic
from examples.ships.compare import Comparison, Handover, Held, busiest, compare, percentile
from examples.ships.sites import Site, SiteFailed, Sites
from examples.ships.stage import bar, command, run
from examples.ships.traffic import STREAM, Follower, Publisher, in_stream
from rich.console import Console
from rich.table import Table

SOURCE = "sanfrancisco"
REPLICA = "newyork"
GROUP_TOPICS = 20
WATCH_EVERY = 19
COPY_IDLE_SECONDS = 180
"""The replicator's Java starts with the first link; a copy that does not move for so long has failed."""


@dataclass(slots=True)
class Story:
    """What happened, for the table."""

    what: str
    topics: int
    acknowledged: int = 0
    copy_seconds: float = 0
    moving_seconds: float = 0
    """Of these, since the first record was copied."""
    copied_records: int = 0
    copied_bytes: int = 0
    delays_ms: list[float] = field(default_factory=list)
    comparison: Comparison | None = None
    handover: Handover | None = None

    @property
    def good(self) -> bool:
        """Every record at the same offset with the same content, and the group went on where it stopped."""
        equal = self.comparison is not None and self.comparison.equal
        return equal and self.handover is not None and self.handover.seamless


def main() -> int:
    """Run it; the exit code."""
    options = _options()
    return run("fairlead-demo-", lambda sites, console: _play(sites, console, options), _verdict, keep=options.keep)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A stream replicated between two clusters, offsets kept.")
    parser.add_argument("--records", type=int, default=300_000, help="published before the replica exists")
    parser.add_argument("--rate", type=int, default=2000, help="records a second afterwards")
    parser.add_argument("--seconds", type=int, default=20, help="for so long")
    parser.add_argument("--keep", action="store_true", help="keep data and logs")
    return parser.parse_args()


def _play(sites: Sites, console: Console, options: argparse.Namespace) -> Story:
    messages, what = ais.load()
    topics = ais.topics(messages)
    story = Story(what, len(topics))
    console.print(f"{what}: {len(messages):,} messages of {len(topics):,} ships")
    source, replica = _start(sites, console)
    command(sites, console, "stream", "create", "-path", f"/mapr/{SOURCE}{STREAM}")
    traffic.create_topics(source.kafka, topics)
    publisher = Publisher(source.kafka, in_stream)
    with bar(console, "publishing to sanfrancisco", options.records) as progress:
        publisher.publish(ais.replay(messages, options.records), progress)
    _check(publisher)
    _copy(sites, console, source, story, options.records)
    more = options.rate * options.seconds
    new = list(ais.replay(messages, more, options.records))
    story.delays_ms = _live(console, replica, publisher, topics, new, options.rate)
    sites.check_running()
    at_replica = _read(console, replica, topics, options.records + more)
    at_source = _read(console, source, topics, options.records + more)
    story.acknowledged = len(publisher.acknowledged)
    story.comparison = compare(at_source, at_replica, publisher.acknowledged)
    _hand_over(console, source, replica, at_source, story)
    console.print(_table(story, at_source, at_replica))
    return story


def _live(
    console: Console,
    replica: Site,
    publisher: Publisher[ais.Message],
    topics: list[str],
    messages: list[ais.Message],
    rate: int,
) -> list[float]:
    """Publish at a steady rate while a consumer at the replica follows every 19th ship; its delays, sorted.

    Not every ship: a client built on librdkafka names all its partitions in every fetch, and a thousand fetches of two
    thousand names would be what is measured.
    """
    watched = topics[::WATCH_EVERY]
    watcher = Follower(replica.kafka, watched)
    try:
        watcher.wait_for(publisher.count_of(watched), lambda done: None)
        watcher.measure()
        before = len(publisher.acknowledged)
        with bar(console, f"publishing {rate:,} a second", len(messages)) as progress:
            publisher.publish(messages, lambda done: progress(done - before), rate)
        _check(publisher)
        watcher.wait_for(publisher.count_of(watched), lambda done: None)
    finally:
        watcher.stop()
    return sorted(watcher.delays_ms)


def _read(console: Console, site: Site, topics: list[str], count: int) -> Held:
    """Everything that one site holds, by a consumer from the first offset on."""
    follower = Follower(site.kafka, topics)
    try:
        with bar(console, f"reading {site.name}", count) as progress:
            follower.wait_for(count, progress)
    finally:
        follower.stop()
    return follower.held


def _start(sites: Sites, console: Console) -> tuple[Site, Site]:
    with console.status("starting two clusters"):
        source, replica = sites.start(SOURCE), sites.start(REPLICA)
    for site in (source, replica):
        console.print(f"{site.name}: Kafka {site.kafka}, HTTP {site.http}")
    return source, replica


def _check(publisher: Publisher[ais.Message]) -> None:
    if publisher.failed:
        raise SiteFailed(f"{len(publisher.failed):,} records were not acknowledged: {publisher.failed[0]}")


def _copy(sites: Sites, console: Console, source: Site, story: Story, records: int) -> None:
    """Set the replica up and wait until nothing is pending."""
    began = time.monotonic()
    pair = ("-path", f"/mapr/{SOURCE}{STREAM}", "-replica", f"/mapr/{REPLICA}{STREAM}")
    command(sites, console, "stream", "replica", "autosetup", *pair)
    with bar(console, "copying to newyork", records) as progress:
        moved, since, first_moved = 0, began, began
        while True:
            (row,) = source.ask("/rest/stream/replica/list", path=STREAM)
            if row["isUptodate"]:
                break
            sites.check_running()
            if row["recordsCopied"] == 0:
                first_moved = time.monotonic()
            if row["recordsCopied"] > moved:
                moved, since = row["recordsCopied"], time.monotonic()
            elif time.monotonic() - since > COPY_IDLE_SECONDS:
                raise TimeoutError(f"the copy stands still: {row}")
            progress(records - row["putsPending"])
            time.sleep(0.1)
        progress(records)
    story.copy_seconds, story.moving_seconds = time.monotonic() - began, time.monotonic() - first_moved
    story.copied_records = records
    story.copied_bytes = row["bytesCopied"]


def _hand_over(console: Console, source: Site, replica: Site, held: Held, story: Story) -> None:
    topics = busiest(held, GROUP_TOPICS)
    expected = frozenset(place for place in held.records if place[0] in set(topics))
    with console.status("a consumer group moves from sanfrancisco to newyork"):
        story.handover = traffic.hand_over(source.kafka, replica.kafka, topics, expected)


def _table(story: Story, source: Held, replica: Held) -> Table:
    table = Table(title=f"{STREAM}: {SOURCE} → {REPLICA}")
    for heading in ("", SOURCE, REPLICA):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("topics", f"{source.topics():,}", f"{replica.topics():,}")
    table.add_row("records", f"{len(source.records):,}", f"{len(replica.records):,}")
    table.add_row("bytes of keys and values", f"{source.size_bytes:,}", f"{replica.size_bytes:,}")
    found = story.comparison
    assert found is not None
    table.add_row("same offset, same content", "", f"{found.same:,}")
    table.add_row("offsets equal", "", "yes" if found.equal else _differences(found))
    seconds = max(story.moving_seconds, 0.001)
    table.add_row("copy of what existed", "", f"{story.copy_seconds:.1f} s, {seconds:.1f} s once Spark ran")
    rate = f"{story.copied_records / seconds:,.0f} records/s, {story.copied_bytes / seconds / 1e6:.1f} MB/s"
    table.add_row("copy throughput once started", "", rate)
    table.add_row("produce → consumed there", f"{len(story.delays_ms):,} of them", _delays(story.delays_ms))
    if story.handover is not None:
        table.add_row("one group read", f"{len(story.handover.first):,}", f"{len(story.handover.second):,}")
    return table


def _differences(found: Comparison) -> str:
    return (
        f"no: {found.missing:,} missing, {found.extra:,} extra, {found.different:,} different, "
        f"{found.unacknowledged:,} acknowledged and lost"
    )


def _delays(ordered: list[float]) -> str:
    if not ordered:
        return "-"
    median, high, most = (percentile(ordered, part) for part in (0.5, 0.99, 1))
    return f"median {median:.0f} ms, p99 {high:.0f} ms, max {most:.0f} ms"


def _verdict(story: Story) -> str | None:
    """What there is to say when all went well; None if it did not."""
    if not story.good:
        return None
    return (
        f"{story.acknowledged:,} records of {story.topics:,} ships are at the same offsets with the same content in "
        f"{SOURCE} and {REPLICA}"
    )


if __name__ == "__main__":
    sys.exit(main())
