"""A topic that is taken over while its owner is away, and what becomes of the owner's late rows when it returns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    C,
    D,
    answer_of,
    cuts_in,
    end_of,
    fresh,
    handed_over,
    history_of,
    id_of,
    link_of,
    noted,
    path_of,
    repaired,
    sent,
    sent_again,
    taken_over,
    topic_of,
    values_of,
    wrote,
)
from tests.streamlog.world import (
    SeededRandomness,
    applied,
    frame,
    installed,
    made,
    opened,
    produced,
    repair_frame,
    rows_of,
    values_at,
)
from tests.support.batches import changed

from fairlead.model.errors import NotOwner
from fairlead.model.names import slice_of
from fairlead.model.settings import Settings
from fairlead.protocol.batch import read_header, set_offset
from fairlead.streamlog import payloads
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.claims import Claim, claim_of, hear
from fairlead.streamlog.applying.frame import FrameOutcome, apply_frame
from fairlead.streamlog.applying.outdated import note_heard, outdated_at
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.ownership.epochs import CLASSES
from fairlead.streamlog.payloads import DELETED_RECORDS, StartPayload, TruncatePayload
from fairlead.streamlog.requests.cuts import diverged_incarnation
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.ownership import Recovered, recover, take_over
from fairlead.streamlog.requests.topics import delete_topic, set_configs
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.state.effects import payload_of
from fairlead.streamlog.state.shard_state import ShardState
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.writer import ShardLog

MERGING = Settings(merge_commits_min=1, merge_idle_seconds=0.0, checkpoint_interval_seconds=0.0)


def three_sites() -> tuple[ShardLog, ShardLog, ShardLog]:
    """A owns the topic; B and C have copies of its two records."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(a)
    wrote(a, b"0", b"1")
    sent(a, b)
    sent(a, c)
    return a, b, c


def parted() -> tuple[ShardLog, ShardLog, ShardLog]:
    """A has written [2, 4) that nobody had when B took the topic over from 2 on and wrote to it."""
    a, b, c = three_sites()
    wrote(a, b"late2", b"late3")
    taken_over(b)
    wrote(b, b"b2")
    return a, b, c


def test_late_tail_is_superseded_not_conflict() -> None:
    """C has B's epoch, then A's rows of the epoch before come: they are dropped and counted, and nothing is noted."""
    a, b, c = parted()
    sent(b, c)
    outcomes = sent(a, c)
    assert sum(outcome.superseded for outcome in outcomes) == 2
    assert sum(outcome.behind + outcome.conflicts for outcome in outcomes) == 0
    assert noted(a, c) == []
    assert values_of(c) == {0: b"0", 1: b"1", 2: b"b2"}


def test_an_owner_that_returns_takes_the_common_history() -> None:
    """Today's conflict [run]: A takes the change of owner, cuts its own tail and goes on with B's records. The row that
    cuts keeps the tail for the topic that shall hold it."""
    a, b, _ = parted()
    sent(b, a)
    assert topic_of(a).owner == B
    assert cuts_in(a) == [(0, 2)]
    assert values_of(a) == {0: b"0", 1: b"1", 2: b"b2"}
    assert history_of(a) == history_of(b)
    assert noted(b, a) == []
    with pytest.raises(NotOwner, match=path_of(B)):
        wrote(a, b"x")
    assert values_of(opened(a.announced.storage, A)) == {0: b"0", 1: b"1", 2: b"b2"}


def test_an_owner_that_returns_before_the_new_one_wrote_writes_no_more() -> None:
    """The TOPIC row alone cuts: nobody reads the tail once the new epoch is known."""
    a, b, _ = three_sites()
    wrote(a, b"late2")
    taken_over(b)
    sent(b, a)
    assert values_of(a) == {0: b"0", 1: b"1"}


