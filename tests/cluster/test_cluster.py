"""What a cluster knows, and still knows after a restart; no sockets, storage in memory."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.cluster.opening import Open
from tests.support.waiting import until

from fairlead.cluster import removals
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.keys import ALLOWED, KAFKA, LINK, UPSTREAM
from fairlead.cluster.stream import CommittedOffset, Stream
from fairlead.cluster.values import (
    CopyPermission,
    KafkaUpstream,
    LinkRecord,
    StreamSettings,
    UpstreamRecord,
    link_from_json,
)
from fairlead.model.errors import (
    AlreadyExists,
    BadRequest,
    CorruptBatch,
    Damaged,
    FairleadError,
    InvalidName,
    InvalidValue,
    NotAgreed,
    NotFound,
    StorageFull,
    StorageUnavailable,
    UnknownStream,
)
from fairlead.model.names import GROUP_ID_BYTES_MAX, StreamPath
from fairlead.storage.interface import Storage
from fairlead.storage.memory import Fault, MemoryStorage
from fairlead.storage.names import stream_prefix
from fairlead.streamlog.writing.entries import put_entry
from fairlead.streamlog.writing.shard import Shard

NEW_YORK = StreamPath("/ships", "newyork")


def link_of(cluster: Cluster, replica: StreamPath = NEW_YORK) -> LinkRecord:
    source = cluster.stream("/ships")
    return LinkRecord(cluster.randomness.id16(), source.id, "/ships", replica, ("http://127.0.0.1:1",), False, 0)


async def test_a_new_cluster_has_the_default_stream(open_cluster: Open) -> None:
    """Bare topic names work at once."""
    cluster = await open_cluster("sanfrancisco")
    assert [stream.path for stream in cluster.streams()] == ["/default"]


async def test_a_cluster_is_the_same_after_a_restart(open_cluster: Open) -> None:
    """Its id, its streams with their ids and settings, their topics and cursors."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings(ttl_seconds=60, default_partitions=3))
    topic = await stream.create_topic("positions")
    await stream.commit_cursors("dashboard", [CommittedOffset("positions", 1, 7, 0, "note")])
    again = await open_cluster("sanfrancisco")
    found = again.stream("/ships")
    assert (again.id, found.id, found.settings) == (cluster.id, stream.id, stream.settings)
    assert found.topic("positions")[1] == topic
    assert [(group, t.name, p, c.offset) for group, t, p, c in found.cursors()] == [("dashboard", "positions", 1, 7)]


async def test_no_deletion_is_forgotten_before_the_links_are_known(open_cluster: Open) -> None:
    """A replica that has not heard of it never would. A stream that was just made has no links."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=2))
    assert [shard.links_passed for shard in stream.shards] == [None, None]
    again = await open_cluster("sanfrancisco")
    assert [shard.links_passed for shard in again.stream("/ships").shards] == [0, 0]


@pytest.mark.parametrize("error", [OverflowError("too large"), KeyError(9), CorruptBatch("a row")])
async def test_whatever_keeps_one_stream_from_opening_is_its_own_damage(
    open_cluster: Open, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The server starts without it, says so, and serves the others; a full disk is no damage of a stream."""
    cluster = await open_cluster("sanfrancisco")
    prefix = stream_prefix((await cluster.create_stream("/ships", StreamSettings())).id)
    opened = Shard.open
    raised: list[Exception] = [error]

    async def opened_or_not(storage: Storage, place: str, **options: Any) -> Shard:
        if place.startswith(prefix):
            raise raised[0]
        return await opened(storage, place, **options)

    monkeypatch.setattr(Shard, "open", opened_or_not)
    again = await open_cluster("sanfrancisco")
    assert [stream.path for stream in again.streams()] == ["/default"]
    assert str(error) in str(again.damaged["/ships"])
    with pytest.raises(Damaged, match=prefix):
        again.stream("/ships")
    raised[0] = StorageFull("disk", 0, 1)
    with pytest.raises(StorageFull):
        await open_cluster("sanfrancisco")


