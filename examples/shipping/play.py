"""What the acts of the demo share: the clusters, the world, and what happens in every port and at sea."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

from examples.shipping import fleet, receivers, routes, textmap
from examples.shipping.analysts import Analysts, small_session
from examples.shipping.cargo import Container
from examples.shipping.fleet import CLUSTERS, Link
from examples.shipping.harbour import Harbour, call_at
from examples.shipping.pipelines.aboard import aboard, ashore, moves
from examples.shipping.pipelines.readings import readings
from examples.shipping.routes import PORTS, Position
from examples.shipping.sensors import HOUR_MS, Where
from examples.shipping.textmap import Ship
from examples.shipping.watch import Watch
from examples.shipping.world import World, topic_of
from examples.ships import traffic
from examples.ships.asked import Asked
from examples.ships.sites import Site, Sites
from examples.ships.stage import Stage, errors_into
from examples.ships.traffic import now_ms
from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.live import Live
from rich.text import Text

START_AT_ONCE = 3
COMPANY = "Big Blue"
SWELL = 0.4


class Play:
    """Everything that runs, and the story so far."""

    def __init__(self, sites: Sites, console: Console) -> None:
        self.stage = Stage(sites, console)
        self.console = console
        self.at: dict[str, Site] = {}
        self.ships: dict[str, Ship] = {}
        self.tracks: dict[str, list[routes.Place]] = {}
        self.gone: list[Container] = []
        """Overboard, as only the world knows."""
        self.alerted: set[str] = set()
        """Containers of which every office has read that they are overboard."""
        self._sites = sites
        self._made: list[Link] = []
        self._analysts: Analysts | None = None
        self._started = ExitStack()

    # ------------------------------------------------------------ begin and end

    def begin(self) -> None:
        """Clusters, streams, links between offices; and what is written where."""
        self.stage.say(f"{len(CLUSTERS)} clusters start: {', '.join(CLUSTERS)}")
        with self.console.status("starting"), ThreadPoolExecutor(START_AT_ONCE) as pool:
            self.at |= dict(zip(CLUSTERS, pool.map(self._sites.start, CLUSTERS), strict=True))
        self.receivers = {name: receivers.Receiver(name, site.kafka) for name, site in self.at.items()}
        for receiver in self.receivers.values():
            self._started.callback(receiver.give_up)
        self.world = World(self.receivers)
        self.harbour = Harbour(self.stage, self._sites, self.at)
        self._started.callback(self.harbour.close)
        self.stage.say("offices share containers, ships and alerts; ports tell each other what moves")
        self.harbour.type([("stream", "create", "-path", fleet.path(*each)) for each in fleet.streams()])
        self.watch = Watch(self.at, fleet.senders())
        self._started.callback(self.watch.stop)
        self._made = fleet.links_between_offices()
        for some in ([link for link in self._made if link.both_ways], [x for x in self._made if not x.both_ways]):
            self.harbour.type([link.set_up() for link in some])

    def analysts(self) -> Analysts:
        """A Spark, whose errors go to a log; it starts when it is asked for first."""
        if self._analysts is None:
            self.stage.say("analysts start a Spark for all their queries")
            with errors_into(self._sites.folder / "spark.log"):
                self._analysts = Analysts(small_session(), self._sites.folder)
            self._started.callback(_stop, self._analysts.spark)
        return self._analysts

    def end(self) -> None:
        """Whatever has been started in this process."""
        self._started.close()

    # ------------------------------------------------------------ the map

    def chapter(self, title: str) -> None:
        self.watch.look()
        self.watch.course.chapter = title
        self.stage.say(title.upper())

    def map(self) -> None:
        """Print it as it is."""
        self.watch.look()
        self.console.print(self._map(), highlight=False, soft_wrap=True)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """The map moves while this goes on, where there is a terminal."""
        if self.console.is_terminal:
            with Live(get_renderable=self._map, console=self.console, refresh_per_second=3, transient=True):
                yield
        else:
            yield

    def _map(self) -> Text:
        return Text(textmap.draw(self.watch.course.shown, list(self.ships.values())), no_wrap=True)

    # ------------------------------------------------------------ in port

    def in_service(self, containers: Iterable[Container], place: str) -> None:
        """Containers get their topics, and stand on a quay."""
        some = list(containers)
        for stream in sorted({each.stream for each in some}):
            names = [each.topic for each in some if each.stream == stream]
            traffic.create_topics(self.at[place].kafka, names, prefix=f"{stream}:")
        self.world.enter(some, place)

    def docks(self, position: Position) -> str:
        """A ship notices that it lies in a port, and sets up its links; the port's name."""
        ship, port = position.ship, call_at(position)
        self.world.reports(position)
        if port is None:
            raise ValueError(f"{ship} lies nowhere")
        self.stage.say(f"{ship} lies in {port}: its cluster asks the port's, nobody types")
        self.ships[ship] = Ship(
            ship, PORTS[port], f"lies in {port}", self.ships[ship].waits if ship in self.ships else 0
        )
        self.watch.course.calls[ship] = port
        self.harbour.docks(ship, port)
        with self.moving():
            self.harbour.in_step(fleet.links_of_call(ship, port), f"{ship} and {port} are in step")
        self.ships[ship] = Ship(ship, PORTS[port], f"lies in {port}", 0)
        return port

    def loads(self, containers: Iterable[Container], port: str, ship: str) -> None:
        """From the quay onto the ship, with their topics."""
        some = list(containers)
        self.harbour.hand_over(some, port, ship)
        self.world.moved(some, ship, port, "loaded")
        self.world.stands(some, ship)

    def unloads(self, containers: Iterable[Container], ship: str, port: str) -> None:
        """From the ship onto the quay, with their topics."""
        some = list(containers)
        self.harbour.hand_over(some, ship, port)
        self.world.moved(some, ship, port, "unloaded")
        self.world.stands(some, port)

    def checks(self, ship: str, port: str, time_ms: int, at: str, ports: Iterable[str]) -> None:
        """Manifest against sensors, after a call."""
        since_ms = now_ms()  # as records have it: a time with microseconds would leave out those of its millisecond
        self.world.listen(Where(ship, *PORTS[port], time_ms), everything=True)
        self.harbour.in_step(fleet.links_of_call(ship, port), f"{port} has what {ship} heard")
        self.in_step()
        found = aboard(*self._said(at, ports, since_ms), ship).collect()
        apart = [row.container for row in found if not row.agree]
        expected = {each.number for each in self.world.at(ship)}
        self.stage.claim(
            f"{port}: sensors confirm {ship}'s manifest, asked in {at}",
            not apart and {row.container for row in found} == expected != set(),
            f"{len(found) - len(apart)} containers listed and heard on board, {len(apart)} only one of the two",
        )

    def checks_quay(self, ship: str, port: str, since_ms: int, at: str, ports: Iterable[str]) -> None:
        """Manifest against sensors where a voyage ends: nothing is on board, all of it on the quay."""
        said = self._said(at, ports, since_ms)
        left, found = aboard(*said, ship).collect(), ashore(*said, port).collect()
        apart = [row.container for row in (*left, *found) if not row.agree]
        expected = {each.number for each in self.world.at(port)}
        self.stage.claim(
            f"{port}: sensors confirm that all of {ship}'s load is ashore, asked in {at}",
            not apart and not left and {row.container for row in found} == expected != set(),
            f"{len(found)} containers unloaded and heard there, {len(left)} on board, {len(apart)} only one of the two",
        )

    def _said(self, at: str, ports: Iterable[str], since_ms: int) -> tuple[DataFrame, DataFrame]:
        """What some ports have said of containers, and what was heard of these since a time, as an office has it."""
        analysts, site = self.analysts(), self.at[at]
        moved = moves(analysts.now(site, *map(fleet.movements_of, ports)))
        heard = readings(analysts.now(site, *fleet.CONTAINERS))
        return moved, heard.where(f.col("timestamp") >= f.timestamp_millis(f.lit(since_ms)))

    def leaves(self, ship: str, port: str) -> None:
        self.stage.say(f"{ship} leaves {port}; the links rest")
        self.harbour.leaves(ship, port)

    def in_step(self) -> None:
        """All offices have everything that any of them has."""
        self.harbour.in_step(self._made, "all offices are in step")

    # ------------------------------------------------------------ at sea

    def sails(self, voyage: list[Position], start: str, every: int) -> None:
        """Over the sea, without a link: the ship reports and its sensors are heard each `every` hours, on board."""
        ship, end = voyage[0].ship, voyage[-1].bound
        waits = 0
        with self.moving():
            for number, position in enumerate(voyage[:-1]):
                self.world.reports(position)
                here = (position.lat, position.lon)
                self.tracks.setdefault(ship, []).append(here)
                if number % every == 0:
                    waits += self.world.listen(Where(ship, *here, position.time_ms, SWELL))
                does = f"at sea, {start} → {end}, {100 * number // (len(voyage) - 1)} %"
                self.ships[ship] = Ship(ship, here, does, waits)
        self.receivers[ship].done()

    def held(self, place: str, containers: Iterable[Container]) -> dict[tuple[str, int], bytes]:
        """All that these containers' topics hold at a place, which has what was written."""
        topics = [topic_of(each) for each in containers]
        return receivers.read(self.at[place].kafka, topics, len(self.world.written(topics)))

    def end_offsets(self, place: str, containers: Iterable[Container]) -> int:
        """How many records of these containers are at a place now."""
        return Asked(self.at[place].kafka, [topic_of(each) for each in containers], 1).records()


def _stop(spark: SparkSession) -> None:
    with suppress(Py4JNetworkError, ConnectionError):  # its JVM hears of Ctrl-C too, and may have ended
        spark.stop()


def voyage(ship: str, start: str, end: str, began_ms: int, hours: float) -> list[Position]:
    """A voyage's positions, an hour between two."""
    return list(routes.voyage(ship, COMPANY, start, end, began_ms, hours, len(ship)))


def lying(ship: str, port: str, time_ms: int) -> Position:
    """What a ship says that lies in a port."""
    lat, lon = PORTS[port]
    return Position(ship, COMPANY, time_ms, lat, lon, 0.0, port)


def after(time_ms: int, hours: float) -> int:
    return time_ms + int(hours * HOUR_MS)
