"""One source with 64 replicas in one other cluster, of one shard and of four, and 64 sources of one replica.

The links stand paused, the sources are filled, and all links go on at once: how long until each has everything, what it
costs a GB that arrives, and how much memory all take. Then all is at rest, and then records come slowly. A link that
starves fails the run.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from tests.support.sites import Site

from benchmarks.case import HOME, Case, CheckFailed, Figures, Point
from benchmarks.cases.replicas import GB, MB
from benchmarks.load import launch
from benchmarks.systems import Sampler, cpu_seconds, pair_fairlead, rss_bytes
from benchmarks.systems.common import create_topics
from benchmarks.systems.fairlead import FairleadPair

TOPICS = 8
RECORD_BYTES = 1000
STEADY_RATE = 100
_SETTLE_SECONDS = 12
_LOOK_SECONDS = 0.1


class Links:
    """`sources` streams here, each with `replicas` in the other cluster; one of the two numbers is 1."""

    def __init__(self, pair: FairleadPair, sources: int, replicas: int, shards: int) -> None:
        self._pair = pair
        self._http = httpx.Client(trust_env=False, timeout=60)
        self._shards = shards
        self.sources = [f"/from{number:02}" for number in range(sources)]
        self.replicas = [f"/to{number:02}" for number in range(replicas)]
        self.pairs = [(source, replica) for source in self.sources for replica in self.replicas]

    def close(self) -> None:
        self._http.close()

    def make(self) -> None:
        """The streams, and the links, which wait to be resumed."""
        here, there = self._pair.source.site, self._pair.replica.site
        for site, paths in ((here, self.sources), (there, self.replicas)):
            for path in paths:
                self._post(site, "stream/create", path=path, shards=self._shards)
        for source, replica in self.pairs:
            self._post(there, "stream/upstream/add", path=replica, upstream=f"/mapr/{here.name}{source}")
            away = f"/mapr/{there.name}{replica}"
            self._post(
                here, "stream/replica/add", path=source, replica=away, paused=True, clusters={there.name: [there.url]}
            )

    def resume(self) -> None:
        """All links go on."""
        there = self._pair.replica.site.name
        for source, replica in self.pairs:
            self._post(self._pair.source.site, "stream/replica/resume", path=source, replica=f"/mapr/{there}{replica}")

    def _post(self, site: Site, command: str, **parameters: Any) -> None:
        answer = self._http.post(f"{site.url}/rest/{command}", json=parameters)
        if answer.status_code != 200 or answer.json().get("status") == "ERROR":
            raise CheckFailed(f"{command} {parameters}: {answer.text}")

    def behind(self) -> list[str]:
        """Links whose replica does not have everything."""
        site = self._pair.source.site
        rows = [(source, row) for source in self.sources for row in site.replica_status(source)]
        return [source for source, row in rows if not (row["isUptodate"] and row["putsPending"] == 0)]


def measure(folder: Path, point: Point) -> Figures:
    """Make, fill, resume, wait; rest; then a steady rate."""
    settings = dict(point.settings)
    with (
        pair_fairlead(folder) as pair,
        closing(Links(pair, settings["sources"], settings["replicas"], settings["shards"])) as links,
    ):
        links.make()
        _fill(pair, links, settings["records"])
        return {**_copy(pair, links, settings), **_rest(pair, settings), **_steady(pair, links, settings)}


def _fill(pair: FairleadPair, links: Links, records: int) -> None:
    """Each source gets its share of the records."""
    for source in links.sources:
        create_topics(pair.source.bootstrap, [f"{source}:{source[1:]}-{number:06}" for number in range(TOPICS)])
        arguments = {"records": records // len(links.sources), "record_bytes": RECORD_BYTES}
        launch.run("producer", {"bootstrap": pair.source.bootstrap, "topics": _topics(source), **arguments})


def _topics(source: str) -> dict[str, Any]:
    """Of one source; no two sources have one of a name."""
    return {"format": f"{source}:{source[1:]}-{{:06d}}", "count": TOPICS}


def _pids(pair: FairleadPair) -> dict[str, list[int]]:
    return {"carrier": pair.carrier_pids, "source": pair.source.pids, "replica": pair.replica.pids}


def _pids_of(pair: FairleadPair, name: str) -> list[int]:
    return _pids(pair)[name]


def _cpu(pair: FairleadPair) -> dict[str, float]:
    return {name: cpu_seconds(pids) for name, pids in _pids(pair).items()}


def _copy(pair: FairleadPair, links: Links, settings: dict[str, Any]) -> dict[str, float]:
    arrives = settings["records"] * settings["replicas"] * RECORD_BYTES
    with ExitStack() as stack:
        samplers = {name: stack.enter_context(Sampler(partial(_pids_of, pair, name), 0.5)) for name in _pids(pair)}
        began, before = time.monotonic(), _cpu(pair)
        links.resume()
        _until_all_moved(links, settings["limit seconds"])
        seconds, after = time.monotonic() - began, _cpu(pair)
    return {
        "MB/s": arrives / MB / seconds,
        "seconds": seconds,
        "cpu s/GB": (sum(after.values()) - sum(before.values())) / (arrives / GB),
        **{f"{name} cpu s/GB": (after[name] - before[name]) / (arrives / GB) for name in after},
        **{
            f"{name} memory MB": max(sample.memory_bytes for sample in sampler.samples) / MB
            for name, sampler in samplers.items()
        },
    }


def _until_all_moved(links: Links, limit_seconds: float) -> None:
    deadline = time.monotonic() + limit_seconds
    while behind := links.behind():
        if time.monotonic() > deadline:
            raise CheckFailed(f"{len(behind)} of {len(links.pairs)} links have not moved: {behind[:5]}")
        time.sleep(_LOOK_SECONDS)


def _rest(pair: FairleadPair, settings: dict[str, Any]) -> dict[str, float]:
    time.sleep(min(_SETTLE_SECONDS, settings["rest seconds"]))
    before, began = _cpu(pair), time.monotonic()
    time.sleep(settings["rest seconds"])
    after, seconds = _cpu(pair), time.monotonic() - began
    memory = rss_bytes([pid for pids in _pids(pair).values() for pid in pids])
    return {
        **{f"rest {name} cpu %": 100 * (after[name] - before[name]) / seconds for name in after},
        "rest memory MB": memory / MB,
    }


def _steady(pair: FairleadPair, links: Links, settings: dict[str, Any]) -> dict[str, float]:
    """Records to the first source at a steady rate: what that costs, and how long until the last replica has them."""
    began, before = time.monotonic(), _cpu(pair)
    launch.run(
        "open_loop",
        {
            "bootstrap": pair.source.bootstrap,
            "topics": _topics(links.sources[0]),
            "rate": STEADY_RATE,
            "seconds": settings["steady seconds"],
            "record_bytes": RECORD_BYTES,
            "producer": 1,
        },
    )
    ended = time.monotonic()
    _until_all_moved(links, settings["limit seconds"])
    now, after = time.monotonic(), _cpu(pair)
    return {
        **{f"steady {name} cpu %": 100 * (after[name] - before[name]) / (now - began) for name in after},
        "behind after steady s": now - ended,
    }


def _point(name: str, sources: int, replicas: int, shards: int, records: int, rest_seconds: float = 15) -> Point:
    links = {"sources": sources, "replicas": replicas, "shards": shards, "records": records}
    times = {"rest seconds": rest_seconds, "steady seconds": min(rest_seconds, 10), "limit seconds": 60}
    return Point(name, {**links, **times})


CASE = Case(
    name="fan_out",
    systems={HOME: measure},
    points=[
        _point("1-replica", 1, 1, 1, 640_000),
        _point("64-replicas", 1, 64, 1, 20_000),
        _point("64-replicas-4-shards", 1, 64, 4, 20_000),
        _point("64-sources", 64, 1, 1, 640_000),
    ],
    quick=[_point("4-replicas-2-shards", 1, 4, 2, 2_000, 1)],
)
