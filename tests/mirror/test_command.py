"""The command of the seed, as it is written, from `examples/mirror/`; what it says and how it ends."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from fairlead.cli.program import run
from tests.support.broker import RunningBroker, run_broker
from tests.support.mirrors import MirrorProcess, count, make_topic, mirroring, produce, properties
from tests.support.records import read_all
from tests.support.scripts import install_scripts
from tests.support.waiting import WAIT_SECONDS, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "mirror"
SEED = (
    "fairlead mirror --consumer.config sourceCluster1Consumer.config --consumer.config sourceCluster2Consumer.config "
    '--num.streams 2 --producer.config targetClusterProducer.config --whitelist=".*"'
)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningBroker]]:
    """Three clusters."""
    folder = tmp_path_factory.mktemp("clusters")
    with (
        run_broker(folder / "1", name="one") as first,
        run_broker(folder / "2", name="two") as second,
        run_broker(folder / "3", name="target") as target,
    ):
        yield [first, second, target]


def values(broker: RunningBroker, topic: str) -> list[tuple[int, bytes | None]]:
    """Partition and value of each record, in order."""
    found = read_all(broker.bootstrap, [topic], prefix="")
    return [(place.partition, content.value) for place, content in sorted(found.items())]


def numbers(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % (number % 7), b"%d" % number) for number in range(count)]


def test_the_command_of_the_seed_runs_without_java(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """With the files of the example, but for their addresses, and with `--engine local`; `tests/spark` has it as it is
    written. Both sources are mirrored, Ctrl-C ends it with 0."""
    assert SEED in (EXAMPLE / "README.md").read_text()
    for name, broker in zip(
        ("sourceCluster1Consumer", "sourceCluster2Consumer", "targetClusterProducer"), brokers, strict=True
    ):
        text = (EXAMPLE / f"{name}.config").read_text()
        changed = re.sub(r"bootstrap\.servers=.*", f"bootstrap.servers={broker.bootstrap}", text)
        (tmp_path / f"{name}.config").write_text(changed)
    first, second, target = brokers
    for broker, topic in ((first, "seed-one"), (second, "seed-two")):
        make_topic(broker.bootstrap, topic, 3)
        produce(broker.bootstrap, topic, numbers(500))
    source = str(EXAMPLE.parents[1] / "src")  # the command runs in another folder
    environment = {
        **os.environ,
        "PYTHONPATH": source,
        "PATH": f"{install_scripts(tmp_path / 'bin')}:/usr/bin:/bin",
        "JAVA_HOME": str(tmp_path / "none"),
    }
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*shlex.split(SEED), "--engine", "local"],
            cwd=tmp_path,
            env=environment,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
        )
    try:
        wait_until(
            lambda: [count(target.bootstrap, topic) for topic in ("seed-one", "seed-two")] == [500, 500],
            "all is mirrored",
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    for broker, topic in ((first, "seed-one"), (second, "seed-two")):
        assert values(target, topic) == values(broker, topic)
    assert re.search(r"in all +1,000", log.read_text())


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_the_file_of_mirrormaker_2_runs_as_it_is_written(
    brokers: list[RunningBroker], tmp_path: Path, engine: str
) -> None:
    """That of the example, but for its addresses: two flows that face each other, with heartbeats."""
    first, second, _ = brokers
    text = (EXAMPLE / "mm2.properties").read_text()
    for alias, broker in (("A", first), ("B", second)):
        text = re.sub(rf"{alias}\.bootstrap\.servers = .*", f"{alias}.bootstrap.servers = {broker.bootstrap}", text)
    file = tmp_path / "mm2.properties"
    file.write_text(text)
    make_topic(first.bootstrap, f"{engine}-there", 2)
    make_topic(second.bootstrap, f"{engine}-back", 3)
    produce(first.bootstrap, f"{engine}-there", numbers(100))
    produce(second.bootstrap, f"{engine}-back", numbers(50))
    with mirroring(tmp_path, "--engine", engine, "--mm2.config", str(file)) as mirror:
        wait_until(lambda: count(second.bootstrap, f"A.{engine}-there") == 100, "there")
        wait_until(lambda: count(first.bootstrap, f"B.{engine}-back") == 50, "and back")
        wait_until(lambda: count(second.bootstrap, "A.heartbeats") > 0, "a heartbeat")
        assert mirror.stop() == 0, mirror.said()
    assert values(second, f"A.{engine}-there") == values(first, f"{engine}-there")
    assert values(first, f"B.{engine}-back") == values(second, f"{engine}-back")
    assert "A->B\n" in mirror.said()
    assert "B->A: " in mirror.said()
    assert "fairlead: warning" not in mirror.said()
    assert count(first.bootstrap, f"B.A.{engine}-there") == 0


def options(folder: Path, source: RunningBroker, target: RunningBroker, whitelist: str, **more: str) -> list[str]:
    consumer = properties(folder / "consumer.config", source.bootstrap, group_id=f"g-{whitelist}", **more)
    producer = properties(folder / "producer.config", target.bootstrap)
    return ["--consumer.config", str(consumer), "--producer.config", str(producer), "--whitelist", whitelist]


def test_options_have_one_dash_or_two_and_files_say_what_is_not_known(
    brokers: list[RunningBroker], tmp_path: Path
) -> None:
    """A key that no Kafka client has is a warning that names it."""
    source, _, target = brokers
    make_topic(source.bootstrap, "dashes")
    produce(source.bootstrap, "dashes", numbers(10))
    given = options(tmp_path, source, target, "dashes", no_such_key="1")
    one_dash = [each.replace("--", "-") if each.startswith("--") else each for each in given]
    mirror = MirrorProcess(tmp_path, [*one_dash, "-once", "-prefix", "p_", "-preserve.partitions", "true"])
    assert mirror.wait() == 0, mirror.said()
    assert "no.such.key" in mirror.said()
    assert values(target, "p_dashes") == values(source, "dashes")


def test_what_is_written_while_it_runs_comes_too_and_sigterm_ends_it(
    brokers: list[RunningBroker], tmp_path: Path
) -> None:
    """In every codec, with tombstones and without keys; the group at the source shows that nothing is left."""
    source, _, target = brokers
    make_topic(source.bootstrap, "live", 2)
    with mirroring(tmp_path, *options(tmp_path, source, target, "live")) as mirror:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            pairs = [(b"k", b"v" * 100), (None, b"keyless"), (b"gone", None)] * 20
            produce(source.bootstrap, "live", pairs, compression_type=codec)
        wait_until(lambda: count(target.bootstrap, "live") == 300, "all is mirrored")
        assert mirror.stop() == 0, mirror.said()
    assert read_all(target.bootstrap, ["live"], prefix="") == read_all(source.bootstrap, ["live"], prefix="")


def test_producers_are_connections_to_each_broker(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """Each has a share of the partitions."""
    source, _, target = brokers
    topic = make_topic(source.bootstrap, "producers", 16)
    given = options(tmp_path, source, target, topic)
    open_then = []
    for producers in (1, 4):
        for partition in range(16):
            produce(source.bootstrap, topic, numbers(5), partition=partition)
        wait_until(lambda: not target.server.connections, "nobody else is connected")
        with mirroring(tmp_path, *given, "--num.producers", str(producers)) as mirror:
            wait_until(lambda mirror=mirror: "nothing behind" in mirror.said(), "all is mirrored")  # type: ignore[misc]
            open_then.append(len(target.server.connections))
            assert mirror.stop() == 0, mirror.said()
    assert open_then[1] - open_then[0] == 3


def test_a_dry_run_says_what_it_would_do(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """And makes nothing."""
    source, _, target = brokers
    make_topic(source.bootstrap, "dry", 2)
    produce(source.bootstrap, "dry", numbers(10), partition=1)
    mirror = MirrorProcess(tmp_path, [*options(tmp_path, source, target, "dry"), "--dry-run"])
    assert mirror.wait() == 0, mirror.said()
    assert "dry → dry (2 partitions, to be made)" in mirror.said()
    assert "topic dry, partition 1: from 0 (new), 10 to mirror" in mirror.said()
    assert "dry" not in AdminClient({"bootstrap.servers": target.bootstrap}).list_topics(timeout=WAIT_SECONDS).topics


def test_a_mirror_that_waits_for_its_destination_ends_when_it_is_told(
    brokers: list[RunningBroker], tmp_path: Path
) -> None:
    """Nothing was begun, so nothing is waited for."""
    consumer = properties(tmp_path / "consumer.config", brokers[0].bootstrap, group_id="g-away")
    producer = properties(tmp_path / "producer.config", "127.0.0.1:1", request_timeout_ms="300")
    files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
    mirror = MirrorProcess(tmp_path, [*files, "--whitelist", "away"])
    try:
        wait_until(lambda: "the destination is away" in mirror.said(), "it waits")
        assert mirror.stop() == 0, mirror.said()
    finally:
        mirror.kill()


def test_a_mirror_says_what_it_waits_for(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """A destination that says nothing is given up half a minute later."""
    consumer = properties(tmp_path / "consumer.config", brokers[0].bootstrap, group_id="g-mute")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        producer = properties(tmp_path / "producer.config", address)
        files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
        mirror = MirrorProcess(tmp_path, [*files, "--whitelist", "mute", "--once"])
        try:
            wait_until(lambda: f"waits for the destination, {address}" in mirror.said(), "it says so")
            assert "away" not in mirror.said()
        finally:
            mirror.kill()


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_mirror_is_watched_over_http(brokers: list[RunningBroker], tmp_path: Path, engine: str) -> None:
    """Its page, its metrics and its status say how far it is; it says where, and is paused there."""
    source, _, target = brokers
    topic = f"watched-{engine}"
    make_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, numbers(10))
    given = [*options(tmp_path, source, target, topic), "--http", "127.0.0.1:0", "--engine", engine]
    with mirroring(tmp_path, *given) as mirror, httpx.Client(timeout=WAIT_SECONDS) as client:
        address = re.search(r"http://127.0.0.1:\d+", mirror.said())
        assert address is not None, mirror.said()
        url = address.group()
        wait_until(lambda: _records(client, url) == 10, "all is mirrored")
        assert f'fairlead_mirror_records_total{{flow="g-{topic}"' in client.get(f"{url}/metrics").text
        assert topic in client.get(f"{url}/").text
        assert client.get(f"{url}/health").json()["status"] == "ok"
        assert client.post(f"{url}/rest/mirror/pause").json()["data"] == [{"flow": f"g-{topic}", "state": "paused"}]
        produce(source.bootstrap, topic, numbers(5))
        wait_until(lambda: _lag(client, url) == 5, "what came while it was paused is behind")
        assert count(target.bootstrap, topic) == 10
        client.post(f"{url}/rest/mirror/resume")
        wait_until(lambda: count(target.bootstrap, topic) == 15, "it goes on")
        assert mirror.stop() == 0, mirror.said()


def _topics(client: httpx.Client, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{url}/rest/mirror/status").json()["data"][0]["topics"]
    return found


def _records(client: httpx.Client, url: str) -> int:
    return sum(topic["records"] for topic in _topics(client, url))


def _lag(client: httpx.Client, url: str) -> int:
    return sum(topic["lag"] for topic in _topics(client, url))


def test_others_may_watch_a_mirror_only_where_that_is_asked_for(
    brokers: list[RunningBroker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with a server."""
    given = options(tmp_path, brokers[0], brokers[2], "exposed")
    assert run(["mirror", *given, "--http", "0.0.0.0:0"]) == 1
    error = capsys.readouterr().err
    assert "--insecure" in error
    assert "pause it" in error