def test_what_a_frame_of_many_takeovers_cuts_is_looked_up_at_once() -> None:
    """After a restart the batches at which the owner's topics are cut are only on disk. Asked for one by one, each
    would have the whole frame evaluated again."""
    a, b = fresh(A), fresh(B)
    topics = [made(a, name, 2) for name in in_one_slice(20)]
    for topic in topics:
        produced(a, topic.number, b"0", partition=1)
    sent(a, b)
    for topic in topics:
        produced(a, topic.number, b"late", partition=1)
        answer_of(b, partial(take_over, topic=topic.name, owner_at=path_of(B), writer_epoch_id=b.epoch.id))
    a = opened(a.announced.storage, A)
    part = frame(b, A, slice_of(topics[0].name), 0, link=link_of(b, a))
    evaluated = []

    def request(draft: Draft) -> FrameOutcome:
        evaluated.append(len(part.rows))
        return apply_frame(draft, part)

    answer_of(a, request)
    assert len(evaluated) == 2
    assert [values_at(a, topic.number, 1) for topic in topics] == [{0: b"0"}] * 20


def in_one_slice(count: int) -> list[str]:
    """Names of topics whose rows go in the same frame."""
    names = (f"t{number}" for number in range(10_000))
    return [name for name in names if slice_of(name) == slice_of("t0")][:count]


def test_a_late_tail_that_comes_first_is_cut_later() -> None:
    """The order in which links bring the two does not matter."""
    a, b, c = parted()
    sent(a, c)
    assert end_of(c) == 4
    sent(b, c)
    assert values_of(c) == {0: b"0", 1: b"1", 2: b"b2"}
    assert noted(b, c) == noted(a, c) == []


def test_records_of_an_owner_that_is_not_known_yet_are_behind_and_no_conflict() -> None:
    """They came before the row that names him, by some fault: a repair brings them once it has come."""
    _, b, c = parted()
    link = link_of(b, c)
    whole = frame(b, C, slice_of(TOPIC), 0, link=link)
    applied(c, replace(whole, rows=[row for row in whole.rows if row.kind == Kind.BATCH]))
    assert [note.reason for note in noted(b, c)] == ["ownership"]
    applied(c, frame(b, C, slice_of(TOPIC), 0, link=link))
    repaired(b, c)
    assert noted(b, c) == []
    assert values_of(c) == {0: b"0", 1: b"1", 2: b"b2"}


def started(source: ShardLog, replica: ShardLog, offset: int, epoch: int, **more: object) -> None:
    """A START row of A's own history, as merging leaves it where records have expired."""
    first = frame(source, id_of(replica), slice_of(TOPIC), 0, link=link_of(source, replica))
    history = ((0, 0),)
    payload = StartPayload("ttl", 9, history, epoch=epoch)
    payload = replace(payload, **more)  # type: ignore[arg-type]
    row = next(row for row in first.rows if row.kind == Kind.BATCH)
    start = row._replace(
        kind=int(Kind.START),
        base_offset=offset,
        last_offset=-1,
        epoch=0,
        max_timestamp=-1,
        records=0,
        bits=0,
        crc=0,
        batch=payloads.encode(payload),
    )
    applied(replica, replace(first, rows=[start]))


def test_late_start_row_of_a_dead_tail() -> None:
    """A's tail [2, 9) has expired there, so its START row stands at 9. It says of B's history only that all below 2 is
    gone: else C would end at 9, and B's records from 2 on would have no place."""
    a, b, c = parted()
    fresh_c = fresh(C)
    for site in (c, fresh_c):
        only_topics(b, site)
        started(a, site, 9, epoch=0)
        assert end_of(site) == 2
        sent_again(b, site)
        assert values_of(site)[2] == b"b2"


def only_topics(source: ShardLog, replica: ShardLog) -> None:
    """The topic's rows alone have come."""
    whole = frame(source, id_of(replica), slice_of(TOPIC), 0, link=link_of(source, replica))
    applied(replica, replace(whole, rows=[row for row in whole.rows if row.kind == Kind.TOPIC]))


def test_a_gap_in_a_dead_tail_is_no_gap_here() -> None:
    """It lies where the owner's history has other records, or none yet."""
    a, b, c = parted()
    sent(b, c)
    started(a, c, 9, epoch=0, gap_from=5)
    assert (end_of(c), c.announced.state.gaps()) == (3, [])


