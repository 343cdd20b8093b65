"""Options of the Spark source: names and meanings of Spark's Kafka source, refused where they make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from fairlead.client.address_book import AddressBook, KnownCluster
from fairlead.model.errors import BadRequest, InvalidValue, UnknownCluster
from fairlead.records.options import Options
from fairlead.records.position import RecordsPosition, ShardPosition, from_json
from fairlead.records.source import FairleadSource

PLACE = {"path": "/mapr/sanfrancisco/ships", "server": "http://127.0.0.1:7660"}


def parsed(**given: str) -> Options:
    return Options.parse({**PLACE, **given}, {})


def test_names_are_read_in_any_case() -> None:
    """Spark hands options over in lower case."""
    options = parsed(startingoffsets="earliest", FAILONDATALOSS="false", topicpattern="ship-.*")
    assert (options.path, options.servers) == ("/ships", ("http://127.0.0.1:7660",))
    assert (options.starting, options.fail_on_data_loss, options.topic_pattern) == ("earliest", False, "ship-.*")


def test_the_cluster_is_found_in_the_address_book(tmp_path: Path) -> None:
    """Without `server`, the cluster of the path is looked up; without a cluster, the first one is meant."""
    file = tmp_path / "clusters.toml"
    AddressBook(file).put(KnownCluster("newyork", ("http://127.0.0.1:7661",)))
    variables = {"FAIRLEAD_CLUSTERS": str(file)}
    for path in ("/mapr/newyork/ships", "newyork:/ships", "/ships"):
        assert Options.parse({"path": path}, variables).servers == ("http://127.0.0.1:7661",)
    with pytest.raises(UnknownCluster, match="cluster atlantis is not in"):
        Options.parse({"path": "/mapr/atlantis/ships"}, variables)


def test_offsets_by_partition() -> None:
    """The JSON of Spark's Kafka source, with -1 for latest and -2 for earliest."""
    options = parsed(startingOffsets='{"a": {"0": 23, "1": -2}}', endingOffsets='{"a": {"0": 50, "1": -1}}')
    assert options.starting == {"a": {0: 23, 1: -2}}
    assert options.ending == {"a": {0: 50, 1: -1}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOfsets": "earliest"}, "option startingOfsets is not known"),
        ({"startingOffsets": "first"}, "option startingOffsets = 'first': give earliest, latest or offsets"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "give earliest, latest or offsets"),
        ({"startingOffsets": '{"a": [1]}'}, "give earliest, latest or offsets"),
        ({"endingOffsets": "earliest"}, "earliest would end before it begins"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "earliest would end before it begins"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger = '0': give a whole number from 1"),
        ({"startingTimestamp": "yesterday"}, "give a whole number from 0"),
        ({"failOnDataLoss": "maybe"}, "give true or false"),
        ({"topics": "a", "topicPattern": "b"}, "give one of them"),
        ({"topics": "a b"}, "topic name 'a b'"),
        ({"topicPattern": "("}, "option topicPattern"),
        ({"columns": "value,nothing"}, "columns nothing"),
        ({"server": "localhost"}, "write it as http://HOST:PORT"),
        ({"path": "ships"}, "a stream's path starts with '/'"),
        ({"path": ""}, "option path is missing"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, str], message: str) -> None:
    """Each message names the option and what to give instead."""
    with pytest.raises(BadRequest, match=message.replace("(", r"\(").replace("{", r"\{")) as caught:
        parsed(**given)
    assert "\n" not in str(caught.value)


def test_a_stream_has_no_ending_offsets() -> None:
    """As in Spark's Kafka source: nothing would stop there, and topics that are not named would be left out."""
    source = FairleadSource({**PLACE, "endingOffsets": '{"a": {"0": 50}}'})
    with pytest.raises(InvalidValue, match="option endingOffsets is for a batch"):
        source.streamReader(StructType())


def test_a_position_survives_the_checkpoint() -> None:
    """JSON and back; a position of another version is refused, naming both."""
    position = RecordsPosition("ab" * 16, {0: ShardPosition(7, "cd" * 16, 5)}, {(0, 16): {3: 23}})
    assert from_json(position.to_json()) == position
    with pytest.raises(InvalidValue, match="version 2; this program knows version 1"):
        from_json({**position.to_json(), "version": 2})
    with pytest.raises(InvalidValue, match="no position"):
        from_json({"version": 1, "shards": {}})
