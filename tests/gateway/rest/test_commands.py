"""What the commands of the admin interface do, without sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.desk import WRITTEN_MS, Desk, desks

from fairlead.client.catalog import BY_PATH
from fairlead.cluster.stream import CommittedOffset
from fairlead.cluster.values import UpstreamRecord
from fairlead.model import errors
from fairlead.model.names import StreamPath
from fairlead.streamlog.cursors import Cursor
from fairlead.streamlog.requests.cursors import put_published
from fairlead.streamlog.requests.topics import put_topic
from fairlead.streamlog.values import Topic
from fairlead.streamlog.writing.draft import Draft


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("sanfrancisco") as (found,):
        yield found


async def test_a_stream_has_the_originals_defaults(desk: Desk) -> None:
    """ttl 604800, autocreate true, one partition, permissions of the creator."""
    await desk.post("stream/create", path="/ships")
    (row,) = await desk.get("stream/info", path="/ships")
    assert (row["ttl"], row["autocreate"], row["defaultpartitions"]) == (604800, True, 1)
    assert (row["compression"], row["defaulttimestamptype"], row["pidexpirysecs"]) == ("off", "createtime", 604800)
    assert {row[f"{name}perm"] for name in ("produce", "consume", "topic", "copy", "admin")} == {"u:tester"}


async def test_a_topic_that_did_not_come_again_is_not_resolved(desk: Desk) -> None:
    """And what is to be taken must be said, since later versions will know other ways."""
    await desk.post("stream/create", path="/ships")
    with pytest.raises(errors.InvalidValue, match="no topic t that was deleted here came again"):
        await desk.post("stream/topic/resolve", path="/ships", topic="t", take="source")
    with pytest.raises(errors.InvalidValue, match="give one of -rename, -as and -take"):
        await desk.post("stream/topic/resolve", path="/ships", topic="t")
    with pytest.raises(errors.BadRequest, match="-take alias: not implemented yet"):
        await desk.post("stream/topic/resolve", path="/ships", topic="t", take="alias")


async def test_a_topic_is_resolved_also_by_a_name_that_it_cannot_have(desk: Desk) -> None:
    """Behind a prefix a name may be too long; it is looked for all the same."""
    await desk.post("stream/create", path="/ships")
    with pytest.raises(errors.InvalidValue, match="no topic waits"):
        await desk.post("stream/topic/resolve", path="/ships", topic="x" * 300, **{"as": "short"})


async def test_settings_are_stored_and_edited(desk: Desk) -> None:
    """Compression too, though it has no effect yet."""
    await desk.post("stream/create", path="/ships", ttl=60, compression="lz4", autocreate="false")
    await desk.post("stream/edit", path="/mapr/sanfrancisco/ships", ttl="0", defaultpartitions=4)
    (row,) = await desk.get("stream/info", path="sanfrancisco:/ships")
    assert (row["ttl"], row["compression"], row["autocreate"], row["defaultpartitions"]) == (0, "lz4", False, 4)


async def test_copymetafrom_takes_the_settings_and_what_is_given_stands_above(desk: Desk) -> None:
    """As the second step of a manual set-up does it."""
    await desk.post("stream/create", path="/a", ttl=60, defaultpartitions=3)
    await desk.post("stream/create", path="/b", copymetafrom="/a", ttl=5)
    (row,) = await desk.get("stream/info", path="/b")
    assert (row["ttl"], row["defaultpartitions"]) == (5, 3)


async def test_a_stream_shows_what_it_holds(desk: Desk) -> None:
    """Records, their bytes, and the bytes of the objects."""
    await desk.post("stream/create", path="/a")
    await desk.post("stream/topic/create", path="/a", topic="t")
    await desk.write("/a", "t", b"one", b"two")
    (row,) = await desk.get("stream/info", path="/a")
    assert row["numrecords"] == 2
    assert 0 < row["logicalsize"] <= row["physicalsize"]


async def test_streams_are_listed_below_a_path(desk: Desk) -> None:
    """Parent folders need not exist; /shipsX is not below /ships; paths are case-sensitive."""
    for path in ("/ships/log", "/ships", "/shipsX", "/Ships"):
        await desk.post("stream/create", path=path)
    assert [row["path"] for row in await desk.get("stream/list", path="/ships")] == ["/ships", "/ships/log"]
    assert len(await desk.get("stream/list")) == 5


async def test_a_deleted_stream_is_gone_with_its_listener(desk: Desk) -> None:
    """And its path may be used again."""
    await desk.post("stream/create", path="/ships")
    assert await desk.post("stream/expose", path="/ships", port=9192) == [{"path": "/ships", "kafka": "127.0.0.1:9192"}]
    await desk.post("stream/delete", path="/ships")
    with pytest.raises(errors.UnknownStream):
        await desk.get("stream/info", path="/ships")
    await desk.post("stream/create", path="/ships")
    assert (await desk.get("stream/info", path="/ships"))[0]["kafka"] == ""


async def test_a_topic_is_made_shown_widened_and_deleted(desk: Desk) -> None:
    """One row a partition; maxoffset of an empty one is -1."""
    await desk.post("stream/create", path="/s", defaultpartitions=2)
    await desk.post("stream/topic/create", path="/s", topic="t", timestamptype="logappendtime")
    await desk.write("/s", "t", b"one", b"two")
    await desk.post("stream/topic/edit", path="/s", topic="t", partitions=3)
    rows = await desk.get("stream/topic/info", path="/s", topic="t")
    assert [(row["partitionid"], row["minoffset"], row["maxoffset"]) for row in rows] == [
        (0, 0, 1),
        (1, 0, -1),
        (2, 0, -1),
    ]
    assert [(row["mintimestamp"], row["maxtimestamp"]) for row in rows[:2]] == [(WRITTEN_MS, WRITTEN_MS), (0, 0)]
    assert (await desk.get("stream/info", path="/s"))[0]["numrecords"] == 2
    assert {(row["owner"], row["timestamptype"]) for row in rows} == {("/mapr/sanfrancisco/s", "logappendtime")}
    await desk.post("stream/topic/delete", path="/s", topic="t")
    assert await desk.get("stream/topic/list", path="/s") == []


async def test_topics_are_listed_by_regular_expressions_of_their_names(desk: Desk) -> None:
    """More of them than are matched in one piece; a link with the same expressions would bring these."""
    await desk.post("stream/create", path="/s")
    shard = desk.cluster.stream("/s").shards[0]

    def request(draft: Draft) -> None:
        for number in range(2500):
            name = f"{'ship' if number % 2 else 'port'}-{number}"
            topic = Topic(draft.state.next_number(name), name, name.encode().ljust(16), 1, b"o" * 16, home=name)
            put_topic(draft, topic, b"o" * 16, b"v" * 16)

    await shard.submit(request)

    async def listed(**expressions: str) -> list[str]:
        return [row["topic"] for row in await desk.get("stream/topic/list", path="/s", **expressions)]

    assert await listed(topics="ship-2.*9") == sorted(
        f"ship-{number}" for number in range(1, 2500, 2) if str(number)[0] == "2" and number % 10 == 9 and number > 9
    )
    assert await listed(topics="port-.*", excludetopics="[a-z]+-.*[1-9]") == sorted(
        f"port-{number}" for number in range(0, 2500, 10)
    )
    with pytest.raises(errors.InvalidValue, match="-topics"):
        await listed(topics="(")


async def test_topics_are_listed_by_their_owner_however_far_it_is(desk: Desk) -> None:
    """By its cluster or its path, which the topic's row says: no neighbour need know it. What only an owner may do is
    refused with that path, or with the id of a stream that nobody has named."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/topic/create", path="/s", topic="ours")
    shard = desk.cluster.stream("/s").shards[0]

    def request(draft: Draft) -> None:
        for name, at in (("far", "/mapr/sydney/cargo"), ("further", "/mapr/sydney-2/cargo"), ("unnamed", "")):
            number = draft.state.next_number(name)
            topic = Topic(number, name, name.encode().ljust(16), 1, b"o" * 16, home=name, owner_at=at)
            put_topic(draft, topic, b"o" * 16, b"v" * 16)

    await shard.submit(request)

    async def owned_by(owner: str) -> list[str]:
        return [row["topic"] for row in await desk.get("stream/topic/list", path="/s", owner=owner)]

    for owner in ("sydney", "/mapr/sydney/cargo", "mapr/sydney/cargo", "sydney:/cargo"):
        assert await owned_by(owner) == ["far"]
    assert await owned_by("sanfrancisco") == await owned_by("/mapr/sanfrancisco/s") == ["ours"]
    assert await owned_by("ny") == []
    for name, said in (("far", "/mapr/sydney/cargo"), ("unnamed", (b"o" * 16).hex())):
        with pytest.raises(errors.NotAllowed, match=said):
            await desk.post("stream/topic/delete", path="/s", topic=name)


