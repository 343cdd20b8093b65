"""AIS messages as records: decoded from NMEA sentences, or generated in the same form; one topic per ship.

AIS is the radio by which ships tell each other who and where they are. A sentence such as
`!AIVDM,1,1,,A,13KFI200001eRdHREjw<RanB0@50,0*55` is one message, or a part of one; receivers put lines of their own
between them (`$PGHP…`: when it was heard). pyais decodes them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyais import encode_dict
from pyais.stream import IterMessages

REAL_DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "ais-denmark-2010-06-11.nmea"
"""27 seconds of traffic around Denmark: 4,051 messages of 1,933 ships (dma-ais/AisLib, Apache-2.0)."""
SHIPS = 1933
MESSAGES = 4051
SPEED_UNKNOWN_KNOTS = 102.2
"""From here on the field `speed` says that it is not known, or above what it can say."""


@dataclass(frozen=True, slots=True)
class Message:
    """One decoded message."""

    ship: int
    """MMSI, the ship's number at sea."""
    kind: int
    """AIS message type: 1 to 3 are positions, 5 is name and voyage …"""
    body: bytes
    """The beginning of the record's value: a JSON object that lacks its last field, `time`, and its closing brace."""

    @property
    def topic(self) -> str:
        """Every ship has a topic of its own."""
        return f"ship-{self.ship:09d}"

    @property
    def key(self) -> bytes:
        return str(self.ship).encode()

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        return [("type", b"%d" % self.kind)]

    def value(self, time_ms: int) -> bytes:
        """The record's value for a message heard at `time_ms`, milliseconds since 1970."""
        return self.body + b'"time": %d}' % time_ms


def load(file: Path = REAL_DATA) -> tuple[list[Message], str]:
    """The real messages where the file is, else generated ones; and which they are, in words."""
    if file.exists():
        return decode(file.read_bytes().splitlines()), f"AIS around Denmark, 2010-06-11 ({file.name})"
    return decode(generate()), "generated AIS"


def decode(lines: Iterable[bytes]) -> list[Message]:
    """The messages in NMEA lines; lines that are no AIS sentences are left out, parts are put together."""
    sentences = (line.strip() for line in lines if line.startswith(b"!"))
    return [_message(found.decode().asdict()) for found in IterMessages(sentences)]


def _message(fields: dict[str, Any]) -> Message:
    plain = {name: value for name, value in fields.items() if isinstance(value, bool | int | float | str)}
    ship, kind = int(fields["mmsi"]), int(plain.pop("msg_type"))
    body = json.dumps({"type": kind, **plain, "mmsi": ship})
    return Message(ship, kind, body[:-1].encode() + b", ")


def generate(ships: int = SHIPS, messages: int = MESSAGES, seed: int = 20100611) -> Iterator[bytes]:
    """NMEA lines of the form of the real ones: every ship is heard at least once, positions more often than names."""
    dice = random.Random(seed)
    numbers = [219_000_000 + 37 * index for index in range(ships)]
    for index in range(messages):
        ship = numbers[index] if index < ships else dice.choice(numbers)
        fields = _voyage(ship) if index % 9 == 8 else _position(ship, dice)
        yield b"$PGHP,1,2010,6,11,11,46,%d,%d,219,,2190047,1,00*2F" % (11 + index * 27 // messages, index % 1000)
        for sentence in encode_dict(fields, radio_channel="AB"[index % 2], talker_id="AI", sentence_type="VDM"):
            yield sentence.encode()


def _position(ship: int, dice: random.Random) -> dict[str, Any]:
    return {
        "msg_type": dice.choice((1, 1, 1, 3)),
        "mmsi": ship,
        "speed": round(min(abs(dice.gauss(8, 7)), 40), 1),
        "lat": round(dice.uniform(54.5, 58), 5),
        "lon": round(dice.uniform(9, 15), 5),
        "course": round(dice.uniform(0, 359.9), 1),
        "heading": dice.randrange(360),
        "second": dice.randrange(60),
    }


def _voyage(ship: int) -> dict[str, Any]:
    name = f"SHIP {ship}"
    return {"msg_type": 5, "mmsi": ship, "shipname": name, "callsign": f"OX{ship % 10000}", "destination": "SKAGEN"}


def replay(messages: Sequence[Message], count: int, start: int = 0) -> Iterator[Message]:
    """`count` messages, the recording over and over again, from message `start` of it on."""
    for index in range(start, start + count):
        yield messages[index % len(messages)]


def topics(messages: Iterable[Message]) -> list[str]:
    """The topics of all ships, in order."""
    return sorted({message.topic for message in messages})
