"""One name of several topics: what waits, and the ways to end it (`docs/formats/apply.md`, names).

A, B and C are masters of one another. Each has made a topic `ships` and written to it before it heard of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import permutations

import pytest
from tests.streamlog.world import (
    FakeClock,
    applied,
    committed,
    frame,
    fresh,
    made,
    opened,
    produced,
    repair_frame,
    replicated,
    values_at,
)

from fairlead.model.errors import AlreadyExists, InvalidName, InvalidValue, NotOwner
from fairlead.model.names import SLICES, slice_of
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.claims import hear
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.requests.diverged import read, tails
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.requests.topics import delete_topic, rename_topic, set_partitions, take_as
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.values import NAME_HELD, NO_NAME_HERE, GrantRun, Topic
from fairlead.streamlog.writing.writer import ShardLog

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))


class Masters:
    """Streams that all feed one another."""

    def __init__(self, *ids: bytes, admission: Admission = ANYBODY) -> None:
        self.logs = {id: fresh(id) for id in ids}
        self.topics: dict[bytes, Topic] = {}
        self.admission = admission
        self._run = 1

    def write_all(self) -> None:
        """Each makes the topic and writes a record that says who wrote it."""
        for id, log in self.logs.items():
            self.topics[id] = made(log)
            produced(log, self.topics[id].number, id)

    def exchange(self, rounds: int = 4) -> None:
        """Everything goes over every link, and what is behind is brought."""
        for _ in range(rounds):
            for source, replica in permutations(self.logs, 2):
                self._carry(self.logs[source], self.logs[replica], source[:8] + replica[:8])

    def send(self, source: bytes, *replicas: bytes) -> None:
        """What one of them has goes over its links to these."""
        for replica in replicas:
            self._carry(self.logs[source], self.logs[replica], source[:8] + replica[:8])

    def _carry(self, source: ShardLog, replica: ShardLog, link: bytes) -> None:
        self._run += 1
        run, here = GrantRun(1, self._run), replica.announced.state.stream_id
        positions = replica.announced.state.positions(link)
        for slice in range(SLICES):
            at = positions.get((0, slice))
            sent = frame(source, here, slice, 0 if at is None else at.commit, link=link, run=run)
            committed(replica, partial(apply_frame, frame=sent, admission=self.admission))
        for note in replica.announced.state.behind(link):
            topic = source.announced.state.by_incarnation(note.incarnation)
            if topic is not None and not note.conflict:
                repair = repair_frame(source, here, topic.number, note.partition, note.end, link=link, run=run)
                committed(replica, partial(apply_frame, frame=repair, admission=self.admission))

    def named(self, at: bytes) -> dict[str, list[bytes | None]]:
        """By the name that a topic has at a site, its values; and the same after a restart, which follows."""
        found = _named(self.logs[at])
        self.logs[at] = opened(self.logs[at].announced.storage, at)
        assert _named(self.logs[at]) == found
        return found

    def conflicts(self) -> int:
        """Partitions that wait for a decision, at all sites."""
        return sum(
            note.conflict
            for source, replica in permutations(self.logs, 2)
            for note in self.logs[replica].announced.state.behind(source[:8] + replica[:8])
        )


def _named(log: ShardLog) -> dict[str, list[bytes | None]]:
    state = log.announced.state
    names = {topic.name: list(values_at(log, topic.number).values()) for topic in state.topics()}
    assert all(state.by_name(topic.name) == topic for topic in state.topics())
    return names


def test_three_masters_one_name_resolved_by_rename() -> None:
    """Each site had its own. Two owners give theirs another name: then all sites have all three, by the same names."""
    masters = Masters(A, B, C)
    masters.write_all()
    masters.exchange()
    assert [masters.named(id) for id in (A, B, C)] == [{"ships": [id]} for id in (A, B, C)]
    assert masters.conflicts() == 6
    for id, name in ((B, "ships-b"), (C, "ships-c")):
        produced(masters.logs[id], masters.topics[id].number, id)
        committed(masters.logs[id], partial(rename_topic, name="ships", to=name))
        produced(masters.logs[id], masters.topics[id].number, id)
    masters.exchange()
    expected = {"ships": [A], "ships-b": [B] * 3, "ships-c": [C] * 3}
    assert [masters.named(id) for id in (A, B, C)] == [expected] * 3
    assert masters.conflicts() == 0


def test_autocreate_at_both_masters_with_and_without_records() -> None:
    """Both empty: one yields. Both with records: each keeps its own and sets the other's aside."""
    empty = Masters(A, B)
    for log in empty.logs.values():
        made(log)
    empty.exchange()
    owners = {log.announced.state.by_name("ships").owner for log in empty.logs.values()}  # type: ignore[union-attr]
    assert (owners, empty.conflicts()) == ({A}, 0)
    full = Masters(A, B)
    full.write_all()
    full.exchange()
    assert [full.named(id) for id in (A, B)] == [{"ships": [A]}, {"ships": [B]}]
    assert full.conflicts() == 2


