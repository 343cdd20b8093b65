"""What is to be at the destination: a plain model of the sources' topics, beside what a mirror made of them.

A *life* of a topic is from when it is made until it is deleted. Every value is written once, so it names its record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Where = tuple[str, int]
"""Topic and partition of the source."""


@dataclass
class Wanted:
    """What was written at the sources, by where."""

    lives: dict[Where, list[list[bytes]]] = field(default_factory=dict)
    """In order; the last life is the present one."""
    not_needed: set[bytes] = field(default_factory=set)
    """They may be missing: they were gone at the source, maybe before they were mirrored."""

    def add(self, where: Where, values: Iterable[bytes]) -> None:
        """Committed records."""
        self.lives.setdefault(where, [[]])[-1].extend(values)

    def gone(self, values: Iterable[bytes]) -> None:
        """They are at the source no more."""
        self.not_needed.update(values)

    def made_anew(self, topic: str) -> None:
        """A topic has another life, with nothing in it."""
        for where, lives in self.lives.items():
            if where[0] == topic:
                self.gone(lives[-1])
                lives.append([])

    def is_gone(self, where: Where) -> bool:
        """Whether anything of its present life is gone."""
        return not self.not_needed.isdisjoint(self.lives.get(where, [[]])[-1])

    # ------------------------------------------------------------ what must hold

    def check_all_there(self, topic: str, found: Mapping[int, Sequence[bytes]]) -> None:
        """Nothing is lost, and nothing is there that nobody has committed."""
        there = {value for values in found.values() for value in values}
        mine = [(where, lives) for where, lives in self.lives.items() if where[0] == topic]
        known = {value for _, lives in mine for life in lives for value in life}
        lost = {
            where: [x[:24] for x in lives[-1] if x not in there and x not in self.not_needed] for where, lives in mine
        }
        assert not any(lost.values()), f"lost, by partition: {_short(lost)}"
        assert not (foreign := sorted(there - known)), f"never committed: {[value[:24] for value in foreign[:9]]}"

    def check_once(self, found: Mapping[int, Sequence[bytes]]) -> None:
        """Nothing is there twice."""
        counted = Counter(value for values in found.values() for value in values)
        twice = [(value[:24], count) for value, count in counted.items() if count > 1]
        assert not twice, f"more than once: {twice[:9]} and so on, {len(twice)} records"

    def check_order(self, topic: str, found: Mapping[int, Sequence[bytes]]) -> None:
        """What was in one partition is in one partition, in its order; what comes again comes behind its first copy."""
        for (name, number), lives in self.lives.items():
            if name != topic:
                continue
            here = list(dict.fromkeys(found.get(number, ())))
            for life in lives:
                its = set(life)
                present = [value for value in here if value in its]
                there = set(present)
                assert present == [value for value in life if value in there], f"out of order: {(name, number)}"
                elsewhere = [other for other, values in found.items() if other != number and not its.isdisjoint(values)]
                assert not elsewhere, f"records of {(name, number)} are in partitions {elsewhere}"


def _short(lost: Mapping[Where, Sequence[bytes]]) -> str:
    return "; ".join(f"{where}: {len(values)}, {list(values[:5])}" for where, values in lost.items() if values)
