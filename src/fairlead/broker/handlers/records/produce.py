"""Produce: record batches get their offsets; they are checked here, and opened only where the topic demands something
of each record (`record_rules.py`).

What a request brings to one shard is submitted together and is one request of its group commit, in which each partition
has its own outcome. As in Kafka one batch per partition and request (KIP-98). A batch is appended at the topic's owner
only. Elsewhere a stream that passes writes on does so (`forwarding/`), and the owner checks what the topic demands;
other streams answer POLICY_VIOLATION with a message that names the owner, which is also logged, since librdkafka shows
only codes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Sized
from functools import partial
from typing import NamedTuple, cast

import structlog
from kio.schema.errors import ErrorCode

from fairlead.broker.context import RequestContext
from fairlead.broker.dispatch import PRODUCE, Packed, PendingAnswer, Submitted
from fairlead.broker.errors import RefusedRequest, code_of, message_of
from fairlead.broker.forwarding.known import ASIDE, Way
from fairlead.broker.forwarding.passing_on import Batch, ClientForwards
from fairlead.broker.forwarding.putting_aside import AsideBatch, Route, shard_of
from fairlead.broker.pacing import Pace, Rests
from fairlead.broker.settings.record_rules import (
    ANY_RECORD,
    RecordRules,
    RecordsRefused,
    looked_through,
    looked_through_at_once,
    plain_bytes_max,
    rules_of,
)
from fairlead.broker.settings.topic_settings import LOG_APPEND_TIME, message_bytes_max, timestamp_type
from fairlead.broker.topics.partitions import find_topic
from fairlead.broker.topics.topics import Found
from fairlead.model.errors import BatchTooLarge, Closed, CorruptBatch, FairleadError, NotOwner, TryAgain, another
from fairlead.protocol.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    CheckedBatch,
    check_produced,
    magic_of,
    read_header,
    stamp_append_time,
)
from fairlead.protocol.produce import (
    ACKS_NONE,
    PartitionProduceResponse,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    TopicProduceResponse,
    read_request,
    write_response,
)
from fairlead.protocol.wire import check_items
from fairlead.streamlog.requests.produce import ProduceResult, produce
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.shard import Shard

log = structlog.get_logger(__name__)

API_KEY = PRODUCE

_ACKS = frozenset({0, 1, -1})
_SUBMITTED_TOGETHER_BYTES = 16_000_000
_SUBMITTED_TOGETHER_MAX = 500
"""More than that for one shard goes in several requests of its group commit, so that commits stay small, and evaluating
them holds the loop for some milliseconds only."""
_NONE = ErrorCode.none
"""Kept here: to find it in its enumeration takes half as long as to make an answer."""
_AT_ONCE_MAX = 1000
"""Checking so many batches takes 10 ms; more are checked in turns with what others ask."""


class _Terms(NamedTuple):
    """What holds for all batches that a request brings to one topic."""

    found: Found
    ours: bool
    """They are appended here."""
    forwards: ClientForwards | None
    """Asked where each batch goes, in a stream that passes writes on."""
    stamped: bool
    """Records get the time of their append (LogAppendTime)."""
    bytes_max: int
    rules: RecordRules | None
    """What the topic demands of each record."""


class _Item(NamedTuple):
    """One checked batch on its way into a shard."""

    terms: _Terms
    answers: list[PartitionProduceResponse]
    place: int
    """Of its answer among those of its topic."""
    partition: int
    batch: CheckedBatch
    follows: bool
    """What the owner, be it we, lacks before it was put aside at a copy."""
    route: Route | None = None
    """Where it goes, in a stream that passes writes on."""
    unread: RecordRules | None = None
    """What is demanded of each record, if nobody has looked yet."""

    @property
    def found(self) -> Found:
        return self.terms.found

    @property
    def is_aside(self) -> bool:
        """It is put aside, since the owner cannot be reached."""
        return self.route is not None and self.route.way in ASIDE

    @property
    def is_elsewhere(self) -> bool:
        """It is passed on to the topic's owner."""
        return self.route is not None and not self.terms.ours and self.route.way not in ASIDE

    def answer(self, answer: PartitionProduceResponse) -> None:
        """Say what became of it."""
        self.answers[self.place] = answer


_Where = Shard | tuple[Shard, bool] | tuple[bytes, bytes]
_Outcome = ProduceResult | PartitionProduceResponse | BaseException | bool
"""True or false: it was put aside."""


