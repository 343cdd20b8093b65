"""The producer's rules, beside a broker that says what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.client import batch, opened, producing
from tests.kafka.fake_broker import (
    CLOSE,
    FakeBroker,
    Line,
    Log,
    fake_broker,
    produce_answer,
    refusing,
    throttled,
)
from tests.support.waiting import a_quiet_while, until

from fairlead.kafka import Producer, ProduceSettings, TopicPartition
from fairlead.kafka.connecting.versions import INIT_PRODUCER_ID, METADATA, PRODUCE
from fairlead.model.errors import BadRequest, BatchTooLarge, Closed, Fenced, InvalidValue, NotAllowed, NotTried
from fairlead.protocol.batch import read_header, records_of

ONE_A_REQUEST = ProduceSettings(request_bytes_max=1)


@asynccontextmanager
async def rig(settings: ProduceSettings = ONE_A_REQUEST, **options: Any) -> AsyncIterator[tuple[FakeBroker, Producer]]:
    """A broker with the topic `t`, and a producer that puts one batch into each request."""
    async with fake_broker() as broker:
        broker.add_topic("t", 3)
        async with (
            opened(broker.bootstrap) as cluster,
            producing(await cluster.producer(settings, **options)) as producer,
        ):
            yield broker, producer


def values(log: Log) -> list[bytes]:
    """What a partition holds."""
    return [bytes(record.value or b"") for each in log.batches for record in records_of(each)]


def sequences(broker: FakeBroker) -> list[tuple[int, int]]:
    """Epoch and base sequence of each batch that was sent, in order."""
    heads = [
        read_header(bytes(each.records))
        for request in broker.of(PRODUCE)
        for topic in request.topic_data
        for each in topic.partition_data
    ]
    return [(head.producer_epoch, head.base_sequence) for head in heads]


def after_appending(broker: FakeBroker, error: ErrorCode) -> Line:
    """The batch is appended, and the answer says otherwise."""

    def line(request: Any) -> Any:
        broker.produced(request)
        return produce_answer(request, lambda topic, each: {"error_code": error})

    return line


def appended_then_cut(broker: FakeBroker) -> Line:
    def line(request: Any) -> Any:
        broker.produced(request)
        return CLOSE

    return line


async def send_all(producer: Producer, count: int, first: int = 0) -> list[asyncio.Future[int | None]]:
    return [producer.send("t", 0, batch(b"%d" % number)) for number in range(first, first + count)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_a_partition_is_never_twice_in_one_request() -> None:
    """Kafka would answer once, with success, and drop the second batch."""
    async with rig(ProduceSettings()) as (broker, producer):
        sent = [producer.send("t", number % 3, batch(b"%d" % number)) for number in range(12)]
        await asyncio.gather(*sent)
        for request in broker.of(PRODUCE):
            named = [each.index for topic in request.topic_data for each in topic.partition_data]
            assert len(named) == len(set(named))
        assert max(len(request.topic_data[0].partition_data) for request in broker.of(PRODUCE)) == 3
        assert values(broker.logs["t"][1]) == [b"1", b"4", b"7", b"10"]


async def test_at_most_five_requests_are_in_flight() -> None:
    async with rig() as (broker, producer):
        await producer.send("t", 0, batch(b"0"))
        broker.answering.clear()
        sent = await send_all(producer, 12, 1)
        await until(lambda: broker.unanswered == 5)
        await a_quiet_while()
        assert broker.unanswered == 5
        broker.answering.set()
        assert await asyncio.gather(*sent) == list(range(1, 13))


def test_more_than_five_cannot_be_asked_for() -> None:
    async def ask() -> None:
        async with rig(ProduceSettings(in_flight_max=6)):
            pass

    with pytest.raises(InvalidValue, match="at most 5"):
        asyncio.run(ask())


async def test_what_may_pass_is_sent_again_in_order_with_its_old_sequences() -> None:
    async with rig() as (broker, producer):
        broker.next(PRODUCE, None, refusing(ErrorCode.not_enough_replicas))
        await asyncio.gather(*await send_all(producer, 5))
        assert values(broker.logs["t"][0]) == numbers(5)
        assert sequences(broker) == [(0, n) for n in (0, 1, 2, 3, 4, 1, 2, 3, 4)]
        assert producer.down is None


async def test_nothing_more_is_sent_until_what_flies_is_down() -> None:
    """Else there were more of a partition under way than a broker remembers."""
    async with rig() as (broker, producer):
        await producer.send("t", 0, batch(b"0"))
        broker.next(PRODUCE, refusing(ErrorCode.not_enough_replicas))
        await asyncio.gather(*await send_all(producer, 8, 1))
        assert sequences(broker) == [(0, n) for n in (*range(6), *range(1, 9))]


async def test_a_partitions_first_batch_goes_alone() -> None:
    """Of a producer that it does not know Kafka takes any sequence: the second batch would come before the first."""
    async with rig() as (broker, producer):
        broker.next(PRODUCE, refusing(ErrorCode.not_enough_replicas))
        await asyncio.gather(*await send_all(producer, 4))
        assert values(broker.logs["t"][0]) == numbers(4)


async def test_what_comes_again_goes_alone_until_it_is_taken() -> None:
    """Kafka forgets producers whose newest record is a day old, by the record's own time, when it begins anew (and each
    ten minutes): then it takes any sequence again, also that of the batch behind one that it refused."""
    async with rig() as (broker, producer):
        await producer.send("t", 0, batch(b"0"))
        broker.answering.clear()
        sent = await send_all(producer, 4, first=1)
        await until(lambda: broker.unanswered >= 3)
        broker.logs["t"][0].forget_producers()
        broker.next(PRODUCE, lambda _: CLOSE, refusing(ErrorCode.not_enough_replicas))
        broker.answering.set()
        await asyncio.gather(*sent)
        assert values(broker.logs["t"][0]) == numbers(5)


@pytest.mark.parametrize("is_away", [False, True])
async def test_after_a_connection_that_broke_while_nothing_was_under_way_one_goes_alone_too(is_away: bool) -> None:
    """Another leader, or one that has begun anew, may not know the producer either."""
    async with rig() as (broker, producer):
        await producer.send("t", 0, batch(b"0"))
        broker.away = is_away
        broker.cut()
        await a_quiet_while()  # until the producer has seen it, which nothing tells
        broker.logs["t"][0].forget_producers()
        broker.next(PRODUCE, refusing(ErrorCode.not_enough_replicas))
        sent = await send_all(producer, 4, first=1)
        if is_away:
            await until(lambda: producer.down is not None)
            broker.away = False
        await asyncio.gather(*sent)
        assert values(broker.logs["t"][0]) == numbers(5)


async def test_a_lost_connection_loses_and_doubles_nothing() -> None:
    """The batch before the cut had been appended: the broker says so when it comes again."""
    async with rig() as (broker, producer):
        broker.next(PRODUCE, None, appended_then_cut(broker))
        offsets = await asyncio.gather(*await send_all(producer, 5))
        assert offsets == [0, None, 2, 3, 4]
        assert values(broker.logs["t"][0]) == numbers(5)


async def test_a_duplicate_is_a_success_whose_offset_is_not_known() -> None:
    async with rig() as (broker, producer):
        broker.next(PRODUCE, refusing(ErrorCode.duplicate_sequence_number))
        assert await producer.send("t", 0, batch(b"0")) is None


async def test_a_batch_that_was_appended_after_all_is_not_appended_twice() -> None:
    """Those behind it were taken; it keeps its own sequence."""
    async with rig() as (broker, producer):
        broker.next(PRODUCE, None, after_appending(broker, ErrorCode.not_enough_replicas_after_append))
        assert await asyncio.gather(*await send_all(producer, 4)) == [0, None, 2, 3]
        assert values(broker.logs["t"][0]) == numbers(4)


@pytest.mark.parametrize("error", [ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id])
async def test_a_broker_that_has_forgotten_the_producer_gets_a_higher_epoch_and_loses_nothing(error: ErrorCode) -> None:
    """The producer's id stays: nobody needs to be told of another one."""
    ids = []

    async def on_id(producer_id: int, epoch: int) -> None:
        ids.append((producer_id, epoch))

    async with rig(on_id=on_id) as (broker, producer):
        await producer.send("t", 0, batch(b"0"))
        broker.next(PRODUCE, *3 * [refusing(error)])
        await asyncio.gather(*await send_all(producer, 3, 1))
        assert values(broker.logs["t"][0]) == numbers(4)
        assert sequences(broker)[-3:] == [(1, 0), (1, 1), (1, 2)]
        assert ids == [(900, 0)]


