"""Java that is missing, too old or right."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.spark.java import JavaUnusable, find_java, java_environment


def fake_java(folder: Path, says: str, code: int = 0) -> Path:
    """A `java` that answers `-version`."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return java


def test_java_on_the_path_is_found(tmp_path: Path) -> None:
    """Java 17 or newer will do, and JAVA_HOME is made to name it."""
    java = fake_java(tmp_path, 'openjdk version "21.0.1" 2023-10-17')
    environment = {"PATH": str(java.parent)}
    assert find_java(environment) == java
    assert java_environment(java, environment)["JAVA_HOME"] == str(tmp_path)


def test_java_home_comes_first(tmp_path: Path) -> None:
    """JAVA_HOME stands above PATH and is left as it is."""
    java = fake_java(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    environment = {"PATH": "/nowhere", "JAVA_HOME": str(tmp_path)}
    assert find_java(environment) == java
    assert java_environment(java, environment) == environment


def test_a_java_that_only_calls_another_says_nothing_of_where_that_is(tmp_path: Path) -> None:
    """As version managers put it on the PATH; JAVA_HOME would have no bin/java."""
    shim = fake_java(tmp_path / "bin-of-shims", 'openjdk version "21.0.1" 2023-10-17')
    shim = shim.rename(tmp_path / "bin-of-shims" / "java")
    environment = {"PATH": str(shim.parent)}
    assert find_java(environment) == shim
    assert java_environment(shim, environment) == environment


def test_old_java_is_refused_with_its_version(tmp_path: Path) -> None:
    """Java 8 calls itself 1.8."""
    java = fake_java(tmp_path, 'java version "1.8.0_391"')
    with pytest.raises(JavaUnusable, match="is Java 8; Spark needs Java 17 or newer") as refused:
        find_java({"PATH": str(java.parent)})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("says", ["no idea", ""])
def test_java_that_does_not_work_is_refused(tmp_path: Path, says: str) -> None:
    """A broken installation is named."""
    java = fake_java(tmp_path, says, 1)
    with pytest.raises(JavaUnusable, match="-version failed"):
        find_java({"PATH": str(java.parent)})


def test_missing_java_is_one_line_that_says_what_to_install(tmp_path: Path) -> None:
    """Nothing on PATH, or a JAVA_HOME that holds none."""
    with pytest.raises(JavaUnusable, match=r"no java found.*openjdk-17"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(JavaUnusable, match="has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})
