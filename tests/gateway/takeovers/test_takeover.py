"""Topics of a lost owner, taken over between clusters over real sockets: who is asked, what is brought, what stays."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.rig import SHIPS, SOURCE, Site, Worker, full_once
from tests.streamlog.world import values_at
from tests.support import http_calls
from tests.support.waiting import until

from fairlead.cluster.jobs import JobRecord
from fairlead.cluster.values import KafkaUpstream
from fairlead.gateway.from_kafka.topics import put_topic
from fairlead.gateway.links.orders import chosen
from fairlead.gateway.pulling.taking import Pulls
from fairlead.gateway.takeovers.work import TakeoverOptions
from fairlead.kafka import TopicMetadata
from fairlead.kafka.values import PartitionMetadata
from fairlead.model.errors import (
    Busy,
    FairleadError,
    InvalidValue,
    NotOwner,
    StorageFull,
    StorageUnavailable,
    UnknownTopic,
    Unreachable,
)
from fairlead.model.names import StreamPath
from fairlead.streamlog.requests.cuts import diverged_incarnation
from fairlead.streamlog.requests.ownership import hand_over, take_over
from fairlead.streamlog.values import Topic

PLAIN, FORCED, DRY = TakeoverOptions(), TakeoverOptions(force=True), TakeoverOptions(dry_run=True)


@pytest.fixture
async def la(tmp_path: Path) -> AsyncIterator[Site]:
    """A third cluster."""
    async with Site("la", tmp_path, merge_interval_seconds=0.1) as site:
        yield site


class Owner:
    """The cluster that owns the topics, until it is lost."""

    def __init__(self, site: Site, works: AsyncExitStack) -> None:
        self.site = site
        self._works = works

    async def lose(self) -> None:
        """It answers no more."""
        await self._works.aclose()


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[Owner]:
    """sf, which works until it is lost."""
    works = AsyncExitStack()
    async with works:
        site = await works.enter_async_context(Site("sf", tmp_path, merge_interval_seconds=0.1))
        await site.stream(SHIPS)
        await works.enter_async_context(Worker(site))
        yield Owner(site, works)


def at(site: Site) -> StreamPath:
    return StreamPath(SHIPS, site.name)


async def linked(source: Site, replica: Site) -> None:
    """`source` sends to `replica`, whose stream is made if need be."""
    if not any(stream.path == SHIPS for stream in replica.cluster.streams()):
        await replica.stream(SHIPS)
    await replica.links.add_upstream(SHIPS, at(source))
    await source.links.add_replica(SHIPS, at(replica), urls=replica.urls)


@pytest.fixture
async def three(owner: Owner, ny: Site, la: Site) -> Owner:
    """sf sends to ny and la, and those send to each other; only sf's links are carried."""
    for replica in (ny, la):
        await linked(owner.site, replica)
    await linked(ny, la)
    await linked(la, ny)
    await ready(owner.site, ny, la)
    return owner


async def ready(*sites: Site) -> None:
    await until(lambda: all(link.state.ready for site in sites for link in site.manager.running))


async def taken(site: Site, topics: str = "box", options: TakeoverOptions = PLAIN, lost: str = "") -> JobRecord:
    """The job, once it has ended."""
    job, names, _ = await site.takeovers.prepare(SHIPS, topics, lost, options)
    await site.jobs.add(job, names)
    await until(lambda: not site.cluster.jobs.get(job.id).running)
    return site.cluster.jobs.get(job.id)


def known(site: Site, name: str = "box") -> Topic:
    return site.cluster.stream(SHIPS).topic(name)[1]


def values(site: Site, name: str = "box") -> dict[int, bytes | None]:
    shard, topic = site.cluster.stream(SHIPS).topic(name)
    return values_at(shard, topic.number)


def owned_by(site: Site, name: str = "box") -> str:
    return site.cluster.stream(SHIPS).owner_path(known(site, name))


def reason(job: JobRecord) -> str:
    """Why the only topic was refused."""
    (refusal,) = job.refusals
    return refusal.reason


async def arrived(site: Site, end: int, name: str = "box") -> None:
    await until(lambda: site.end(SHIPS, name) == end)


async def ahead(owner: Owner, ny: Site, la: Site) -> None:
    """la has two records of sf's that ny lacks."""
    await owner.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    await arrived(la, 1)
    await owner.site.links.pause(SHIPS, at(ny))
    await owner.site.write(SHIPS, "box", b"1", b"2")
    await arrived(la, 3)