async def test_sizes_and_the_oldest_record_not_read_are_shown(desk: Desk) -> None:
    """By partition and by topic; a partition without records has none."""
    await desk.post("stream/create", path="/s", defaultpartitions=2)
    await desk.post("stream/topic/create", path="/s", topic="t")
    await desk.write("/s", "t", b"one", b"two", b"three")
    await desk.cluster.stream("/s").commit_cursors("g", [CommittedOffset("t", 0, 2)])
    first, second = await desk.get("stream/topic/info", path="/s", topic="t")
    assert 0 < first["logicalsize"] < first["physicalsize"]
    assert (first["minoffsetacrossconsumers"], first["mintimestampacrossconsumers"]) == (2, WRITTEN_MS)
    assert (second["logicalsize"], second["physicalsize"], second["mintimestampacrossconsumers"]) == (0, 0, 0)
    (topic,) = await desk.get("stream/topic/list", path="/s")
    assert (topic["logicalsize"], topic["physicalsize"]) == (first["logicalsize"], first["physicalsize"])


async def test_cursors_are_listed_with_their_lag_and_deleted(desk: Desk) -> None:
    """The committed offset is the next record to read."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/topic/create", path="/s", topic="t")
    await desk.write("/s", "t", b"one", b"two", b"three")
    await desk.cluster.stream("/s").commit_cursors("g", [CommittedOffset("t", 0, 1)])
    (row,) = await desk.get("stream/cursor/list", path="/s", consumergroup="g", topic="t", partition=0)
    assert (row["committedoffset"], row["produceroffset"], row["consumerlag"]) == (1, 2, 2)
    (topic,) = await desk.get("stream/topic/list", path="/s")
    assert (topic["consumers"], topic["maxlag"]) == (1, 2)
    assert await desk.post("stream/cursor/delete", path="/s") == [{"deleted": 1}]
    assert await desk.get("stream/cursor/list", path="/s") == []


async def test_a_preview_says_where_a_group_would_go_on(desk: Desk) -> None:
    """And which of it was committed where; a group without a commit is named."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/topic/create", path="/s", topic="t")
    await desk.write("/s", "t", b"one", b"two", b"three")
    stream = desk.cluster.stream("/s")
    await stream.commit_cursors("g", [CommittedOffset("t", 0, 1)])
    number = stream.topic("t")[1].number
    far = Cursor(9, 0, "", 0, 7, b"o" * 16)
    await stream.shards[0].submit(lambda draft: put_published(draft, "g", number, 0, far))
    (row,) = await desk.get("stream/failover/preview", path="/s", group="g")
    assert (row["committedoffset"], row["goesonat"], row["skips"], row["readsagain"]) == (9, 3, 0, 6)
    (listed,) = await desk.get("stream/cursor/list", path="/s")
    assert listed["committedin"] == row["committedin"] == f"the stream with id {(b'o' * 16).hex()}"


