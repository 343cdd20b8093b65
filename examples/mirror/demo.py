"""`make demo-mirror`: two clusters of Apache Kafka mirrored to one of Fairlead by one command; the mirror is killed.

    python -m examples.mirror.demo [--backlog 40000] [--rate 2000] [--keep]

Then Fairlead is mirrored to one of the two. Every line of the table at the end is a claim with what was measured. The
exit code is 0 only if all of them hold. Everything that was started is stopped, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import islice

from benchmarks.systems.kafka import Kafka
from examples.mirror import clusters
from examples.mirror.clusters import FLEETS, PARTITIONS, fleet, property_file
from examples.mirror.counting import Mirrored, Moved, Partition, mirrored
from examples.mirror.moving import MovingGroup
from examples.ships import ais, traffic
from examples.ships.asked import QUIET, Asked
from examples.ships.compare import Held, compare
from examples.ships.crew import Writer, numbered
from examples.ships.sites import Site, SiteFailed, Sites, tail
from examples.ships.stage import Stage, bar, command, run, table
from examples.ships.traffic import Publisher
from rich.console import Console

KAFKAS = ("kafka-1", "kafka-2")
FAIRLEAD = "fairlead"
GROUP = "mirror"
"""The `group.id` of the seed's files, which names the mirror."""
SEED = (
    "mirror --consumer.config sourceCluster1Consumer.config --consumer.config sourceCluster2Consumer.config "
    '--num.streams 2 --producer.config targetClusterProducer.config --whitelist=".*"'
)
BACK = 'mirror --consumer.config fairleadConsumer.config --producer.config kafkaProducer.config --whitelist=".*" --once'
CODECS = ("lz4", "none")
LIVE_SECONDS = 4
"""So long ships talk before the kill, while the mirror is dead, and after the second start."""
STOP_SECONDS = 60
NUMBERS_EACH = 1_000_000_000
"""Each publisher's messages have numbers of their own."""


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description="Two Kafka clusters mirrored to a third; the mirror is killed.")
    parser.add_argument("--backlog", type=int, default=40_000, help="records in each Kafka cluster before the start")
    parser.add_argument("--rate", type=int, default=2000, help="records a second in each of them from then on")
    parser.add_argument("--keep", action="store_true", help="keep data and logs")
    options = parser.parse_args()
    return run("fairlead-mirror-", lambda sites, console: _play(sites, console, options), _verdict, keep=options.keep)


def _verdict(play: Play) -> str | None:
    if not play.stage.good:
        return None
    return f"{len(play.stage.claims)} claims hold; {play.sure:,} acknowledged records, none lost"


def _play(sites: Sites, console: Console, options: argparse.Namespace) -> Play:
    play = Play(sites, console, options)
    try:
        play.all_acts()
    finally:
        for writer in play.writers:
            writer.give_up()
    console.print(table(f"{KAFKAS[0]} + {KAFKAS[1]} → {FAIRLEAD} → {KAFKAS[0]}", play.stage.claims))
    return play


