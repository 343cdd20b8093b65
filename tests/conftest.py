"""What holds for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import structlog


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so do the processes that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _logs_go_nowhere_closed() -> Iterator[None]:
    """Whoever configured the logs leaves them pointing at the test's own standard error, which is closed after it."""
    yield
    structlog.reset_defaults()
