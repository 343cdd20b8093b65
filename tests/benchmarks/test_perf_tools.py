"""Kafka's performance tools as the bench's clients: what they say, and the check of what they sent."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.load.content import WrongContent
from benchmarks.load.perf_check import check, hashes_of, hashes_sent
from benchmarks.load.perf_tools import Span, parse_consumed, parse_produced, seconds_of

INTERVAL = "49372 records sent, 9874.4 records/sec (9.42 MB/sec), 2450.1 ms avg latency, 3100.0 ms max latency."
TOTAL = (
    "150000 records sent, 10000.000000 records/sec (9.54 MB/sec), 2711.46 ms avg latency, 3307.00 ms max latency, "
    "2982 ms 50th, 3230 ms 95th, 3283 ms 99th, 3304 ms 99.9th."
)


def test_the_last_line_of_producer_performance_is_its_figures() -> None:
    assert parse_produced([INTERVAL, TOTAL]) == {
        "records": 150_000,
        "seconds": 15.0,
        "p50 ms": 2982,
        "p99 ms": 3283,
        "p99.9 ms": 3304,
        "max ms": 3307,
    }


def test_a_producer_that_did_not_come_to_its_end_has_no_figures() -> None:
    """An interval's line has records too, but not all."""
    assert parse_produced([TOTAL, INTERVAL]) is None
    assert parse_produced([]) is None


def test_the_line_of_consumer_performance_is_a_span_from_when_it_had_partitions() -> None:
    """Here after 513 ms of joining the group; the rates that it says itself are of the whole time."""
    line = (
        "2026-01-02 03:04:05:006, 2026-01-02 03:04:08:519, 38.1470, 10.85, 40000, 11386.27, 513, 3000, 12.71, 13333.3"
    )
    found = parse_consumed(["WARNING: Exiting before consuming the expected number of messages", line])
    assert found is not None
    assert (found.records, round(found.ended - found.began, 6)) == (40_000, 3.0)
    assert parse_consumed([]) is None
    assert parse_consumed(["WARNING: Exiting before consuming"]) is None


def test_tools_side_by_side_last_from_the_first_beginning_to_the_last_end() -> None:
    assert seconds_of([Span(1.0, 4.0, 10, {}, 0.1), Span(2.5, 7.0, 10, {}, 0.1)]) == 6.0


def test_the_records_that_are_expected_are_those_of_java() -> None:
    """The first letters of `new SplittableRandom(0)`, as Java 17 prints them."""
    rows = np.frombuffer(b"YQHHNEBSEPDNSEIFGAMSUJXKOLTXSPLGHDIOYZJF", np.uint8).reshape(4, 10)
    assert hashes_sent(4, 10).tolist() == hashes_of(rows).tolist()


def test_records_of_one_producer_are_there_once_and_in_order() -> None:
    sent = hashes_sent(9, 10)
    check([sent[::2], sent[1::2]], 9, 10, 1)
    with pytest.raises(WrongContent, match="1 missing"):
        check([sent[:8]], 9, 10, 1)
    with pytest.raises(WrongContent, match="1 altered, 1 missing"):
        check([np.concatenate((sent[:8], sent[8:] + np.uint64(1)))], 9, 10, 1)
    with pytest.raises(WrongContent, match="10 records for 9"):
        check([np.concatenate((sent, sent[:1]))], 9, 10, 1)
    with pytest.raises(WrongContent, match="partition 1: records are out of order"):
        check([sent[::2], sent[1::2][::-1]], 9, 10, 1)


def test_each_record_is_there_as_often_as_there_are_producers() -> None:
    """All send the same, so a record that one lost and another repeated is seen too."""
    sent = hashes_sent(9, 10)
    check([np.concatenate((sent, sent[::-1]))], 18, 10, 2)
    with pytest.raises(WrongContent, match="18 records for 18: 0 altered, 0 missing, others too often"):
        check([np.concatenate((sent, sent[:8], sent[:1]))], 18, 10, 2)
