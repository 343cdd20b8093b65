"""What the columns of a row say beside its batch, and that no copy and no merge loses it."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.streamlog.world import (
    SETTINGS,
    SeededRandomness,
    batch_of,
    committed,
    fresh,
    installed,
    made,
    opened,
    replicated,
    rows_of,
)

from fairlead.protocol.batch import check_produced, read_header
from fairlead.streamlog import payloads
from fairlead.streamlog.merging import run_job
from fairlead.streamlog.requests.produce import produce
from fairlead.streamlog.requests.topics import bury, create_topic, delete_topic, put_topic
from fairlead.streamlog.rows import LOCAL_KINDS, NO_COMMIT, Kind, Row
from fairlead.streamlog.state import snapshot
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.writer import ShardLog

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))


def of_link(log: ShardLog) -> list[Row]:
    """The rows that travel."""
    return [row for row in rows_of(log) if row.kind not in LOCAL_KINDS]


def with_records(log: ShardLog) -> Topic:
    """A topic with two batches, of two records and of one."""
    topic = made(log)
    for batch in (batch_of(b"1", b"2"), batch_of(b"3")):
        committed(log, lambda draft, batch=batch: produce(draft, topic.number, 0, check_produced(batch)))  # type: ignore[misc]
    return topic


def said(row: Row) -> tuple[int, int, int]:
    return row.records, row.bits, row.crc


def test_a_row_says_of_its_batch_what_nobody_should_read_bytes_for() -> None:
    """How many records, Kafka's attributes, the CRC; of a control row nothing."""
    log = fresh(A)
    with_records(log)
    for row in rows_of(log):
        header = read_header(row.batch) if row.kind == Kind.BATCH else None
        assert said(row) == ((0, 0, 0) if header is None else (header.record_count, header.attributes, header.crc))
        assert row.via_commit == NO_COMMIT
    assert [row.records for row in rows_of(log) if row.kind == Kind.BATCH] == [2, 1]


def test_a_copy_says_in_which_commit_its_sender_had_it() -> None:
    """By it a history can be cut at one commit of the source, and a reader of the source goes on here. At the third
    site it is the middle one's commit: the log that the row came from."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    made(b, "elsewhere")
    topic = with_records(a)
    replicated(a, b)
    committed(a, lambda draft: delete_topic(draft, topic.name))
    replicated(a, b)
    replicated(b, c)
    at_b = [row for row in of_link(b) if row.via == A]
    at_c = [row for row in of_link(c) if row.origin == A]
    assert [row.kind for row in at_c] == [Kind.TOPIC, Kind.BATCH, Kind.BATCH, Kind.TOPIC_DELETED]
    assert [row.via_commit for row in at_b] == [row.commit for row in of_link(a)]
    assert [row.via_commit for row in at_c] == [row.commit for row in at_b]
    assert [said(row) for row in at_c] == [said(row) for row in of_link(a)]


def test_a_merge_keeps_what_a_row_says() -> None:
    """It rewrites objects, not rows."""
    a, b = fresh(A), fresh(B, settings=replace(SETTINGS, merge_commits_min=1))
    with_records(a)
    replicated(a, b)
    before = of_link(b)
    merged = 0
    while (job := b.upkeep.plan()) is not None:
        installed(b, run_job.run(b.announced.storage, SeededRandomness(1), job))
        merged += 1
    assert merged
    assert of_link(b) == before


def test_a_topic_says_its_first_name_and_from_where_its_owner_gives_offsets() -> None:
    """At its creation, and whatever a later row says: after a start from the log, and in a checkpoint."""
    log = fresh(A)
    topic = committed(log, lambda d: create_topic(d, "ships", 2, owner_at="/mapr/oslo/fleet"))[0].result()
    assert (topic.home, topic.owner_at, topic.since) == ("ships", "/mapr/oslo/fleet", ())
    since = ((9, ((0, 0), (3, 5))), (0, ()))
    changed = topic._replace(
        epoch=7, version=1, home="boats", owner_at="/mapr/rome/fleet", since=since, deleted_to=(4, 0)
    )
    committed(log, lambda d: put_topic(d, changed, A, None))
    assert log.announced.state.by_name("ships") == changed
    again = opened(log.announced.storage, A)
    assert again.announced.state.by_name("ships") == changed
    loaded = snapshot.load(A, *snapshot.dump(again.announced.state))
    assert loaded.by_name("ships") == changed
    committed(again, lambda d: delete_topic(d, "ships"))
    forgotten = snapshot.dump(again.announced.state)[1]
    assert not forgotten["since"]
    assert not forgotten["deleted_before"]


def test_a_tombstone_says_in_which_epoch_it_was_written() -> None:
    """A takeover that the deletion did not know brings the topic back; the checkpoint remembers it too."""
    a, b = fresh(A), fresh(B)
    topic = made(a)
    committed(a, lambda d: put_topic(d, topic._replace(epoch=7, version=1), A, None))
    replicated(a, b)
    committed(a, lambda d: delete_topic(d, "ships"))
    replicated(a, b)
    for log in (a, b, opened(b.announced.storage, B)):
        loaded = snapshot.load(log.announced.state.stream_id, *snapshot.dump(log.announced.state))
        assert [known.epoch for known in loaded.tombstones.values()] == [7]


def test_what_a_middle_site_does_not_know_reaches_the_third() -> None:
    """A field that a later program writes into the row of a topic, of its beginning or of its end: the middle site is
    older, was started again from its checkpoint, and even learnt of the topic while another held its name."""
    a, b, c = fresh(A), fresh(B), fresh(C)
    topic = made(a)._replace(version=1, ext={"later": {"x": [1, None]}})
    committed(a, lambda d: put_topic(d, topic, A, None))
    started = replace(payloads.StartPayload("ttl", 5, ((0, 0),)), ext={"begins": "5"})
    committed(a, lambda d: d.add_control(Kind.START, started, number=topic.number, partition=0, base_offset=5))
    replicated(a, b)
    committed(a, lambda d: bury(d, topic, A, None, ext={"ends": True}))
    loaded = snapshot.load(B, *snapshot.dump(b.announced.state)).by_name("ships")
    assert loaded is not None
    assert loaded.ext == topic.ext
    replicated(a, b)
    replicated(b, c)
    said = [json.loads(bytes(row.batch)) for row in of_link(c)]
    assert [each.get("later") for each in said if "home" in each][-1] == {"x": [1, None]}
    assert [each["begins"] for each in said if "history" in each] == ["5"]
    assert [each["ends"] for each in said if "yielded" in each] == [True]


def test_a_topic_that_waited_for_its_name_keeps_what_its_row_said() -> None:
    """The row waits in a note."""
    a, b = fresh(A), fresh(B)
    held = with_records(b)
    topic = with_records(a)._replace(ext={"later": 7})
    committed(a, lambda d: put_topic(d, topic._replace(version=1), A, None))
    replicated(a, b)
    assert [note.create.ext for note in b.announced.state.notes(b"l" * 16).values() if note.create] == [{"later": 7}]
    committed(b, lambda d: delete_topic(d, held.name))
    taken = b.announced.state.by_name("ships")
    assert taken is not None
    assert (taken.incarnation, taken.ext) == (topic.incarnation, {"later": 7})
