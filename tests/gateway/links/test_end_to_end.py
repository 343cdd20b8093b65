"""Links between clusters over real sockets: grant, announcement, frames, answers, and everything that goes wrong."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.gateway.rig import FAST, REPLICA, SHIPS, SOURCE, Site, Worker, set_up
from tests.support.waiting import a_quiet_while, until

from fairlead.gateway.links.running.lifecycle import State
from fairlead.gateway.links.running.running_link import source_of
from fairlead.model.conversation import from_json
from fairlead.model.errors import (
    AlreadyExists,
    Damaged,
    InvalidValue,
    NotAgreed,
    NotAllowed,
    NotFound,
    UnknownStream,
)
from fairlead.model.names import StreamPath
from fairlead.streamlog.rows import Kind
from fairlead.wire.control import LinksActive, RepairGrant
from fairlead.wire.messages import REPLICATOR_HEARS


async def agree(sf: Site, ny: Site, shards: int = 1) -> None:
    """Make the replica and name it on both sides."""
    await ny.stream(SHIPS, shards)
    await ny.links.add_upstream(SHIPS, SOURCE)
    await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)


async def same(sf: Site, ny: Site) -> None:
    """Wait until both ends hold the same."""
    await until(lambda: sf.ends(SHIPS) == ny.ends(SHIPS))


def state(sf: Site) -> State:
    """Of the only link."""
    (link,) = sf.manager.running
    return link.state


def error(sf: Site) -> str:
    """Of the only link."""
    (status,) = sf.links.list(SHIPS)
    return str(status["errors"].get("Msg", ""))


async def test_what_exists_and_what_follows_arrives(sf: Site, ny: Site) -> None:
    """A grant, an announcement, frames, answers, progress; the list says that the replica is up to date."""
    await sf.write(SHIPS, "a", b"1", b"2")
    async with Worker(sf):
        await agree(sf, ny)
        await same(sf, ny)
        for number in range(20):
            await sf.write(SHIPS, f"t{number}", b"x")
        await same(sf, ny)
        await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])
    (status,) = sf.links.list(SHIPS)
    assert status["replicaState"] == "REPLICA_STATE_REPLICATING"
    assert status["recordsCopied"] == 22
    assert status["copyTableCompletionPercentage"] == 100
    assert status["cluster"] == "ny"
    assert not status["errors"]


async def test_deletions_are_remembered_until_every_link_has_passed_them(sf: Site, ny: Site) -> None:
    """The log's upkeep is told how far the slowest link is; without links it keeps them for none."""
    shard = sf.cluster.stream(SHIPS).shards[0]
    assert shard.links_passed is None
    await sf.links.add_replica(SHIPS, StreamPath("/ships", "away"), urls=("http://127.0.0.1:1",), paused=True)
    async with Worker(sf):
        await agree(sf, ny)
        await sf.write(SHIPS, "a", b"1")
        await same(sf, ny)
        assert shard.links_passed == 0
        await sf.links.remove(SHIPS, StreamPath("/ships", "away"))
        await until(lambda: shard.links_passed == shard.announced.end)
    await sf.links.remove(SHIPS, REPLICA)
    assert shard.links_passed is None


async def test_a_link_without_a_reader_waits_and_says_so(sf: Site, ny: Site) -> None:
    """The copy is scheduled; with a reader it runs."""
    await sf.write(SHIPS, "a", b"1", b"2")
    await agree(sf, ny)
    await until(lambda: state(sf).ready)
    (status,) = sf.links.list(SHIPS)
    assert status["replicaState"] == "REPLICA_STATE_COPY_SCHEDULE"
    assert status["putsPending"] > 0
    assert status["bytesPending"] > 0
    async with Worker(sf):
        await same(sf, ny)


async def test_an_upstream_that_was_never_added_is_named_with_its_command(sf: Site, ny: Site) -> None:
    """Nothing flows until the replica names its upstream, then it does without any further command."""
    await ny.stream(SHIPS)
    await sf.write(SHIPS, "a", b"1")
    async with Worker(sf):
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await until(lambda: error(sf))
        assert error(sf) == f"run: fairlead stream upstream add -path {REPLICA} -upstream {SOURCE}"
        assert ny.end(SHIPS, "a") == -1
        await ny.links.add_upstream(SHIPS, SOURCE)
        await same(sf, ny)
        assert error(sf) == ""


