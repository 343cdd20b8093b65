"""`clusters.toml`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.client.address_book import AddressBook, KnownCluster, default_file
from fairlead.model.errors import InvalidValue, NotFound, UnknownCluster

NAMELESS = 2_000_000_123
"""A user that no machine knows."""
SF = KnownCluster("sanfrancisco", ("http://127.0.0.1:7660",), ("127.0.0.1:9092",))
NY = KnownCluster("new.york", ("http://127.0.0.1:7661", "http://[::1]:7661"))


@pytest.fixture
def book(tmp_path: Path) -> AddressBook:
    return AddressBook(tmp_path / "config" / "clusters.toml")


def test_what_is_entered_is_found(book: AddressBook) -> None:
    """Also by another reader of the file, and in the order of entry."""
    book.put(SF)
    book.put(NY)
    assert AddressBook(book.file).clusters() == [SF, NY]
    assert book.find("new.york") == NY
    assert book.default() == SF


def test_an_entry_is_replaced_in_its_place(book: AddressBook) -> None:
    """A cluster that comes back on another port stays the first."""
    book.put(SF)
    book.put(NY)
    moved = KnownCluster("sanfrancisco", ("http://127.0.0.1:1",))
    book.put(moved)
    assert book.clusters() == [moved, NY]


def test_an_unknown_cluster_is_answered_with_those_there_are(book: AddressBook) -> None:
    """And with the command that enters one."""
    book.put(SF)
    with pytest.raises(UnknownCluster, match=r"sanfrancisco.*cluster add"):
        book.find("lisbon")


def test_an_empty_book_says_how_to_begin(book: AddressBook) -> None:
    """The first thing a new user meets."""
    with pytest.raises(UnknownCluster, match="fairlead up"):
        book.default()


def test_a_removed_cluster_is_gone(book: AddressBook) -> None:
    """And cannot be removed twice."""
    book.put(SF)
    book.remove("sanfrancisco")
    with pytest.raises(NotFound):
        book.remove("sanfrancisco")


@pytest.mark.parametrize(
    "content",
    [
        "clusters = 1",
        "[clusters.a]\nhttp = 5",
        "[clusters.a]",
        "x = [",
        "[clusters.a]\nhttp = ['x']",
        "[clusters.'a b']\nhttp = []",
    ],
)
def test_a_file_that_is_no_address_book_is_refused_by_name(tmp_path: Path, content: str) -> None:
    """It is never overwritten."""
    file = tmp_path / "clusters.toml"
    file.write_text(content)
    book = AddressBook(file)
    with pytest.raises(InvalidValue, match=str(file)):
        book.put(SF)
    assert file.read_text() == content


def test_the_file_is_where_the_variables_say(tmp_path: Path) -> None:
    """FAIRLEAD_CLUSTERS, else the configuration folder."""
    assert default_file({"FAIRLEAD_CLUSTERS": "/x/c.toml"}) == Path("/x/c.toml")
    assert default_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/fairlead/clusters.toml")
    assert default_file({}).parts[-3:] == (".config", "fairlead", "clusters.toml")


def test_a_name_that_no_host_can_have_hides_no_other_entry(book: AddressBook) -> None:
    """An earlier version took it; who asks that cluster is told."""
    book.put(SF)
    wrong = KnownCluster("lisbon", ("http://a..b:7660", "http://xn--a:9"))
    book.file.write_text(book.file.read_text() + f'[clusters.lisbon]\nhttp = ["{wrong.http[0]}", "{wrong.http[1]}"]\n')
    book.put(NY)
    assert book.clusters() == [SF, wrong, NY]


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container runs as a number that nobody has named."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: NAMELESS)
    with pytest.raises(InvalidValue, match="FAIRLEAD_CLUSTERS"):
        default_file({})
    assert default_file({"FAIRLEAD_CLUSTERS": "/x/c.toml"}) == Path("/x/c.toml")


def test_what_was_entered_for_a_time_is_taken_back_unless_it_was_changed(tmp_path: Path) -> None:
    """Another cluster of that name may have begun since."""
    book = AddressBook(tmp_path / "clusters.toml")
    first, second = (KnownCluster("lisbon", (f"http://127.0.0.1:{port}",)) for port in (1, 2))
    book.put(first)
    book.put(second)
    book.take_back(first)
    assert book.clusters() == [second]
    book.take_back(second)
    book.take_back(second)
    assert book.clusters() == []


def test_whatever_is_entered_can_be_read_again(book: AddressBook) -> None:
    """Characters that JSON writes otherwise than TOML made a book that no command could read."""
    strange = KnownCluster(
        "lisbon", ("http://\U00020000:1", 'http://a"b:2', "http://ü:4"), ("\U0001f6a2:1", "\x7f:1", "\\:1")
    )
    book.put(strange)
    book.put(SF)
    assert book.clusters() == [strange, SF]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The book lies where somebody keeps it, in a folder of dot files for instance; both names have one lock."""
    kept = tmp_path / "kept" / "book.toml"
    link = tmp_path / "clusters.toml"
    link.symlink_to(kept)
    AddressBook(link).put(SF)
    AddressBook(kept).put(NY)
    assert link.is_symlink()
    assert AddressBook(link).clusters() == [SF, NY]


@pytest.mark.parametrize("kind", ["device", "folder", "pipe", "."])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`FAIRLEAD_CLUSTERS=/dev/null`, given by root, made /dev/null a file of clusters."""
    monkeypatch.chdir(tmp_path)
    place = Path(".") if kind == "." else tmp_path / kind
    if kind == "device":
        place.symlink_to("/dev/null")
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    with pytest.raises(InvalidValue, match=rf"{place} is no file"):
        AddressBook(place).put(SF)
    assert not Path("/dev/null").is_file()
