"""Topics handed over between clusters over real sockets: what goes, what stays and why, and who writes then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site, Worker, full_once, set_up
from tests.support import http_calls
from tests.support.waiting import until

from fairlead.cluster import owner_log
from fairlead.cluster.jobs import JobRecord
from fairlead.gateway.links.contacting.contacts import Contacts
from fairlead.gateway.links.orders.transfer import TransferOptions
from fairlead.gateway.links.running.running_link import RunningLink
from fairlead.model.errors import FairleadError, InvalidValue, NotAllowed, NotOwner, UnknownCluster, UnknownTopic
from fairlead.model.names import StreamPath
from fairlead.streamlog.requests.ownership import take_over

PLAIN, FORCED = TransferOptions(), TransferOptions(force=True)
ONE_WAY, DRY = TransferOptions(oneway=True), TransferOptions(dry_run=True)


@pytest.fixture
async def both(sf: Site, ny: Site) -> AsyncIterator[None]:
    """Both clusters replicate to each other, and somebody carries."""
    async with AsyncExitStack() as carrying:
        for site in (sf, ny):
            await carrying.enter_async_context(Worker(site))
        await set_up(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        await until(lambda: all(link.state.ready for site in (sf, ny) for link in site.manager.running))
        yield


async def transferred(site: Site, topics: str, to: str = "ny", options: TransferOptions = PLAIN) -> JobRecord:
    """The job, once it has ended."""
    job, names = await site.transfers.prepare(SHIPS, topics, to, options)
    await site.jobs.add(job, names)
    await until(lambda: not site.cluster.jobs.get(job.id).running)
    return site.cluster.jobs.get(job.id)


def owner(site: Site, topic: str) -> str:
    """Path of the stream that owns a topic, by what this site knows."""
    stream = site.cluster.stream(SHIPS)
    found = stream.find_topic(topic)
    return "" if found is None else stream.owner_path(found[1])


def reason(job: JobRecord) -> str:
    """Why the only topic was refused."""
    (refusal,) = job.refusals
    return refusal.reason


async def same(sf: Site, ny: Site) -> None:
    """Wait until both ends hold the same."""
    await until(lambda: sf.ends(SHIPS) == ny.ends(SHIPS))


@pytest.mark.usefixtures("both")
async def test_a_topic_is_written_at_its_new_owner_and_comes_back_from_there(sf: Site, ny: Site) -> None:
    """One history at both: offsets go on where the old owner ended, which refuses from then on and says where to go."""
    await sf.write(SHIPS, "box", b"1", b"2")
    await same(sf, ny)
    job = await transferred(sf, "box")
    assert (job.state, job.changed, job.refused) == ("done", 1, 0)
    await until(lambda: owner(ny, "box") == str(REPLICA))
    with pytest.raises(NotOwner, match="/mapr/ny/ships"):
        await sf.write(SHIPS, "box", b"x")
    await ny.write(SHIPS, "box", b"3")
    await until(lambda: sf.end(SHIPS, "box") == 3)
    back = await transferred(ny, "box", "sf")
    assert back.changed == 1
    await until(lambda: owner(sf, "box") == str(SOURCE))
    await sf.write(SHIPS, "box", b"4")
    await until(lambda: ny.end(SHIPS, "box") == 4)


@pytest.mark.usefixtures("both")
async def test_what_an_expression_or_a_list_names_goes_and_nothing_else(sf: Site, ny: Site) -> None:
    """An expression matches whole names. What is there already stays there, and is no refusal."""
    for name in ("box-1", "box-2", "box-10", "crane"):
        await sf.write(SHIPS, name, b"1")
    await same(sf, ny)
    job = await transferred(sf, "box-[0-9]")
    assert (job.total, job.changed) == (2, 2)
    assert [owner(sf, name) for name in ("box-1", "box-10")] == [str(REPLICA), str(SOURCE)]
    again = await transferred(sf, "box-1\nbox-10\n\nnone\n")
    assert (again.total, again.changed, again.refused) == (3, 1, 1)
    assert [each.topic for each in again.refusals] == ["none"]
    assert owner(sf, "crane") == str(SOURCE)


@pytest.mark.usefixtures("both")
async def test_topics_that_a_full_disk_kept_have_their_turn_again(
    sf: Site, ny: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no refusals, which nobody would try again."""
    for name in ("box", "crane"):
        await sf.write(SHIPS, name, b"1")
    await same(sf, ny)
    full_once(monkeypatch)
    job = await transferred(sf, "box\ncrane")
    assert (job.state, job.done, job.refused) == ("done", 2, 0)
    assert [owner(sf, name) for name in ("box", "crane")] == [str(REPLICA)] * 2


