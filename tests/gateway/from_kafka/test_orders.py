"""What people can say of Kafka clusters whose topics a stream keeps, without a Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.desk import Desk, desks
from tests.kafka.fake_broker import fake_broker
from tests.support.mirrors import properties
from tests.support.waiting import until

from fairlead.cluster.values import KafkaUpstream
from fairlead.kafka.connecting.versions import METADATA
from fairlead.model import errors

SET_UP = "stream/replica/autosetup"


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with desks("ny") as (found,):
        yield found


def given(file: Path | str, **more: Any) -> dict[str, Any]:
    """The parameters of a call that sets one up."""
    return {"path": "kafka://old", "replica": "/x", "topics": "ships", "consumerconfig": str(file), **more}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"topics": None}, "-topics is missing"),
        ({"consumerconfig": None}, "-consumerconfig is missing"),
        ({"consumerconfig": "old.properties"}, "give an absolute path"),
        ({"consumerconfig": "/nowhere/old.properties"}, "/nowhere/old.properties: No such file"),
        ({"multimaster": "true"}, "-multimaster: not of a Kafka cluster"),
        ({"prefix": "a."}, "-prefix: not of a Kafka cluster"),
        ({"from": "now"}, "-from: not of a Kafka cluster"),
        ({"path": "kafka://"}, "write kafka://NAME"),
        ({"path": "kafka://a/b"}, "write kafka://NAME"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_made(
    desk: Desk, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    """By a message that names the option."""
    file = properties(tmp_path / "old.properties", "127.0.0.1:1")
    with pytest.raises(errors.FairleadError, match=why):
        await desk.post(SET_UP, **given(file, **more))
    with pytest.raises(errors.UnknownStream):
        desk.cluster.stream("/x")


async def test_a_kafka_cluster_s_options_are_refused_elsewhere(desk: Desk) -> None:
    """And its name where only a stream can stand."""
    await desk.post("stream/create", path="/x")
    with pytest.raises(errors.InvalidValue, match="-deletes: only of a Kafka cluster"):
        await desk.post(SET_UP, path="/x", replica="/y", deletes="follow")
    with pytest.raises(errors.InvalidValue, match="set it up by `stream replica autosetup`"):
        await desk.post("stream/replica/add", path="kafka://old", replica="/x")
    with pytest.raises(errors.InvalidValue, match="use `stream replica autosetup`"):
        await desk.post("stream/upstream/add", path="/x", upstream="kafka://old")
    with pytest.raises(errors.InvalidName):
        await desk.post("stream/create", path="kafka://old")
    for verb in ("pause", "resume", "remove"):
        with pytest.raises(errors.NotFound, match="kafka://old is no upstream"):
            await desk.post(f"stream/replica/{verb}", path="kafka://old", replica="/x")
    with pytest.raises(errors.NotFound, match="no stream of cluster ny keeps topics of kafka://old"):
        await desk.get("stream/replica/list", path="kafka://old")


async def test_its_life_in_commands(desk: Desk, tmp_path: Path) -> None:
    """Nothing of the file but its path is kept, or shown."""
    async with fake_broker() as broker:
        broker.add_topic("ships", 2)
        file = properties(tmp_path / "old.properties", broker.bootstrap, sasl_jaas_config="secret")
        (made,) = await desk.post(SET_UP, **given(file, paused="true"))
        assert made["replicaPath"] == "/mapr/ny/x"
        assert "named kafka://old (Kafka cluster fake) an upstream" in str(made["done"])
        with pytest.raises(errors.AlreadyExists, match="-useexistingreplica true"):
            await desk.post(SET_UP, **given(file))
        with pytest.raises(errors.AlreadyExists, match="is an upstream already"):
            await desk.post(SET_UP, **given(file, useexistingreplica="true"))
        with pytest.raises(errors.AlreadyExists, match="is an upstream already, as kafka://old"):
            await desk.post(SET_UP, **given(file, useexistingreplica="true", path="kafka://other"))
        assert desk.cluster.stream("/x").is_copy
        (upstream,) = await desk.get("stream/upstream/list", path="/x")
        assert (upstream["upstream"], upstream["peer"]) == ("kafka://old", "kafka")
        place = {"path": "kafka://old", "replica": "/x"}
        await desk.post("stream/replica/pause", **place)
        await desk.post(
            "stream/replica/edit", **place, topics="a.*", excludetopics="ab", cursors="none", deletes="follow"
        )
        (row,) = await desk.get("stream/replica/list", path="kafka://old")
        shown = [row[each] for each in ("paused", "topics", "excludeTopics", "cursors", "deletes", "configFile")]
        assert shown == [True, "a.*", "ab", "none", "follow", str(file)]
        for wrong in ({"deletes": "never"}, {"topics": "("}, {"forward": "own"}):
            with pytest.raises(errors.InvalidValue):
                await desk.post("stream/replica/edit", **place, **wrong)
        assert "secret" not in str(dict(desk.cluster.meta.state.entries)) + str(row)
        text = (await desk.http.get(f"{desk.url}/metrics")).text
        assert 'fairlead_kafka_upstream_diverged{kafka="kafka://old",replica="/mapr/ny/x"} 0.0' in text
        assert 'fairlead_kafka_upstream_paused{kafka="kafka://old",replica="/mapr/ny/x"} 1.0' in text
        await desk.post("stream/upstream/remove", path="/x", upstream="kafka://old")
        assert not desk.cluster.stream("/x").is_copy


async def test_another_file_is_read_at_once(desk: Desk, tmp_path: Path) -> None:
    """Who was reached by the one before is asked nothing any more. One that leads to another cluster, or that nobody
    can read, is refused, and all stays as it is."""
    async with fake_broker() as before, fake_broker() as now, fake_broker() as another:
        another.next(METADATA, *[lambda _: {"brokers": [], "cluster_id": "another", "topics": []}] * 2)
        files = {name: properties(tmp_path / name, at.bootstrap) for name, at in (("before", before), ("now", now))}
        await desk.post(SET_UP, **given(files["before"], cursors="none"))
        await until(lambda: any(running.known.heard_ms for running in desk.upstreams))
        place = {"path": "kafka://old", "replica": "/x"}
        for wrong in (properties(tmp_path / "another", another.bootstrap), tmp_path / "nowhere"):
            with pytest.raises(errors.InvalidValue):
                await desk.post("stream/replica/edit", **place, consumerconfig=str(wrong))
        assert before.serving
        await desk.post("stream/replica/edit", **place, consumerconfig=str(files["now"]))
        await until(lambda: not before.serving)
        await until(lambda: now.serving)
        (row,) = await desk.get("stream/replica/list", path="kafka://old")
        assert row["configFile"] == str(files["now"])


async def test_another_file_is_read_while_nobody_answers_by_the_one_before(desk: Desk, tmp_path: Path) -> None:
    """A question that is under way waits as long as the file said. The same file is read again if a command names it:
    it may say something else by now."""
    async with fake_broker() as before, fake_broker() as now:
        old = properties(tmp_path / "old", before.bootstrap, request_timeout_ms="3600000")
        await desk.post(SET_UP, **given(old, cursors="none"))
        (running,) = desk.upstreams
        await until(lambda: running.known.heard_ms)
        before.answering.clear()
        running.wake()
        await until(lambda: before.unanswered)
        place = {"path": "kafka://old", "replica": "/x"}
        await desk.post("stream/replica/edit", **place, consumerconfig=str(properties(tmp_path / "new", now.bootstrap)))
        await until(lambda: now.serving and not before.serving)
        before.answering.set()
        properties(tmp_path / "new", before.bootstrap)
        await desk.post("stream/replica/edit", **place, consumerconfig=str(tmp_path / "new"))
        await until(lambda: before.serving and not now.serving)


async def test_a_pause_is_felt_while_kafka_does_not_answer(desk: Desk, tmp_path: Path) -> None:
    """Nothing is asked any more."""
    async with fake_broker() as broker:
        file = properties(tmp_path / "old", broker.bootstrap, request_timeout_ms="3600000")
        await desk.post(SET_UP, **given(file, cursors="none"))
        (running,) = desk.upstreams
        await until(lambda: running.known.heard_ms)
        broker.answering.clear()
        running.wake()
        await until(lambda: broker.unanswered)
        await desk.post("stream/replica/pause", path="kafka://old", replica="/x")
        await until(lambda: not broker.serving)


async def test_one_that_cannot_be_reached_is_shown_as_failing(desk: Desk, tmp_path: Path) -> None:
    """In the list and by /health; another cluster behind the same file is told by both ids."""
    stream = await desk.cluster.create_stream("/x", desk.cluster.stream("/default").settings)
    async with fake_broker() as broker:
        file = properties(tmp_path / "old.properties", broker.bootstrap)
        record = KafkaUpstream(stream.id, "old", b"l" * 16, str(file), "the-one", "ships", created_at=1)
        await desk.cluster.kafka.add(record)
        (running,) = desk.upstreams
        await until(lambda: running.error is not None)
        (row,) = await desk.get("stream/replica/list", path="kafka://old")
        assert "the Kafka cluster fake answers there, and not the-one" in row["errors"]["Msg"]
        health = (await desk.http.get(f"{desk.url}/health")).json()
        assert health["status"] == "degraded"
        assert "link kafka://old to /mapr/ny/x: " in health["reasons"][0]
        await desk.post("stream/delete", path="/x")
        assert not desk.cluster.kafka.all()
