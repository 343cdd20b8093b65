"""A site that was restored from a backup: it notices, writes nothing, and gets back what its replica still has."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site, Worker, set_up
from tests.streamlog.world import values_at
from tests.support.batches import produce
from tests.support.waiting import until

from fairlead.cluster.jobs import JobRecord
from fairlead.gateway.links.running.destination import Gateways
from fairlead.gateway.links.running.lifecycle import State
from fairlead.gateway.pulling.taking import Pulled, Pulls
from fairlead.model.errors import NotAgreed, NotAllowed, NotOwner, OwnerPending, Unreachable
from fairlead.model.names import StreamPath
from fairlead.protocol.batch import build_batch
from fairlead.streamlog.requests.deletion import delete_records
from fairlead.streamlog.requests.ownership import Recovered, hand_over, recover, take_over
from fairlead.streamlog.requests.rollback import note_coming
from fairlead.streamlog.requests.topics import delete_topic, set_configs, set_partitions
from fairlead.streamlog.writing.draft import Draft, DraftRequest
from fairlead.streamlog.writing.shard import Shard

T = TypeVar("T")
LA = StreamPath(SHIPS, "la")
TAIL = "box.diverged.sf.0"
"""The topic that keeps what others have of sf's, and the owner's history not."""


def own_tail(site: Site) -> str:
    """The topic that keeps what sf wrote to `box` after it was restored; empty as long as there is none."""
    return next((name for name in site.ends(SHIPS) if name.startswith(f"{TAIL}-")), "")


async def copied(site: Site) -> None:
    """What cuts keep is copied, without waiting for its turn."""
    for shard in site.cluster.stream(SHIPS).shards:
        assert shard.copy_tails is not None
        await shard.copy_tails()


async def same(one: Site, other: Site) -> None:
    """Wait until both ends hold as much."""
    await until(lambda: one.ends(SHIPS) == other.ends(SHIPS))


def held(site: Site, name: str) -> dict[int, bytes | None]:
    """What can be fetched of a topic."""
    shard, topic = site.cluster.stream(SHIPS).topic(name)
    return values_at(shard, topic.number)


def stopped(site: Site) -> bool:
    """Its only link was told that it has less than the replica."""
    (link,) = site.manager.running
    return link.state is State.STOPPED


async def backup(folder: Path) -> Path:
    """A copy of sf's directory, in a place of its own."""
    await asyncio.to_thread(shutil.copytree, folder / "sf", folder / "backup" / "sf")
    return folder / "backup"


async def recovered(site: Site, *, force: bool = False) -> JobRecord:
    """The job, once it has ended."""
    job, names = await site.recoveries.prepare(SHIPS, force=force)
    await site.jobs.add(job, names)
    await until(lambda: not site.cluster.jobs.get(job.id).running)
    return site.cluster.jobs.get(job.id)


@asynccontextmanager
async def lost_and_restored(folder: Path, ny: Site) -> AsyncIterator[Site]:
    """sf as it is restored from a backup: since then `box` and `new` were written, and ny has that. `even` is as it
    was."""
    async with Site("sf", folder) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        for name in ("box", "even"):
            await sf.write(SHIPS, name, b"0", b"1")
        await same(sf, ny)
        old = await backup(folder)
        for value in (b"2", b"3", b"4"):
            await sf.write(SHIPS, "box", value)
        await sf.write(SHIPS, "new", b"0", b"1")
        await same(sf, ny)
    async with Site("sf", old) as restored, Worker(restored):
        yield restored


async def test_rolled_back_owner_refuses_produce(tmp_path: Path, ny: Site) -> None:
    """Else it would give offsets in the same epoch once more, and nobody could tell the two histories apart. A restart
    does not lift it, nor does a rescan; the error names the command."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        for _ in range(2):
            with pytest.raises(NotAllowed, match=r"was rolled back.*run: fairlead stream recover -path /mapr/sf/ships"):
                await sf.write(SHIPS, "even", b"x")
            assert sf.cluster.stream(SHIPS).rolled_back
            await sf.links.resume(SHIPS, REPLICA, rescan=True)
    async with Site("sf", tmp_path / "backup") as again:
        with pytest.raises(NotAllowed, match="was rolled back"):
            await again.write(SHIPS, "even", b"x")


async def test_a_partners_word_does_not_stop_a_stream(tmp_path: Path, ny: Site) -> None:
    """It stops the link alone, as ever: a stranger could keep us from writing otherwise."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await ny.stream(SHIPS)
        await ny.links.add_upstream(SHIPS, SOURCE)
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls, peer="partner")
        await sf.write(SHIPS, "box", b"0")
        await same(sf, ny)
        old = await backup(tmp_path)
        await sf.write(SHIPS, "box", b"1")
        await same(sf, ny)
    async with Site("sf", old) as restored:
        await until(lambda: stopped(restored))
        await restored.write(SHIPS, "box", b"x")
        with pytest.raises(NotAgreed, match="no replica and no upstream of its own"):
            await restored.recoveries.prepare(SHIPS, force=True)