async def test_one_partitions_epoch_is_not_anothers() -> None:
    async with rig() as (broker, producer):
        await producer.send("t", 1, batch(b"a"))
        broker.next(PRODUCE, refusing(ErrorCode.unknown_producer_id))
        await producer.send("t", 0, batch(b"0"))
        await producer.send("t", 1, batch(b"b"))
        assert sequences(broker) == [(0, 0), (0, 0), (1, 0), (0, 1)]


async def test_when_epochs_are_used_up_the_producer_gets_another_id() -> None:
    """And whoever asked is told of it before it is used."""
    told: list[tuple[int, int]] = []

    async def on_id(producer_id: int, epoch: int) -> None:
        told.append((producer_id, epoch))

    async with fake_broker() as broker:
        broker.add_topic("t")
        answer = {"error_code": ErrorCode.none, "producer_id": 5, "producer_epoch": 2**15 - 1}
        broker.next(INIT_PRODUCER_ID, lambda _: answer)
        async with opened(broker.bootstrap) as cluster, producing(await cluster.producer(on_id=on_id)) as producer:
            broker.next(PRODUCE, refusing(ErrorCode.unknown_producer_id))
            await producer.send("t", 0, batch(b"0"))
        assert told == [(5, 2**15 - 1), (900, 0)]
        assert values(broker.logs["t"][0]) == [b"0"]


