"""`docs/guides/failover.md`, step by step: two sites that feed each other, a group of each kind of client at San
Francisco under load, `kill -9` of the site, takeover, its groups in New York, its return, and the way back.

What the groups may read again, and what they must not skip, is reckoned from what the clients saw and what ordinary
consumers read of the topics; the product's own words are compared with that. Carriers without Spark stand for the
replicators.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.movers import AiokafkaMover, ConfluentMover, Given, JavaMover, Mover
from tests.interop.clients.java_vm import JavaVM, java_vm
from tests.support.carrier import Carrier
from tests.support.ledger import Ledger
from tests.support.records import Content, Place, differences, read_all
from tests.support.sites import Site, sites
from tests.support.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.crash

SHIPS, PREFIX = "/ships", "/ships:"
PARTITIONS = 2
PER_SECOND = 200
WEST, EAST = "/mapr/sanfrancisco/ships", "/mapr/newyork/ships"
MAKE: dict[str, Callable[[JavaVM, str, str, str], Mover]] = {
    "librdkafka": lambda _, *where: ConfluentMover(*where),
    "java": JavaMover,
    "aiokafka": lambda _, *where: AiokafkaMover(*where),
}
KINDS = tuple(MAKE)
WITNESS = "witness"
TOPICS = [f"container-{kind}" for kind in KINDS]
SETTINGS = {"merge_interval_seconds": "0.5"}
"""Tails are copied soon: nobody waits ten seconds for what shows nothing."""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    """San Francisco and New York."""
    with sites(tmp_path, "sanfrancisco", "newyork", settings=SETTINGS, command="server") as (west, east):
        for site in (west, east):
            site.cli("cluster", "add", "-http", site.url)
        yield west, east


class Groups:
    """A group for each kind of client, each of one topic; where they are, and what they were given there."""

    def __init__(self, java: JavaVM) -> None:
        self._java = java
        self.members: dict[str, Mover] = {}
        self.before: dict[str, list[Given]] = {kind: [] for kind in KINDS}
        """What they were given at the sites where they were before."""

    def join(self, site: Site) -> None:
        """All begin there, with nothing changed but their `bootstrap.servers`."""
        for kind in KINDS:
            self.members[kind] = MAKE[kind](self._java, site.kafka, f"{PREFIX}container-{kind}", kind)

    def leave(self, *, lost: bool = False) -> dict[str, Mover]:
        """All end; their site may be lost."""
        for kind, member in self.members.items():
            member.give_up() if lost else member.stop()
            self.before[kind] += member.read
        left, self.members = self.members, {}
        return left

    def __enter__(self) -> Groups:
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave(lost=True)


def test_the_guide_to_the_loss_of_a_site(two: tuple[Site, Site]) -> None:
    """Nothing is skipped; what is read again had been read since the last commit that was known in New York; and
    failing back reads nothing again. Each acknowledged record is there once in the end, the lost site's tail too."""
    with java_vm() as java, Groups(java) as groups, Story(*two, groups) as story:
        story.before()
        story.the_site_is_lost()
        story.the_groups_go_on()
        story.the_site_returns()
        story.failing_back()
        story.all_is_there_once()


