"""The columns of a row as Spark is told of them; `packets` says what they are.

They are separate, since Spark's planning processes load this and need no Arrow.
"""

from __future__ import annotations

SPARK_SCHEMA = "address string, contents binary, frames binary"
