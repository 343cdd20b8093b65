"""Clusters, streams and links: who stands where, and what goes from whom to whom.

```
   tokyo ───────► toymaker (his containers, a report)
     ▲  └──────────────────────────┐ its movements
     ▼                             ▼
   singapore ─► portauthority    losangeles (headquarters)
     ▲  ▲  └───────────────────────▲
     ▼  └─► london                 │ movements of all
   sydney ─────────────────────────┘        bluewhale, blueheron: linked to the port where they lie
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HUB = "singapore"
PORTS = ("tokyo", HUB, "sydney", "london")
HEADQUARTERS = "losangeles"
MAKER = "toymaker"
AUTHORITY = "portauthority"
FIRST_SHIP = "bluewhale"
SECOND_SHIP = "blueheron"
SHIPS = (FIRST_SHIP, SECOND_SHIP)
OFFICES = (*PORTS, HEADQUARTERS)
"""Where Big Blue's people want to know everything."""
CLUSTERS = (*OFFICES, MAKER, AUTHORITY, *SHIPS)

BLUE, RED, YELLOW = "/containers/blue", "/containers/red", "/containers/yellow"
CONTAINERS = (BLUE, RED, YELLOW)
LOG = "/ships"
ALERTS = "/alerts"
REPORTS = "/ducks"
RETAIL, RECIPIENTS, SUMMARIES = "/retail", "/recipients", "/summaries"
"""Coarser views: of shops, of who waits for a container, of analysts."""
WORLDWIDE = (*CONTAINERS, LOG, ALERTS)
"""Streams that all offices share."""
CARRIED = {
    (FIRST_SHIP, "tokyo"): (BLUE, LOG, ALERTS),
    (FIRST_SHIP, HUB): WORLDWIDE,
    (FIRST_SHIP, "sydney"): WORLDWIDE,
    (SECOND_SHIP, HUB): (BLUE, LOG),
    (SECOND_SHIP, "london"): (BLUE, LOG),
}
"""Streams that a ship and a port exchange while the ship lies there."""


@dataclass(frozen=True, slots=True)
class Link:
    """A stream that one cluster sends to another, where it has the same path."""

    stream: str
    source: str
    replica: str
    both_ways: bool = False

    @property
    def paths(self) -> tuple[str, str]:
        return path(self.source, self.stream), path(self.replica, self.stream)

    def set_up(self) -> tuple[str, ...]:
        """The command that makes it; the stream may be there already."""
        pair = ("-path", self.paths[0], "-replica", self.paths[1], "-useexistingreplica", "true")
        return ("stream", "replica", "autosetup", *pair, *(("-multimaster", "true") if self.both_ways else ()))

    def order(self, verb: str) -> list[tuple[str, ...]]:
        """Pause or resume it, on all its ways."""
        pairs = [way.paths for way in self.ways()]
        return [("stream", "replica", verb, "-path", source, "-replica", replica) for source, replica in pairs]

    def ways(self) -> list[Link]:
        """As links of one way."""
        one = Link(self.stream, self.source, self.replica)
        return [one, Link(self.stream, self.replica, self.source)] if self.both_ways else [one]


def path(cluster: str, stream: str) -> str:
    return f"/mapr/{cluster}{stream}"


def movements_of(port: str) -> str:
    """The stream in which a port says what came and went."""
    return f"/port/{port}/movements"


def heard_at(port: str) -> str:
    """The stream of what a port's receiver hears, which stays there."""
    return f"/port/{port}/heard"


def streams() -> list[tuple[str, str]]:
    """Cluster and path of those that are made first; links make the others."""
    shared = [(HUB, stream) for stream in WORLDWIDE]
    own = [(port, movements_of(port)) for port in PORTS]
    hub = [(HUB, stream) for stream in (RETAIL, RECIPIENTS, SUMMARIES, heard_at(HUB))]
    ships = [(ship, stream) for ship in SHIPS for stream in sorted({*_of_ship(ship), *_told_to(ship)})]
    return [*shared, *own, *hub, ("tokyo", REPORTS), *ships]


def _of_ship(ship: str) -> list[str]:
    return [stream for (name, _), streams in CARRIED.items() if name == ship for stream in streams]


def _told_to(ship: str) -> list[str]:
    """What its ports say of what they load and unload."""
    return [movements_of(port) for name, port in CARRIED if name == ship]


def links_between_offices() -> list[Link]:
    """A tree with Singapore in the middle, and what ports tell of their movements."""
    tree = [Link(stream, HUB, port, True) for port in PORTS if port != HUB for stream in WORLDWIDE]
    down = [Link(stream, HUB, HEADQUARTERS) for stream in WORLDWIDE]
    told = [Link(movements_of(port), port, HEADQUARTERS) for port in PORTS]
    ahead = [Link(movements_of("tokyo"), "tokyo", HUB), Link(movements_of(HUB), HUB, "sydney")]
    return [*tree, *down, *told, *ahead]


def links_of_call(ship: str, port: str) -> list[Link]:
    """What the ship asks of the port: both ways, and what the port says of what it loads and unloads."""
    return [*(Link(stream, ship, port, True) for stream in CARRIED[ship, port]), Link(movements_of(port), port, ship)]


def partner(stream: str, source: str, replica: str, topics: str = "") -> list[tuple[str, ...]]:
    """Commands for a link to another company's cluster, half by half; `topics` leaves all others out."""
    here, there = path(source, stream), path(replica, stream)
    only = ("-topics", topics) if topics else ()
    return [
        ("stream", "create", "-path", there, "-autocreate", "false"),
        ("stream", "upstream", "add", "-path", there, "-upstream", here, "-peer", "own"),
        ("stream", "replica", "add", "-path", here, "-replica", there, "-peer", "partner", *only),
    ]


def senders() -> dict[str, Sequence[str]]:
    """Each cluster that sends, with its streams that may have replicas."""
    return {
        **{port: (*WORLDWIDE, movements_of(port), *((REPORTS,) if port == "tokyo" else ())) for port in PORTS},
        **{ship: tuple(dict.fromkeys(_of_ship(ship))) for ship in SHIPS},
    }