async def test_a_group_that_went_its_own_way_is_told_to_follow_again(desk: Desk) -> None:
    """Not while it has members, which would not hear of it."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/topic/create", path="/s", topic="t")
    await desk.write("/s", "t", b"one", b"two", b"three")
    stream = desk.cluster.stream("/s")
    number = stream.topic("t")[1].number
    desk.cluster.consumers.ask(lambda group, stream, shard: 0)
    await stream.commit_cursors("g", [CommittedOffset("t", 0, 1)])
    theirs = Cursor(2, 0, "", 0, 7, b"o" * 16, seen=6)
    await stream.shards[0].submit(lambda draft: put_published(draft, "g", number, 0, theirs))
    await stream.commit_cursors("g", [CommittedOffset("t", 0, 1)])
    with pytest.raises(errors.NotAllowed, match="has members"):
        await stream.adopt_cursors("g")
    desk.cluster.consumers.ask(lambda group, stream, shard: None)
    (row,) = await desk.get("stream/cursor/list", path="/s")
    assert (row["committedoffset"], row["apart"]) == (1, True)
    assert await desk.post("stream/cursor/adopt", path="/s", consumergroup="g") == [{"adopted": 1}]
    (row,) = await desk.get("stream/cursor/list", path="/s")
    assert (row["committedoffset"], row["apart"]) == (2, False)


async def test_upstreams_are_added_listed_and_removed(desk: Desk) -> None:
    """A path without a cluster is one of this cluster."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/upstream/add", path="/s", upstream="/mapr/newyork/x")
    await desk.post("stream/upstream/add", path="/s", upstream="/y")
    rows = await desk.get("stream/upstream/list", path="/s")
    assert [row["upstream"] for row in rows] == ["/mapr/newyork/x", "/mapr/sanfrancisco/y"]
    await desk.post("stream/upstream/remove", path="/s", upstream="/mapr/newyork/x")
    assert len(await desk.get("stream/upstream/list", path="/s")) == 1


async def test_a_copy_under_way_is_listed_and_ends_with_its_source(desk: Desk) -> None:
    """Its source may be lost, and never say that it has ended."""
    await desk.post("stream/create", path="/s")
    source = StreamPath("/x", "newyork")
    await desk.post("copystream/allow", **{"path": "/s", "from": str(source)})
    copy = UpstreamRecord(desk.cluster.stream("/s").id, source, b"n" * 16, b"l" * 16)
    await desk.cluster.links.begin_copy(copy)
    (row,) = await desk.get("stream/upstream/list", path="/s")
    assert (row["upstream"], row["copy"]) == (str(source), True)
    await desk.post("stream/upstream/remove", path="/s", upstream=str(source))
    assert await desk.get("stream/upstream/list", path="/s") == []


async def test_a_replica_is_added_paused_and_listed(desk: Desk) -> None:
    """With the fields of the original."""
    await desk.post("stream/create", path="/s")
    await desk.post("stream/create", path="/r")
    await desk.post("stream/replica/add", path="/s", replica="/r", paused="true")
    (row,) = await desk.get("stream/replica/list", path="/s", refreshnow="true")
    assert (row["replicaPath"], row["paused"], row["cluster"], row["stream"]) == (
        "/mapr/sanfrancisco/r",
        True,
        "sanfrancisco",
        "/r",
    )
    await desk.post("stream/replica/remove", path="/s", replica="/r")
    assert await desk.get("stream/replica/list", path="/s") == []


