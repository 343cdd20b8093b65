"""Whether a log answers, or what stopped it. Whoever finds that it cannot go on stops it: a reader or its writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairlead.model.errors import Damaged, FairleadError, StorageUnavailable, another


class Health:
    """The health of one log. Any thread may ask it, or stop the log."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.stopped: FairleadError | None = None
        """Why the log answers nothing any more; None while it runs."""
        self.on_stop: Callable[[FairleadError], None] | None = None
        """Called once when the log stops, on the thread that found out why."""

    def stop(self, error: BaseException) -> None:
        """From now on every call is answered with this error."""
        if self.stopped is not None:
            return
        if isinstance(error, FairleadError):
            self.stopped = another(error)
        else:
            self.stopped = StorageUnavailable(f"{self._prefix}: stopped after an unexpected error: {error!r}")
        if self.on_stop is not None:
            self.on_stop(self.stopped)

    def check_running(self) -> None:
        """Raises the error that stopped the log, if one did."""
        if self.stopped is not None:
            raise another(self.stopped)

    @contextmanager
    def stopped_by_failed_reads(self) -> Iterator[None]:
        """Stops the log if the block fails to read what is stored, and passes the error on."""
        try:
            yield
        except (Damaged, StorageUnavailable) as error:
            self.stop(error)
            raise
