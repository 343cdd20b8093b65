"""What `--from` may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.mirror.whence import From, parse_from
from fairlead.model.errors import InvalidValue


def test_a_time_without_a_zone_is_utc() -> None:
    """As everything that Kafka keeps."""
    assert parse_from("1970-01-01T00:00:01").timestamp_ms == 1_000
    assert parse_from("1970-01-01T01:00:01+01:00").timestamp_ms == 1_000


def test_a_mirrormaker_1_is_its_group() -> None:
    """Both words mean the same."""
    assert parse_from("mm1") == parse_from("group") == From("group")


def test_a_mirrormaker_2_may_have_an_alias_and_a_topic() -> None:
    """Neither is needed."""
    assert parse_from("mm2") == From("mm2")
    assert parse_from("mm2:East") == From("mm2", alias="East")
    of_one = From("mm2", alias="East", offsets_topic="offsets", connector="to-b")
    assert parse_from("mm2:East,offsets, to-b") == of_one
    assert parse_from("MM2: East , connect-offsets") == From("mm2", alias="East", offsets_topic="connect-offsets")


def test_a_file_has_lines_of_topic_partition_and_offset(tmp_path: Path) -> None:
    """With comments, or as Kafka's tools export it."""
    file = tmp_path / "offsets"
    file.write_text('TOPIC,PARTITION,OFFSET\n# of yesterday\n\nt,0,12\n"u", 3 ,0\n')
    assert parse_from(str(file)) == From("file", offsets={("t", 0): 12, ("u", 3): 0})


def test_a_mark_before_the_first_line_is_none_of_its_topic(tmp_path: Path) -> None:
    """PowerShell writes it; the partition would begin at its start, and all of it come twice."""
    file = tmp_path / "offsets"
    file.write_bytes(b"\xef\xbb\xbft,0,12\r\n")
    assert parse_from(str(file)).offsets == {("t", 0): 12}


@pytest.mark.parametrize(("content", "said"), [(b"# t,0,12\n", "no line of topic"), (b"t\xff,0,12", "not UTF-8")])
def test_a_file_that_says_of_no_partition_where_it_begins_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    """All would begin at its start, and come twice."""
    file = tmp_path / "offsets"
    file.write_bytes(content)
    with pytest.raises(InvalidValue, match=f"--from .*offsets: it .*{said}"):
        parse_from(str(file))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t,0", "line 2: 't,0'"),
        ("t,0,-1", "line 2"),
        ("t,x,1", "line 2"),
        (",0,1", "line 2"),
        ("t,0,1\nt,0,2", "line 3: topic t, partition 0 stands in it twice"),
    ],
)
def test_a_line_that_is_none_is_named(text: str, said: str, tmp_path: Path) -> None:
    """A partition that begins elsewhere than was meant would lose or double records."""
    file = tmp_path / "offsets"
    file.write_text(f"# first\n{text}\n")
    with pytest.raises(InvalidValue, match=said):
        parse_from(str(file))


def test_what_is_neither_is_refused_with_what_may_be_written() -> None:
    """A file that is not there is among it."""
    with pytest.raises(InvalidValue, match=r"earliest, latest, group, mm1, mm2, a time .* the path of a file"):
        parse_from("/no/such/file")
    with pytest.raises(InvalidValue, match="1970"):
        parse_from("1960-01-01")
