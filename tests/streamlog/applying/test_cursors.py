"""Cursors that are committed at one site and go on at another: which one counts, and that none goes round for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.streamlog.world import (
    applied,
    batch_of,
    committed,
    frame,
    fresh,
    made,
    opened,
    produced,
    repair_frame,
    replicated,
    rows_of,
)
from tests.support.batches import produce

from fairlead.model.names import slice_of
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import Admission
from fairlead.streamlog.applying.frame import apply_frame
from fairlead.streamlog.cursors import Cursor, CursorPair
from fairlead.streamlog.payloads import CursorPayload
from fairlead.streamlog.ranges import COUNTER_MAX
from fairlead.streamlog.requests.cursors import (
    adopt_cursor,
    commit_cursor,
    delete_cursor,
    publish_cursors,
    tell_cursors,
)
from fairlead.streamlog.requests.topics import delete_topic
from fairlead.streamlog.rows import Kind, Row
from fairlead.streamlog.state.effects import payload_of_cursor
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.writer import ShardLog

SF, NY, LA = b"s" * 16, b"n" * 16, b"l" * 16
GROUP = "dashboard"


class Sites:
    """San Francisco owns a topic with a hundred records, and sends all to New York and back."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        """Of New York."""
        self.sf, self.ny = fresh(SF), opened(self.storage, NY, seed=NY[0])
        self.topic = made(self.sf)
        produced(self.sf, self.topic.number, *(b"%d" % each for each in range(100)))
        self.since: dict[bytes, int | None] = {SF: None, NY: None}
        self.exchange()

    def exchange(self) -> None:
        """All that one site has published is at the other one, however often it is sent."""
        for _ in range(2):
            self.send(self.sf, self.ny)
            self.send(self.ny, self.sf)

    def send(self, source: ShardLog, replica: ShardLog) -> None:
        """One link brings all it has."""
        published(source)
        replicated(source, replica, link=source.announced.state.stream_id)

    def join(self, log: ShardLog) -> int:
        """The first member of the group joins; the offset where it begins. Where the group has committed nothing ever,
        0 is noted (`GroupLog.commits_now`)."""
        is_known = log.announced.state.cursor_table.has_known(GROUP)
        self.since[log.announced.state.stream_id] = log.announced.end if is_known else 0
        return self.place(log)

    def leave(self, log: ShardLog) -> None:
        """The last member leaves."""
        self.since[log.announced.state.stream_id] = None

    def commit(self, log: ShardLog, offset: int) -> Cursor:
        """A member commits."""
        since = self.since[log.announced.state.stream_id]
        number = here(log, self.topic).number
        answer = committed(log, lambda d: commit_cursor(d, GROUP, number, 0, offset, since=since))[0].result()
        assert isinstance(answer, Cursor)
        return answer

    def place(self, log: ShardLog) -> int:
        """Where a member that asks now goes on; -1: nowhere was committed."""
        found = pair(log, self.topic).live(self.since[log.announced.state.stream_id])
        topic = here(log, self.topic)
        state = log.announced.state.partition(topic.number, 0)
        return -1 if found is None else found.served(state, topic.epoch, log.announced.state.stream_id).offset


def here(log: ShardLog, topic: Topic) -> Topic:
    """The topic at that site."""
    found = log.announced.state.by_incarnation(topic.incarnation)
    assert found is not None
    return found


def pair(log: ShardLog, topic: Topic) -> CursorPair:
    """What that site knows of the group."""
    return log.announced.state.cursors(GROUP, here(log, topic).number, 0)


def published(log: ShardLog) -> int:
    """All that is to be published is; how many rows were."""
    keys = list(log.announced.state.cursor_table.unpublished)
    answer = committed(log, lambda d: publish_cursors(d, keys))[0].result()
    assert isinstance(answer, int)
    return answer


def at_work_in_both() -> Sites:
    """Members at each site have committed three times, each for themselves: 3 in San Francisco, 93 in New York."""
    sites = Sites()
    sites.join(sites.sf)
    sites.join(sites.ny)
    for turn in range(1, 4):
        sites.commit(sites.sf, turn)
        sites.exchange()
        sites.commit(sites.ny, 90 + turn)
        sites.exchange()
    return sites


def test_a_group_goes_on_at_another_site_where_it_was() -> None:
    sites = Sites()
    sites.join(sites.sf)
    sites.commit(sites.sf, 40)
    sites.exchange()
    assert sites.join(sites.ny) == 40


def test_a_thousand_commits_publish_one_row() -> None:
    """Each is a row of its own log only; a link wakes for the one that tells the last."""
    sites = Sites()
    sites.join(sites.sf)
    before = sites.sf.announced.end
    for offset in range(100):
        sites.commit(sites.sf, offset)
    assert list(sites.sf.announced.state.cursor_table.unpublished) == [(GROUP, sites.topic.number, 0)]
    assert published(sites.sf) == 1
    assert published(sites.sf) == 0
    slice = slice_of(sites.topic.name)
    assert [row.kind for row in frame(sites.sf, NY, slice, before).rows] == [Kind.CURSOR]
    sites.exchange()
    assert sites.place(sites.ny) == 99


def test_same_group_at_two_sites_never_moves_the_other() -> None:
    """A dashboard runs in both places, each for itself. Its members in New York end for a moment: they must not take
    the place of those in San Francisco then, nor jump over what they have not read themselves."""
    sites = at_work_in_both()
    assert (sites.place(sites.sf), sites.place(sites.ny)) == (3, 93)
    sites.leave(sites.ny)
    sites.commit(sites.sf, 4)
    sites.exchange()
    assert sites.join(sites.ny) == 93
    sites.leave(sites.sf)
    sites.commit(sites.ny, 94)
    sites.exchange()
    assert sites.join(sites.sf) == 4


def test_a_group_that_went_its_own_way_does_so_whoever_its_members_are() -> None:
    """What the next members commit first stands beside nothing that they have heard of; they go on as those before."""
    sites = at_work_in_both()
    sites.leave(sites.ny)
    sites.join(sites.ny)
    assert sites.commit(sites.ny, 95).apart
    sites.leave(sites.ny)
    assert sites.commit(sites.ny, 96).apart, "nor is it a member's"
    sites.commit(sites.sf, 4)
    sites.exchange()
    assert sites.join(sites.ny) == 96


def test_that_holds_where_one_of_them_commits_much_more_often() -> None:
    """What comes from the other one is then always older than the newest commit here."""
    sites = Sites()
    sites.join(sites.sf)
    sites.join(sites.ny)
    for turn in range(1, 4):
        for offset in range(10):
            sites.commit(sites.sf, 10 * turn + offset)
        sites.send(sites.sf, sites.ny)
        for offset in range(10):
            sites.commit(sites.sf, 10 * turn + 10 + offset)
        sites.commit(sites.ny, 90 + turn)
        sites.send(sites.ny, sites.sf)
    sites.commit(sites.sf, 50)
    sites.leave(sites.sf)
    sites.commit(sites.ny, 99)
    sites.exchange()
    assert sites.join(sites.sf) == 50


def test_members_that_have_not_committed_yet_are_not_moved_by_those_elsewhere_once_they_do() -> None:
    """A commit that says what an earlier member said is written too: it says that the present ones are there."""
    sites = Sites()
    sites.join(sites.sf)
    sites.commit(sites.sf, 10)
    sites.exchange()
    sites.leave(sites.sf)
    assert sites.join(sites.sf) == 10
    sites.commit(sites.sf, 10)
    sites.join(sites.ny)
    sites.commit(sites.ny, 90)
    sites.exchange()
    assert sites.place(sites.sf) == 10


def test_failback_after_an_unreplicated_commit() -> None:
    """San Francisco's last commits were lost with it. When it returns it has versions that nobody saw; the group has
    gone on in New York, with fewer commits, so it goes on from there, in both places, though nobody is at work."""
    sites = Sites()
    sites.join(sites.sf)
    sites.commit(sites.sf, 30)
    sites.exchange()
    for offset in range(31, 80):
        sites.commit(sites.sf, offset)
    sites.leave(sites.sf)
    assert sites.join(sites.ny) == 30
    sites.commit(sites.ny, 81)
    sites.leave(sites.ny)
    sites.exchange()
    assert sites.place(sites.ny) == 81
    assert sites.join(sites.sf) == 81
    sites.commit(sites.sf, 85)
    sites.exchange()
    sites.leave(sites.sf)
    assert sites.join(sites.ny) == 85, "and over again: nobody went a way of his own"


def test_a_row_of_the_lost_site_that_comes_late_moves_nobody() -> None:
    """It comes half a second after the group has gone on here, and knew nothing of that: no reason to part for ever."""
    sites = Sites()
    sites.join(sites.sf)
    sites.commit(sites.sf, 30)
    sites.exchange()
    for offset in range(31, 41):
        sites.commit(sites.sf, offset)
    assert sites.join(sites.ny) == 30
    sites.commit(sites.ny, 32)
    sites.send(sites.sf, sites.ny)
    assert sites.place(sites.ny) == 32
    assert sites.commit(sites.ny, 33).version > 11
    assert not sites.commit(sites.ny, 34).apart


def test_what_comes_late_moves_a_group_that_has_not_committed_here() -> None:
    """More members join, and all ask anew: they would go back to what was committed here long ago."""
    sites = Sites()
    sites.commit(sites.ny, 1)
    sites.exchange()
    sites.join(sites.sf)
    sites.commit(sites.sf, 50)
    sites.exchange()
    assert sites.join(sites.ny) == 50
    sites.commit(sites.sf, 52)
    sites.exchange()
    assert sites.place(sites.ny) == 52


def test_cursor_deleted_and_committed_again() -> None:
    """It goes everywhere, and so does what is committed after it: its version goes on."""
    sites = Sites()
    for offset in range(1, 8):
        sites.commit(sites.sf, offset)
    sites.exchange()
    number = sites.topic.number
    assert committed(sites.sf, lambda d: delete_cursor(d, GROUP, number, 0))[0].result() is True
    assert committed(sites.sf, lambda d: delete_cursor(d, GROUP, number, 0))[0].result() is False
    sites.exchange()
    assert (sites.place(sites.sf), sites.place(sites.ny)) == (-1, -1)
    assert sites.ny.announced.state.cursor_table.groups() == sites.sf.announced.state.cursor_table.groups() == []
    sites.commit(sites.sf, 2)
    sites.exchange()
    assert sites.place(sites.ny) == 2


def test_what_was_committed_elsewhere_is_deleted_here() -> None:
    sites = Sites()
    sites.commit(sites.sf, 7)
    sites.exchange()
    number = here(sites.ny, sites.topic).number
    assert committed(sites.ny, lambda d: delete_cursor(d, GROUP, number, 0))[0].result() is True
    sites.exchange()
    assert (sites.place(sites.sf), sites.place(sites.ny)) == (-1, -1)


def test_a_group_that_went_its_own_way_comes_back_when_it_is_told() -> None:
    sites = at_work_in_both()
    sites.leave(sites.sf)
    assert sites.place(sites.sf) == 3
    number = sites.topic.number
    assert committed(sites.sf, lambda d: adopt_cursor(d, GROUP, number, 0))[0].result() is True
    assert sites.place(sites.sf) == 93
    assert committed(sites.sf, lambda d: adopt_cursor(d, GROUP, number, 0))[0].result() is False


def test_cursor_row_before_its_data_by_another_path() -> None:
    """What is not here yet is read when it comes. A cursor beyond the log's end would be out of range, and a client
    that then begins at the latest record would skip all until there. One of a topic that is not here yet comes with
    the repair."""
    sites = Sites()
    produced(sites.sf, sites.topic.number, *(b"more" for _ in range(50)))
    sites.commit(sites.sf, 150)
    published(sites.sf)
    slice = slice_of(sites.topic.name)
    rows = frame(sites.sf, NY, slice, 0, link=b"2" * 16)
    only_cursors = [row for row in rows.rows if row.kind == Kind.CURSOR]
    applied(sites.ny, replace(rows, rows=only_cursors))
    assert sites.join(sites.ny) == 100
    sites.leave(sites.ny)
    sites.exchange()
    assert sites.join(sites.ny) == 150
    la = fresh(LA)
    applied(la, replace(rows, rows=only_cursors))
    assert [note.behind.reason for note in la.announced.state.all_notes().values()] == ["cursor-of-unknown-topic"]
    replicated(sites.ny, la)
    applied(la, repair_frame(sites.sf, LA, sites.topic.number, 0, 0, link=b"2" * 16))
    assert not la.announced.state.all_notes()
    assert place_at(la, sites.topic) == 150


def test_one_row_by_two_ways_is_written_once() -> None:
    """And what came from here is not written here again, so that it comes to rest."""
    sites, la = Sites(), fresh(LA)
    sites.commit(sites.sf, 5)
    sites.exchange()
    for source in (sites.sf, sites.ny):
        replicated(source, la, link=source.announced.state.stream_id)
    cursors = [row for row in frame(la, b"x" * 16, slice_of(sites.topic.name), 0).rows if row.kind == Kind.CURSOR]
    assert [row.origin for row in cursors] == [SF]
    for replica in (sites.sf, sites.ny):
        replicated(la, replica, link=LA)
    sites.exchange()
    for log in (sites.sf, sites.ny, la):
        assert [row.origin for row in rows_of(log) if row.kind == Kind.CURSOR] == [SF]


def test_two_commits_at_once_are_ordered_alike_everywhere() -> None:
    sites = Sites()
    sites.commit(sites.sf, 10)
    sites.commit(sites.ny, 20)
    sites.exchange()
    assert sites.place(sites.sf) == sites.place(sites.ny) == 10


def test_a_partners_consumers_say_nothing_of_ours() -> None:
    """It could move our groups otherwise: over what nobody has read, or back."""
    sites = Sites()
    sites.commit(sites.sf, 99)
    published(sites.sf)
    rows = frame(sites.sf, NY, slice_of(sites.topic.name), 0, link=b"2" * 16)
    committed(sites.ny, lambda d: apply_frame(d, rows, Admission(frozenset({SF}))))
    assert sites.place(sites.ny) == -1


def test_a_commit_that_comes_home_is_no_other_sites() -> None:
    """By a site that knows only the older of two. Else it would go round for ever."""
    sites, la = Sites(), fresh(LA)
    sites.commit(sites.sf, 5)
    sites.exchange()
    replicated(sites.ny, la, link=NY)
    sites.commit(sites.sf, 7)
    whoever = frame(la, b"x" * 16, slice_of(sites.topic.name), 0, link=LA)
    assert SF in {row.origin for row in whoever.rows if row.kind == Kind.CURSOR}
    before = rows_of(sites.sf)
    applied(sites.sf, whoever)
    assert [row.kind for row in rows_of(sites.sf)[len(before) :]] == [Kind.POSITION]
    assert place_at(sites.sf, sites.topic) == 7


def test_a_partition_of_which_a_cursor_came_first_lacks_records_too_once_one_has_come() -> None:
    """What lacks a cursor alone may wait; consumers wait for records."""
    sites, la = Sites(), fresh(LA)
    sites.commit(sites.sf, 5)
    published(sites.sf)
    whole = frame(sites.sf, LA, slice_of(sites.topic.name), 0, link=b"2" * 16)
    for kind, reason in ((Kind.CURSOR, "cursor-of-unknown-topic"), (Kind.BATCH, "unknown-topic")):
        applied(la, replace(whole, rows=[row for row in whole.rows if row.kind == kind]))
        assert [note.behind.reason for note in la.announced.state.all_notes().values()] == [reason]


def test_a_cursor_of_a_deleted_topic_leaves_nothing() -> None:
    """It would be brought again and again, since no topic will ever come that it is of."""
    sites = Sites()
    sites.commit(sites.sf, 9)
    published(sites.sf)
    late = frame(sites.sf, NY, slice_of(sites.topic.name), 0, link=b"2" * 16)
    only_cursors = [row for row in late.rows if row.kind == Kind.CURSOR]
    committed(sites.sf, lambda d: delete_topic(d, sites.topic.name))
    sites.exchange()
    applied(sites.ny, replace(late, rows=only_cursors))
    assert not sites.ny.announced.state.all_notes()
    assert rows_of(sites.ny)[-1].kind == Kind.POSITION


def test_a_commit_that_says_what_counts_no_more_counts_again() -> None:
    """Nobody is at work here, and elsewhere the group has gone on. Whoever sets it back to where it was here says so
    once more, though that is what was said here last."""
    sites = Sites()
    sites.commit(sites.ny, 5)
    sites.exchange()
    sites.commit(sites.sf, 50)
    sites.exchange()
    assert sites.place(sites.ny) == 50
    sites.commit(sites.ny, 5)
    sites.exchange()
    assert (sites.place(sites.ny), sites.place(sites.sf)) == (5, 5)


def test_a_cursor_that_cannot_be_read_is_noted() -> None:
    sites = Sites()
    sites.commit(sites.sf, 99)
    published(sites.sf)
    rows = frame(sites.sf, NY, slice_of(sites.topic.name), 0, link=b"2" * 16)
    harmed = [row._replace(batch=b'{"v":3}') for row in rows.rows if row.kind == Kind.CURSOR]
    applied(sites.ny, replace(rows, rows=harmed))
    assert [note.behind.reason for note in sites.ny.announced.state.all_notes().values()] == ["crc"]


def test_rows_of_before_cursors_were_replicated_are_commits_of_our_own() -> None:
    """Such a log goes on; and what it says was published, since no other row tells it to links."""
    log = fresh(SF)
    topic = made(log)
    produced(log, topic.number, *(b"%d" % each for each in range(9)))
    for version, offset in enumerate([3, 5, None], 1):
        payload = CursorPayload(GROUP, offset, 0, "", 1, version)
        committed(log, row_of_before(topic.number, payload))
        found = pair(log, topic)
        assert found.own is not None
        assert (found.own.version, found.published, found.theirs) == (version, version, None)
    assert log.announced.state.cursor_table.groups() == []
    committed(log, lambda d: commit_cursor(d, GROUP, topic.number, 0, 4))
    assert pair(log, topic).own == pair(log, topic).live()
    assert pair(log, topic).is_dirty


def test_fields_at_their_default_are_not_written() -> None:
    """So rows of before stand as they stood."""
    payload = CursorPayload("g", 5, 0, "", 1, 1)
    assert payloads.encode(payload) == (
        b'{"v":3,"group":"g","offset":5,"leader_epoch":0,"metadata":"","committed_at":1,"version":1}'
    )
    more = CursorPayload("g", None, 0, "", 1, 9, seen=8, first=2, apart=True)
    assert payloads.decode_cursor(payloads.encode(more)) == more


@pytest.mark.parametrize("offset", [0, 120])
def test_what_was_committed_here_beyond_the_end_stays(offset: int) -> None:
    """As in Kafka: a client may commit what is to come."""
    sites = Sites()
    sites.commit(sites.sf, offset)
    assert sites.place(sites.sf) == offset


def test_a_commit_beside_its_records() -> None:
    """The rows of a commit see what the ones before them have changed."""
    sites = Sites()
    number = sites.topic.number
    batch = batch_of(b"new")
    _, first, second = committed(
        sites.sf,
        lambda d: produce(d, number, 0, batch),
        lambda d: commit_cursor(d, GROUP, number, 0, 101),
        lambda d: commit_cursor(d, GROUP, number, 0, 101),
    )
    assert first.result() == second.result()


def row_of_before(number: int, payload: CursorPayload) -> DraftRequest[Row]:
    return lambda d: d.add_control(Kind.CURSOR, payload, number=number, partition=0, origin=SF)


def place_at(log: ShardLog, topic: Topic) -> int:
    found = pair(log, topic).live()
    assert found is not None
    return found.served(log.announced.state.partition(here(log, topic).number, 0), 0, LA).offset


def test_a_commit_after_the_greatest_version_of_a_neighbour_is_taken() -> None:
    """A master that says such a version, by mistake or on purpose, ends nobody's commits."""
    sites = Sites()
    sites.commit(sites.sf, 50)
    published(sites.sf)
    found = frame(sites.sf, NY, slice_of(sites.topic.name), 0, link=b"2" * 16)
    rows = [row if row.kind != Kind.CURSOR else _with_version(row, COUNTER_MAX) for row in found.rows]
    applied(sites.ny, replace(found, rows=rows))
    assert sites.join(sites.ny) == 50
    sites.commit(sites.ny, 60)
    assert sites.place(sites.ny) == 60
    sites.ny = opened(sites.storage, NY, seed=NY[0] + 1)
    assert sites.place(sites.ny) == 60