def test_a_name_that_is_given_up_goes_to_the_topic_that_waited_for_it() -> None:
    """At the site of the rename too: what it had set aside comes from its start."""
    masters = Masters(A, B)
    masters.write_all()
    masters.exchange()
    committed(masters.logs[B], lambda draft: rename_topic(draft, "ships", "ports"))
    masters.exchange()
    assert [masters.named(id) for id in (A, B)] == [{"ships": [A], "ports": [B]}] * 2


def test_a_name_that_is_given_up_by_an_answer_goes_to_the_topic_that_waited() -> None:
    """A site that only sends hears of another owner, and of its name for the topic, in the answers that it gets."""
    masters = Masters(A, B, C)
    topic = made(masters.logs[A])
    produced(masters.logs[A], topic.number, b"1")
    masters.send(A, B)
    produced(masters.logs[C], made(masters.logs[C]).number, b"2")
    masters.send(C, A)
    committed(masters.logs[B], partial(take_over, topic="ships", owner_at="/mapr/b/s", writer_epoch_id=bytes(16)))
    committed(masters.logs[B], lambda draft: rename_topic(draft, "ships", "ports"))
    renamed = masters.logs[B].announced.state.by_name("ports")
    assert renamed is not None
    committed(masters.logs[A], partial(hear, source=B, topics=[payload_of(renamed)], admission=ANYBODY))
    masters.send(C, A)
    assert masters.named(A) == {"ports": [b"1"], "ships": [b"2"]}


def _two_that_wait() -> Masters:
    """At A two topics of two partitions wait for the name of a third one, that of C longer than that of B."""
    masters, clock = Masters(A, B, C), FakeClock()
    masters.logs[A] = fresh(A, clock=clock)
    produced(masters.logs[A], made(masters.logs[A]).number, A)
    for id in (C, B):
        topic = masters.topics[id] = made(masters.logs[id], partitions=2)
        for partition in range(2):
            produced(masters.logs[id], topic.number, id, partition=partition)
        masters.send(id, A)
        clock.pass_ms(1000)
    return masters


def _reasons(masters: Masters) -> dict[tuple[bytes, bytes, int], str]:
    """By source, owner and partition, why something is noted at A."""
    owners = {topic.incarnation: id for id, topic in masters.topics.items()}
    notes = masters.logs[A].announced.state.all_notes()
    return {(key[0][:1] * 16, owners[key[1]], key[2]): note.behind.reason or "" for key, note in notes.items()}


WAITING = NAME_HELD + "ships"


@pytest.mark.parametrize("free", [partial(rename_topic, to="ships-1"), delete_topic])
def test_of_several_topics_that_wait_for_a_name_one_gets_it_and_the_others_wait_on(free: Callable[..., Topic]) -> None:
    """Nothing of the others is touched, and each comes whole once it has a name."""
    masters = _two_that_wait()
    assert _reasons(masters) == {(id, id, partition): WAITING for id in (B, C) for partition in range(2)}
    committed(masters.logs[A], lambda draft: free(draft, name="ships"))
    first = masters.logs[A].announced.state.by_name("ships")
    assert first is not None
    other = C if first.owner == B else B
    expected = {first.owner: "gap", other: WAITING}
    assert _reasons(masters) == {(id, id, partition): why for id, why in expected.items() for partition in range(2)}
    masters.send(first.owner, A)
    committed(masters.logs[A], partial(take_as, name="ships", to="ships-2"))
    masters.send(other, A)
    assert _reasons(masters) == {}
    for id in (B, C):
        copy = masters.logs[A].announced.state.by_incarnation(masters.topics[id].incarnation)
        assert copy is not None
        assert [list(values_at(masters.logs[A], copy.number, each).values()) for each in range(2)] == [[id], [id]]


def test_of_several_topics_that_wait_for_a_name_the_one_that_waited_longest_is_taken() -> None:
    """By another name, as a person asks for it."""
    masters = _two_that_wait()
    taken = committed(masters.logs[A], partial(take_as, name="ships", to="ships-2"))[0].result()
    assert isinstance(taken, Topic)
    assert taken.owner == C
    assert _reasons(masters) == {(C, C, 0): "gap", (C, C, 1): "gap", (B, B, 0): WAITING, (B, B, 1): WAITING}