async def test_a_refused_batch_fails_alone_and_those_behind_it_go_on() -> None:
    """With sequences that do not count it."""
    async with rig() as (broker, producer):
        broker.next(PRODUCE, None, refusing(ErrorCode.invalid_record, "no key\nin a compacted topic"))
        first, bad, *rest = await send_all(producer, 5)
        with pytest.raises(BadRequest, match=r"topic t, partition 0: INVALID_RECORD \(no key in a compacted topic\)"):
            await bad
        assert await first == 0
        assert await asyncio.gather(*rest) == [1, 2, 3]
        assert values(broker.logs["t"][0]) == [b"0", b"2", b"3", b"4"]
        assert {epoch for epoch, _ in sequences(broker)} == {0}


@pytest.mark.parametrize("cut", [False, True])
async def test_none_of_those_in_order_lands_before_one_that_is_refused(cut: bool) -> None:
    """Neither those that were under way, nor those that waited; another's go on, and so do those that come then."""
    async with rig() as (broker, producer):
        answers = (appended_then_cut(broker), None) if cut else (None, None)
        bad = refusing(ErrorCode.invalid_record, "no key")
        broker.next(PRODUCE, *answers, bad)
        sent = [producer.send("t", 0, batch(b"%d" % number), in_order=number != 4) for number in range(9)]
        await asyncio.wait(sent)
        found = [each.exception() for each in sent]
        refused = next(number for number, error in enumerate(found) if error is not None)
        assert type(found[refused]) is BadRequest
        assert "INVALID_RECORD" in str(found[refused])
        behind = [number for number in range(refused + 1, 9) if number != 4]
        assert {type(found[number]) for number in behind} == {NotTried}
        assert found[4] is None
        again = [producer.send("t", 0, batch(b"%d" % number), in_order=True) for number in [refused, *behind]]
        await asyncio.gather(*again)
        landed = values(broker.logs["t"][0])
        assert [value for value in landed if value != b"4"] == [value for value in numbers(9) if value != b"4"]
        assert landed.count(b"4") == 1