def submit(ctx: RequestContext, body: memoryview) -> Submitted:
    """Submit every batch at once, so that requests of one connection keep their order.

    Raises:
        Malformed: it is no Produce request.
    """
    taking = _Taking(ctx, read_request(body, ctx.version))
    for topic in taking.request.topics:
        taking.take(topic)
        if taking.partitions + len(taking.answers) > _AT_ONCE_MAX:
            return _in_turns(taking)
    if any(item.unread is not None for item in taking.items):
        return _in_turns(taking)
    submitted = [(group, _submit(group)) for group in _grouped(taking.items)]
    return PendingAnswer([future for _, future in submitted], partial(_finish, taking, submitted))


class _Taking:
    """A request while its batches are checked."""

    def __init__(self, ctx: RequestContext, request: ProduceRequest) -> None:
        self.ctx = ctx
        self.request = request
        self.partitions = 0
        """Of all topics, also those that are refused."""
        self.items: list[_Item] = []
        """Batches that hold."""
        self.answers: list[TopicProduceResponse] = []

    def take(self, topic: ProduceTopic) -> None:
        """Check one topic's batches: those that hold are items now, the others have their answer."""
        answers: list[PartitionProduceResponse] = []
        self.answers.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
        self.partitions += len(topic.partitions)
        try:
            _check_request(self.request)
            terms = _terms(self.ctx, find_topic(self.ctx.listener, topic.name, topic.topic_id))
        except Exception as error:
            answers += [_refused(asked.partition, error) for asked in topic.partitions]
            return
        for asked in topic.partitions:
            try:
                item = _item(self.ctx, terms, asked, answers)
            except Exception as error:
                answers.append(_refused(asked.partition, error))
                continue
            answers.append(PartitionProduceResponse(asked.partition, _NONE))
            if item is not None:
                self.items.append(item)

    def put(self, group: Sequence[_Item], future: asyncio.Future[Sequence[_Outcome]]) -> None:
        """Answer those that were submitted together."""
        error = future.exception()
        outcomes = future.result() if error is None else [error] * len(group)
        for item, outcome in zip(group, outcomes, strict=True):
            item.answer(_outcome(self.ctx, item, outcome))


def _finish(
    taking: _Taking, submitted: Sequence[tuple[Sequence[_Item], asyncio.Future[Sequence[_Outcome]]]]
) -> Packed | None:
    for group, future in submitted:
        taking.put(group, future)
    if taking.request.acks == ACKS_NONE:
        _close_if_refused(taking.answers)
        return None
    return Packed([write_response(taking.answers, taking.ctx.version)])


async def _in_turns(taking: _Taking) -> Packed | None:
    """The rest of a request to thousands of partitions, or with long batches to look through: its connection begins no
    other meanwhile."""
    ctx, pace = taking.ctx, Pace()
    for topic in taking.request.topics:
        taking.take(topic)
        check_items("partitions", taking.partitions)
        await pace.turn()
    await _look_through(taking)
    _check_order_again(taking)
    submitted = [(group, _submit(group)) for group in _grouped(taking.items)]
    for group, future in submitted:
        await asyncio.wait((future,))
        taking.put(group, future)
        await pace.turn()
    if taking.request.acks == ACKS_NONE:
        _close_if_refused(taking.answers)
        return None
    loop = asyncio.get_running_loop()
    return Packed([await loop.run_in_executor(ctx.packers, write_response, taking.answers, ctx.version)])


def _check_order_again(taking: _Taking) -> None:
    """A batch before it may have failed on its way to the owner while this request had its turns."""
    kept: list[_Item] = []
    for item in taking.items:
        forwards = item.terms.forwards
        try:
            if forwards is not None and item.route is not None:
                route = forwards.route(item.found, item.partition, item.batch)
                if route.way is not item.route.way:
                    forwards.refused_here(item.found, item.partition, item.batch)
                    raise TryAgain("the owner could be reached meanwhile, or not any more")
        except FairleadError as error:
            item.answer(_refused(item.partition, error))
        else:
            kept.append(item)
    taking.items = kept


async def _look_through(taking: _Taking) -> None:
    """Look at the records of long batches on a thread; what is refused has its answer and is not submitted."""
    ctx, loop = taking.ctx, asyncio.get_running_loop()
    kept: list[_Item] = []
    for item in taking.items:
        try:
            batch = item.batch
            if item.unread is not None:
                look = partial(looked_through, item.unread, batch, *_looking(ctx, item.found, item.partition), Rests())
                batch = await loop.run_in_executor(ctx.packers, look)
        except Exception as error:
            item.answer(_refused(item.partition, error))
        else:
            kept.append(item._replace(batch=batch))
    taking.items = kept