async def test_writes_are_taken_from_a_replica_of_ones_own_that_was_marked(desk: Desk) -> None:
    """When it is made, or later; never from another company's."""
    for path in ("/s", "/r", "/q"):
        await desk.post("stream/create", path=path, forwardwrites=path == "/r")
    assert [(await desk.get("stream/info", path=path))[0]["forwardwrites"] for path in ("/s", "/r")] == [False, True]
    await desk.post("stream/edit", path="/r", pending=True)
    assert (await desk.get("stream/info", path="/r"))[0]["pending"]
    await desk.post("stream/edit", path="/r", forwardwrites=False, pending=False)
    assert not (await desk.get("stream/info", path="/r"))[0]["forwardwrites"]
    await desk.post("stream/replica/add", path="/s", replica="/r", paused=True, acceptwrites=True)
    await desk.post("stream/replica/add", path="/s", replica="/q", paused=True, peer="partner")
    assert [row["acceptWrites"] for row in await desk.get("stream/replica/list", path="/s")] == [True, False]
    await desk.post("stream/replica/edit", path="/s", replica="/r", acceptwrites=False)
    assert [row["acceptWrites"] for row in await desk.get("stream/replica/list", path="/s")] == [False, False]
    await desk.post("stream/replica/autosetup", path="/r", replica="/made", acceptwrites=True)
    assert [row["acceptWrites"] for row in await desk.get("stream/replica/list", path="/r")] == [True]
    with pytest.raises(errors.InvalidValue, match=r"/q is a partner, and writes are taken from replicas of your own"):
        await desk.post("stream/replica/edit", path="/s", replica="/q", acceptwrites=True)


async def test_every_option_of_a_link_can_be_changed(desk: Desk) -> None:
    """Each by itself; what is not given stays as it is."""
    for path in ("/s", "/r"):
        await desk.post("stream/create", path=path)
    await desk.post("stream/upstream/add", path="/r", upstream="/s")
    await desk.post("stream/replica/add", path="/s", replica="/r", paused=True)
    (link,) = desk.cluster.links.all()
    for given, field in (
        ({"forward": "own"}, {"forward": "own"}),
        ({"acceptwrites": True}, {"accept_writes": True}),
        ({"newreplica": "/r", "acceptwrites": False}, {"accept_writes": False}),
        ({"peer": "partner"}, {"peer": "partner"}),
        ({"ownership": True}, {"ownership": True}),
        ({"forward": "all"}, {"forward": "all", "rescan": 1}),
        ({"topics": "a.*"}, {"topics": "a.*"}),
        ({"excludetopics": "ab"}, {"exclude_topics": "ab"}),
        ({"cursors": "none"}, {"cursors": "none"}),
        ({"prefix": "a."}, {"prefix": "a."}),
        ({"prefix": ""}, {"prefix": ""}),
    ):
        await desk.post("stream/replica/edit", path="/s", replica="/r", **given)
        link = replace(link, **field)
        assert desk.cluster.links.all() == [link]
    await desk.post("stream/replica/edit", path="/s", replica="/r", excludetopics="")
    ((coming,),) = [[each.filter_next for each in desk.cluster.links.standing(link.source)]]
    assert coming is not None
    assert (coming.topics, coming.exclude_topics) == ("a.*", None)
    with pytest.raises(errors.UnknownStream):
        await desk.post("stream/replica/edit", path="/s", replica="/r", newreplica="/nowhere")
    with pytest.raises(errors.InvalidValue, match=r"-topics 'a\(' is no regular expression"):
        await desk.post("stream/replica/edit", path="/s", replica="/r", topics="a(")
    with pytest.raises(errors.InvalidValue, match="forward 'some': use one of all, own"):
        await desk.post("stream/replica/edit", path="/s", replica="/r", forward="some")