def test_a_topic_that_waited_is_brought_once_its_owner_has_given_it_another_name() -> None:
    """The same link makes it, by the row that says so; what it had dropped meanwhile comes by a repair."""
    a, b = fresh(A), fresh(B)
    produced(b, made(b).number, b"b")
    waiting = made(a)
    produced(a, waiting.number, b"a")
    replicated(a, b)
    assert [note.conflict for note in b.announced.state.behind(b"l" * 16)] == [True]
    committed(a, lambda draft: rename_topic(draft, "ships", "ports"))
    applied(b, frame(a, B, slice_of("ships"), a.announced.end - 1))
    assert [(note.end, note.conflict) for note in b.announced.state.behind(b"l" * 16)] == [(0, False)]
    applied(b, repair_frame(a, B, waiting.number, 0, 0))
    copy = b.announced.state.by_name("ports")
    assert copy is not None
    assert values_at(b, copy.number) == {0: b"a"}
    assert b.announced.state.behind(b"l" * 16) == []


def test_a_renamed_topic_keeps_its_name_where_the_new_one_is_taken() -> None:
    """Nothing is overwritten and nobody yields; later rows of the topic find it all the same."""
    masters = Masters(A, B)
    topic = made(masters.logs[A])
    produced(masters.logs[A], topic.number, b"1")
    masters.exchange()
    other = made(masters.logs[B], "ports")
    produced(masters.logs[B], other.number, b"mine")
    committed(masters.logs[A], lambda draft: rename_topic(draft, "ships", "ports"))
    produced(masters.logs[A], topic.number, b"2")
    masters.exchange()
    assert masters.named(B) == {"ships": [b"1", b"2"], "ports": [b"mine"]}
    committed(masters.logs[A], lambda draft: set_partitions(draft, "ports", 3))
    masters.exchange()
    copy = masters.logs[B].announced.state.by_name("ships")
    assert copy is not None
    assert copy.partitions == 3


def test_a_topic_that_waits_gets_a_name_of_its_own_at_one_site() -> None:
    """Only there; its past is brought, its rows go on coming, and another site hears of it by that name."""
    masters = Masters(A, B)
    masters.write_all()
    masters.exchange()
    produced(masters.logs[B], masters.topics[B].number, b"2")
    masters.exchange()
    committed(masters.logs[A], lambda draft: take_as(draft, "ships", "ships-of-b"))
    produced(masters.logs[B], masters.topics[B].number, b"3")
    masters.exchange()
    assert masters.named(A) == {"ships": [A], "ships-of-b": [B, b"2", b"3"]}
    assert masters.named(B) == {"ships": [B]} | {"ships": [B, b"2", b"3"]}
    assert masters.conflicts() == 1
    committed(masters.logs[A], lambda draft: delete_topic(draft, "ships"))
    masters.exchange()
    assert masters.named(A) == {"ships-of-b": [B, b"2", b"3"]}, "it has a name here, and takes no other"


def test_a_topic_that_came_by_another_link_waits_on_none() -> None:
    """It has a name, so what was dropped on the link on which it waited is brought, though nobody writes it any more;
    nobody is asked for another name, and it takes none that becomes free."""
    masters = Masters(A, B, C)
    produced(masters.logs[A], made(masters.logs[A]).number, b"mine")
    topic = made(masters.logs[B])
    produced(masters.logs[B], topic.number, b"1")
    masters.send(B, C)
    produced(masters.logs[B], topic.number, b"2")
    masters.send(B, A)
    assert masters.conflicts() == 1
    masters.admission = replace(ANYBODY, prefix="c.")
    masters.send(C, A)
    masters.admission = ANYBODY
    assert masters.conflicts() == 0
    masters.send(B, A)
    assert masters.named(A) == {"ships": [b"mine"], "c.ships": [b"1", b"2"]}
    assert not masters.logs[A].announced.state.all_notes()


def test_with_aliases_both_sites_have_both_topics_at_once() -> None:
    """Each under its own name at its owner, and under one that says where it is from elsewhere."""
    masters = Masters(A, B, admission=replace(ANYBODY, aliases=True))
    masters.write_all()
    masters.exchange()
    for id in (A, B):
        produced(masters.logs[id], masters.topics[id].number, b"more")
    masters.exchange()
    assert masters.named(A) == {"ships": [A, b"more"], f"ships.at.{B.hex()}": [B, b"more"]}
    assert masters.named(B) == {"ships": [B, b"more"], f"ships.at.{A.hex()}": [A, b"more"]}
    assert masters.conflicts() == 0