def test_an_owner_of_before_deletes_no_records() -> None:
    """A, cut off, deletes all that it has: the records that both hold are the new owner's to delete. Also what a merge
    makes of that row says nothing."""
    a, b, c = parted()
    answer_of(a, lambda draft: delete_records(draft, topic_of(a).number, 0, 4))
    sent(b, c)
    sent(a, c)
    started(a, c, 1, epoch=0, reason="ttl", deleted_to=2)
    started(a, c, 0, epoch=0, reason=DELETED_RECORDS, deleted_to=2)
    assert values_of(c) == {0: b"0", 1: b"1", 2: b"b2"}
    sent(b, a)
    assert values_of(a)[2] == b"b2"


def test_what_the_new_owner_deletes_reaches_the_owner_before_by_way_of_a_third_site() -> None:
    """C reads B's log once the deleted records are merged away there. What stands in the place of A's records does not
    tell of the deletion: C sends A no rows of A's own, and B's row would be no news to C any more."""
    a, b, c = fresh(A), fresh(B, settings=MERGING), fresh(C)
    made(a)
    wrote(a, b"0", b"1")
    sent(a, b)
    taken_over(b)
    wrote(b, b"b2")
    answer_of(b, lambda draft: delete_records(draft, topic_of(b).number, 0, 2))
    job = b.upkeep.plan()
    assert job is not None
    installed(b, run_job.run(b.announced.storage, SeededRandomness(1), job))
    sent(b, c)
    sent(c, a)
    for site in (a, b, c):
        assert values_of(site) == {2: b"b2"}
        assert site.announced.state.partition(topic_of(site).number, 0).log_start == 2


def test_what_an_owner_of_before_has_deleted_holds_up_nobody() -> None:
    """A had deleted [0, 2) and merged that away before B took the topic over: what C lacks of it comes from nobody. It
    is a gap, or C would be behind for ever, and the topic without a writer where C is its new owner."""
    a, b, _ = parted()
    c = fresh(C)
    only_topics(b, c)
    started(a, c, 2, epoch=0, reason=DELETED_RECORDS, deleted_to=2)
    assert end_of(c) == 2
    sent_again(b, c)
    assert values_of(c)[2] == b"b2"


def test_third_replica_ahead_is_pulled_first() -> None:
    """C had more of A than B: B applies a repair of C's rows before it takes the topic over, and nothing is cut."""
    a, b, c = three_sites()
    wrote(a, b"2")
    sent(a, c)
    pull(c, b)
    taken_over(b)
    wrote(b, b"b3")
    for site in (a, c):
        sent(b, site)
        assert values_of(site) == {0: b"0", 1: b"1", 2: b"2", 3: b"b3"}
        assert cuts_in(site) == []


def pull(source: ShardLog, replica: ShardLog) -> None:
    """The rest of the partition, as a repair brings it."""
    number = topic_of(source).number
    applied(replica, repair_frame(source, id_of(replica), number, 0, end_of(replica), link=link_of(source, replica)))


def test_third_replica_ahead_and_unreachable_keeps_its_tail() -> None:
    """C was not reached: what it had more of A is cut off when it hears of B, and kept; nothing is lost."""
    a, b, c = three_sites()
    wrote(a, b"2")
    sent(a, c)
    taken_over(b)
    wrote(b, b"b2")
    sent(b, c)
    assert values_of(c) == {0: b"0", 1: b"1", 2: b"b2"}
    assert kept_in(c) == [diverged_incarnation(topic_of(c).incarnation, 0, topic_of(b).epoch)]


def kept_in(site: ShardLog) -> list[bytes | None]:
    """The incarnations of the topics that shall hold what was cut off."""
    found: list[TruncatePayload] = [payloads.decode_truncate(r.batch) for r in rows_of(site) if r.kind == Kind.TRUNCATE]
    return [each.keep for each in found]


