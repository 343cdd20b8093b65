"""The process `fairlead mirror`: property files read, clusters opened, signals heard, an exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import uvloop

from fairlead.kafka import Cluster, ConsumerSettings, ProducerSettings
from fairlead.kafka.configuration.clients import consumer_settings, producer_settings
from fairlead.kafka.configuration.properties import load_properties
from fairlead.mirror.clusters import KafkaCluster
from fairlead.mirror.mirror import Mirror, Paces, Upstream
from fairlead.mirror.options import INTERVAL_MS_MIN, MirrorOptions, check_name
from fairlead.mirror.patience import insisting
from fairlead.mirror.report import summary
from fairlead.model.clock import SystemClock, SystemRandomness
from fairlead.model.errors import InvalidValue
from fairlead.model.shown import shown
from fairlead.process.interrupts import INTERRUPTED

FAILED: Final = 1
COMMIT_INTERVAL: Final = "auto.commit.interval.ms"
TOPICS_AGE: Final = "metadata.max.age.ms"


def run_until_told(options: MirrorOptions) -> int:
    """Run a mirror; its exit code: 0 everything is well, 1 something was lost, refused or stands still, 130 cut off.

    Raises:
        FairleadError: it could not begin, or may not go on.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(options))


class _Files(NamedTuple):
    """What the property files say."""

    sources: Sequence[tuple[str, ConsumerSettings]]
    destination: ProducerSettings
    paces: Paces


async def _run(options: MirrorOptions) -> int:
    files = _read(options)
    name = _name(options, [settings.group_id for _, settings in files.sources])
    destination = await _destination(options, files)
    upstreams = [Upstream(label, partial(_source, settings), settings.group_id) for label, settings in files.sources]
    mirror = Mirror(options, name, upstreams, destination, SystemClock(), SystemRandomness(), say, files.paces)
    interrupts = _heard(mirror)
    running = asyncio.create_task(mirror.run())
    cut = asyncio.create_task(interrupts.wait())
    await asyncio.wait((running, cut), return_when=asyncio.FIRST_COMPLETED)
    cut.cancel()
    if not running.done():
        running.cancel()
        await asyncio.wait((running,))
        return INTERRUPTED
    running.result()
    if options.dry_run:
        return 0
    print(summary(mirror.tally, mirror.left), flush=True)
    return 0 if mirror.tally.clean else FAILED


def _heard(mirror: Mirror) -> asyncio.Event:
    """The first signal ends the mirror in order; the event is set by the second."""
    again = asyncio.Event()
    told = asyncio.Event()

    def heard() -> None:
        if told.is_set():
            again.set()
        else:
            told.set()
            say("ends: fetches no more, and waits for what is under way (a second Ctrl-C ends at once)")
            mirror.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, heard)
    return again


# ---------------------------------------------------------------- files


def _read(options: MirrorOptions) -> _Files:
    assert options.producer_config is not None
    found = producer_settings(load_properties(options.producer_config), str(options.producer_config))
    _warn(found.warnings)
    sources: list[tuple[str, ConsumerSettings]] = []
    commit_seconds, topic_seconds = Paces().commits, Paces().topics
    for path in options.consumer_configs:
        properties = load_properties(path)
        read = consumer_settings(properties, str(path))
        _warn(read.warnings)
        if "auto.offset.reset" in properties:
            _warn([f"{path}: auto.offset.reset has no effect here; --from says where new partitions begin (earliest)"])
        sources.append((path.name, read.settings))
        commit_seconds = _seconds(properties, COMMIT_INTERVAL, commit_seconds, path)
        topic_seconds = _seconds(properties, TOPICS_AGE, topic_seconds, path)
    paces = Paces(commits=commit_seconds, topics=topic_seconds)
    if options.commit_seconds is not None:
        paces = replace(paces, commits=options.commit_seconds, positions=options.commit_seconds)
    return _Files(_labelled(sources), found.settings, paces)


def _seconds(properties: Mapping[str, str], key: str, most: float, path: Path) -> float:
    """How often, where the file asks for more often than usual. Raises: InvalidValue."""
    text = properties.get(key)
    if text is None:
        return most
    if not text.isdigit() or int(text) < INTERVAL_MS_MIN:
        raise InvalidValue(f"{path}: {key}={text}: write a number of milliseconds from {INTERVAL_MS_MIN}")
    return min(int(text) / 1000, most)


def _labelled(sources: Sequence[tuple[str, ConsumerSettings]]) -> Sequence[tuple[str, ConsumerSettings]]:
    """Files of one name in several folders are told apart by their number."""
    names = [name for name, _ in sources]
    return [
        (name if names.count(name) == 1 else f"{name} ({number})", settings)
        for number, (name, settings) in enumerate(sources, 1)
    ]


def _name(options: MirrorOptions, groups: Sequence[str | None]) -> str:
    """Of the mirror: as it is told, or of its groups."""
    if options.name is not None:
        return options.name
    found = sorted({group for group in groups if group})
    if not found:
        raise InvalidValue("no consumer.config has a group.id, by which a mirror finds its positions; give it a --name")
    return check_name("-".join(found), "group.id")


# ---------------------------------------------------------------- clusters


async def _destination(options: MirrorOptions, files: _Files) -> KafkaCluster:
    """A mirror that runs for ever waits for what is away; one that ends does not."""

    def open_it() -> Awaitable[Cluster]:
        return Cluster.open(files.destination.client)

    if options.once or options.dry_run:
        cluster = await open_it()
    else:
        cluster = await insisting(open_it, lambda error: say(f"the destination is away: {error}"))
    return KafkaCluster(cluster, producing=files.destination.produce, connections=options.producers)


async def _source(settings: ConsumerSettings) -> KafkaCluster:
    return KafkaCluster(await Cluster.open(settings.client), fetching=settings.fetch)


# ---------------------------------------------------------------- people


def say(line: str) -> None:
    """A line for people."""
    print(shown(line), file=sys.stderr, flush=True)


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        say(f"fairlead: warning: {warning}")