async def test_a_recovered_stream_has_all_that_was_acknowledged_and_goes_on(tmp_path: Path, ny: Site) -> None:
    """Also a topic that is younger than the backup. The plan says so before, the topics that changed have an epoch of
    their own after, and the link carries again."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        plan = await sf.recoveries.plan(SHIPS, force=False)
        box = {"topic": "box", "partition": 0, "end": 2, "common": 2, "diverged": 0, "brought": 3}
        assert plan[0] == {**box, "from": "/mapr/ny/ships"}
        assert [row["topic"] for row in plan] == ["box", "new"]
        assert sf.ends(SHIPS) == {"box": 2, "even": 2}
        job = await recovered(sf)
        assert (job.state, job.changed, job.refused, job.brought) == ("done", 2, 0, 5)
        assert held(sf, "box") == {at: b"%d" % at for at in range(5)}
        assert held(sf, "new") == {0: b"0", 1: b"1"}
        epochs = {topic.name: topic.epoch > 0 for topic in sf.cluster.stream(SHIPS).topics()}
        assert epochs == {"box": True, "new": True, "even": False}
        for name in ("box", "even", "new"):
            await sf.write(SHIPS, name, b"on")
        await same(sf, ny)
        assert held(ny, "box") == {**{at: b"%d" % at for at in range(5)}, 5: b"on"}
        again = await recovered(sf)
        assert (again.state, again.changed) == ("done", 0)


async def test_topics_come_back_by_the_names_that_they_had_here(tmp_path: Path, ny: Site) -> None:
    """The replica knows them behind a prefix."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await ny.stream(SHIPS)
        await ny.links.add_upstream(SHIPS, SOURCE)
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls, prefix="sf_")
        await sf.write(SHIPS, "box", b"0")
        await until(lambda: ny.ends(SHIPS) == {"sf_box": 1})
        old = await backup(tmp_path)
        await sf.write(SHIPS, "box", b"1")
        await sf.write(SHIPS, "new", b"0")
        await until(lambda: ny.ends(SHIPS) == {"sf_box": 2, "sf_new": 1})
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        assert (await recovered(sf)).refused == 0
        assert sf.ends(SHIPS) == {"box": 2, "new": 1}
        await sf.write(SHIPS, "new", b"1")
        await until(lambda: ny.ends(SHIPS) == {"sf_box": 2, "sf_new": 2})