def test_two_holders_make_one_diverged_topic() -> None:
    """A and C hold some of the same tail: both keep it as one incarnation, so that their copies are one topic's."""
    a, b, c = three_sites()
    wrote(a, b"2")
    sent(a, c)
    wrote(a, b"3")
    taken_over(b)
    sent(b, a)
    sent(b, c)
    assert kept_in(a) == kept_in(c) != [None]
    another = diverged_incarnation(topic_of(a).incarnation, 0, topic_of(b).epoch + 1)
    assert another not in kept_in(a)


def test_both_took_over() -> None:
    """B and C, which heard of neither, take over both: the higher epoch wins everywhere, the other's records are cut
    off where the two part, and not where the winner's epoch begins."""
    a, b, c = three_sites()
    wrote(a, b"2")
    sent(a, c)
    taken_over(b)
    taken_over(c)
    wrote(b, b"b2", b"b3")
    wrote(c, b"c3")
    winner, loser = (b, c) if topic_of(b).epoch > topic_of(c).epoch else (c, b)
    sent(winner, loser)
    sent(loser, winner)
    sent(b, a)
    sent(c, a)
    sent(winner, a)
    for site in (loser, a):
        repaired(winner, site)
    assert values_of(a) == values_of(b) == values_of(c)
    assert history_of(a) == history_of(b) == history_of(c)
    assert cuts_in(winner) == []
    assert [topic_of(site).owner for site in (a, b, c)] == [id_of(winner)] * 3
    assert noted(winner, loser) == noted(loser, winner) == noted(winner, a) == []


def test_stale_owner_deletes_after_takeover() -> None:
    """A, cut off, deletes the topic that B has taken over: nobody follows, and at A the topic lives again as B has it,
    under another number."""
    a, b, c = three_sites()
    number = topic_of(a).number
    taken_over(b)
    wrote(b, b"b2")
    answer_of(a, lambda draft: delete_topic(draft, TOPIC))
    sent(b, c)
    for site in (b, c):
        sent(a, site)
        assert values_of(site) == {0: b"0", 1: b"1", 2: b"b2"}
    sent(b, a)
    repaired(b, a)
    assert noted(b, a) == []
    assert topic_of(a).number != number
    assert values_of(a) == {0: b"0", 1: b"1", 2: b"b2"}


def test_a_deletion_by_the_present_owner_deletes_everywhere() -> None:
    """Also where its epoch was never heard of; a row of an epoch between the two does not bring the topic back."""
    a, b, c = three_sites()
    taken_over(b)
    between = frame(b, C, slice_of(TOPIC), 0, link=link_of(b, c))
    answer_of(b, lambda draft: delete_topic(draft, TOPIC))
    sent(b, a)
    answer_of(c, lambda draft: None)
    whole = frame(b, C, slice_of(TOPIC), 0, link=link_of(b, c))
    applied(c, replace(whole, rows=[row for row in whole.rows if row.kind == Kind.TOPIC_DELETED]))
    applied(c, replace(between, link=link_of(a, c)))
    for site in (a, b, c):
        assert site.announced.state.by_name(TOPIC) is None


def test_a_later_deletion_fences_what_the_first_one_did_not() -> None:
    """C knows A's deletion, of epoch 0, when B's comes: then B's TOPIC row, late and by another path, is older too."""
    a, b, c = three_sites()
    taken_over(b)
    between = frame(b, C, slice_of(TOPIC), 0, link=link_of(a, c))
    answer_of(a, lambda draft: delete_topic(draft, TOPIC))
    answer_of(b, lambda draft: delete_topic(draft, TOPIC))
    sent(a, c)
    whole = frame(b, C, slice_of(TOPIC), 0, link=link_of(b, c))
    applied(c, replace(whole, rows=[row for row in whole.rows if row.kind == Kind.TOPIC_DELETED]))
    applied(c, replace(between, rows=[row for row in between.rows if row.kind == Kind.TOPIC]))
    assert c.announced.state.by_name(TOPIC) is None


