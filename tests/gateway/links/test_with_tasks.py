"""Links carried by the replicator's own reader and sink programs, without Spark between them."""

from __future__ import annotations

from functools import partial

from tests.gateway.rig import REPLICA, SHIPS, SOURCE, Site, set_up
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until

from fairlead.model.names import StreamPath
from fairlead.spark.packets import Packet


def same(sf: Site, ny: Site) -> bool:
    """Both ends hold the same, and the source knows it."""
    return sf.ends(SHIPS) == ny.ends(SHIPS) and bool(sf.links.list(SHIPS)[0]["isUptodate"])


async def test_a_stream_is_set_up_copied_and_followed(sf: Site, ny: Site) -> None:
    """Topics made, written, deleted and made again, and partitions added, arrive while the link runs."""
    await sf.write(SHIPS, "a", b"1", b"2")
    async with task(sf):
        await set_up(sf, ny)
        await until(lambda: same(sf, ny))
        source = sf.cluster.stream(SHIPS)
        await source.delete_topic("a")
        await source.create_topic("a", 2)
        await sf.write(SHIPS, "a", b"3", partition=1)
        await sf.write(SHIPS, "b", b"4")
        await until(lambda: same(sf, ny))
        assert [ny.end(SHIPS, "a", partition) for partition in (0, 1)] == [0, 1]


async def test_a_lost_frame_is_noticed_and_sent_again(sf: Site, ny: Site) -> None:
    """What follows it is refused with the position that is recorded, and the source begins there."""
    lost: list[Packet] = []

    def lose_second(frame: Packet) -> bool:
        lost.append(frame)
        return len(lost) != 2

    def one_more(before: int) -> bool:
        return len(lost) > before or same(sf, ny)

    async with task(sf, keep=lose_second):
        await set_up(sf, ny)
        for value in (b"1", b"2", b"3"):
            count = len(lost)  # the frame may be there before the write returns
            await sf.write(SHIPS, "a", value)
            await until(partial(one_more, count))
        await until(lambda: same(sf, ny))
        assert ny.end(SHIPS, "a") == 3


async def test_a_task_that_ends_is_followed_by_the_next(sf: Site, ny: Site) -> None:
    """As at the turn of a round."""
    await set_up(sf, ny)
    for name in ("one", "two"):
        async with task(sf, name):
            await sf.write(SHIPS, name, b"1")
            await until(lambda: same(sf, ny))


async def test_links_both_ways_come_to_rest(sf: Site, ny: Site) -> None:
    """Nothing is sent back, nothing stays pending, and no commit is written without a reason."""
    async with task(sf), task(ny):
        await set_up(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        await sf.write(SHIPS, "a", b"1")
        await ny.write(SHIPS, "b", b"2")
        await until(lambda: same(sf, ny) and ny.links.list(SHIPS)[0]["isUptodate"])
        before = [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)]
        contacts = sf.manager.contacts.count, ny.manager.contacts.count
        await a_quiet_while()
        assert before == [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)]
        assert contacts == (sf.manager.contacts.count, ny.manager.contacts.count)


async def test_shards_need_not_be_as_many_on_both_sides(sf: Site, ny: Site) -> None:
    """Positions are the source's, per shard of it; each shard of the replica keeps its own."""
    await sf.stream("/wide", shards=2)
    await ny.stream("/wide", shards=3)
    await ny.links.add_upstream("/wide", StreamPath("/wide", "sf"))
    for number in range(40):
        await sf.write("/wide", f"t{number}", b"x")
    async with task(sf):
        await sf.links.add_replica("/wide", StreamPath("/wide", "ny"), urls=ny.urls)
        await until(lambda: sf.ends("/wide") == ny.ends("/wide"))
        await until(lambda: sf.links.list("/wide")[0]["isUptodate"])
    async with task(sf):
        await sf.write("/wide", "t3", b"y")
        await until(lambda: ny.end("/wide", "t3") == 2)
        assert sf.links.list("/wide")[0]["duplicates"] == 0


async def test_a_copy_ends_by_itself(sf: Site, ny: Site) -> None:
    """Also where the last commits of the source have nothing to send."""
    await sf.write(SHIPS, "a", b"1", b"2")
    await ny.stream(SHIPS)
    await ny.copies.allow(SHIPS, SOURCE)
    async with task(sf):
        await sf.copies.begin(SHIPS, REPLICA, ny.urls)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
    assert ny.end(SHIPS, "a") == 2


async def test_a_replica_of_a_replica_has_the_same(sf: Site, ny: Site) -> None:
    """What came over a link is sent on."""
    async with task(sf), task(ny):
        await set_up(sf, ny)
        await ny.links.autosetup(SHIPS, StreamPath("/third"))
        await sf.write(SHIPS, "a", b"1")
        await until(lambda: ny.end("/third", "a") == 1)


async def test_pause_and_resume_under_load_lose_nothing(sf: Site, ny: Site) -> None:
    """Ten times in the middle of writing; at the end both sides are equal and the link is up to date."""
    async with task(sf):
        await set_up(sf, ny)
        for number in range(10):
            for topic in ("a", "b", "c"):
                await sf.write(SHIPS, topic, b"%d" % number)
            await sf.links.pause(SHIPS, REPLICA)
            await sf.write(SHIPS, "a", b"while paused")
            await sf.links.resume(SHIPS, REPLICA)
        await until(lambda: same(sf, ny))
        assert ny.ends(SHIPS) == {"a": 20, "b": 10, "c": 10}