class Play:
    """The play, act by act."""

    def __init__(self, sites: Sites, console: Console, options: argparse.Namespace) -> None:
        self.stage = Stage(sites, console)
        self.sure = 0
        """Records that were acknowledged."""
        self.writers: list[Writer] = []
        self._sites = sites
        self._console = console
        self._rate: int = options.rate
        self._backlog: int = options.backlog
        self._publishers: list[Publisher[ais.Message]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        """The mirror, each time it was started."""
        messages, what = ais.load()
        self._messages = [[each for each in messages if each.ship % 2 == number] for number in range(len(KAFKAS))]
        self._topics = [sorted({fleet(each) for each in some}) for some in self._messages]
        console.print(f"{what}: {len(messages):,} messages of {len(ais.topics(messages)):,} ships")

    def all_acts(self) -> None:
        """All of it."""
        self.stage.say("two clusters of Apache Kafka and one of Fairlead start")
        with clusters.kafkas(self._sites.folder, KAFKAS) as kafkas:
            site = self._sites.start(FAIRLEAD)
            try:
                self._set_up(kafkas, site)
                there = self._mirror(kafkas, site)
                self._mirror_back(kafkas[0], site, there)
            finally:
                for process in self._processes:
                    process.kill()  # only where something failed: without its sources it would wait for them
                    process.wait()

    # ------------------------------------------------------------ acts

    def _set_up(self, kafkas: list[Kafka], site: Site) -> None:
        self.stage.say(f"ships talk: {FLEETS} topics with {PARTITIONS} partitions, half of them in each Kafka")
        folder = self._sites.folder
        for number, kafka in enumerate(kafkas, 1):
            property_file(folder, f"sourceCluster{number}Consumer.config", kafka.bootstrap)
        property_file(folder, "targetClusterProducer.config", site.kafka)
        with bar(self._console, "publishing to both", 2 * self._backlog) as progress:
            for number, kafka in enumerate(kafkas):
                traffic.create_topics(kafka.bootstrap, self._topics[number], PARTITIONS, "")
                self._publishers.append(Publisher(kafka.bootstrap, fleet, **self._settings(number)))
                some = islice(numbered(self._messages[number], number * NUMBERS_EACH), self._backlog)
                self._publishers[-1].publish(some, lambda done: progress(self._acknowledged()))

    def _mirror(self, kafkas: list[Kafka], site: Site) -> Held:
        """The first part; what Fairlead holds then."""
        sources = [Asked(kafka.bootstrap, self._topics[number], PARTITIONS) for number, kafka in enumerate(kafkas)]
        there = Asked(site.kafka, [*self._topics[0], *self._topics[1]], PARTITIONS)
        group = MovingGroup(sources[0], Asked(site.kafka, self._topics[0], PARTITIONS))
        self.stage.say("the mirror starts, with what there is to copy")
        mirror, began = self._start_mirror(), time.monotonic()
        self._until("the backlog is mirrored", mirror, lambda: there.records() >= 2 * self._backlog)
        took = time.monotonic() - began
        self._console.print(f"{2 * self._backlog:,} records are there {took:.1f} s after the command")
        self.stage.say(f"ships go on talking, {2 * self._rate:,} messages a second")
        self.writers = [self._write(kafka, number) for number, kafka in enumerate(kafkas)]
        self._publishers += self.writers
        enough = there.records() + self._live
        self._until("what ships say is mirrored", mirror, lambda: there.records() >= enough)
        self.stage.say(f"a consumer group reads at {KAFKAS[0]}")
        group.read(self._backlog // 2)
        known, missed = self._kill(mirror, site, sources)
        self.stage.say("it starts again, by the same command")
        mirror = self._start_mirror()
        enough = there.records() + missed + self._live
        self._until("the mirror goes on", mirror, lambda: there.records() >= enough)
        self.stage.say(f"the group reads on at {KAFKAS[0]}, and leaves it")
        group.read(self._backlog // 2)
        for writer in self.writers:
            writer.stop()
        self.stage.say("ships fall silent; the mirror comes to their last word, and is stopped")
        self._until("the lag is 0", mirror, lambda: self._lag(sources) == 0)
        self._until("the group's offsets are mirrored", mirror, lambda: group.has_arrived)
        code = self._stop_mirror(mirror)
        self.stage.say(f"the group goes on at {FAIRLEAD}")
        group.go_on()
        return self._judge(kafkas, site, sources, there, known, code, group)

    def _kill(
        self, mirror: subprocess.Popen[bytes], site: Site, sources: list[Asked]
    ) -> tuple[Mapping[Partition, int], int]:
        """The positions that are known then, and how many messages the mirror slept through."""
        self._console.print(f"$ kill -9 -- -{mirror.pid}", style="bold", highlight=False)
        self._sites.kill_group(mirror)
        known = clusters.positions(site.kafka, GROUP)
        before = sum(source.records() for source in sources)
        self._until("ships go on", None, lambda: sum(each.records() for each in sources) >= before + self._live)
        missed = sum(source.records() for source in sources) - before
        self._console.print(f"{missed:,} messages while nobody mirrors")
        return known, missed

    def _judge(
        self,
        kafkas: list[Kafka],
        site: Site,
        sources: list[Asked],
        there: Asked,
        known: Mapping[Partition, int],
        code: int,
        group: MovingGroup,
    ) -> Held:
        self.stage.say("all clusters are read, and compared record by record")
        held = [self._read(kafka.bootstrap, self._topics[number]) for number, kafka in enumerate(kafkas)]
        copy = self._read(site.kafka, [*self._topics[0], *self._topics[1]])
        found = mirrored(held, copy)
        self._claim_records(held, found)
        self._claim_doubled(found, known)
        count = len(found.partitions)
        self.stage.claim(
            "the order of each partition is kept",
            found.sum_of("disordered") == 0,
            f"{count} partitions, {found.sum_of('disordered')} records out of order once doubled ones are left out",
        )
        same, wrong = found.sum_of("same_offset"), found.sum_of("unexplained")
        self.stage.claim(
            "offsets are moved by doubled records only",
            wrong == 0,
            f"{same:,} of {found.sum_of('records'):,} records are at their offset, {wrong} elsewhere unexplained",
        )
        wanted = {topic: PARTITIONS for each in sources for topic in each.topics}
        self.stage.claim(
            "the topics are the same",
            there.partitions() == wanted,
            f"{len(there.partitions())} of {len(wanted)}, {sum(there.partitions().values())} partitions",
        )
        self._claim_moved(group.judged(held[0], copy))
        lag = self._lag(sources)
        self.stage.claim(
            "it ended in order, and its group shows no lag", (code, lag) == (0, 0), f"exit code {code}, lag {lag}"
        )
        return copy

    def _claim_records(self, held: list[Held], found: Mirrored) -> None:
        self.sure = self._acknowledged()
        # Backlogs, then writers; each of them in the order of the clusters.
        gone = sum(
            place not in held[number % len(KAFKAS)].records
            for number, each in enumerate(self._publishers)
            for place in each.acknowledged
        )
        lost, foreign = found.sum_of("lost"), found.sum_of("foreign")
        failed = sum(len(each.failed) for each in self._publishers)
        self.stage.claim(
            "no record is lost",
            lost == gone == failed == 0 < self.sure,
            f"{self.sure:,} acknowledged, {lost + gone} lost",
        )
        self.stage.claim(
            "key, value, time, headers and partition are kept",
            foreign == 0,
            f"{found.sum_of('records'):,} records of the sources, {foreign} at the destination that are none of them",
        )

    def _claim_doubled(self, found: Mirrored, known: Mapping[Partition, int]) -> None:
        doubled, before = found.sum_of("doubled"), found.before(known)
        self.stage.claim(
            "doubled: only what was copied after the last position",
            before == 0 and found.back_most <= 1,
            f"{doubled:,} ({doubled / max(self.sure, 1):.1%}) in {found.doubled_in} partitions, {before} of "
            f"which went back before their position, none more than {found.back_most} times",
        )

    def _claim_moved(self, group: Moved) -> None:
        self.stage.claim(
            f"a group goes on at {FAIRLEAD} behind its last commit",
            group.skipped == group.again == 0 < min(group.before, group.after),
            f"{group.before:,} records read before it, {group.after:,} at {FAIRLEAD}, {group.skipped} skipped, "
            f"{group.again} again; {group.doubled} that the mirror had doubled",
        )

    def _mirror_back(self, kafka: Kafka, site: Site, there: Held) -> None:
        """The second part: what came from the one Kafka goes on to the other, and nothing goes back to where it is."""
        self.stage.say(f"and on from {FAIRLEAD} to {KAFKAS[0]}, which has no ships of {KAFKAS[1]} yet")
        own = Asked(kafka.bootstrap, self._topics[0], PARTITIONS)
        before = own.ends()
        folder = self._sites.folder
        like = "sourceCluster1Consumer.config"
        property_file(folder, "fairleadConsumer.config", site.kafka, like, group_id="back")
        property_file(folder, "kafkaProducer.config", kafka.bootstrap, "targetClusterProducer.config")
        command(self._sites, self._console, *shlex.split(BACK), shown=f"fairlead {BACK}")
        others = set(self._topics[1])
        wanted = Held({place: content for place, content in there.records.items() if place[0] in others})
        found = compare(wanted, self._read(kafka.bootstrap, self._topics[1]), set())
        self.stage.claim(
            f"{KAFKAS[0]} has the ships of {KAFKAS[1]} as {FAIRLEAD} has them",
            found.equal,
            f"{found.same:,} records alike at the same offsets, {found.missing + found.extra + found.different} not",
        )
        back = sum(own.ends().values()) - sum(before.values())
        self.stage.claim("none of its own came back to it", own.ends() == before, f"{back} records")

    # ------------------------------------------------------------ the mirror

    def _start_mirror(self) -> subprocess.Popen[bytes]:
        self._console.print(f"$ fairlead {SEED}", style="bold", highlight=False, soft_wrap=True)
        self._processes.append(self._sites.begin("mirror", *shlex.split(SEED)))
        return self._processes[-1]

    def _stop_mirror(self, mirror: subprocess.Popen[bytes]) -> int:
        """As Ctrl-C does; its exit code."""
        mirror.send_signal(signal.SIGINT)
        code = mirror.wait(STOP_SECONDS)
        self._console.print(tail(self._sites.folder / "mirror.log", 4), highlight=False, soft_wrap=True)
        return code

    def _lag(self, sources: list[Asked]) -> int:
        return sum(source.lag(GROUP) for source in sources)

    # ------------------------------------------------------------ helpers

    def _acknowledged(self) -> int:
        return sum(len(each.acknowledged) for each in self._publishers)

    @property
    def _live(self) -> int:
        return LIVE_SECONDS * self._rate * len(KAFKAS)

    def _write(self, kafka: Kafka, number: int) -> Writer:
        first = (len(KAFKAS) + number) * NUMBERS_EACH
        messages = self._messages[number]
        return Writer(kafka.bootstrap, messages, self._rate, first, fleet, **self._settings(number))

    @staticmethod
    def _settings(number: int) -> dict[str, str | int | bool]:
        """Of a producer to one of the two."""
        return {"compression.type": CODECS[number], "enable.idempotence": True, **QUIET}

    @staticmethod
    def _read(bootstrap: str, topics: list[str]) -> Held:
        """All that these topics hold."""
        return Asked(bootstrap, topics, PARTITIONS).held()

    def _until(self, what: str, mirror: subprocess.Popen[bytes] | None, done: Callable[[], bool]) -> None:
        """While the mirror runs too, if it is to."""

        def mirrored() -> bool:
            if mirror is not None and mirror.poll() is not None:
                raise SiteFailed(f"the mirror ended:\n{tail(self._sites.folder / 'mirror.log')}")
            return done()

        try:
            self.stage.until(what, mirrored)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; the mirror said:\n{tail(self._sites.folder / 'mirror.log', 3)}") from error


if __name__ == "__main__":
    sys.exit(main())
