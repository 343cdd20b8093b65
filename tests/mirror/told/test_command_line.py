"""What the seed's options mean, and what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.mirror.options import GoesOn
from fairlead.mirror.told.command_line import checked
from fairlead.mirror.told.words import Words
from fairlead.model.errors import InvalidValue
from tests.mirror.world import options


def test_the_defaults_are_those_of_the_original() -> None:
    """One producer, one stream, neither partitions nor the order of keyless records kept, no prefix, 10,000 records."""
    chosen = options()
    assert chosen.producers == 1
    assert chosen.streams == 1
    assert chosen.preserve_partitions is False
    assert chosen.preserve_order is False
    assert chosen.prefix == ""
    assert chosen.queue_records == 10_000


def test_a_loss_stops_its_partition_unless_the_command_line_says_otherwise() -> None:
    """Each kind of loss by itself."""
    assert options().goes_on == GoesOn(gap=False, truncated=False, recreated=False)
    assert options(on_gap="continue").goes_on == GoesOn(gap=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"whitelist": "a", "blacklist": "b"}, "exactly one"),
        ({"whitelist": None}, "exactly one"),
        ({"whitelist": "["}, "--whitelist '\\['"),
        ({"consumer_configs": []}, "--consumer.config"),
        ({"producer_config": None}, "--producer.config"),
        ({"streams": 0}, "--num.streams"),
        ({"producers": 0}, "--num.producers"),
        ({"queue_records": -1}, "--queue.size"),
        ({"prefix": "a/b"}, "--prefix"),
        ({"name": "a b"}, "--name"),
        ({"begin": "yesterday"}, "--from"),
        ({"begin": "1960-01-01"}, "1970"),
        ({"on_gap": "maybe"}, "--on.gap"),
        ({"source_aliases": ["a", "b"]}, "--source.alias is given 2 times"),
        ({"source_aliases": ["a b"]}, "--source.alias"),
        ({"target_alias": ""}, "--target.alias"),
        ({"replication": 0}, "--replication.factor"),
        ({"replication": 32_768}, "--replication.factor 32768: write a number from 1 to 32,767"),
        ({"abort_on_send_failure": "maybe"}, "--abort.on.send.failure"),
        ({"commit_interval_ms": 0}, "--offset.commit.interval.ms"),
        ({"handler_args": "x"}, "--message.handler.args"),
        ({"handler": "com.acme.Handler"}, "a Java class cannot be run here"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given: dict[str, object], said: str) -> None:
    """As an error that ends the command with 1."""
    with pytest.raises(InvalidValue, match=said):
        options(**given)


def test_several_sources_are_given_by_several_files() -> None:
    """In their order."""
    files = [Path("1"), Path("2")]
    least = {"producer_config": Path("p"), "whitelist": "a", "blacklist": None}
    assert checked(Words(consumer_configs=files, **least)).consumer_configs == tuple(files)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"groups": "a"}, {"replication": 3}, {"given": frozenset({"--replication.factor"})}])
def test_what_a_file_of_mirrormaker_2_says_is_not_said_again(given: dict[str, Any]) -> None:
    """Also where the word is what it would be anyway: the file has other defaults."""
    with pytest.raises(InvalidValue, match=r"and --mm2\.config: the file of MirrorMaker 2 says that"):
        checked(Words(mm2_config=Path("mm2.properties"), **given))
    assert checked(Words(mm2_config=Path("mm2.properties"), given=frozenset({"--once"}), once=True)).once
