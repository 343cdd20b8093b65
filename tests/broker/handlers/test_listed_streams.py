"""What a list of all topics has."""

from __future__ import annotations

import pytest
from tests.broker.handlers.asking import Asker, asking, versions

METADATA, LOG_DIRS, RESOURCES, TOPIC_PARTITIONS = 3, 35, 74, 75


async def metadata(asker: Asker, version: int, **wanted: bool) -> list[str]:
    operations = {"include_topic_authorized_operations": wanted.get("operations", False)}
    if 8 <= version <= 10:
        operations["include_cluster_authorized_operations"] = False
    fields = {"allow_auto_topic_creation": False} if version >= 4 else {}
    everything: list[str] | None = [] if version == 0 else None
    answer = await asker.ask(METADATA, version, topics=everything, **fields, **(operations if version >= 8 else {}))
    assert all(topic.error_code == 0 and len(topic.partitions) == 2 for topic in answer.topics)
    return [topic.name for topic in answer.topics]


async def every_list(asker: Asker) -> list[list[str]]:
    """The names in each of them."""
    pages = await asker.ask(TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=100, cursor=None)
    resources = await asker.ask(RESOURCES, 1, resource_types=[2])
    directories = await asker.ask(LOG_DIRS, 4, topics=None)
    return [
        await metadata(asker, 13, operations=True),
        [topic.name for topic in pages.topics],
        [found.resource_name for found in resources.config_resources],
        [topic.name for directory in directories.results for topic in directory.topics],
    ]


@pytest.mark.parametrize("version", versions(METADATA))
async def test_the_main_listener_lists_all_streams_if_a_setting_says_so(version: int) -> None:
    """By the names that they have there, so a client may go on with them; also after some came and went."""
    async with asking(listed_streams="all") as asker:
        assert await metadata(asker, version) == ["a", "/ships:a"]
        await asker.cluster.stream("/ships").create_topic("b", 2)
        await asker.cluster.stream("/default").delete_topic("a")
        assert sorted(await metadata(asker, version)) == ["/ships:a", "/ships:b"]
        assert await metadata(asker.on_stream("/ships"), version) == ["a", "b"]
        await asker.cluster.delete_stream("/default")
        assert sorted(await metadata(asker, version)) == ["/ships:a", "/ships:b"]


async def test_every_list_of_all_topics_has_the_same() -> None:
    async with asking(listed_streams="all") as asker:
        assert [sorted(names) for names in await every_list(asker)] == 4 * [["/ships:a", "a"]]
    async with asking() as asker:
        assert await every_list(asker) == 4 * [["a"]]
        assert await every_list(asker.on_stream("/ships")) == 4 * [["a"]]
