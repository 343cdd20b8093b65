"""Records that a neighbour has and this cluster lacks, brought over HTTP without a replicator."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site, set_up
from tests.streamlog.world import rows_of, values_at
from tests.support.waiting import until

from fairlead.cluster.stream import Stream
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.pulling.neighbours import neighbours
from fairlead.gateway.pulling.taking import Pulled, Pulls
from fairlead.model.errors import CorruptBatch, InvalidValue, NotAgreed, UnknownCluster, UnknownStream, Unreachable
from fairlead.model.names import StreamPath, names_like
from fairlead.streamlog.payloads import StartPayload
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.rows import Kind
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.shard import Shard
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import to_json
from fairlead.wire.neighbours import PullAnswer, PullRequest, WantedPartition

BIG = 2_500_000
"""Bytes of a batch; two of them are more than one answer takes."""


@pytest.fixture
async def bound(sf: Site, ny: Site) -> None:
    """ny accepts sf, which has asked where it stands; nobody carries anything."""
    await set_up(sf, ny)
    await until(lambda: all(link.state.ready for link in sf.manager.running))


def pulls(site: Site, gateways: object = None) -> Pulls:
    """What brings records to a site; `gateways` answer in the place of its neighbours'."""
    return Pulls(site.cluster, site.manager.new_gateways if gateways is None else lambda: cast(Gateways, gateways))


def ships(site: Site) -> Stream:
    return site.cluster.stream(SHIPS)


def known(site: Site, name: str) -> tuple[Shard, Topic]:
    return ships(site).topic(name)


async def pulled(to: Site, source: Site, *names: str, gateways: object = None) -> Pulled:
    """What a pull of some topics' first partitions has brought."""
    wanted = {known(source, name)[1].incarnation: [0] for name in names}
    return await pulls(to, gateways).pull(ships(to), ships(source).id, wanted)


async def taken_over(site: Site, name: str) -> Topic:
    """The topic in its next epoch."""
    shard, topic = known(site, name)
    at, epoch = str(site.cluster.global_path(SHIPS)), shard.epoch.id
    return await shard.submit(lambda draft: take_over(draft, topic.number, owner_at=at, writer_epoch_id=epoch))


async def start_at(site: Site, name: str, offset: int, gap_from: int | None = None) -> None:
    """The partition begins there, or has a gap up to there."""
    shard, topic = known(site, name)
    state = shard.state.partition(topic.number, 0)
    payload = StartPayload("ttl", max(state.end, offset), state.history, gap_from, 0, topic.epoch)
    await shard.submit(
        lambda draft: draft.add_control(
            Kind.START, payload, number=topic.number, partition=0, base_offset=offset, origin=topic.owner
        )
    )


def stored(site: Site, name: str) -> list[tuple[Any, ...]]:
    """The batches of a topic as they lie on disk, and who wrote them."""
    shard, topic = known(site, name)
    rows = [row for row in rows_of(shard) if row.topic == topic.number and row.kind == Kind.BATCH]
    return [(row.base_offset, row.last_offset, row.epoch, row.origin, row.crc, bytes(row.batch)) for row in rows]


def values(site: Site, name: str) -> dict[int, bytes | None]:
    """What can be fetched."""
    shard, topic = known(site, name)
    return values_at(shard, topic.number)


@pytest.mark.usefixtures("bound")
async def test_pulled_records_are_at_their_offsets_with_their_epochs(sf: Site, ny: Site) -> None:
    """Byte for byte, with the history of owners; a topic that is not here yet is made. A second pull changes
    nothing."""
    await sf.write(SHIPS, "box", b"0", b"1")
    await taken_over(sf, "box")
    await sf.write(SHIPS, "box", b"2")
    found = await pulled(ny, sf, "box")
    assert (found.records, found.done, found.total, found.failures) == (3, 1, 1, {})
    assert stored(ny, "box") == stored(sf, "box")
    assert values(ny, "box") == {0: b"0", 1: b"1", 2: b"2"}
    states = [shard.state.partition(topic.number, 0) for shard, topic in (known(sf, "box"), known(ny, "box"))]
    assert states[0] == states[1]
    assert len(states[0].history) == 2
    end = known(ny, "box")[0].announced.end
    assert (await pulled(ny, sf, "box")).records == 0
    assert known(ny, "box")[0].announced.end == end


