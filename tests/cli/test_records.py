"""`fairlead produce` and `consume` with a Kafka client that behaves as it does on a thin line, or with no server."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.cli.desk import CommandLine

CLUSTER = '[clusters.here]\nhttp = ["http://127.0.0.1:1"]\nkafka = ["127.0.0.1:1"]\n'


@pytest.fixture
def known(empty: CommandLine, tmp_path: Path) -> CommandLine:
    """A command line that knows a cluster; nobody is there."""
    (tmp_path / "clusters.toml").write_text(CLUSTER)
    return empty


class Producer:
    """What it takes is acknowledged in the steps of `left`, one a flush; then no more of it."""

    left: Sequence[int] = ()
    refuses: KafkaException | None = None
    made: list[Producer]

    def __init__(self, _settings: Any) -> None:
        self.purged = False
        self.taken = 0
        self.last: Any = None
        self._waiting = 0
        self._steps = list(self.left)
        self.made.append(self)

    def __len__(self) -> int:
        return self._waiting

    def produce(self, _topic: str, _value: bytes, key: Any, *_given: Any, headers: Any) -> None:
        if self.refuses is not None:
            raise self.refuses
        self._waiting += 1
        self.taken += 1
        self.last = key, headers

    def poll(self, _seconds: float) -> None:
        pass

    def flush(self, _seconds: float) -> int:
        if self._steps:
            self._waiting = self._steps.pop(0)
        return self._waiting

    def purge(self) -> None:
        self.purged = True

    def list_topics(self, topic: str, _seconds: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None)})


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., type[Producer]]:
    """The client that `produce` gets, and four lines for it."""

    def made(left: Sequence[int], refuses: KafkaException | None = None) -> type[Producer]:
        kind = type("Producer", (Producer,), {"left": left, "refuses": refuses, "made": []})
        monkeypatch.setattr(confluent_kafka, "Producer", kind)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\ntwo\nthree\nfour\n")))
        return kind

    return made


def test_what_is_acknowledged_slowly_is_waited_for(known: CommandLine, producer: Callable[..., type[Producer]]) -> None:
    """A thin line takes minutes for what a pipe hands over at once."""
    kind = producer([3, 2, 1, 0])
    known.ok("produce t")
    assert [each.purged for each in kind.made] == [False]


def test_what_is_acknowledged_no_more_is_given_up(known: CommandLine, producer: Callable[..., type[Producer]]) -> None:
    """And counted."""
    kind = producer([3, 2, 2, 1, 0])
    known.refused("produce t", "2 records were not acknowledged by 127.0.0.1:1; is it running?")
    assert [each.purged for each in kind.made] == [True]


class Keyboard(io.BytesIO):
    """Two lines; then somebody presses Ctrl-C."""

    def __next__(self) -> bytes:
        line = super().readline()
        if not line:
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize(
    ("left", "said"), [(1, "fairlead: stopped; 1 records were not acknowledged, and may be lost\n"), (0, "")]
)
def test_ctrl_c_says_how_many_records_were_not_acknowledged(
    known: CommandLine,
    producer: Callable[..., type[Producer]],
    monkeypatch: pytest.MonkeyPatch,
    left: int,
    said: str,
) -> None:
    """They were dropped without a word. What was taken gets a moment; where nothing is left there is nothing to say."""
    kind = producer([left])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Keyboard(b"one\ntwo\n")))
    assert known("produce t") == (130, "", said)
    assert [(each.taken, each.purged) for each in kind.made] == [(2, left > 0)]


def test_ctrl_c_while_acknowledgements_are_waited_for_says_so_too(
    known: CommandLine, producer: Callable[..., type[Producer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lines were read by then."""
    kind = producer([2])
    flush, waits = kind.flush, [15.0]

    def interrupted(client: Producer, seconds: float) -> int:
        if waits:
            waits.pop()
            raise KeyboardInterrupt
        return flush(client, seconds)

    monkeypatch.setattr(kind, "flush", interrupted)
    assert known("produce t").err == "fairlead: stopped; 2 records were not acknowledged, and may be lost\n"


def test_a_record_that_the_client_refuses_is_told(known: CommandLine, producer: Callable[..., type[Producer]]) -> None:
    """It is too large, or for a partition that is not there, as the client knows by itself."""
    error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    producer([], KafkaException(error))
    known.refused("produce t", f"topic t: {error.str()}")


