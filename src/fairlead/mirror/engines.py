"""Which engine carries the flows of a process: Spark, or the process itself."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import zip_longest

from fairlead.mirror.carrying.engine import Engine
from fairlead.mirror.carrying.local import LocalEngine
from fairlead.mirror.options import SPARK, MirrorOptions
from fairlead.mirror.spark.host import SparkHost
from fairlead.mirror.told.files import Flow
from fairlead.mirror.workers.messages import Opening, Setup
from fairlead.process.logs import configure_logs
from fairlead.spark.java import JavaUnusable, find_java


@asynccontextmanager
async def engines_of(flows: Sequence[Flow], say: Callable[[str], None]) -> AsyncIterator[list[Engine]]:
    """An engine for each flow, until the block ends.

    Raises:
        JavaUnusable: Spark is asked for, and has no Java to run on.
        StorageUnavailable: there is no place for temporary files.
    """
    if not any(_needs_spark(flow.options) for flow in flows):
        yield [_local(flow.options) for flow in flows]
        return
    configure_logs("warning")
    try:
        java = find_java(os.environ)
    except JavaUnusable as error:
        raise JavaUnusable(f"{error}; or start with --engine local, which needs no Java") from None
    host = SparkHost(java, os.environ, say)
    engines: list[Engine] = [
        host.engine(flow.options.streams, partial(_setup, flow)) if _needs_spark(flow.options) else _local(flow.options)
        for flow in flows
    ]
    try:
        await host.open()
        yield engines
    finally:
        await host.close()


def _needs_spark(options: MirrorOptions) -> bool:
    return options.engine == SPARK and not options.dry_run


def _local(options: MirrorOptions) -> LocalEngine:
    return LocalEngine(options.streams, options.queue_records, options.handler)


def _setup(flow: Flow, destination_id: str) -> Setup:
    options, file = flow.options, flow.options.producer_config
    return Setup(
        sources=tuple(
            Opening(label, None if path is None else str(path), settings.given)
            for (label, settings), path in zip_longest(flow.sources, options.consumer_configs)
        ),
        destination=Opening("the destination", None if file is None else str(file), flow.destination.given),
        destination_id=destination_id,
        connections=options.producers,
        queue_records=options.queue_records,
        handler=options.handler_name,
        handler_args=options.handler_args,
        transactions=flow.name if options.exactly_once else None,
    )
