"""Commands that concern two clusters: the command line asks both, no server sends a call on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.desk import CommandLine
from tests.support.sites import Site


@pytest.fixture(scope="module")
def newyork(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Another server without a replicator."""
    found = Site("newyork", tmp_path_factory.mktemp("two-clusters"))
    found.start("server")
    yield found
    found.stop()


@pytest.fixture
def both(fairlead: CommandLine, newyork: Site) -> CommandLine:
    """A command line that knows both; the first is sanfrancisco."""
    fairlead.ok(f"cluster add -http {newyork.url}")
    return fairlead


def autosetup(name: str, cluster: str = "newyork") -> str:
    return f"stream replica autosetup -path /{name} -replica /mapr/{cluster}/{name}"


def test_autosetup_does_each_cluster_s_part_there(both: CommandLine) -> None:
    """The replica with the source's settings, the upstream, the link."""
    both.ok("stream create -path /set -ttl 77")
    lines = both.ok(autosetup("set")).out.splitlines()
    assert lines[:3] == [
        "created /mapr/newyork/set with the settings of /mapr/sanfrancisco/set",
        "named /mapr/sanfrancisco/set an upstream of /mapr/newyork/set",
        "named /mapr/newyork/set a replica of /mapr/sanfrancisco/set",
    ]
    assert "no replicator is connected" in lines[3] or "starts Spark first" in lines[3]
    (row,) = both.ok("stream info -path /mapr/newyork/set -json").json["data"]
    assert row["ttl"] == 77
    (row,) = both.ok("stream upstream list -path /mapr/newyork/set -json").json["data"]
    assert row["upstream"] == "/mapr/sanfrancisco/set"
    both.refused(autosetup("set"), "exists in cluster newyork")
    both.ok("stream replica remove -path /set -replica /mapr/newyork/set --yes")


def test_a_step_that_fails_takes_the_others_back(both: CommandLine) -> None:
    """The error says what became of each, and nothing is left."""
    both.ok("stream create -path /back")
    both.ok("stream replica add -path /back -replica /mapr/newyork/back -paused true")
    done = both(autosetup("back"))
    assert done.code == 1
    assert "is a replica of /back already; done before: created /mapr/newyork/back" in done.err
    assert done.err.count("(taken back)") == 2
    both.refused("stream info -path /mapr/newyork/back", "does not exist")
    both.ok("stream replica remove -path /back -replica /mapr/newyork/back --yes")


def test_an_address_of_another_cluster_is_noticed(
    both: CommandLine, newyork: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An address book that is out of date must not put a replica into the wrong cluster."""
    both.ok("stream create -path /wrong")
    book = tmp_path / "old.toml"
    known = (tmp_path / "clusters.toml").read_text()
    book.write_text(known.replace("newyork", "lisbon"))
    monkeypatch.setenv("FAIRLEAD_CLUSTERS", str(book))
    both.refused(autosetup("wrong", "lisbon"), "this is cluster newyork, not lisbon")
    monkeypatch.undo()
    assert httpx.get(f"{newyork.url}/rest/stream/info", params={"path": "/wrong"}).status_code == 404


def test_settings_come_from_a_stream_of_another_cluster(both: CommandLine) -> None:
    """What is given beside them stands above them."""
    both.ok("stream create -path /like -ttl 99 -defaultpartitions 3")
    both.ok("stream create -path /mapr/newyork/like -copymetafrom /like -ttl 98")
    (row,) = both.ok("stream info -path /mapr/newyork/like -json").json["data"]
    assert (row["ttl"], row["defaultpartitions"]) == (98, 3)
