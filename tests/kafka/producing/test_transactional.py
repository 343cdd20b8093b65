"""The rules of a transactional producer, in both protocols, beside a broker that says what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import batch, opened
from tests.kafka.fake_broker import CLOSE, FakeBroker, Line, fake_broker, refusing
from tests.kafka.fake_transactions import joined
from tests.support.waiting import a_quiet_while, until

from fairlead.kafka import ProduceSettings, TransactionalProducer
from fairlead.kafka.connecting.versions import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
)
from fairlead.kafka.producing.transactional import FEATURE, FIRST, SECOND
from fairlead.model.errors import Aborted, BatchTooLarge, Fenced, InvalidValue, NotAllowed, UnknownTopic
from fairlead.protocol.batch import TRANSACTIONAL, read_header

ID: Final = "lane"
BOTH: Final = pytest.mark.parametrize("protocol", [FIRST, SECOND])


@asynccontextmanager
async def rig(
    protocol: int, settings: ProduceSettings | None = None, **options: Any
) -> AsyncIterator[tuple[FakeBroker, TransactionalProducer]]:
    """A broker with the topic `t`, and a transactional producer that is open."""
    async with fake_broker() as broker:
        broker.features[FEATURE] = protocol
        broker.add_topic("t", 3)
        async with opened(broker.bootstrap) as cluster:
            producer = cluster.transactional(ID, settings, **options)
            try:
                await producer.open()
                yield broker, producer
            finally:
                await producer.close()


def heads(broker: FakeBroker) -> list[tuple[int, int, int]]:
    """Producer id, epoch and sequence of each batch that was sent; each is marked as one of a transaction."""
    found = [
        read_header(bytes(each.records))
        for request in broker.of(PRODUCE)
        for topic in request.topic_data
        for each in topic.partition_data
    ]
    assert all(head.attributes & TRANSACTIONAL for head in found)
    return [(head.producer_id, head.producer_epoch, head.base_sequence) for head in found]


def apis(broker: FakeBroker) -> list[int]:
    """What was asked of transactions and produced, in order."""
    wanted = (INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, PRODUCE, END_TXN)
    return [seen.api for seen in broker.seen if seen.api in wanted]


def saying(error: ErrorCode) -> Line:
    return lambda request: {"error_code": error, "producer_id": -1, "producer_epoch": -1}


def joining(error: ErrorCode) -> Line:
    return lambda request: joined(request, error)


async def send_and_commit(producer: TransactionalProducer, *values: bytes) -> None:
    for value in values:
        producer.send("t", 0, batch(value))
    await producer.commit()


@BOTH
async def test_what_was_sent_is_committed_together(protocol: int) -> None:
    """In the first protocol partitions are joined before the first batch, once each transaction."""
    async with rig(protocol) as (broker, producer):
        for number in (0, 1, 0):
            producer.send("t", number, batch(b"x"))
        await producer.commit()
        assert [how for _, _, how in broker.transactions.ends] == ["committed"]
        asked = apis(broker)
        assert (asked[0], asked[-1]) == (INIT_PRODUCER_ID, END_TXN)
        assert (ADD_PARTITIONS_TO_TXN in asked) is (protocol == FIRST)
        if protocol == FIRST:
            assert asked.index(ADD_PARTITIONS_TO_TXN) < asked.index(PRODUCE)
        assert all(request.transactional_id == ID for request in broker.of(PRODUCE))
        versions = {seen.api: seen.version for seen in broker.seen}
        assert (versions[PRODUCE] >= 12, versions[END_TXN]) == ((True, 5) if protocol == SECOND else (False, 4))


async def test_the_first_protocol_keeps_its_epoch_and_counts_on() -> None:
    """And joins its partitions to each transaction anew."""
    async with rig(FIRST) as (broker, producer):
        await send_and_commit(producer, b"a")
        await send_and_commit(producer, b"b")
        assert heads(broker) == [(1001, 0, 0), (1001, 0, 1)]
        assert len(broker.of(ADD_PARTITIONS_TO_TXN)) == 2


async def test_the_second_protocol_has_an_epoch_for_each_transaction() -> None:
    """With sequences that begin anew."""
    async with rig(SECOND) as (broker, producer):
        await send_and_commit(producer, b"a")
        await send_and_commit(producer, b"b", b"c")
        assert heads(broker) == [(1001, 0, 0), (1001, 1, 0), (1001, 1, 1)]


async def test_a_new_producer_id_is_told_before_anything_is_sent_with_it() -> None:
    """The coordinator gives one when the epochs of the old one are used up."""
    told: list[tuple[int, int]] = []

    async def on_id(producer_id: int, epoch: int) -> None:
        assert all(head[0] != producer_id for head in heads(broker))
        told.append((producer_id, epoch))

    async with fake_broker() as broker:
        broker.features[FEATURE] = SECOND
        broker.transactions.epochs_max = 1
        broker.add_topic("t")
        async with opened(broker.bootstrap) as cluster:
            producer = cluster.transactional(ID, on_id=on_id)
            await producer.open()
            for value in (b"a", b"b", b"c"):
                await send_and_commit(producer, value)
            await producer.close()
    assert told == [(1001, 0), (1002, 0)]
    assert heads(broker) == [(1001, 0, 0), (1001, 1, 0), (1002, 0, 0)]


async def test_nothing_is_produced_before_partitions_are_added() -> None:
    """The trap of the first protocol: Kafka takes a batch that is sent while it says CONCURRENT_TRANSACTIONS, and puts
    it into the transaction before."""
    async with rig(FIRST) as (broker, producer):
        await send_and_commit(producer, b"a")
        produced = len(broker.of(PRODUCE))
        asked = len(broker.of(ADD_PARTITIONS_TO_TXN))

        def still_ending(request: Any) -> Any:
            assert len(broker.of(PRODUCE)) == produced
            return joined(request, ErrorCode.concurrent_transactions)

        broker.next(ADD_PARTITIONS_TO_TXN, *[still_ending] * 4)
        await send_and_commit(producer, b"b")
        assert len(broker.of(ADD_PARTITIONS_TO_TXN)) == asked + 5
        assert [how for _, _, how in broker.transactions.ends] == ["committed"] * 2


async def test_a_partition_that_comes_up_later_waits_for_its_own_joining() -> None:
    """While those that have joined go on."""
    async with rig(FIRST) as (broker, producer):
        await producer.send("t", 0, batch(b"a"))
        broker.next(ADD_PARTITIONS_TO_TXN, *[joining(ErrorCode.concurrent_transactions)] * 1000)
        later = producer.send("t", 1, batch(b"b"))
        await producer.send("t", 0, batch(b"c"))
        assert not later.done()
        broker.script[ADD_PARTITIONS_TO_TXN].clear()
        await later
        await producer.commit()


@BOTH
async def test_an_empty_transaction_asks_nothing(protocol: int) -> None:
    """Kafka refuses to end one that has not begun."""
    async with rig(protocol) as (broker, producer):
        await producer.commit()
        assert apis(broker) == [INIT_PRODUCER_ID]


# ---------------------------------------------------------------- what passes


@BOTH
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.transaction_coordinator_fenced,
    ],
)
async def test_a_coordinator_that_moves_or_is_busy_is_asked_again(protocol: int, error: ErrorCode) -> None:
    """By each of the questions; it is sought again, unless it is only busy."""
    async with rig(protocol) as (broker, producer):
        broker.next(INIT_PRODUCER_ID, saying(error), saying(error))
        await producer.open()
        found = len(broker.of(FIND_COORDINATOR))
        broker.next(ADD_PARTITIONS_TO_TXN, joining(error))
        broker.next(END_TXN, saying(error), saying(error))
        await send_and_commit(producer, b"a")
        assert [how for _, _, how in broker.transactions.ends] == ["committed"]
        assert (len(broker.of(FIND_COORDINATOR)) == found) is (error is ErrorCode.concurrent_transactions)


@BOTH
async def test_a_commit_whose_answer_is_lost_is_asked_for_again(protocol: int) -> None:
    """Kafka says yes to one that it has done, also of the epoch before."""
    async with rig(protocol) as (broker, producer):

        def done_and_cut(request: Any) -> Any:
            answer = broker.transactions.end(request)
            broker.next(END_TXN, lambda again: answer if again == request else None)
            return CLOSE

        broker.next(END_TXN, done_and_cut)
        await send_and_commit(producer, b"a")
        await send_and_commit(producer, b"b")
        assert [how for _, _, how in broker.transactions.ends] == ["committed"] * 2


@BOTH
async def test_a_commit_waits_for_a_coordinator_that_is_away(protocol: int) -> None:
    """For longer than a request may take; it says what it waits for."""
    async with rig(protocol) as (broker, producer):
        await producer.send("t", 0, batch(b"a"))
        broker.away = True
        broker.cut()
        committing = asyncio.create_task(producer.commit())
        await a_quiet_while()
        assert not committing.done()
        broker.away = False
        await committing
        assert producer.down is None


@BOTH
async def test_a_leader_that_moves_within_a_transaction_gets_the_batch_again(protocol: int) -> None:
    async with rig(protocol) as (broker, producer):
        broker.next(PRODUCE, refusing(ErrorCode.not_leader_or_follower), refusing(ErrorCode.not_enough_replicas))
        await send_and_commit(producer, b"a")
        assert len(broker.logs["t"][0].batches) == 1
        assert [how for _, _, how in broker.transactions.ends] == ["committed"]


async def test_the_second_protocol_waits_for_the_end_of_the_transaction_before() -> None:
    """A batch joins its partition by itself, so it is the broker of the partition that says CONCURRENT_TRANSACTIONS."""
    async with rig(SECOND) as (broker, producer):
        broker.next(PRODUCE, *[refusing(ErrorCode.concurrent_transactions)] * 2)
        await send_and_commit(producer, b"a")
        assert len(broker.logs["t"][0].batches) == 1


# ---------------------------------------------------------------- what does not


@BOTH
async def test_who_is_fenced_is_told_so(protocol: int) -> None:
    """Whatever it does next; nothing more of it is sent."""
    async with rig(protocol) as (broker, producer):
        await producer.send("t", 0, batch(b"a"))
        broker.transactions.fence(ID)
        with pytest.raises(Fenced):
            await producer.commit()
        broker.next(PRODUCE, refusing(ErrorCode.invalid_producer_epoch))
        with pytest.raises(Fenced):
            await producer.send("t", 0, batch(b"b"))
        with pytest.raises(Fenced):
            await producer.send("t", 0, batch(b"c"))
        with pytest.raises(Fenced):
            await producer.commit()
        assert not broker.transactions.ends


async def test_who_is_fenced_joins_nothing() -> None:
    async with rig(FIRST) as (broker, producer):
        broker.transactions.fence(ID)
        with pytest.raises(Fenced):
            await producer.send("t", 0, batch(b"a"))
        assert PRODUCE not in apis(broker)


@BOTH
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.transaction_abortable,
        ErrorCode.unknown_producer_id,
        ErrorCode.out_of_order_sequence_number,
    ],
)
async def test_a_transaction_that_cannot_go_on_is_aborted(protocol: int, error: ErrorCode) -> None:
    """All that was sent is as if it never was; once it is opened again, another one begins."""
    async with rig(protocol) as (broker, producer):
        await producer.send("t", 1, batch(b"a"))
        broker.next(PRODUCE, refusing(error))
        with pytest.raises(Aborted, match="partition 0"):
            await producer.send("t", 0, batch(b"b"))
        with pytest.raises(Aborted):
            await producer.commit()
        broker.transactions.ids[ID].open = True
        await producer.open()
        await send_and_commit(producer, b"c")
        assert [how for _, _, how in broker.transactions.ends] == ["aborted", "committed"]


@BOTH
@pytest.mark.parametrize("error", [ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_id_mapping])
async def test_a_commit_that_is_not_possible_aborts(protocol: int, error: ErrorCode) -> None:
    async with rig(protocol) as (broker, producer):
        broker.next(END_TXN, saying(error))
        with pytest.raises(Aborted):
            await send_and_commit(producer, b"a")


@BOTH
async def test_a_batch_that_is_refused_aborts_the_transaction(protocol: int) -> None:
    """Its future says why, those of all others that it was aborted."""
    async with rig(protocol) as (broker, producer):
        broker.next(PRODUCE, refusing(ErrorCode.message_too_large))
        refused = producer.send("t", 0, batch(b"a"))
        with pytest.raises(BatchTooLarge):
            await refused
        with pytest.raises(Aborted, match="refused: MESSAGE_TOO_LARGE"):
            await producer.commit()
        with pytest.raises(Aborted):
            await producer.send("t", 1, batch(b"b"))


@BOTH
@pytest.mark.parametrize("place", [("gone", 0), ("t", 3)])
async def test_a_topic_that_is_not_there_aborts_the_transaction(protocol: int, place: tuple[str, int]) -> None:
    """It was deleted, or has fewer partitions by now: its batch would wait for ever, and all others with it."""
    async with rig(protocol) as (broker, producer):
        other = producer.send("t", 0, batch(b"a"))
        lost = producer.send(*place, batch(b"b"))
        await producer.flush()
        with pytest.raises(UnknownTopic, match=f"topic {place[0]}, partition {place[1]}"):
            await lost
        assert other.done()
        with pytest.raises(Aborted, match=f"topic {place[0]}, partition {place[1]}"):
            await producer.commit()
        await producer.open()
        await send_and_commit(producer, b"c")
        assert broker.transactions.ends[-1][2] == "committed"


@BOTH
async def test_a_topic_that_is_not_ours_to_see_aborts_the_transaction(protocol: int) -> None:
    async with rig(protocol) as (broker, producer):
        broker.refused["secret"] = ErrorCode.topic_authorization_failed
        with pytest.raises(NotAllowed, match="topic secret, partition 0"):
            await producer.send("secret", 0, batch(b"a"))
        with pytest.raises(Aborted, match="topic secret, partition 0"):
            await producer.commit()


@BOTH
async def test_a_topic_that_goes_while_its_batches_are_sent_aborts_the_transaction(protocol: int) -> None:
    """The broker says so, and so does metadata from then on."""
    async with rig(protocol) as (broker, producer):
        await producer.send("t", 0, batch(b"a"))
        del broker.logs["t"]
        broker.next(PRODUCE, *[refusing(ErrorCode.unknown_topic_or_partition)] * 1000)
        lost = producer.send("t", 0, batch(b"b"))
        await producer.flush()
        with pytest.raises(UnknownTopic):
            await lost


@BOTH
async def test_a_topic_that_is_only_just_made_is_waited_for(protocol: int) -> None:
    """Brokers hear of it one after the other."""
    async with fake_broker() as broker:
        broker.features[FEATURE] = protocol
        broker.add_topic("t")
        async with opened(broker.bootstrap, retry_backoff_max_ms=10**6) as cluster:
            producer = cluster.transactional(ID)
            await producer.open()
            sent = producer.send("new", 0, batch(b"a"))
            await until(lambda: "is not there" in (producer.down or ""))
            broker.add_topic("new")
            await producer.commit()
            assert await sent == 0
            await producer.close()


async def test_a_partition_that_the_coordinator_has_not_heard_of_yet_is_waited_for() -> None:
    """Nothing of the transaction is lost by it. Where it is gone, that is known after a while."""
    async with rig(FIRST) as (broker, producer):
        unknown = joining(ErrorCode.unknown_topic_or_partition)
        broker.next(ADD_PARTITIONS_TO_TXN, unknown, unknown)
        await send_and_commit(producer, b"a")
        assert [how for _, _, how in broker.transactions.ends] == ["committed"]
        broker.next(ADD_PARTITIONS_TO_TXN, *[unknown] * 1000)
        with pytest.raises(UnknownTopic, match="topic t, partition 0"):
            await producer.send("t", 0, batch(b"b"))
        with pytest.raises(Aborted):
            await producer.commit()


async def test_a_partition_that_may_not_join_is_named() -> None:
    """Kafka then joins none of the others."""
    async with rig(FIRST) as (broker, producer):
        broker.next(
            ADD_PARTITIONS_TO_TXN,
            lambda request: joined(request, ErrorCode.topic_authorization_failed, ErrorCode.operation_not_attempted),
        )
        first, second = producer.send("t", 0, batch(b"a")), producer.send("t", 1, batch(b"b"))
        with pytest.raises(NotAllowed, match="partition 0"):
            await first
        with pytest.raises(Aborted):
            await second
        assert PRODUCE not in apis(broker)


async def test_a_transaction_may_be_refused_its_time() -> None:
    async with rig(FIRST, ProduceSettings(transaction_timeout_ms=10**6)) as (broker, producer):
        assert broker.of(INIT_PRODUCER_ID)[0].transaction_timeout.total_seconds() == 1000
        broker.next(INIT_PRODUCER_ID, saying(ErrorCode.invalid_transaction_timeout))
        with pytest.raises(InvalidValue, match="INVALID_TRANSACTION_TIMEOUT"):
            await producer.open()


async def test_what_is_dropped_is_not_written_later() -> None:
    """Opening it again cuts the connections of before: their answers are nobody's."""
    async with rig(SECOND) as (broker, producer):
        broker.answering.clear()
        sent = producer.send("t", 0, batch(b"a"))
        await until(lambda: broker.unanswered > 0)
        await producer.close()
        assert sent.cancelled()
        broker.answering.set()
        await producer.open()
        await send_and_commit(producer, b"b")
        assert [how for _, _, how in broker.transactions.ends] == ["committed"]
