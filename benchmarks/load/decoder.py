"""Decodes stored batches to Arrow columns as a Spark task does, on one core; no server, no file, no Spark.

Arguments: record_bytes, batch_records, records; optional: passes (5), columns (all).
Figures: seconds (of the fastest pass), median_seconds, records, bytes (of the batches), cpu_seconds.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.load.content import Content
from benchmarks.load.program import Arguments, Figures, Run, Unaccounted, main
from benchmarks.load.raw import BatchForm
from fairlead.records.columns import ALL
from fairlead.records.decode import BatchesInBuffer, decode

_TOPICS = 100


def prepare(arguments: Arguments) -> Run:
    """Make the batches; decode them once, which compiles, and compare every value."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    per_batch = int(arguments["batch_records"])
    content = Content(int(arguments["record_bytes"]))
    values = content.values(0, 0, np.arange(int(arguments["records"]) // per_batch * per_batch))
    batches = BatchForm(per_batch, content.record_bytes).build(
        values.reshape(-1, per_batch, content.record_bytes), int(1000 * time.time())
    )
    columns = arguments.get("columns", ALL)
    stored = _stored(batches)
    found = pa.chunked_array([batch["value"] for batch in decode(stored, ALL)])
    if not pc.equal(found.cast(pa.large_binary()).combine_chunks(), _binary(values)).to_numpy(False).all():
        raise Unaccounted("a decoded value is not what was encoded")
    passes = int(arguments.get("passes", 5))
    return lambda: _run(stored, columns, len(values), passes)


def _stored(batches: np.ndarray) -> BatchesInBuffer:
    """The batches one behind the other, of as many topics in turn."""
    count, size = batches.shape
    starts = np.arange(count) * size
    zeros = np.zeros(count, np.int32)
    topics = pa.array([f"t{number:06}" for number in range(_TOPICS)])
    topic = np.arange(count, dtype=np.int32) % _TOPICS
    offsets = np.zeros(count, np.int64)
    origins = pa.array(["0f" * 16])
    return BatchesInBuffer(batches.ravel(), starts, starts + size, offsets, zeros, topic, topics, zeros, origins)


def _binary(values: np.ndarray) -> pa.Array:
    ends = np.arange(len(values) + 1) * values.shape[1]
    return pa.Array.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(values)])


def _run(stored: BatchesInBuffer, columns: Sequence[str], records: int, passes: int) -> Figures:
    seconds = []
    for _ in range(passes):
        began = time.perf_counter()
        decoded = sum(batch.num_rows for batch in decode(stored, columns))
        seconds.append(time.perf_counter() - began)
        if decoded != records:
            raise Unaccounted(f"{decoded} records of {records}")
    return {
        "seconds": min(seconds),
        "median_seconds": statistics.median(seconds),
        "records": records,
        "bytes": len(stored.data),
    }


if __name__ == "__main__":
    main(prepare)