@pytest.mark.usefixtures("both")
async def test_a_dry_run_hands_nothing_over(sf: Site, ny: Site) -> None:
    """It says how many would go."""
    await sf.write(SHIPS, "box", b"1")
    await same(sf, ny)
    job = await transferred(sf, "box", options=DRY)
    assert (job.changed, owner(sf, "box")) == (1, str(SOURCE))


async def test_a_topic_whose_records_would_not_come_back_stays(sf: Site, ny: Site) -> None:
    """Without a link back nothing that is written there would ever be read here; a person may want just that."""
    async with Worker(sf):
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"1")
        await same(sf, ny)
        job = await transferred(sf, "box")
        assert "run: fairlead stream replica add -path /mapr/ny/ships -replica /mapr/sf/ships" in reason(job)
        assert owner(sf, "box") == str(SOURCE)
        await ny.links.add_replica(SHIPS, SOURCE, paused=True, urls=sf.urls)
        assert "the link back is paused" in reason(await transferred(sf, "box"))
        await ny.links.resume(SHIPS, SOURCE)
        assert "is not ready" in reason(await transferred(sf, "box"))
        assert (await transferred(sf, "box", options=ONE_WAY)).changed == 1
        await until(lambda: owner(ny, "box") == str(REPLICA))


@pytest.mark.usefixtures("both")
async def test_a_plain_copy_shows_no_hand_over(sf: Site, ny: Site) -> None:
    """Though its owner is a neighbour, which knows of its own topic."""
    await sf.write(SHIPS, "box", b"1")
    await until(lambda: ny.end(SHIPS, "box") == 1)
    stream = ny.cluster.stream(SHIPS)
    assert await ny.transfers.standing(stream, stream.topic("box")[1]) == ""


@pytest.mark.usefixtures("both")
async def test_a_topic_that_the_replica_lacks_stays_unless_it_is_forced(sf: Site, ny: Site) -> None:
    """Nobody could write it until it has come. Forced, it goes, and is written there once all has."""
    await sf.links.pause(SHIPS, REPLICA)
    await sf.write(SHIPS, "box", b"1", b"2")
    assert "the replica does not have it yet (-force" in reason(await transferred(sf, "box"))
    assert (await transferred(sf, "box", options=FORCED)).changed == 1
    assert ny.end(SHIPS, "box") == -1
    stream = sf.cluster.stream(SHIPS)
    assert await sf.transfers.standing(stream, stream.topic("box")[1]) == "not confirmed"
    assert sf.links.list(SHIPS)[0]["unconfirmedOwner"] == 1
    await sf.links.resume(SHIPS, REPLICA)
    await until(lambda: ny.end(SHIPS, "box") == 2)
    await ny.write(SHIPS, "box", b"3")
    await until(lambda: sf.end(SHIPS, "box") == 3)
    await until(lambda: sf.links.list(SHIPS)[0]["unconfirmedOwner"] == 0)


async def test_a_topic_that_the_replica_is_far_behind_with_stays(tmp_path: Path, ny: Site) -> None:
    """Its producers would wait for as long as the rest takes."""
    async with Site("sf", tmp_path, transfer_lag_max=2) as sf:
        await sf.stream(SHIPS)
        async with Worker(sf):
            await set_up(sf, ny)
            await sf.write(SHIPS, "box", b"1")
            await same(sf, ny)
            await sf.links.pause(SHIPS, REPLICA)
            await sf.write(SHIPS, "box", b"2", b"3", b"4")
            job = await transferred(sf, "box", options=ONE_WAY)
            assert "the replica lacks 3 of its records, 2 are allowed" in reason(job)


@pytest.mark.usefixtures("both")
async def test_a_topic_that_is_set_aside_there_stays(sf: Site, ny: Site) -> None:
    """Another topic has its name: what is written there would be the other's."""
    await ny.links.pause(SHIPS, SOURCE)
    await ny.write(SHIPS, "box", b"theirs")
    await sf.write(SHIPS, "box", b"ours")
    await until(lambda: any(shard.state.all_notes() for shard in ny.cluster.stream(SHIPS).shards))
    assert "it is set aside there: conflict" in reason(await transferred(sf, "box", options=ONE_WAY))