async def test_what_was_written_since_the_backup_is_kept_in_a_topic_of_its_own(tmp_path: Path, ny: Site) -> None:
    """It was acknowledged too, before anybody noticed, at offsets and in an epoch that others had been given before:
    only the records' hashes tell."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        for number in range(40):
            await sf.write(SHIPS, "box", b"%d" % number)
        await same(sf, ny)
        old = await backup(tmp_path)
        for number in range(40, 60):
            await sf.write(SHIPS, "box", b"%d" % number)
        await same(sf, ny)
    await ny.links.remove_upstream(SHIPS, SOURCE)
    async with Site("sf", old, merge_interval_seconds=0.05) as sf, Worker(sf):
        for number in range(40, 45):
            await sf.write(SHIPS, "box", b"new %d" % number)
        await ny.links.add_upstream(SHIPS, SOURCE)
        await until(lambda: stopped(sf))
        (row,) = await sf.recoveries.plan(SHIPS, force=False)
        assert (row["end"], row["common"], row["diverged"], row["brought"]) == (45, 40, 5, 20)
        job = await recovered(sf)
        assert (job.state, job.changed) == ("done", 1)
        assert held(sf, "box") == {at: b"%d" % at for at in range(60)}
        await until(lambda: sf.ends(SHIPS).get(own_tail(sf)) == 45)
        assert held(sf, own_tail(sf)) == {at: b"new %d" % at for at in range(40, 45)}
        await sf.write(SHIPS, "box", b"60")
        await same(sf, ny)
        assert held(ny, "box") == {at: b"%d" % at for at in range(61)}
        assert held(ny, own_tail(sf)) == held(sf, own_tail(sf))


async def test_a_topic_that_a_replica_took_over_meanwhile_is_its_own_then(tmp_path: Path, ny: Site) -> None:
    """The restored site cuts what it wrote of its own, takes the new owner's history, and leaves it the topic."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        await until(lambda: all(each.source_stream for each in sf.links.list_upstreams(SHIPS)))
        stream = ny.cluster.stream(SHIPS)
        shard, topic = stream.topic("box")
        at, epoch = str(REPLICA), shard.epoch.id
        await shard.submit(lambda draft: take_over(draft, topic.number, owner_at=at, writer_epoch_id=epoch))
        await ny.write(SHIPS, "box", b"ny")
        job = await recovered(sf)
        assert (job.state, job.refused) == ("done", 0)
        assert held(sf, "box") == {**{at: b"%d" % at for at in range(5)}, 5: b"ny"}
        with pytest.raises(NotOwner, match="/mapr/ny/ships"):
            await sf.write(SHIPS, "box", b"x")
        await sf.write(SHIPS, "even", b"2")


async def test_a_site_that_only_sends_hears_who_has_taken_its_topic_over(tmp_path: Path, ny: Site) -> None:
    """No link brings it the new owner's records. It keeps those that both have, and writes no more to that topic."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        stream = ny.cluster.stream(SHIPS)
        shard, topic = stream.topic("box")
        at, epoch = str(REPLICA), shard.epoch.id
        await shard.submit(lambda draft: take_over(draft, topic.number, owner_at=at, writer_epoch_id=epoch))
        await ny.write(SHIPS, "box", b"ny")
        job = await recovered(sf)
        assert (job.state, job.refused) == ("done", 0)
        assert held(sf, "box") == {0: b"0", 1: b"1"}
        with pytest.raises(NotOwner, match="/mapr/ny/ships"):
            await sf.write(SHIPS, "box", b"x")
        await sf.write(SHIPS, "even", b"2")
        assert held(sf, "new") == {0: b"0", 1: b"1"}


async def given_away(site: Site, name: str, to: Site, at: StreamPath) -> None:
    """The site gives a topic to another one."""
    shard, topic = site.cluster.stream(SHIPS).topic(name)
    stream = to.cluster.stream(SHIPS).id
    give = partial(hand_over, to=stream, owner_at=str(at), writer_epoch_id=shard.epoch.id)
    await shard.submit(lambda draft: give(draft, topic.number))


async def taken_back(site: Site, name: str) -> None:
    """The site takes a topic over."""
    shard, topic = site.cluster.stream(SHIPS).topic(name)
    await shard.submit(partial(take_over, topic=topic.number, owner_at=str(SOURCE), writer_epoch_id=shard.epoch.id))


async def test_a_topic_that_was_given_to_the_site_since_the_backup_is_its_own_again(tmp_path: Path, ny: Site) -> None:
    """In the backup ny owns it. If it came with ny's next row alone, sf would write the epoch that it had already
    written in, from its beginning on: two histories that nobody can tell apart."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"0", b"1")
        await given_away(sf, "box", ny, REPLICA)
        await same(sf, ny)
        old = await backup(tmp_path)
        await taken_back(sf, "box")
        for value in (b"2", b"3", b"4"):
            await sf.write(SHIPS, "box", value)
        await same(sf, ny)
        epoch = sf.cluster.stream(SHIPS).topic("box")[1].epoch
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        (row,) = await sf.recoveries.plan(SHIPS, force=False)
        assert (row["topic"], row["from"]) == ("box", "topic was given to this stream")
        job = await recovered(sf)
        assert (job.state, job.changed, job.refused, job.brought) == ("done", 1, 0, 3)
        assert held(sf, "box") == {at: b"%d" % at for at in range(5)}
        assert sf.cluster.stream(SHIPS).topic("box")[1].epoch > epoch
        await sf.write(SHIPS, "box", b"5")
        await same(sf, ny)
        assert held(ny, "box") == held(sf, "box") == {at: b"%d" % at for at in range(6)}