def _with_version(row: Row, version: int) -> Row:
    return row._replace(batch=payloads.encode(replace(payloads.decode_cursor(row.batch), version=version)))


def test_what_was_deleted_here_is_none_of_the_commits_of_members_that_join_later() -> None:
    """What comes late from elsewhere moves them, since they have committed nothing."""
    sites = Sites()
    sites.commit(sites.sf, 40)
    sites.exchange()
    number = here(sites.sf, sites.topic).number
    committed(sites.sf, lambda d: delete_cursor(d, GROUP, number, 0))
    sites.exchange()
    assert sites.join(sites.sf) == -1
    sites.join(sites.ny)
    sites.commit(sites.ny, 90)
    sites.exchange()
    assert sites.place(sites.sf) == 90


def test_a_cursor_that_is_committed_meanwhile_is_not_deleted() -> None:
    sites = Sites()
    sites.commit(sites.sf, 40)
    number, chosen_at = here(sites.sf, sites.topic).number, pair(sites.sf, sites.topic).own_at
    sites.commit(sites.sf, 50)
    assert committed(sites.sf, lambda d: delete_cursor(d, GROUP, number, 0, chosen_at))[0].result() is False
    assert sites.place(sites.sf) == 50
    now = pair(sites.sf, sites.topic).own_at
    assert committed(sites.sf, lambda d: delete_cursor(d, GROUP, number, 0, now))[0].result() is True
    assert sites.place(sites.sf) == -1


def test_an_own_cursor_that_came_home_is_not_told_as_the_one_that_counts() -> None:
    """The log had lost it; a repair brought it back from a neighbour, and the group has committed here since."""
    sites = Sites()
    number = here(sites.sf, sites.topic).number
    home = Cursor(40, 0, "", 1, 1, SF)
    committed(sites.sf, lambda d: put_came(d, number, home))
    for offset in (50, 60, 70):
        sites.commit(sites.sf, offset)
    own = pair(sites.sf, sites.topic).own
    committed(sites.sf, lambda d: tell_cursors(d, [(GROUP, number, 0)]))
    assert pair(sites.sf, sites.topic).own == own
    assert sites.place(sites.sf) == 70


def put_came(draft: Draft, number: int, cursor: Cursor) -> None:
    """Write the row of a cursor that New York has brought."""
    payload = payload_of_cursor(GROUP, cursor)
    draft.add_control(Kind.CURSOR, payload, number=number, partition=0, origin=cursor.origin, via=NY)
