"""How a session is started, seen by a `spark-submit` that only writes down what it is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from fairlead.replication.spark.format import LinkDataSource
from fairlead.spark import session as session_module
from fairlead.spark.session import start_session
from fairlead.spark.settings import SparkSettings

SETTINGS = SparkSettings("test", "fairlead.replication.spark.worker_daemon", 1)
OTHERS = {
    "MASTER": "spark://elsewhere:7077",
    "PYSPARK_GATEWAY_PORT": "1",
    "PYSPARK_GATEWAY_SECRET": "x",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "SPARK_API_MODE": "connect",
    "SPARK_CONF_DIR": "/etc/spark",
    "SPARK_CONNECT_MODE_ENABLED": "1",
    "SPARK_LOCAL_DIRS": "/full",
    "SPARK_REMOTE": "sc://elsewhere",
}
"""What a user may have set for other Sparks."""


def fake_home(folder: Path, version: str) -> Path:
    """A Spark of that version, which writes its arguments and variables into its folder and ends."""
    submit = folder / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\nenv > {folder}/variables\nexit 1\n')
    submit.chmod(0o755)
    (folder / "jars").mkdir()
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return folder


def started(tmp_path: Path, home: Path) -> None:
    """Try to start a session."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(PySparkRuntimeError, match="JAVA_GATEWAY_EXITED"):
        start_session(LinkDataSource, SETTINGS, folder, {**os.environ, "SPARK_HOME": str(home)})


def test_what_a_user_has_set_for_other_sparks_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where it runs nor how; and it is set as before afterwards."""
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    home = fake_home(tmp_path / "home", pyspark.__version__)
    before = dict(os.environ)
    started(tmp_path, home)
    assert dict(os.environ) == before
    arguments = (home / "arguments").read_text().splitlines()
    assert arguments[-1] == "pyspark-shell"
    assert "yarn" not in arguments
    found = dict(line.split("=", 1) for line in (home / "variables").read_text().splitlines() if "=" in line)
    assert {name: found.get(name) for name in OTHERS} == dict.fromkeys(OTHERS) | {
        "PYSPARK_SUBMIT_ARGS": "pyspark-shell",
        "SPARK_API_MODE": "classic",
        "SPARK_CONF_DIR": str(tmp_path / "folder" / "conf"),
    }
    assert not (tmp_path / "folder" / "conf").exists()


def test_a_spark_of_another_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's own is."""
    own = fake_home(tmp_path / "own", pyspark.__version__)
    other = fake_home(tmp_path / "other", "3.5.1")
    monkeypatch.setattr(session_module, "home_of_jars", lambda _: own)
    started(tmp_path, other)
    assert (own / "arguments").exists()
    assert not (other / "arguments").exists()


def test_a_jvm_whose_session_cannot_be_made_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would live on beside the next one."""

    def fail(_builder: Any) -> Any:
        raise RuntimeError("no session")

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as jvm:
        gateway = SimpleNamespace(proc=jvm, jvm=SimpleNamespace(), shutdown=lambda: None)
        monkeypatch.setattr(session_module, "launch_gateway", lambda *_: gateway)
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
        try:
            with pytest.raises(RuntimeError, match="no session"):
                start_session(LinkDataSource, SETTINGS, tmp_path, os.environ)
            assert jvm.poll() is not None
            assert SparkContext._gateway is None  # noqa: SLF001 - the next session starts its own
        finally:
            jvm.kill()
