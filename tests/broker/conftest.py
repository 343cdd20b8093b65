"""Fixtures of the broker's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.broker import RunningBroker, run_broker


@pytest.fixture
def running_broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker on a fresh directory, for one test."""
    with run_broker(tmp_path / "data") as broker:
        yield broker
