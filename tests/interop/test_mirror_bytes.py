"""What the mirror makes of batches, at a real broker of Apache Kafka: it takes them, and Java's consumer reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from fairlead.mirror.bytes.committed import Committed, committed
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import How, Outgoing
from fairlead.mirror.bytes.repartition import Repartitioner
from fairlead.mirror.bytes.rewriter import Rewriter
from fairlead.protocol.batch import DELETE_HORIZON, HEADER_BYTES, LENGTH_END, read_header
from fairlead.protocol.records import CODECS, Record, write_records
from tests.interop.clients.kafka_tools import PATIENCE, java
from tests.interop.clients.process import run
from tests.interop.kafka_pair import KafkaPair
from tests.support.batches import changed
from tests.support.mirrored import batch_of, some, sourced
from tests.support.raw_kafka import Answer, RawKafka
from tests.support.records import wait_for_markers
from tests.support.waiting import WAIT_SECONDS, wait_until

INVALID_RECORD, UNKNOWN_SERVER_ERROR, CORRUPT_MESSAGE = 87, -1, 2
_names = count(1)


@pytest.fixture
def kafka(pair: KafkaPair) -> Iterator[RawKafka]:
    with RawKafka(pair.target.bootstrap) as connection:
        yield connection


def new_topic(pair: KafkaPair, partitions: int = 1, **configs: str) -> str:
    """A topic at the destination, with these settings (`_` for `.`), that keeps records of any time."""
    name = f"bytes-{next(_names)}"
    config = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": pair.target.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
    wait_until(lambda: name in admin.list_topics(timeout=WAIT_SECONDS).topics, "the topic is there")
    return name


def read_by_java(pair: KafkaPair, topic: str, number: int) -> list[str]:
    """So many records by the console consumer, which checks each batch's CRC: offset, time, headers, key, value."""
    shown = ("timestamp", "offset", "headers", "key")
    command = java(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", pair.target.bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(number), *PATIENCE, "--isolation-level", "read_committed"),
        *(option for name in shown for option in ("--property", f"print.{name}=true")),
        *("--property", "null.literal=(null)"),
    )
    return run(command).splitlines()


def as_shown(records: list[Record]) -> list[str]:
    """How that consumer shows records that got offsets from 0 on."""
    lines = []
    for offset, (_, time, key, value, headers) in enumerate(records):
        texts = ["(null)" if field is None else field.decode() for field in (key, value)]
        pairs = ",".join(f"{name}:{'(null)' if text is None else text.decode()}" for name, text in headers)
        lines.append("\t".join([f"CreateTime:{time}", f"Offset:{offset}", pairs or "NO_HEADERS", *texts]))
    return lines


def texts(number: int, first: int, time: int = 1_000) -> list[Record]:
    """Records with headers, without a key, and a tombstone among them."""
    records = [Record(first + i, time + i, b"k%d" % i, b"value %d " % i * 20) for i in range(number)]
    records[0] = records[0]._replace(headers=(("a", b"1"), ("b", None)))
    records[1] = records[1]._replace(key=None)
    records[2] = records[2]._replace(value=None)
    return records


def test_what_is_made_of_any_batch_is_read_by_java(pair: KafkaPair, kafka: RawKafka) -> None:
    """In each codec: as it is, rebuilt (holes, append time), merged, split, and dealt out; one after the other."""
    topic = new_topic(pair)
    sent: list[Outgoing] = []
    records: list[Record] = []
    for codec in range(len(CODECS)):
        plain = texts(5, first=10)
        holed = [record for record in texts(9, first=20) if record.offset not in (23, 24, 27)]
        appended = [record._replace(timestamp=7_777) for record in texts(4, first=40)]
        small = [texts(6, first=100 * i, time=5_000 * i) for i in range(1, 4)]
        large = texts(300, first=900)
        sent += (
            Rewriter(Limits(small_bytes_max=0))
            .take(
                sourced(
                    batch_of(plain, codec=codec, attributes=0x10 | codec, producer_id=7, producer_epoch=0),
                    batch_of(holed, codec=codec, last_offset=33),
                    batch_of(texts(4, first=40), codec=codec, attributes=0x08 | codec, max_timestamp=7_777),
                )
            )
            .outgoing
        )
        sent += Rewriter(Limits()).take(sourced(*(batch_of(one, codec=codec) for one in small))).outgoing
        limit = 1_000 if codec else 20_000
        sent += Rewriter(Limits(message_bytes_max=limit)).take(sourced(batch_of(large, codec=codec))).outgoing
        dealt = Repartitioner(1, Limits()).take(sourced(batch_of(plain, codec=codec)))
        sent += dealt.outgoing[0]
        records += [*plain, *holed, *appended, *small[0], *small[1], *small[2], *large, *plain]
    assert {one.how for one in sent} == set(How)
    kafka.produce_all(topic, [one.pieces for one in sent])
    assert read_by_java(pair, topic, len(records)) == as_shown(records)


def test_batches_that_must_not_go_as_they_are(pair: KafkaPair, kafka: RawKafka) -> None:
    """What a broker says to them; were it to take them one day, fewer would have to be rebuilt."""
    topic = new_topic(pair)
    holed = batch_of([record for record in texts(5, first=0) if record.offset != 3])
    damaged = bytearray(batch_of(texts(3, first=0)))
    damaged[-1] ^= 1
    body = write_records(some(2_000), 0, 1_000)
    linked = _with_body(batch_of(some(2_000)), _linked_lz4(body), codec=3)
    assert kafka.produce(topic, holed) == INVALID_RECORD
    assert kafka.produce(topic, bytes(damaged)) == CORRUPT_MESSAGE
    assert kafka.produce(topic, linked) == UNKNOWN_SERVER_ERROR
    (again,) = Rewriter(Limits()).take(sourced(changed(linked, attributes=0x0B))).outgoing
    assert kafka.produce(topic, b"".join(again.pieces)) == 0