async def test_third_replica_ahead_is_pulled_first(three: Owner, ny: Site, la: Site) -> None:
    """Nothing that a reachable neighbour has is left behind, and no replicator is needed for that. Offsets go on where
    the longest history ended; what is ours already is taken over once."""
    await ahead(three, ny, la)
    await three.lose()
    job = await taken(ny)
    assert (job.state, job.changed, job.refused, job.brought) == ("done", 1, 0, 2)
    assert values(ny) == {0: b"0", 1: b"1", 2: b"2"}
    await ny.write(SHIPS, "box", b"3")
    assert ny.end(SHIPS, "box") == 4
    epoch = known(ny).epoch
    again = await taken(ny)
    assert (again.done, again.changed, again.refused) == (1, 0, 0)
    assert known(ny).epoch == epoch


async def test_a_dry_run_says_what_would_come_and_changes_nothing(three: Owner, ny: Site, la: Site) -> None:
    """How many topics, and how many records are brought first."""
    await ahead(three, ny, la)
    await three.lose()
    job = await taken(ny, options=DRY)
    assert (job.changed, job.brought) == (1, 2)
    assert (ny.end(SHIPS, "box"), owned_by(ny)) == (1, str(SOURCE))


async def test_third_replica_ahead_and_unreachable_keeps_its_tail(three: Owner, ny: Site, la: Site) -> None:
    """Nobody waits for a neighbour that is away. When it hears of the new owner, what only it had stands in a topic of
    diverged records there, named after the cluster that wrote it."""
    await ahead(three, ny, la)
    await three.lose()
    await la.__aexit__(None)
    _, _, outlook = await ny.takeovers.prepare(SHIPS, "box", "", PLAIN)
    assert [(row["neighbour"], row["answers"]) for row in outlook.neighbours] == [
        ("/mapr/la/ships", False),
        ("/mapr/sf/ships", False),
    ]
    assert (await taken(ny)).changed == 1
    await ny.write(SHIPS, "box", b"ours")
    await la.__aenter__()
    async with Worker(ny):
        await until(lambda: owned_by(la) == str(at(ny)))
        await arrived(la, 2)
    assert values(la) == {0: b"0", 1: b"ours"}
    kept = diverged_incarnation(known(la).incarnation, 0, known(ny).epoch)
    await until(lambda: any(topic.incarnation == kept for topic in la.cluster.stream(SHIPS).topics()))
    assert values(la, "box.diverged.sf.0") == {1: b"1", 2: b"2"}
    async with http_calls.client() as http:
        params = {"path": SHIPS, "topic": "box"}
        (info,) = (await http.get(f"{la.url}/rest/stream/topic/info", params=params)).json()["data"]
        assert (info["supersededfrom"], info["diverged"]) == (1, ["box.diverged.sf.0"])
        metrics = (await http.get(f"{la.url}/metrics")).text
    for name, count in (("pending_topics", 0), ("cut_partitions", 1), ("diverged_topics", 1)):
        assert f'fairlead_{name}{{stream="/ships"}} {count}.0' in metrics


async def test_a_topic_whose_owner_answers_stays_unless_it_is_forced(three: Owner, ny: Site, la: Site) -> None:
    """It would be cut off while it works: a transfer hands the topic over without a loss."""
    await three.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    why = reason(await taken(ny))
    assert why.startswith("its owner /mapr/sf/ships answers: use `stream topic transfer` there (-force")
    assert owned_by(ny) == str(SOURCE)
    assert (await taken(ny, options=FORCED)).changed == 1
    assert owned_by(ny) == str(at(ny))


def takes(site: Site, name: str = "box") -> Any:
    """The topic is taken over without asking anybody."""
    shard, topic = site.cluster.stream(SHIPS).topic(name)
    at_here, epoch = str(at(site)), shard.epoch.id
    return shard.submit(partial(take_over, topic=topic.number, owner_at=at_here, writer_epoch_id=epoch))


