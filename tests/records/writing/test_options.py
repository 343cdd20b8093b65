"""What a Spark user may say of a write, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.model.errors import BadRequest, InvalidValue
from fairlead.records.writing.options import WriteOptions, local_folder
from fairlead.records.writing.routing import check_columns

PLACE = {"path": "/mapr/sanfrancisco/ships", "server": "http://127.0.0.1:7660"}


def parsed(**given: str) -> WriteOptions:
    return WriteOptions.parse({**PLACE, **given}, {})


def test_names_are_read_in_any_case_and_have_defaults() -> None:
    """Spark adds the name of the query and the place of its checkpoint."""
    options = parsed(COMPRESSION="LZ4", topic="t", checkpointlocation="/tmp/c", queryname="q", deliverytimeoutms="5000")
    assert (options.path, options.codec, options.topic, options.delivery_timeout_ms) == ("/ships", 3, "t", 5000)
    assert options.staging == Path("/tmp/c/fairlead-staged")
    plain = parsed(includeHeaders="true")
    assert (plain.codec, plain.topic, plain.staging, plain.delivery_timeout_ms) == (0, None, None, 120_000)


def test_a_folder_is_local_or_none() -> None:
    """A checkpoint on another file system is no place for what tasks leave."""
    assert local_folder("file:///a/b") == local_folder("/a/b") == Path("/a/b")
    assert local_folder("file:/a#1") == Path("/a#1"), "to Spark a folder has neither a query nor a fragment"
    assert local_folder("file:///a?b%20c") == Path("/a?b%20c")
    assert local_folder("s3://bucket/a") is None
    other = parsed(checkpointLocation="hdfs://name/a")
    assert (other.staging, other.checkpoint) == (None, None)
    assert parsed(checkpointLocation="file:///a").checkpoint == Path("/a")
    assert parsed(checkpointLocation="hdfs://name/a", stagingLocation="file:/a").staging == Path("/a")


def test_writes_of_one_id_are_numbered_for_each_target() -> None:
    """As Delta's are for each table: `foreachBatch` may write a batch to several."""
    numbered = {"txnAppId": "a", "txnVersion": "1", "stagingLocation": "/s"}
    targets = [parsed(**numbered), parsed(**numbered, topic="t"), parsed(**numbered, server="http://other:1")]
    assert len({each.write_id for each in targets}) == 3
    assert parsed(**numbered, topic="t").write_id == targets[1].write_id
    assert parsed().write_id is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"compresion": "lz4"}, "option compresion is not known"),
        ({"kafka.acks": "1"}, "option kafka.acks is not known; format fairlead has path, server, kafka.bootstrap.serv"),
        ({"kafka.compression.type": "lz4"}, "option kafka.compression.type is not known; .*, compression, "),
        ({"includeHeaders": "false"}, "option includeHeaders = 'false': .*; leave it out instead"),
        ({"includeHeaders": "yes"}, "option includeHeaders = 'yes': give true or false"),
        ({"startingOffsets": "earliest"}, "option startingOffsets is not known"),
        ({"compression": "br"}, "option compression = 'br': give one of none, gzip, snappy, lz4, zstd"),
        ({"topic": "a b"}, "topic name 'a b'"),
        ({"txnAppId": "a"}, "txnAppId and txnVersion: give both, or neither"),
        ({"txnAppId": "a", "txnVersion": "1"}, "option stagingLocation is missing"),
        ({"txnVersion": "x"}, "give a whole number from 0"),
        ({"stagingLocation": "s3://b/a"}, "give a folder that all executors see"),
        ({"deliveryTimeoutMs": "0"}, "give a whole number from 1"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parsed(**given)


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        (["value", "topic", "offset"], {}, "column offset is not written; format fairlead takes path, topic"),
        (["key", "topic"], {}, "column value is missing"),
        (["key", "value"], {}, "no topic: give a column topic, or the option topic"),
    ],
)
def test_rows_without_a_place_or_a_value_are_refused(columns: list[str], given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        check_columns(columns, parsed(**given))
    check_columns(["value"], parsed(topic="t"))
