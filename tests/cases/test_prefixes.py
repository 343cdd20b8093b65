"""Links that put a prefix before the names of topics: equal names stay apart, and a topic is one topic whatever its
names; its offsets, its owner and its cursors do not know of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from fairlead.gateway.claims import ClaimOptions
from fairlead.gateway.links.orders.transfer import TransferOptions
from fairlead.gateway.takeovers.work import TakeoverOptions
from fairlead.model.errors import InvalidName
from fairlead.streamlog.requests.ownership import take_over
from fairlead.streamlog.requests.topics import rename_topic
from tests.cases.fleet import SHIPS, ends_of_logs, fleet, held, path_at, up_to_date
from tests.gateway.forwarding import client_of, plain, topic_of
from tests.gateway.rig import STILL, Site
from tests.support.waiting import a_quiet_while, until


async def link(source: Site, replica: Site, prefix: str, **options: Any) -> None:
    """A link with a prefix, named on both sides."""
    await replica.links.add_upstream(SHIPS, path_at(source))
    await source.links.add_replica(SHIPS, path_at(replica), urls=replica.urls, prefix=prefix, **options)


def named(site: Site) -> dict[str, list[bytes | None]]:
    """By the name that a topic has at a site, the values of its first partition in order."""
    return {name: list(found.values.values()) for (name, partition), found in held(site).items() if partition == 0}


async def has(site: Site, wanted: dict[str, list[bytes]]) -> None:
    """Wait until the site holds just that, and check it."""
    await until(lambda: named(site) == wanted)


async def test_prefix_ring(tmp_path: Path) -> None:
    """a to b to c to a, each with a prefix of its own, and all of them write a topic `t`. A topic has one name at each
    site, and comes once; nothing goes round."""
    async with fleet(tmp_path, "a", "b", "c") as (a, b, c):
        for source, replica in ((a, b), (b, c), (c, a)):
            await link(source, replica, f"{source.name}_")
        for site in (a, b, c):
            await site.write(SHIPS, "t", site.name.encode())
        await has(a, {"t": [b"a"], "c_t": [b"c"], "c_b_t": [b"b"]})
        await has(b, {"t": [b"b"], "a_t": [b"a"], "a_c_t": [b"c"]})
        await has(c, {"t": [b"c"], "b_t": [b"b"], "b_a_t": [b"a"]})
        await until(lambda: all(map(up_to_date, (a, b, c))))
        before = ends_of_logs(a, b, c)
        await a_quiet_while()
        assert ends_of_logs(a, b, c) == before


async def test_a_new_prefix_is_for_new_topics(tmp_path: Path) -> None:
    """A topic that is there keeps its name, grows, and is renamed behind the prefix that holds then; one that cannot be
    a prefix is refused, also at a link that runs."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        await link(a, b, "x.")
        await a.write(SHIPS, "t", b"1")
        await has(b, {"x.t": [b"1"]})
        await a.links.edit_replica(SHIPS, path_at(b), prefix="y.")
        await a.write(SHIPS, "t", b"2")
        await a.write(SHIPS, "u", b"1")
        await has(b, {"x.t": [b"1", b"2"], "y.u": [b"1"]})
        await a.links.edit_replica(SHIPS, path_at(b), prefix="")
        shard = a.cluster.stream(SHIPS).shard_for("u")
        await shard.submit(partial(rename_topic, name="u", to="w"))
        await a.write(SHIPS, "v", b"1")
        await has(b, {"x.t": [b"1", b"2"], "w": [b"1"], "v": [b"1"]})
        for wrong in ("a b", "x" * 101):
            with pytest.raises(InvalidName, match="-prefix"):
                await a.links.edit_replica(SHIPS, path_at(b), prefix=wrong)