async def test_a_topic_that_somebody_took_over_already_stays_unless_it_is_forced(
    three: Owner, ny: Site, la: Site
) -> None:
    """A neighbour knows of a later owner than we do, which is asked to hand it over. Forced, its records come all the
    same, and the epoch is above its own."""
    await three.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    await arrived(la, 1)
    await three.lose()
    theirs = await takes(la)
    await la.write(SHIPS, "box", b"la")
    why = reason(await taken(ny))
    assert why.startswith("/mapr/la/ships owns it by now, says /mapr/la/ships: use `stream topic transfer` there")
    assert (await taken(ny, options=FORCED)).changed == 1
    assert known(ny).epoch > theirs.epoch
    assert values(ny) == {0: b"0", 1: b"la"}


async def test_a_topic_that_gets_another_owner_while_its_records_are_brought_stays(
    three: Owner, ny: Site, la: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row came with them. What the new owner has acknowledged by now would be cut off."""
    await ahead(three, ny, la)
    await three.lose()
    pull = Pulls.pull

    async def after_another(*arguments: Any) -> Any:
        monkeypatch.undo()
        assert (await taken(la)).changed == 1
        return await pull(*arguments)

    monkeypatch.setattr(Pulls, "pull", after_another)
    job = await taken(ny)
    assert (job.changed, job.refused) == (0, 1)
    assert "it got another owner meanwhile" in reason(job)
    assert owned_by(ny) == "/mapr/la/ships"


async def test_transfer_that_never_arrives_is_taken_back(three: Owner, ny: Site, la: Site) -> None:
    """sf handed the topic to ny and its row came to la only. At ny, la's answer brings the row and what ny lacks, and
    ny may write: no takeover is left to do."""
    await ahead(three, ny, la)
    shard, topic = three.site.cluster.stream(SHIPS).topic("box")
    to, place, epoch = ny.cluster.stream(SHIPS).id, str(at(ny)), shard.epoch.id
    await shard.submit(lambda draft: hand_over(draft, topic.number, to=to, owner_at=place, writer_epoch_id=epoch))
    await until(lambda: owned_by(la) == str(at(ny)))
    await three.lose()
    handed_over = known(la).epoch
    job = await taken(ny)
    assert (job.changed, job.brought, job.refused) == (1, 2, 0)
    assert known(ny).epoch == handed_over
    await ny.write(SHIPS, "box", b"3")
    assert values(ny) == {0: b"0", 1: b"1", 2: b"2", 3: b"3"}


async def test_a_topic_is_taken_back_from_a_replica_that_never_heard_of_it(three: Owner, ny: Site) -> None:
    """The hand-over was a mistake, or the replica does not come for it: it answers and does not know, so nobody writes
    there. What is between the two is at the owner before."""
    await three.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    await linked(ny, three.site)
    await ready(three.site, ny)
    await three.site.links.pause(SHIPS, at(ny))
    shard, topic = three.site.cluster.stream(SHIPS).topic("box")
    to, place, epoch = ny.cluster.stream(SHIPS).id, str(at(ny)), shard.epoch.id
    await shard.submit(lambda draft: hand_over(draft, topic.number, to=to, owner_at=place, writer_epoch_id=epoch))
    with pytest.raises(NotOwner):
        await three.site.write(SHIPS, "box", b"1")
    assert (await taken(three.site)).changed == 1
    await three.site.write(SHIPS, "box", b"1")
    assert three.site.end(SHIPS, "box") == 2


async def test_what_a_neighbour_may_not_bring_keeps_the_topic_where_it_is(three: Owner, ny: Site, la: Site) -> None:
    """la has more, and is a partner by now, which may not bring sf's records. A person may decide to go on without;
    nothing is lost silently."""
    await ahead(three, ny, la)
    await three.lose()
    await ny.links.edit_upstream(SHIPS, at(la), peer="partner")
    why = reason(await taken(ny))
    assert why.startswith("2 records of partition 0 of /mapr/la/ships could not be brought: ")
    assert owned_by(ny) == str(SOURCE)
    assert why.endswith("(-force takes it over all the same; topics of diverged records keep what is elsewhere)")
    job = await taken(ny, options=FORCED)
    assert (job.changed, job.refused, job.lacking) == (1, 0, 1)
    (lack,) = job.lacks
    assert (lack.topic, lack.what) == ("box", why.partition(" (-force")[0])
    assert (ny.end(SHIPS, "box"), owned_by(ny)) == (1, str(at(ny)))


@pytest.mark.parametrize("fault", [StorageFull("data", 0, 1), Busy("4 answers"), StorageUnavailable("it failed")])
async def test_by_force_too_nothing_is_left_behind_for_a_fault_that_passes(
    three: Owner, ny: Site, la: Site, fault: FairleadError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try brings what the neighbour has; only one that does not answer is not waited for."""
    await ahead(three, ny, la)
    await three.lose()

    async def failing(*_: Any) -> Any:
        monkeypatch.undo()
        raise fault

    monkeypatch.setattr(Pulls, "pull", failing)
    job = await taken(ny, options=FORCED)
    assert (job.changed, job.brought, job.lacking) == (1, 2, 0)
    assert values(ny) == {0: b"0", 1: b"1", 2: b"2"}


async def test_by_force_nobody_waits_for_a_neighbour_that_went_away_and_what_it_has_is_said(
    three: Owner, ny: Site, la: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said what it has, and does not answer when that is asked for."""
    await ahead(three, ny, la)
    await three.lose()

    async def away(*_: Any) -> Any:
        raise Unreachable("no gateway answers")

    monkeypatch.setattr(Pulls, "pull", away)
    job = await taken(ny, options=FORCED)
    assert (job.changed, job.lacking) == (1, 1)
    (lack,) = job.lacks
    assert lack.what == "2 records of partition 0 of /mapr/la/ships could not be brought: no gateway answers"


async def test_a_partner_cannot_say_that_somebody_else_owns_a_topic(three: Owner, ny: Site, la: Site) -> None:
    """Another company's cluster would keep a lost owner's topics from us, or use up all epochs."""
    await three.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    await arrived(la, 1)
    await three.lose()
    await takes(la)
    await ny.links.edit_upstream(SHIPS, at(la), peer="partner")
    await ny.links.remove(SHIPS, at(la))
    assert (await taken(ny)).changed == 1


async def takes_nothing_over_unheard(owner: Owner, ny: Site) -> None:
    """The owner is lost: not before a neighbour has answered since its start, unless it is forced."""
    await owner.lose()
    assert (await taken(ny, options=DRY)).changed == 1
    await ny.__aexit__(None)
    await ny.__aenter__()
    why = reason(await taken(ny))
    assert why.startswith("no neighbour has answered since this server started: /mapr/sf/ships: no gateway answers")
    assert (await taken(ny, options=FORCED)).changed == 1


async def test_a_stream_that_has_heard_of_nobody_takes_nothing_over(owner: Owner, ny: Site) -> None:
    """It may be the one that is cut off. One that heard of its neighbours since it started may decide without them."""
    await linked(owner.site, ny)
    await owner.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    await takes_nothing_over_unheard(owner, ny)


async def test_a_site_behind_one_that_keeps_kafka_s_topics_takes_none_over_before_it_has_heard_of_it(
    owner: Owner, ny: Site
) -> None:
    """That one has what Kafka has, and reads on: from here nobody asks Kafka."""
    await linked(owner.site, ny)
    stream = owner.site.cluster.stream(SHIPS)
    upstream = KafkaUpstream(stream.id, "old", b"l" * 16, "/file", "the-one", "box")
    await put_topic(stream, upstream, TopicMetadata("box", b"t" * 16, False, (PartitionMetadata(0, 3),)), {})
    await until(lambda: ny.cluster.stream(SHIPS).find_topic("box"))
    await takes_nothing_over_unheard(owner, ny)


async def test_topics_that_a_full_disk_kept_have_their_turn_again(
    three: Owner, ny: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no refusals: whoever fails over 50,000 topics would be left with holes."""
    for name in ("box", "crane"):
        await three.site.write(SHIPS, name, b"0")
        await arrived(ny, 1, name)
    await three.lose()
    full_once(monkeypatch)
    job = await taken(ny, "box\ncrane")
    assert (job.state, job.done, job.refused) == ("done", 2, 0)
    assert [owned_by(ny, name) for name in ("box", "crane")] == [str(at(ny))] * 2


async def test_all_topics_of_a_lost_cluster_are_taken_over_at_once(three: Owner, ny: Site, la: Site) -> None:
    """And no others. A topic that is not there any more is refused by its name."""
    for name in ("box", "crane"):
        await three.site.write(SHIPS, name, b"0")
        await arrived(ny, 1, name)
        await arrived(la, 1, name)
    await la.write(SHIPS, "pier", b"0")
    await ny.write(SHIPS, "own", b"0")
    await three.lose()
    job = await taken(ny, "", lost="sf")
    assert (job.total, job.changed) == (2, 2)
    with pytest.raises(InvalidValue, match="-from sf: it owns no topic of /ships"):
        await taken(ny, "", lost="sf")
    some = await taken(ny, "own\nnone\n")
    assert [each.topic for each in some.refusals] == ["none"]
    with pytest.raises(UnknownTopic):
        await taken(ny, "none")


async def test_more_topics_of_a_lost_cluster_than_go_at_once_are_taken_over_in_parts(
    three: Owner, ny: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By expressions, which mean none of what others own."""
    monkeypatch.setattr(chosen, "TOPICS_MAX", 2)
    for name in ("box", "buoy", "crane"):
        await three.site.write(SHIPS, name, b"0")
        await arrived(ny, 1, name)
    await ny.write(SHIPS, "berth", b"0")
    await three.lose()
    with pytest.raises(InvalidValue, match="3 topics: at most 2 at a time; give -topic with expressions"):
        await taken(ny, "", lost="sf")
    job = await taken(ny, "b.*", lost="sf")
    assert (job.total, job.changed) == (2, 2)
    with pytest.raises(InvalidValue, match=re.escape("-topic 'b.*' matches no topic of /ships that sf owns")):
        await taken(ny, "b.*", lost="sf")
    assert (await taken(ny, "", lost="sf")).changed == 1


async def test_of_two_takeovers_at_once_none_refuses_what_the_other_took(three: Owner, ny: Site) -> None:
    """Somebody gives the command twice; both ask before one of them takes the topic over."""
    await three.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    await three.lose()
    jobs = [(await ny.takeovers.prepare(SHIPS, "box", "", PLAIN))[0] for _ in range(2)]
    outcomes = await asyncio.gather(*(ny.takeovers.do(job, ["box"]) for job in jobs))
    assert [each.refused for each in outcomes] == [[], []]
    assert owned_by(ny, "box") == str(at(ny))


async def test_of_a_lost_cluster_those_topics_are_taken_over_that_are_named(three: Owner, ny: Site) -> None:
    """A name is no expression, also with `-from`: `box.1` means no `box-1`. Whose topic is another's is refused by its
    name; one that was taken over by the same command before is not."""
    for name in ("box-1", "box.1", "crane"):
        await three.site.write(SHIPS, name, b"0")
        await arrived(ny, 1, name)
    await ny.write(SHIPS, "berth", b"0")
    await three.lose()
    job = await taken(ny, "box.1", lost="sf")
    assert (job.total, job.changed) == (1, 1)
    assert owned_by(ny, "box-1") == str(SOURCE)
    job = await taken(ny, "box.1\ncrane\n", lost="sf:/ships")
    assert (job.total, job.changed, job.refused) == (2, 1, 0)
    with pytest.raises(InvalidValue, match=re.escape("-topic: sf does not own none, by what is known here")):
        await taken(ny, "box-1\nnone\n", lost="sf")
    assert owned_by(ny, "box-1") == str(SOURCE)


async def test_a_takeover_by_the_admin_interface(three: Owner, ny: Site, la: Site) -> None:
    """The answer says at once what is known of the owner's end, and who was asked."""
    await three.site.write(SHIPS, "box", b"0")
    await arrived(ny, 1)
    await arrived(la, 1)
    await three.lose()
    async with http_calls.client() as http:
        url = f"{ny.url}/rest/stream/topic/takeover"
        answer = (await http.post(url, json={"path": SHIPS, "topic": "box"})).json()
        (begun,) = answer["data"]
        assert begun["kind"] == "takeover"
        (lost,) = begun["owners"]
        assert (lost["owner"], lost["topics"], lost["lackingcommits"]) == (str(SOURCE), 1, 0)
        assert lost["lastheard"] > 1_600_000_000_000
        assert [(row["neighbour"], row["answers"]) for row in begun["neighbours"]] == [
            ("/mapr/la/ships", True),
            ("/mapr/sf/ships", False),
        ]
        await until(lambda: not ny.cluster.jobs.all()[0].running)
        (shown,) = (await http.get(f"{ny.url}/rest/job/show", params={"id": begun["id"]})).json()["data"]
        assert (shown["state"], shown["changed"], shown["brought"]) == ("done", 1, 0)
        refused = (await http.post(url, json={"path": SHIPS})).json()
        assert "give -topic, or -from with the cluster that is lost, or both" in refused["errors"][0]["desc"]
