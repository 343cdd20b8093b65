"""The process from which Spark forks the Python processes of tasks, `spark.python.daemon.module`.

It is Spark's own, but has already imported what tasks need, so tasks share its memory and begin without imports.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import fairlead.replication.spark.format
import fairlead.replication.spark.rounds  # noqa: F401
from fairlead.wire import messages

if __name__ == "__main__":
    messages.prepare()
    gc.collect()
    gc.freeze()
    """A garbage collection writes to the objects it looks at, and memory that a fork writes to is no longer shared."""
    manager()
