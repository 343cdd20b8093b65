"""Spark looks into every top-level module named `pyspark_…` for `DefaultSource`, so `format("fairlead")` needs no
registration; see `pyspark/sql/worker/lookup_data_sources.py`."""

from __future__ import annotations

from fairlead.records.source import FairleadSource as DefaultSource

__all__ = ["DefaultSource"]
