"""The process from which Spark forks the Python processes of a mirror's tasks; see `fairlead.spark.daemon`."""

from __future__ import annotations

import fairlead.mirror.spark.rounds  # noqa: F401
from fairlead.mirror.workers.messages import prepare
from fairlead.spark.daemon import serve

if __name__ == "__main__":
    serve(prepare)
