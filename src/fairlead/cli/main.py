"""The entry points of `fairlead`, and of `maprcli` and `mapr`, the original's names of two of its commands.

What takes time to import comes after Ctrl-C has been taken care of.
"""

from __future__ import annotations

import os
import sys

from fairlead.process.environment import small_pages_for_arrays
from fairlead.process.interrupts import INTERRUPTED, end_at_once, interruptible


def main() -> None:
    """`fairlead …`."""
    _run("FAIRLEAD")


def maprcli() -> None:
    """`maprcli stream …`."""
    _run("MAPRCLI")


def mapr() -> None:
    """`mapr copystream …`."""
    _run("MAPR")


def _run(program: str) -> None:
    """Run the command line that this process was started with."""
    end_at_once()
    _open_all_streams()
    small_pages_for_arrays()
    from fairlead.cli import program as programs

    try:
        with interruptible():
            code = programs.run(sys.argv[1:], getattr(programs, program))
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _open_all_streams() -> None:
    """A stream that the starter has closed (`>&-`) leads nowhere, here and in what is started from here; else what is
    opened next would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


if __name__ == "__main__":
    main()
