"""The manual set-up of the original's handbook: its own lines, as the script in `examples/` has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import install_scripts
from tests.support.sites import Site, sites
from tests.support.waiting import wait_until

SCRIPT = Path(__file__).parents[2] / "examples" / "manual-procedure.sh"


def run_script(folder: Path, source: str, replica: str) -> str:
    """Run it with the commands of this Python first in the path."""
    environment = {
        **os.environ,
        "PATH": f"{install_scripts(folder / 'bin')}:{os.environ['PATH']}",
        "FAIRLEAD_CLUSTERS": str(folder / "clusters.toml"),
    }
    done = subprocess.run(
        [str(SCRIPT), source, replica], capture_output=True, text=True, timeout=240, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def produce(site: Site, topic: str, *lines: str) -> None:
    text = "".join(f"{line}\n" for line in lines)
    program = [sys.executable, "-m", "fairlead.cli.main", "produce", f"/mapr/{site.name}{topic}"]
    environment = {**os.environ, "FAIRLEAD_CLUSTERS": str(site.data.parent / "clusters.toml")}
    subprocess.run(program, input=text, text=True, check=True, timeout=60, env=environment)


def consume(site: Site, topic: str) -> list[str]:
    """Lines of partition and offset, and value."""
    done = site.cli("consume", f"/mapr/{site.name}{topic}", "--from-beginning", "--offset", check=False)
    return [" ".join(line.split("\t")[0:2] + line.split("\t")[3:]) for line in done.stdout.splitlines()]


@pytest.mark.spark
def test_between_two_clusters(tmp_path: Path) -> None:
    """What was there is copied, what comes later follows, at the same offsets."""
    with sites(tmp_path, "sanfrancisco", "newyork", settings={"round_seconds": "30"}) as (here, there):
        here.cli("stream", "create", "-path", "/mapr/sanfrancisco/activity", "-ttl", "99")
        produce(here, "/activity:topic_1", "one", "two")
        shown = run_script(tmp_path, "/mapr/sanfrancisco/activity", "/mapr/newyork/activity")
        assert "/mapr/newyork/activity" in shown
        assert consume(there, "/activity:topic_1") == ["0 0 one", "0 1 two"]
        assert "ttl                   99" in there.cli("stream", "info", "-path", "/mapr/newyork/activity").stdout
        produce(here, "/activity:topic_1", "three")
        expected = consume(here, "/activity:topic_1")
        wait_until(lambda: consume(there, "/activity:topic_1") == expected, "the third record has arrived")


@pytest.mark.spark
def test_inside_one_cluster(tmp_path: Path) -> None:
    """The same steps; paths without the leading slash, as the handbook's last example writes them."""
    with sites(tmp_path, "sanfrancisco", settings={"round_seconds": "30"}) as (site,):
        site.cli("stream", "create", "-path", "/activity1")
        produce(site, "/activity1:topic_1", "one", "two")
        run_script(tmp_path, "mapr/sanfrancisco/activity1", "mapr/sanfrancisco/activity2")
        assert consume(site, "/activity2:topic_1") == ["0 0 one", "0 1 two"]
        produce(site, "/activity1:topic_1", "three")
        expected = consume(site, "/activity1:topic_1")
        wait_until(lambda: consume(site, "/activity2:topic_1") == expected, "the third record has arrived")