def test_exactly_once_is_refused_where_there_are_no_transactions(brokers: list[RunningBroker], tmp_path: Path) -> None:
    """A cluster of Fairlead has none: one line, and nothing is made there."""
    source, _, target = brokers
    make_topic(source.bootstrap, "no-transactions")
    mirror = MirrorProcess(tmp_path, [*options(tmp_path, source, target, "no-transactions"), "--exactly.once"])
    assert mirror.wait() == 1
    assert "--exactly.once needs transactions" in mirror.said()
    assert mirror.said().count("\n") == 1
    topics = AdminClient({"bootstrap.servers": target.bootstrap}).list_topics(timeout=WAIT_SECONDS).topics
    assert not {"no-transactions", "fairlead-mirror.g-no-transactions.internal"} & topics.keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--whitelist", "a", "--blacklist", "b"], "exactly one of --whitelist and --blacklist"),
        ([], "exactly one of --whitelist and --blacklist"),
        (["--whitelist", ""], "and it may not be empty"),
        (["--whitelist", "["], "--whitelist '['"),
        (["--whitelist", "a", "--queue.size", "-1"], "--queue.size"),
        (["--whitelist", "a", "--http", "here"], "--http 'here'"),
        (["--whitelist", "a", "--engine", "flink"], "--engine 'flink': write spark or local"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_1(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is opened."""
    files = ["--consumer.config", str(tmp_path / "c"), "--producer.config", str(tmp_path / "p")]
    assert run(["mirror", *files, *arguments]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "given", [["--consumer.rebalance.listener", "a.B"], ["--rebalance.listener.args", "text"], ["--new.consumer"]]
)
def test_options_of_mirrormaker_1_without_a_meaning_here_are_a_warning(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name; what ends it is something else, which is told as without them."""
    arguments = ["mirror", "--consumer.config", str(tmp_path / "none"), "--producer.config", str(tmp_path / "p")]
    assert run([*arguments, "--whitelist", "a", "--name", "m"]) == 1
    error = capsys.readouterr().err
    assert "no effect" not in error
    assert run([*arguments, "--whitelist", "a", "--name", "m", *given]) == 1
    warning, *rest = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"fairlead: warning: {given[0]} has no effect here")
    assert rest == error.splitlines()


@pytest.mark.parametrize("wrong", [["--no.such.option", "1"], ["--num.streams", "two"], ["--whitelist"]])
def test_a_wrong_command_line_is_one_line_and_exit_code_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An option that there is not, a value of another kind, none at all."""
    assert run(["mirror", *wrong]) == 2
    error = capsys.readouterr().err
    assert wrong[0] in error
    assert error.count("\n") == 1


def test_a_missing_file_is_one_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its name; a file that is not given at all is too."""
    assert run(["mirror", "--producer.config", "p", "--whitelist", "a"]) == 1
    assert "--consumer.config" in capsys.readouterr().err
    files = ["--consumer.config", str(tmp_path / "no-such-file"), "--producer.config", str(tmp_path / "p")]
    assert run(["mirror", *files, "--whitelist", "a", "--name", "m"]) == 1
    assert "/p: " in capsys.readouterr().err


def test_a_wrong_value_in_a_file_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of either kind of file, with its name and the key's."""
    for consumer, producer, said in (
        ({"fetch_max_bytes": "many"}, {}, "consumer.config: fetch.max.bytes is 'many'"),
        ({}, {"acks": "2"}, "producer.config: acks is '2'"),
    ):
        files = [
            *("--consumer.config", str(properties(tmp_path / "consumer.config", "a:1", group_id="g", **consumer))),
            *("--producer.config", str(properties(tmp_path / "producer.config", "a:1", **producer))),
        ]
        assert run(["mirror", *files, "--whitelist", "a"]) == 1
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_without_a_group_a_mirror_needs_a_name(
    brokers: list[RunningBroker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By which it finds its positions."""
    consumer = properties(tmp_path / "consumer.config", brokers[0].bootstrap)
    producer = properties(tmp_path / "producer.config", brokers[2].bootstrap)
    files = ["--consumer.config", str(consumer), "--producer.config", str(producer)]
    assert run(["mirror", *files, "--whitelist", "a"]) == 1
    assert "--name" in capsys.readouterr().err


def test_without_java_the_engine_that_needs_none_is_named(tmp_path: Path) -> None:
    """One line, before any cluster is asked."""
    consumer = properties(tmp_path / "consumer.config", "127.0.0.1:1", group_id="g")
    producer = properties(tmp_path / "producer.config", "127.0.0.1:1")
    arguments = ["--consumer.config", str(consumer), "--producer.config", str(producer), "--whitelist", "a"]
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""}
    mirror = MirrorProcess(tmp_path, [*arguments, "--engine", "spark"], environment)
    assert mirror.wait() == 1
    assert "no java found" in mirror.said()
    assert "--engine local, which needs no Java" in mirror.said()
    assert mirror.said().count("\n") == 1
