"""`stream topic claim` at a server: what is refused, what comes, and what is said of it."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID, uuid5

import pytest
from structlog.testing import capture_logs

from fairlead.cluster import claims as module
from fairlead.cluster import owner_log
from fairlead.cluster.jobs import JobRecord
from fairlead.cluster.stream import Stream
from fairlead.gateway.claims import ClaimOptions
from fairlead.gateway.links.orders import chosen
from fairlead.model.errors import InvalidValue, NotOwner, StorageUnavailable, UnknownTopic
from fairlead.protocol.batch import LOG_APPEND_TIME, TRANSACTIONAL, read_header, set_offset
from fairlead.streamlog.requests.claim import claim
from fairlead.streamlog.requests.cuts import cut
from fairlead.streamlog.requests.ownership import hand_over
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft
from tests.gateway.rig import SHIPS, Site
from tests.streamlog.world import batch_of, values_at
from tests.support import http_calls
from tests.support.batches import changed, produced_to
from tests.support.rows import said_of
from tests.support.waiting import until

PLAIN, DRY = ClaimOptions(), ClaimOptions(dry_run=True)


async def tailed(stream: Stream, name: str, *values: bytes, partitions: int = 1) -> Topic:
    """A topic of which each partition was cut at 0: what it had is in a diverged topic. The topic."""
    topic = await stream.create_topic(name, partitions)
    for partition in range(partitions):
        for value in values:
            await produced_to(stream.shard_for(name), topic.number, partition, batch_of(b"%d " % partition + value))
    await cut_off(stream, topic)
    return topic


async def cut_off(stream: Stream, topic: Topic) -> None:
    """Each partition is cut at 0."""
    shard = stream.shard_for(topic.name)
    keep = uuid5(UUID(bytes=topic.incarnation), "0 9").bytes
    for partition in range(topic.partitions):
        request = partial(
            cut, number=topic.number, partition=partition, offset=0, reason="takeover", by_epoch=9, keep=keep
        )
        await shard.submit(request)
    assert shard.copy_tails is not None
    await shard.copy_tails()


def in_transaction(draft: Draft, topic: Topic, value: bytes) -> None:
    """A batch of a Kafka cluster's transaction, whose end does not come."""
    base = draft.state.partition(topic.number, 0).end
    batch = changed(batch_of(value, producer_id=7, epoch=0), attributes=TRANSACTIONAL)
    data = bytes(set_offset(batch, base, topic.epoch))
    records, _, crc = said_of(data)
    place = (topic.number, 0, base, base, topic.epoch, draft.stream_id, None, 0)
    draft.add_batch(*place, data, records=records, bits=TRANSACTIONAL, crc=crc)


async def claimed(site: Site, topics: str, options: ClaimOptions = PLAIN) -> JobRecord:
    """The job, once it has ended."""
    job, names = await site.claims.prepare(SHIPS, topics, options)
    await site.jobs.add(job, names)
    await until(lambda: not site.cluster.jobs.get(job.id).running)
    return site.cluster.jobs.get(job.id)


def reason(job: JobRecord) -> str:
    """Why the only topic was refused."""
    (refusal,) = job.refusals
    return refusal.reason


async def info(site: Site, topic: str) -> list[dict[str, Any]]:
    """What `stream topic info` says."""
    async with http_calls.client() as http:
        answer = await http.get(f"{site.url}/rest/stream/topic/info", params={"path": SHIPS, "topic": topic})
    rows: list[dict[str, Any]] = answer.json()["data"]
    return rows


@pytest.fixture
def ships(sf: Site) -> Stream:
    """A stream without replicas."""
    return sf.cluster.stream(SHIPS)