@pytest.mark.parametrize("values", [(b"0", b"1"), ()])
async def test_partitions_that_a_topic_has_got_since_the_backup_come_back(
    tmp_path: Path, ny: Site, values: tuple[bytes, ...]
) -> None:
    """With what was written to them. Else the next partition would be that one once more, from offset 0 on in the same
    epoch."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"a")
        await same(sf, ny)
        old = await backup(tmp_path)
        shard, topic = sf.cluster.stream(SHIPS).topic("box")
        await shard.submit(partial(set_partitions, name="box", partitions=2))
        for value in values:
            batch = build_batch([(None, value)])
            await shard.submit(partial(produce, number=topic.number, partition=1, batch=batch))
        await sf.write(SHIPS, "box", b"b")
        await until(lambda: partition_of(ny, 1) == partition_of(sf, 1) and ny.end(SHIPS, "box") == 2)
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        plan = [row for row in await sf.recoveries.plan(SHIPS, force=False) if row["partition"] == 1]
        assert [row["from"] for row in plan] == ["partition is not here"]
        job = await recovered(sf)
        assert (job.state, job.refused, job.brought) == ("done", 0, 1 + len(values))
        assert partition_of(sf, 1) == dict(enumerate(values))
        assert sf.cluster.stream(SHIPS).topic("box")[1].partitions == 2
        await sf.write(SHIPS, "box", b"c")
        await until(lambda: ny.end(SHIPS, "box") == 3)
        assert partition_of(ny, 1) == partition_of(sf, 1)


async def test_partitions_that_a_topic_got_while_it_was_anothers_come_back(tmp_path: Path, ny: Site) -> None:
    """In the backup sf owns the topic, in an epoch of long ago, with one partition. Its present epoch says where the
    second one ends, and sf begins no other before it has that."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"a")
        await same(sf, ny)
        old = await backup(tmp_path)
        shard, topic = sf.cluster.stream(SHIPS).topic("box")
        await shard.submit(partial(set_partitions, name="box", partitions=2))
        for value in (b"0", b"1"):
            await shard.submit(partial(produce, number=topic.number, partition=1, batch=build_batch([(None, value)])))
        await given_away(sf, "box", ny, REPLICA)
        await taken_back(sf, "box")
        await sf.write(SHIPS, "box", b"b")
        await until(lambda: partition_of(ny, 1) == partition_of(sf, 1) and ny.end(SHIPS, "box") == 2)
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        job = await recovered(sf)
        assert (job.state, job.refused, job.brought) == ("done", 0, 3)
        assert partition_of(sf, 1) == partition_of(ny, 1) == {0: b"0", 1: b"1"}
        assert held(sf, "box") == {0: b"a", 1: b"b"}
        await sf.write(SHIPS, "box", b"c")
        await until(lambda: ny.end(SHIPS, "box") == 3)
        assert partition_of(ny, 1) == partition_of(sf, 1)


async def test_settings_that_a_topic_has_got_since_the_backup_come_back(tmp_path: Path, ny: Site) -> None:
    """And what is set next is newer than them: replicas would pass it over as an older version of the topic.
    So until then none is set."""

    async def set_to(site: Site, milliseconds: str) -> None:
        shard, _ = site.cluster.stream(SHIPS).topic("box")
        await shard.submit(partial(set_configs, name="box", changes={"retention.ms": milliseconds}))

    def settings(site: Site) -> Mapping[str, str]:
        return dict(site.cluster.stream(SHIPS).topic("box")[1].configs)

    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await sf.write(SHIPS, "box", b"a")
        await same(sf, ny)
        old = await backup(tmp_path)
        for each in ("90000000", "80000000", "70000000"):
            await set_to(sf, each)
        await until(lambda: settings(ny) == {"retention.ms": "70000000"})
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        with pytest.raises(NotAllowed, match="was rolled back"):
            await set_to(sf, "60000000")
        assert settings(sf) == {}
        job = await recovered(sf)
        assert (job.state, job.refused, job.brought) == ("done", 0, 0)
        assert settings(sf) == {"retention.ms": "70000000"}
        await set_to(sf, "60000000")
        await until(lambda: settings(ny) == {"retention.ms": "60000000"})


