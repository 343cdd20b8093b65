"""The process from which Spark forks the Python processes of the replicator's tasks; see `fairlead.spark.daemon`."""

from __future__ import annotations

import fairlead.replication.spark.format
import fairlead.replication.spark.rounds  # noqa: F401
from fairlead.spark.daemon import serve
from fairlead.wire.messages import prepare

if __name__ == "__main__":
    serve(prepare)
