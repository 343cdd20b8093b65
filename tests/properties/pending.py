"""One topic, its owner, and a copy that passes writes on and puts them aside while it is cut off from the owner.

Producers send as Kafka's idempotent clients do: five batches under way at most, in order, one that failed before those
behind it, and a new epoch for what they gave up. Everything else comes at random: answers that are lost, connections
that break, cuts, `kill -9` of the copy at any moment, hand-overs, claims. What decides is the program's own code.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from tests.streamlog.ownership.sites import (
    TOPIC,
    A,
    B,
    answer_of,
    handed_over,
    id_of,
    link_of,
    repaired,
    sent,
    topic_of,
)
from tests.streamlog.requests.test_claim import steps, values_of_topic
from tests.streamlog.world import applied, batch_of, committed, frame, fresh, made, opened

from fairlead.broker.forwarding.known import End, Key, KnownProducers, Way
from fairlead.broker.forwarding.order import Order
from fairlead.model.errors import FairleadError, NotOwner, OutOfOrderSequence, OwnerPending, TryAgain
from fairlead.model.names import slice_of
from fairlead.protocol.batch import CheckedBatch, check_produced
from fairlead.streamlog.requests.pending import Place, Standing, close, names, put_aside, standing
from fairlead.streamlog.requests.produce import produce
from fairlead.streamlog.writing.draft import Draft, DraftRequest

STEPS = 400
UNDER_WAY_MAX = 5
PRODUCERS = 3
COPY = "copy"
UNANSWERED = "unanswered"
CHECKED_EVERY = 25


@dataclass(slots=True)
class Sent:
    """A batch of a producer that has no answer yet."""

    epoch: int
    sequence: int
    values: tuple[bytes, ...]
    is_under_way: bool = False


@dataclass(slots=True)
class Producer:
    """An idempotent client of the copy."""

    id: int
    epoch: int = 0
    next: int = 0
    waiting: list[Sent] = field(default_factory=list)
    """What is not acknowledged, in order."""
    order: Order = field(default_factory=Order)
    """Of the connection that it has."""
    connection: int = 0

    def makes(self, values: tuple[bytes, ...]) -> None:
        self.waiting.append(Sent(self.epoch, self.next, values))
        self.next += len(values)

    def reconnects(self) -> None:
        self.order, self.connection = Order(), self.connection + 1
        for each in self.waiting:
            each.is_under_way = False

    def gives_up(self) -> None:
        """The program is told that these failed; what it sends from now on has a new epoch."""
        self.waiting.clear()
        self.epoch, self.next = self.epoch + 1, 0
        self.reconnects()


@dataclass(slots=True)
class Asked:
    """A batch on the way to the owner, or back with its outcome."""

    producer: Producer
    order: Order
    batch: CheckedBatch
    follows: bool
    taken: Callable[[Exception | None], None]
    """The client is answered."""
    error: Exception | None = None


class World:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.owner, self.copy = fresh(A), fresh(B)
        made(self.owner)
        sent(self.owner, self.copy)
        self.known = KnownProducers(known_max=self.random.choice((2, 100)))
        self.is_cut = self.is_cut_off = False
        self.is_tried = True
        """The copy has tried to reach the owner since its start."""
        self.way: dict[Order, tuple[deque[Asked], deque[Asked]]] = {}
        """By client's connection, requests that the owner has not taken, and answers that the copy has not."""
        self.lost: dict[Order, list[Asked]] = {}
        """By client's connection, what will have no answer, and nobody knows yet."""
        self.commit: list[tuple[DraftRequest[Any], Callable[[Any], None]]] = []
        """What the copy's next commit has."""
        self.acknowledged: list[bytes] = []
        self.made = 0
        self.put_aside = 0
        self.waited = 0
        self.producers = [self.new_producer() for _ in range(PRODUCERS)]
        self._ids = count(1)

    def new_producer(self) -> Producer:
        """It has its id from the copy, or from a run before."""
        producer = Producer(self.random.getrandbits(40))
        if self.random.random() < 0.5:
            self.known.given(producer.id)
        return producer

    # ------------------------------------------------------------ the client

    def makes(self) -> None:
        producer = self.random.choice(self.producers)
        if len(producer.waiting) < UNDER_WAY_MAX:
            first, size = self.made, self.random.randint(1, 3)
            self.made += size
            producer.makes(tuple(b"%d" % number for number in range(first, first + size)))

    def sends(self, producer: Producer | None = None) -> None:
        """The first batch that is not under way."""
        producer = producer or self.random.choice(self.producers)
        found = next((each for each in producer.waiting if not each.is_under_way), None)
        if found is not None:
            found.is_under_way = True
            self.takes(producer, found)

    def breaks(self) -> None:
        self.random.choice(self.producers).reconnects()

    def gives_up(self) -> None:
        producer = self.random.choice(self.producers)
        if producer.waiting:
            producer.gives_up()

    def starts_anew(self) -> None:
        self.producers[self.random.randrange(PRODUCERS)] = self.new_producer()

    def _answered(self, producer: Producer, sent: Sent, connection: int, error: Exception | None) -> None:
        if connection != producer.connection or sent not in producer.waiting:
            return
        if error is None:
            assert producer.waiting[0] is sent, "answers come in order"
            producer.waiting.remove(sent)
            self.acknowledged += sent.values
            return
        comes_later = isinstance(error, OutOfOrderSequence) and producer.waiting[0] is not sent
        assert isinstance(error, TryAgain | NotOwner) or comes_later, f"a client is told {error!r}"
        sent.is_under_way = False

    # ------------------------------------------------------------ the copy

    def takes(self, producer: Producer, sent: Sent) -> None:
        """What the broker does with a batch."""
        client = partial(self._answered, producer, sent, producer.connection)
        made = batch_of(*sent.values, producer_id=producer.id, epoch=sent.epoch, sequence=sent.sequence)
        batch, topic = check_produced(made), topic_of(self.copy)
        order, header, state = producer.order, batch.header, self.copy.announced.state
        try:
            order.check(topic.incarnation, 0, header, topic.owner)
        except TryAgain as error:
            client(error)
            return

        def answer(error: Exception | None) -> None:
            if isinstance(error, TryAgain | NotOwner):
                order.refused(topic.incarnation, 0, header, topic.owner)
            client(error)

        pending = state.by_name(self.place.name)
        found = Standing.ELSEWHERE if pending is None else standing(state, pending, 0, header)
        is_ours = topic.owner == B
        copy = state.producer(topic.number, 0, producer.id)
        key = topic.incarnation, 0, producer.id
        way = self.known.way(key, header, found, copy, cut_off=False if is_ours else self.is_known_cut_off)
        if way is Way.IS_THERE:
            answer(None)
        elif way in {Way.ENTERS, Way.GOES_ON}:
            self._put_aside(key, batch, enters=way is Way.ENTERS, answer=answer)
        elif way is Way.BEHIND:
            raise AssertionError("no client sends what is behind")
        elif way in {Way.CLOSE, Way.WAIT}:
            if way is Way.CLOSE and pending is not None:
                self.commit.append((partial(close, number=pending.number, partition=0), lambda _: None))
            answer(TryAgain("later"))
        elif is_ours:
            self._append(producer, batch, way is Way.FOLLOWS, client)
        else:
            self._pass_on(producer, batch, way is Way.FOLLOWS, client)

    def _put_aside(
        self, key: Key, batch: CheckedBatch, *, enters: bool, answer: Callable[[Exception | None], None]
    ) -> None:
        self.known.begins(key, batch.header, aside=True)

        def ended(found: Any) -> None:
            failed = isinstance(found, Exception)
            self.known.ends(key, batch.header, End.NOT_DONE if failed else End.APPENDED, aside=True)
            self.put_aside += not failed
            answer(found if failed else None)

        self.commit.append((partial(put_aside, place=self.place, partition=0, batch=batch, enters=enters), ended))

    def _append(
        self, producer: Producer, batch: CheckedBatch, follows: bool, client: Callable[[Exception | None], None]
    ) -> None:
        topic, order, header = topic_of(self.copy), producer.order, batch.header
        order.begins(topic.incarnation, 0, header, B)

        def ended(found: Any) -> None:
            order.ends(topic.incarnation, 0, header, comes_again=isinstance(found, TryAgain | NotOwner))
            client(found if isinstance(found, Exception) else None)

        request = partial(produce, number=topic.number, partition=0, batch=batch, follows_pending=follows)
        self.commit.append((request, ended))

    @property
    def is_known_cut_off(self) -> bool | None:
        return self.is_cut_off or (False if self.is_tried else None)

    @property
    def place(self) -> Place:
        topic = topic_of(self.copy)
        return Place(topic, names(topic.name, topic.incarnation, COPY)[0], COPY, "/mapr/copy/s")

    def commits(self, *, fails: bool = False) -> None:
        """All that waits for a commit of the copy; with `fails`, some is not put aside, as there is no room."""
        waiting, self.commit = self.commit, []
        if not waiting:
            return
        requests = []
        for request, _ in waiting:
            is_aside = isinstance(request, partial) and request.func is put_aside
            refused = fails and is_aside and self.random.random() < 0.5
            requests.append(partial(_failing if refused else _caught, request=request))
        answers = committed(self.copy, *requests)
        for (_, ended), found in zip(waiting, answers, strict=True):
            ended(found.result())

    def _pass_on(
        self, producer: Producer, batch: CheckedBatch, follows: bool, answer: Callable[[Exception | None], None]
    ) -> None:
        topic, order = topic_of(self.copy), producer.order
        key = topic.incarnation, 0, producer.id
        order.begins(topic.incarnation, 0, batch.header, topic.owner)
        self.known.begins(key, batch.header, aside=False)

        def ended(error: Exception | None) -> None:
            order.ends(topic.incarnation, 0, batch.header, comes_again=error is not None)
            end = End.APPENDED if error is None else End.UNKNOWN if str(error) == UNANSWERED else End.NOT_DONE
            self.known.ends(key, batch.header, end, aside=False)
            answer(error)

        asked = Asked(producer, order, batch, follows, ended)
        if order in self.lost:
            self.lost[order].append(asked)
        elif self.is_cut:
            ended(TryAgain("unreachable"))
        else:
            self.way.setdefault(order, (deque(), deque()))[0].append(asked)

    # ------------------------------------------------------------ between them

    def owner_takes(self) -> None:
        """The next request of some connection."""
        if self.way:
            requests, answers = self.random.choice(list(self.way.values()))
            if requests:
                asked = requests.popleft()
                topic = topic_of(self.owner)
                request = partial(
                    produce, number=topic.number, partition=0, batch=asked.batch, follows_pending=asked.follows
                )
                try:
                    answer_of(self.owner, request)
                except FairleadError as error:
                    asked.error = error
                answers.append(asked)

    def copy_hears(self) -> None:
        """The next answer on some connection."""
        if self.way:
            _, answers = self.random.choice(list(self.way.values()))
            if answers:
                asked = answers.popleft()
                asked.taken(asked.error)

    def _way_is_lost(self) -> None:
        """The owner takes some of what is on its way; all answers are lost."""
        for requests, _ in list(self.way.values()):
            for _ in range(self.random.randint(0, len(requests))):
                self.owner_takes()
        for order, (requests, answers) in self.way.items():
            self.lost.setdefault(order, []).extend((*answers, *requests))
        self.way.clear()

    def cuts(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            self._way_is_lost()

    def notices(self) -> None:
        """That a connection to the owner is dead."""
        if self.lost:
            for asked in self.lost.pop(self.random.choice(list(self.lost))):
                asked.taken(TryAgain(UNANSWERED))

    def puts_aside(self) -> None:
        """The cut has lasted."""
        self.is_cut_off = self.is_cut

    def heals(self) -> None:
        self.is_cut = self.is_cut_off = False
        self.is_tried = True

    def links(self) -> None:
        """They bring what they have not."""
        if not self.is_cut:
            for source, replica in ((self.owner, self.copy), (self.copy, self.owner)):
                for slice in {slice_of(TOPIC), slice_of(self.place.name)}:
                    link = link_of(source, replica)
                    position = replica.announced.state.position((link, 0, slice))
                    start = 0 if position is None else position.commit
                    applied(replica, frame(source, id_of(replica), slice, start, link=link))
                repaired(source, replica)

    def killed(self) -> None:
        """The copy, perhaps with a commit that is durable and was not announced."""
        if self.commit and self.random.random() < 0.5:
            requests = [partial(_caught, request=request) for request, _ in self.commit]
            self.copy.write(self.copy.seal(requests))
        self.commit.clear()
        self.is_tried = self.is_cut_off = False
        self._way_is_lost()
        self.lost.clear()
        self.copy = opened(self.copy.announced.storage, B, seed=next(self._ids) + 1000)
        self.known = KnownProducers()
        for producer in self.producers:
            producer.reconnects()

    def struck(self) -> None:
        """The copy is killed, or its clients lose their connections, and soon after comes the cut."""
        self.heals()
        if self.random.random() < 0.5:
            self.killed()
        else:
            for producer in self.producers:
                producer.reconnects()
        for _ in range(self.random.randint(0, 12)):
            self.random.choice((self.sends, self.owner_takes, self.copy_hears))()
        self.cuts()
        self.puts_aside()

    def hands_over(self) -> None:
        """To the other one, and the row comes there. Between two batches that were sent together it does not go there
        and back."""
        if not self.is_cut and not self.lost and not any(requests for requests, _ in self.way.values()):
            sites = self.owner, self.copy
            giver, taker = sites if topic_of(self.owner).owner == A else sites[::-1]
            if topic_of(giver).owner == (A if giver is self.owner else B):
                handed_over(giver, taker)
                self.links()

    def claims(self) -> None:
        """What was put aside, at whoever owns the topic."""
        for site in (self.owner, self.copy):
            name = self.place.name
            if site.announced.state.by_name(name) and topic_of(site).owner == (A if site is self.owner else B):
                try:
                    steps(site, name, self.random.randint(1, 3))
                except (NotOwner, OwnerPending):
                    continue

    # ------------------------------------------------------------ a run

    def run(self) -> World:
        actions: tuple[Callable[[], object], ...] = (
            *[self.makes] * 10,
            *[self.sends] * 14,
            *[self.owner_takes] * 8,
            *[self.copy_hears] * 8,
            *[self.commits] * 6,
            partial(self.commits, fails=True),
            self.breaks,
            self.gives_up,
            self.cuts,
            *[self.notices] * 3,
            *[self.puts_aside] * 4,
            self.heals,
            self.links,
            *[self.struck] * (self.random.random() < 0.5),
            *[self.killed] * (self.random.random() < 0.5),
            *[self.hands_over] * (self.random.random() < 0.3),
            self.starts_anew,
            self.claims,
        )
        for at in range(STEPS):
            self.random.choice(actions)()
            if at % CHECKED_EVERY == 0:
                self.check()
        self.settles()
        return self

    def settles(self) -> None:
        """Everything is healed, and clients get their answers."""
        self.heals()
        while self.lost:
            self.notices()
        for _ in range(20):
            for producer in self.producers:
                for _ in range(UNDER_WAY_MAX):
                    self.sends(producer)
            for _ in range(30):
                self.owner_takes()
                self.copy_hears()
            self.commits()
        self.links()
        assert not any(producer.waiting for producer in self.producers), "everything is acknowledged in the end"
        self.claims()
        found = self.check()
        lost = [value for value in self.acknowledged if not found[value]]
        assert not lost, f"acknowledged and not in the topic: {lost}"

    def check(self) -> Counter[bytes]:
        """No record is in the topic twice, nor put aside twice; says what is in the topic."""
        site = self.owner if topic_of(self.owner).owner == A else self.copy
        found = Counter(values_of_topic(site))
        doubled = [value for value, times in found.items() if times > 1]
        assert not doubled, f"in the topic more than once: {doubled}"
        return found


def _caught(draft: Draft, request: DraftRequest[Any]) -> Any:
    try:
        return draft.run(request)
    except FairleadError as error:
        return error


def _failing(draft: Draft, request: DraftRequest[Any]) -> Any:
    """There is no room; what is there already needs none."""
    assert isinstance(request, partial)
    pending = draft.state.by_name(request.keywords["place"].name)
    header = request.keywords["batch"].header
    if pending is not None and standing(draft.state, pending, 0, header) is Standing.DUPLICATE:
        return _caught(draft, request)
    return TryAgain("there is no room")