async def test_the_first_batch_of_all_may_be_refused() -> None:
    """The broker knows no producer yet and takes any sequence for its first."""
    async with rig() as (broker, producer):
        broker.next(PRODUCE, refusing(ErrorCode.message_too_large))
        bad, *rest = await send_all(producer, 4)
        with pytest.raises(BatchTooLarge, match="MESSAGE_TOO_LARGE"):
            await bad
        await asyncio.gather(*rest)
        await producer.send("t", 0, batch(b"4"))
        assert values(broker.logs["t"][0]) == numbers(5)[1:]


async def test_a_batch_that_is_refused_when_it_comes_again_lends_its_sequences_to_no_other() -> None:
    """The first time it may have been appended; another batch with its sequences would pass for it."""
    async with rig() as (broker, producer):
        broker.next(PRODUCE, appended_then_cut(broker), refusing(ErrorCode.message_too_large))
        bad, other = producer.send("t", 0, batch(b"0")), None
        with pytest.raises(BatchTooLarge):
            await bad
        other = producer.send("t", 0, batch(b"1"))
        assert await other == 1
        assert values(broker.logs["t"][0]) == [b"0", b"1"]


async def test_damage_on_the_way_is_sent_again_and_damage_from_before_is_refused() -> None:
    async with rig() as (broker, producer):
        broker.next(PRODUCE, refusing(ErrorCode.corrupt_message))
        assert await producer.send("t", 0, batch(b"0")) == 0
        broker.next(PRODUCE, *3 * [refusing(ErrorCode.corrupt_message)])
        with pytest.raises(BadRequest, match="CORRUPT_MESSAGE"):
            await producer.send("t", 0, batch(b"1"))
        assert await producer.send("t", 0, batch(b"2")) == 1


async def test_a_batch_at_which_the_broker_fails_each_time_is_refused_in_the_end() -> None:
    """A fault of its program, which it meets each time, would hold up all that is behind it for ever; one that passes
    costs nothing."""
    failing = refusing(ErrorCode.unknown_server_error)

    def failing_at_the_second(request: Any) -> Any:
        (head,) = (read_header(bytes(each.records)) for each in request.topic_data[0].partition_data)
        return failing(request) if head.base_sequence == 1 else None

    async with rig() as (broker, producer):
        broker.next(PRODUCE, *29 * [failing])
        assert await producer.send("t", 0, batch(b"0")) == 0
        broker.next(PRODUCE, *33 * [failing_at_the_second])
        bad, *rest = await send_all(producer, 4, 1)
        with pytest.raises(BadRequest, match="UNKNOWN_SERVER_ERROR, 30 times"):
            await bad
        assert await asyncio.gather(*rest) == [1, 2, 3]
        assert values(broker.logs["t"][0]) == [b"0", b"2", b"3", b"4"]


async def test_a_leader_that_has_moved_is_found_by_metadata() -> None:
    """What flies to the old one comes down before anything goes to the new one."""
    async with fake_broker(0) as old, fake_broker(1) as new:
        log = old.add_topic("t")
        new.logs, new.ids = old.logs, old.ids
        old.leaders["t", 0] = 0
        new.leaders = old.leaders
        old.peers = new.peers = [old, new]
        async with opened(old.bootstrap) as cluster, producing(await cluster.producer(ONE_A_REQUEST)) as producer:
            await producer.send("t", 0, batch(b"0"))
            old.leaders["t", 0] = 1
            old.next(PRODUCE, *3 * [refusing(ErrorCode.not_leader_or_follower)])
            await asyncio.gather(*[producer.send("t", 0, batch(b"%d" % number)) for number in range(1, 4)])
            assert values(log[0]) == numbers(4)
            assert sequences(new) == [(0, 1), (0, 2), (0, 3)]


