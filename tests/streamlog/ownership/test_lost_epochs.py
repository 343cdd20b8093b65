"""Two sites write a topic at once, and one of the two histories is cut off: who has read it skips nothing of the other,
although the epoch that it knows is in no log any more, and the one before goes on farther there."""

from __future__ import annotations

from functools import partial

import pytest
from tests.streamlog.ownership.sites import (
    A,
    B,
    C,
    answer_of,
    end_of,
    fresh,
    path_of,
    repaired,
    sent,
    taken_over,
    topic_of,
    wrote,
)
from tests.streamlog.world import made, opened

from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.cursors import Cursor, CursorPair
from fairlead.streamlog.ownership.lost import end_of_epoch
from fairlead.streamlog.requests.cursors import adopt_cursor, commit_cursor, publish_cursors
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.values import Cut, PartitionState
from fairlead.streamlog.writing.writer import ShardLog

GROUP = "dashboard"


class Parted:
    """A owns a topic, B has two records of it, takes it over and writes three; A has written six by then, in epoch 0,
    and its history wins."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        """Of B."""
        self.a, self.b, self.c = fresh(A), opened(self.storage, B, seed=B[0]), fresh(C)
        made(self.a)
        wrote(self.a, b"0", b"1")
        sent(self.a, self.b)
        self.lost = taken_over(self.b).epoch
        wrote(self.b, b"b2", b"b3", b"b4")
        wrote(self.a, b"2", b"3", b"4", b"5")

    def a_goes_on(self) -> None:
        """A takes its own topic, in an epoch above B's."""
        name, writer = topic_of(self.a).name, self.a.epoch.id
        take = partial(take_over, topic=name, owner_at=path_of(A), writer_epoch_id=writer, above=self.lost)
        answer_of(self.a, take)
        assert topic_of(self.a).epoch > self.lost


def read_to(site: ShardLog, offset: int, epoch: int = -1) -> Cursor:
    """A member of the group commits at that site."""
    number = topic_of(site).number
    answer = answer_of(site, lambda draft: commit_cursor(draft, GROUP, number, 0, offset, epoch))
    assert isinstance(answer, Cursor)
    answer_of(site, lambda draft: publish_cursors(draft, list(site.announced.state.cursor_table.unpublished)))
    return answer


def read_by(site: ShardLog, offset: int, epoch: int, known_cuts: int | None) -> None:
    """A client commits there, as a member that knows the cuts below that commit, or as none."""
    number = topic_of(site).number
    answer_of(site, lambda draft: commit_cursor(draft, GROUP, number, 0, offset, epoch, known_cuts=known_cuts))


def pair(site: ShardLog) -> CursorPair:
    """What the site knows of the group."""
    return site.announced.state.cursors(GROUP, topic_of(site).number, 0)


def told(site: ShardLog) -> tuple[int, int]:
    """Offset and epoch by which the group goes on there: it is told the topic's, in which the offset stands."""
    found, topic = pair(site).live(), topic_of(site)
    assert found is not None
    served = found.served(site.announced.state.partition(topic.number, 0), topic.epoch, site.announced.state.stream_id)
    return served.offset, served.leader_epoch


def epoch_end(site: ShardLog, epoch: int) -> tuple[int, int]:
    """What OffsetForLeaderEpoch answers there."""
    topic, state = topic_of(site), site.announced.state
    place = topic.number, 0
    return end_of_epoch(topic, state.partition(*place), state.cuts_of(*place), epoch)


def test_a_group_that_has_read_what_is_cut_off_goes_back_to_where_the_histories_part() -> None:
    """At the site that has cut it, and at one that never had it and is told by a link."""
    world = Parted()
    read_to(world.b, 5)
    assert told(world.b) == (5, world.lost)
    world.a_goes_on()
    sent(world.a, world.c)
    sent(world.b, world.c)
    for site in (world.b, world.c):
        sent(world.a, site)
        repaired(world.a, site)
        assert end_of(site) == 6
        assert told(site) == (2, topic_of(world.a).epoch)
    again = opened(world.storage, B, seed=9)
    assert told(again) == told(world.b)
    assert pair(again) == pair(world.b)


def test_who_has_read_less_than_both_have_goes_on_there() -> None:
    world = Parted()
    read_to(world.b, 1)
    world.a_goes_on()
    sent(world.a, world.b)
    assert told(world.b) == (1, topic_of(world.a).epoch)


@pytest.mark.parametrize("epoch", ["of the record before", "none"])
def test_a_member_that_commits_what_was_cut_off_is_taken_to_have_read_up_to_the_cut(epoch: str) -> None:
    """If it says the epoch that it has read, the cut that took it tells; who says none is asked what cuts it knew."""
    world = Parted()
    world.a_goes_on()
    known_cuts = world.b.announced.end
    sent(world.a, world.b)
    number, said = topic_of(world.b).number, world.lost if epoch == "of the record before" else -1
    answer_of(world.b, lambda draft: commit_cursor(draft, GROUP, number, 0, 5, said, known_cuts=known_cuts))
    assert told(world.b) == (2, topic_of(world.a).epoch)


