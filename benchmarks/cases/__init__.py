"""The cases of the bench, in the order in which they run. Each module has a `CASE`."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.cases import connections, consume, latency, produce

ALL: tuple[Case, ...] = (produce.CASE, consume.CASE, latency.CASE, connections.CASE)