async def test_a_topic_that_is_not_ours_to_see_fails_alone() -> None:
    """Leaders of all topics are asked for together. What is sent there later is tried anew: we may be let in."""
    async with rig() as (broker, producer):
        broker.add_topic("secret", topic_id=UUID(int=8))
        broker.refused["secret"] = ErrorCode.topic_authorization_failed
        broker.refused["ill"] = ErrorCode.unknown_server_error
        refused, waits = (producer.send(topic, 0, batch(b"0")) for topic in ("secret", "ill"))
        assert await producer.send("t", 0, batch(b"0")) == 0
        with pytest.raises(NotAllowed, match="topic secret, partition 0: TOPIC_AUTHORIZATION_FAILED"):
            await refused
        await until(lambda: producer.down == "topic ill: UNKNOWN_SERVER_ERROR")
        assert not waits.done()
        del broker.refused["secret"]
        assert await producer.send("secret", 0, batch(b"1")) == 0


async def test_a_steady_producer_ends_the_partition_of_a_topic_that_is_not_ours_to_see() -> None:
    """What came behind the batch that failed would get its numbers."""
    async with fake_broker() as broker:
        broker.refused["t"] = ErrorCode.topic_authorization_failed
        broker.add_topic("t")
        async with opened(broker.bootstrap) as cluster, producing(cluster.steady_producer(77, {})) as producer:
            with pytest.raises(NotAllowed):
                await producer.send("t", 0, batch(b"0"))
            broker.refused.clear()
            with pytest.raises(NotAllowed):
                await producer.send("t", 0, batch(b"1"))


async def test_a_topic_that_is_not_there_yet_is_waited_for() -> None:
    async with rig() as (broker, producer):
        sent = producer.send("later", 0, batch(b"0"))
        await until(lambda: producer.down == "topic later, partition 0 is not there")
        broker.add_topic("later")
        assert await sent == 0
        assert producer.down is None


async def test_a_broker_that_is_away_is_waited_for_and_named() -> None:
    async with rig() as (broker, producer):
        await producer.send("t", 0, batch(b"0"))
        broker.away = True
        broker.cut()
        sent = producer.send("t", 0, batch(b"1"))
        await until(lambda: f"broker {broker.bootstrap}" in (producer.down or ""))
        broker.away = False
        assert await sent == 1
        assert producer.down is None


async def test_a_broker_that_asks_for_quiet_gets_it() -> None:
    """Brokers say for how long they have muted the connection (KIP-219)."""
    async with rig() as (broker, producer):
        loop = asyncio.get_running_loop()
        throttle = lambda request: broker.produced(request) | throttled(400)  # noqa: E731
        broker.next(PRODUCE, throttle)
        began = loop.time()
        await producer.send("t", 0, batch(b"0"))
        await producer.send("t", 0, batch(b"1"))
        assert loop.time() - began >= 0.4


async def test_a_producer_whose_id_has_another_owner_stops() -> None:
    async with rig() as (broker, producer):
        broker.next(PRODUCE, refusing(ErrorCode.invalid_producer_epoch))
        sent = await send_all(producer, 3)
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(each) for each in outcomes] == [Fenced] * 3
        with pytest.raises(Fenced, match="INVALID_PRODUCER_EPOCH"):
            await producer.send("t", 0, batch(b"4"))


async def test_an_answer_about_other_partitions_ends_the_connection_and_nothing_is_lost() -> None:
    async with rig() as (broker, producer):
        broker.next(PRODUCE, lambda request: {"responses": []})
        assert await producer.send("t", 0, batch(b"0")) == 0
        broker.next(PRODUCE, lambda request: b"\xff\xff\xff\xff\x07" * 8)
        assert await producer.send("t", 0, batch(b"1")) == 1


async def test_flush_waits_for_all_and_close_cancels_what_is_left() -> None:
    async with rig() as (_, producer):
        sent = await send_all(producer, 7)
        await producer.flush()
        assert all(each.done() for each in sent)
        waits = producer.send("missing", 0, batch(b"0"))
        await producer.close()
        assert waits.cancelled()
        with pytest.raises(Closed):
            await producer.send("t", 0, batch(b"1"))