class Story:
    """The chapters of the guide."""

    def __init__(self, west: Site, east: Site, groups: Groups) -> None:
        self._west, self._east, self._groups = west, east, groups
        self._stack = ExitStack()
        self._ledgers: list[Ledger] = []
        self._marks: dict[str, int] = {}
        """So much had each group read when it made the last commit that was replicated, as a later one shows."""
        self._gone: dict[str, Mover] = {}
        self._said: dict[str, dict[int, int]] = {}
        """Where the preview said that each group would go on."""

    def __enter__(self) -> Story:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def before(self) -> None:
        """Each site feeds the other, and the preview says that San Francisco's commits come."""
        west, east = self._west, self._east
        self._carrier = self._carried(west)
        self._carried(east)
        create(west, TOPICS)
        west.cli("stream", "replica", "autosetup", "-path", WEST, "-replica", EAST, "-multimaster", "true")
        self._groups.join(west)
        self._write(west)
        for member in self._groups.members.values():
            known_elsewhere(member, east)
        for kind in KINDS:
            shown = {(row["committedin"], row["apart"], row["skips"]) for row in preview(east, kind)}
            assert shown == {(WEST, False, 0)}

    def the_site_is_lost(self) -> None:
        """With records and commits that nobody else has. What a group commits is told once a second: a commit of a
        group of its own at the same places, made later, is known in New York by then, so what was committed before that
        is not to be read again."""
        (writing,) = self._ledgers
        writing.wait_for(len(writing.acknowledged) + PER_SECOND)
        self._marks = {kind: member.committed for kind, member in self._groups.members.items()}
        for kind in KINDS:
            commit(self._west, kind, WITNESS, number=1)
        for kind in KINDS:
            wait_until(
                partial(is_at, self._east, kind, dict.fromkeys(range(PARTITIONS), 1), WITNESS), f"{kind} is told"
            )
        self._carrier.kill()
        writing.wait_for(len(writing.acknowledged) + PER_SECOND)
        members = self._groups.members.items()
        wait_until(lambda: all(each.committed > self._marks[kind] for kind, each in members), "all commit once more")
        self._west.kill()
        writing.give_up()
        self._gone = self._groups.leave(lost=True)
        self._said = {
            kind: {row["partitionid"]: row["goesonat"] for row in preview(self._east, kind)} for kind in KINDS
        }

    def the_groups_go_on(self) -> None:
        """In New York, where nothing but their `bootstrap.servers` changes; before New York has taken over."""
        east = self._east
        take = ("stream", "topic", "takeover", "-path", EAST, "-from", "sanfrancisco")
        assert f"{WEST} owns {len(TOPICS)} topics here; it was last heard" in east.cli(*take, "-dryrun").stderr
        self._groups.join(east)
        east.cli(*take, "--yes")
        self._write(east).wait_for(2 * PER_SECOND)
        self._there = self._until_read(east)
        for kind, member in self._groups.members.items():
            known = self._gone[kind].read[: self._marks[kind]]
            assert not {*known} & {*member.read}, f"{kind} read again what it had committed before the last telling"
            assert begun(member.read) == self._said[kind], f"{kind} did not go on where the preview had said"
            assert not unread(self._there, kind, [*self._gone[kind].read, *member.read]), f"{kind} skipped records"

    def the_site_returns(self) -> None:
        """Its tail is kept, at both sites, at its own offsets; and is claimed."""
        self._west.start("server")
        self._carrier = self._carried(self._west)
        tail = {
            place: value
            for place, value in self._ledgers[0].acknowledged.items()
            if place not in self._there or self._there[place].value != value
        }
        assert tail, "San Francisco had nothing of its own: there is nothing to keep"
        for site in (self._west, self._east):
            wait_until(partial(keeps, site, tail), f"{site.name} keeps the tail", every_seconds=0.3)
        claim = ("stream", "topic", "claim", "-path", EAST, "-topic", "container-.*[.]diverged[.].*")
        self._east.cli(*claim)
        self._until_read(self._east)

    def failing_back(self) -> None:
        """The groups first, then the topics: nothing is skipped and nothing is read again."""
        west, east = self._west, self._east
        self._ledgers[1].stop()
        self._until_read(east)
        places = {kind: each.next_offsets(len(each.read)) for kind, each in self._groups.leave().items()}
        for kind in KINDS:
            wait_until(partial(is_at, west, kind, places[kind]), f"San Francisco knows where {kind} is")
            assert {row["committedin"] for row in preview(west, kind)} == {EAST}
            wait_until(partial(is_empty, west, kind), f"the members of before of {kind} are gone")
        self._groups.join(west)
        move = ("stream", "topic", "transfer", "-path", EAST, "-topic", "container-[a-z]+", "-to", "sanfrancisco")
        east.cli(*move, "--yes")
        writing = self._write(west)
        writing.wait_for(2 * PER_SECOND)
        writing.stop()
        self._until_read(west)
        for kind, member in self._groups.members.items():
            assert begun(member.read) == places[kind], f"{kind} did not go on where it was"

    def all_is_there_once(self) -> None:
        """At both sites alike, at the same offsets."""
        assert [ledger.failed for ledger in self._ledgers[1:]] == [[], []]
        wait_until(lambda: self._west.in_sync(SHIPS), "New York has all", every_seconds=0.2)
        here, there = (read_all(site.kafka, TOPICS, prefix=PREFIX) for site in (self._west, self._east))
        assert differences(here, there) == []
        counts = Counter(content.value for content in here.values())
        acknowledged = [value for ledger in self._ledgers for value in ledger.acknowledged.values()]
        assert {value: counts[value] for value in acknowledged if counts[value] != 1} == {}

    def _carried(self, site: Site) -> Carrier:
        return self._stack.enter_context(Carrier(site))

    def _write(self, site: Site) -> Ledger:
        label = f"{site.name}-{len(self._ledgers)}"
        ledger = Ledger(site.kafka, TOPICS, prefix=PREFIX, label=label, per_second=PER_SECOND)
        self._ledgers.append(self._stack.enter_context(ledger))
        return ledger

    def _until_read(self, site: Site) -> dict[Place, Content]:
        """The members have been given all that the site holds by now, which is the answer; producers may go on."""
        there, groups = read_all(site.kafka, TOPICS, prefix=PREFIX), self._groups
        for kind, member in groups.members.items():
            before = groups.before[kind]
            wait_until(
                partial(has_read, there, kind, before, member),
                f"{kind} has read all that {site.name} holds",
                every_seconds=0.1,
            )
        return there