def partition_of(site: Site, partition: int) -> dict[int, bytes | None] | None:
    """What can be fetched of a partition of `box`; None if it is not there."""
    found = site.cluster.stream(SHIPS).find_topic("box")
    if found is None or partition >= found[1].partitions:
        return None
    return values_at(found[0], found[1].number, partition)


async def test_a_recovery_that_was_killed_goes_on(tmp_path: Path, ny: Site) -> None:
    """After the cut, before the records came: until they are here nobody writes, and the job brings them."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        job, names = await sf.recoveries.prepare(SHIPS, force=False)
        (plan,) = [row for row in await sf.recoveries.plan(SHIPS, force=False) if row["topic"] == "box"]
        assert plan["brought"] == 3
        stream = sf.cluster.stream(SHIPS)
        shard, topic = stream.topic("box")
        there = ny.cluster.stream(SHIPS).topic("box")
        state = there[0].state.partition(there[1].number, 0)
        part = Recovered(2, state.end, state.history)
        cut = partial(recover, incarnation=topic.incarnation, partitions={0: part}, owner_at=str(SOURCE))
        await shard.submit(partial(cut, writer_epoch_id=shard.epoch.id, gives_up=False))
        await stream.forget_rolled_back()
        with pytest.raises(OwnerPending):
            await sf.write(SHIPS, "box", b"x")
        pending = stream.topic("box")[1].epoch
        await sf.jobs.add(job, names)
        await until(lambda: not sf.cluster.jobs.get(job.id).running)
        assert held(sf, "box") == {at: b"%d" % at for at in range(5)}
        assert stream.topic("box")[1].epoch == pending, "it has its epoch already"


@pytest.mark.parametrize("what", ["box", "again"])
async def test_two_recoveries_at_once_take_turns(
    tmp_path: Path, ny: Site, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Somebody runs the command twice. Both look, then one cuts and brings all, while the other goes by what it has
    seen: it would cut off again what was brought, or delete the topic that was brought in place of a deleted one."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await sf.write(SHIPS, what, b"0", b"1")
        await same(sf, ny)
        old = await backup(tmp_path)
        if what == "again":
            await sf.cluster.stream(SHIPS).delete_topic(what)
        await sf.write(SHIPS, what, b"2")
        await sf.write(SHIPS, "new", b"0")
        await same(sf, ny)
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        has_looked, goes_on = asyncio.Event(), asyncio.Event()
        submit = Shard.submit

        async def later(shard: Shard, request: DraftRequest[T]) -> T:
            await goes_on.wait()
            return await submit(shard, request)

        def first_waits(shard: Shard, request: DraftRequest[T], size_bytes: int = 0) -> asyncio.Future[T]:
            if not has_looked.is_set() and isinstance(request, partial) and request.func is note_coming:
                has_looked.set()
                return asyncio.ensure_future(later(shard, request))
            return submit(shard, request, size_bytes)

        monkeypatch.setattr(Shard, "submit", first_waits)
        jobs = list[bytes]()
        for _ in range(2):
            job, names = await sf.recoveries.prepare(SHIPS, force=False)
            await sf.jobs.add(job, names)
            await has_looked.wait()
            jobs.append(job.id)

        def second_ends_or_waits() -> bool:
            job = sf.cluster.jobs.get(jobs[1])
            return not job.running or bool(sf.jobs.row(job)["waitsfor"])

        await until(second_ends_or_waits)
        goes_on.set()
        await until(lambda: not any(job.running for job in sf.cluster.jobs.all()))
        assert [(job.state, job.refused) for job in sf.cluster.jobs.all()] == [("done", 0)] * 2
        await copied(sf)
        all_of_it = {"box": {0: b"0", 1: b"1", 2: b"2"}, "again": {0: b"2"}}
        assert {name: held(sf, name) for name in sf.ends(SHIPS)} == {what: all_of_it[what], "new": {0: b"0"}}
        await sf.write(SHIPS, what, b"on")
        await same(sf, ny)


async def test_a_topic_that_is_deleted_while_it_is_recovered_ends_no_recovery(
    tmp_path: Path, ny: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted since the backup, and a client deletes it before the recovery does."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        for name in ("gone", "stays"):
            await sf.write(SHIPS, name, b"0")
        await same(sf, ny)
        old = await backup(tmp_path)
        await sf.cluster.stream(SHIPS).delete_topic("gone")
        await sf.write(SHIPS, "new", b"0")
        await same(sf, ny)
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))

        def after_a_deletion(draft: Draft, incarnations: Iterable[bytes]) -> None:
            delete_topic(draft, "gone")
            note_coming(draft, incarnations)

        monkeypatch.setattr("fairlead.gateway.pulling.recover.note_coming", after_a_deletion)
        job = await recovered(sf)
        assert (job.state, job.refused, job.error) == ("done", 0, "")
        assert sf.ends(SHIPS) == ny.ends(SHIPS) == {"stays": 1, "new": 1}


@asynccontextmanager
async def several_are_new(folder: Path, ny: Site) -> AsyncIterator[Site]:
    """sf as it is restored: two topics that ny has are younger than the backup, and in it ny owns a third one, which sf
    has taken back since."""
    async with Site("sf", folder) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await sf.write(SHIPS, "given", b"0")
        await given_away(sf, "given", ny, REPLICA)
        await same(sf, ny)
        old = await backup(folder)
        await taken_back(sf, "given")
        for name in ("given", "one", "two"):
            await sf.write(SHIPS, name, b"new")
        await same(sf, ny)
    async with Site("sf", old) as restored, Worker(restored):
        await until(lambda: stopped(restored))
        yield restored


@pytest.mark.parametrize("dies", [False, True])
async def test_what_came_before_a_recovery_was_interrupted_gets_a_later_epoch_all_the_same(
    tmp_path: Path, ny: Site, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """ny has all of one topic that is new here, and does not answer for the next; then it does, or somebody kills the
    server and starts it again. What is whole by then looks as if nothing were left to do: sf would give offsets once
    more that it gave before its disk was lost, and that ny never had."""
    async with several_are_new(tmp_path, ny) as sf:
        epochs = {topic.name: topic.epoch for topic in ny.cluster.stream(SHIPS).topics()}
        job, names = await sf.recoveries.prepare(SHIPS, force=False)
        pull, pulled = Pulls.pull, list[object]()

        async def once(*arguments: Any) -> Pulled:
            if len(pulled) == 2:
                monkeypatch.undo()
                raise Unreachable("away")
            pulled.append(arguments)
            return await pull(*arguments)

        monkeypatch.setattr(Pulls, "pull", once)
        with pytest.raises(Unreachable):
            await sf.recoveries.do(job, names)
        assert len(pulled) == 2, "two of them have come"
        if dies:
            await sf.__aexit__(None)
            await sf.__aenter__()
        job = await recovered(sf)
        assert (job.state, job.refused) == ("done", 0)
        now = {topic.name: topic.epoch for topic in sf.cluster.stream(SHIPS).topics()}
        assert now.keys() == epochs.keys() == {"given", "one", "two"}
        assert [name for name, epoch in epochs.items() if now[name] <= epoch] == []
        assert held(sf, "given") == {0: b"0", 1: b"new"}
        again = await recovered(sf)
        assert (again.changed, {topic.name: topic.epoch for topic in sf.cluster.stream(SHIPS).topics()}) == (0, now)


async def test_a_recovery_waits_for_a_neighbour_that_is_away_unless_it_is_forced(tmp_path: Path, ny: Site) -> None:
    """What only that one has would be cut off there later, into a topic of its own: nothing is lost, but it is no part
    of the topic any more."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        (link,) = sf.cluster.links.of(sf.cluster.stream(SHIPS).id)
        await sf.cluster.links.edit(link.id, replica_urls=("http://127.0.0.1:9",))
        with pytest.raises(Unreachable, match=r"/mapr/ny/ships: .*-force recovers without it"):
            await sf.recoveries.prepare(SHIPS, force=False)
        job = await recovered(sf, force=True)
        assert job.state == "done"
        await sf.write(SHIPS, "box", b"x")


