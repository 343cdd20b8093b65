"""Links that leave topics out: nothing of those is told, offsets stay, and what comes in later brings its past."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fairlead.gateway.links.orders.transfer import TransferOptions
from fairlead.gateway.pulling.answering import HEAD, answer_pull
from fairlead.gateway.pulling.compared import answer_compare
from fairlead.gateway.takeovers.answering import answer_standing
from fairlead.spark.packets import Packet
from fairlead.streamlog.values import Topic
from fairlead.wire.link_protocol import StreamPlace
from fairlead.wire.messages import body_from_json
from fairlead.wire.neighbours import (
    CompareAnswer,
    ComparedPartition,
    CompareRequest,
    PullAnswer,
    PullRequest,
    StandingRequest,
    WantedPartition,
)
from tests.cases.fleet import SHIPS, alike, ends_of_logs, fleet, held, path_at, up_to_date
from tests.gateway.rig import Site
from tests.gateway.tasks import task
from tests.support.waiting import a_quiet_while, until


async def link(source: Site, replica: Site, **options: Any) -> None:
    """A link with options, named on both sides."""
    await replica.links.add_upstream(SHIPS, path_at(source))
    await source.links.add_replica(SHIPS, path_at(replica), urls=replica.urls, **options)


def topic_of(site: Site, name: str) -> Topic:
    return site.cluster.stream(SHIPS).topic(name)[1]


async def test_nothing_is_told_of_a_topic_that_a_link_leaves_out(tmp_path: Path) -> None:
    """Not its name, its records, its later versions or its deletion; and a site at which only such topics are written
    makes the other write no commit. The others keep their offsets."""
    carried: list[bytes] = []

    def keep(frame: Packet) -> bool:
        carried.append(bytes(frame.data))
        return True

    async with Site("sf", tmp_path) as sf, Site("ny", tmp_path) as ny, task(sf, keep=keep):
        for site in (sf, ny):
            await site.stream(SHIPS)
        stream = sf.cluster.stream(SHIPS)
        await sf.write(SHIPS, "secret", b"1")
        await sf.write(SHIPS, "told", b"1", b"2")
        secrets = [topic_of(sf, "secret").incarnation]
        await link(sf, ny, peer="partner", exclude_topics="secret.*")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"told": 2})
        before = ends_of_logs(ny)
        for name in ("secret", "secret2"):
            await sf.write(SHIPS, name, b"3")
        secrets.append(topic_of(sf, "secret2").incarnation)
        await stream.set_partitions("secret2", 3)
        await stream.delete_topic("secret")
        await until(lambda: up_to_date(sf))
        await a_quiet_while()
        assert ends_of_logs(ny) == before
        await sf.write(SHIPS, "told", b"3")
        await stream.create_topic("gone")
        await until(lambda: held(ny)["told", 0].end == 3 and ("gone", 0) in held(ny))
        await stream.delete_topic("gone")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"told": 3})
        assert held(ny)["told", 0] == held(sf)["told", 0]
    sent = b"".join(carried)
    assert b"told" in sent
    for told in (b"secret", *secrets, *(each.hex().encode() for each in secrets)):
        assert told not in sent


async def test_a_partner_cannot_ask_for_what_its_link_leaves_out(tmp_path: Path) -> None:
    """Though it names the topic; to one's own replica all is answered that it holds and asks for."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await sf.write(SHIPS, "secret", b"1")
        await sf.write(SHIPS, "told", b"1")
        await link(sf, ny, peer="partner", exclude_topics="secret")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"told": 1})
        asker = StreamPlace("ny", SHIPS, ny.cluster.stream(SHIPS).id)
        for peer, asked in (("partner", ["told"]), ("own", ["secret", "told"])):
            await sf.links.edit_replica(SHIPS, path_at(ny), peer=peer)
            ids = {name: topic_of(sf, name).incarnation for name in ("secret", "told")}
            wanted = tuple(WantedPartition(each, 0, 0, -1, -1) for each in ids.values())
            body = await answer_pull(sf.cluster, PullRequest(asker, SHIPS, wanted))
            (length,) = HEAD.unpack(body[: HEAD.size])
            pulled = body_from_json(body[HEAD.size : HEAD.size + length], PullAnswer)
            assert set(ids) - set(asked) == {name for name, each in ids.items() if each in pulled.lacking}
            standing = answer_standing(sf.cluster, StandingRequest(asker, SHIPS, tuple(ids.values())))
            assert [each.topic.name for each in standing.topics] == asked
            compared = await answer_compare(
                sf.cluster, CompareRequest(asker, SHIPS, tuple(ComparedPartition(each, 0) for each in ids.values()))
            )
            there = body_from_json(compared, CompareAnswer).partitions
            assert [name for name, each in zip(ids, there, strict=True) if each.held] == asked


