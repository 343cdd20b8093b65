"""What the compiled loops have in common."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.protocol.loops import memory


def test_a_read_only_installation_compiles_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numba finds no folder for its cache it raises; the code is then compiled for this process alone."""
    asked: list[bool] = []

    def njit(signature: Any, *, cache: bool = False, nogil: bool) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'twice': no locator available for file 'x.py'")
        return lambda function: function

    monkeypatch.setattr(memory, "njit", njit)
    assert memory.compiled("int64(int64)")(lambda value: 2 * value)(21) == 42
    assert asked == [True, False]
