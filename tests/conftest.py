"""What holds for every test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.support.class_archives import SMALL_SPARK, SPARK, SPARK_OPTIONS, archive_flags

CHILDREN = Path(__file__).parent / "support" / "children"


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so do the processes that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault(SPARK_OPTIONS, " ".join((*SMALL_SPARK, *archive_flags(SPARK))))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHILDREN), os.environ.get("PYTHONPATH"))))


@pytest.fixture(autouse=True)
def _logs_go_nowhere_closed() -> Iterator[None]:
    """Whoever configured the logs leaves them pointing at the test's own standard error, which is closed after it."""
    yield
    structlog.reset_defaults()