async def test_a_link_does_not_move_where_another_option_is_refused(desk: Desk) -> None:
    """A command is done whole or not at all."""
    for path in ("/s", "/r", "/r2"):
        await desk.post("stream/create", path=path)
    for path in ("/r", "/r2"):
        await desk.post("stream/upstream/add", path=path, upstream="/s")
    await desk.post("stream/replica/add", path="/s", replica="/r", paused=True)
    before = desk.cluster.links.all()
    for wrong in ({"topics": "a("}, {"forward": "some"}, {"prefix": "a/"}, {"cursors": "a("}):
        with pytest.raises((errors.InvalidValue, errors.InvalidName)):
            await desk.post("stream/replica/edit", path="/s", replica="/r", newreplica="/r2", **wrong)
        assert desk.cluster.links.all() == before
    await desk.post("stream/replica/edit", path="/s", replica="/r", newreplica="/r2", topics="a")
    (link,) = desk.cluster.links.all()
    assert (link.replica_path.path, link.topics) == ("/r2", "a")


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("stream/replica/edit", {"path": "/s", "replica": "/r", "topics": "\udcff"}),
        ("stream/cursor/delete", {"path": "/s", "consumergroup": "\udcff"}),
        ("job/cancel", {"id": "\udcff"}),
    ],
)
async def test_what_is_no_text_is_refused(desk: Desk, call: str, given: dict[str, str]) -> None:
    """JSON can say half a character; nothing could be written down of it."""
    for path in ("/s", "/r"):
        await desk.post("stream/create", path=path)
    await desk.post("stream/upstream/add", path="/r", upstream="/s")
    await desk.post("stream/replica/add", path="/s", replica="/r", paused=True)
    headers = {"content-type": "application/json"}
    answer = await desk.http.post(f"{desk.url}/rest/{call}", content=json.dumps(given), headers=headers)
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["code"]) == (400, "invalid_value")
    assert error["desc"].endswith("'\\udcff': is no UTF-8 text")


async def test_cluster_info_says_where_and_how_much(desk: Desk) -> None:
    """What `fairlead status` shows."""
    (row,) = await desk.get("cluster/info")
    assert (row["name"], row["kafka"], row["streams"], row["stopped"]) == ("sanfrancisco", ["127.0.0.1:9092"], 1, [])


BAD = [
    ("stream/info", {"path": "/nope"}, errors.UnknownStream, "/nope"),
    ("stream/info", {"path": "nope"}, errors.InvalidName, "starts with"),
    ("stream/info", {"path": "/a//b"}, errors.InvalidName, "empty"),
    ("stream/info", {}, errors.InvalidValue, "-path is missing"),
    ("stream/topic/info", {"path": "/default", "topic": "nope"}, errors.UnknownTopic, "nope"),
    ("stream/topic/info", {"path": "/default", "topic": "a b"}, errors.InvalidName, "a b"),
    ("stream/cursor/list", {"path": "/default", "partition": "0"}, errors.InvalidValue, "-topic"),
    ("stream/cursor/list", {"path": "/default", "topic": "nope"}, errors.UnknownTopic, "nope"),
    ("stream/failover/preview", {"path": "/default", "group": "g"}, errors.UnknownGroup, "g has committed nothing"),
    ("stream/info", {"path": "/mapr/lisbon/x"}, errors.UnknownCluster, "lisbon"),
    ("stream/replica/list", {"path": "/nope"}, errors.UnknownStream, "/nope"),
    ("stream/upstream/list", {"path": "/nope"}, errors.UnknownStream, "/nope"),
    ("copystream/status", {"src": "/default", "dst": "/x"}, errors.NotFound, "no copy"),
    ("copystream/list", {"path": "/nope"}, errors.UnknownStream, "/nope"),
]


@pytest.mark.parametrize(("path", "params", "kind", "said"), BAD)
async def test_a_wrong_question_is_refused_by_name(
    desk: Desk, path: str, params: dict[str, str], kind: type[Exception], said: str
) -> None:
    """The message names the thing."""
    with pytest.raises(kind, match=said):
        await desk.get(path, **params)