@pytest.mark.usefixtures("bound")
async def test_a_pull_that_was_interrupted_goes_on_where_the_log_ends(sf: Site, ny: Site) -> None:
    """Whoever pulls dies after the first answer. The bound of an answer holds: each is about 4 MB."""
    for value in (b"a", b"b", b"c"):
        await sf.write(SHIPS, "box", value * BIG)
    wanted = {known(sf, "box")[1].incarnation: [0]}
    seen: list[Pulled] = []

    def die(step: Pulled) -> None:
        seen.append(step)
        if step.records:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        await pulls(ny).pull(ships(ny), ships(sf).id, wanted, die)
    assert (seen[-1].records, seen[-1].done, ny.end(SHIPS, "box")) == (1, 0, 1)
    found = await pulls(ny).pull(ships(ny), ships(sf).id, wanted)
    assert (found.records, found.failures, ny.end(SHIPS, "box")) == (2, {}, 3)
    assert stored(ny, "box") == stored(sf, "box")


@pytest.mark.usefixtures("bound")
async def test_thousands_of_partitions_come_in_a_few_answers(sf: Site, ny: Site) -> None:
    """Those that an answer does not reach are asked for again. What is equal already costs no frame of records."""
    names = [f"box-{number}" for number in range(600)]
    for outcome in await ships(sf).change_topics([(name, ships(sf).creation(name)) for name in names]):
        assert isinstance(outcome, Topic)
    for name in names[::50]:
        await sf.write(SHIPS, name, b"0" * 1000)
    found = await pulled(ny, sf, *names)
    assert (found.records, found.done, found.failures) == (12, 600, {})
    assert ny.ends(SHIPS) == sf.ends(SHIPS)


@pytest.mark.usefixtures("bound")
async def test_a_neighbour_that_lacks_the_start_answers_a_gap(sf: Site, ny: Site) -> None:
    """What it lacks is a declared gap here, not silence: the records behind it would have no place. So is a gap of its
    own in the middle."""
    for value in (b"0", b"1", b"2"):
        await sf.write(SHIPS, "box", value)
    assert (await pulled(ny, sf, "box")).records == 3
    for value in (b"3", b"4", b"5"):
        await sf.write(SHIPS, "box", value)
    await start_at(sf, "box", 4)
    await start_at(sf, "box", 9, gap_from=6)
    await sf.write(SHIPS, "box", b"9")
    found = await pulled(ny, sf, "box")
    assert (found.records, found.failures) == (3, {})
    assert values(ny, "box") == {0: b"0", 1: b"1", 2: b"2", 4: b"4", 5: b"5", 9: b"9"}
    shard, topic = known(ny, "box")
    assert [(gap.start, gap.end, gap.reason) for gap in shard.state.gaps_of(topic.number, 0)] == [
        (3, 4, "ttl"),
        (6, 9, "ttl"),
    ]


@pytest.mark.usefixtures("bound")
async def test_whoever_is_not_bound_asks_and_is_answered_in_vain(sf: Site, ny: Site) -> None:
    """At the asker's end, before anything is sent; and at the other, whatever an asker says it is. A question of more
    partitions than are allowed is refused too."""
    await sf.write(SHIPS, "box", b"0")
    with pytest.raises(NotAgreed, match="is no neighbour of /mapr/ny/ships"):
        await pulls(ny).pull(ships(ny), b"z" * 16, {known(sf, "box")[1].incarnation: [0]})
    wanted = (WantedPartition(known(sf, "box")[1].incarnation, 0, 0, -1, -1),)
    asker = StreamPlace("ny", SHIPS, ships(ny).id)
    ask = partial(sf.manager.new_gateways().pull, sf.urls, bytes_max=1_000_000)
    for stranger in (replace(asker, stream=b"z" * 16), replace(asker, path="/others"), replace(asker, cluster="la")):
        with pytest.raises(NotAgreed, match="is bound to /mapr/sf/ships by no link; run: fairlead stream replica add"):
            await ask(PullRequest(stranger, SHIPS, wanted))
    with pytest.raises(InvalidValue, match="501 partitions in one question"):
        await ask(PullRequest(asker, SHIPS, wanted * 501))
    with pytest.raises(InvalidValue, match="speaks version 3"):
        await ask(PullRequest(asker, SHIPS, wanted, protocol=3))
    assert await ask(PullRequest(asker, SHIPS, wanted))
    await sf.links.remove(SHIPS, REPLICA)
    with pytest.raises(NotAgreed):
        await pulled(ny, sf, "box")
    await ny.links.remove_upstream(SHIPS, SOURCE)
    with pytest.raises(NotAgreed, match="is no neighbour"):
        await pulled(ny, sf, "box")