async def test_a_topic_that_another_link_had_set_aside_there_goes(sf: Site, ny: Site) -> None:
    """The source was a partner, and the topic none of its own. Now it is one of ours, and by another link the topic has
    come whole; what the link of before has noted hinders nobody."""
    await sf.stream("/other")
    await sf.write("/other", "box", b"1")
    await sf.links.add_upstream(SHIPS, StreamPath("/other", "sf"))
    await sf.links.add_replica("/other", StreamPath(SHIPS, "sf"))
    await ny.stream(SHIPS)
    await ny.links.add_upstream(SHIPS, SOURCE, "partner")
    await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
    async with Worker(sf):
        (shard,) = ny.cluster.stream(SHIPS).shards
        await until(lambda: shard.state.has_notes)
        await sf.links.remove(SHIPS, REPLICA)
        await ny.links.edit_upstream(SHIPS, SOURCE, peer="own")
        await taken_over(sf, "box")
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await until(lambda: ny.end(SHIPS, "box") == 1)
        assert shard.state.has_notes
        assert (await transferred(sf, "box", options=ONE_WAY)).changed == 1
        await until(lambda: owner(ny, "box") == str(REPLICA))


async def test_a_topic_that_nobody_could_write_there_stays_unless_it_is_forced(tmp_path: Path, sf: Site) -> None:
    """The replica's disk is full: the row of the hand-over would fit, and no record after it."""
    async with Site("ny", tmp_path, reserve_bytes=2**50) as ny, Worker(sf):
        await set_up(sf, ny)
        await sf.cluster.stream(SHIPS).create_topic("box")
        await until(lambda: ny.end(SHIPS, "box") == 0)
        job = await transferred(sf, "box", options=ONE_WAY)
        assert "nobody could write it there: " in reason(job)
        assert "(-force hands over all the same)" in reason(job)
        assert owner(sf, "box") == str(SOURCE)
        assert (await transferred(sf, "box", options=TransferOptions(force=True, oneway=True))).changed == 1


@pytest.mark.usefixtures("both")
async def test_only_the_owner_hands_a_topic_over(sf: Site, ny: Site) -> None:
    """Elsewhere the owner is named; where the topic is already, there is nothing to do."""
    await sf.write(SHIPS, "box", b"1")
    await same(sf, ny)
    job = await transferred(ny, "box", "sf")
    assert (job.done, job.changed, job.refused) == (1, 0, 0)
    second = StreamPath("/second", "ny")
    await ny.stream(second.path)
    await ny.links.add_upstream(second.path, REPLICA)
    await ny.links.add_replica(SHIPS, second)
    assert reason(await transferred(ny, "box", str(second))) == "/mapr/sf/ships owns it; hand it over there"


@pytest.mark.usefixtures("both")
async def test_a_partner_hands_nothing_over(sf: Site, ny: Site) -> None:
    """Another company's cluster cannot make us the owner of anything; the command says which setting allows it."""
    await sf.write(SHIPS, "box", b"1")
    await same(sf, ny)
    await ny.links.edit_upstream(SHIPS, SOURCE, peer="partner")
    with pytest.raises(NotAllowed, match="is a partner of /mapr/ny/ships, so it hands nothing over"):
        await transferred(sf, "box")


async def taken_over(site: Site, topic: str) -> None:
    """The topic belongs to this site from here on, whoever had it."""
    stream = site.cluster.stream(SHIPS)
    shard = stream.shard_for(topic)
    await shard.submit(
        lambda draft: take_over(draft, topic, owner_at=stream.global_path, writer_epoch_id=shard.epoch.id)
    )


async def test_one_way_source_is_fenced_by_the_answer(sf: Site, ny: Site) -> None:
    """No link brings it the row that gave its topic another owner. What it still writes is dropped there, and the
    answer to its next question says whose the topic is: then it writes no more, and what it wrote is not read."""
    async with Worker(sf):
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"1")
        await same(sf, ny)
        await taken_over(ny, "box")
        await ny.write(SHIPS, "box", b"2")
        await sf.write(SHIPS, "box", b"late")
        await until(lambda: owner(sf, "box") == str(REPLICA))
        with pytest.raises(NotOwner, match="/mapr/ny/ships"):
            await sf.write(SHIPS, "box", b"later")
        assert sf.end(SHIPS, "box") == 1
        assert ny.end(SHIPS, "box") == 2
        assert ny.apply.counts.superseded == 1
        assert sf.links.list(SHIPS)[0]["superseded"] == 1
        assert sf.links.list(SHIPS)[0]["conflicts"] == 0


