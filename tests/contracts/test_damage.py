"""Nothing on the disk goes wrong silently: every kind of object, every kind of damage, in directories in every state.

`KINDS` says where the objects of a kind lie. What the judge of `tests/support/damage.py` finds must be "loud", unless
`SILENCES` says that it is harmless, or the loss of the newest commits, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.damage import HARMS, STATES, Home, NotPossible, Verdict, judged, made

from fairlead.model.clock import SystemRandomness
from fairlead.storage import names
from fairlead.storage.local import LocalStorage, ReadOnlyLocalStorage
from fairlead.streamlog.set_aside.cure import set_aside


class Silence(NamedTuple):
    """Cells in which nothing need be said."""

    verdicts: tuple[Verdict, ...]
    why: str
    harms: tuple[str, ...] = ()
    """Beginnings of the names of harms; none: all."""
    states: tuple[str, ...] = ()


KINDS: dict[str, Callable[[Home], list[Path]]] = {
    "cluster.json": lambda home: home.files("cluster.json"),
    "lock": lambda home: home.files("lock"),
    "pack": lambda home: home.files(".packs/*.pack"),
    "register": lambda home: home.files(".register/*"),
    "claim of meta": lambda home: home.files("meta/epoch/*"),
    "manifest of meta": lambda home: home.files("meta/manifest/*/*")[-1:],
    "segment of meta": lambda home: home.files("meta/segment/*"),
    "checkpoint of meta": lambda home: home.files("meta/checkpoint/*"),
}
"""The objects of each kind; every one of them is harmed."""

SILENCES: dict[str, list[Silence]] = {
    "manifest of meta": [
        Silence(
            ("harmless",),
            "the last server put nothing into meta/, so the manifest before says the same",
            ("removed",),
            ("restarted", "merged"),
        )
    ],
    "lock": [
        Silence(("loud",), "the other one is cluster.json", ("exchanged",)),
        Silence(("harmless",), "the directory itself is locked; the file only says by whom"),
    ],
    "pack": [
        Silence(
            ("loud", "newest", "harmless"),
            "the last record of a server that was killed may have been torn",
            ("flipped at 0.", "a part in the middle", "exchanged with an older"),
            ("killed",),
        ),
        Silence(
            ("loud", "harmless"), "not every byte is one of a record that is there", ("flipped at", "a part in the")
        ),
    ],
}


def verdicts_of(kind: str, harm: str, state: str) -> tuple[tuple[Verdict, ...], str]:
    """What the table says of a cell."""
    for each in SILENCES.get(kind, ()):
        if (not each.harms or harm.startswith(each.harms)) and (not each.states or state in each.states):
            return each.verdicts, each.why
    return ("loud",), ""


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Home]:
    """One sound directory in each state."""
    found: dict[str, Home] = {}

    def home(state: str) -> Home:
        if state not in found:
            found[state] = made(tmp_path_factory.mktemp("damage") / state, state)
            (found[state].root / "lock").write_text("4711\n")
        return found[state]

    return home


def harmed(home: Home, kind: str, harm: str, folder: Path) -> Iterator[tuple[Path, Home]]:
    """A copy of the directory for each object of the kind, in which that one was harmed."""
    for place, file in enumerate(KINDS[kind](home)):
        copy = home.copied(folder / str(place))
        try:
            HARMS[harm](copy, copy.root / file.relative_to(home.root))
        except NotPossible:
            continue
        yield file, copy


@pytest.mark.parametrize("state", STATES)
def test_a_sound_directory_has_no_damage(homes: Callable[[str], Home], tmp_path: Path, state: str) -> None:
    """So whatever is said or missing below comes from the harm."""
    found = judged(homes(state).copied(tmp_path / "copy"))
    assert (found.verdict, found.said, found.lost) == ("harmless", [], {})


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", STATES)
def test_harm_is_noticed_or_harmless(
    homes: Callable[[str], Home], tmp_path: Path, state: str, kind: str, harm: str
) -> None:
    """Never served, never built upon."""
    expected, why = verdicts_of(kind, harm, state)
    for file, home in harmed(homes(state), kind, harm, tmp_path):
        found = judged(home)
        assert found.verdict in expected, f"{file}: {why}; {found}"


def test_a_damaged_commit_in_a_pack_is_set_aside(homes: Callable[[str], Home], tmp_path: Path) -> None:
    """Found among the records of its pack, and what was in it is the only loss."""
    home = homes("restarted").copied(tmp_path / "copy")
    storage = ReadOnlyLocalStorage(home.root)
    name = [name for name in storage.list("streams/") if names.parse_commit(name)][2]
    whole = storage.get(name)
    (pack,) = (file for file in home.files(".packs/*.pack") if whole in file.read_bytes())
    pack.write_bytes(pack.read_bytes().replace(whole, whole[:-9] + b"!" + whole[-8:]))
    assert judged(home.copied(tmp_path / "uncured")).verdict == "loud"
    said = list(set_aside(LocalStorage(home.root), [name], SystemRandomness(), 0))
    assert "offsets 0 to 0 are lost" in said[-1] or "offsets 1 to 1 are lost" in said[-1]
    found = judged(home)
    assert (found.said, found.wrong, [len(offsets) for offsets in found.lost.values()]) == ([], [], [1])
    assert ReadOnlyLocalStorage(home.root).size(names.set_aside(name)) == len(whole)
