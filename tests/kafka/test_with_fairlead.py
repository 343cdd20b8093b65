"""The client beside Fairlead's own server."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.kafka import EARLIEST, LATEST, OffsetAndEpoch, TopicPartition
from fairlead.model.errors import AlreadyExists, BadRequest, InvalidValue, TryAgain
from tests.interop.site import Site
from tests.kafka.client import batch, fetching, opened, producing, values_of


async def test_what_was_produced_is_fetched_in_order(site: Site) -> None:
    """Three partitions side by side, each with an order of its own."""
    site.make_topic("ordered", 3)
    places = [TopicPartition("ordered", number) for number in range(3)]
    async with opened(site.of_stream) as cluster, producing(await cluster.producer()) as producer:
        sent = [producer.send("ordered", number % 3, batch(b"%d" % number)) for number in range(30)]
        assert await asyncio.gather(*sent) == [number // 3 for number in range(30)]
        for place in places:
            async with fetching(cluster.fetcher()) as fetcher:
                fetcher.assign(place, 0)
                wanted = [b"%d" % number for number in range(place.partition, 30, 3)]
                assert await values_of(fetcher, 10) == wanted
                assert fetcher.position(place) == 10
                assert fetcher.down is None


async def test_ends_beginnings_and_times_are_told(site: Site) -> None:
    """A time behind the last record is the end."""
    site.make_topic("ends", 2)
    one, other = TopicPartition("ends", 0), TopicPartition("ends", 1)
    async with opened(site.of_stream) as cluster, producing(await cluster.producer()) as producer:
        await producer.send("ends", 0, batch(b"a", b"b"))
        assert {p: o.offset for p, o in (await cluster.offsets([one, other], EARLIEST)).items()} == {one: 0, other: 0}
        assert {p: o.offset for p, o in (await cluster.offsets([one, other], LATEST)).items()} == {one: 2, other: 0}
        assert (await cluster.offsets([one], 1_600_000_000_000))[one].offset == 0
        assert (await cluster.offsets([one], 1_800_000_000_000))[one].offset == 2


async def test_topics_are_made_described_and_widened(site: Site) -> None:
    async with opened(site.of_stream) as cluster:
        await cluster.create_topic("made", 2, {"retention.ms": "-1"})
        with pytest.raises(AlreadyExists, match="made: TOPIC_ALREADY_EXISTS"):
            await cluster.create_topic("made", 2)
        await cluster.create_partitions("made", 4)
        with pytest.raises(InvalidValue, match="made: INVALID_PARTITIONS"):
            await cluster.create_partitions("made", 3)
        topics = await cluster.topics(["made", "missing"])
        assert topics.keys() == {"made"}
        assert len(topics["made"].partitions) == 4
        assert len(topics["made"].topic_id) == 16
        assert "made" in await cluster.topics()
        assert "cleanup.policy" in (await cluster.describe_configs(["made"]))["made"]


async def test_a_group_without_members_has_its_offsets(site: Site) -> None:
    site.make_topic("grouped", 2)
    one, other = TopicPartition("grouped", 0), TopicPartition("grouped", 1)
    async with opened(site.of_stream) as cluster:
        assert await cluster.committed("nobody", [one, other]) == {}
        await cluster.commit("g", {one: OffsetAndEpoch(0, 0, "what I wrote")})
        assert await cluster.committed("g", [one, other]) == {one: OffsetAndEpoch(0, 0, "what I wrote")}


async def test_all_groups_are_listed_with_all_that_they_have_committed(site: Site) -> None:
    site.make_topic("listed", 2)
    one, other = TopicPartition("listed", 0), TopicPartition("listed", 1)
    async with opened(site.of_stream) as cluster:
        for number in range(3):
            await cluster.commit(f"listed-{number}", {one: OffsetAndEpoch(0), other: OffsetAndEpoch(0)})
        groups = {name: each for name, each in (await cluster.groups()).items() if name.startswith("listed-")}
        assert {each.state for each in groups.values()} == {"Empty"}
        found = await cluster.all_committed({name: each.node for name, each in groups.items()})
        assert [found[name].keys() for name in groups] == [{one, other}] * 3  # type: ignore[union-attr]


async def test_settings_of_topics_are_changed_and_what_is_refused_is_told(site: Site) -> None:
    """The others are changed all the same."""
    for name in ("altered", "refused"):
        site.make_topic(name)
    async with opened(site.of_stream) as cluster:
        refused = await cluster.alter_configs({"altered": {"retention.ms": "5000"}, "refused": {"no.such": "1"}})
        assert set(refused) == {"refused"}
        configs = await cluster.describe_configs(["altered"])
        assert (configs["altered"]["retention.ms"].value, configs["altered"]["retention.ms"].own) == ("5000", True)
        assert not await cluster.alter_configs({"altered": {"retention.ms": None}})
        assert not (await cluster.describe_configs(["altered"]))["altered"]["retention.ms"].own
        with pytest.raises(BadRequest, match="SECURITY_DISABLED"):
            await cluster.acls()


async def test_a_cluster_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(TryAgain, match=r"broker 127\.0\.0\.1:1"):
        async with opened("127.0.0.1:1", request_timeout_ms=50):
            pass