async def test_storage_of_another_cluster_is_refused(open_cluster: Open) -> None:
    """The message names the cluster that it belongs to."""
    await open_cluster("sanfrancisco")
    with pytest.raises(BadRequest, match="belongs to cluster sanfrancisco, not newyork"):
        await open_cluster("newyork")


async def test_an_unknown_format_version_is_refused(open_cluster: Open, storage: MemoryStorage) -> None:
    """The message names both versions."""
    storage.put_if_absent("cluster.json", b'{"version": 99, "name": "sanfrancisco", "id": "00"}')
    with pytest.raises(BadRequest, match="version 99; this program knows version 3"):
        await open_cluster("sanfrancisco")


async def test_a_path_is_given_once(open_cluster: Open) -> None:
    """A second stream of the path is refused, and so is a malformed path."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.create_stream("/ships", StreamSettings())
    with pytest.raises(AlreadyExists):
        await cluster.create_stream("/ships", StreamSettings())
    with pytest.raises(InvalidName):
        await cluster.create_stream("ships", StreamSettings())


async def test_settings_are_edited_within_their_ranges(open_cluster: Open) -> None:
    """A good value is there after a restart; a bad one changes nothing; what is fixed at creation stays."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.create_stream("/ships", StreamSettings())
    await cluster.edit_stream("/ships", ttl_seconds=5)
    for change in ({"ttl_seconds": -1}, {"default_partitions": 0}, {"compression": "zip"}, {"shards": 4}):
        with pytest.raises(InvalidValue):
            await cluster.edit_stream("/ships", **change)
    again = await open_cluster("sanfrancisco")
    assert again.stream("/ships").settings.ttl_seconds == 5


async def test_a_deleted_stream_is_gone_with_its_objects(open_cluster: Open, storage: MemoryStorage) -> None:
    """The path may be used again, by a stream with another id that knows nothing of the old one."""
    cluster = await open_cluster("sanfrancisco")
    old = await cluster.create_stream("/ships", StreamSettings())
    await old.create_topic("positions")
    await cluster.links.add(link_of(cluster))
    await cluster.delete_stream("/ships")
    with pytest.raises(UnknownStream):
        cluster.stream("/ships")
    new = await cluster.create_stream("/ships", StreamSettings())
    assert new.id != old.id
    assert new.topic_count == 0
    assert cluster.links.all() == []
    again = await open_cluster("sanfrancisco")
    assert again.stream("/ships").id == new.id
    assert not [name for name in storage.list("streams/") if old.id.hex() in name]


async def test_a_deletion_that_was_cut_off_is_finished_at_the_next_start(
    open_cluster: Open, storage: MemoryStorage
) -> None:
    """The entry that the stream is gone is durable first; its objects follow."""
    cluster = await open_cluster("sanfrancisco")
    old = await cluster.create_stream("/ships", StreamSettings())
    before = {name: storage.get(name) for name in storage.list(f"streams/{old.id.hex()}/")}
    await cluster.delete_stream("/ships")
    await cluster.close()
    key = f"gone/{old.id.hex()}"
    again = await open_cluster("sanfrancisco")
    await again.meta.submit(lambda draft: _entry(draft, key))
    for name, data in before.items():
        storage.put_if_absent(name, data)
    last = await open_cluster("sanfrancisco")
    await last.close()
    assert not list(storage.list(f"streams/{old.id.hex()}/"))


async def removed(cluster: Cluster, stream: Stream) -> None:
    await until(lambda: f"gone/{stream.id.hex()}" not in cluster.meta.state.entries)