# ------------------------------------------------------------ what ordinary clients see


def create(site: Site, topics: Sequence[str]) -> None:
    site.cli("stream", "create", "-path", f"/mapr/{site.name}{SHIPS}")
    admin = AdminClient({"bootstrap.servers": site.kafka})
    made = admin.create_topics([NewTopic(PREFIX + topic, PARTITIONS) for topic in topics])
    for each in made.values():
        each.result(WAIT_SECONDS)


def commit(site: Site, kind: str, group: str, number: int) -> None:
    """That group has read so many of each partition of the topic of that kind."""
    consumer = Consumer({"bootstrap.servers": site.kafka, "group.id": group})
    try:
        consumer.commit(
            offsets=[TopicPartition(each.topic, each.partition, number) for each in places_of(kind)], asynchronous=False
        )
    finally:
        consumer.close()


def places_of(kind: str) -> list[TopicPartition]:
    return [TopicPartition(f"{PREFIX}container-{kind}", number) for number in range(PARTITIONS)]


def committed(site: Site, kind: str, group: str | None = None) -> dict[int, int]:
    """By partition, where that site says that the group is: the one that reads the topic, or another."""
    consumer = Consumer({"bootstrap.servers": site.kafka, "group.id": group or kind})
    try:
        places = places_of(kind)
        return {
            each.partition: each.offset for each in consumer.committed(places, timeout=WAIT_SECONDS) if each.offset >= 0
        }
    finally:
        consumer.close()


def known_elsewhere(member: Mover, site: Site) -> None:
    """Wait until the member has committed of each partition, and another site knows of that."""
    wait_until(lambda: len(member.next_offsets(member.committed)) == PARTITIONS, f"{member.group} has committed")
    wanted = member.next_offsets(member.committed)

    def is_known() -> bool:
        found = committed(site, member.group)
        return all(found.get(partition, -1) >= offset for partition, offset in wanted.items())

    wait_until(is_known, f"{site.name} knows what {member.group} has committed", every_seconds=0.1)


def is_at(site: Site, kind: str, places: dict[int, int], group: str | None = None) -> bool:
    """That site says that the group is there."""
    return committed(site, kind, group) == places


def is_empty(site: Site, group: str) -> bool:
    admin = AdminClient({"bootstrap.servers": site.kafka})
    found = admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
    return found.state in {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}


def begun(read: Sequence[Given]) -> dict[int, int]:
    """By partition, the first offset that was given."""
    first: dict[int, int] = {}
    for each in read:
        first.setdefault(each.partition, each.offset)
    return first


def unread(there: dict[Place, Content], kind: str, read: Sequence[Given]) -> list[Place]:
    """What the topic holds and the group was not given."""
    given = {*read}
    return [
        place
        for place, content in there.items()
        if place.topic == f"container-{kind}"
        and Given(place.partition, place.offset, content.value or b"") not in given
    ]


def has_read(there: dict[Place, Content], kind: str, before: Sequence[Given], member: Mover) -> bool:
    """The member, or those before it, were given all of the topic."""
    return not unread(there, kind, [*before, *member.read])


def keeps(site: Site, tail: dict[Place, bytes]) -> bool:
    """Whether diverged topics hold these records at their own offsets. They hold what was not acknowledged too."""
    wanted = {place._replace(topic=f"{place.topic}.diverged.sanfrancisco.0"): value for place, value in tail.items()}
    try:
        found = read_all(site.kafka, sorted({place.topic for place in wanted}), prefix=PREFIX)
    except LookupError:
        return False
    return wanted.items() <= {place: content.value for place, content in found.items()}.items()


# ------------------------------------------------------------ what the product says


def preview(site: Site, group: str) -> list[dict[str, Any]]:
    done = site.cli("stream", "failover", "preview", "-path", f"/mapr/{site.name}{SHIPS}", "-group", group, "--json")
    data: list[dict[str, Any]] = json.loads(done.stdout)["data"]
    return data
