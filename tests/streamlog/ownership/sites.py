"""Sites that pass a topic on to each other: what a cluster does, without sockets, links by links."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from tests.streamlog.world import applied, batch_of, committed, frame, fresh, repair_frame, rows_of, values_at
from tests.support.batches import produce

from fairlead.model.names import SLICES, slice_of
from fairlead.streamlog.applying.admission import ANYBODY, Admission
from fairlead.streamlog.applying.frame import FrameOutcome, apply_frame
from fairlead.streamlog.applying.pulled import NO_LINK, NO_RUN, apply_pulled
from fairlead.streamlog.requests.ownership import hand_over, take_over
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import Behind, GrantRun, Topic
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.writer import ShardLog

A, B, C, D = (letter * 16 for letter in (b"a", b"b", b"c", b"d"))
TOPIC = "ships"
_runs = count(100)

__all__ = ["TOPIC", "A", "B", "C", "D", "fresh"]


def link_of(source: ShardLog, replica: ShardLog) -> bytes:
    """Id of the link between two sites in that direction."""
    return id_of(source)[:8] + id_of(replica)[:8]


def id_of(site: ShardLog) -> bytes:
    """Id of the site's stream."""
    return site.announced.state.stream_id


def path_of(stream: bytes) -> str:
    """Where a stream is."""
    return f"/mapr/{stream[:1].decode()}/s"


def sent(
    source: ShardLog, replica: ShardLog, admission: Admission = ANYBODY, *, own: bool = False
) -> list[FrameOutcome]:
    """All that the link, with `-forward own` if `own`, has not brought yet, slice by slice; what became of it."""
    link, outcomes = link_of(source, replica), []
    for slice in range(SLICES):
        position = replica.announced.state.position((link, 0, slice))
        start = 0 if position is None else position.commit
        own_of = id_of(source) if own else None
        part = frame(source, id_of(replica), slice, start, link=link, own_of=own_of)
        outcomes.append(answer_of(replica, partial(apply_frame, frame=part, admission=admission)))
    return outcomes


def sent_again(source: ShardLog, replica: ShardLog) -> FrameOutcome:
    """The topic's slice from the beginning, as a link does that is to look at everything again."""
    return applied(replica, frame(source, id_of(replica), slice_of(TOPIC), 0, link=link_of(source, replica)))[0]


def passed(source: ShardLog, replica: ShardLog, from_commit: int, to_commit: int) -> None:
    """The link passes commits [from, to) without their rows, as if their batches had been damaged on the way, and
    brings what follows."""
    skipped = frame(source, id_of(replica), slice_of(TOPIC), from_commit, to_commit, link=link_of(source, replica))
    applied(replica, replace(skipped, rows=[]))
    sent(source, replica)


def repaired(source: ShardLog, replica: ShardLog) -> None:
    """What the link knows to be missing is brought, whoever wrote it."""
    link = link_of(source, replica)
    for note in noted(source, replica):
        topic = source.announced.state.by_incarnation(note.incarnation)
        if note.conflict or topic is None:
            continue
        run = GrantRun(1, next(_runs))
        applied(
            replica,
            repair_frame(source, b"whoever", topic.number, note.partition, note.end, link=link, run=run),
        )


def pulled(source: ShardLog, replica: ShardLog) -> None:
    """What the replica lacks of the topic's first partition it asks for, and no link brings it."""
    number, end = topic_of(source).number, end_of(replica)
    part = repair_frame(source, b"whoever", number, 0, end, link=NO_LINK, run=NO_RUN)
    assert not answer_of(replica, partial(apply_pulled, frame=part, admission=ANYBODY)).refused


def noted(source: ShardLog, replica: ShardLog) -> list[Behind]:
    """The partitions that are behind or set aside on that link."""
    return replica.announced.state.behind(link_of(source, replica))


def topic_of(site: ShardLog, name: str = TOPIC) -> Topic:
    """The topic as the site knows it."""
    found = site.announced.state.by_name(name)
    assert found is not None
    return found


def answer_of(site: ShardLog, request: DraftRequest[Any]) -> Any:
    """The answer of a request in a commit of its own. Raises what it raises."""
    return committed(site, request)[0].result()


def writing(values: tuple[bytes, ...], partition: int = 0, **producer: int) -> DraftRequest[Any]:
    """A request that produces one batch to the topic."""

    def request(draft: Draft) -> Any:
        topic = draft.state.by_name(TOPIC)
        assert topic is not None
        return produce(draft, topic.number, partition, batch_of(*values, **producer))

    return request


def wrote(site: ShardLog, *values: bytes, partition: int = 0, **producer: int) -> int:
    """The offset of a batch that is produced to the topic at that site. Raises what it raises."""
    offset = answer_of(site, writing(values, partition, **producer)).base_offset
    assert isinstance(offset, int)
    return offset


def handing_over(site: ShardLog, to: bytes) -> DraftRequest[Topic]:
    """A request that hands the topic over."""
    return lambda draft: hand_over(draft, TOPIC, to=to, owner_at=path_of(to), writer_epoch_id=site.epoch.id)


def handed_over(site: ShardLog, to: ShardLog) -> Topic:
    """The topic, once the site has handed it over."""
    found = answer_of(site, handing_over(site, id_of(to)))
    assert isinstance(found, Topic)
    return found


def taken_over(site: ShardLog) -> Topic:
    """The topic, once the site has taken it over."""
    path = path_of(id_of(site))
    found = answer_of(site, lambda draft: take_over(draft, TOPIC, owner_at=path, writer_epoch_id=site.epoch.id))
    assert isinstance(found, Topic)
    return found


def end_of(site: ShardLog, partition: int = 0) -> int:
    """Where the partition's log ends at the site."""
    return site.announced.state.partition(topic_of(site).number, partition).end


def history_of(site: ShardLog, partition: int = 0) -> tuple[tuple[int, int], ...]:
    """Its epoch history there."""
    return site.announced.state.partition(topic_of(site).number, partition).history


def cuts_in(site: ShardLog) -> list[tuple[int, int]]:
    """(partition, offset) of the rows that cut partitions, as they stand in the log."""
    return [(row.partition, row.base_offset) for row in rows_of(site) if row.kind == Kind.TRUNCATE]


def values_of(site: ShardLog, partition: int = 0) -> dict[int, bytes | None]:
    """Every record of the topic's partition there, by offset."""
    return values_at(site, topic_of(site).number, partition)