@pytest.mark.usefixtures("bound")
async def test_a_replica_gives_back_what_is_ours_and_nothing_of_others(sf: Site, ny: Site) -> None:
    """The road goes one way, yet a source that lost records gets them from its replica: but only of its own topics, and
    a partner that we feed hands out no others either."""
    await sf.write(SHIPS, "box", b"0")
    await ny.write(SHIPS, "own", b"0")
    await pulled(ny, sf, "box")
    await taken_over(ny, "box")
    found = await pulled(sf, ny, "own")
    assert "the topic is none of its own" in found.failures[known(ny, "own")[1].incarnation, 0]
    assert sf.end(SHIPS, "own") == -1
    await ny.links.edit_upstream(SHIPS, SOURCE, peer="partner")
    found = await pulled(sf, ny, "own")
    assert "does not have it, or not for this stream" in found.failures[known(ny, "own")[1].incarnation, 0]


@pytest.mark.usefixtures("bound")
async def test_a_new_owner_of_ones_own_is_heard_and_a_partners_is_not(sf: Site, ny: Site) -> None:
    """The neighbour knows of a takeover: the row comes first, what diverges here is cut, then its records come. From a
    partner's upstream the same row is refused, and nothing changes."""
    await sf.write(SHIPS, "box", b"0", b"1")
    await pulled(ny, sf, "box")
    here = await taken_over(ny, "box")
    await ny.write(SHIPS, "box", b"ours")
    while (await taken_over(sf, "box")).epoch < here.epoch:
        """Epochs of different owners come in any order."""
    await sf.write(SHIPS, "box", b"theirs")
    await ny.links.edit_upstream(SHIPS, SOURCE, peer="partner")
    found = await pulled(ny, sf, "box")
    assert "ownership-claim" in found.failures[here.incarnation, 0]
    assert known(ny, "box")[1] == here
    assert values(ny, "box")[2] == b"ours"
    await ny.links.edit_upstream(SHIPS, SOURCE, peer="own")
    found = await pulled(ny, sf, "box")
    assert (found.records, found.failures) == (1, {})
    assert known(ny, "box")[1].owner == ships(sf).id
    assert values(ny, "box") == {0: b"0", 1: b"1", 2: b"theirs"}


async def test_a_new_owners_name_that_is_one_of_another_shard_here_is_not_taken(sf: Site, ny: Site) -> None:
    """The owner's stream has one shard, and gave the topic a name by which nobody would find it here."""
    stream = await sf.stream("/sharded", shards=2)
    await ny.stream("/sharded")
    await ny.links.add_upstream("/sharded", StreamPath("/sharded", "sf"))
    await sf.links.autosetup("/sharded", StreamPath("/sharded", "ny"), ny.urls)
    await until(lambda: all(link.state.ready for link in sf.manager.running))
    await sf.write("/sharded", "box", b"0")
    incarnation, there = stream.topic("box")[1].incarnation, ny.cluster.stream("/sharded")
    await pulls(ny).pull(there, stream.id, {incarnation: [0]})
    shard, topic = there.topic("box")
    at, epoch = "/mapr/ny/sharded", shard.epoch.id
    await shard.submit(partial(take_over, topic=topic.number, owner_at=at, writer_epoch_id=epoch))
    away = next(name for name in names_like("crate") if stream.shard_for(name) is not stream.shard_for("box"))
    await there.rename_topic("box", away)
    await pulls(sf).owners(stream, there.id, [incarnation])
    _, heard = stream.topic("box")
    assert (heard.owner, heard.home) == (there.id, away)