async def test_removing_the_upstream_stops_a_running_link_at_once(sf: Site, ny: Site) -> None:
    """The gateway closes the connection, and later frames are refused."""
    async with Worker(sf) as worker:
        await agree(sf, ny)
        await sf.write(SHIPS, "a", b"1")
        await same(sf, ny)
        await ny.links.remove_upstream(SHIPS, SOURCE)
        await until(lambda: "upstream add" in error(sf))
        await until(lambda: not worker.grants)
        assert len(worker.given) == 1
        await sf.write(SHIPS, "a", b"2")
        assert ny.end(SHIPS, "a") == 1


async def test_pause_is_felt_in_the_middle_and_resume_goes_on(sf: Site, ny: Site) -> None:
    """Readers and sinks are told within a second; after resume nothing is missing and nothing doubled."""
    async with Worker(sf) as worker:
        await agree(sf, ny)
        await sf.write(SHIPS, "a", b"1")
        await same(sf, ny)
        await sf.links.pause(SHIPS, REPLICA)
        await until(lambda: worker.withdrawn and worker.told_to_drop)
        assert worker.withdrawn[-1].reason == "paused"
        await until(lambda: not worker.grants)
        await sf.write(SHIPS, "a", b"2")
        (status,) = sf.links.list(SHIPS)
        assert status["paused"]
        assert status["putsPending"] == 1
        assert ny.end(SHIPS, "a") == 1
        await sf.links.resume(SHIPS, REPLICA)
        await until(lambda: worker.grants)
        await same(sf, ny)


