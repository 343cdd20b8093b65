"""The containers on their way: where each stands, what its sensor says there, and what ports write about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from examples.shipping.cargo import Container
from examples.shipping.fleet import LOG, heard_at, movements_of
from examples.shipping.receivers import Places, Receiver
from examples.shipping.routes import Position
from examples.shipping.sensors import Reading, Sensor, Where


def topic_of(container: Container) -> str:
    """As Kafka clients name it: the stream and the container's topic in it."""
    return f"{container.stream}:{container.topic}"


class World:
    """Everything that is heard goes into the cluster of the place where it is heard."""

    def __init__(self, receivers: Mapping[str, Receiver]) -> None:
        self.sensors: dict[str, Sensor] = {}
        self.place: dict[str, str] = {}
        """Of each container that is heard, by its number."""
        self._receivers = receivers
        self._moves: Counter[str] = Counter()

    # ------------------------------------------------------------ containers

    def enter(self, containers: Iterable[Container], place: str) -> None:
        """Containers are brought to a quay; their topics are there."""
        for each in containers:
            self.sensors[each.number] = Sensor(each, len(self.sensors))
            self.place[each.number] = place

    def at(self, place: str, bound: str | None = None, cargo: str | None = None) -> list[Container]:
        """Containers at a place, of one bound port or cargo if that is said."""
        here = [self.sensors[number].container for number, where in self.place.items() if where == place]
        return [each for each in here if bound in (None, each.bound) and cargo in (None, each.cargo)]

    def listen(self, where: Where, *, everything: bool = False, silent: Iterable[str] = ()) -> int:
        """Each container at a place takes a reading; how many are heard. `everything`: also what bad radios hold."""
        said: list[Reading] = []
        for container in self.at(where.place):
            if container.number not in silent:
                sensor = self.sensors[container.number]
                said += sensor.heard(where)
                said += sensor.last_words() if everything else []
        self._write(where, said)
        return len(said)

    def falls(self, container: Container, where: Where) -> None:
        """A container goes overboard, and is never heard again."""
        self._write(where, self.sensors[container.number].overboard(where))
        del self.place[container.number]

    def _write(self, where: Where, said: Iterable[Reading]) -> None:
        receiver = self._receivers[where.place]
        for reading in said:
            topic = topic_of(self.sensors[reading.container].container)
            receiver.write(topic, reading.value(where.time_ms), reading.container)
        receiver.done()

    # ------------------------------------------------------------ what ports and ships say

    def moved(self, containers: Iterable[Container], ship: str, port: str, event: str) -> None:
        """The port writes what it loads onto a ship or unloads from it; `lost` it writes too."""
        receiver = self._receivers[port]
        for each in containers:
            said = {"container": each.number, "ship": ship, "port": port, "event": event, "bay": each.bay}
            number = self._moves[each.number]
            self._moves[each.number] += 1
            value = json.dumps({**said, "number": number, "owner": each.owner, "cargo": each.cargo}).encode()
            receiver.write(f"{movements_of(port)}:containers", value, each.number)
        receiver.done()

    def stands(self, containers: Iterable[Container], place: str) -> None:
        """They were carried there; from now on they are heard there."""
        for each in containers:
            self.place[each.number] = place

    def reports(self, position: Position) -> None:
        """A ship's own log gets where it is."""
        self._receivers[position.ship].write(f"{LOG}:{position.ship}", _value(position), position.ship)

    def hears(self, port: str, positions: Iterable[Position]) -> None:
        """A port's receiver hears ships of all companies."""
        for position in positions:
            self._receivers[port].write(f"{heard_at(port)}:ships", _value(position), position.ship)
        self._receivers[port].done()

    # ------------------------------------------------------------ what was written

    def written(self, topics: Iterable[str]) -> dict[tuple[str, int], bytes]:
        """All that was acknowledged of these topics, wherever it was written."""
        chosen = set(topics)
        every = (item for receiver in self._receivers.values() for item in receiver.written.items())
        return {place: value for place, value in every if place[0] in chosen}


def _value(position: Position) -> bytes:
    return json.dumps(asdict(position)).encode()


def stages_of(found: Places, topic: str) -> list[str]:
    """The places that a container's history tells of, in its order, each as long as it stayed there once."""
    values = [json.loads(value) for (name, _), value in sorted(found.items()) if name == topic]
    places = [str(value["place"]) for value in values]
    return [place for number, place in enumerate(places) if number == 0 or places[number - 1] != place]


def counts_through(found: Places, topic: str) -> bool:
    """Whether the sensor's own numbers go through from 0 on, in the order of the offsets."""
    seqs = [json.loads(value)["seq"] for (name, _), value in sorted(found.items()) if name == topic]
    return bool(seqs) and seqs == list(range(len(seqs)))