@pytest.mark.parametrize("is_member", [True, False])
def test_who_names_an_epoch_that_is_in_no_log_any_more_has_read_what_both_logs_have(is_member: bool) -> None:
    """Also one that knows of every cut: the epoch before goes on farther here, so its end tells nothing."""
    world = Parted()
    world.a_goes_on()
    sent(world.a, world.b)
    assert end_of(world.b) == 2
    repaired(world.a, world.b)
    assert end_of(world.b) == 6
    read_by(world.b, 5, world.lost, world.b.announced.end if is_member else None)
    assert told(world.b) == (2, topic_of(world.a).epoch)


def test_a_client_that_names_for_ever_the_epoch_it_was_told_first_goes_on_where_it_was() -> None:
    """As sarama does: it begins in epoch 0, and reads on over two changes of the owner."""
    world = Parted()
    for known in (None, world.b.announced.end):
        read_by(world.b, 4, 0, known)
        assert told(world.b)[0] == (2 if known is None else 4), "who is no member may have read what is elsewhere"
    cursor = pair(world.b).own
    assert cursor is not None
    assert (cursor.leader_epoch, cursor.history) == (world.lost, ((0, 0), (world.lost, 2)))
    world.a_goes_on()
    known = world.b.announced.end
    sent(world.a, world.b)
    repaired(world.a, world.b)
    read_by(world.b, 5, 0, known)
    assert told(world.b) == (2, topic_of(world.a).epoch), "what it read since was cut off"
    read_by(world.b, 6, topic_of(world.a).epoch, world.b.announced.end)
    assert told(world.b)[0] == 6


def test_who_commits_without_reading_has_read_no_record_of_the_epoch_that_it_is_told() -> None:
    """Elsewhere that epoch may be unknown yet, and other records stand at the offset."""
    world = Parted()
    world.a_goes_on()
    sent(world.a, world.b)
    repaired(world.a, world.b)
    read_by(world.b, 1, topic_of(world.a).epoch, world.b.announced.end)
    cursor = pair(world.b).own
    assert cursor is not None
    assert (cursor.offset, cursor.leader_epoch) == (1, 0)


def test_a_consumer_that_asks_where_a_lost_epoch_ended_is_told_of_the_cut() -> None:
    """Kafka's rule alone says the end of epoch 0, four records farther, which are others than it has read."""
    world = Parted()
    world.a_goes_on()
    sent(world.a, world.b)
    repaired(world.a, world.b)
    state = world.b.announced.state.partition(topic_of(world.b).number, 0)
    assert state.end_of_epoch(topic_of(world.b).epoch, world.lost) == (0, 6)
    assert epoch_end(world.b, world.lost) == (0, 2)
    assert epoch_end(world.b, 0) == (0, 6)
    assert epoch_end(world.b, topic_of(world.b).epoch) == (topic_of(world.b).epoch, 6)
    assert epoch_end(world.b, topic_of(world.b).epoch + 1) == (-1, -1)


def test_what_is_adopted_from_another_site_is_what_was_read_there() -> None:
    world = Parted()
    read_to(world.a, 1)
    sent(world.a, world.b)
    sent(world.b, world.a)
    read_to(world.b, 5)
    number = topic_of(world.b).number
    assert pair(world.b).own is not None
    sent(world.b, world.c)
    answer_of(world.c, lambda draft: commit_cursor(draft, GROUP, topic_of(world.c).number, 0, 0, since=0))
    theirs = pair(world.c).theirs
    assert theirs is not None
    assert theirs.history == ((0, 0), (world.lost, 2))
    answer_of(world.c, lambda draft: adopt_cursor(draft, GROUP, number, 0))
    own = pair(world.c).own
    assert own is not None
    assert (own.offset, own.history) == (5, theirs.history)


def test_the_lowest_of_the_cuts_of_later_owners_counts() -> None:
    """Nothing tells which of them took the epoch; one of an owner before it did not."""
    topic, state = topic_of(Parted().a)._replace(epoch=8), PartitionState(0, 9, 8, ((0, 0), (8, 7)))
    cuts = [_cut(1, by_epoch=2), _cut(6, by_epoch=7), _cut(4, by_epoch=8)]
    assert end_of_epoch(topic, state, cuts, 5) == (0, 4)
    assert end_of_epoch(topic, state, cuts[:2], 5) == (0, 6)
    assert end_of_epoch(topic, state, cuts[:1], 5) == (0, 7)


def _cut(offset: int, *, by_epoch: int) -> Cut:
    return Cut(offset, 1, 0, by_epoch, None)
