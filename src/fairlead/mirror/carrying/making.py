"""What is sent for an answer of the source: which batches, to which partitions, and how far each send settles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fairlead.mirror.bytes.buffers import Buffers
from fairlead.mirror.bytes.committed import Committed
from fairlead.mirror.bytes.handled import Call, Handler, handled
from fairlead.mirror.bytes.limits import Limits
from fairlead.mirror.bytes.outgoing import Outgoing, Refused
from fairlead.mirror.bytes.repartition import Repartitioner
from fairlead.mirror.bytes.rewriter import Rewriter
from fairlead.mirror.bytes.source import SourceBatch
from fairlead.mirror.carrying.copying import Made
from fairlead.mirror.lanes import Part

OriginOf = Callable[[int], str | None]
"""Producer id of a batch → the cluster where it was first written; None: it is to be left out, since it came from the
destination."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the records of one partition go."""

    partition: int
    """Of the destination; with `by_key` what keyless records get, if `keep_order`."""
    count: int
    """Partitions of the destination's topic."""
    by_key: bool
    keep_order: bool


def route_of(partition: int, source_count: int, count: int, *, preserve: bool, keep_order: bool) -> Route | None:
    """Where a partition goes; None: it must keep its number, and the destination has no such partition.

    Where both topics have as many partitions, a record stays in its own: then whatever chose it at the source goes on
    to hold, and batches pass as they are. Otherwise the key chooses anew, as Java's producers do.
    """
    if preserve:
        return Route(partition, count, by_key=False, keep_order=keep_order) if partition < count else None
    return Route(partition % count, count, by_key=source_count != count, keep_order=keep_order)


class Maker:
    """Makes the sends of one partition."""

    def __init__(
        self, route: Route, limits: Limits, buffers: Buffers, part: Part, handler: Handler | None = None
    ) -> None:
        """`buffers` are shared by the makers of one thread; `handler` is the user's function for the records of
        `part`."""
        self._part = part
        self._handler = handler
        self._partition = route.partition
        self._rewriter = Rewriter(limits, buffers)
        self._by_key: Repartitioner | None = None
        if route.by_key:
            keyless = route.partition if route.keep_order else None
            self._by_key = Repartitioner(route.count, limits, keyless=keyless, buffers=buffers)

    def make(self, answer: Committed, origin_of: OriginOf) -> tuple[Made, int]:
        """The sends, and how many records were left out as they came from the destination."""
        sends: list[tuple[str, int, Outgoing]] = []
        steps: list[tuple[int, int]] = []
        looped = 0
        stop = None if answer.damage is None else str(answer.damage)
        for origin, group in _groups(answer.batches, origin_of):
            if origin is None:
                looped += sum(batch.header.record_count for batch in group)
                continue
            why = self._add(origin, group, sends, steps)
            if why is not None:
                stop = why
                break
        else:
            steps.append((0, answer.next_offset))
        return Made(sends, [(count, until, answer.epoch_before(until)) for count, until in steps], stop), looped

    def _add(
        self,
        origin: str,
        group: Sequence[SourceBatch],
        sends: list[tuple[str, int, Outgoing]],
        steps: list[tuple[int, int]],
    ) -> str | None:
        """Add the sends of one origin, as the user's function makes them; why the partition cannot go on behind
        them."""
        if self._handler is None:
            return self._add_as_it_is(origin, group, sends, steps)
        changed = handled(group, self._handler, self._part.topic, self._part.partition)
        for call in changed.calls:
            if call.mixed:
                why = self._add_mixed(origin, call, sends, steps)
            else:
                why = self._add_as_it_is(origin, call.batches, sends, steps) if call.batches else None
            if why is not None:
                return why
        # Also where the function has left the last records out.
        until = group[-1].header.last_offset + 1 if changed.refused is None else changed.refused.first_offset
        steps.append((0, until))
        return _why(changed.refused)

    def _add_mixed(
        self,
        origin: str,
        call: Call,
        sends: list[tuple[str, int, Outgoing]],
        steps: list[tuple[int, int]],
    ) -> str | None:
        """The same for a call where nobody knows of which of the source's records each one was made: all of it is one
        step, and where a record of it cannot be sent, none of it is."""
        found: list[tuple[str, int, Outgoing]] = []
        why = self._add_as_it_is(origin, call.batches, found, [])
        if why is not None:
            return f"of what was made of offsets {call.first} to {call.until}: {why}"
        for to, partition, each in found:
            its = each._replace(first_offset=call.first, last_offset=call.until, mixed=True)
            sends.append((to, partition, its))
        steps.append((len(found), call.until + 1))
        return None

    def _add_as_it_is(
        self,
        origin: str,
        group: Sequence[SourceBatch],
        sends: list[tuple[str, int, Outgoing]],
        steps: list[tuple[int, int]],
    ) -> str | None:
        """Add the sends of one origin; why the partition cannot go on behind them."""
        if self._by_key is not None:
            dealt = self._by_key.take(group)
            found = [(origin, number, each) for number, part in dealt.outgoing.items() for each in part]
            until = group[-1].header.last_offset + 1 if dealt.refused is None else dealt.refused.first_offset
            sends += found
            steps.append((len(found), until))
            return _why(dealt.refused)
        rewritten = self._rewriter.take(group)
        refused = rewritten.refused[0] if rewritten.refused else None
        for outgoing in rewritten.outgoing:
            if refused is None or outgoing.last_offset < refused.first_offset:
                sends.append((origin, self._partition, outgoing))
                steps.append((1, outgoing.last_offset + 1))
        return _why(refused)


def _why(refused: Refused | None) -> str | None:
    return None if refused is None else refused.why


def _groups(batches: Sequence[SourceBatch], origin_of: OriginOf) -> Iterator[tuple[str | None, Sequence[SourceBatch]]]:
    """Neighbours of one origin together, in order."""
    for origin, group in groupby(batches, key=lambda batch: origin_of(batch.header.producer_id)):
        yield origin, list(group)