def _linked_lz4(data: bytes) -> bytes:
    """Blocks that depend on one another, as Arrow writes them."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def _with_body(batch: bytes, body: bytes, codec: int) -> bytes:
    length = HEADER_BYTES - LENGTH_END + len(body)
    return changed(batch[:HEADER_BYTES] + body, length=length, attributes=codec)


def taken(answer: Answer, position: int = 0) -> Committed:
    found = committed(answer.records, answer.aborted, position, "topic bytes, partition 0")
    assert found.damage is None
    return found


def test_transactions_are_filtered_as_java_does_it(pair: KafkaPair, kafka: RawKafka) -> None:
    """Two producers interleave; one aborts, one of them twice; a fetch begins inside what was aborted."""
    source, target = new_topic(pair), new_topic(pair)
    settings = {"bootstrap.servers": pair.target.bootstrap, "linger.ms": 0}
    producers = [Producer({**settings, "transactional.id": f"{source}-{i}"}) for i in range(2)]
    for producer in producers:
        producer.init_transactions()

    def send(producer: Producer, *values: str) -> None:
        for value in values:
            producer.produce(source, value, value, partition=0)
        producer.flush()

    for round_ in ("first", "second"):
        for producer in producers:
            producer.begin_transaction()
        send(producers[0], f"{round_} aborted", f"{round_} aborted too")
        send(producers[1], f"{round_} kept")
        send(producers[0], f"{round_} aborted as well")
        producers[0].abort_transaction()
        send(producers[1], f"{round_} kept as well")
        producers[1].commit_transaction()
    wait_for_markers(pair.target.bootstrap, source)
    producers[0].begin_transaction()
    send(producers[0], "open")
    answer = kafka.fetch(source)
    found = taken(answer)
    assert (found.aborted_records, found.control_batches, found.next_offset) == (6, 4, answer.last_stable)
    kafka.produce_all(target, [one.pieces for one in Rewriter(Limits()).take(found.batches).outgoing])
    copied = read_by_java(pair, target, 4)
    assert [line.split("\t")[-1] for line in copied] == [
        *("first kept", "first kept as well"),
        *("second kept", "second kept as well"),
    ]
    assert [line.split("\t")[0::4] for line in copied] == [
        line.split("\t")[0::4] for line in read_by_java(pair, source, 4)
    ]
    inside = taken(kafka.fetch(source, 1), position=1)
    assert [batch.header.base_offset for batch in inside.batches] == [b.header.base_offset for b in found.batches]
    producers[0].abort_transaction()


def test_a_compacted_log_is_copied_without_its_holes_and_its_delete_horizon(pair: KafkaPair, kafka: RawKafka) -> None:
    """Kafka's own cleaner makes the holes. Tombstones stay, and the destination removes them in its own time."""
    source = new_topic(
        pair, cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", segment_ms="100", max_compaction_lag_ms="100"
    )
    target = new_topic(pair)
    for first in (0, 20):
        batch = batch_of([Record(i, 1_000 + first + i, b"k%d" % (i % 10), b"v%d" % (first + i)) for i in range(20)])
        assert kafka.produce(source, batch) == 0
    tombstones = [Record(i, 2_000 + i, b"k%d" % i, None if i < 5 else b"last") for i in range(0, 10, 2)]
    relabelled = [record._replace(offset=place) for place, record in enumerate(tombstones)]
    assert kafka.produce(source, batch_of(relabelled)) == 0

    def cleaned() -> bool:
        # A segment is closed by a batch that comes later, and only closed ones are cleaned.
        kafka.produce(source, batch_of([Record(0, 3_000, b"filler", b"x")]))
        headers = [batch.header for batch in taken(kafka.fetch(source)).batches]
        horizons = [header for header in headers if header.attributes & DELETE_HORIZON]
        return bool(horizons) and any(header.record_count <= header.last_offset_delta for header in headers)

    wait_until(cleaned, "the cleaner leaves holes and a delete horizon")
    found = taken(kafka.fetch(source))
    kinds = {batch.header.attributes & DELETE_HORIZON for batch in found.batches}
    assert DELETE_HORIZON in kinds
    for limits in (Limits(), Limits(small_bytes_max=0)):
        made = Rewriter(limits).take(found.batches)
        assert made.refused == []
        kafka.produce_all(target, [one.pieces for one in made.outgoing])
    stored = taken(kafka.fetch(target)).batches
    assert {batch.header.attributes for batch in stored} == {0}
    originals = [line for line in read_by_java(pair, source, _count(found)) if "filler" not in line]
    copies = [line for line in read_by_java(pair, target, 2 * _count(found)) if "filler" not in line]
    without_offsets = [[field for field in line.split("\t") if "Offset:" not in field] for line in originals]
    assert any("(null)" in line for line in originals)
    assert [[f for f in line.split("\t") if "Offset:" not in f] for line in copies] == [*without_offsets] * 2


def _count(found: Committed) -> int:
    return sum(read_header(batch.data).record_count for batch in found.batches)