async def test_a_topic_that_a_link_leaves_out_is_not_handed_over_along_it(tmp_path: Path) -> None:
    """Its new owner would never hear that it is the owner."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await sf.write(SHIPS, "box", b"1")
        await link(sf, ny)
        await link(ny, sf)
        await alike(sf, ny)
        await sf.links.edit_replica(SHIPS, path_at(ny), topics="other")
        job, topics = await sf.transfers.prepare(SHIPS, "box", "ny", TransferOptions(force=True))
        outcome = await sf.transfers.do(job, topics)
        assert outcome.changed == 0
        assert "leaves it out" in outcome.refused[0].reason


async def test_a_topic_that_is_left_out_from_now_on_stays_as_it_is(tmp_path: Path) -> None:
    """The copy is not fed any more, and that makes the link neither behind nor pending."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        for name in ("a", "b"):
            await sf.write(SHIPS, name, b"1")
        await link(sf, ny)
        await alike(sf, ny)
        await sf.links.edit_replica(SHIPS, path_at(ny), exclude_topics="b")
        for name in ("a", "b"):
            await sf.write(SHIPS, name, b"2")
        await until(lambda: ny.ends(SHIPS) == {"a": 2, "b": 1} and up_to_date(sf))
        assert sf.links.list(SHIPS)[0]["duplicates"] == 0
        (running,) = sf.manager.running
        assert running.answer is not None
        running.answer, running.not_sent = replace(running.answer, behind_total=1), 1  # it was behind before that
        row = sf.links.list(SHIPS)[0]
        assert (row["isUptodate"], row["partitionsBehind"]) == (True, 0)


async def test_a_topic_that_is_renamed_into_a_link_brings_its_past(tmp_path: Path) -> None:
    """Though no other record of it comes; the same where the replica had it by a name before that, up to where that
    was left out."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        stream = sf.cluster.stream(SHIPS)
        for name in ("silent", "fed"):
            await sf.write(SHIPS, name, b"1")
        await link(sf, ny, topics="fed.*")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"fed": 1})
        await stream.rename_topic("fed", "out")
        await sf.write(SHIPS, "out", b"2")
        await until(lambda: up_to_date(sf))
        await stream.rename_topic("out", "fed2")
        await stream.rename_topic("silent", "fed3")
        await until(lambda: ny.ends(SHIPS) == {"fed2": 2, "fed3": 1})
        await alike(sf, ny)


async def test_widened_filter_brings_a_silent_topic(tmp_path: Path) -> None:
    """The link had passed its last record long ago, and no other will come."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        await sf.write(SHIPS, "silent", b"1", b"2")
        await sf.write(SHIPS, "fed", b"1")
        await link(sf, ny, topics="fed")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"fed": 1})
        await sf.links.edit_replica(SHIPS, path_at(ny), topics="fed|silent")
        await alike(sf, ny)
        await sf.write(SHIPS, "silent", b"3")
        await alike(sf, ny)
        await sf.links.edit_replica(SHIPS, path_at(ny), topics=None)
        await sf.write(SHIPS, "new", b"1")
        await alike(sf, ny)


async def test_what_is_left_out_no_longer_comes_whole(tmp_path: Path) -> None:
    """Of what `-excludetopics` named a part at first, and then the rest; nobody writes the one, the other goes on."""
    async with fleet(tmp_path, "sf", "ny") as (sf, ny):
        for name in ("fed", "secret-a", "secret-b"):
            await sf.write(SHIPS, name, b"1")
        await link(sf, ny, exclude_topics="secret-.*")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"fed": 1})
        await sf.links.edit_replica(SHIPS, path_at(ny), exclude_topics="secret-b")
        await sf.write(SHIPS, "secret-b", b"2")
        await until(lambda: up_to_date(sf) and ny.ends(SHIPS) == {"fed": 1, "secret-a": 1})
        await sf.links.edit_replica(SHIPS, path_at(ny), exclude_topics=None)
        await sf.write(SHIPS, "secret-b", b"3")
        await alike(sf, ny)
