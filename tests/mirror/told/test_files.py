"""What property files say of a mirror."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.mirror.running.paces import Paces
from fairlead.mirror.told.command_line import checked
from fairlead.mirror.told.files import Flow, flow_of
from fairlead.mirror.told.words import Words
from fairlead.model.errors import InvalidValue
from tests.support.mirrors import properties


class Reading:
    """Two files, and what was said of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []

    def __call__(self, consumer: dict[str, str], **given: object) -> Flow:
        files = {
            "consumer_configs": [properties(self.folder / "consumer.config", "a:1", **consumer)],
            "producer_config": properties(self.folder / "producer.config", "b:1"),
        }
        return flow_of(checked(Words(whitelist=".*", **files, **given)), self.warnings.append)  # type: ignore[arg-type]


@pytest.fixture
def read(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def test_a_mirror_is_named_by_its_group(read: Reading) -> None:
    """Or as the command line says; without either it would not find its positions again."""
    assert read({"group_id": "g"}).name == "g"
    assert read({"group_id": "g"}, name="m").name == "m"
    with pytest.raises(InvalidValue, match="--name"):
        read({})


def test_positions_are_written_as_often_as_mirrormaker_1_would(read: Reading) -> None:
    """Where `--offset.commit.interval.ms` says so; the consumer's own interval may make commits more frequent alone."""
    assert read({"group_id": "g"}).paces == Paces()
    told = read({"group_id": "g"}, commit_interval_ms=60_000).paces
    assert (told.positions, told.commits) == (60, 60)
    own = read({"group_id": "g", "auto_commit_interval_ms": "500"}).paces
    assert (own.positions, own.commits) == (Paces().positions, 0.5)


def test_a_reset_of_the_consumer_has_no_effect_and_that_is_said(read: Reading) -> None:
    """`--from` says where partitions begin."""
    read({"group_id": "g", "auto_offset_reset": "latest"})
    assert len(read.warnings) == 1
    assert "auto.offset.reset has no effect here; --from" in read.warnings[0]


def test_an_interval_may_have_blanks_and_must_be_a_number(read: Reading) -> None:
    assert read({"group_id": "g", "auto_commit_interval_ms": "500 "}).paces.commits == 0.5
    assert read({"group_id": "g", "metadata_max_age_ms": "999999999"}).paces.topics == Paces().topics
    for wrong in ("²", "5s", "99"):
        with pytest.raises(InvalidValue, match=r"consumer\.config: auto\.commit\.interval\.ms is"):
            read({"group_id": "g", "auto_commit_interval_ms": wrong})
