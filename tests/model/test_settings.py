"""Settings: defaults, file, variables, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.model.errors import InvalidValue
from fairlead.model.settings import Settings, changed, explain, load


def test_without_file_and_variables_everything_has_its_default() -> None:
    """Nothing need be set."""
    assert load(None, {"PATH": "/bin"}) == Settings()


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    """`name = value` in TOML; a whole number is good for a number."""
    file = tmp_path / "settings.toml"
    file.write_text("linger_ms = 7\nround_seconds = 30\n")
    settings = load(file, {})
    assert (settings.linger_ms, settings.round_seconds) == (7, 30.0)


def test_a_variable_stands_above_the_file(tmp_path: Path) -> None:
    """FAIRLEAD_LINGER_MS wins over linger_ms in the file, also in the file that FAIRLEAD_SETTINGS names."""
    file = tmp_path / "settings.toml"
    file.write_text('linger_ms = 7\nlog_level = "debug"\n')
    settings = load(None, {"FAIRLEAD_SETTINGS": str(file), "FAIRLEAD_LINGER_MS": "9"})
    assert (settings.linger_ms, settings.log_level) == (9, "debug")


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"FAIRLEAD_LINGR_MS": "1"}, "FAIRLEAD_LINGR_MS"),
        ({"FAIRLEAD_LINGER_MS": "soon"}, "FAIRLEAD_LINGER_MS"),
        ({"FAIRLEAD_LINGER_MS": "-1"}, "linger_ms"),
        ({"FAIRLEAD_ROUND_SECONDS": "nan"}, "round_seconds"),
        ({"FAIRLEAD_LOG_LEVEL": "loud"}, "log_level"),
        ({"FAIRLEAD_SPARK_MEMORY_MB": "470"}, "spark_memory_mb = 470: between 471 and"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(variables: dict[str, str], named: str) -> None:
    """Unknown names, other kinds, values outside the range."""
    with pytest.raises(InvalidValue, match=named):
        load(None, variables)


@pytest.mark.parametrize("content", ["lingr_ms = 1", 'linger_ms = "1"', "linger_ms = true", "linger_ms ="])
def test_a_wrong_file_is_refused(tmp_path: Path, content: str) -> None:
    """Unknown names, other kinds, no TOML."""
    file = tmp_path / "settings.toml"
    file.write_text(content)
    with pytest.raises(InvalidValue, match=r"lingr_ms|linger_ms|settings\.toml"):
        load(file, {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The message has its path."""
    with pytest.raises(InvalidValue, match=r"absent\.toml"):
        load(tmp_path / "absent.toml", {})


def test_every_default_passes_its_own_check() -> None:
    """A default outside its range would only be found by a user."""
    defaults = {name: default for name, default, _ in explain()}
    assert changed(Settings(), defaults) == Settings()
