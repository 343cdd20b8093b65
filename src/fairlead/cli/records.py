"""`fairlead produce` and `consume`: records for people, a line each, with an ordinary Kafka client.

A line is `[PARTITION OFFSET TIME] [HEADERS] [KEY] VALUE` with tabs between; only what was asked for is shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.calls import chosen_cluster
from fairlead.cli.cluster import ask_info
from fairlead.cli.topic_reader import (
    POLL_SECONDS,
    WAIT_SECONDS,
    TopicReader,
    client_error,
    client_settings,
    no_partition,
)
from fairlead.model.errors import InvalidValue, TryAgain
from fairlead.model.names import check_text, check_topic_name, parse_stream_path, split_topic
from fairlead.process.interrupts import INTERRUPTED, Interrupted, ending_at_once

if TYPE_CHECKING:
    from fairlead.client.address_book import KnownCluster

TopicArgument = Annotated[
    str | None, typer.Argument(help="positions, /ships:positions or /mapr/<cluster>/ships:positions")
]
TopicOption = Annotated[str | None, typer.Option("--topic", help="the topic, if -path is given")]
PathOption = Annotated[str | None, typer.Option("--path", metavar="PATH", help="the stream (default: /default)")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="the cluster, where the topic names none")]

FLUSH_SECONDS = WAIT_SECONDS
"""For one acknowledgement more; then what is left was not taken."""
STOP_SECONDS = 3.0
"""For acknowledgements of what was read when Ctrl-C came."""
_PARTITION_MAX = 2**31 - 1
"""librdkafka's, far beyond what a topic may have."""


def produce(
    name: TopicArgument = None,
    topic: TopicOption = None,
    path: PathOption = None,
    key: Annotated[str | None, typer.Option("--key", help="key of every record")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="each line is KEY, this text, VALUE")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="header of every record")
    ] = None,
    partition: Annotated[int, typer.Option("--partition", help="partition (default: chosen by the key)")] = -1,
    cluster: ClusterOption = None,
) -> None:
    """Write each line of standard input as a record; it ends when all are acknowledged."""
    with ending_at_once():
        from confluent_kafka import Producer

    where, full = _resolve(name, topic, path, cluster)
    headers = [_header(text) for text in header or []]
    if key_separator == "":
        raise InvalidValue("--key-separator: give a text")
    if not -1 <= partition <= _PARTITION_MAX:
        raise no_partition(full)
    failures: list[Any] = []
    client = Producer({"bootstrap.servers": _bootstrap(where), "enable.idempotence": True, **client_settings()})
    send = partial(_send, client, full, headers=headers, partition=partition, failures=failures)
    wrong: InvalidValue | KeyboardInterrupt | None = None
    try:
        wrong = _send_lines(send, key, key_separator, failures)
        left = _flush(client, failures)
    except KeyboardInterrupt as error:
        wrong, left = error, client.flush(STOP_SECONDS)
    if failures:
        raise client_error(failures[0], full)
    if left:
        client.purge()
        if isinstance(wrong, KeyboardInterrupt):
            raise Interrupted(f"{left} records were not acknowledged, and may be lost")
        _check_topic(client, full)
        raise TryAgain(f"{left} records were not acknowledged by {_bootstrap(where)}; is it running?")
    if wrong is not None:
        raise wrong


def consume(
    name: TopicArgument = None,
    topic: TopicOption = None,
    path: PathOption = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="begin with the oldest record")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="wait for new records after the last one")] = False,
    group: Annotated[
        str | None, typer.Option("--group", help="consumer group: go on after its committed offsets")
    ] = None,
    max_records: Annotated[int | None, typer.Option("--max-records", min=1, help="end after so many")] = None,
    keys: Annotated[bool, typer.Option("--key", help="show keys")] = False,
    headers: Annotated[bool, typer.Option("--header", help="show headers")] = False,
    offsets: Annotated[bool, typer.Option("--offset", help="show partition, offset and time stamp (ms)")] = False,
    cluster: ClusterOption = None,
) -> None:
    """Print records, a line each. Without --from-beginning and --group it waits for new ones; Ctrl-C ends it."""
    if group == "":
        raise InvalidValue("--group: give the consumer group a name")
    if group is not None:
        # Else librdkafka would end this process.
        check_text(group, f"--group {group!r}: the name")
    where, full = _resolve(name, topic, path, cluster)
    follow = follow or not (from_beginning or group)
    reader = TopicReader(_bootstrap(where), full, group, from_beginning)
    try:
        for number, record in enumerate(reader.records(follow), 1):
            _print_record(record, keys, headers, offsets)
            reader.done(record)
            if number == max_records:
                break
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None  # the usual end of what follows a topic: nothing to say
    finally:
        committed = reader.close()
    if not committed:
        raise typer.Exit(1)


