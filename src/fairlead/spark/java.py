"""Finds the Java that Spark runs on, and says in one line what to do when there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fairlead.model.errors import BadRequest

JAVA_VERSION_MIN = 17
"""Spark 4 needs Java 17 or newer."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ANSWER_SECONDS = 30


class JavaUnusable(BadRequest):
    """Java is missing or too old."""


def find_java(environment: Mapping[str, str]) -> Path:
    """The `java` command: that of JAVA_HOME if the variable is set, else the first one on PATH.

    Raises:
        JavaUnusable: there is none, it does not run, or it is older than 17; the message says what to install.
    """
    java = _command(environment)
    version = java_version(java)
    if version < JAVA_VERSION_MIN:
        raise JavaUnusable(
            f"{java} is Java {version}; Spark needs Java {JAVA_VERSION_MIN} or newer: "
            f"install openjdk-{JAVA_VERSION_MIN}-jre-headless or set JAVA_HOME"
        )
    return java


def java_version(java: Path) -> int:
    """Major version that `java -version` names; 8 for "1.8.0".

    Raises:
        JavaUnusable: it does not run or does not name one.
    """
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnusable(
            f"{java} does not run ({error}); set JAVA_HOME to Java {JAVA_VERSION_MIN} or newer"
        ) from error
    found = _VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        raise JavaUnusable(f"{java} -version failed; set JAVA_HOME to Java {JAVA_VERSION_MIN} or newer")
    return int(found[1])


def java_environment(java: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Spark finds exactly this Java."""
    if environment.get("JAVA_HOME"):
        return dict(environment)
    home = Path(os.path.realpath(java)).parent.parent
    if not (home / "bin" / "java").is_file():  # a program that finds Java by itself: Spark calls it too
        return dict(environment)
    return dict(environment) | {"JAVA_HOME": str(home)}


def _command(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise JavaUnusable(f"JAVA_HOME={home} has no bin/java; set it to Java {JAVA_VERSION_MIN} or newer")
        return java
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is None:
        raise JavaUnusable(
            f"no java found; Spark needs Java {JAVA_VERSION_MIN} or newer: "
            f"install openjdk-{JAVA_VERSION_MIN}-jre-headless or set JAVA_HOME"
        )
    return Path(found)