def test_forward_own_after_ownership_moved() -> None:
    """B has A's topic and A's late records over a link that sends only A's own. A loses the topic to C, which hands it
    to D: B hears of each, or it would go on with a history that is nobody's; and of its deletion. What was never A's it
    does not get."""
    a, c, b, d = fresh(A), fresh(C), fresh(B), fresh(D)
    made(a)
    wrote(a, b"0", b"1")
    sent(a, c)
    wrote(a, b"late2")
    sent(a, b, own=True)
    made(c, "theirs")
    taken_over(c)
    wrote(c, b"c2")
    sent(c, a)
    a = opened(a.announced.storage, A)
    sent(a, b, own=True)
    assert (topic_of(b).owner, topic_of(b).epoch, end_of(b)) == (C, topic_of(c).epoch, 2)
    assert values_of(a) == {0: b"0", 1: b"1", 2: b"c2"}
    assert values_of(b) == {0: b"0", 1: b"1"}
    assert b.announced.state.by_name("theirs") is None
    sent(c, d)
    handed_over(c, d)
    sent(c, d)
    sent(c, a)
    assert checkpoint_of(a).was_ours(topic_of(a).number)
    sent(a, b, own=True)
    assert topic_of(b).owner == D
    answer_of(d, lambda draft: delete_topic(draft, TOPIC))
    for source, replica in ((d, c), (c, a)):
        sent(source, replica)
    sent(a, b, own=True)
    assert b.announced.state.by_name(TOPIC) is None
    assert not checkpoint_of(a).handed_on


def checkpoint_of(site: ShardLog) -> ShardState:
    """Its state as a checkpoint says it."""
    return snapshot.load(id_of(site), *snapshot.dump(site.announced.state))


def test_one_way_source_is_fenced_by_the_answer() -> None:
    """A sends to B, and nothing comes back: it never sees B's row, and writes for ever what nobody takes. B's answer
    names the topics of which rows of an owner of before came, and A takes what it says of them."""
    a, b, _ = parted()
    numbers = frozenset[int]().union(*(outcome.outdated for outcome in sent(a, b)))
    assert numbers == {topic_of(b).number}
    told = [payload_of(topic_of(b))]
    partner = Admission(frozenset({B}))
    for admission, heard in ((partner, 0), (ANYBODY, 1), (ANYBODY, 0)):
        assert answer_of(a, partial(hear, source=B, topics=told, admission=admission)) == heard
    assert values_of(a) == {0: b"0", 1: b"1"}
    with pytest.raises(NotOwner, match=path_of(B)):
        wrote(a, b"x")


def test_a_source_is_told_of_another_owner_until_it_has_heard() -> None:
    """That rows of an owner of before came is noted in the commit that passes them, so a replica that was started again
    tells it too. It is noted once, and for that source alone, which may have heard of an owner before the present one;
    if the topic goes, the note goes with it."""
    a, b, _ = parted()
    sent(a, b)
    noted_at = b.announced.end
    b = opened(b.announced.storage, B)
    incarnation, first = topic_of(b).incarnation, topic_of(b).epoch
    assert told(b, A) == [(incarnation, first)]
    assert told(b, C) == []
    sent_again(a, b)
    assert b.announced.end == noted_at
    second = taken_over(b).epoch
    for source, epoch, left in ((C, second, 1), (A, first - 1, 1), (A, first, 0)):
        assert told(b, A) == [(incarnation, second)]
        answer_of(b, partial(note_heard, source=source, epochs=[(incarnation, epoch), (b"none" * 4, second)]))
        assert len(told(b, A)) == left
    sent_again(a, b)
    answer_of(b, partial(note_heard, source=A, epochs=[(incarnation, first)]))
    assert told(b, A) == [(incarnation, second)]
    answer_of(b, partial(delete_topic, name=TOPIC))
    assert told(b, A) == []


