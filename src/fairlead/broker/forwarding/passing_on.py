"""What one client's connection passes on to owners elsewhere, and what becomes of it.

`ClientForwards.submit` is where it is decided that a batch cannot be passed on: the owner is no neighbour (NotAllowed,
for good), or cannot be reached (Unreachable: nothing was sent). After Unanswered nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import structlog
from kio.schema.errors import ErrorCode

from fairlead.broker.errors import RefusedRequest
from fairlead.broker.forwarding.known import End, KnownProducers
from fairlead.broker.forwarding.neighbours import urls_of_owner
from fairlead.broker.forwarding.order import Order
from fairlead.broker.forwarding.owner_connection import OwnerConnection
from fairlead.broker.forwarding.putting_aside import AsideBatch, AsideOutcome, PuttingAside, Route
from fairlead.broker.forwarding.reach import Reach
from fairlead.broker.topics.topics import Found
from fairlead.broker.traffic import Traffic
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.reaching import way_to
from fairlead.cluster.stream import Stream
from fairlead.model.errors import FairleadError, InvalidValue, NotAllowed, TryAgain, Unanswered, Unreachable, another
from fairlead.protocol.batch import CheckedBatch
from fairlead.protocol.produce import PartitionProduceResponse, read_response, write_request
from fairlead.protocol.wire import Malformed
from fairlead.wire.dial import TakeOver, leave_http
from fairlead.wire.forward import ForwardHello
from fairlead.wire.upgrade import FORWARD_TOKEN
from fairlead.wire.urls import UrlsInTurn
from fairlead.wire.waits import CONNECT_SECONDS, FORWARD_SECONDS

log = structlog.get_logger(__name__)

CONNECTIONS_MAX: Final = 64
"""To one owner; more clients share them, so that an owner has connections left for links and people."""
_SKIP_DEAD_SECONDS: Final = 10.0
_FINISHING_MAX: Final = 100
_FINISHING_BYTES_MAX: Final = 256 * 1024
"""Of a client that went away without waiting for answers (acks=0): so much is still sent, of so many clients."""

Outcome = PartitionProduceResponse | FairleadError
"""What the owner answered, or why it was not asked or did not answer."""


class Batch(NamedTuple):
    """A batch that is to be passed on."""

    found: Found
    partition: int
    batch: CheckedBatch
    follows_pending: bool = False
    """What the owner lacks before it was put aside here."""


class Forwarder:
    """Of one server."""

    def __init__(self, cluster: Cluster, traffic: Traffic, answer_seconds: float = FORWARD_SECONDS) -> None:
        self.cluster = cluster
        self.traffic = traffic
        self.answer_seconds = answer_seconds
        self._turns = UrlsInTurn(cluster.clock, _SKIP_DEAD_SECONDS)
        self._clients: dict[tuple[bytes, bytes], dict[OwnerConnection, int]] = {}
        """How many clients share each connection, by the ids of the stream here and of its owner."""
        self._finishing: set[OwnerConnection] = set()
        self.known = KnownProducers()
        self.aside = PuttingAside(self.known, traffic)
        self._reach = Reach(cluster.clock)
        self._trying: dict[tuple[bytes, bytes], asyncio.Task[None]] = {}

    def is_cut_off(self, stream: Stream, owner: bytes) -> bool | None:
        """Whether what is produced to this owner's topics is put aside now; None: nobody knows whether the owner can be
        reached, or it cannot for a short time only. Unless it can, somebody looks whether it can be reached again."""
        if not stream.settings.pending or owner == stream.id or not urls_of_owner(self.cluster, stream, owner):
            return False
        way = stream.id, owner
        if self._reach.is_reached(way):
            return False
        if self._reach.is_to_be_tried(way) and way not in self._trying:
            task = asyncio.get_running_loop().create_task(self._try(*way), name="forward-try")
            self._trying[way] = task
            task.add_done_callback(lambda _: self._trying.pop(way, None))
        return self._reach.is_failing(way, self.cluster.settings.pending_after_seconds) or None

    async def _try(self, stream: bytes, owner: bytes) -> None:
        with suppress(Unreachable):
            await self.open(stream, owner, lambda transport, _: transport.abort())

    def connection(self, stream: bytes, owner: bytes) -> OwnerConnection:
        """A connection for one more client; `leave` gives it back."""
        open_now = self._clients.setdefault((stream, owner), {})
        alive = [each for each in open_now if not each.ended]
        if len(alive) < CONNECTIONS_MAX:
            chosen = OwnerConnection(partial(self.open, stream, owner), self.answer_seconds)
        else:
            chosen = min(alive, key=open_now.__getitem__)
        open_now[chosen] = open_now.get(chosen, 0) + 1
        return chosen

    def leave(self, stream: bytes, owner: bytes, connection: OwnerConnection) -> None:
        """A client has done with a connection; the last one ends it."""
        open_now = self._clients[stream, owner]
        open_now[connection] -= 1
        if not open_now[connection]:
            del open_now[connection]
            if not open_now:
                del self._clients[stream, owner]
            self._finish(connection)

    async def open(self, stream: bytes, owner: bytes, take_over: TakeOver[None]) -> None:
        """Connect to the gateway of an owner.

        Raises:
            Unreachable: none of its gateways takes the connection.
        """
        found = self.cluster.stream_by_id(stream)
        urls = () if found is None else urls_of_owner(self.cluster, found, owner)
        for url in self._turns.next(urls):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await leave_http(url, ForwardHello(stream, owner).target, take_over, FORWARD_TOKEN)
            except (OSError, ValueError, InvalidValue) as error:
                self._turns.failed(url)
                if isinstance(error, OSError):
                    self._reach.failed((stream, owner))
                else:
                    self._reach.reached((stream, owner))
                why = str(error) or type(error).__name__
                log.warning("the owner's gateway takes no writes from here", url=url, owner=owner.hex(), why=why)
            else:
                self._turns.answered(url)
                self._reach.reached((stream, owner))
                return
        raise Unreachable("no gateway of the owner takes the connection; the log of this server says more")

    def _finish(self, connection: OwnerConnection) -> None:
        """Let a connection whose clients have gone end by itself, if it holds little."""
        if connection.ended:
            return
        if len(self._finishing) >= _FINISHING_MAX or connection.unsent_bytes > _FINISHING_BYTES_MAX:
            connection.close()
            return
        self._finishing.add(connection)
        connection.finish(self._finishing.discard)

    def close(self) -> None:
        """Drop what is under way."""
        for connection in list(self._finishing):
            connection.close()
        for task in self._trying.values():
            task.cancel()


class ClientForwards:
    """Of one client's connection."""

    __slots__ = ("_connections", "_forwarder", "_order")

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._connections: dict[tuple[bytes, bytes], OwnerConnection] = {}
        """By the ids of the stream here and of its owner."""
        self._order = Order()

    def check_order(self, found: Found, partition: int, batch: CheckedBatch) -> None:
        """A batch, of a stream that passes writes on, may go to the owner that its topic has now. Raises: TryAgain."""
        self._order.check(found.topic.incarnation, partition, batch.header, found.topic.owner)

    def route(self, found: Found, partition: int, batch: CheckedBatch) -> Route:
        """Where a batch goes, of a stream that passes writes on; its topic may be ours.

        Raises:
            TryAgain: nowhere yet. OutOfOrderSequence: nowhere.
        """
        self.check_order(found, partition, batch)
        cut_off = self._forwarder.is_cut_off(found.stream, found.topic.owner)
        try:
            return self._forwarder.aside.route(found, partition, batch.header, cut_off=cut_off)
        except TryAgain:
            self.refused_here(found, partition, batch)
            raise

    def refused_here(self, found: Found, partition: int, batch: CheckedBatch) -> None:
        """A batch is refused here, and the client sends it again, to another owner perhaps."""
        self._order.refused(found.topic.incarnation, partition, batch.header, found.topic.owner)

    def begins_here(self, found: Found, partition: int, batch: CheckedBatch) -> None:
        """A batch is being appended here, to a topic of ours. It may get another owner meanwhile."""
        self._order.begins(found.topic.incarnation, partition, batch.header, found.topic.owner)

    def ends_here(self, found: Found, partition: int, batch: CheckedBatch, *, comes_again: bool) -> None:
        """It has its outcome; `comes_again`: the client sends it again."""
        self._order.ends(found.topic.incarnation, partition, batch.header, comes_again=comes_again)

    def given(self, producer_id: int) -> None:
        """The client has got an id for a producer."""
        self._forwarder.known.given(producer_id)

    def put_aside(self, batches: Sequence[AsideBatch]) -> asyncio.Future[Sequence[AsideOutcome]]:
        """Put batches aside, all of them in the same shard."""
        return self._forwarder.aside.put(batches)

    def submit(self, batches: Sequence[Batch]) -> asyncio.Future[Sequence[Outcome]]:
        """Pass on batches for topics of one stream that have one owner; they are on their way when this returns."""
        done: asyncio.Future[Sequence[Outcome]] = asyncio.get_running_loop().create_future()
        stream, _, topic = batches[0].found
        if not urls_of_owner(self._forwarder.cluster, stream, topic.owner):
            done.set_result([_no_neighbour(self._forwarder.cluster, stream, each.found) for each in batches])
            self._forwarder.traffic.forward_failures += len(batches)
            return done
        for each in batches:
            self._order.begins(each.found.topic.incarnation, each.partition, each.batch.header, topic.owner)
            self._forwarder.aside.passes_on(each.found, each.partition, each.batch.header)
        follow_pending = {place for place, each in enumerate(batches) if each.follows_pending}
        body = write_request(
            [(each.found.topic.incarnation, each.partition, each.batch.data) for each in batches], follow_pending
        )
        answer = self._connection(stream.id, topic.owner).ask(body)
        answer.add_done_callback(partial(self._answered, batches, done))
        return done

    def _connection(self, stream: bytes, owner: bytes) -> OwnerConnection:
        known = self._connections.get((stream, owner))
        if known is not None and known.ended:
            self._forwarder.leave(stream, owner, known)
        if known is None or known.ended:
            known = self._connections[stream, owner] = self._forwarder.connection(stream, owner)
        return known

    def _answered(
        self,
        batches: Sequence[Batch],
        done: asyncio.Future[Sequence[Outcome]],
        answer: asyncio.Future[memoryview],
    ) -> None:
        outcomes = _outcomes(batches, answer)
        traffic = self._forwarder.traffic
        for each, outcome in zip(batches, outcomes, strict=True):
            again = _comes_again(outcome)
            self._order.ends(each.found.topic.incarnation, each.partition, each.batch.header, comes_again=again)
            self._forwarder.aside.passed_on(each.found, each.partition, each.batch.header, _end(outcome))
            if isinstance(outcome, PartitionProduceResponse) and not outcome.error:
                traffic.forwarded_batches += 1
                traffic.forwarded_bytes += len(each.batch.data)
            else:
                traffic.forward_failures += 1
        if not done.done():
            done.set_result(outcomes)

    def close(self) -> None:
        """The client has gone."""
        for (stream, owner), connection in self._connections.items():
            self._forwarder.leave(stream, owner, connection)
        self._connections.clear()


