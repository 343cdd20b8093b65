"""How fast one core makes Arrow columns, all of them, from stored record batches: what each Spark task does."""

from __future__ import annotations

from pathlib import Path

from benchmarks.case import Case, Figures, Point
from benchmarks.load.launch import run


def measure(folder: Path, point: Point) -> Figures:
    """Uncompressed batches in memory; their CRC-32C is checked, as for Spark."""
    found = run("decoder", dict(point.settings))
    return {
        "records/s": found["records"] / found["median_seconds"],
        "GB/s": found["bytes"] / found["median_seconds"] / 1e9,
        "fastest records/s": found["records"] / found["seconds"],
    }


def _point(name: str, record_bytes: int, batch_records: int, records: int, passes: int = 15) -> Point:
    shape = {"record_bytes": record_bytes, "batch_records": batch_records}
    return Point(name, {**shape, "records": records, "passes": passes})


CASE = Case(
    "decode",
    {"fairlead": measure},
    points=(_point("100B", 100, 1000, 2_000_000), _point("1KB", 1000, 100, 200_000)),
    quick=(_point("100B", 100, 1000, 200_000, passes=3), _point("1KB", 1000, 100, 20_000, passes=3)),
)
