"""quixstreams: a stateful application over a restart of the server, and with its local state gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.site import STREAM, Site
from tests.interop.test_behaviours import stored
from tests.interop.test_restart import listen_again
from tests.interop.test_streams import KEYS, TIMES, send
from tests.support.broker import run_broker
from tests.support.waiting import WAIT_SECONDS, wait_until

PROGRAM = Path(__file__).parent / "clients" / "quix_program.py"
GIVEN, MADE = "given", "made"


@pytest.fixture
def quixstreams() -> str:
    """The Python that has it: it asks for an older confluent-kafka than ours."""
    python = Path(__file__).parents[2] / ".make" / "quixstreams" / "bin" / "python"
    if not python.exists():
        pytest.fail("quixstreams is not there; run scripts/interop-setup")
    return str(python)


@contextmanager
def counting(python: str, address: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The application runs with its local state in the folder, until the block ends."""
    command = [python, str(PROGRAM), address, GIVEN, MADE, str(folder / "state")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        application = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            yield application
            assert application.poll() is None, (folder / "log").read_text()[-2000:]
        finally:
            application.terminate()
            try:
                application.wait(WAIT_SECONDS)
            finally:
                application.kill()


def counts(site: Site) -> dict[bytes | None, int]:
    """The newest count of each key."""
    return {record.key: int(record.value or b"0") for record in stored(site, MADE)}


def test_a_counting_application_goes_on_after_a_restart_and_without_its_state(quixstreams: str, tmp_path: Path) -> None:
    """Its group's generation survives the restart, so that it ends with no error; its store comes from its changelog.

    It is at least once: what it had not committed when the server stopped counts twice.
    """

    def wait_for(site: Site, application: subprocess.Popen[bytes], times: int) -> None:
        def done() -> bool:
            found = counts(site)
            return len(found) == KEYS and min(found.values()) >= times

        wait_until(lambda: application.poll() is not None or done(), f"each key is counted {times} times")
        assert application.poll() is None, "the application has ended"

    with run_broker(tmp_path / "data") as broker:
        site = Site(broker, STREAM)
        site.make_topic(GIVEN, 4)
        site.make_topic(MADE)
        first = counting(quixstreams, site.of_stream, tmp_path / "one")
        application = first.__enter__()
        send(site, GIVEN)
        wait_for(site, application, TIMES)
    with run_broker(tmp_path / "data") as broker:
        listen_again(broker, site)
        send(site, GIVEN)
        wait_for(site, application, 2 * TIMES)
        first.__exit__(None, None, None)
        with counting(quixstreams, site.of_stream, tmp_path / "two") as application:
            send(site, GIVEN)
            wait_for(site, application, 3 * TIMES)