def _no_neighbour(cluster: Cluster, stream: Stream, found: Found) -> NotAllowed:
    owner = stream.owner_path(found.topic)
    way = way_to(cluster, owner)
    return NotAllowed(
        f"topic {found.topic.name} is owned by {owner}, which is no neighbour of {stream.global_path} (there is no "
        f"link to it, nor an upstream with an address); write there{way and f' ({way})'}, or hand the topic "
        "over to a neighbour"
    )


def _outcomes(batches: Sequence[Batch], answer: asyncio.Future[memoryview]) -> Sequence[Outcome]:
    """The owner's outcome of each, in order."""
    error = answer.exception()
    if isinstance(error, Unanswered | Unreachable):
        return [_named(each, error) for each in batches]
    if error is not None:
        raise error
    try:
        found = read_response(answer.result())
    except Malformed as malformed:
        return [_named(each, Unanswered(f"its answer is no Produce response: {malformed}")) for each in batches]
    asked = [(each.found.topic.incarnation, each.partition) for each in batches]
    if [(incarnation, outcome.partition) for incarnation, outcome in found] != asked:
        return [_named(each, Unanswered("its answer is for other partitions")) for each in batches]
    return [_as_here(outcome) for _, outcome in found]


def _named(batch: Batch, error: FairleadError) -> FairleadError:
    """The same with the topic and its owner."""
    stream, _, topic = batch.found
    named = another(error)
    named.args = (f"topic {topic.name} is owned by {stream.owner_path(topic)}: {error}",)
    return named


def _as_here(outcome: PartitionProduceResponse) -> PartitionProduceResponse:
    """The client does not know the owner's id of the topic."""
    if outcome.error != ErrorCode.unknown_topic_id:
        return outcome
    return outcome._replace(error=ErrorCode.unknown_topic_or_partition)


def _end(outcome: Outcome) -> End:
    """What is certain of a batch that was passed on. A retriable code does not say whether it was appended."""
    if isinstance(outcome, PartitionProduceResponse) and not outcome.error:
        return End.APPENDED
    if isinstance(outcome, Unreachable) or not _comes_again(outcome):
        return End.NOT_DONE
    return End.UNKNOWN


def _comes_again(outcome: Outcome) -> bool:
    if isinstance(outcome, FairleadError):
        return not isinstance(outcome, RefusedRequest)
    try:
        return outcome.error != ErrorCode.none and ErrorCode(outcome.error).retriable
    except ValueError:
        return False