def _terms(ctx: RequestContext, found: Found) -> _Terms:
    stream, _, topic = found
    ours = topic.owner == stream.id
    return _Terms(
        found,
        ours,
        ctx.connection.forwards if stream.settings.forward_writes else None,
        ours and timestamp_type(stream, topic.configs) == LOG_APPEND_TIME,
        message_bytes_max(topic.configs, ctx.settings),
        rules_of(stream, topic.configs),
    )


def _item(
    ctx: RequestContext, terms: _Terms, asked: ProducePartition, answers: list[PartitionProduceResponse]
) -> _Item | None:
    """The checked batch that is produced to a partition, whose answer is the next one; None if it is there already."""
    batch = _checked(terms.found, asked, ctx.settings.message_bytes_max)
    if terms.forwards is None:
        # A copy says what a batch follows that it passes on.
        follows = ctx.connection.passed_on and asked.follows_pending
        return _looked_at(ctx, _Item(terms, answers, len(answers), asked.partition, batch, follows))
    route = terms.forwards.route(terms.found, asked.partition, batch)
    if route.way is Way.IS_THERE:
        return None
    item = _Item(terms, answers, len(answers), asked.partition, batch, route.way is Way.FOLLOWS, route)
    return item if item.is_elsewhere else _looked_at(ctx, item)


def _looked_at(ctx: RequestContext, item: _Item) -> _Item:
    """The item, once it follows what its topic demands, as far as that can be seen on the loop."""
    terms, batch, rules = item.terms, item.batch, item.terms.rules
    _check_size(batch.data, terms.bytes_max)
    if rules is None and not terms.stamped and batch.header.max_timestamp < batch.header.base_timestamp:
        rules = ANY_RECORD
    if rules is None:
        return item
    looked = looked_through_at_once(rules, batch, *_looking(ctx, terms.found, item.partition))
    return item._replace(unread=rules) if looked is None else item._replace(batch=looked)


def _check_request(request: ProduceRequest) -> None:
    if request.transactional_id is not None:
        raise RefusedRequest(ErrorCode.transactional_id_authorization_failed, "transactions are not served")
    if request.acks not in _ACKS:
        raise RefusedRequest(ErrorCode.invalid_required_acks, f"acks={request.acks}: use 0, 1 or all")


def _looking(ctx: RequestContext, found: Found, partition: int) -> tuple[str, int, int]:
    """Where a batch goes, what time it is there, and how long its records may be."""
    where = f"{ctx.listener.name_of(found.stream, found.topic.name)}-{partition}"
    return where, found.shard.now_ms, plain_bytes_max(ctx.settings.message_bytes_max)


def _checked(found: Found, asked: ProducePartition, bytes_max: int) -> CheckedBatch:
    """The one batch that is produced to a partition."""
    found.topic.check_partition(asked.partition)
    data = asked.records
    if data is None or len(data) == 0:
        raise RefusedRequest(ErrorCode.invalid_record, "there are no records")
    _check_size(data, bytes_max)
    batch = _one_batch(data)
    if batch.header.log_append_time:
        raise RefusedRequest(ErrorCode.invalid_timestamp, "a producer must not say LogAppendTime; the topic does")
    return batch


def _check_size(data: Sized, bytes_max: int) -> None:
    if len(data) > bytes_max:
        raise BatchTooLarge(f"a batch of {len(data):,} bytes is above {bytes_max:,}")


def _one_batch(data: memoryview) -> CheckedBatch:
    try:
        return check_produced(data)
    except CorruptBatch:
        _check_form(data)
        raise


def _check_form(data: memoryview) -> None:
    """Refuse what has a code of its own: an older format, and several batches."""
    magic = magic_of(data)
    if magic is not None and magic < MAGIC:
        raise RefusedRequest(
            ErrorCode.unsupported_for_message_format, f"records of format v{magic} are not served, only v2"
        )
    if len(data) >= HEADER_BYTES and 0 < read_header(data).length < len(data) - LENGTH_END:
        raise RefusedRequest(ErrorCode.invalid_record, "one partition takes one batch of a request")


