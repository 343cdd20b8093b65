"""The plants demo: what plants say, the picture at the end, and all of it at small scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from examples.plants.metrics import FAULTS, MACHINES, PLANTS, Made, readings, topics
from examples.plants.queries import Line
from tests.support.charts import chart_options, drawn

ROOT = Path(__file__).parents[2]
SMALL = {**os.environ, "FAIRLEAD_REPLICATOR_WORKERS": "1"}


def test_both_plants_name_their_lines_alike_and_the_prefix_tells_them_apart() -> None:
    """None of the names has a space."""
    assert set(topics("europe")) < set(topics("asia"))
    behind = [name for plant in PLANTS for name in topics(plant, f"{plant}.")]
    assert len(set(behind)) == sum(PLANTS.values())
    assert "asia.line-2" in behind
    assert not any(" " in name for name in behind)


def test_readings_are_the_same_at_every_call_and_of_all_lines_and_machines() -> None:
    """Lines take turns; a machine with a fault makes less."""
    some = list(islice(readings("asia"), 2400))
    assert some == list(islice(readings("asia"), 2400))
    assert some != list(islice(readings("europe"), 2400))
    assert Counter(reading.line for reading in some) == dict.fromkeys(range(1, PLANTS["asia"] + 1), 600)
    assert len({(reading.line, reading.machine) for reading in some}) == PLANTS["asia"] * MACHINES
    assert {reading.fault for reading in some} == {*FAULTS, None}
    assert all((reading.units <= 2) == (reading.fault is not None) for reading in some)


def test_a_value_is_json_that_names_no_plant() -> None:
    """Where a reading comes from is in its topic's name."""
    reading = next(readings("asia"))
    said = {"units": reading.units, "fault": reading.fault, "celsius": reading.celsius, "time": 17}
    assert json.loads(reading.value(17)) == said


def test_a_plant_counts_readings_units_and_faults() -> None:
    """As the query does."""
    some = list(islice(readings("europe"), 500))
    made = Made()
    for reading in some:
        made.add(reading)
    assert made == Made(500, sum(each.units for each in some), sum(each.fault is not None for each in some))
    assert made.faults > 0


def test_a_chart_is_drawn(tmp_path: Path) -> None:
    """A line that only one plant has included, and one without faults."""
    pytest.importorskip("matplotlib", reason="make test, demos with a chart and the bench install it")
    from examples.plants.chart import draw
    from examples.plants.course import Course

    lines = [Line("asia", 1, 10, 60, 1, 100.0), Line("asia", 2, 10, 50, 0, 0.0), Line("europe", 1, 9, 70, 2, 222.2)]
    file = tmp_path / "deeper" / "plants.png"
    draw(lines, Course([(0, 0), (9, 29)], [(2, 5), (9, 29)], (3, 6)), file)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert 2_000 < file.stat().st_size < 100_000


@pytest.mark.spark
@pytest.mark.timeout(900)  # three clusters start, where others work beside it
def test_the_demo_plays_small_and_all_of_its_claims_hold(tmp_path: Path) -> None:
    """Three clusters, Spark killed in the middle: as people see it, with few readings."""
    chart = tmp_path / "plants.png"
    command = [sys.executable, "-m", "examples.plants.demo", "--rate", "50", "--away", "1", *chart_options(chart)]
    played = subprocess.run(command, cwd=ROOT, env=SMALL, capture_output=True, text=True, timeout=800, check=False)
    assert played.returncode == 0, played.stdout + played.stderr
    assert "OK: 11 claims hold" in played.stdout
    assert drawn(chart)
