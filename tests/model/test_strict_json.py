"""JSON in one strict way: what becomes of the fields of a dataclass, and what is said of a text that is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from fairlead.model.errors import InvalidName, InvalidValue
from fairlead.model.names import StreamPath, parse_stream_path
from fairlead.model.strict_json import (
    AS_ARRAY,
    AsText,
    Id,
    JsonForm,
    Natural,
    NotAnObject,
    OtherVersion,
    Unreadable,
)


@dataclass(frozen=True, slots=True)
class Port:
    name: str
    depth: Natural

    def __post_init__(self) -> None:
        if self.name == "nowhere":
            raise InvalidValue("nowhere is no port")


@dataclass(frozen=True, slots=True)
class Voyage:
    ship: Id
    key: bytes
    from_: Port
    by: Annotated[Port, AS_ARRAY] | None
    stops: tuple[Annotated[Port, AS_ARRAY], ...] = ()
    eta: Mapping[int, int] = field(default_factory=dict)
    flags: frozenset[int] = frozenset()
    note: Any = None
    route: Annotated[StreamPath, AsText(parse_stream_path)] | None = None


FULL = Voyage(
    b"s" * 16,
    b"\xab",
    Port("å", 0),
    Port("b", 2**70),
    (Port("c", 1),),
    {3: 4},
    frozenset({5}),
    {"x": [None]},
    StreamPath("/b", "a"),
)
TEXT = (
    '{"ship":"' + "73" * 16 + '","key":"ab","from":{"name":"\\u00e5","depth":0},'
    '"by":["b",1180591620717411303424],"stops":[["c",1]],"eta":{"3":4},"flags":[5],"note":{"x":[null]},"route":"/mapr/a/b"}'
)
PLAIN: JsonForm[Voyage] = JsonForm(Voyage)
STRICT: JsonForm[Voyage] = JsonForm(Voyage, head={"v": 1, "type": "voyage"}, unknown="forbid", whole=True, ascii=False)
BARE = '{"ship":"' + "73" * 16 + '","key":"","from":{"name":"a","depth":0},"by":null'


def test_a_value_is_the_object_of_its_fields() -> None:
    """And the object is the value."""
    assert PLAIN.write(FULL) == TEXT.encode()
    assert PLAIN.read(TEXT) == PLAIN.read(TEXT.encode()) == FULL


def test_a_head_stands_first_and_is_no_part_of_the_value() -> None:
    """It must be there."""
    text = '{"v":1,"type":"voyage",' + TEXT[1:].replace("\\u00e5", "å")
    assert STRICT.write(FULL) == text.encode()
    assert STRICT.read(text) == FULL
    with pytest.raises(Unreadable, match="field 'type' is missing"):
        STRICT.read(text.replace('"type":"voyage",', ""))


def test_what_is_plain_already_is_read_and_written_the_same_way() -> None:
    """For what stands within other JSON."""
    assert PLAIN.from_plain(PLAIN.to_plain(FULL)) == FULL
    assert PLAIN.to_plain(FULL)["eta"] == {"3": 4}
    assert list(STRICT.to_plain(FULL))[:3] == ["v", "type", "ship"]


def test_a_field_with_a_default_may_be_missing_unless_the_whole_is_wanted() -> None:
    """And one without must be there."""
    assert PLAIN.read(BARE + "}") == Voyage(b"s" * 16, b"", Port("a", 0), None)
    with pytest.raises(Unreadable, match="field 'stops' is missing"):
        STRICT.read('{"v":1,"type":"voyage",' + BARE[1:] + "}")
    with pytest.raises(Unreadable, match=r"^field 'by' is missing$"):
        PLAIN.read(BARE.replace(',"by":null', "") + "}")


def test_an_unknown_field_is_passed_over_or_refused() -> None:
    """However deep it lies."""
    deep = TEXT.replace('"depth":0', '"depth":0,"more":1')
    assert PLAIN.read(TEXT[:-1] + ',"more":1}') == PLAIN.read(deep) == FULL
    for text, place in ((TEXT[:-1] + ',"more":1}', ""), (deep, "from")):
        with pytest.raises(Unreadable, match="unknown field 'more'; is the other side a newer version") as refused:
            STRICT.read('{"v":1,"type":"voyage",' + text[1:])
        assert refused.value.place == place


def test_another_version_is_told_from_wrong_fields() -> None:
    """Whatever else is there."""
    with pytest.raises(OtherVersion) as refused:
        STRICT.read('{"v":2}')
    assert refused.value.version == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("73" * 16, "73" * 15, "ship: '7373"),
        ("73" * 16, "zz" * 16, "ship: 'zzzz"),
        ('"ab"', "5", "key: 5: "),
        ('"depth":0', '"depth":-1', r"from\.depth: -1: "),
        ('"depth":0', '"depth":true', r"from\.depth: True: "),
        ('"depth":0', '"depth":0.0', r"from\.depth: 0\.0: "),
        ('"depth":0', '"depth":"0"', r"from\.depth: '0': "),
        ('["b",1180591620717411303424]', '["b"]', "by: field '1' is missing"),
        ('["b",1180591620717411303424]', '{"name":"b","depth":1}', "by: {'name': 'b', 'depth': 1}: "),
        ('[["c",1]]', '[["c",1,2]]', r"stops\.0: \['c', 1, 2\]: "),
        ('{"3":4}', '{"3.5":4}', r"eta\.3\.5"),
        ('{"3":4}', "[]", "eta: "),
        ('"/mapr/a/b"', "5", "route: 5: "),
    ],
)
def test_what_is_wrong_is_named_with_its_place(old: str, new: str, said: str) -> None:
    """And shown, if it is short."""
    with pytest.raises(Unreadable, match=f"^{said}"):
        PLAIN.read(TEXT.replace(old, new))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", '"x"', "[" * 100_000, b"\xff", '{"ship":"\\ud800"}'])
def test_what_is_no_object_is_told_from_wrong_fields(text: str | bytes) -> None:
    """In one line."""
    with pytest.raises(NotAnObject, match=r"^not (JSON: |a JSON object but )") as refused:
        PLAIN.read(text)
    assert "\n" not in str(refused.value)


def test_a_value_that_refuses_itself_says_so_itself() -> None:
    """Its error is of a kind that callers know."""
    with pytest.raises(InvalidValue, match="nowhere is no port"):
        PLAIN.read(TEXT.replace("\\u00e5", "nowhere"))
    with pytest.raises(InvalidName, match="no-path"):
        PLAIN.read(TEXT.replace("/mapr/a/b", "no-path"))


def test_a_form_that_reads_nothing_loads_nothing() -> None:
    """Processes that only might read JSON stay small."""
    program = (
        "import sys, fairlead.cli.program as cli, fairlead.wire.messages, fairlead.streamlog.merging.process;"
        "import fairlead.records.source, fairlead.replication.replicator; cli.tree(); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "fairlead.wire.messages" in loaded
    assert "pydantic" not in loaded
