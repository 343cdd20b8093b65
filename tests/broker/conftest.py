"""Fixtures of the broker's tests."""

from tests.support.broker import running_broker

__all__ = ["running_broker"]
