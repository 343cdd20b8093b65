"""Where a replica of several shards stands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.stream import Stream
from fairlead.cluster.values import StreamSettings, UpstreamRecord
from fairlead.gateway.apply.agreement import admit, answer_contact, recorded_positions, stand, upstream_of
from fairlead.gateway.apply.routes import begin_copy, end_copy, end_side_copy
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import NotAgreed, NotAllowed
from fairlead.model.limits import LINKS_PER_PARTNER_MAX
from fairlead.model.names import StreamPath
from fairlead.model.settings import Settings
from fairlead.storage.memory import MemoryStorage
from fairlead.streamlog.applying.outdated import note_outdated
from fairlead.streamlog.payloads import BehindPayload, PositionPayload
from fairlead.streamlog.requests.topics import create_topic
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import GrantRun, LinkPosition
from fairlead.streamlog.writing.draft import Draft
from fairlead.wire.apply import ApplyHello
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.neighbours import LinkRequest, SideCopyEnd, SlicesPosition, said_to_be_heard

LINK = b"l" * 16
TOPIC = b"t" * 16
EPOCH = b"e" * 16


def stream_at(*shards: dict[tuple[int, int], LinkPosition]) -> Stream:
    """A stream as far as it is asked: the positions of the link, by shard of the replica."""

    def shard(recorded: dict[tuple[int, int], LinkPosition]) -> Any:
        return SimpleNamespace(state=SimpleNamespace(positions=lambda link: recorded if link == LINK else {}))

    return cast(Stream, SimpleNamespace(shards=[shard(recorded) for recorded in shards]))


def test_the_lowest_position_counts_and_the_newest_run() -> None:
    """Each shard records its own with its data: all data below the lowest is here, and no older run may write."""
    high, low = LinkPosition(9, EPOCH, GrantRun(1, 2)), LinkPosition(5, EPOCH, GrantRun(1, 7))
    for order in ((high, low), (low, high)):
        found = list(recorded_positions(stream_at(*({(0, 3): each} for each in order)), LINK))
        assert found == [SlicesPosition(0, 8, 5, EPOCH, GrantRun(1, 7))]


def test_what_one_shard_has_not_recorded_is_no_position() -> None:
    """A crash came between the commits of the shards: the slice is read again from its start."""
    both = LinkPosition(5, EPOCH, GrantRun(1, 1))
    found = list(recorded_positions(stream_at({(0, 3): both, (0, 4): both}, {(0, 4): both}), LINK))
    assert [(each.shard, each.slices) for each in found] == [(0, 16)]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """One without streams, in memory."""
    with ThreadPoolExecutor(2) as executor:
        cluster = await Cluster.open(
            MemoryStorage(),
            name="ny",
            settings=Settings(reserve_bytes=0, reserve_ratio=0.0),
            clock=SystemClock(),
            randomness=SystemRandomness(),
            executor=executor,
        )
        yield cluster
        await cluster.close()


def request_of(source: str, urls: tuple[str, ...] = ()) -> LinkRequest:
    """What a source cluster's stream says of its only link."""
    id = source.encode().ljust(16)
    return LinkRequest(id, StreamPlace(source, "/ships", id, urls), "/ships")


async def test_the_addresses_of_a_source_of_ones_own_are_kept(cluster: Cluster) -> None:
    """Its contact names them, and they may change. What a partner names is not: it could be any address, for us to
    call."""
    stream = await cluster.create_stream("/ships", StreamSettings())
    for source, peer in (("sf", "own"), ("rome", "partner")):
        await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/ships", source), peer=peer))
    for urls in (("http://sf:1",), ("http://sf:2", "http://user:secret@sf:3", "http://sf:4/")):
        requests = [request_of(source, urls) for source in ("sf", "rome")]
        for request in requests:
            await answer_contact(cluster, request)
    kept = {upstream.path.cluster: upstream.source_urls for upstream in cluster.links.upstreams(stream.id)}
    assert kept == {"sf": ("http://sf:2", "http://sf:4"), "rome": ()}
    end = cluster.meta.announced.end
    for request in requests:
        await answer_contact(cluster, request)
    assert cluster.meta.announced.end == end, "what is known is not written again"


async def test_an_upstream_copies_without_a_word_in_the_log(cluster: Cluster) -> None:
    """It may write under every link of its own anyway. So nothing of a copy outlives the agreement, whether its end
    comes or not, and no number of copies fills the log."""
    stream = await cluster.create_stream("/ships", StreamSettings())
    upstream = await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/ships", "sf")))
    await answer_contact(cluster, request_of("sf"))
    end = cluster.meta.announced.end
    for number in range(3):
        await begin_copy(cluster, replace(request_of("sf"), link=bytes([number]) * 16))
    assert cluster.meta.announced.end == end
    await cluster.links.remove_upstream(stream.id, upstream.path)
    with pytest.raises(NotAgreed):
        upstream_of(cluster, stream, request_of("sf").source, bytes(16))


def _stands(draft: Draft, link: bytes) -> None:
    draft.add_control(Kind.POSITION, PositionPayload(link, 0, 1, 5, EPOCH, 1, 1))