async def test_a_black_hole_delays_no_other_link(tmp_path: Path, ny: Site) -> None:
    """A destination that takes the connection and never answers keeps only its own link waiting."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with Site("sf", tmp_path, replace(FAST, answer_s=0.5)) as sf, Worker(sf):
            await sf.stream(SHIPS)
            await sf.links.add_replica(SHIPS, StreamPath("/ships", "hole"), urls=(url,))
            await agree(sf, ny)
            for _ in range(5):
                await sf.write(SHIPS, "a", b"x")
            await same(sf, ny)
            await until(lambda: sf.links.list(SHIPS)[0]["errors"])
            await until(lambda: sf.links.list(SHIPS)[1]["isUptodate"])
            hole, good = sf.links.list(SHIPS)
            assert hole["errors"]["Code"] == "ErrAllGatewaysUnreachable"
            assert hole["putsPending"] >= 5
            assert good["isUptodate"]


async def test_a_reader_that_leaves_is_followed_by_another(sf: Site, ny: Site) -> None:
    """Its grants are given again under a larger run, from where the destination stands."""
    await agree(sf, ny)
    async with Worker(sf, "first") as first:
        await sf.write(SHIPS, "a", b"1")
        await same(sf, ny)
        await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])
    async with Worker(sf, "second") as second:
        await sf.write(SHIPS, "a", b"2")
        await same(sf, ny)
        assert first.given[-1].run < second.given[-1].run
        assert max(second.granted[-1].slices.values()) > 0


async def test_frames_that_were_lost_on_the_way_are_sent_again(sf: Site, ny: Site) -> None:
    """A reader dies with its frames; the next one begins at the recorded position, not at what was scanned."""
    await agree(sf, ny)
    async with Worker(sf) as first:
        await until(lambda: first.grants)
        first.hold.clear()
        await sf.write(SHIPS, "a", b"1")
        end = sf.cluster.stream(SHIPS).shards[0].announced.end
        await until(lambda: sf.links.list(SHIPS)[0]["positions"][0]["highest"] == end)
        (status,) = sf.links.list(SHIPS)
        assert not status["isUptodate"]
    async with Worker(sf):
        await same(sf, ny)


async def test_a_partition_that_is_behind_is_repaired_and_others_go_on(sf: Site, ny: Site) -> None:
    """What did not arrive is noticed by the next row of the partition, and brought by a grant of its own."""
    async with Worker(sf) as worker:
        await agree(sf, ny)
        await sf.write(SHIPS, "a", b"0")
        await same(sf, ny)
        worker.loses = lambda row: row.kind == Kind.BATCH and row.base_offset == 1
        await sf.write(SHIPS, "a", b"1")
        await sf.write(SHIPS, "b", b"0")
        await until(lambda: ny.end(SHIPS, "b") == 1)
        await sf.write(SHIPS, "a", b"2")
        await same(sf, ny)
        repairs = [grant for grant in worker.given if isinstance(grant, RepairGrant)]
        assert [(each.end, each.reason) for each in repairs[0].partitions] == [(1, "gap")]
        await until(lambda: sf.links.list(SHIPS)[0]["partitionsBehind"] == 0)
        await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])


async def test_a_changed_replica_stops_the_link_naming_the_commands(sf: Site, ny: Site) -> None:
    """A stream that was deleted and made again is another stream."""
    async with Worker(sf):
        await agree(sf, ny)
        await sf.write(SHIPS, "a", b"1")
        await same(sf, ny)
        await ny.cluster.delete_stream(SHIPS)
        await ny.stream(SHIPS)
        await ny.links.add_upstream(SHIPS, SOURCE)
        await sf.write(SHIPS, "a", b"2")
        await until(lambda: state(sf) is State.STOPPED)
        assert f"fairlead stream replica remove -path {SOURCE} -replica {REPLICA}" in error(sf)
        (status,) = sf.links.list(SHIPS)
        assert status["replicaState"] == "REPLICA_STATE_UNEXPECTED"
        await sf.links.remove(SHIPS, REPLICA)
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await same(sf, ny)


async def test_a_changed_source_is_refused_by_the_replica(sf: Site, ny: Site) -> None:
    """The upstream is bound to the stream that first used it; the error says how to accept the new one."""
    async with Worker(sf):
        await agree(sf, ny)
        await sf.write(SHIPS, "a", b"1")
        await same(sf, ny)
        await sf.cluster.delete_stream(SHIPS)
        await sf.stream(SHIPS)
        await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
        await until(lambda: error(sf))
        assert "another stream than the upstream" in error(sf)
        assert f"fairlead stream upstream remove -path {REPLICA} -upstream {SOURCE}" in error(sf)


async def test_a_rolled_back_source_is_noticed_and_can_be_rescanned(sf: Site, ny: Site, tmp_path: Path) -> None:
    """Yesterday's directory under a live link to a partner: it stops, says so, and sends the whole log again when told
    to."""
    import shutil

    await agree(sf, ny)
    for link in sf.cluster.links.all():
        await sf.cluster.links.edit(link.id, peer="partner")
    async with Worker(sf):
        await sf.write(SHIPS, "a", b"1")
        await same(sf, ny)
    await asyncio.to_thread(shutil.copytree, tmp_path / "sf", tmp_path / "old" / "sf")
    async with Worker(sf):
        await sf.write(SHIPS, "a", b"2")
        await sf.write(SHIPS, "a", b"3")
        await same(sf, ny)
    await sf.links.pause(SHIPS, REPLICA)
    async with Site("sf", tmp_path / "old") as restored, Worker(restored):
        await until(lambda: state(restored) is State.STOPPED)
        (status,) = restored.links.list(SHIPS)
        assert status["replicaState"] == "REPLICA_STATE_UNEXPECTED"
        assert "rolled back" in status["errors"]["Msg"]
        assert "-rescan" in status["errors"]["Msg"]
        assert ny.end(SHIPS, "a") == 3
        await restored.write(SHIPS, "b", b"new")
        await restored.links.resume(SHIPS, REPLICA, rescan=True)
        await until(lambda: ny.end(SHIPS, "b") == 1)
        assert ny.end(SHIPS, "a") == 3
        assert state(restored).ready


async def test_a_stream_is_replicated_inside_one_cluster(sf: Site) -> None:
    """Source and replica are streams of one cluster, whose own gateway applies the frames."""
    await sf.stream("/copy")
    await sf.links.add_upstream("/copy", StreamPath(SHIPS))
    await sf.links.add_replica(SHIPS, StreamPath("/copy"))
    await sf.write(SHIPS, "a", b"1")
    async with Worker(sf):
        await until(lambda: sf.end("/copy", "a") == 1)


async def test_a_replica_with_several_shards_takes_the_whole_stream(sf: Site, ny: Site) -> None:
    """A frame's topics go to their shards, and the position is the lowest of theirs."""
    for number in range(30):
        await sf.write(SHIPS, f"t{number}", b"x")
    async with Worker(sf):
        await agree(sf, ny, shards=3)
        await same(sf, ny)
        await sf.write(SHIPS, "t7", b"y")
        await same(sf, ny)
        await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"])