async def test_a_deleted_stream_does_not_come_back_after_a_power_failure(
    open_cluster: Open, storage: MemoryStorage
) -> None:
    """Or it is known still that it is to be removed."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    await stream.create_topic("positions")
    await cluster.delete_stream("/ships")
    await removed(cluster, stream)
    await cluster.close()
    storage.crash()
    await open_cluster("sanfrancisco")
    assert list(storage.list(f"streams/{stream.id.hex()}/")) == []


async def test_what_could_not_be_removed_is_tried_again(
    open_cluster: Open, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removals, "AGAIN_SECONDS", 0.01)
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    for nth in (1, 3):
        storage.fail(Fault.FAIL, call="delete", nth=nth)
    storage.fail(Fault.FAIL, call="sync")
    await cluster.delete_stream("/ships")
    await removed(cluster, stream)
    assert list(storage.list(f"streams/{stream.id.hex()}/")) == []


async def test_a_close_waits_for_no_removal_that_failed(open_cluster: Open, storage: MemoryStorage) -> None:
    """The next start goes on with it."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    storage.fail(Fault.FAIL, call="delete")
    await cluster.delete_stream("/ships")
    await cluster.close()
    assert list(storage.list(f"streams/{stream.id.hex()}/"))
    await removed(await open_cluster("sanfrancisco"), stream)
    assert list(storage.list(f"streams/{stream.id.hex()}/")) == []


def _entry(draft: object, key: str) -> None:
    from fairlead.streamlog.writing.draft import Draft

    assert isinstance(draft, Draft)
    put_entry(draft, key, {"v": 1, "path": "/ships"})


async def test_a_link_that_is_changed_keeps_what_a_later_version_added(open_cluster: Open) -> None:
    """The program before may run once more, to go back."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.create_stream("/ships", StreamSettings())
    link = await cluster.links.add(link_of(cluster))
    key = LINK.key(link.id)
    await cluster.meta.submit(lambda draft: put_entry(draft, key, {**draft.state.entry(key), "filter": "^a"}))
    await cluster.links.edit(link.id, paused=True)
    entry = cluster.meta.state.entries[key]
    assert (entry["paused"], entry["filter"]) == (True, "^a")


async def test_links_are_kept_and_given_once(open_cluster: Open) -> None:
    """A second link to the same replica is refused; changes and removal last."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.create_stream("/ships", StreamSettings())
    link = await cluster.links.add(link_of(cluster))
    with pytest.raises(AlreadyExists):
        await cluster.links.add(link_of(cluster))
    await cluster.links.edit(link.id, paused=True)
    again = await open_cluster("sanfrancisco")
    kept = again.links.find(again.stream("/ships").id, NEW_YORK)
    assert kept.paused
    await again.links.remove(link.id)
    with pytest.raises(NotFound):
        again.links.find(again.stream("/ships").id, NEW_YORK)


async def test_nothing_is_recorded_of_a_stream_that_is_deleted(open_cluster: Open) -> None:
    """Another cluster was asked first, for seconds, and meanwhile the stream was deleted: nobody would ever remove
    it."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    link = link_of(cluster)
    await cluster.delete_stream("/ships")
    for recorded in (
        cluster.links.add(link),
        cluster.links.add_upstream(UpstreamRecord(stream.id, NEW_YORK)),
        cluster.links.allow_copy(CopyPermission(stream.id, NEW_YORK, 0)),
        cluster.kafka.add(KafkaUpstream(stream.id, "old", b"l" * 16, "/file", "the-one", "ships")),
    ):
        with pytest.raises(UnknownStream, match="was deleted meanwhile"):
            await recorded
    kinds = {key.split("/")[0] for key in cluster.meta.state.entries}
    assert not kinds & {LINK.kind, UPSTREAM, ALLOWED, KAFKA}


async def test_paths_of_other_clusters_are_text_only_where_they_are_stored(open_cluster: Open) -> None:
    """What was given is what is found again, with its cluster."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    link = await cluster.links.add(link_of(cluster))
    upstream = await cluster.links.add_upstream(UpstreamRecord(stream.id, NEW_YORK))
    stored = [entry for key, entry in cluster.meta.state.entries.items() if key.startswith(("link/", "upstream/"))]
    assert [entry.get("replica_path", entry.get("path")) for entry in stored] == ["/mapr/newyork/ships"] * 2
    again = await open_cluster("sanfrancisco")
    assert again.links.get(link.id) == link
    assert again.links.upstreams(stream.id) == [upstream]