async def test_topics_without_ids_are_named() -> None:
    """Brokers before 2.8."""
    async with fake_broker(versions={METADATA: range(4, 10), PRODUCE: range(3, 10)}) as broker:
        broker.add_topic("t")
        async with opened(broker.bootstrap) as cluster, producing(await cluster.producer()) as producer:
            assert await producer.send("t", 0, batch(b"0")) == 0
        assert values(broker.logs["t"][0]) == [b"0"]


async def test_several_connections_share_the_partitions() -> None:
    async with rig(connections=3) as (broker, producer):
        before = broker.connections
        await asyncio.gather(*[producer.send("t", number % 3, batch(b"%d" % number)) for number in range(9)])
        assert broker.connections - before in (2, 3)
        assert [values(log) for log in broker.logs["t"]] == [numbers(9)[first::3] for first in range(3)]


async def test_what_is_handed_in_while_it_connects_goes_over_that_connection() -> None:
    """Not over one more, for which it would close the first, and that one again for the next, for ever."""
    async with rig() as (broker, producer):
        await asyncio.gather(*(producer.send("t", number, batch(b"0")) for number in range(3)))
        broker.cut()
        await until(lambda: not broker.serving)
        before = broker.connections
        broker.answering.clear()
        first = producer.send("t", 0, batch(b"1"))
        await until(lambda: broker.unanswered)
        second = producer.send("t", 1, batch(b"1"))
        await a_quiet_while()
        broker.answering.set()
        assert [await first, await second] == [1, 1]
        assert broker.connections == before + 1


async def test_a_steady_producer_goes_on_under_the_id_and_the_numbers_that_it_is_given() -> None:
    """In the next process too: what the broker has of it is told by `last_sequences`."""
    async with fake_broker() as broker:
        broker.add_topic("t", 3)
        async with opened(broker.bootstrap) as cluster:
            place = TopicPartition("t", 0)
            async with producing(cluster.steady_producer(77, {place: 5}, ONE_A_REQUEST)) as producer:
                await asyncio.gather(*await send_all(producer, 3))
            async with producing(cluster.steady_producer(77, {place: 8}, ONE_A_REQUEST)) as producer:
                await asyncio.gather(*await send_all(producer, 1, 3))
            assert sequences(broker) == [(0, 5), (0, 6), (0, 7), (0, 8)]
            assert {read_header(each).producer_id for each in broker.logs["t"][0].batches} == {77}
            assert not broker.of(INIT_PRODUCER_ID)


async def test_a_steady_producer_never_takes_other_numbers() -> None:
    """A batch that the broker would take under a new epoch alone fails, and all behind it: nobody could tell later what
    is there."""
    async with fake_broker() as broker:
        broker.add_topic("t", 3)
        async with (
            opened(broker.bootstrap) as cluster,
            producing(cluster.steady_producer(77, {}, ONE_A_REQUEST)) as producer,
        ):
            broker.next(PRODUCE, refusing(ErrorCode.out_of_order_sequence_number))
            sent = await send_all(producer, 4)
            found = await asyncio.gather(*sent, return_exceptions=True)
            assert [type(each) for each in found] == [BadRequest] * 4
            assert "t, partition 0: OUT_OF_ORDER_SEQUENCE_NUMBER" in str(found[0])
            with pytest.raises(BadRequest, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
                await producer.send("t", 0, batch(b"later"))
            assert sequences(broker) == [(0, 0)]


async def test_a_steady_producer_sends_again_what_was_cut_off_under_its_numbers() -> None:
    async with fake_broker() as broker:
        broker.add_topic("t", 3)
        async with (
            opened(broker.bootstrap) as cluster,
            producing(cluster.steady_producer(77, {}, ONE_A_REQUEST)) as producer,
        ):
            broker.next(PRODUCE, None, appended_then_cut(broker))
            await asyncio.gather(*await send_all(producer, 4))
            assert values(broker.logs["t"][0]) == [b"0", b"1", b"2", b"3"]
