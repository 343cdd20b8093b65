"""`--from`: where partitions begin of which no position is known."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fairlead.model.errors import InvalidValue

_GROUP_WORDS: Final = ("group", "mm1")
_MM2: Final = "mm2"
_HEADINGS: Final = frozenset({"topic", "partition", "offset"})


@dataclass(frozen=True, slots=True)
class From:
    """What `--from` says."""

    what: str
    """`earliest`, `latest`, `time`, `group` (what `group.id` has committed at the source), `mm2` (where a MirrorMaker 2
    ended), or `file`."""
    timestamp_ms: int = 0
    """With `time`: begin at the first record that is not older."""
    alias: str | None = None
    """With `mm2`: what that MirrorMaker called the source."""
    offsets_topic: str | None = None
    """With `mm2`: where Connect kept its offsets, if not where MirrorMaker 2 has them kept by itself."""
    connector: str | None = None
    """With `mm2`: which connector's offsets count, if several have left some."""
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """With `file`: topic and partition → the next offset to mirror."""


EARLIEST: Final = From("earliest")


def parse_from(text: str) -> From:
    """Read `--from`. Raises: InvalidValue."""
    stripped = text.strip()
    word = stripped.lower()
    if word in ("earliest", "latest"):
        return From(word)
    if word in _GROUP_WORDS:
        return From("group")
    if word.partition(":")[0] == _MM2:
        return _of_mm2(stripped)
    if Path(stripped).is_file():
        return From("file", offsets=read_offsets(Path(stripped)))
    return _of_time(text)


def _of_mm2(text: str) -> From:
    alias, topic, connector = (*map(str.strip, text[len(_MM2) + 1 :].split(",", 2)), "", "")[:3]
    return From(_MM2, alias=alias or None, offsets_topic=topic or None, connector=connector or None)


def _of_time(text: str) -> From:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidValue(
            f"--from {text!r}: write earliest, latest, group, mm1, mm2, a time such as 2026-03-01T12:00:00Z, or "
            "the path of a file with lines of topic,partition,offset"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = int(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise InvalidValue(f"--from {text!r}: the time is before 1970")
    return From("time", milliseconds)


def read_offsets(file: Path) -> Mapping[tuple[str, int], int]:
    """Lines of topic,partition,offset, as `kafka-consumer-groups --reset-offsets --export` writes them; a `#` begins a
    comment. The offset is the next one to mirror.

    Raises:
        InvalidValue: a line is none, or names a partition again; the message says which. Or there are none.
    """
    found: dict[tuple[str, int], int] = {}
    try:
        lines = file.read_text("utf-8-sig").splitlines()  # Windows' tools put a mark before the first letter
    except OSError as error:
        raise InvalidValue(f"--from {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"--from {file}: it is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"--from {file}, line {number}"
        fields = [each.strip() for each in next(csv.reader([line]))]
        if number == 1 and {each.lower() for each in fields} == _HEADINGS:
            continue
        place, offset = _line(fields, line, where)
        if place in found:
            raise InvalidValue(f"{where}: topic {place[0]}, partition {place[1]} stands in it twice")
        found[place] = offset
    if not found:
        raise InvalidValue(f"--from {file}: it has no line of topic,partition,offset")
    return found


def _line(fields: list[str], line: str, where: str) -> tuple[tuple[str, int], int]:
    if len(fields) != 3 or not fields[0] or not all(each.isascii() and each.isdigit() for each in fields[1:]):
        raise InvalidValue(f"{where}: {line.strip()[:100]!r}: write topic,partition,offset")
    return (fields[0], int(fields[1])), int(fields[2])