async def test_a_stream_has_at_most_64_replicas(open_cluster: Open) -> None:
    """The limit of the original (MapR Streams)."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.create_stream("/ships", StreamSettings())
    for number in range(64):
        await cluster.links.add(link_of(cluster, StreamPath(f"/ships{number}", "newyork")))
    with pytest.raises(InvalidValue, match=r"64 replicas, .* remove one, or let one of them feed /mapr/newyork/more"):
        await cluster.links.add(link_of(cluster, StreamPath("/more", "newyork")))


async def test_copies_take_no_place_of_a_replica(open_cluster: Open) -> None:
    """Neither does a replica take one of theirs: a stream with all its replicas can still be copied."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.create_stream("/ships", StreamSettings())
    for number in range(64):
        copy = replace(link_of(cluster, StreamPath(f"/copy{number}", "newyork")), once=(0,))
        await cluster.links.add(copy)
        await cluster.links.add(link_of(cluster, StreamPath(f"/ships{number}", "newyork")))
    with pytest.raises(InvalidValue, match="64 copies of /ships are under way"):
        await cluster.links.add(replace(link_of(cluster, StreamPath("/more", "newyork")), once=(0,)))


async def test_a_stream_has_at_most_64_upstreams(open_cluster: Open) -> None:
    """A copy into it is none of them."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    for number in range(64):
        await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath(f"/ships{number}", "newyork")))
    with pytest.raises(InvalidValue, match=r"64 upstreams, .* remove one, or let /mapr/newyork/more feed one of them"):
        await cluster.links.add_upstream(UpstreamRecord(stream.id, StreamPath("/more", "newyork")))
    copy = UpstreamRecord(stream.id, NEW_YORK, b"n" * 16, b"l" * 16)
    await cluster.links.allow_copy(CopyPermission(stream.id, NEW_YORK, 0))
    await cluster.links.begin_copy(copy)
    assert copy in cluster.links.upstreams(stream.id)


@pytest.mark.parametrize("standing", [True, False])
async def test_whoever_is_accepted_no_more_copies_nothing_either(open_cluster: Open, *, standing: bool) -> None:
    """Its source need not say that a copy has ended. Copies of others go on."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    other = StreamPath("/ships#" + "6c" * 16, "newyork")
    copies = [UpstreamRecord(stream.id, path, b"n" * 16, b"l" * 16) for path in (NEW_YORK, other)]
    for copy in copies:
        await cluster.links.allow_copy(CopyPermission(stream.id, copy.path, 0))
        await cluster.links.begin_copy(copy)
    if standing:
        await cluster.links.add_upstream(UpstreamRecord(stream.id, NEW_YORK))
    await cluster.links.remove_upstream(stream.id, NEW_YORK)
    assert cluster.links.upstreams(stream.id) == copies[1:]
    with pytest.raises(NotFound):
        await cluster.links.remove_upstream(stream.id, NEW_YORK)


async def test_of_two_streams_of_one_path_that_speak_at_once_one_is_bound(open_cluster: Open) -> None:
    """Both have found the upstream unbound; the second one's commit looks again."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    found = await cluster.links.add_upstream(UpstreamRecord(stream.id, NEW_YORK))
    first, second = (cluster.links.bind_upstream(found, id * 16) for id in (b"a", b"b"))
    bound, refused = await asyncio.gather(first, second, return_exceptions=True)
    assert cluster.links.upstreams(stream.id) == [bound]
    assert isinstance(bound, UpstreamRecord)
    assert bound.source_stream == b"a" * 16
    assert isinstance(refused, NotAgreed)


async def test_the_request_of_a_copy_that_comes_twice_at_once_is_accepted_twice(open_cluster: Open) -> None:
    """A caller that got no answer in time asks again while the first request still waits for its commit. The permission
    is used up all the same: the next copy needs another."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    await cluster.links.allow_copy(CopyPermission(stream.id, NEW_YORK, 0))
    copy = UpstreamRecord(stream.id, NEW_YORK, b"n" * 16, b"l" * 16)
    await asyncio.gather(cluster.links.begin_copy(copy), cluster.links.begin_copy(copy))
    assert cluster.links.upstreams(stream.id) == [copy]
    with pytest.raises(NotAgreed):
        await cluster.links.begin_copy(replace(copy, once_link=b"m" * 16))