async def test_a_chain_forwards_and_a_loop_comes_to_rest(sf: Site, ny: Site) -> None:
    """Links both ways: what came from the other end is not sent back, and both are up to date."""
    async with Worker(sf), Worker(ny):
        await agree(sf, ny)
        await sf.links.add_upstream(SHIPS, REPLICA)
        await ny.links.add_replica(SHIPS, SOURCE, urls=sf.urls)
        await sf.write(SHIPS, "a", b"1")
        await ny.write(SHIPS, "b", b"2")
        await same(sf, ny)
        await until(lambda: sf.links.list(SHIPS)[0]["isUptodate"] and ny.links.list(SHIPS)[0]["isUptodate"])
        ends = [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)]
        await a_quiet_while()
        assert ends == [site.cluster.stream(SHIPS).shards[0].announced.end for site in (sf, ny)]


# ---------------------------------------------------------------- commands


async def test_autosetup_makes_names_copies_and_starts(sf: Site, ny: Site) -> None:
    """One command, over the other cluster's admin interface."""
    await sf.write(SHIPS, "a", b"1")
    async with Worker(sf):
        await set_up(sf, ny)
        await same(sf, ny)
    assert [upstream.path for upstream in ny.links.list_upstreams(SHIPS)] == [SOURCE]


async def test_a_failed_autosetup_takes_back_what_it_made(sf: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which steps were done and that they are undone. A stream that is there is not touched."""

    async def refuse(record: object) -> None:
        raise NotAllowed("no upstreams today")

    monkeypatch.setattr(sf.cluster.links, "add_upstream", refuse)
    with pytest.raises(NotAllowed, match=r"no upstreams today; done before: created .*taken back.*named .*taken back"):
        await sf.links.autosetup(SHIPS, StreamPath("/copy"))
    await sf.stream("/there")
    with pytest.raises(AlreadyExists):
        await sf.links.autosetup(SHIPS, StreamPath("/there"))
    assert sf.links.list(SHIPS) == []
    assert [stream.path for stream in sf.cluster.streams() if stream.path in {"/copy", "/there"}] == ["/there"]


async def test_wrong_replicas_are_refused(sf: Site) -> None:
    """Itself, one that is there already, a stream that does not exist, a link that does not exist."""
    with pytest.raises(NotAllowed, match="replica of itself"):
        await sf.links.add_replica(SHIPS, SOURCE)
    with pytest.raises(NotAllowed, match="upstream of itself"):
        await sf.links.add_upstream(SHIPS, SOURCE)
    with pytest.raises(NotAllowed, match="replica of itself"):
        await sf.links.autosetup(SHIPS, StreamPath(SHIPS))
    with pytest.raises(UnknownStream):
        await sf.links.add_replica("/nothing", REPLICA, urls=("http://x",))
    with pytest.raises(UnknownStream):
        await sf.links.add_replica(SHIPS, StreamPath("/nothing"))
    await sf.links.add_replica(SHIPS, REPLICA, paused=True, urls=("http://127.0.0.1:1",))
    with pytest.raises(AlreadyExists):
        await sf.links.add_replica(SHIPS, REPLICA, urls=("http://127.0.0.1:1",))
    with pytest.raises(NotFound):
        await sf.links.pause(SHIPS, StreamPath("/other", "ny"))


async def allow(ny: Site) -> None:
    """Make the stream, and let it be copied into once."""
    await ny.stream(SHIPS)
    await ny.copies.allow(SHIPS, SOURCE)


async def test_nobody_copies_into_a_stream_whose_owner_did_not_allow_it(sf: Site, ny: Site) -> None:
    """A stranger wrote into it under the owner's name. What was allowed is used up by one copy, can be seen until then,
    and can be taken back; another source may not use it. The message is the command that helps."""
    await sf.write(SHIPS, "a", b"1")
    await sf.stream("/other")
    with pytest.raises(UnknownStream):
        await sf.copies.begin(SHIPS, REPLICA, ny.urls)
    await allow(ny)
    with pytest.raises(NotAgreed, match="run: fairlead copystream allow -path /mapr/ny/ships -from /mapr/sf/other"):
        await sf.copies.begin("/other", REPLICA, ny.urls)
    assert [each.path for each in ny.copies.allowed(SHIPS)] == [SOURCE]
    async with Worker(sf):
        await sf.copies.begin(SHIPS, REPLICA, ny.urls)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
    with pytest.raises(NotAgreed):
        await sf.copies.begin(SHIPS, REPLICA, ny.urls)
    await ny.copies.allow(SHIPS, SOURCE)
    await ny.copies.forbid(SHIPS, SOURCE)
    with pytest.raises(NotAgreed):
        await sf.copies.begin(SHIPS, REPLICA, ny.urls)
    with pytest.raises(NotFound, match="copystream list"):
        await ny.copies.forbid(SHIPS, SOURCE)
    assert sf.cluster.links.all() == []
    assert ny.cluster.links.upstreams(ny.cluster.stream(SHIPS).id) == []


async def test_64_copies_may_be_allowed_at_a_time(ny: Site) -> None:
    """They take no place of an upstream."""
    await ny.stream(SHIPS)
    for number in range(64):
        await ny.copies.allow(SHIPS, StreamPath(f"/s{number}", "sf"))
    await ny.copies.allow(SHIPS, StreamPath("/s0", "sf"))
    with pytest.raises(InvalidValue, match="no more are possible"):
        await ny.copies.allow(SHIPS, SOURCE)
    await ny.links.add_upstream(SHIPS, SOURCE)
    with pytest.raises(NotAllowed, match="into itself"):
        await ny.copies.allow(SHIPS, StreamPath(SHIPS))


async def test_a_partner_brings_its_own_topics_until_it_is_said_otherwise(sf: Site, ny: Site) -> None:
    """What it relays is set aside and shown on both sides, and its own goes on. An upstream can be edited while its
    link stands; what was set aside comes with a rescan."""
    await sf.stream("/other")
    await sf.write("/other", "relayed", b"1")
    await sf.write(SHIPS, "own", b"1")
    await sf.links.add_upstream(SHIPS, StreamPath("/other", "sf"))
    await sf.links.add_replica("/other", StreamPath(SHIPS, "sf"))
    await ny.stream(SHIPS)
    await ny.links.add_upstream(SHIPS, SOURCE, "partner")
    await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
    async with Worker(sf):
        await until(lambda: sf.end(SHIPS, "relayed") == 1)
        await until(lambda: "own" in ny.ends(SHIPS))
        await until(lambda: any(shard.state.all_notes() for shard in ny.cluster.stream(SHIPS).shards))
        await sf.links.refresh(SHIPS)
        (status,) = sf.links.list(SHIPS)
        assert status["conflicts"] == 1
        assert "none of its own" in str(status["behind"])
        assert "relayed" not in ny.ends(SHIPS)
        await ny.links.edit_upstream(SHIPS, SOURCE, peer="own")
        await sf.write(SHIPS, "own", b"2")
        await until(lambda: ny.end(SHIPS, "own") == 2)
        await sf.links.resume(SHIPS, REPLICA, rescan=True)
        await same(sf, ny)
        assert ny.end(SHIPS, "relayed") == 1


async def test_copystream_copies_what_is_there_and_ends(sf: Site, ny: Site) -> None:
    """The destination allows it once, and no standing agreement is left on either side."""
    await sf.write(SHIPS, "a", b"1", b"2")
    await allow(ny)
    async with Worker(sf):
        await sf.copies.begin(SHIPS, REPLICA, ny.urls)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
        await sf.write(SHIPS, "a", b"3")
    assert ny.end(SHIPS, "a") == 2
    replica = ny.cluster.stream(SHIPS)
    assert ny.cluster.links.upstreams(replica.id) == []
    assert ny.copies.allowed(SHIPS) == []
    assert not replica.shards[0].state.all_positions()
    assert not replica.shards[0].state.all_notes()
    assert sf.cluster.links.all() == []
    assert sf.copies.status(SHIPS, REPLICA)["recordsCopied"] == 2


async def test_the_end_of_a_copy_is_no_failure(sf: Site, ny: Site) -> None:
    """Taking back the permission ends the connection, and nobody is warned of it."""
    await sf.write(SHIPS, "a", b"1")
    await allow(ny)
    with capture_logs() as logs:
        async with Worker(sf):
            await sf.copies.begin(SHIPS, REPLICA, ny.urls)
            await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
            await a_quiet_while()
    assert [line for line in logs if line["log_level"] in {"warning", "error"}] == []
    assert sf.manager.failures.count == 0


async def test_a_link_of_a_damaged_stream_says_so(sf: Site, ny: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that the stream was deleted."""
    await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
    (link,) = sf.manager.running
    monkeypatch.setattr(sf.cluster, "stream_by_id", lambda id: None)
    monkeypatch.setitem(sf.cluster.damaged, SHIPS, Damaged("segment", "cut"))
    with pytest.raises(Damaged, match="segment: cut"):
        source_of(sf.cluster, link.record)
    del sf.cluster.damaged[SHIPS]
    with pytest.raises(UnknownStream, match="was deleted"):
        source_of(sf.cluster, link.record)


async def test_an_empty_stream_is_copied_at_once(sf: Site, ny: Site) -> None:
    """There is nothing to wait for, not even a reader."""
    await allow(ny)
    await sf.copies.begin(SHIPS, REPLICA, ny.urls)
    await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
    assert ny.cluster.stream(SHIPS)


async def test_a_copy_beside_a_paused_link_sends_nothing_twice(sf: Site, ny: Site) -> None:
    """The manual procedure: add paused, upstream, copystream, resume; the link goes on where the copy ended."""
    await sf.write(SHIPS, "a", b"1", b"2")
    await ny.stream(SHIPS)
    await sf.links.add_replica(SHIPS, REPLICA, paused=True, urls=ny.urls)
    await ny.links.add_upstream(SHIPS, SOURCE)
    async with Worker(sf):
        await sf.copies.begin(SHIPS, REPLICA, ny.urls)
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "done")
        await sf.links.resume(SHIPS, REPLICA)
        await sf.write(SHIPS, "a", b"3")
        await same(sf, ny)
        await until(lambda: sf.links.list(SHIPS)[0]["recordsCopied"])
        (status,) = sf.links.list(SHIPS)
        assert (status["recordsCopied"], status["duplicates"]) == (1, 0)