def test_two_topics_of_one_cluster_get_aliases_of_their_own() -> None:
    """Its owner has called the first one otherwise since, by a name that is taken here, and made a second one of the
    name that it had."""
    masters = Masters(A, B, admission=replace(ANYBODY, aliases=True))
    masters.write_all()
    masters.exchange()
    produced(masters.logs[B], masters.topics[B].number, b"more")
    masters.exchange()
    produced(masters.logs[A], made(masters.logs[A], "boats").number, b"taken")
    committed(masters.logs[B], partial(rename_topic, name="ships", to="boats"))
    second = made(masters.logs[B])
    masters.exchange()
    produced(masters.logs[B], second.number, b"second")
    masters.exchange()
    produced(masters.logs[B], second.number, b"more")
    masters.exchange()
    alias = f"ships.at.{B.hex()}"
    aliased = {alias: [B, b"more"], f"{alias}-1": [b"second", b"more"]}
    assert masters.named(A) == {"ships": [A], "boats": [b"taken"], **aliased}


def test_with_aliases_a_topic_whose_name_is_one_of_another_shard_gets_one_of_its_own() -> None:
    """Its owner has called it otherwise while it waited, by a name under which nobody would find it where it waits."""
    masters = Masters(A, B)
    masters.write_all()
    masters.exchange()
    alias = f"boats.at.{B.hex()}"
    masters.admission = replace(ANYBODY, aliases=True, falls_here=lambda name: name in {"ships", f"{alias}-1"})
    committed(masters.logs[B], partial(rename_topic, name="ships", to="boats"))
    masters.send(B, A)
    assert masters.named(A) == {"ships": [A]}
    produced(masters.logs[B], masters.topics[B].number, b"more")
    masters.exchange()
    assert masters.named(A) == {"ships": [A], f"{alias}-1": [B, b"more"]}


def test_aliases_that_are_allowed_later_bring_what_was_dropped_before() -> None:
    """With the next record that comes; until then the topic waits."""
    masters = Masters(A, B)
    masters.write_all()
    masters.exchange()
    masters.admission = replace(ANYBODY, aliases=True)
    masters.exchange()
    assert masters.conflicts() == 2
    produced(masters.logs[B], masters.topics[B].number, b"2")
    masters.exchange()
    assert masters.named(A) == {"ships": [A], f"ships.at.{B.hex()}": [B, b"2"]}


def test_aliases_that_are_allowed_later_bring_every_partition() -> None:
    """Also one of which no further record comes."""
    masters = Masters(A, B)
    produced(masters.logs[A], made(masters.logs[A]).number, b"a")
    topic = made(masters.logs[B], partitions=2)
    for partition in range(2):
        produced(masters.logs[B], topic.number, b"b", partition=partition)
    masters.exchange()
    masters.admission = replace(ANYBODY, aliases=True)
    produced(masters.logs[B], topic.number, b"more")
    masters.exchange()
    copy = masters.logs[A].announced.state.by_incarnation(topic.incarnation)
    assert copy is not None
    assert list(values_at(masters.logs[A], copy.number, 1).values()) == [b"b"]


def test_a_topic_that_waited_is_not_sent_on_as_ones_own() -> None:
    """With `-forward own` nothing of it goes on, as nothing of other copies does: it would be empty there for ever."""
    masters = Masters(A, B)
    masters.write_all()
    masters.exchange()
    committed(masters.logs[A], lambda draft: take_as(draft, "ships", "ships-of-b"))
    masters.exchange()
    sent = [frame(masters.logs[A], C, slice, 0, own_of=A) for slice in range(SLICES)]
    assert {topic.name for each in sent for topic in each.topics.values()} == {"ships"}


def test_a_topic_whose_records_were_cut_off_yields_to_nobody() -> None:
    """It is empty here, and its owner has no record either; but what was acknowledged waits to be copied."""
    masters = Masters(A, B, C)
    topic = made(masters.logs[B])
    masters.send(B, C)
    produced(masters.logs[B], topic.number, b"kept")
    committed(masters.logs[C], partial(take_over, topic="ships", owner_at="/mapr/c/s", writer_epoch_id=bytes(16)))
    masters.send(C, B)
    cut = masters.logs[B].announced.state.by_incarnation(topic.incarnation)
    assert cut is not None
    assert values_at(masters.logs[B], cut.number) == {}
    produced(masters.logs[A], made(masters.logs[A]).number, b"another")
    masters.send(A, B)
    assert masters.logs[B].announced.state.by_name("ships") == cut
    ((_, rows),) = next(read(masters.logs[B].announced, list(tails(masters.logs[B].announced.state)), lambda _: 0))
    assert [row.base_offset for row in rows] == [0]


