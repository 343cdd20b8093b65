"""The entry point of the command `fairlead`; what takes time to import comes after Ctrl-C has been taken care of."""

from __future__ import annotations

import sys

from fairlead.process.interrupts import INTERRUPTED, end_at_once, interruptible


def main() -> None:
    """Run the command line that this process was started with."""
    end_at_once()
    from fairlead.cli.program import run

    try:
        with interruptible():
            code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
