"""The load of commits: requests of a fixed rate with new offsets, and what it says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.load.commits import prepare
from benchmarks.load.raw import Refused

from tests.support.broker import run_broker


def test_commits_have_new_offsets_and_the_last_one_is_told(tmp_path: Path) -> None:
    """Of every topic, by several connections; one after the other goes on where the one before ended."""
    with run_broker(tmp_path / "data") as running:
        stream = running.cluster.stream("/default")
        for name in ("a", "b"):
            running.call(stream.create_topic(name, 1))
        load = {"bootstrap": running.bootstrap, "topics": ["a", "b"], "group": "g", "rate": 200, "connections": 3}
        first = prepare({**load, "seconds": 0.25})()
        assert (first["requests"], first["offset"], first["answered"]["count"]) == (50, 51, 50)
        second = prepare({**load, "seconds": 0.1, "first": first["offset"] + 1})()
        found = {topic.name: cursor.offset for topic, _, cursor in stream.committed("g")}
        assert found == dict.fromkeys("ab", second["offset"])


def test_a_commit_that_is_refused_fails_the_load(tmp_path: Path) -> None:
    with run_broker(tmp_path / "data") as running:
        load = {"bootstrap": running.bootstrap, "topics": ["not-there"], "group": "g", "rate": 10, "seconds": 0.1}
        with pytest.raises(Refused, match="not-there"):
            prepare(load)()
