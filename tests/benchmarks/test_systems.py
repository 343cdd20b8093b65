"""What the benchmarks' systems read and write as text; no server is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.systems.common import properties
from benchmarks.systems.kafka import cluster_id, server_properties
from benchmarks.systems.mirrormaker import IDENTITY, mirror_properties
from benchmarks.systems.processes import (
    TICK,
    Io,
    Sampler,
    cpu_seconds,
    io_bytes,
    parse_asked,
    parse_cpu_seconds,
    parse_io,
    parse_pss,
    rss_bytes,
)


def test_properties_as_java_reads_them() -> None:
    assert properties({"a.b": 1, "on": True, "topics": r"t\d+"}) == "a.b = 1\non = true\ntopics = t\\\\d+\n"


def test_one_node_of_kafka_has_its_listeners() -> None:
    values = server_properties(Path("/data"), 9092, 9093)
    assert values["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert values["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"


def test_cluster_ids_are_22_characters_and_differ() -> None:
    ids = {cluster_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)


def test_defaults_of_mirrormaker_are_left_alone() -> None:
    plain, tuned = (mirror_properties("127.0.0.1:1", "127.0.0.1:2", tuned) for tuned in (False, True))
    assert "replication.policy.class" not in plain
    assert tuned["replication.policy.class"] == IDENTITY
    assert plain.items() <= tuned.items()
    assert plain["source->target.enabled"] is True


def test_processor_time_counts_reaped_children_and_any_process_name() -> None:
    fields = " ".join(str(number) for number in range(100, 120))
    assert parse_cpu_seconds(f"7 (a) b) S {fields}") == (110 + 111 + 112 + 113) / TICK


def test_proportional_memory_and_storage_bytes_from_their_texts() -> None:
    assert parse_pss("00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss: 9 kB\nPss: 4 kB\nPss_Dirty: 3 kB\n") == 4096
    assert parse_asked("rchar: 1\nwchar: 2\nread_bytes: 30\n") == 1
    assert parse_io("rchar: 1\nwchar: 2\nread_bytes: 30\nwrite_bytes: 40\ncancelled_write_bytes: 5\n") == Io(30, 40)


def test_a_child_that_has_ended_stays_counted() -> None:
    before = cpu_seconds([os.getpid()])
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert cpu_seconds([os.getpid()]) > before


def test_this_process_has_memory_and_one_that_is_gone_has_nothing() -> None:
    assert rss_bytes([os.getpid()]) > 1_000_000
    assert io_bytes([os.getpid()]).written >= 0
    assert (cpu_seconds([2**22 + 1]), rss_bytes([2**22 + 1]), io_bytes([2**22 + 1])) == (0, 0, Io(0, 0))


def test_a_sampler_looks_at_both_ends() -> None:
    with Sampler(lambda: [os.getpid()], every_seconds=60) as sampler:
        sum(range(1_000_000))
    assert len(sampler.samples) == 2
    assert sampler.seconds > 0
    assert sampler.cpu_seconds >= 0
    assert sampler.memory_bytes_max > 1_000_000