def test_a_source_whose_rows_come_again_is_told_until_it_has_heard_of_the_present_owner() -> None:
    """It says that it has heard of the one before, as it does for an answer that was long on its way."""
    a, b, _ = parted()
    sent(a, b)
    incarnation, first = topic_of(b).incarnation, topic_of(b).epoch
    second = taken_over(b).epoch
    sent_again(a, b)
    for epoch, left in ((first, 1), (second, 0)):
        answer_of(b, partial(note_heard, source=A, epochs=[(incarnation, epoch)]))
        assert len(told(b, A)) == left


def test_whoever_changes_a_topic_that_is_anothers_is_told_though_it_writes_no_records() -> None:
    a, b = fresh(A), fresh(B)
    made(a)
    sent(a, b)
    taken_over(b)
    answer_of(a, lambda draft: set_configs(draft, TOPIC, {"cleanup.policy": "compact"}))
    sent(a, b)
    assert told(b, A) == [(topic_of(b).incarnation, topic_of(b).epoch)]


def told(site: ShardLog, source: bytes) -> list[tuple[bytes, int]]:
    """What the site is to tell the source."""
    return [(each.incarnation, each.epoch) for each in outdated_at(site.announced.state, source)]


def test_foreign_link_cannot_take_ownership() -> None:
    """A partner to which our topic was passed on claims it, in whatever epoch: the topic stays ours, is set aside on
    that link, and the note says why. It can neither take what another one owns; its own it may hand on to one of those
    for whom it speaks."""
    a, p = fresh(A), fresh(D)
    made(a)
    wrote(a, b"0")
    sent(a, p)
    taken_over(p)
    wrote(p, b"lie")
    sent(p, a, Admission(frozenset({D})))
    assert topic_of(a).owner == A
    assert [note.reason.partition(":")[2].partition(":")[0] for note in noted(p, a)] == [" ownership-claim"]
    assert values_of(a) == {0: b"0"}
    assert wrote(a, b"1") == 1
    b = fresh(B)
    sent(a, b)
    sent(p, b, Admission(frozenset({D})))
    assert topic_of(b).owner == A


def test_a_partner_hands_its_topic_on_to_those_for_whom_it_speaks() -> None:
    """The new owner must be among the upstream's origins too; what was written before it, the new owner vouches for."""
    for origins, owner in (({D, C}, C), ({D}, D)):
        p, other, ours = fresh(D), fresh(C), fresh(A)
        made(p)
        wrote(p, b"0")
        sent(p, ours, Admission(frozenset(origins)))
        handed_over(p, other)
        sent(p, other)
        wrote(other, b"1")
        sent(other, p)
        sent(p, ours, Admission(frozenset(origins)))
        assert topic_of(ours).owner == owner
        assert values_of(ours) == ({0: b"0", 1: b"1"} if owner == C else {0: b"0"})


def test_a_partner_that_took_a_topic_over_brings_what_came_before() -> None:
    """Its upstream wrote that, which is none of the partner's streams: no fresh replica could have it otherwise."""
    upstream, p, ours = fresh(C), fresh(D), fresh(A)
    made(upstream)
    wrote(upstream, b"0")
    sent(upstream, p)
    taken_over(p)
    wrote(p, b"1")
    sent(p, ours, Admission(frozenset({D})))
    repaired(p, ours)
    assert values_of(ours) == {0: b"0", 1: b"1"}
    assert noted(p, ours) == []


def test_a_conflict_with_a_partner_ends_with_its_next_word_once_its_ownership_came_another_way() -> None:
    """B had taken the partner's topic over, so all that comes from there is set aside, and the partner's claim of a
    later epoch too. C, whose word counts, tells B of that epoch: then there is one history, and whatever the partner
    says of the topic ends the conflict, also another setting."""
    partner, b, c = fresh(D), fresh(B), fresh(C)
    admission = Admission(frozenset({D}))
    made(partner)
    wrote(partner, b"0")
    sent(partner, b, admission)
    taken_over(b)
    wrote(partner, b"1")
    while topic_of(partner).epoch <= topic_of(b).epoch:
        taken_over(partner)
    sent(partner, b, admission)
    assert [note.conflict for note in noted(partner, b)] == [True]
    sent(partner, c)
    sent(c, b)
    assert topic_of(b).owner == D
    answer_of(partner, lambda draft: set_configs(draft, TOPIC, {"retention.ms": "1000000"}))
    sent(partner, b, admission)
    repaired(partner, b)
    assert noted(partner, b) == []
    wrote(partner, b"2")
    sent(partner, b, admission)
    assert values_of(b) == {0: b"0", 1: b"1", 2: b"2"}


