"""The registry of producers, as a mirror reads it at its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from tests.mirror.fake import FakeCluster

from fairlead.mirror.books.origins import Origins, registry_record
from fairlead.mirror.names import REGISTRY
from fairlead.mirror.ports import Topic
from fairlead.protocol.batch import build_batch


def enter(cluster: FakeCluster, producer_id: int) -> None:
    """Of a mirror that brings records of `b`."""
    cluster.made[REGISTRY].logs[0].append(build_batch([registry_record(producer_id, "b", "m")]))


async def test_a_registry_that_a_broker_does_not_know_for_a_moment_is_not_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once something was read of it. Else what came from the destination would go back there, for ever."""
    source = FakeCluster("a")
    origins = Origins(source, "b")
    await origins.learn([1])
    assert origins.of(1) == "a"
    source.make(REGISTRY)
    enter(source, 2)
    await origins.learn([2])
    enter(source, 3)
    topics, unknown = source.topics, [2]

    async def not_all(names: Iterable[str] | None) -> Mapping[str, Topic]:
        unknown[0] -= unknown[0] > 0
        return {} if unknown[0] else await topics(names)

    monkeypatch.setattr(source, "topics", not_all)
    await origins.learn([3])
    assert [origins.of(number) for number in (1, 2, 3)] == ["a", None, None]
