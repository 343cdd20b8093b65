"""Containers of three owners: their numbers, what is in them, where they are bound, and in which bay they stand."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OWNERS = {"blue": "BBL", "red": "RED", "yellow": "YLW"}
"""Big Blue and the two companies whose containers it carries too, with the letters of their containers' numbers."""
BAY = 6
"""So many containers stand together in a bay; their sensors feel the same sea."""
SEED = 1992
"""Of all that is made up here: the year in which 28,800 toys went overboard in the Pacific."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a cargo bears."""

    celsius_min: float
    celsius_max: float
    humidity_max: float
    g_max: float


CARGO = {
    "ducks": Limits(-20, 55, 95, 4.0),
    "tuna": Limits(-30, -15, 100, 4.0),
    "cameras": Limits(-10, 45, 85, 2.5),
}


@dataclass(frozen=True, slots=True)
class Container:
    """One container, which keeps its number, and so its topic, as long as it is in service."""

    number: str
    owner: str
    cargo: str
    bound: str
    """The port at which it leaves the sea."""
    bay: int

    @property
    def stream(self) -> str:
        """Containers of one owner are a stream, so that one owner's can be shown to him alone."""
        return f"/containers/{self.owner}"

    @property
    def topic(self) -> str:
        """The whole history of a container is one topic."""
        return self.number


def number_of(owner: str, serial: int) -> str:
    """A number with its check digit, as ISO 6346 makes it: `BBLU0000141`."""
    text = f"{OWNERS[owner]}U{serial:06d}"
    return f"{text}{check_digit(text)}"


def check_digit(text: str) -> int:
    """Letters count from 10 on without the multiples of 11; each place counts twice the one before."""
    values = [value for value in range(10, 39) if value % 11 != 0]
    sum_of_all = sum(
        (int(letter) if letter.isdigit() else values[ord(letter) - ord("A")]) << place
        for place, letter in enumerate(text)
    )
    return sum_of_all % 11 % 10


def is_number(text: str) -> bool:
    """Whether a text is a container's number with the right check digit."""
    plain = text.isascii() and text[:4].isalpha() and text[:4].isupper() and text[4:].isdigit()
    return len(text) == 11 and plain and text[3] == "U" and int(text[10]) == check_digit(text[:10])


def batch(owner: str, cargo: str, bound: Sequence[str], first_serial: int, first_bay: int) -> list[Container]:
    """Containers with one cargo, a bound port each, in bays from `first_bay` on."""
    return [
        Container(number_of(owner, first_serial + index), owner, cargo, port, first_bay + index // BAY)
        for index, port in enumerate(bound)
    ]


def from_tokyo(ducks: int = 18) -> list[Container]:
    """What is loaded in Tokyo: ducks for Singapore, London and Sydney, and other goods of Big Blue.

    A third of the ducks is bound for each; bays are filled at random.
    """
    dice = random.Random(SEED)
    bound = [("singapore", "london", "sydney")[index % 3] for index in range(ducks)]
    dice.shuffle(bound)
    others = batch("blue", "tuna", ["sydney"] * BAY, 500, 100)
    return [*batch("blue", "ducks", bound, 100, 0), *others]


def from_singapore() -> list[Container]:
    """What is loaded there: of Red, and of Yellow, whose last one is newly in service."""
    return [
        *batch("red", "cameras", ["sydney"] * 4, 700, 200),
        *batch("yellow", "cameras", ["sydney"] * 4, 800, 210),
    ]


def pattern_of(containers: Iterable[Container]) -> str:
    """A regular expression that matches the topics of these, for a filtered replica."""
    return "|".join(sorted(each.topic for each in containers))
