"""Two clusters with links both ways and nothing to do.

They start with the first test of a run and idle beside all others, so that the last test waits only for what is left
of FAIRLEAD_TEST_IDLE_SECONDS (default 300).
"""

from __future__ import annotations

import os
import time

import pytest

from tests.cases.idle import IdlePair, carried, commits, cpu_seconds, ends, send

pytestmark = pytest.mark.spark

IDLE_SECONDS = float(os.environ.get("FAIRLEAD_TEST_IDLE_SECONDS", "300"))


def test_links_both_ways_carry_what_is_written(idle_pair: IdlePair) -> None:
    """Each cluster has the other's topic, record by record."""
    carried(idle_pair.sites)


def test_two_idle_clusters_write_no_commit(idle_pair: IdlePair) -> None:
    """For five minutes, rounds that turn included; then a record each way still arrives."""
    time.sleep(max(0.0, idle_pair.since + IDLE_SECONDS - time.monotonic()))
    both = idle_pair.sites
    assert commits(both) - idle_pair.commits == set()
    assert ends(both) == idle_pair.ends
    idled = time.monotonic() - idle_pair.since
    used = cpu_seconds(both) - idle_pair.cpu_seconds
    print(
        f"two idle clusters with Spark: {used:.1f} s of processor time in {idled:.0f} s, {used / idled:.1%} of a core"
    )
    for site in both:
        send(site, "last")
    carried(both)