def test_a_topic_of_which_a_record_was_refused_yields_to_nobody() -> None:
    """Nothing else says that a record of it is to be brought: its note would go with it."""
    masters = Masters(A, B, C)
    topic = made(masters.logs[C])
    produced(masters.logs[C], topic.number, b"refused")
    sent = frame(masters.logs[C], B, slice_of("ships"), 0, link=C[:8] + B[:8])
    harmed = [row._replace(crc=row.crc ^ 1) if row.kind == Kind.BATCH else row for row in sent.rows]
    committed(masters.logs[B], partial(apply_frame, frame=replace(sent, rows=harmed), admission=ANYBODY))
    made(masters.logs[A])
    masters.send(A, B)
    masters.send(C, B)
    assert masters.named(B) == {"ships": [b"refused"]}


def test_a_name_that_a_later_owner_gives_is_told_though_the_first_one_gave_it_too() -> None:
    """It knows the topic by another name, behind a prefix, as others do."""
    masters = Masters(A, B, C, admission=replace(ANYBODY, prefix="p."))
    produced(masters.logs[A], made(masters.logs[A]).number, b"1")
    masters.send(A, B, C)
    committed(masters.logs[B], partial(take_over, topic="p.ships", owner_at="/mapr/b/s", writer_epoch_id=bytes(16)))
    masters.admission = ANYBODY
    masters.send(B, C)
    assert masters.named(C) == {"p.ships": [b"1"]}
    committed(masters.logs[B], lambda draft: rename_topic(draft, "p.ships", "ships"))
    masters.send(B, C)
    assert masters.named(C) == {"ships": [b"1"]}


def test_a_topic_waits_for_the_name_that_its_last_owner_gave_it() -> None:
    """Though the owner before had written later versions of the topic than that one knew."""
    masters = Masters(A, B, C)
    for name in ("ships", "ports"):
        produced(masters.logs[A], made(masters.logs[A], name).number, b"mine")
    produced(masters.logs[B], made(masters.logs[B]).number, b"1")
    masters.send(B, C)
    for partitions in (2, 3):
        committed(masters.logs[B], partial(set_partitions, name="ships", partitions=partitions))
    masters.send(B, A)
    committed(masters.logs[C], partial(take_over, topic="ships", owner_at="/mapr/c/s", writer_epoch_id=bytes(16)))
    committed(masters.logs[C], partial(rename_topic, name="ships", to="ports"))
    masters.send(C, B)
    masters.send(B, A)
    committed(masters.logs[A], partial(rename_topic, name="ports", to="quays"))
    masters.send(B, A)
    assert masters.named(A) == {"ships": [b"mine"], "quays": [b"mine"], "ports": [b"1"]}


def test_a_name_of_another_shard_is_not_taken() -> None:
    """A topic does not move between shards: it keeps the name that it has, or waits."""
    masters = Masters(A, B)
    known, waiting = made(masters.logs[A]), made(masters.logs[A], "boats")
    masters.exchange()
    produced(masters.logs[A], known.number, b"1")
    masters.admission = replace(ANYBODY, falls_here=lambda name: name == "ships")
    committed(masters.logs[A], lambda draft: rename_topic(draft, "ships", "ports"))
    committed(masters.logs[A], lambda draft: delete_topic(draft, waiting.name))
    new = made(masters.logs[A], "quays")
    masters.exchange()
    assert masters.named(B) == {"ships": [b"1"]}
    note = masters.logs[B].announced.state.note((A[:8] + B[:8], new.incarnation, 0))
    assert note is not None
    assert note.behind.reason == NO_NAME_HERE + new.name


def test_who_may_not_rename_is_told_so() -> None:
    """Only the owner may, to a name that is free and that Kafka takes; and only what waits gets a name of its own."""
    masters = Masters(A, B)
    made(masters.logs[A])
    made(masters.logs[A], "ports")
    masters.exchange()
    for log, name, to, error in (
        (masters.logs[B], "ships", "boats", NotOwner),
        (masters.logs[A], "ships", "ports", AlreadyExists),
        (masters.logs[A], "ships", "no/name", InvalidName),
    ):
        (answer,) = committed(log, partial(rename_topic, name=name, to=to))
        with pytest.raises(error):
            answer.result()
    (answer,) = committed(masters.logs[B], lambda draft: take_as(draft, "ships", "boats"))
    with pytest.raises(InvalidValue, match="no topic waits here for the name ships"):
        answer.result()
