"""What commands set in their environment before libraries are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

VARIABLE = "NUMPY_MADVISE_HUGEPAGE"
HUGE_PAGES = """
import sys
sys.argv = ["fairlead", "--version"]
from fairlead.cli.main import main
try:
    main()
except SystemExit:
    from numpy._core import multiarray
    print(multiarray._get_madvise_hugepage())
"""
"""Runs a command, then says whether NumPy asks for huge pages."""


@pytest.mark.parametrize(("given", "huge"), [(None, False), ("1", True)])
def test_commands_ask_for_no_huge_pages_for_arrays(
    given: str | None, huge: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless whoever starts them has said so."""
    monkeypatch.delenv(VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(VARIABLE, given)
    found = subprocess.run([sys.executable, "-c", HUGE_PAGES], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines()[-1] == str(huge)
