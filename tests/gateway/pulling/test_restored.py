"""Whose history a topic gets that was restored from a backup, of what its neighbours say that they hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.streamlog.ownership.sites import A, fresh, topic_of, wrote
from tests.streamlog.world import made

from fairlead.gateway.pulling.comparing import Common
from fairlead.gateway.pulling.restored import Plan, Source, planned
from fairlead.streamlog.payloads import History
from fairlead.wire.neighbours import HeldPartition


def source(name: str, *, end: int, common: int = 2, epoch: int = 0, history: History = ((0, 0),)) -> Source:
    """A neighbour that holds the partition up to `end`, and below `common` the same as this site."""
    neighbour: Any = name
    return Source(neighbour, Common(HeldPartition(held=True, epoch=epoch, history=history, end=end), common))


def plan_of(*sources: Source) -> Plan | None:
    """What becomes of a topic of two records, of which these neighbours say so."""
    log = fresh(A)
    made(log)
    wrote(log, b"0", b"1")
    topic = topic_of(log)
    shard = SimpleNamespace(state=log.announced.state)
    stream: Any = SimpleNamespace(by_incarnation=lambda _: (shard, topic))
    return planned(stream, topic.incarnation, {(topic.incarnation, 0): sources})


@pytest.mark.parametrize(
    "best",
    [
        source("newark", end=9),
        source("newark", end=5, history=((0, 0), (3, 4))),
        source("newark", end=3, epoch=7, history=((0, 0),)),
    ],
    ids=["the longest", "of the latest epoch", "of the latest owner"],
)
def test_of_several_histories_the_longest_counts(best: Source) -> None:
    """A later owner's, then that with a later epoch, then that which goes further: whoever says so first or last."""
    shorter = source("boston", end=6)
    for sources in ((shorter, best), (best, shorter)):
        plan = plan_of(*sources)
        assert plan is not None
        assert plan.better == {0: best}


def test_who_holds_no_more_than_is_here_changes_nothing() -> None:
    """Nor does one that has not heard of the present owner: a link brings it to what is here."""
    assert plan_of(source("boston", end=2), source("newark", end=1, common=1)) is None
    assert plan_of(source("boston", end=9, epoch=-1)) is None