@pytest.mark.parametrize("how", ["lost", "listed", "paused", "restarted"])
async def test_one_way_source_is_fenced_though_an_answer_is_lost(
    sf: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its rows are passed over and never come again, so it is told until it says that it has heard: also where the
    answer was one to somebody who lists the replicas, or came while the link was paused, or the replica was started
    again. Until then it acknowledges what is kept nowhere else."""
    gate = asyncio.Event()
    gate.set()
    ask = Contacts.ask

    async def ask_later(contacts: Contacts, link: RunningLink) -> None:
        await gate.wait()
        await ask(contacts, link)

    monkeypatch.setattr(Contacts, "ask", ask_later)
    async with AsyncExitStack() as ending, Worker(sf):
        ny = await ending.enter_async_context(Site("ny", tmp_path))
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"1")
        await same(sf, ny)
        await taken_over(ny, "box")
        gate.clear()
        await sf.write(SHIPS, "box", b"late")
        await until(lambda: ny.apply.counts.superseded == 1)
        if how == "lost":
            (link,) = sf.manager.running
            await link.gateways.ask(ny.urls, link.request(sf.cluster))
        elif how == "listed":
            await sf.links.refresh(SHIPS)
        elif how == "paused":
            await sf.links.pause(SHIPS, REPLICA)
            gate.set()
            await until(lambda: sf.links.list(SHIPS)[0]["paused"])
            await sf.links.refresh(SHIPS)
            await sf.links.resume(SHIPS, REPLICA)
        else:
            await ending.aclose()
            ny = await ending.enter_async_context(Site("ny", tmp_path, port=ny.port))
        gate.set()
        await until(lambda: owner(sf, "box") == str(REPLICA))
        with pytest.raises(NotOwner, match="/mapr/ny/ships"):
            await sf.write(SHIPS, "box", b"later")
        assert sf.end(SHIPS, "box") == 1
        (shard,) = ny.cluster.stream(SHIPS).shards
        await until(lambda: not len(shard.state.topic_states))


@pytest.mark.usefixtures("both")
async def test_the_log_says_to_whom_topics_have_gone(sf: Site, ny: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """At both sides, with the epoch."""
    monkeypatch.setattr(owner_log, "GATHERED_SECONDS", 0.01)
    await sf.write(SHIPS, "box", b"1")
    await until(lambda: "box" in ny.ends(SHIPS))
    with capture_logs() as logs:
        assert (await transferred(sf, "box")).changed == 1
        await until(lambda: any(line["event"] == "topics are owned here now" for line in logs))
        await until(lambda: any(line["event"] == "topics have gone to another owner" for line in logs))
    epoch = sf.cluster.stream(SHIPS).topic("box")[1].epoch
    told = {line["event"]: (line["owner"], line["topics"], line["total"]) for line in logs if "total" in line}
    expected = (str(REPLICA), [f"box (epoch {epoch})"], 1)
    assert told == {"topics are owned here now": expected, "topics have gone to another owner": expected}


@pytest.mark.parametrize(("ownership", "says"), [(None, "/mapr/sf/ships"), (True, "/mapr/ny/ships")])
async def test_a_partner_s_answer_gives_no_topic_another_owner(
    sf: Site, ny: Site, ownership: bool | None, says: str
) -> None:
    """Unless a person says so: what another company's replica claims is refused, and the log names the topics."""
    async with Worker(sf):
        await ny.stream(SHIPS)
        await ny.links.add_upstream(SHIPS, SOURCE)
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls, peer="partner", ownership=ownership)
        await sf.write(SHIPS, "box", b"1")
        await same(sf, ny)
        await taken_over(ny, "box")
        with capture_logs() as logs:
            await sf.write(SHIPS, "box", b"ours")
            if ownership:
                await until(lambda: owner(sf, "box") == str(REPLICA))
            else:
                await until(lambda: any("ownership-claim" in line["event"] for line in logs))
                assert next(line["topics"] for line in logs if "ownership-claim" in line["event"]) == ["box"]
        assert owner(sf, "box") == says


