"""`fairlead up` and `server` as processes: how they begin, how they end, and when they refuse to begin."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.client.address_book import AddressBook
from tests.support import http_calls
from tests.support.sites import Site, children, command_of
from tests.support.waiting import WAIT_SECONDS, wait_until

PROGRAM = [sys.executable, "-m", "fairlead.cli.main"]
ANY = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Site]:
    site = Site("sanfrancisco", tmp_path)
    site.start("server")
    yield site
    site.stop()


def refused(arguments: list[str], environment: dict[str, str] | None = None) -> str:
    """The one line by which a command says that it does not begin."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def server(name: str, data: Path, *more: str) -> list[str]:
    return ["server", "--name", name, "--data", str(data), *(more or ANY)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_says_where_it_is_and_ends_with_its_child(tmp_path: Path, number: signal.Signals) -> None:
    """Addresses, three commands to try, an entry in the address book; after a signal nothing is left."""
    site = Site("sanfrancisco", tmp_path)
    site.start("up")
    pid = site.pid
    wait_until(lambda: site.replicator_pid() is not None, "the replicator runs")
    (child,) = children(pid)
    text = site.log.read_text()
    assert site.kafka in text
    assert site.url in text
    assert text.count("\n  fairlead ") + text.count("| fairlead ") == 3
    (known,) = AddressBook(tmp_path / "clusters.toml").clusters()
    assert (known.http, known.kafka) == ((site.url,), (site.kafka,))
    os.kill(pid, number)
    assert site.ended() == 0
    assert "replicator" not in command_of(child)
    assert "Traceback" not in site.log.read_text()


def test_a_cluster_at_any_free_port_leaves_the_address_book(tmp_path: Path) -> None:
    """It will be somewhere else the next time; one at ports of its own stays."""
    book = AddressBook(tmp_path / "clusters.toml")
    site = Site("sanfrancisco", tmp_path)
    site.forget_ports()
    for remains in ([], ["sanfrancisco"]):  # the second time it begins at the ports that it had
        site.start("up")
        assert [known.name for known in book.clusters()] == ["sanfrancisco"]
        site.stop()
        assert [known.name for known in book.clusters()] == remains


def test_the_replicator_is_known_by_a_secret_that_only_its_user_reads(tmp_path: Path) -> None:
    """New at each start, in a file of the data directory; no command line shows it. Without it nothing is carried."""
    site = Site("sanfrancisco", tmp_path)
    secrets = set()
    for _ in range(2):
        site.start("up")
        child = wait_until(site.replicator_pid, "the replicator runs")
        assert child is not None
        file = site.data / "control-secret"
        secret = file.read_text()
        assert len(bytes.fromhex(secret)) == 32
        assert file.stat().st_mode & 0o777 == 0o600
        assert str(site.data) in command_of(child)
        assert secret not in command_of(child) + Path(f"/proc/{child}/environ").read_text()
        arguments = ["replicator", "--once", "--server", site.url, "--secret-file", str(site.data / "cluster.json")]
        assert "holds no secret" in refused(arguments)
        secrets.add(secret)
        site.stop()
    assert len(secrets) == 2
    assert not any(secret in site.log.read_text() for secret in secrets)


def test_a_replicator_without_java_is_seen_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `status`, `replica list` and health, as soon as a link wants to move something, and as long as it lasts."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    site = Site("sanfrancisco", tmp_path)
    site.start("up")
    try:
        site.cli("stream", "create", "-path", "/ships")
        assert site.cli("status").returncode == 0
        site.cli("stream", "replica", "autosetup", "-path", "/ships", "-replica", "/mapr/sanfrancisco/copy")
        why = "nowhere has no bin/java"
        wait_until(lambda: why in http_calls.get(f"{site.url}/health").text, "health says it")
        (row,) = site.replica_status("/ships")
        assert (row["errors"]["Code"], why in row["errors"]["Msg"]) == ("ErrReplicatorDown", True)
        wait_until(lambda: site.replica_status("/ships")[0]["replicator"]["startedagain"], "it was started again")
        done = site.cli("status", check=False)
        assert (done.returncode, done.stdout.count(why)) == (1, 1)
        assert "link /ships to /mapr/sanfrancisco/copy fails for" in done.stdout
    finally:
        site.stop()


def test_the_ready_file_is_whole_and_the_server_answers_by_then(running: Site, tmp_path: Path) -> None:
    """For scripts that wait for it."""
    ready = json.loads((tmp_path / "sanfrancisco.ready").read_text())
    assert ready["pid"] == running.pid
    assert http_calls.get(f"{ready['http']}/health").json()["status"] == "ok"


def test_a_ready_file_goes_with_its_server(running: Site, tmp_path: Path) -> None:
    """One of an earlier start says that a server answers which does not yet, or never: so a server that cannot begin
    takes it away too."""
    ready = tmp_path / "sanfrancisco.ready"
    assert ready.exists()
    running.stop()
    assert not ready.exists()
    ready.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        more = ["--kafka", address, "--http", "127.0.0.1:0", "--ready-file", str(ready)]
        assert "the port is in use" in refused(server("sanfrancisco", running.data, *more))
    assert not ready.exists()


OPENING = """
import asyncio
from fairlead.cli.main import main
from fairlead.cluster.cluster import Cluster

async def opening(*_, **__):
    print("opening", flush=True)
    await asyncio.Event().wait()

Cluster.open = opening
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_is_still_starting(tmp_path: Path, number: signal.Signals) -> None:
    """It was heard once all streams were open, and then the server said that it was up."""
    ready = tmp_path / "ready"
    arguments = [*server("lisbon", tmp_path / "d"), "--ready-file", str(ready)]
    process = subprocess.Popen(
        [sys.executable, "-c", OPENING, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "opening\n"
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, ready.exists()) == (128 + number, False)
    assert "without a replicator" not in out
    assert "stopped while it started" in out + errors
    assert "Traceback" not in errors


def test_what_was_made_is_there_after_kill_9(running: Site) -> None:
    """Streams, settings, listeners; at the same addresses."""
    http_calls.post(f"{running.url}/rest/stream/create", data={"path": "/ships", "ttl": 5}).raise_for_status()
    http_calls.post(f"{running.url}/rest/stream/expose", data={"path": "/ships", "port": 0}).raise_for_status()
    before = http_calls.get(f"{running.url}/rest/stream/info", params={"path": "/ships"}).json()["data"]
    running.kill()
    running.start("server")
    assert http_calls.get(f"{running.url}/rest/stream/info", params={"path": "/ships"}).json()["data"] == before


def test_a_second_server_on_the_same_directory_is_told_who_holds_it(running: Site) -> None:
    """By pid."""
    assert f"pid {running.pid}" in refused(server("sanfrancisco", running.data))


def test_a_directory_of_another_cluster_is_refused(running: Site) -> None:
    """Both names are said."""
    running.stop()
    said = refused(server("newyork", running.data))
    assert "sanfrancisco" in said
    assert "newyork" in said


def test_a_directory_of_an_unknown_version_is_refused(running: Site) -> None:
    """Both versions are said."""
    running.stop()
    file = running.data / "cluster.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))
    assert "format version 99; this program knows version 3" in refused(server("sanfrancisco", running.data))


def test_a_port_that_is_taken_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Each listener names itself and its option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(server("lisbon", tmp_path / "a", "--kafka", "127.0.0.1:0", "--http", address))
        assert f"HTTP listener {address}: the port is in use" in said
        assert not (tmp_path / "a").exists()
        said = refused(server("lisbon", tmp_path / "b", "--kafka", address, "--http", "127.0.0.1:0"))
        assert f"Kafka listener {address}: the port is in use" in said
        assert not (tmp_path / "b").exists()


def test_with_json_logs_the_error_is_json_too(tmp_path: Path) -> None:
    """A program that reads the log need not understand anything else."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused([*server("lisbon", tmp_path / "a", "--kafka", "127.0.0.1:0", "--http", address), "--json-logs"])
    assert json.loads(said)["event"].startswith(f"HTTP listener {address}: the port is in use")


@pytest.mark.parametrize("option", ["--kafka", "--http"])
def test_an_address_that_others_reach_needs_insecure(tmp_path: Path, option: str) -> None:
    """There are no users yet."""
    other = "--http" if option == "--kafka" else "--kafka"
    said = refused(server("lisbon", tmp_path / "d", option, "0.0.0.0:0", other, "127.0.0.1:0"))
    assert "--insecure" in said


def test_clients_are_told_the_address_that_it_advertises(tmp_path: Path) -> None:
    """Other clusters call it by where it listens."""
    ready = tmp_path / "ready"
    addresses = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--advertise", "ship.example:19092"]
    process = subprocess.Popen(
        [*PROGRAM, *server("lisbon", tmp_path / "d", *addresses), "--ready-file", str(ready)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, "it is ready")
        found = json.loads(ready.read_text())
        assert found["kafka"] == "ship.example:19092"
        assert found["http"].startswith("http://127.0.0.1:")
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_SECONDS)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Here a file is in its place."""
    (tmp_path / "file").write_text("")
    assert "data directory" in refused(server("lisbon", tmp_path / "file" / "d"))


def test_a_host_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """By name."""
    said = refused(server("lisbon", tmp_path / "d", "--http", "no.such.host.invalid:1"))
    assert "no.such.host.invalid" in said


def test_a_cluster_name_has_its_rule(tmp_path: Path) -> None:
    """It is a part of paths."""
    assert "cluster name 'a/b'" in refused(server("a/b", tmp_path / "d"))


def test_a_damaged_object_keeps_only_its_own_stream_from_its_users(running: Site) -> None:
    """The server starts, says which object, and serves the other streams; there it lets nothing be changed."""
    for path in ("/hurt", "/well"):
        http_calls.post(f"{running.url}/rest/stream/create", data={"path": path}).raise_for_status()
        topic = {"path": path, "topic": "t"}
        http_calls.post(f"{running.url}/rest/stream/topic/create", data=topic).raise_for_status()
    (hurt,) = http_calls.get(f"{running.url}/rest/stream/info", params={"path": "/hurt"}).json()["data"]
    running.stop()
    (commit,) = (running.data / "streams" / hurt["id"] / "shard-0000" / "commit").glob("*/*")
    commit.write_bytes(commit.read_bytes()[:-9])
    running.start("server")
    assert http_calls.get(f"{running.url}/rest/stream/topic/list", params={"path": "/well"}).json()["total"] == 1
    said = http_calls.post(f"{running.url}/rest/stream/topic/create", data={"path": "/hurt", "topic": "other"})
    assert (said.status_code, commit.name in said.text) == (500, True)
    health = http_calls.get(f"{running.url}/health")
    assert (health.json()["status"], commit.name in health.text) == ("degraded", True)
    assert http_calls.post(f"{running.url}/rest/stream/create", data={"path": "/hurt"}).status_code == 409