def _grouped(items: Sequence[_Item]) -> list[list[_Item]]:
    """Items by shard, each group of a size that one commit takes well; the order within a shard is kept."""
    if len(items) < 2:
        return [list(items)] if items else []
    groups: list[list[_Item]] = []
    open_groups: dict[_Where, tuple[list[_Item], int]] = {}
    for item in items:
        where = _where(item)
        group, size = open_groups.get(where, ([], 0))
        full = size + len(item.batch.data) > _SUBMITTED_TOGETHER_BYTES or len(group) >= _SUBMITTED_TOGETHER_MAX
        if not group or full:
            group, size = [], 0
            groups.append(group)
        group.append(item)
        open_groups[where] = (group, size + len(item.batch.data))
    return groups


def _where(item: _Item) -> _Where:
    """Where a batch goes: a shard here, aside in a shard here, or from a stream here to the owner of its topic."""
    if item.is_aside:
        return shard_of(_aside(item)), True
    return (item.found.stream.id, item.found.topic.owner) if item.is_elsewhere else item.found.shard


def _submit(group: Sequence[_Item]) -> asyncio.Future[Sequence[_Outcome]]:
    first, forwards = group[0], group[0].terms.forwards
    if forwards is not None:
        if first.is_aside:
            return cast("asyncio.Future[Sequence[_Outcome]]", forwards.put_aside([_aside(item) for item in group]))
        if first.is_elsewhere:
            batches = [Batch(item.found, item.partition, item.batch, item.follows) for item in group]
            return cast("asyncio.Future[Sequence[_Outcome]]", forwards.submit(batches))
        for item in group:
            forwards.begins_here(item.found, item.partition, item.batch)
    size_bytes = sum([len(item.batch.data) for item in group])
    return first.found.shard.submit(lambda draft: [_append(draft, item) for item in group], size_bytes)


def _append(draft: Draft, item: _Item) -> _Outcome:
    batch = stamp_append_time(item.batch, draft.now_ms) if item.terms.stamped else item.batch
    try:
        return produce(draft, item.found.topic.number, item.partition, batch, follows_pending=item.follows)
    except FairleadError as error:
        return another(error)


def _aside(item: _Item) -> AsideBatch:
    assert item.route is not None
    return AsideBatch(item.found, item.partition, item.batch, item.route)


def _outcome(ctx: RequestContext, item: _Item, outcome: _Outcome) -> PartitionProduceResponse:
    if item.terms.forwards is not None:
        _tell_forwards(item.terms.forwards, item, comes_again=isinstance(outcome, NotOwner | TryAgain))
    if isinstance(outcome, ProduceResult):
        if not outcome.duplicate:
            ctx.traffic.produced_batches += 1
            ctx.traffic.produced_records += item.batch.header.record_count
            ctx.traffic.produced_bytes += len(item.batch.data)
        append_time_ms = outcome.appended_at if item.terms.stamped else -1
        return PartitionProduceResponse(item.partition, _NONE, outcome.base_offset, append_time_ms, outcome.log_start)
    if isinstance(outcome, PartitionProduceResponse):
        if outcome.error:
            log.warning("produce refused by the owner", client=ctx.connection.id, why=outcome.message)
        return outcome
    if isinstance(outcome, bool):
        return PartitionProduceResponse(item.partition, _NONE)
    if isinstance(outcome, NotOwner):
        outcome = ctx.listener.owner_refused(item.found.stream, outcome)
        log.warning("produce refused", client=ctx.connection.id, why=str(outcome))
        if ctx.connection.passed_on or item.found.stream.settings.forward_writes:
            # It has changed its owner just now: sent again, it goes there.
            outcome = RefusedRequest(ErrorCode.not_leader_or_follower, str(outcome))
    return _refused(item.partition, outcome)


def _tell_forwards(forwards: ClientForwards, item: _Item, *, comes_again: bool) -> None:
    """The batch has its outcome; of one that was passed on they know it. `comes_again`: the client sends it again."""
    if not item.is_aside and not item.is_elsewhere:
        forwards.ends_here(item.found, item.partition, item.batch, comes_again=comes_again)
    elif item.is_aside and comes_again:
        forwards.refused_here(item.found, item.partition, item.batch)


def _refused(partition: int, error: BaseException) -> PartitionProduceResponse:
    records = error.records if isinstance(error, RecordsRefused) else ()
    return PartitionProduceResponse(partition, code_of(error), message=message_of(error), record_errors=records)


def _close_if_refused(topics: Sequence[TopicProduceResponse]) -> None:
    """A producer that takes no answers learns of a refusal as in Kafka: its connection is closed."""
    for topic in topics:
        for partition in topic.partitions:
            if partition.error:
                raise Closed(f"a produce with acks=0 was refused: {partition.message}")