def _resolve(name: str | None, topic: str | None, path: str | None, cluster: str | None) -> tuple[KnownCluster, str]:
    """The cluster, and the topic's name on its main listener."""
    if (name is None) == (topic is None):
        raise InvalidValue("name one topic: `positions`, `/ships:positions`, or -path /ships -topic positions")
    stream, plain = split_topic(name) if name is not None and path is None else (path, topic or name or "")
    check_topic_name(plain)
    if stream is None:
        return chosen_cluster(cluster), plain
    found = parse_stream_path(stream)
    return chosen_cluster(found.cluster or cluster), f"{found.path}:{plain}"


def _bootstrap(cluster: KnownCluster) -> str:
    """Kafka addresses of a cluster; asked for if the address book does not have them."""
    return ",".join(cluster.kafka or ask_info(cluster)["kafka"])


# ---------------------------------------------------------------- producing


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidValue(f"--header {text!r}: write NAME=VALUE")
    check_text(name, f"--header {text!r}: its name")
    return name, value.encode(errors="surrogateescape")


def _split_key(line: bytes, separator: str | None) -> tuple[str | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode(errors="surrogateescape"))
    if not found:
        shown = line[:60].decode(errors="replace")
        raise InvalidValue(f"line {shown!r} has no key separator {separator!r}; the lines before it are written")
    return key.decode(errors="surrogateescape"), value


def _send_lines(
    send: Callable[[str | None, bytes], None], key: str | None, separator: str | None, failures: list[Any]
) -> InvalidValue | None:
    """Send what is read, until a record was refused; answers what is wrong with the line where it ends, to be said once
    those before it are acknowledged."""
    try:
        for line in _lines():
            own, value = _split_key(line, separator)
            send(own if own is not None else key, value)
            if failures:
                break
    except InvalidValue as error:
        return error
    return None


def _send(
    client: Any,
    topic: str,
    key: str | None,
    value: bytes,
    *,
    headers: list[tuple[str, bytes]],
    partition: int,
    failures: list[Any],
) -> None:
    """Queue one record; while the queue is full, wait for acknowledgements. What the client refuses by itself, as too
    large for instance, is a failure like what the server refuses."""
    from confluent_kafka import KafkaException

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    sent_key = None if key is None else key.encode(errors="surrogateescape")
    while True:
        try:
            client.produce(topic, value, sent_key, partition, delivered, headers=headers or None)
        except BufferError:
            client.poll(POLL_SECONDS)
            continue
        except KafkaException as error:
            failures.append(error.args[0])
        client.poll(0)
        return


def _flush(client: Any, failures: list[Any]) -> int:
    """Wait while acknowledgements come, however slowly; answers how many records are left when none has come for a
    while, or one was refused."""
    left = len(client)
    while left:
        before, left = left, client.flush(FLUSH_SECONDS)
        if failures or left >= before:
            break
    return left


# ---------------------------------------------------------------- consuming


def _print_record(record: Any, keys: bool, headers: bool, offsets: bool) -> None:
    parts: list[bytes] = []
    if offsets:
        parts.append(f"{record.partition()}\t{record.offset()}\t{record.timestamp()[1]}".encode())
    if headers:
        parts.append(b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers() or ()))
    if keys:
        parts.append(record.key() or b"")
    parts.append(record.value() or b"")
    sys.stdout.buffer.write(b"\t".join(parts) + b"\n")
    sys.stdout.buffer.flush()


def _check_topic(client: Any, topic: str) -> None:
    """Say that a topic does not exist: a producer waits for one that may yet be created.

    Raises:
        UnknownTopic, BadRequest.
    """
    from confluent_kafka import KafkaException

    try:
        error = client.list_topics(topic, WAIT_SECONDS).topics[topic].error
    except KafkaException:
        return
    if error is not None:
        raise client_error(error, topic)
