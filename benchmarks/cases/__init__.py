"""The cases of the bench, in the order in which they run. Each module has a `CASE`."""

from __future__ import annotations

from benchmarks.case import Case

ALL: tuple[Case, ...] = ()
