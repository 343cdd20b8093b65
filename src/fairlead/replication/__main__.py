"""`python -m fairlead.replication --server URL`: the replicator, which is imported once Ctrl-C can do no harm."""

from __future__ import annotations

import sys

from fairlead.process.interrupts import end_at_once


def main() -> int:
    """Run the replicator; returns its exit code."""
    end_at_once()
    from fairlead.process.children import kill_children
    from fairlead.replication.replicator import main as replicate

    try:
        return replicate()
    finally:
        # Python waits for its threads at the end, and one may wait for a Spark that was not stopped.
        kill_children()


if __name__ == "__main__":
    sys.exit(main())
