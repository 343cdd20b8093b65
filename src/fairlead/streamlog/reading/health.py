"""Whether a log answers, or what stopped it. Whoever finds that it cannot go on stops it: a reader or its writer.

A log that was stopped by damage takes no more writes, since nothing may be built upon it. What is whole can be read all
the same: a read that meets the damage is answered with it, every other one with its records. It is no damage that
an object is missing which a merge has replaced: a read that took longer than the grace before the deletion fails alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairlead.model.errors import Damaged, FairleadError, Missing, StorageUnavailable, another


class Health:
    """The health of one log. Any thread may ask it, or stop the log."""

    def __init__(self, prefix: str, needs: Callable[[str], bool]) -> None:
        """`needs` says whether the log still needs the object of that name."""
        self._prefix = prefix
        self._needs = needs
        self.stopped: FairleadError | None = None
        """Why the log takes no more writes; None while it runs."""
        self.on_stop: Callable[[FairleadError], None] | None = None
        """Called once when the log stops, on the thread that found out why."""

    def stop(self, error: BaseException) -> None:
        """From now on every write is answered with this error, and every read too unless it is damage."""
        if self.stopped is not None:
            return
        if isinstance(error, FairleadError):
            self.stopped = another(error)
        else:
            self.stopped = StorageUnavailable(f"{self._prefix}: stopped after an unexpected error: {error!r}")
        if self.on_stop is not None:
            self.on_stop(self.stopped)

    def read_failed(self, error: Damaged | StorageUnavailable) -> None:
        """Stops the log, unless it needs no more what is missing."""
        if not isinstance(error, Missing) or self._needs(error.name):
            self.stop(error)

    def check_writable(self) -> None:
        """Raises the error that stopped the log, if one did."""
        if self.stopped is not None:
            raise another(self.stopped)

    @property
    def readable(self) -> bool:
        """Whether reads are answered, at least where nothing is damaged."""
        return self.stopped is None or isinstance(self.stopped, Damaged)

    def check_readable(self) -> None:
        """Raises the error that stopped the log, if one did and it was not damage."""
        if not self.readable:
            self.check_writable()

    @contextmanager
    def stopped_by_failed_reads(self) -> Iterator[None]:
        """Stops the log if the block fails to read what is stored, and passes the error on; see the module."""
        try:
            yield
        except (Damaged, StorageUnavailable) as error:
            self.read_failed(error)
            raise
