"""`make demo-shipping`: ducks go from Tokyo to Singapore, Sydney and London; ports, headquarters and others watch.

    python -m examples.shipping.demo [--chart .make/shipping.png | --no-chart] [--keep]

Nine clusters: five offices of Big Blue, a manufacturer's, a port authority's, and one on each of two ships. Every line
of the last table is a claim with what was measured. The exit code is 0 only if all of them hold. Everything that was
started is stopped, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from examples.shipping.acts import reckoning, singapore, sydney, tokyo
from examples.shipping.play import Play
from examples.shipping.routes import PORTS
from examples.ships.sites import SiteFailed, Sites
from examples.ships.stage import add_chart_options, chart_file, run, table
from pyspark.errors import PySparkException
from rich.console import Console

ROOT = Path(__file__).parents[2]
ACTS = (tokyo, singapore, sydney, reckoning)


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description="Containers of ducks, from port to port.")
    add_chart_options(parser, ROOT / ".make" / "shipping.png")
    parser.add_argument("--acts", type=int, default=len(ACTS), help="end after so many acts")
    parser.add_argument("--keep", action="store_true", help="keep data and logs")
    options = parser.parse_args()
    options.chart = chart_file(parser, options)
    os.environ.setdefault("FAIRLEAD_REPLICATOR_WORKERS", "1")  # each replicator has little to carry
    return run("fairlead-shipping-", lambda sites, console: _play(sites, console, options), _verdict, keep=options.keep)


def _verdict(play: Play) -> str | None:
    took = f"{play.stage.seconds:.0f} s"
    return f"{len(play.stage.claims)} claims hold; {took}" if play.stage.good else None


def _play(sites: Sites, console: Console, options: argparse.Namespace) -> Play:
    play = Play(sites, console)
    try:
        play.begin()
        for act in ACTS[: options.acts]:
            act.play_it(play)
    except PySparkException as error:
        raise SiteFailed(f"Spark: {error}") from error
    finally:
        play.end()
    console.print(table("containers of ducks", play.stage.claims))
    if options.acts == len(ACTS) and play.stage.good and options.chart is not None:
        from examples.shipping.picture import Seen, draw  # needs matplotlib, and nothing else here does

        seen = Seen(play.tracks, len(play.alerted), PORTS[sydney.PORT], play.watch.course)
        draw(seen, options.chart)
        console.print(f"picture: {options.chart}", highlight=False, soft_wrap=True)
    return play


if __name__ == "__main__":
    sys.exit(main())
