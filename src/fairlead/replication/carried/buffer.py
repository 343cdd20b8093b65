"""How much Spark's processes hold back, and what pushes a row through: see `rows`.

Apart from `rows`, since the process that only waits for links sets Spark's buffer too, and loads no Arrow for it.
"""

from __future__ import annotations

SPARK_BUFFER_BYTES = 512
"""Of every process of a task: rows that are smaller wait in it."""
ALIGNMENT_BYTES = 64
"""The bytes of a column are a multiple of it: Arrow writes nothing behind them that would stay in the buffer."""
FILLER_BYTES_MIN = 2 * SPARK_BUFFER_BYTES
