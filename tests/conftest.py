"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_go_nowhere_closed() -> Iterator[None]:
    """Whoever configured the logs leaves them pointing at the test's own standard error, which is closed after it."""
    yield
    structlog.reset_defaults()
