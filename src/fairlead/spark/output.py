"""What Spark's JVM and its Python processes write, as lines of our log.

They all write to one pipe. Spark's own log (`LOG4J` in the settings) and ours in the Python processes come as JSON and
are handed on; of anything else a line that stands at the margin is a warning, what is indented below it is for `debug`.
Once Spark is being stopped, its own words are for `debug` too: they are of rounds that it gives up because it was told.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any, Final

import structlog

from fairlead.process.logs import relay

_CHATTER: Final = (
    "WARNING: Using incubator modules:",  # the JVM says so of any module that Spark's launcher names
    "Traceback (most recent call last):",
    "During handling of the above exception, another exception occurred:",
    "Caused by:",
    "----------",
    # Processes that plan, whose JVM has gone or no longer waits for them. Its end is told in other ways.
    "EOFError",
    "BrokenPipeError:",
    "ConnectionResetError:",
)
"""How lines begin that say nothing to anybody."""
_SPARKS_OWN: Final = '"logger":"spark.'
"""In each event of Spark's own log, by its pattern, and in none of ours, which have a space there."""

log = structlog.get_logger("fairlead.spark")


class SparkOutput:
    """A pipe, and the thread that reads it until no process writes to it any more."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._ending = False
        threading.Thread(target=self._hand_on, name="spark-output", daemon=True).start()

    def streams(self) -> dict[str, Any]:
        """Keywords of `Popen`, for the JVM."""
        return {"stdout": self._write, "stderr": self._write}

    def close(self) -> None:
        """The JVM is started, or will not be."""
        os.close(self._write)

    def ending(self) -> None:
        """Spark is being stopped."""
        self._ending = True

    def _hand_on(self) -> None:
        with os.fdopen(self._read, errors="replace") as lines:
            for line in lines:
                # Whoever stopped reading would break the pipe of every process that writes a line.
                with suppress(Exception):
                    hand_on(line.rstrip("\n"), ending=self._ending)


def hand_on(line: str, *, ending: bool = False) -> None:
    """Write one line to the log; `ending`: Spark is being stopped."""
    text = line.strip()
    given_up = ending and _SPARKS_OWN in text
    if not text or (not given_up and relay(text)):
        return
    if ending or line[0].isspace() or line.startswith(_CHATTER):
        log.debug("Spark wrote", line=text)
    else:
        log.warning("Spark wrote", line=text)
