"""What the client programs share: arguments in, `ready`, a gate, figures out.

`python -m benchmarks.load.<name> '<JSON object>'`: prints `ready` when it is connected and prepared, waits for a line,
runs, prints one line of JSON and exits 0. Whatever fails is one line on stderr and exit 1.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Arguments = dict[str, Any]
Figures = dict[str, Any]
Run = Callable[[], Figures]


class Unaccounted(Exception):
    """A record was not acknowledged, did not arrive, or is too many."""


def main(prepare: Callable[[Arguments], Run]) -> None:
    """Run one program; `prepare` does all that is not measured. Adds the `cpu_seconds` of this process."""
    try:
        run = prepare(json.loads(sys.argv[1]))
        print("ready", flush=True)
        if not sys.stdin.readline():
            raise EOFError("nobody opened the gate")
        began = time.process_time()
        figures = run()
        print(json.dumps({**figures, "cpu_seconds": time.process_time() - began}), flush=True)
    except Exception as error:
        message = " ".join(str(error).split())
        print(f"{type(error).__name__}: {message}", file=sys.stderr, flush=True)
        sys.exit(1)