async def test_a_stream_with_an_upstream_makes_no_topics_by_itself(open_cluster: Open) -> None:
    """Else a consumer that asks first would make a second topic of that name (case S8)."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    assert stream.may_autocreate
    upstream = UpstreamRecord(stream.id, NEW_YORK)
    await cluster.links.add_upstream(upstream)
    assert not stream.may_autocreate
    again = await open_cluster("sanfrancisco")
    assert not again.stream("/ships").may_autocreate
    await again.links.remove_upstream(stream.id, NEW_YORK)
    assert again.stream("/ships").may_autocreate


async def test_masters_of_one_another_make_topics_by_themselves(open_cluster: Open) -> None:
    """As long as each upstream is one: of two topics of one name the one without records yields."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    await cluster.links.add_upstream(UpstreamRecord(stream.id, NEW_YORK, multimaster=True))
    assert stream.may_autocreate
    tokyo = StreamPath("/ships", "tokyo")
    await cluster.links.add_upstream(UpstreamRecord(stream.id, tokyo))
    assert not stream.may_autocreate
    await cluster.links.edit_upstream(stream.id, tokyo, multimaster=True)
    assert stream.may_autocreate


async def test_cursors_of_a_group_are_deleted_by_choice(open_cluster: Open) -> None:
    """One partition, one topic, a whole group; the answer is their number."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings(default_partitions=2))
    for name in ("a", "b"):
        await stream.create_topic(name)
    for group in ("g", "h"):
        offsets = [CommittedOffset(name, partition, 1) for name in ("a", "b") for partition in (0, 1)]
        assert await stream.commit_cursors(group, offsets) == [None] * 4
    assert await stream.delete_cursors("g", "a", 0) == 1
    assert await stream.delete_cursors("g", "a") == 1
    assert await stream.delete_cursors("g") == 2
    assert len(list(stream.cursors())) == 4


async def test_a_group_may_have_as_long_a_name_as_can_be_joined(open_cluster: Open) -> None:
    """Its commits are rows whose fields have limits of their own."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    await stream.create_topic("a")
    group = "g" * GROUP_ID_BYTES_MAX
    assert await stream.commit_cursors(group, [CommittedOffset("a", 0, 1)]) == [None]
    assert [name for name, *_ in stream.cursors()] == [group]


async def test_a_commit_for_an_unknown_topic_says_so_and_the_others_are_kept(open_cluster: Open) -> None:
    """Each offset has an answer of its own."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    await stream.create_topic("a")
    answers = await stream.commit_cursors("g", [CommittedOffset("nope", 0, 1), CommittedOffset("a", 0, 1)])
    assert str(answers[0]) == "topic nope does not exist"
    assert answers[1] is None


async def test_a_stream_that_could_not_be_opened_is_not_half_there(open_cluster: Open, storage: MemoryStorage) -> None:
    """The disk was full just then; the next attempt makes the only stream of that path, and its topics stay."""
    cluster = await open_cluster("sanfrancisco")
    storage.fail(Fault.FULL, nth=2)
    with pytest.raises(StorageFull):
        await cluster.create_stream("/ships", StreamSettings())
    stream = await cluster.create_stream("/ships", StreamSettings())
    await stream.create_topic("line")
    for _ in range(3):
        cluster = await open_cluster("sanfrancisco")
        assert cluster.stream("/ships").id == stream.id
        assert sum(entry.startswith("stream/") for entry in cluster.meta.state.entries) == 2


@pytest.mark.parametrize("when", ["while it runs", "before it was opened"])
async def test_a_log_that_stops_says_so_where_the_server_prints(
    open_cluster: Open, storage: MemoryStorage, when: str
) -> None:
    """Which one, and why; once. Otherwise only those who ask for its health learn of it."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    await stream.create_topic("line")
    with capture_logs() as logs:
        if when == "while it runs":
            for nth in range(1, 6):
                storage.fail(Fault.FAIL, nth=nth)
            with pytest.raises(StorageUnavailable):
                await stream.create_topic("other")
        else:
            name, *_ = storage.list(f"{stream_prefix(stream.id)}/shard-0000/commit/")
            storage.damage(name, lambda data: bytes(len(data)))
            stream = (await open_cluster("sanfrancisco")).stream("/ships")
        with pytest.raises(FairleadError):
            await stream.create_topic("third")
    (told,) = [each for each in logs if each["event"] == "a log has stopped and takes no more writes"]
    assert told["of"] == "/ships, shard 0"
    assert told["error"] == str(stream.shards[0].stopped)
    assert told["log_level"] == "error"