async def test_a_topic_that_a_link_is_bringing_is_made_where_that_makes_it(sf: Site, ny: Site) -> None:
    """The link has another name for it, of another shard, where nobody would find it by this one: it is asked for
    again."""
    stream, there = await ny.stream("/sharded", shards=2), await sf.stream("/sharded")
    await ny.links.add_upstream("/sharded", StreamPath("/sharded", "sf"))
    await sf.links.autosetup("/sharded", StreamPath("/sharded", "ny"), ny.urls)
    await until(lambda: all(link.state.ready for link in sf.manager.running))
    await sf.write("/sharded", "box", b"0")
    wanted = {there.topic("box")[1].incarnation: [0]}
    away = next(name for name in names_like("crate") if stream.shard_for(name) is not stream.shard_for("box"))
    with stream.placing(b"l" * 16) as place_of:
        place_of(next(iter(wanted)), away)
        refused = await pulls(ny).pull(stream, there.id, wanted)
        assert stream.topic_count == 0
    assert list(refused.failures.values()) == ["conflict: not a possible name here: box"]
    assert not (await pulls(ny).pull(stream, there.id, wanted)).failures
    assert values_at(stream.topic("box")[0], stream.topic("box")[1].number) == {0: b"0"}


class Made:
    """Gateways that answer bytes of a test's making, again and again."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)

    async def pull(self, urls: Sequence[str], request: PullRequest, bytes_max: int) -> bytes:
        """The next answer."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class ThinLine:
    """The gateways of a site, behind a line that carries no more than so many bytes while somebody waits."""

    def __init__(self, site: Site, bytes_max: int) -> None:
        self._gateways = site.manager.new_gateways()
        self._bytes_max = bytes_max
        self.came = list[bool]()
        """Of each answer, whether it was whole in time."""

    async def pull(self, urls: Sequence[str], request: PullRequest, bytes_max: int) -> bytes:
        """What the neighbour answers, if it is no more than that."""
        answer = await self._gateways.pull(urls, request, bytes_max)
        self.came.append(len(answer) <= self._bytes_max)
        if not self.came[-1]:
            raise Unreachable("no whole answer in 60 s")
        return answer


@pytest.mark.usefixtures("bound")
async def test_a_line_too_thin_for_a_whole_answer_carries_smaller_ones(sf: Site, ny: Site) -> None:
    """Half as much is asked for each time. A line that cannot carry one batch is given up, and what came stays."""
    for number in range(12):
        await sf.write(SHIPS, "box", b"%d" % number * 100_000)
    line = ThinLine(ny, 300_000)
    found = await pulled(ny, sf, "box", gateways=line)
    assert (found.records, found.failures) == (12, {})
    assert stored(ny, "box") == stored(sf, "box")
    assert line.came[:6] == [True, *[False] * 4, True], "the row of the topic; then 4, 2, 1, 0.5 and 0.25 MB"
    await sf.write(SHIPS, "box", b"x" * 100_000)
    await sf.write(SHIPS, "box", b"x" * BIG)
    with pytest.raises(Unreachable, match="no whole answer"):
        await pulled(ny, sf, "box", gateways=ThinLine(ny, 300_000))
    assert ny.end(SHIPS, "box") == 13


async def answer_of(source: Site, to: Site, *names: str) -> bytes:
    """What a neighbour answers who holds nothing of these topics."""
    wanted = tuple(WantedPartition(known(source, name)[1].incarnation, 0, 0, -1, -1) for name in names)
    wanted = tuple(replace(each, epoch=0, version=-1) for each in wanted)
    asker = StreamPlace(to.name, SHIPS, ships(to).id)
    return await source.manager.new_gateways().pull(source.urls, PullRequest(asker, SHIPS, wanted), 10_000_000)


def with_head(head: PullAnswer, *frames: bytes) -> bytes:
    """An answer that says this of its frames."""
    text = to_json(head).encode()
    return b"".join((struct.pack("<I", len(text)), text, *frames))


def frames_of(answer: bytes) -> bytes:
    """What stands behind the head."""
    return answer[4 + struct.unpack_from("<I", answer)[0] :]