@pytest.mark.parametrize(
    ("topics", "to", "kind", "said"),
    [
        ("box", "sydney", UnknownCluster, "go hop by hop, first to a neighbour: /mapr/ny/ships"),
        ("box", "/mapr/ny/other", UnknownCluster, "go hop by hop"),
        ("none", "ny", UnknownTopic, "topic none does not exist"),
        ("bo[x", "ny", InvalidValue, "neither a name nor a regular expression"),
        ("(?=box)box", "ny", InvalidValue, "neither a name nor a regular expression"),
        ("crane.+", "ny", InvalidValue, "matches no topic"),
        ("a\nb c", "ny", FairleadError, "topic name 'b c'"),
    ],
)
@pytest.mark.usefixtures("both")
async def test_what_cannot_be_meant_is_refused_at_once(
    sf: Site, topics: str, to: str, kind: type[FairleadError], said: str
) -> None:
    """No job is made of it. A far cluster is reached by way of a neighbour, which the message names."""
    await sf.write(SHIPS, "box", b"1")
    with pytest.raises(kind, match=said):
        await sf.transfers.prepare(SHIPS, topics, to, TransferOptions())
    assert sf.cluster.jobs.all() == []


@pytest.mark.usefixtures("both")
async def test_two_transfers_at_once_hand_each_topic_over_once(sf: Site, ny: Site) -> None:
    """Somebody gives the command twice. Both ask, then one finds the topic there already, and says so."""
    await sf.write(SHIPS, "box", b"1")
    await same(sf, ny)
    jobs = [(await sf.transfers.prepare(SHIPS, "box", "ny", PLAIN))[0] for _ in range(2)]
    outcomes = await asyncio.gather(*(sf.transfers.do(job, ["box"]) for job in jobs))
    assert sorted(each.changed for each in outcomes) == [0, 1]
    assert [each.refused for each in outcomes] == [[], []]


@pytest.mark.parametrize("to", ["ny", "/mapr/ny/ships", "mapr/ny/ships", "ny:/ships"])
@pytest.mark.usefixtures("both")
async def test_the_replica_is_named_as_any_path_is(sf: Site, to: str) -> None:
    """By its cluster too."""
    await sf.write(SHIPS, "box", b"1")
    job, names = await sf.transfers.prepare(SHIPS, "box", to, TransferOptions())
    assert (job.options["to"], names) == (str(REPLICA), ["box"])


@pytest.mark.usefixtures("both")
async def test_a_stream_without_replicas_has_nowhere_to_hand_over(sf: Site) -> None:
    """Of two replicas in one cluster, the path says which is meant."""
    await sf.stream("/alone")
    await sf.write("/alone", "box", b"1")
    with pytest.raises(UnknownCluster, match="it has no replica"):
        await sf.transfers.prepare("/alone", "box", "ny", TransferOptions())
    await sf.links.add_replica(SHIPS, StreamPath("/second", "ny"), paused=True, urls=("http://127.0.0.1:1",))
    with pytest.raises(UnknownCluster, match="give the path of one of /mapr/ny/ships, /mapr/ny/second"):
        await sf.transfers.prepare(SHIPS, ".*", "ny", TransferOptions())


@pytest.mark.usefixtures("both")
async def test_a_transfer_by_the_admin_interface(sf: Site, ny: Site) -> None:
    """It answers the job at once; the job says how far it is, and is still listed when it has ended."""
    await sf.write(SHIPS, "box", b"1")
    await same(sf, ny)

    async def ask(method: str, route: str, /, **params: Any) -> list[dict[str, Any]]:
        async with http_calls.client() as http:
            sent: dict[str, Any] = {"params": params} if method == "GET" else {"json": params}
            answer = (await http.request(method, f"{sf.url}/rest/{route}", **sent)).json()
        assert answer["status"] == "OK", answer
        data: list[dict[str, Any]] = answer["data"]
        return data

    (begun,) = await ask("POST", "stream/topic/transfer", path=SHIPS, topic="box|none", to="ny")
    await until(lambda: not sf.cluster.jobs.all()[0].running)
    (shown,) = await ask("GET", "job/show", id=begun["id"])
    assert (shown["state"], shown["changed"], shown["to"]) == ("done", 1, str(REPLICA))
    assert [row["id"] for row in await ask("GET", "job/list")] == [begun["id"]]
    assert [row["topic"] for row in await ask("GET", "stream/topic/list", path=SHIPS, owner="ny")] == ["box"]
    await until(lambda: owner(ny, "box") == str(REPLICA))
    (info,) = await ask("GET", "stream/topic/info", path=SHIPS, topic="box")
    assert (info["owner"], info["ownersince"], info["pendingrecords"]) == (str(REPLICA), 1, 0)
    assert info["handover"] == "confirmed"
    (row,) = await ask("GET", "stream/info", path=SHIPS)
    assert (row["numtopics"], row["numowned"]) == (1, 0)
    assert await ask("GET", "stream/topic/list", path=SHIPS, owner=str(SOURCE)) == []