BAD_CHANGES = [
    ("stream/create", {"path": "/default"}, errors.AlreadyExists, "/default"),
    ("stream/create", {"path": "/x", "ttl": -1}, errors.InvalidValue, "ttl"),
    ("stream/create", {"path": "/x", "ttl": "soon"}, errors.InvalidValue, "-ttl"),
    ("stream/create", {"path": "/x", "compression": "zip"}, errors.InvalidValue, "compression"),
    ("stream/create", {"path": "/x", "autocreate": "maybe"}, errors.InvalidValue, "-autocreate"),
    ("stream/create", {"path": "/x", "nonsense": 1}, errors.InvalidValue, "-nonsense"),
    ("stream/create", {"path": "/x", "defaultpartitions": 5000}, errors.InvalidValue, "defaultpartitions"),
    ("stream/create", {"path": "/x", "copymetafrom": "/nope"}, errors.UnknownStream, "/nope"),
    ("stream/create", {"path": "/x:y"}, errors.InvalidName, ":"),
    ("stream/edit", {"path": "/nope", "ttl": 1}, errors.UnknownStream, "/nope"),
    ("stream/delete", {"path": "/nope"}, errors.UnknownStream, "/nope"),
    ("stream/delete", {"path": "/default"}, errors.InvalidValue, "default stream"),
    ("stream/expose", {"path": "/default", "port": 70000}, errors.InvalidValue, "-port"),
    ("stream/expose", {"path": "/default"}, errors.InvalidValue, "-port"),
    ("stream/expose", {"path": "/default", "remove": True}, errors.NotFound, "not exposed"),
    ("stream/topic/create", {"path": "/default", "topic": "t", "timestamptype": "x"}, errors.InvalidValue, "timestamp"),
    ("stream/topic/create", {"path": "/default", "topic": "t", "partitions": 0}, errors.InvalidValue, "partitions"),
    ("stream/topic/delete", {"path": "/default", "topic": "t"}, errors.UnknownTopic, "t"),
    ("stream/cursor/delete", {"path": "/default", "consumergroup": "g"}, errors.UnknownGroup, "g"),
    ("stream/replica/add", {"path": "/default", "replica": "/default"}, errors.NotAllowed, "itself"),
    ("stream/replica/add", {"path": "/default", "replica": "/mapr/lisbon/x"}, errors.UnknownCluster, "lisbon"),
    ("stream/replica/pause", {"path": "/default", "replica": "/r"}, errors.NotFound, "/r"),
    ("stream/replica/remove", {"path": "/default", "replica": "/r"}, errors.NotFound, "/r"),
    ("stream/replica/edit", {"path": "/default", "replica": "/r", "acceptwrites": True}, errors.NotFound, "/r"),
    ("stream/upstream/remove", {"path": "/default", "upstream": "/u"}, errors.NotFound, "/u"),
    ("stream/upstream/add", {"path": "/default", "upstream": "/default"}, errors.NotAllowed, "itself"),
    ("stream/upstream/add", {"path": "/default", "upstream": "/u", "peer": "x"}, errors.InvalidValue, "own, partner"),
    ("stream/upstream/add", {"path": "/default", "upstream": "/u", "origins": "ab"}, errors.InvalidValue, "-origins"),
    ("stream/upstream/edit", {"path": "/default", "upstream": "/u", "peer": "own"}, errors.NotFound, "/u"),
    ("copystream/allow", {"path": "/default", "from": "/u", "peer": "x"}, errors.InvalidValue, "own, partner"),
    ("copystream/start", {"src": "/default", "dst": "/default"}, errors.NotAllowed, "itself"),
    ("copystream/allow", {"path": "/nope", "from": "/default"}, errors.UnknownStream, "/nope"),
    ("copystream/allow", {"path": "/default", "from": "/default"}, errors.NotAllowed, "itself"),
    ("copystream/remove", {"path": "/default", "from": "/r"}, errors.NotFound, "/r"),
]


@pytest.mark.parametrize(("path", "params", "kind", "said"), BAD_CHANGES)
async def test_a_wrong_change_is_refused_by_name(
    desk: Desk, path: str, params: dict[str, object], kind: type[Exception], said: str
) -> None:
    """Nothing is done."""
    with pytest.raises(kind, match=said):
        await desk.post(path, **params)


async def test_what_is_there_already_is_refused(desk: Desk) -> None:
    """Topics, replicas and upstreams."""
    await desk.post("stream/create", path="/r")
    calls: dict[str, dict[str, Any]] = {
        "stream/topic/create": {"path": "/default", "topic": "t"},
        "stream/replica/add": {"path": "/default", "replica": "/r", "paused": True},
        "stream/upstream/add": {"path": "/r", "upstream": "/default"},
    }
    for path, params in calls.items():
        await desk.post(path, **params)
        with pytest.raises(errors.AlreadyExists):
            await desk.post(path, **params)


NOT_BUILT = [
    ("stream/create", {"ischangelog": "true"}),
    ("stream/create", {"consumeperm": "p"}),
    ("stream/create", {"mincompactionlag": "5"}),
    ("stream/edit", {"compact": "true"}),
    ("stream/edit", {"produceperm": "u:bob"}),
    ("stream/edit", {"deleteretention": "1"}),
    ("stream/replica/add", {"replica": "/r", "synchronous": "true"}),
    ("stream/replica/add", {"replica": "/r", "throttle": "true"}),
    ("stream/replica/add", {"replica": "/r", "networkencryption": "true"}),
    ("stream/replica/add", {"replica": "/r", "networkcompression": "lz4"}),
    ("stream/replica/autosetup", {"replica": "/r", "throttle": "true"}),
]


@pytest.mark.parametrize(("path", "params"), NOT_BUILT)
async def test_an_option_that_is_not_built_is_refused_never_ignored(
    desk: Desk, path: str, params: dict[str, str]
) -> None:
    """The message names it and says so."""
    with pytest.raises(errors.FairleadError, match="not implemented yet"):
        await desk.post(path, path="/default", **params)


async def test_the_defaults_of_options_that_are_not_built_are_accepted(desk: Desk) -> None:
    """Scripts that spell them out go on working."""
    await desk.post("stream/create", path="/a", ischangelog=False, compact="false", produceperm="u:tester")
    await desk.post("stream/create", path="/r", mincompactionlag=0, deleteretention=86400000)
    link = {"synchronous": "false", "throttle": False, "networkencryption": "FALSE", "networkcompression": "off"}
    await desk.post("stream/replica/add", path="/a", replica="/r", paused=True, **link)


