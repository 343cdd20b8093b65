"""The environment of this process: for those that it starts, and for libraries that look there when imported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def small_pages_for_arrays() -> None:
    """Let NumPy, once it is imported, ask for no huge pages for arrays of 4 MiB and more (`NUMPY_MADVISE_HUGEPAGE`, see
    its global state; a value that is set already stays). A frame of a link is received into such an array, and the
    system would fill each huge page of it with zeros first: a third of a server's processor time while it gets a
    backlog."""
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")


@contextmanager
def variables_set(wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Within, what is started has these variables (None: not this one); afterwards they are as before."""
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(wanted: Mapping[str, str | None]) -> None:
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
