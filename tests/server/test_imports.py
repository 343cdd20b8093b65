"""What a server imports."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys

import fairlead.server.assembly
from fairlead.model.expressions import whole_matches

assert whole_matches("a.*", ["ab", "ba"]) == [True, False]
print(sorted({"pandas", "pyspark", "numba"} & {*sys.modules}))
"""


def test_a_server_brings_in_nothing_large_that_it_has_no_use_for() -> None:
    """pyarrow brings in pandas as soon as it makes an array of a list: a fifth of a second and 36 MB of each server."""
    assert subprocess.check_output([sys.executable, "-c", PROGRAM], text=True) == "[]\n"