async def test_a_neighbour_that_was_not_waited_for_is_asked_once_it_is_back(tmp_path: Path, ny: Site) -> None:
    """Until then a topic that was written here since is set aside there. Its history counts then, as in any recovery,
    and nothing of either is lost."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        await ny.__aexit__(None)
        assert (await recovered(sf, force=True)).state == "done"
        await sf.write(SHIPS, "box", b"x")
        await ny.__aenter__()
        await until(lambda: sf.links.list(SHIPS)[0]["conflicts"] == 1)
        again = await recovered(sf)
        assert (again.state, again.refused) == ("done", 0)
        await sf.write(SHIPS, "box", b"5")
        await until(lambda: ny.end(SHIPS, "box") == 6)
        assert held(sf, "box") == held(ny, "box") == {at: b"%d" % at for at in range(6)}
        await copied(sf)
        assert held(sf, own_tail(sf)) == {2: b"x"}


async def test_what_a_neighbour_had_that_was_not_waited_for_is_kept_apart(tmp_path: Path, ny: Site) -> None:
    """From what sf wrote after it was restored, at the same offsets and in the same epoch: of the records of before ny
    has some, and la, which is away, has more. Both tails reach ny, each in a topic of its own, to be claimed."""
    async with Site("la", tmp_path) as la, Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        await la.stream(SHIPS)
        await la.links.add_upstream(SHIPS, SOURCE)
        await sf.links.add_replica(SHIPS, LA, urls=la.urls)
        await sf.write(SHIPS, "box", b"0", b"1")
        await same(sf, ny)
        old = await backup(tmp_path)
        await sf.write(SHIPS, "box", b"2")
        await same(sf, ny)
        await sf.links.pause(SHIPS, REPLICA)
        await sf.write(SHIPS, "box", b"3", b"4")
        await same(sf, la)
        await ny.links.add_upstream(SHIPS, LA)
        await la.links.add_replica(SHIPS, REPLICA, urls=ny.urls, paused=True)
    await ny.links.remove_upstream(SHIPS, SOURCE)
    async with Site("sf", old) as sf, Worker(sf):
        for value in (b"new 2", b"new 3", b"new 4"):
            await sf.write(SHIPS, "box", value)
        await ny.links.add_upstream(SHIPS, SOURCE)
        await until(lambda: sf.cluster.stream(SHIPS).rolled_back)
        assert (await recovered(sf, force=True)).state == "done"
        assert held(sf, "box") == {0: b"0", 1: b"1", 2: b"2"}
        await copied(sf)
        async with Site("la", tmp_path, port=la.port) as la, Worker(la):
            await until(lambda: sf.cluster.stream(SHIPS).rolled_back)
            assert (await recovered(sf)).state == "done"
            await until(lambda: la.end(SHIPS, "box") == 3)
            await copied(la)
            await la.links.resume(SHIPS, REPLICA)
            await until(lambda: [ny.end(SHIPS, name) for name in (TAIL, own_tail(sf))] == [5, 5])
        assert held(ny, TAIL) == {3: b"3", 4: b"4"}
        assert held(ny, own_tail(sf)) == {2: b"new 2", 3: b"new 3", 4: b"new 4"}
        assert held(ny, "box") == {0: b"0", 1: b"1", 2: b"2"}


async def test_a_forced_recovery_ends_where_no_records_come(
    tmp_path: Path, ny: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neighbour answers what it has, and its records do not come over the line. The job says which topics lack
    them; the others are written. Run again once they come, it brings them."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))

        async def never(*arguments: Any) -> bytes:
            raise Unreachable("no whole answer in 60 s")

        with monkeypatch.context() as line:
            line.setattr(Gateways, "pull", never)
            job = await recovered(sf, force=True)
        assert (job.state, job.changed, job.refused) == ("done", 0, 2)
        (box,) = [each.reason for each in job.refusals if each.topic == "box"]
        assert box.startswith("no whole answer in 60 s; its records are left out: run it again, or")
        await sf.write(SHIPS, "even", b"2")
        with pytest.raises(OwnerPending):
            await sf.write(SHIPS, "box", b"x")
        again = await recovered(sf)
        assert (again.state, again.refused, again.brought) == ("done", 0, 5)
        assert held(sf, "box") == {at: b"%d" % at for at in range(5)}
        await sf.write(SHIPS, "box", b"on")


async def test_nothing_is_written_before_all_topics_had_their_turn(tmp_path: Path, ny: Site) -> None:
    """One was refused: what is acknowledged of it from now on may be cut off by the next recovery. With -force it is
    left as it is."""
    async with lost_and_restored(tmp_path, ny) as sf:
        await until(lambda: stopped(sf))
        for force in (False, True):
            job, names = await sf.recoveries.prepare(SHIPS, force=force)
            job = replace(job, refused=1)
            if force:
                await sf.recoveries.do(job, names)
                break
            with pytest.raises(NotAllowed, match="1 topics could not be recovered, so nothing is written yet"):
                await sf.recoveries.do(job, names)
            with pytest.raises(NotAllowed, match="was rolled back"):
                await sf.write(SHIPS, "even", b"x")
        await sf.write(SHIPS, "even", b"x")


async def test_a_topic_that_was_deleted_since_the_backup_is_deleted_again(tmp_path: Path, ny: Site) -> None:
    """It would come to life elsewhere otherwise, or be a conflict for ever; one that was made again with its name is
    brought in its place."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        for name in ("gone", "again", "stays"):
            await sf.write(SHIPS, name, b"old")
        await same(sf, ny)
        old = await backup(tmp_path)
        for name in ("gone", "again"):
            await sf.cluster.stream(SHIPS).delete_topic(name)
        await sf.write(SHIPS, "again", b"new", b"er")
        await same(sf, ny)
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        shown = {row["topic"]: row["from"] for row in await sf.recoveries.plan(SHIPS, force=False)}
        assert shown["gone"] == "was deleted at /mapr/ny/ships"
        job = await recovered(sf)
        assert (job.state, job.refused) == ("done", 0)
        assert sf.ends(SHIPS) == {"again": 2, "stays": 1}
        assert held(sf, "again") == {0: b"new", 1: b"er"}
        await sf.write(SHIPS, "again", b"est")
        await same(sf, ny)
        await until(lambda: not sf.links.list(SHIPS)[0].row()["conflicts"])


