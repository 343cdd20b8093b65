"""Lines of the server's log about owners: few, however many topics there are."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests.support.waiting import until

from fairlead.cluster import owner_log
from fairlead.cluster.owner_log import OwnerLog
from fairlead.streamlog.writing.news import LogCut, News, OwnerChanged

HERE, THERE, AWAY = b"h" * 16, b"t" * 16, b"a" * 16


async def test_a_takeover_of_many_topics_is_one_line() -> None:
    """With the first few names and how many there were, though it came in many commits."""
    told = OwnerLog(HERE, "/ships")
    with capture_logs() as logs:
        for first in range(0, 50_000, 50):
            numbers = range(first, first + 50)
            told.tell([OwnerChanged(f"box-{each}", AWAY, HERE, "/mapr/sf/ships", each + 1) for each in numbers])
        told.flush()
    names = [f"box-{each} (epoch {each + 1})" for each in range(5)]
    expected = {"stream": "/ships", "topics": names, "total": 50_000, "owner": "/mapr/sf/ships", "log_level": "info"}
    assert logs == [{"event": "topics are owned here now", **expected}]


async def test_who_has_gone_who_is_new_and_what_was_cut_are_told_apart() -> None:
    """An owner whose path is not known is told by its id."""
    told = OwnerLog(HERE, "/ships")
    news: list[News] = [
        OwnerChanged("mine", HERE, THERE, "/mapr/ny/ships", 4),
        OwnerChanged("theirs", AWAY, THERE, "", 5),
        LogCut("mine", 2, 100, 4, "takeover"),
    ]
    with capture_logs() as logs:
        told.tell(news)
        told.tail_copied("mine", 2, "mine.diverged.sf.0", 7)
        told.flush()
    assert [(line["event"], line["topics"]) for line in logs] == [
        ("topics have gone to another owner", ["mine (epoch 4)"]),
        ("topics have another owner", ["theirs (epoch 5)"]),
        ("logs are cut", ["mine partition 2 at 100 (by epoch 4)"]),
        ("diverged records are copied", ["mine partition 2 into mine.diverged.sf.0"]),
    ]
    assert [logs[1]["owner"], logs[2]["reason"], logs[3]["records"]] == [THERE.hex(), "takeover", 7]


async def test_what_is_put_aside_is_told_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the owner is away producers go on; the log is not filled with that."""
    monkeypatch.setattr(owner_log, "GATHERED_SECONDS", 0.01)
    told = OwnerLog(HERE, "/ships")
    with capture_logs() as logs:
        told.put_aside("box", "box.pending.ny", 3)
        told.put_aside("box", "box.pending.ny", 4)
        told.put_aside("ports", "ports.pending.ny", 1)
        await until(lambda: len(logs) == 1)
        told.put_aside("box", "box.pending.ny", 5)
        assert len(logs) == 1
        told.flush()
    assert [(line["event"], line["topics"], line["total"], line["records"]) for line in logs] == [
        ("records are put aside", ["box into box.pending.ny", "ports into ports.pending.ny"], 2, 8),
        ("records are put aside", ["box into box.pending.ny"], 1, 5),
    ]


async def test_dropped_records_are_told_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line waits; what came meanwhile is counted in it, for each link."""
    monkeypatch.setattr(owner_log, "GATHERED_SECONDS", 0.01)
    told = OwnerLog(HERE, "/ships")
    with capture_logs() as logs:
        told.superseded(AWAY, 3)
        told.superseded(AWAY, 4)
        await until(lambda: len(logs) == 1)
        told.superseded(AWAY, 1)
        told.superseded(THERE, 2)
        assert len(logs) == 1
        told.flush()
    assert [(line["link"], line["records"]) for line in logs] == [(AWAY.hex(), 7), (AWAY.hex(), 1), (THERE.hex(), 2)]