async def test_a_copy_into_a_deleted_stream_fails(sf: Site, ny: Site) -> None:
    """The copy ends with the reason, and its link is gone."""
    await sf.write(SHIPS, "a", b"1")
    await allow(ny)
    await sf.copies.begin(SHIPS, REPLICA, ny.urls)
    await until(lambda: state(sf).ready)
    await ny.cluster.delete_stream(SHIPS)
    async with Worker(sf):
        await until(lambda: sf.copies.status(SHIPS, REPLICA)["state"] == "failed")
    assert sf.cluster.links.all() == []


async def test_the_replicator_is_told_how_many_links_want_to_move(sf: Site, ny: Site) -> None:
    """So that it starts Spark with the first and needs none without."""
    async with sf.control("replicator") as socket:
        assert from_json(await socket.recv(), REPLICATOR_HEARS) == LinksActive(0, 0)
        await agree(sf, ny)
        assert from_json(await socket.recv(), REPLICATOR_HEARS) == LinksActive(1, 1)
    await until(lambda: state(sf).ready)
    async with sf.control("replicator") as socket:
        assert from_json(await socket.recv(), REPLICATOR_HEARS) == LinksActive(1, 0)


async def test_the_replicator_is_told_of_how_many_links_nothing_can_be_carried(sf: Site, ny: Site) -> None:
    """A catch-up that ends meanwhile has not carried all. A paused link waits for nobody."""
    await sf.links.add_replica(SHIPS, REPLICA, urls=ny.urls)
    await sf.links.add_replica(SHIPS, StreamPath("/ships", "away"), urls=("http://127.0.0.1:1",), paused=True)
    async with sf.control("replicator") as socket:
        assert from_json(await socket.recv(), REPLICATOR_HEARS) == LinksActive(1, 1)