async def test_who_shows_all_streams_reads_no_link_twice(open_cluster: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and the metrics ask for the links of each stream: with 400 they held the server up for five seconds.
    Each change is seen at once all the same."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings())
    link = await cluster.links.add(link_of(cluster))
    upstream = await cluster.links.add_upstream(UpstreamRecord(stream.id, NEW_YORK))
    reads: list[bytes] = []

    def counted(id: bytes, entry: Any) -> LinkRecord:
        reads.append(id)
        return link_from_json(id, entry)

    monkeypatch.setattr("fairlead.cluster.links.link_from_json", counted)
    for _ in range(10):
        assert (cluster.links.of(stream.id), cluster.links.upstreams(stream.id)) == ([link], [upstream])
    other = await cluster.links.add(link_of(cluster, StreamPath("/other", "newyork")))
    assert cluster.links.all() == sorted((link, other), key=lambda each: (each.created_at, each.id))
    changed = await cluster.links.edit(link.id, paused=True)
    assert changed in cluster.links.of(stream.id)
    assert reads.count(other.id) == 1
    await cluster.links.remove(link.id)
    await cluster.links.remove_upstream(stream.id, NEW_YORK)
    assert (cluster.links.all(), cluster.links.upstreams(stream.id)) == ([other], [])
    assert len(reads) <= 4


async def test_a_topic_of_several_shards_gets_names_of_its_own_shard_only(open_cluster: Open) -> None:
    """Clients find it by the hash of its name; the error says a name that would do."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=4))
    topic = await stream.create_topic("a")
    other = next(name for name in "bcdefgh" if stream.shard_for(name) is not stream.shard_for("a"))
    with pytest.raises(InvalidValue, match=rf"; {other}-\d+ would do$") as refused:
        await stream.rename_topic("a", other)
    proposed = str(refused.value).rsplit("; ", 1)[1].removesuffix(" would do")
    await stream.rename_topic("a", proposed)
    assert stream.topic(proposed)[1].incarnation == topic.incarnation
    assert stream.find_topic("a") is None


async def test_a_frame_finds_an_incarnation_where_it_is(open_cluster: Open) -> None:
    """By whatever name its source has it, also once it is deleted."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=4))
    topic = await stream.create_topic("a")
    here = stream.shards.index(stream.shard_for("a"))
    for _ in range(2):
        with stream.placing(b"l" * 16) as place_of:
            assert {place_of(topic.incarnation, name) for name in "abcdefgh"} == {here}
        if stream.find_topic("a") is not None:
            await stream.delete_topic("a")


async def test_a_topic_is_made_where_the_first_frame_of_it_goes(open_cluster: Open) -> None:
    """While one is under way, by whatever link and name. Nothing is kept of a topic of which no frame is under way,
    also where none was made."""
    cluster = await open_cluster("sanfrancisco")
    stream = await cluster.create_stream("/ships", StreamSettings(shards=4))
    here = stream.shards.index(stream.shard_for("a"))
    elsewhere = next(name for name in "bcdefgh" if stream.shard_for(name) is not stream.shard_for("a"))
    ending = ExitStack()
    with stream.placing(b"l" * 16) as first:
        assert [first(b"i" * 16, "a"), first(b"j" * 16, "a")] == [here] * 2
        with stream.placing(b"m" * 16) as second:
            assert second(b"i" * 16, elsewhere) == here
        assert stream.arriving == 2
        later = ending.enter_context(stream.placing(b"m" * 16))
        assert later(b"i" * 16, elsewhere) == here
    assert stream.arriving == 1
    ending.close()
    assert stream.arriving == 0
    with stream.placing(b"m" * 16) as place_of:
        assert place_of(b"i" * 16, elsewhere) != here