def test_lines_before_a_wrong_one_are_written(known: CommandLine, producer: Callable[..., type[Producer]]) -> None:
    """They were taken, and who mends the wrong line can go on with it."""
    kind = producer([0])
    known.refused("produce t --key-separator n", "line 'two' has no key separator 'n'; the lines before it are written")
    (client,) = kind.made
    assert (client.taken, len(client), client.purged) == (1, 0, False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--partition 3000000000", "topic t has no such partition"),
        ("--partition -2", "topic t has no such partition"),
        ("--key-separator=", "--key-separator: give a text"),
        ("--header \udcff=x", "--header '\\udcff=x': its name is no UTF-8"),
    ],
)
def test_an_option_that_cannot_be_is_told(
    known: CommandLine, producer: Callable[..., type[Producer]], options: str, said: str
) -> None:
    """Before anything is sent: librdkafka ends the process for some of them."""
    kind = producer([])
    known.refused(f"produce t {options}", said)
    assert kind.made == []


def test_an_option_is_written_as_the_bytes_that_it_was_given_as(
    known: CommandLine, producer: Callable[..., type[Producer]]
) -> None:
    """A shell knows no UTF-8."""
    kind = producer([0])
    known.ok("produce t --header a=\udcff --key \udcfe")
    (client,) = kind.made
    assert client.last == ((b"\xfe", [("a", b"\xff")]))


def test_a_group_that_is_no_text_is_told(known: CommandLine, consumer: type[Consumer]) -> None:
    """librdkafka would end the process."""
    known.refused("consume t --group \udcff", "--group '\\udcff': the name is no UTF-8")
    assert consumer.closed == []


class Consumer:
    """Has one record, then waits until somebody presses Ctrl-C."""

    commits: KafkaException | None = None
    committing: KafkaException | None = None
    closed: list[bool]
    told: list[dict[str, Any]]

    def __init__(self, settings: dict[str, Any]) -> None:
        self.told.append(settings)
        self._records = [record()]

    def list_topics(self, topic: str, _seconds: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})

    def committed(self, wanted: list[Any], _seconds: float) -> list[Any]:
        if self.committing is not None:
            raise self.committing
        return wanted

    def assign(self, _partitions: list[Any]) -> None:
        pass

    def poll(self, _seconds: float) -> Any:
        if self._records:
            return self._records.pop()
        raise KeyboardInterrupt

    def store_offsets(self, _message: Any) -> None:
        pass

    def commit(self, *, asynchronous: bool) -> list[Any]:
        assert not asynchronous
        if self.commits is not None:
            raise self.commits
        return []

    def close(self) -> None:
        self.closed.append(True)


def record() -> Any:
    """One, as librdkafka hands it over."""
    return SimpleNamespace(error=lambda: None, value=lambda: b"one")


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> type[Consumer]:
    """The client that `consume` gets."""
    kind = type("Consumer", (Consumer,), {"closed": [], "told": []})
    monkeypatch.setattr(confluent_kafka, "Consumer", kind)
    return kind


def refusal(code: int) -> KafkaException:
    """An error of librdkafka's."""
    return KafkaException(KafkaError(code))


def test_what_was_committed_by_itself_needs_no_commit_at_the_end(known: CommandLine, consumer: type[Consumer]) -> None:
    """Five idle seconds are enough for that."""
    consumer.commits = refusal(KafkaError._NO_OFFSET)  # noqa: SLF001 - its public name
    done = known("consume t --group g --follow")
    assert (done.code, done.out, done.err) == (130, "one\n", "")
    assert consumer.closed == [True]


@pytest.mark.parametrize(("options", "code"), [("--follow", 130), ("--max-records 1", 1)])
def test_a_commit_that_fails_at_the_end_is_told(
    known: CommandLine, consumer: type[Consumer], options: str, code: int
) -> None:
    """Who goes on with the group sees the records again."""
    consumer.commits = refusal(KafkaError._TRANSPORT)  # noqa: SLF001 - its public name
    done = known(f"consume t --group g {options}")
    assert (done.code, done.out, done.err.count("\n")) == (code, "one\n", 1)
    assert "group g has not committed" in done.err
    assert "seen again" in done.err
    assert consumer.closed == [True]


def test_who_ends_it_while_the_server_is_away_waits_for_seconds(known: CommandLine, consumer: type[Consumer]) -> None:
    """librdkafka keeps a commit, and its own one while it closes, for as long as a member's session; usually 45 s each,
    and no Ctrl-C is heard."""
    known("consume t --group g --follow")
    assert [settings["session.timeout.ms"] for settings in consumer.told] == [6_000]


def test_a_group_whose_offsets_cannot_be_read_is_told(known: CommandLine, consumer: type[Consumer]) -> None:
    """The server went between two calls."""
    consumer.committing = refusal(KafkaError._TIMED_OUT)  # noqa: SLF001 - its public name
    known.refused("consume t --group g", "what group g has committed")
    assert consumer.closed == [True]
