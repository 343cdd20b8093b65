"""Seconds that a call of another process is waited for; what takes longer is taken for unreachable.

What a link waits for stands in `gateway/links/running/timing.py` (`Timing`), which its tests lower.
"""

from __future__ import annotations

from typing import Final

CONNECT_SECONDS: Final = 5.0
"""Until a connection is open: HTTP, control connections, apply connections."""
HELLO_SECONDS: Final = 10.0
"""For the first message of an apply or control connection; then it is closed."""
COMMAND_SECONDS: Final = 60.0
"""Between two pieces of the answer to a command."""
FORWARD_SECONDS: Final = 20.0
"""For the next answer of an owner to which writes are passed on: less than a Kafka client waits for its own (30 s)."""
RECORDS_SECONDS: Final = 120.0
"""The same for questions of Spark's readers: a look-up by time goes through all topics of a stream."""
