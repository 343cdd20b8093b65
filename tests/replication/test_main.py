"""The process of the replicator, from outside."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import WAIT_SECONDS

PROGRAM = """
import subprocess, threading
from fairlead.replication import replicator
from fairlead.replication.__main__ import main

def replicate():
    child = subprocess.Popen([{python!r}, "-c", "input()"], stdin=subprocess.PIPE)
    threading.Thread(target=child.wait).start()
    return 0

replicator.main = replicate
raise SystemExit(main())
"""


def test_it_ends_though_a_thread_waits_for_a_spark_that_was_not_stopped() -> None:
    """It would outlive its server for ever, and its Spark with it."""
    program = PROGRAM.format(python=sys.executable)
    assert subprocess.run([sys.executable, "-c", program], timeout=WAIT_SECONDS, check=False).returncode == 0


LATE = """
import os, signal
from fairlead.replication import replicator

async def nothing(*_):
    pass

replicator.run_once = nothing
assert replicator.main(["--once", "--server", "http://127.0.0.1:1", "--secret-file", "x"]) == 0
os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_late_ctrl_c_ends_it_without_a_traceback() -> None:
    """The second one, while Python takes itself apart."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], timeout=WAIT_SECONDS, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "")
