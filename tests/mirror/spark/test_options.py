"""What tasks are told survives Spark's options, and is no secret."""

from __future__ import annotations

import subprocess
import sys

from fairlead.mirror.spark.options import MirrorTasks, Place


def test_tasks_survive_texts() -> None:
    """Beside what Spark adds of its own."""
    places = (Place("http://127.0.0.1:1", "/tmp/a b/control-secret", 0), Place("http://127.0.0.1:1", "/tmp/x", 1))
    tasks = MirrorTasks(places, 3600.0, 7)
    texts = tasks.to_texts()
    assert all(isinstance(text, str) for text in texts.values())
    assert MirrorTasks.from_texts({**texts, "path": "of Spark"}) == tasks


def test_planning_processes_do_not_load_what_tasks_need() -> None:
    """Spark keeps several planning processes, which load the format alone."""
    program = "import sys, fairlead.mirror.spark.format; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "numpy", "websockets", "fairlead.mirror.spark.rounds"} & set(loaded)