@pytest.mark.parametrize(
    ("command", "params"),
    [
        ("stream/info", {"path": "/mapr/newyork/default"}),
        ("stream/list", {"path": "/mapr/newyork/default"}),
        ("stream/topic/list", {"path": "/mapr/newyork/default"}),
        ("stream/create", {"path": "/mapr/newyork/b"}),
        ("stream/create", {"path": "/b", "copymetafrom": "/mapr/newyork/default"}),
        ("stream/delete", {"path": "/mapr/newyork/default"}),
        ("stream/replica/list", {"path": "/mapr/newyork/default"}),
        ("copystream/start", {"src": "/mapr/newyork/default", "dst": "/default"}),
    ],
)
async def test_a_call_for_another_cluster_is_not_sent_on(command: str, params: dict[str, str]) -> None:
    """It was, to any address that the caller named, and the caller was given the answer. Whoever may call this server
    from a network would have called from this server into its network."""
    async with desks("sanfrancisco", "newyork") as (here, there):
        call = here.post if BY_PATH[f"/rest/{command}"].changes else here.get
        with pytest.raises(errors.UnknownCluster, match="sends no call on; ask that cluster"):
            await call(command, **params, clusters=json.dumps({"newyork": [there.url]}))
        assert [stream.path for stream in there.cluster.streams()] == ["/default"]
        assert [stream.path for stream in here.cluster.streams()] == ["/default"]


@pytest.mark.parametrize(
    ("command", "params"),
    [
        ("copystream/start", {"src": "/ships", "dst": "/mapr/lisbon/default"}),
    ],
)
async def test_a_server_of_another_cluster_than_named_is_refused(command: str, params: dict[str, str]) -> None:
    """An address book that is out of date must not put a replica into the wrong cluster."""
    async with desks("sanfrancisco", "newyork") as (here, there):
        await here.post("stream/create", path="/ships")
        await there.post("copystream/allow", **{"path": "/default", "from": "/mapr/sanfrancisco/ships"})
        with pytest.raises(errors.UnknownCluster, match="cluster newyork"):
            await here.post(command, **params, clusters={"lisbon": [there.url]})
        assert [stream.path for stream in there.cluster.streams()] == ["/default"]
        assert not there.cluster.links.upstreams(there.cluster.stream("/default").id)


async def test_whose_an_upstream_is_can_be_said_seen_and_changed(desk: Desk) -> None:
    """By itself it is one's own; with origins it is a partner."""
    ids = ["ab" * 16, "cd" * 16]
    await desk.post("stream/upstream/add", path="/default", upstream="/mapr/a/s")
    await desk.post("stream/upstream/add", path="/default", upstream="/mapr/b/s", peer="partner")
    await desk.post("stream/upstream/add", path="/default", upstream="/mapr/c/s", origins=", ".join(ids))

    async def listed() -> list[tuple[str, list[str]]]:
        rows = await desk.get("stream/upstream/list", path="/default")
        return [(row["peer"], row["origins"]) for row in rows]

    assert await listed() == [("own", []), ("partner", []), ("partner", ids)]
    with pytest.raises(errors.InvalidValue, match="origins are for -peer partner"):
        await desk.post("stream/upstream/edit", path="/default", upstream="/mapr/a/s", origins=ids[0])
    await desk.post("stream/upstream/edit", path="/default", upstream="/mapr/a/s", peer="partner", origins=ids[0])
    await desk.post("stream/upstream/edit", path="/default", upstream="/mapr/b/s", origins=ids[1])
    await desk.post("stream/upstream/edit", path="/default", upstream="/mapr/c/s", peer="own")
    assert await listed() == [("partner", ids[:1]), ("partner", ids[1:]), ("own", [])]


async def test_allowed_copies_are_listed_and_taken_back(desk: Desk) -> None:
    """By global paths; a path without a cluster is of this one."""
    await desk.post("stream/create", path="/r")
    for source in ("/mapr/newyork/ships", "/default"):
        await desk.post("copystream/allow", **{"path": "/r", "from": source})
    rows = await desk.get("copystream/list", path="/r")
    assert [row["from"] for row in rows] == ["/mapr/newyork/ships", "/mapr/sanfrancisco/default"]
    await desk.post("copystream/remove", **{"path": "/r", "from": "/default"})
    assert [row["from"] for row in await desk.get("copystream/list", path="/r")] == ["/mapr/newyork/ships"]
    await desk.post("stream/delete", path="/r")
    assert not [key for key in desk.cluster.meta.state.entries if key.startswith("allowed/")]


