"""How much Spark's processes hold back, and what pushes a row through: see `packets`.

This is separate from `packets`, since the process that only waits for links needs the buffer's size but no Arrow.
"""

from __future__ import annotations

SPARK_BUFFER_BYTES = 512
"""The buffer of each process of a task: smaller rows wait in it."""
ALIGNMENT_BYTES = 64
"""A column's bytes are a multiple of this, so that Arrow writes no padding after them that would stay in the buffer."""
FILLER_BYTES_MIN = 2 * SPARK_BUFFER_BYTES
"""Filler is larger than the buffer, so it is written at once, with all that lies before it."""