async def test_every_partition_is_claimed_and_the_topic_says_so(
    sf: Site, ships: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch by batch. The diverged topic tells how many of its records are still to be claimed; the second claim brings
    nothing."""
    monkeypatch.setattr(module, "CLAIMED_BYTES", 1)
    topic = await tailed(ships, "box", b"a", b"b", b"c", partitions=2)
    name = "box.diverged.sf.0"
    assert [(row["divergedfrom"], row["unclaimedrecords"]) for row in await info(sf, name)] == [("box", 3)] * 2
    assert [(row["divergedfrom"], row["unclaimedrecords"]) for row in await info(sf, "box")] == [("", 0)] * 2
    dry = await claimed(sf, name, DRY)
    assert (dry.state, dry.changed, dry.brought) == ("done", 1, 6)
    job = await claimed(sf, name)
    assert (job.state, job.changed, job.refused, job.brought) == ("done", 1, 0, 6)
    for partition in (0, 1):
        wanted = {place: b"%d %c" % (partition, b"abc"[place]) for place in range(3)}
        assert values_at(ships.shard_for("box"), topic.number, partition) == wanted
    assert [row["unclaimedrecords"] for row in await info(sf, name)] == [0, 0]
    again = await claimed(sf, name)
    assert (again.changed, again.refused, again.brought) == (0, 0, 0)


async def test_the_log_says_what_was_cut_off_copied_and_claimed(
    sf: Site, ships: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each kind, not for each partition."""
    monkeypatch.setattr(owner_log, "GATHERED_SECONDS", 1e6)
    with capture_logs() as logs:
        await tailed(ships, "box", b"a", b"b", partitions=2)
        await claimed(sf, "box.diverged.sf.0")
        ships.owner_log.flush()
    told = {line["event"]: line for line in logs}
    assert told["logs are cut"]["topics"] == [f"box partition {each} at 0 (by epoch 9)" for each in (0, 1)]
    copied = told["diverged records are copied"]
    assert (copied["total"], copied["records"]) == (2, 4)
    assert "box partition 0 into box.diverged.sf.0" in copied["topics"]
    claim = told["records are claimed"]
    assert (claim["stream"], claim["topics"], claim["records"]) == (SHIPS, ["box.diverged.sf.0"], 4)


async def test_an_expression_means_the_diverged_topics_among_those_that_it_matches(sf: Site, ships: Stream) -> None:
    """So `.*` claims all there is to claim."""
    for name in ("one", "two"):
        await tailed(ships, name, b"x")
    await ships.create_topic("three")
    job = await claimed(sf, ".*")
    assert (job.total, job.changed, job.brought) == (2, 2, 2)
    with pytest.raises(InvalidValue, match="matches no diverged or pending topic"):
        await claimed(sf, "one|two")


async def test_as_many_as_can_be_claimed_at_once_may_lie_among_more_topics(
    sf: Site, ships: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream has hundreds of thousands of topics, and `.*` means the few that keep something."""
    monkeypatch.setattr(chosen, "TOPICS_MAX", 2)
    for name in ("one", "two"):
        await tailed(ships, name, b"x")
    job = await claimed(sf, ".*")
    assert (job.changed, job.brought) == (2, 2)
    await tailed(ships, "three", b"x")
    with pytest.raises(InvalidValue, match="3 topics: at most 2 at a time"):
        await claimed(sf, ".*")


async def test_a_list_says_whose_records_are_claimed_and_what_keeps_none_is_refused(sf: Site, ships: Stream) -> None:
    """It was left out without a word."""
    await tailed(ships, "box", b"a")
    job = await claimed(sf, "box.diverged.sf.0\nbox\nnone\n")
    assert (job.total, job.changed, job.brought) == (3, 1, 1)
    assert {each.topic: each.reason.partition(":")[0] for each in job.refusals} == {
        "box": "box is no diverged or pending topic",
        "none": "topic none does not exist in stream /ships",
    }


async def test_what_cannot_be_claimed_is_refused(sf: Site, ships: Stream) -> None:
    """A topic that keeps nothing, one whose topic is gone or written elsewhere or has too few partitions."""
    await ships.create_topic("plain")
    assert "plain is no diverged or pending topic" in reason(await claimed(sf, "plain"))
    topic = await tailed(ships, "box", b"a", partitions=2)
    name = "box.diverged.sf.0"
    assert "-into box.diverged.sf.0: that is the diverged topic itself" in reason(
        await claimed(sf, name, ClaimOptions(into=name))
    )
    assert "it has 2 partitions, plain has 1" in reason(await claimed(sf, name, ClaimOptions(into="plain")))
    with pytest.raises(UnknownTopic):
        await claimed(sf, name, ClaimOptions(into="nothing"))
    shard = ships.shard_for("box")
    place = "/mapr/ny/ships"
    await shard.submit(
        lambda draft: hand_over(draft, "box", to=b"n" * 16, owner_at=place, writer_epoch_id=shard.epoch.id)
    )
    assert f"box is owned by {place}" in reason(await claimed(sf, name))
    with pytest.raises(NotOwner):
        await claimed(sf, name, ClaimOptions(into="box"))
    assert shard.state.partition(topic.number, 0).end == 0


async def test_what_lies_behind_an_open_transaction_is_refused_and_the_rest_claimed(sf: Site, ships: Stream) -> None:
    """A reader of committed records never sees it; it was said to be claimed."""
    topic = await ships.create_topic("box", 2)
    shard = ships.shard_for("box")
    await produced_to(shard, topic.number, 0, batch_of(b"before"))
    await shard.submit(partial(in_transaction, topic=topic, value=b"open"))
    await produced_to(shard, topic.number, 0, batch_of(b"behind"))
    await produced_to(shard, topic.number, 1, batch_of(b"other"))
    await cut_off(ships, topic)
    job = await claimed(sf, "box.diverged.sf.0")
    assert reason(job) == "2 records of partition 0 cannot be claimed: the end of a transaction is missing"
    assert (job.state, job.changed, job.refused, job.brought) == ("done", 0, 1, 2)
    assert values_at(shard, topic.number, 0) == {0: b"before"}
    assert values_at(shard, topic.number, 1) == {0: b"other"}


async def test_what_was_claimed_before_a_batch_had_to_wait_is_counted(
    sf: Site, ships: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of topics that were done, and of one that was not."""
    _, two = [await tailed(ships, name, b"x", partitions=2) for name in ("one", "two")]
    failed = list[int]()

    def failing_once(draft: Draft, number: int, partition: int, *others: Any, **more: Any) -> int:
        if (number, partition) == (two.number, 1) and not failed:
            failed.append(number)
            raise StorageUnavailable("the disk fails")
        return claim(draft, number, partition, *others, **more)

    monkeypatch.setattr(module, "claim", failing_once)
    job = await claimed(sf, ".*")
    assert failed
    assert (job.state, job.done, job.changed, job.refused, job.brought) == ("done", 2, 2, 0, 4)


async def test_a_topic_that_is_gone_leaves_its_tail_to_another(sf: Site, ships: Stream) -> None:
    """The person says which."""
    await tailed(ships, "box", b"a", b"b")
    await ships.delete_topic("box")
    other = await ships.create_topic("box", configs={"message.timestamp.type": "LogAppendTime"})
    assert "keeps records is not here; name another one (-into)" in reason(await claimed(sf, "box.diverged.sf.0"))
    job = await claimed(sf, "box.diverged.sf.0", ClaimOptions(into="box"))
    assert job.brought == 2
    shard = ships.shard_for("box")
    (first, _) = shard.reader.fetch(other.number, 0, 0, 1 << 20).batches
    header = read_header(first)
    assert header.attributes & LOG_APPEND_TIME
    assert header.max_timestamp > 0