async def test_a_topic_that_was_taken_over_and_deleted_since_the_backup_is_deleted_again(
    tmp_path: Path, ny: Site
) -> None:
    """In the backup it is a copy of ny's; ny heard of the deletion from sf, so no link tells sf of it."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        for name in ("box", "stays"):
            await sf.write(SHIPS, name, b"0", b"1")
            await given_away(sf, name, ny, REPLICA)
        await same(sf, ny)
        old = await backup(tmp_path)
        await taken_back(sf, "box")
        await sf.cluster.stream(SHIPS).delete_topic("box")
        await same(sf, ny)
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        (row,) = await sf.recoveries.plan(SHIPS, force=False)
        assert (row["topic"], row["from"]) == ("box", "was deleted at /mapr/ny/ships")
        job = await recovered(sf)
        assert (job.state, job.changed, job.refused) == ("done", 1, 0)
        assert sf.ends(SHIPS) == ny.ends(SHIPS) == {"stays": 2}


async def test_records_that_were_deleted_since_the_backup_are_deleted_again(tmp_path: Path, ny: Site) -> None:
    """Also where nothing else is missing, and of a topic that is younger than the backup. What a client asked for and
    thereby made of that name, while nothing could be written, makes room for it."""
    async with Site("sf", tmp_path) as sf, Worker(sf):
        await sf.stream(SHIPS)
        await set_up(sf, ny)
        for name in ("box", "even"):
            await sf.write(SHIPS, name, b"0")
            await sf.write(SHIPS, name, b"1")
        await same(sf, ny)
        old = await backup(tmp_path)
        await sf.write(SHIPS, "box", b"2")
        await sf.write(SHIPS, "new", b"0")
        await sf.write(SHIPS, "new", b"1")
        await same(sf, ny)
        for name in ("box", "even", "new"):
            shard, topic = sf.cluster.stream(SHIPS).topic(name)
            await shard.submit(partial(delete_records, number=topic.number, partition=0, offset=1))
        await until(
            lambda: [*map(held, [ny] * 3, ("box", "even", "new"))] == [{1: b"1", 2: b"2"}, {1: b"1"}, {1: b"1"}]
        )
        await same(sf, ny)
    async with Site("sf", old) as sf, Worker(sf):
        await until(lambda: stopped(sf))
        await sf.cluster.stream(SHIPS).create_topic("new")
        job = await recovered(sf)
        assert (job.state, job.refused) == ("done", 0)
        assert [held(sf, name) for name in ("box", "even", "new")] == [{1: b"1", 2: b"2"}, {1: b"1"}, {1: b"1"}]
        again = await recovered(sf)
        assert again.changed == 0