async def test_autosetup_makes_a_pair_of_masters(desk: Desk) -> None:
    """Links and upstreams both ways, each marked, and each takes what the other passes on. With `-paused`, or without a
    direct copy, nothing is sent before it is resumed."""
    await desk.post("stream/create", path="/a", ttl=77)
    (row,) = await desk.post(
        "stream/replica/autosetup", path="/a", replica="/b", multimaster=True, forward="own", directcopy="false"
    )
    assert [line.split()[0] for line in row["done"]] == ["created", "named", "named", "named", "named"]
    assert "fairlead stream replica resume -path /mapr/sanfrancisco/a -replica /mapr/sanfrancisco/b" in row["next"]
    for path, other in (("/a", "/b"), ("/b", "/a")):
        (link,) = await desk.get("stream/replica/list", path=path)
        (upstream,) = await desk.get("stream/upstream/list", path=path)
        assert (link["stream"], link["paused"], link["forward"], link["acceptWrites"]) == (other, True, "own", True)
        assert (upstream["upstream"], upstream["multimaster"]) == (f"/mapr/sanfrancisco{other}", True)
    with pytest.raises(errors.AlreadyExists):
        await desk.post("stream/replica/autosetup", path="/a", replica="/b", multimaster=True, useexistingreplica=True)
    await desk.post("stream/replica/autosetup", path="/a", replica="/c", multimaster=True, acceptwrites=False)
    links = await desk.get("stream/replica/list", path="/a")
    assert [(row["stream"], row["paused"], row["acceptWrites"]) for row in links] == [
        ("/b", True, True),
        ("/c", False, False),
    ]


async def test_a_replica_may_begin_now(desk: Desk) -> None:
    """Both ways in a pair of masters. It cannot be changed, nor be copied first."""
    await desk.post("stream/create", path="/a")
    for path in ("/b", "/c", "/d"):
        given = {"path": "/a", "replica": path, "from": "beginning" if path == "/b" else "now"}
        verb, more = ("add", {}) if path == "/d" else ("autosetup", {"multimaster": path == "/c"})
        if verb == "add":
            await desk.post("stream/create", path="/d")
        rows = await desk.post(f"stream/replica/{verb}", **given, **more)
        assert [("what is there is left out" in row["next"]) for row in rows] == [path == "/c"] * len(rows)
    shown = [*await desk.get("stream/replica/list", path="/a"), *await desk.get("stream/replica/list", path="/c")]
    assert [(row["stream"], row["from"], row["propagateExistingData"]) for row in shown] == [
        ("/b", "beginning", True),
        ("/c", "now", False),
        ("/d", "now", False),
        ("/a", "now", False),
    ]
    for refused, why in (
        ({"from": "then"}, "-from 'then': use one of beginning, now"),
        ({"from": "now", "directcopy": False}, "give one of them"),
    ):
        with pytest.raises(errors.InvalidValue, match=why):
            await desk.post("stream/replica/autosetup", path="/a", replica="/e", **refused)
    with pytest.raises(errors.InvalidValue, match="-from: unknown"):
        await desk.post("stream/replica/edit", **{"path": "/a", "replica": "/b", "from": "now"})


async def test_a_replica_that_is_there_is_set_up_and_kept(desk: Desk) -> None:
    """Also one that names its upstream already, which becomes a master. When a step fails, all is as it was."""
    for path in ("/a", "/b"):
        await desk.post("stream/create", path=path)
    await desk.post("stream/upstream/add", path="/b", upstream="/a")
    await desk.post("stream/upstream/add", path="/a", upstream="/b", peer="partner")
    given = {"path": "/a", "replica": "/b", "multimaster": True, "useexistingreplica": True}
    with pytest.raises(errors.AlreadyExists, match="cluster"):
        await desk.post("stream/replica/autosetup", **{**given, "useexistingreplica": False})
    with pytest.raises(errors.InvalidValue, match=r"/b is a partner, and no master .* marked .*\(taken back\)"):
        await desk.post("stream/replica/autosetup", **given)
    assert desk.cluster.links.all() == []
    (upstream,) = await desk.get("stream/upstream/list", path="/b")
    assert not upstream["multimaster"]
    await desk.post("stream/upstream/edit", path="/a", upstream="/b", peer="own")
    (row,) = await desk.post("stream/replica/autosetup", **given)
    assert [line.split()[0] for line in row["done"]] == ["named", "marked", "named", "marked"]
    with pytest.raises(errors.InvalidValue, match="/b is a partner"):
        await desk.post("stream/upstream/edit", path="/a", upstream="/b", peer="partner")


async def test_autosetup_to_another_cluster_does_this_one_s_part() -> None:
    """The caller has done the other's: the replica and its upstream. Before that, it is refused and makes nothing."""
    async with desks("sanfrancisco", "newyork") as (here, there):
        await here.post("stream/create", path="/ships", ttl=77)
        call = {"path": "/ships", "replica": "/mapr/newyork/ships", "clusters": {"newyork": [there.url]}}
        with pytest.raises(errors.UnknownStream):
            await here.post("stream/replica/autosetup", **call)
        await there.post("stream/create", path="/ships")
        with pytest.raises(errors.NotAgreed):
            await here.post("stream/replica/autosetup", **call)
        assert not here.cluster.links.all()
        await there.post("stream/upstream/add", path="/ships", upstream="/mapr/sanfrancisco/ships")
        (row,) = await here.post("stream/replica/autosetup", **call)
        assert row["done"] == ["named /mapr/newyork/ships a replica of /mapr/sanfrancisco/ships"]
        assert row["next"].startswith("there is nothing to copy yet, and what comes later follows")
        with pytest.raises(errors.AlreadyExists):
            await here.post("stream/replica/autosetup", **call)
