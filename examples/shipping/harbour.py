"""What happens at a quay without a person: links that begin and end with a ship's call, containers that change hands.

The ship asks. It knows by its own position where it lies (`call_at`), and types the commands that set up its streams
with the port's, both ways in one agreement. When it sails they are paused, and at its next call there they go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

import httpx
from examples.shipping.cargo import Container, pattern_of
from examples.shipping.fleet import Link, links_of_call, path
from examples.shipping.pipelines.movements import state_after
from examples.shipping.routes import PORTS, Position
from examples.ships.sites import Site, SiteFailed, Sites, printed
from examples.ships.stage import Stage

AT_ONCE = 3
"""So many commands run side by side."""
HOPS_MAX = 3
"""From ship to port to Singapore to an office."""


def call_at(position: Position) -> str | None:
    """The port at which a ship lies, by what it says of itself."""
    return state_after(None, (position.lat, position.lon), position.knots, PORTS)


def short(command: Sequence[str]) -> str:
    """A command as it is shown: of many numbers of containers the first."""
    words = [f"'{word.partition('|')[0]}|…'" if "|" in word else word for word in command]
    return printed(words)


class Harbour:
    """Types commands, and waits for what they begin."""

    def __init__(self, stage: Stage, sites: Sites, at: Mapping[str, Site]) -> None:
        self._stage = stage
        self._sites = sites
        self._at = at
        self._http = httpx.Client(trust_env=False, timeout=60)

    def close(self) -> None:
        self._http.close()

    def type(self, commands: Sequence[tuple[str, ...]]) -> None:
        """Show the first of some commands alike, and run all of them."""
        self._stage.run(*commands[0], shown=short(commands[0]))
        if len(commands) > 1:
            self._stage.note(f"  … and {len(commands) - 1} more like it")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda each: self._sites.command(*each), commands[1:]))

    def docks(self, ship: str, port: str) -> None:
        """The ship sets up its links with the port, or lets those of an earlier call go on."""
        links = links_of_call(ship, port)
        known = [link for link in links if _of(self._rows(link.source, link.stream), link.replica) is not None]
        for commands in (
            [order for link in known for order in link.order("resume")],
            [link.set_up() for link in links if link not in known],
        ):
            if commands:
                self.type(commands)

    def in_step(self, links: Iterable[Link], what: str) -> None:
        """Wait until both ends have what the other had, and those behind them too: all are asked several times over, as
        what has just arrived by one link is news to the next."""
        ways, good = [way for link in links for way in link.ways()], 0

        def done() -> bool:
            nonlocal good
            good = good + 1 if self._all_in_step(ways) else 0
            return good >= HOPS_MAX

        self._stage.until(what, done)

    def leaves(self, ship: str, port: str) -> None:
        """Everything is on both sides; then the links rest until the ship comes again."""
        links = links_of_call(ship, port)
        self.in_step(links, f"{ship} and {port} are in step")
        self.type([order for link in links for order in link.order("pause")])

    def hand_over(self, containers: Iterable[Container], source: str, to: str) -> None:
        """The topics of containers change their owner with them; wait until the new one knows."""
        by_stream = groupby(sorted(containers, key=lambda each: each.stream), key=lambda each: each.stream)
        for stream, group in by_stream:
            some = list(group)
            names = {each.topic for each in some}
            self._stage.until(f"{to} knows the topics", lambda: names <= self.topics(to, stream))  # noqa: B023
            pair = ("-path", path(source, stream), "-topic", pattern_of(some), "-to", to, "--yes")
            self.type([("stream", "topic", "transfer", *pair)])
            self._stage.until(f"{to} owns what it was given", lambda: self._confirmed(stream, source, to))  # noqa: B023

    def _all_in_step(self, ways: Iterable[Link]) -> bool:
        said = {at: self._rows(*at) for at in sorted({(way.source, way.stream) for way in ways})}
        rows = [_of(said[way.source, way.stream], way.replica) for way in ways]
        return all(row is not None and row["isUptodate"] and not row["putsPending"] for row in rows)

    def _confirmed(self, stream: str, source: str, to: str) -> bool:
        row = _of(self._rows(source, stream), to)
        return row is not None and row["unconfirmedOwner"] == 0

    def topics(self, cluster: str, stream: str) -> set[str]:
        """The topics that a cluster's stream has."""
        return {str(row["topic"]) for row in self._at[cluster].ask("/rest/stream/topic/list", path=stream)}

    def _rows(self, cluster: str, stream: str) -> list[dict[str, Any]]:
        """What a cluster says of the replicas of a stream; asked so often that the connection is kept."""
        answer = self._http.get(f"{self._at[cluster].http}/rest/stream/replica/list", params={"path": stream}).json()
        if answer["status"] != "OK":
            raise SiteFailed(f"{cluster}: {answer['errors'][0]['desc']}")
        return list(answer["data"])


def _of(rows: Iterable[dict[str, Any]], replica: str) -> dict[str, Any] | None:
    """The row of the link to a cluster."""
    return next((row for row in rows if row["cluster"] == replica), None)