KNOWN = Topic(1, TOPIC, b"i" * 16, 1, A, epoch=7, version=4, since=((5, ((0, 0),)),))


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"epoch": 6, "version": 9}, Claim.OLDER),
        ({"version": 3}, Claim.OLDER),
        ({}, Claim.SAME),
        ({"version": 5}, Claim.NEWER),
        ({"version": 5, "owner": C}, Claim.CONFLICT),
        ({"since": ((4, ((0, 0),)),)}, Claim.CONFLICT),
        ({"epoch": 8, "version": 0}, Claim.NEW_OWNER),
    ],
)
def test_rows_are_ordered_by_epoch_and_version(changes: dict[str, object], claim: Claim) -> None:
    """The epoch goes first. One epoch has one owner and one beginning: another one is a conflict, not a choice."""
    row = replace(payload_of(KNOWN), **changes)  # type: ignore[arg-type]
    assert claim_of(KNOWN, row, ANYBODY, here=B) is claim


def test_an_own_source_without_the_say_moves_no_topic_of_ours() -> None:
    """Another's it does: that is how a chain hears of it."""
    row = replace(payload_of(KNOWN), epoch=8)
    assert claim_of(KNOWN, row, Admission(), here=A) is Claim.NOT_ALLOWED
    assert claim_of(KNOWN, row, Admission(), here=B) is Claim.NEW_OWNER


def test_a_change_of_owner_ends_a_conflict() -> None:
    """Two owners of one epoch, which a person settles: once one of them takes over again, there is one history, and
    what had been set aside is brought."""
    _, b, c = three_sites()
    taken_over(b)
    wrote(b, b"b2")
    sent(b, c)
    lie = frame(b, C, slice_of(TOPIC), 0, link=link_of(b, c))
    rows = [row for row in lie.rows if row.kind == Kind.TOPIC]
    wrong = rows[-1]._replace(batch=bytes(rows[-1].batch).replace(B.hex().encode(), D.hex().encode()))
    applied(c, replace(lie, rows=[wrong]))
    assert [note.conflict for note in noted(b, c)] == [True]
    wrote(b, b"b3")
    taken_over(b)
    wrote(b, b"b4")
    sent(b, c)
    repaired(b, c)
    assert noted(b, c) == []
    assert values_of(c) == values_of(b)


def test_settings_that_were_changed_by_both_are_the_new_owners() -> None:
    """The epoch goes before the version, however often the old owner changed the topic."""
    a, b, _ = three_sites()
    for value in ("1", "2", "3"):
        answer_of(a, partial(set_configs, name=TOPIC, changes={"retention.ms": value}))
    taken_over(b)
    sent(b, a)
    sent(a, b)
    assert topic_of(a) == topic_of(b)._replace(number=topic_of(a).number)
    assert dict(topic_of(a).configs) == {}


def test_a_takeover_begins_an_epoch_above_all_that_neighbours_know() -> None:
    """Of owners that this site has not heard of: theirs would not be the older history else."""
    a = fresh(A)
    made(a)
    wrote(a, b"0")
    known = 5 * CLASSES + 3
    taking = partial(take_over, topic=TOPIC, owner_at=path_of(A), writer_epoch_id=a.epoch.id, above=known)
    assert answer_of(a, taking).epoch > known