@pytest.mark.usefixtures("bound")
async def test_an_answer_that_comes_twice_changes_nothing_the_second_time(sf: Site, ny: Site) -> None:
    """Whoever pulls was killed after the commit and before it knew, and asks again with what it knew."""
    await sf.write(SHIPS, "box", b"0", b"1")
    answer = await answer_of(sf, ny, "box")
    assert (await pulled(ny, sf, "box", gateways=Made(answer))).records == 2
    end = known(ny, "box")[0].announced.end
    again = await pulled(ny, sf, "box", gateways=Made(answer))
    assert (again.records, again.failures, known(ny, "box")[0].announced.end) == (0, {}, end)


@pytest.mark.usefixtures("bound")
async def test_an_answer_that_makes_no_sense_is_refused_with_a_line(sf: Site, ny: Site) -> None:
    """It names the neighbour; nothing of it is applied, and a neighbour that answers nothing is not asked for ever."""
    await sf.write(SHIPS, "box", b"0")
    await sf.write(SHIPS, "other", b"0")
    good, other = frames_of(await answer_of(sf, ny, "box")), frames_of(await answer_of(sf, ny, "other"))
    head = PullAnswer("sf", ships(sf).id, (len(good),))
    spoiled = good[:-1] + bytes([good[-1] ^ 1])
    for answer, why in (
        (b"", "about missing records: unpack_from"),
        (struct.pack("<I", 4) + b"[[[[", "about missing records: "),
        (with_head(replace(head, frames=()), good), "the lengths of its frames do not fit"),
        (with_head(replace(head, frames=(-1, len(good) + 1)), good), "the lengths of its frames do not fit"),
        (with_head(replace(head, frames=()), b""), "says nothing of what was asked for"),
        (with_head(head, other[: len(good)].ljust(len(good))), "frame"),
        (with_head(replace(head, frames=(len(other),)), other), "topic other, partition 0 was not asked for"),
        (with_head(head, spoiled), "its checksum does not fit"),
    ):
        with pytest.raises(CorruptBatch, match=why):
            await pulled(ny, sf, "box", gateways=Made(answer))
    with pytest.raises(UnknownStream, match="another stream answers there"):
        await pulled(ny, sf, "box", gateways=Made(with_head(replace(head, stream=b"z" * 16), good)))
    assert ny.ends(SHIPS) == {}


@pytest.mark.usefixtures("bound")
async def test_a_neighbour_that_holds_less_than_it_says_is_not_asked_for_ever(sf: Site, ny: Site) -> None:
    """It ends a partition where its rows do not; and one that sends the same again and again ends too."""
    await sf.write(SHIPS, "box", b"0")
    early = await answer_of(sf, ny, "box")
    await sf.write(SHIPS, "box", b"1")
    incarnation = known(sf, "box")[1].incarnation
    whole = Pulls(ny.cluster, ny.manager.new_gateways)
    await whole.pull(ships(ny), ships(sf).id, {incarnation: [0]})
    await sf.write(SHIPS, "box", b"2")
    found = await pulled(ny, sf, "box", gateways=Made(early))
    assert found.failures == {}, "an old answer says that there is nothing more"
    await start_at(sf, "box", 9, gap_from=3)
    found = await pulled(ny, sf, "box")
    assert (found.failures, ny.end(SHIPS, "box")) == ({}, 9)


@pytest.mark.usefixtures("bound")
async def test_a_neighbour_that_is_away_is_tried_again_by_who_asked(sf: Site, ny: Site) -> None:
    """What came before stays. Where it is, is known from what it said when it last asked, and survives a restart."""
    await sf.write(SHIPS, "box", b"0")
    with pytest.raises(Unreachable):
        await pulled(ny, sf, "box", gateways=Made(Unreachable("away")))
    (found,) = neighbours(ny.cluster, ships(ny))
    assert (str(found.path), found.stream, found.urls) == ("/mapr/sf/ships", ships(sf).id, sf.urls)
    (upstream,) = ny.cluster.links.upstreams(ships(ny).id)
    await ny.cluster.links.bind_upstream(upstream, ships(sf).id)
    with pytest.raises(UnknownCluster, match="/mapr/sf/ships: the addresses of its cluster are not known"):
        await pulled(ny, sf, "box")