@pytest.mark.parametrize(("peer", "is_forgotten"), [("partner", True), ("own", False)])
async def test_a_partner_has_few_links_at_a_time(cluster: Cluster, peer: str, *, is_forgotten: bool) -> None:
    """What it may note is counted for each. A new id takes the place of the oldest, which may come again, and then has
    nothing here."""
    stream = await cluster.create_stream("/ships", StreamSettings())
    await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/ships", "rome"), peer=peer))
    links = [bytes([number]) * 16 for number in range(LINKS_PER_PARTNER_MAX + 1)]
    hellos = [ApplyHello(1, link, GrantRun(1, 1), request_of("rome").source, stream.id, 0) for link in links]
    if is_forgotten:
        with pytest.raises(NotAgreed, match="ask first where it stands"):
            admit(cluster, hellos[0])
    for link in links:
        await answer_contact(cluster, replace(request_of("rome"), link=link))
        await stream.shards[0].submit(partial(_stands, link=link))
    for hello in hellos[1:]:
        admit(cluster, hello)
    assert bool(list(recorded_positions(stream, links[0]))) is not is_forgotten
    assert all(list(recorded_positions(stream, link)) for link in links[1:])
    if is_forgotten:
        with pytest.raises(NotAgreed):
            admit(cluster, hellos[0])
        await answer_contact(cluster, replace(request_of("rome"), link=links[0]))
        admit(cluster, hellos[0])


async def test_of_more_behind_than_an_answer_lists_each_is_named_some_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source may have stopped to send the topics of the first ones, which stay noted. Conflicts come last."""
    monkeypatch.setattr("fairlead.gateway.apply.agreement.LISTED_MAX", 2)
    stream = await cluster.create_stream("/ships", StreamSettings())

    def noted(draft: Draft) -> None:
        for partition in range(5):
            reason = "conflict: x" if partition == 0 else "gap"
            draft.add_control(Kind.BEHIND, BehindPayload(LINK, "a", TOPIC, partition, 0, reason, 0))

    await stream.shards[0].submit(noted)
    answers = [stand(cluster, stream, LINK) for _ in range(300)]
    assert all(len(answer.behind) == 2 for answer in answers)
    assert {each.partition for answer in answers for each in answer.behind} == {1, 2, 3, 4}


async def test_of_more_owners_than_an_answer_tells_the_others_are_told_once_those_were_heard_of(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that only sends may own hundreds of thousands of topics when another site takes all of them over."""
    monkeypatch.setattr("fairlead.gateway.apply.agreement.LISTED_MAX", 2)
    stream = await cluster.create_stream("/ships", StreamSettings())
    await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/ships", "sf")))
    contact = request_of("sf")

    def outdated(draft: Draft) -> None:
        numbers = [create_topic(draft, name).number for name in ("a", "b", "c")]
        note_outdated(draft, contact.source.stream, numbers)

    await stream.shards[0].submit(outdated)
    told: list[set[str]] = []
    heard: dict[bytes, int] = {}
    for _ in range(3):
        answer = await answer_contact(cluster, replace(contact, ext=said_to_be_heard(heard)))
        told.append({each.name for each in answer.superseded})
        heard = {each.incarnation: each.epoch for each in answer.superseded}
    assert [len(each) for each in told] == [2, 1, 0]
    assert told[0] | told[1] == {"a", "b", "c"}


async def test_nobody_ends_or_brings_another_sources_link(cluster: Cluster) -> None:
    """Its id is all that a frame says of itself. What was said of one that has ended may come again."""
    stream = await cluster.create_stream("/ships", StreamSettings())
    for source in ("sf", "rome"):
        await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/ships", source)))
        await answer_contact(cluster, request_of(source))
    stolen = replace(request_of("rome"), link=request_of("sf").link, once=True)
    calls = [answer_contact, begin_copy, end_copy]
    for call in calls:
        with pytest.raises(NotAllowed, match="another source's"):
            await call(cluster, stolen)
    side = SideCopyEnd(request_of("rome"), stolen.link, b"n" * 16, (0,), (EPOCH,), over=True)
    with pytest.raises(NotAllowed, match="another source's"):
        await end_side_copy(cluster, side)
    await cluster.links.remove_upstream(stream.id, StreamPath("/ships", "rome"))
    await end_copy(cluster, request_of("rome"))


@pytest.mark.parametrize(
    "said", [None, {"x": 1}, {TOPIC.hex(): "1"}, {TOPIC.hex(): True}, {"é" * 32: 1}, [TOPIC.hex()]]
)
def test_what_a_source_says_that_it_has_heard_and_nobody_understands_is_passed_over(said: Any) -> None:
    """It is a stranger's. What is understood counts."""
    place = StreamPlace("sf", "/ships", b"sf".ljust(16))
    assert LinkRequest(LINK, place, "/ships", ext={"heard": said}).heard == {}
    ext = said_to_be_heard({TOPIC: 3})
    assert LinkRequest(LINK, place, "/ships", ext=ext).heard == {TOPIC: 3}
    assert said_to_be_heard({}) == {}
