"""Commands that concern two clusters: the command line asks both, no server sends a call on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.calls import call
from fairlead.cli.two_clusters import outlook, set_up
from fairlead.client.admin import Envelope
from fairlead.client.command import Command
from fairlead.model.errors import NotAllowed, Unanswered
from tests.cli.desk import CommandLine
from tests.support import http_calls
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


def links(both: CommandLine, path: str) -> list[tuple[str, bool, bool]]:
    """The replicas of a stream: where, whether paused, whether writes are taken from it."""
    rows = both.ok(f"stream replica list -path {path} -json").json["data"]
    return [(row["replicaPath"], row["paused"], row["acceptWrites"]) for row in rows]


def masters(both: CommandLine, path: str) -> list[str]:
    """The upstreams of a stream that are marked."""
    rows = both.ok(f"stream upstream list -path {path} -json").json["data"]
    return [row["upstream"] for row in rows if row["multimaster"]]


def take_down(both: CommandLine, name: str) -> None:
    """Leave no link that nobody carries."""
    here, there = f"/mapr/sanfrancisco/{name}", f"/mapr/newyork/{name}"
    both.ok(f"stream replica remove -path {here} -replica {there} --yes")
    both.ok(f"stream replica remove -path {there} -replica {here} --yes")


def test_one_command_makes_a_pair_of_masters(both: CommandLine) -> None:
    """Both links, which take each other's writes, and both upstreams, marked; the way back goes last."""
    both.ok("stream create -path /pair -ttl 77")
    lines = both.ok(autosetup("pair") + " -multimaster true").out.splitlines()
    assert lines[:5] == [
        "created /mapr/newyork/pair with the settings of /mapr/sanfrancisco/pair",
        "named /mapr/sanfrancisco/pair an upstream of /mapr/newyork/pair",
        "named /mapr/sanfrancisco/pair a replica of /mapr/newyork/pair",
        "named /mapr/newyork/pair an upstream of /mapr/sanfrancisco/pair",
        "named /mapr/newyork/pair a replica of /mapr/sanfrancisco/pair",
    ]
    assert links(both, "/mapr/sanfrancisco/pair") == [("/mapr/newyork/pair", False, True)]
    assert links(both, "/mapr/newyork/pair") == [("/mapr/sanfrancisco/pair", False, True)]
    assert masters(both, "/pair") == ["/mapr/newyork/pair"]
    assert masters(both, "/mapr/newyork/pair") == ["/mapr/sanfrancisco/pair"]
    take_down(both, "pair")


