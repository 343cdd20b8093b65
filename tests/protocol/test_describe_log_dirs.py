"""DescribeLogDirs, packed by hand, against kio's codec in every version."""

from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from fairlead.broker.handlers.cluster.describe_log_dirs import VERSIONS
from fairlead.protocol import describe_log_dirs


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_is_what_kio_reads(version: Any) -> None:
    """Two directories, one of them with an error."""
    topics = [describe_log_dirs.topic(version, name, [(0, 7), (3, 2**40)]) for name in ("a", "b")]
    whole = describe_log_dirs.directory(version, "/ships", 2, topics, 100, 9)
    failed = describe_log_dirs.directory(version, "/sick", 0, [], 100, 9, error=56)
    data = b"".join(describe_log_dirs.answer(version, [whole, failed]))
    response: Any
    response, size = entity_reader(load_response_schema(35, version))(data, 0)
    assert size == len(data)
    assert getattr(response, "error_code", 0) == 0
    ships, sick = response.results
    assert (ships.log_dir, ships.error_code, sick.log_dir, sick.error_code) == ("/ships", 0, "/sick", 56)
    assert getattr(ships, "total_bytes", 100) == 100
    assert getattr(ships, "usable_bytes", 9) == 9
    for topic, name in zip(ships.topics, ("a", "b"), strict=True):
        assert topic.name == name
        found = [(p.partition_index, p.partition_size, p.offset_lag, p.is_future_key) for p in topic.partitions]
        assert found == [(0, 7, 0, False), (3, 2**40, 0, False)]
