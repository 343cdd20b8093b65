"""The reader and the sink of the replicator in a process of their own, without Spark: what carries a site's links where
a test kills whole sites and has no half a minute for two virtual machines.

    python -m tests.support.carrier --server URL --data DIR
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks.plain_copier import carry

from fairlead.process.control_secret import FILE
from tests.support.sites import Site

ROOT = Path(__file__).parents[2]


class Carrier:
    """Carries the links whose source is at a site, until it is killed or the block ends."""

    def __init__(self, site: Site) -> None:
        command = [sys.executable, "-m", __name__, "--server", site.url, "--data", str(site.data)]
        with site.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """`kill -9`; nothing if it has ended."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Carrier:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


class CarriedSite(Site):
    """A site without Spark: one of these carries its links, and is killed in the replicator's place."""

    def start(self, command: str = "server") -> None:
        """Its commands know it then, as those of `fairlead up` do."""
        super().start(command)
        self._carrier = Carrier(self)
        self.cli("cluster", "add", "-http", self.url)

    @property
    def carrier_pid(self) -> int:
        return self._carrier.pid

    def kill(self) -> None:
        self._carrier.kill()
        super().kill()

    def stop(self) -> None:
        if self._process is not None:
            self._carrier.kill()
        super().stop()

    def kill_replicator(self) -> None:
        """Another one goes on."""
        self._carrier.kill()
        self._carrier = Carrier(self)


def main() -> None:
    """Until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--data", type=Path, required=True)
    chosen = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(carry(chosen.server, str(chosen.data / FILE), "carrier"))


if __name__ == "__main__":
    main()