def test_masters_are_made_whole_or_not_at_all(both: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step fails, or Ctrl-C comes before it: nothing is left at either cluster, and each step is told of."""
    both.ok("stream create -path /whole")
    raised: list[BaseException] = []

    def failing(command: Command, params: Mapping[str, Any], cluster: str | None = None) -> Envelope:
        if command.verb == "resume":
            raise raised[-1]
        return call(command, params, cluster)

    monkeypatch.setattr(set_up, "call", failing)
    for error, code in ((NotAllowed("not today"), 1), (KeyboardInterrupt(), 130)):
        raised.append(error)
        done = both(autosetup("whole") + " -multimaster true")
        assert (done.code, done.err.count("(taken back)")) == (code, 4 if code == 1 else 5)
        both.refused("stream info -path /mapr/newyork/whole", "does not exist")
        assert links(both, "/whole") == []
        assert both.ok("stream upstream list -path /whole -json").json["data"] == []


@pytest.mark.parametrize("masters", [False, True])
def test_a_source_whose_answer_was_lost_keeps_its_replica(
    both: CommandLine, monkeypatch: pytest.MonkeyPatch, masters: bool
) -> None:
    """If it has done its part, all is set up. If it has not, it may do it yet, so the replica is not deleted, and what
    is there is told."""
    name, there = f"lost{masters}", f"/mapr/newyork/lost{masters}"
    line = autosetup(name) + f" -multimaster {masters}"
    both.ok(f"stream create -path /{name}")

    def losing(command: Command, params: Mapping[str, Any], cluster: str | None = None) -> Envelope:
        if command.verb != "autosetup":
            return call(command, params, cluster)
        if arrives:
            call(command, params, cluster)
        raise Unanswered("http://x: no answer; it may be done all the same")

    monkeypatch.setattr(set_up, "call", losing)
    for arrives in (False, True):
        done = both(line)
        assert both.ok(f"stream info -path {there} -json").json["data"]
        assert [link[0] for link in links(both, f"/{name}")] == [there] * arrives
        if arrives:
            assert (done.code, done.err) == (0, "")
            assert "its answer was lost, and the link is there" in done.out
        else:
            assert (done.code, "nothing is taken back of what was done before: created" in done.err) == (1, True)
            both.ok(f"stream delete -path {there} --yes")
    if masters:
        assert links(both, there) == [(f"/mapr/sanfrancisco/{name}", False, True)]
        both.ok(f"stream replica remove -path {there} -replica /mapr/sanfrancisco/{name} --yes")
    both.ok(f"stream replica remove -path /{name} -replica {there} --yes")


def test_what_can_never_be_in_step_is_not_waited_for(both: CommandLine) -> None:
    """The source has a link to a replica that is not there any more, so it refuses, and the new one is taken back."""
    both.ok("stream create -path /gone")
    both.ok("stream replica add -path /gone -replica /mapr/newyork/gone -paused true")
    done = both(autosetup("gone") + " --wait --timeout 2")
    assert (done.code, "is a replica of /gone already" in done.err) == (1, True)
    assert "waits" not in done.err
    assert "not in step" not in done.err
    both.ok("stream replica remove -path /gone -replica /mapr/newyork/gone --yes")


def test_a_replica_that_is_there_becomes_a_master(both: CommandLine) -> None:
    """A pair of one way is made one of both by setting up the way back; a failed step keeps what was there."""
    both.ok("stream create -path /grown")
    both.ok(autosetup("grown"))
    way_back = "stream replica autosetup -path /mapr/newyork/grown -replica /mapr/sanfrancisco/grown"
    both.refused(way_back, "exists in cluster sanfrancisco")
    assert both.ok("stream info -path /grown -json").json["data"]
    lines = both.ok(f"{way_back} -useexistingreplica true -paused true").out.splitlines()
    assert lines[:2] == [
        "named /mapr/newyork/grown an upstream of /mapr/sanfrancisco/grown",
        "named /mapr/sanfrancisco/grown a replica of /mapr/newyork/grown",
    ]
    assert lines[2].startswith("nothing is sent yet: run fairlead stream replica resume -path /mapr/newyork/grown")
    assert links(both, "/mapr/newyork/grown") == [("/mapr/sanfrancisco/grown", True, False)]
    take_down(both, "grown")


def test_without_a_direct_copy_the_links_wait_for_copystream(
    both: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are made paused, and resumed after the copy. Ctrl-C in it leaves all set up, and says how to go on."""
    copies = []

    def ended(params: Mapping[str, Any], cluster: str | None) -> Envelope:
        copies.append((params["src"], params["dst"]))
        assert links(both, "/mapr/newyork/later") == [("/mapr/sanfrancisco/later", True, True)]
        if stopped:
            raise KeyboardInterrupt
        return Envelope(({"recordsCopied": 3, "conflicts": 0},), {})

    monkeypatch.setattr(set_up, "ended", ended)
    here, there = "/mapr/sanfrancisco/later", "/mapr/newyork/later"
    for stopped in (True, False):
        both.ok("stream create -path /later")
        done = both(autosetup("later") + " -multimaster true -directcopy false")
        assert done.code == (130 if stopped else 0)
        assert links(both, here) == [(there, stopped, True)]
        assert links(both, there) == [(here, stopped, True)]
        if stopped:
            assert f"after it run: fairlead stream replica resume -path {here} -replica {there} and" in done.err
        else:
            assert f"copied 3 records of {here} to {there}" in done.out
        take_down(both, "later")
        for path in (here, there):
            both.ok(f"stream delete -path {path} --yes")
    assert copies == [(here, there)] * 2


def test_a_dry_run_shows_what_would_come_and_changes_nothing(
    both: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics, bytes, names that are a conflict, what is missing, and the time at the rate that links were measured at;
    of the way back too. Of a replica that is not there yet, all is missing."""
    here, there = "/mapr/sanfrancisco/dry", "/mapr/newyork/dry"
    both.ok("stream create -path /dry")
    both.ok("stream topic create -path /dry -topic same")
    (row,) = both.ok(f"{autosetup('dry')} -dryrun -json").json["data"]
    assert (row["topics"], row["bytes"], row["conflicts"], row["seconds"]) == (1, 0, [], None)
    halves = [f"upstream {here} of {there}", f"replica {there} of {here}"]
    assert row["missing"] == [f"stream {there}", *halves]
    both.refused(f"stream info -path {there}", "does not exist")

    both.ok(f"stream create -path {there}")
    both.ok(f"stream topic create -path {there} -topic same")
    both.ok(f"stream topic create -path {there} -topic other")
    both.ok(f"stream upstream add -path {there} -upstream {here}")
    both.ok("stream create -path /rated")
    both.ok("stream replica add -path /rated -replica /mapr/newyork/rated -paused true")

    def measured(command: Command, params: Mapping[str, Any], cluster: str | None = None) -> Envelope:
        found = call(command, params, cluster)
        if command.path == "/rest/stream/replica/list":
            return Envelope(tuple({**row, "bytesPerSecond": 50} for row in found.data), found.envelope)
        if command.path == "/rest/stream/topic/list":
            return Envelope(tuple({**row, "logicalsize": 100} for row in found.data), found.envelope)
        return found

    monkeypatch.setattr(outlook, "call", measured)
    given = "-multimaster true -useexistingreplica true"
    forth, back = both.ok(f"{autosetup('dry')} {given} --dry-run -json").json["data"]
    assert (forth["topics"], forth["alike"], forth["conflicts"]) == (1, 0, ["same"])
    assert (forth["bytes"], forth["bytesPerSecond"], forth["seconds"]) == (100, 50, 2.0)
    assert forth["missing"] == halves[1:]
    assert (back["topics"], back["conflicts"], back["seconds"]) == (2, ["same"], None)
    assert back["missing"] == [f"upstream {there} of {here}", f"replica {here} of {there}"]
    rows = both.ok(f"{autosetup('dry')} {given} --dry-run -excludetopics sa.* -json").json["data"]
    assert [(row["topics"], row["conflicts"]) for row in rows] == [(0, []), (1, [])]
    more = "-useexistingreplica true -from now -prefix"
    (row,) = both.ok(f"{autosetup('dry')} {more} x. --dry-run -json").json["data"]
    assert (row["bytes"], row["bytesLeftOut"], row["seconds"], row["named"]) == (0, 100, 0.0, ["x.same"])
    assert row["conflicts"] == []
    both.ok("stream topic create -path /dry -topic e")
    both.ok(f"stream topic create -path {there} -topic othe")
    (row,) = both.ok(f"{autosetup('dry')} {more} oth --dry-run -json").json["data"]
    assert (row["named"], row["conflicts"]) == (["othe", "othsame"], ["e"])
    both.ok("stream topic delete -path /dry -topic e --yes")
    both.ok(f"stream topic delete -path {there} -topic othe --yes")
    both.refused(f"{autosetup('dry')} -from now -directcopy false", "give one of them")
    assert "conflicts       same\n" in both.ok(f"{autosetup('dry')} {given} --dry-run").out
    assert links(both, here) == links(both, there) == []
    both.ok("stream replica remove -path /rated -replica /mapr/newyork/rated --yes")


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
    assert http_calls.get(f"{newyork.url}/rest/stream/info", params={"path": "/wrong"}).status_code == 404


def test_settings_come_from_a_stream_of_another_cluster(both: CommandLine) -> None:
    """What is given beside them stands above them."""
    both.ok("stream create -path /like -ttl 99 -defaultpartitions 3")
    both.ok("stream create -path /mapr/newyork/like -copymetafrom /like -ttl 98")
    (row,) = both.ok("stream info -path /mapr/newyork/like -json").json["data"]
    assert (row["ttl"], row["defaultpartitions"]) == (98, 3)


def test_a_path_without_a_cluster_is_of_the_one_that_was_chosen(both: CommandLine) -> None:
    """Settings came from the first cluster of the address book, or the command said that there is no such stream."""
    for cluster, ttl in (("sanfrancisco", 11), ("newyork", 22)):
        both.ok(f"stream create -path /mapr/{cluster}/meta -ttl {ttl}")
    both.ok("stream create -path /mapr/sanfrancisco/chosen -copymetafrom /meta --cluster newyork")
    (row,) = both.ok("stream info -path /mapr/sanfrancisco/chosen -json").json["data"]
    assert row["ttl"] == 22