def test_a_recovery_cuts_for_the_epoch_that_it_begins() -> None:
    """Above that of another site's history, of which this log knows nothing: whoever asks where its epochs ended is
    told of the cut by that."""
    a = fresh(A)
    incarnation = made(a).incarnation
    wrote(a, b"0", b"1")
    wrote(a, b"lost")
    newest = 5 * CLASSES + 3
    other = Recovered(common=2, end=4, history=((0, 0), (newest, 2)))
    request = partial(recover, owner_at=path_of(A), writer_epoch_id=a.epoch.id, gives_up=False)
    topic = answer_of(a, partial(request, incarnation=incarnation, partitions={0: other}))
    (cut,) = a.announced.state.cuts_of(topic.number, 0)
    assert (cut.offset, cut.by_epoch) == (2, topic.epoch)
    assert topic.epoch > newest


def test_deletions_of_an_owner_before_are_none_of_the_next_ones_where_only_an_answer_tells_of_it() -> None:
    """A has deleted three records of which C got none. Then C hears that B, which has one, gives the offsets behind
    that anew."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(a)
    wrote(a, b"0")
    sent(a, b)
    sent(a, c)
    started(a, c, 1, epoch=0, reason=DELETED_RECORDS, deleted_to=3)
    number = topic_of(c).number
    assert c.announced.state.partition(number, 0).deleted_to == 3
    taken_over(b)
    answer_of(c, lambda draft: hear(draft, B, [payload_of(topic_of(b))], ANYBODY))
    state = c.announced.state.partition(number, 0)
    assert state.end == 1
    assert state.deleted_to <= 1


def test_a_copy_that_the_new_owners_row_makes_has_the_deletions_of_the_owner_before() -> None:
    """A's own row of that does not count any more, and B may have merged it away."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(a)
    wrote(a, b"0")
    wrote(a, b"1")
    answer_of(a, lambda draft: delete_records(draft, topic_of(a).number, 0, 1))
    sent(a, b)
    assert taken_over(b).deleted_to == (1,)
    whole = frame(b, C, slice_of(TOPIC), 0, link=link_of(b, c))
    applied(c, replace(whole, rows=[row for row in whole.rows if row.kind == Kind.TOPIC][-1:]))
    assert (topic_of(c).owner, c.announced.state.partition(topic_of(c).number, 0).deleted_to) == (B, 1)


def test_nobody_writes_of_the_new_owners_epoch_where_records_of_the_one_before_are_gone() -> None:
    """They are not here to be compared with, but their epochs are."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(a)
    wrote(a, b"0", b"1", b"2")
    sent(a, b)
    taken_over(b)
    wrote(b, b"b3")
    only_topics(b, c)
    started(a, c, 3, epoch=0)
    assert end_of(c) == 3
    whole = frame(b, C, slice_of(TOPIC), 0, link=link_of(b, c))
    batch = next(row for row in whole.rows if row.kind == Kind.BATCH and row.base_offset == 3)
    lie = batch._replace(base_offset=1, last_offset=1, batch=set_offset(batch.batch, 1, batch.epoch))
    outcome = applied(c, replace(whole, rows=[lie]))[0]
    assert (outcome.duplicates, outcome.conflicts) == (0, 1)


def test_what_is_set_aside_on_a_link_comes_again_once_its_source_knows_the_present_owner_too() -> None:
    """C has heard of B by B's own link. What came from A meanwhile, a record other than the one here, was a conflict on
    A's link; A's history is B's by now."""
    a, b, c = three_sites()
    taken_over(b)
    sent(b, c)
    whole = frame(a, C, slice_of(TOPIC), 0, link=link_of(a, c))
    batch = next(row for row in whole.rows if row.kind == Kind.BATCH)
    other = changed(bytes(batch.batch), max_timestamp=7)
    applied(c, replace(whole, rows=[batch._replace(batch=other, crc=read_header(other).crc, max_timestamp=7)]))
    assert [note.conflict for note in noted(a, c)] == [True]
    sent(b, a)
    wrote(b, b"b2")
    sent(b, a)
    sent(a, c)
    assert [note.conflict for note in noted(a, c)] == [False]
    repaired(a, c)
    assert noted(a, c) == []
    assert values_of(c) == values_of(b)