async def test_a_name_that_is_too_long_with_its_prefix_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on, the link says which it is, and it gets a name by hand: also while nothing else happens."""
    monkeypatch.setattr("fairlead.gateway.links.contacting.contacts.REPAIR_DELAY_MAX_S", 0.1)
    long = "t" * 200
    async with fleet(tmp_path, "a", "b", timing=STILL) as (a, b):
        await link(a, b, "x" * 100)
        await a.write(SHIPS, long, b"1")
        await a.write(SHIPS, "t", b"1")
        await has(b, {"x" * 100 + "t": [b"1"]})
        await until(lambda: a.links.list(SHIPS)[0]["conflicts"] == 1)
        (noted,) = a.links.list(SHIPS)[0]["behind"]
        name = "x" * 100 + long
        command = f"fairlead stream topic resolve -path {path_at(b)} -topic {name} -as NAME"
        assert noted["reason"] == (
            f"conflict: not a possible name here: {name}; to have it there under another name run: {command}; "
            "its owner can -rename it everywhere"
        )
        await b.cluster.stream(SHIPS).take_topic_as(name, "short")
        await has(b, {"x" * 100 + "t": [b"1"], "short": [b"1"]})


async def test_a_topic_is_handed_over_and_taken_over_behind_a_prefix(tmp_path: Path) -> None:
    """a hands `t` over to b, which knows it as `a_t`, writes there, and a reads that as `t`. Then a takes it over,
    and asks b first for the record that did not come."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        await link(a, b, "a_")
        await link(b, a, "b_")
        await a.write(SHIPS, "t", b"1")
        await has(b, {"a_t": [b"1"]})
        await until(lambda: up_to_date(a) and up_to_date(b))
        job, topics = await a.transfers.prepare(SHIPS, "t", "b", TransferOptions())
        assert (await a.transfers.do(job, topics)).changed == 1
        await until(lambda: b.cluster.stream(SHIPS).topic("a_t")[1].owner == b.cluster.stream(SHIPS).id)
        await b.write(SHIPS, "a_t", b"2")
        await has(a, {"t": [b"1", b"2"]})
        await b.links.pause(SHIPS, path_at(a))
        await b.write(SHIPS, "a_t", b"3")
        job, names, _ = await a.takeovers.prepare(SHIPS, "t", "", TakeoverOptions(force=True))
        await a.jobs.add(job, names)
        await until(lambda: not a.cluster.jobs.get(job.id).running)
        assert a.cluster.jobs.get(job.id).changed == 1
        await a.write(SHIPS, "t", b"4")
        await has(a, {"t": [b"1", b"2", b"3", b"4"]})
        await has(b, {"a_t": [b"1", b"2", b"3", b"4"]})


async def test_a_tail_is_kept_and_told_behind_a_prefix(tmp_path: Path) -> None:
    """b takes `a_t` over while a, which is not asked, writes `t` on: both cut and keep the same, each by its names. And
    b claims it."""
    async with fleet(tmp_path, "a", "b", merge_interval_seconds=0.1) as (a, b):
        await link(a, b, "a_")
        await link(b, a, "b_")
        await a.write(SHIPS, "t", b"1")
        await has(b, {"a_t": [b"1"]})
        await a.links.pause(SHIPS, path_at(b))
        await a.write(SHIPS, "t", b"tail")
        shard, topic = b.cluster.stream(SHIPS).topic("a_t")
        await shard.submit(
            partial(take_over, topic=topic.number, owner_at=str(path_at(b)), writer_epoch_id=shard.epoch.id)
        )
        await b.write(SHIPS, "a_t", b"2")
        await has(a, {"t": [b"1", b"2"], "t.diverged.a.0": [b"tail"]})
        await a.links.resume(SHIPS, path_at(b))
        await has(b, {"a_t": [b"1", b"2"], "a_t.diverged.a.0": [b"tail"]})
        job, names = await b.claims.prepare(SHIPS, "a_t.diverged.a.0", ClaimOptions())
        await b.jobs.add(job, names)
        await has(b, {"a_t": [b"1", b"2", b"tail"], "a_t.diverged.a.0": [b"tail"]})
        await has(a, {"t": [b"1", b"2", b"tail"], "t.diverged.a.0": [b"tail"]})


async def test_a_write_at_a_copy_behind_a_prefix_is_passed_on(tmp_path: Path) -> None:
    """Its owner knows the topic by another name, and answers with its offset."""
    async with fleet(tmp_path, "a", "b") as (a, b):
        for site in (a, b):
            await site.kafka.start("127.0.0.1", 0)
        await link(a, b, "a_", accept_writes=True)
        await link(b, a, "b_")
        await a.write(SHIPS, "t", b"1")
        await has(b, {"a_t": [b"1"]})
        await b.cluster.edit_stream(SHIPS, forward_writes=True)
        async with client_of(b) as client:
            (outcome,) = await client.produce(topic_of("a_t"), plain(b"2"))
        assert (outcome.error, outcome.base_offset) == (ErrorCode.none, 1)
        await has(a, {"t": [b"1", b"2"]})
        await has(b, {"a_t": [b"1", b"2"]})
