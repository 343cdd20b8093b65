"""`fairlead stream …`: streams, and below them topics, cursors, replicas and upstreams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import typer

from fairlead.cli.generate import add_noun
from fairlead.cli.jobs.claim import claim
from fairlead.cli.jobs.recover import recover
from fairlead.cli.jobs.takeover import takeover
from fairlead.cli.jobs.transfer import transfer
from fairlead.cli.two_clusters.autosetup import autosetup
from fairlead.cli.two_clusters.steps import create

app = typer.Typer(no_args_is_help=True, help="Streams: groups of topics that share their settings and replicas.")


def _group(name: str, what: str, own: Mapping[str, Callable[..., None]] = MappingProxyType({})) -> None:
    group = typer.Typer(no_args_is_help=True, help=what)
    add_noun(group, ("stream", name), own)
    app.add_typer(group, name=name)


add_noun(app, ("stream",), {"create": create, "recover": recover})
_group("topic", "Topics of a stream.", {"transfer": transfer, "takeover": takeover, "claim": claim})
_group("assign", "Which consumers have which partitions (not built yet).")
_group("cursor", "Committed offsets of consumer groups.")
_group("failover", "Consumer groups that go on at another site.")
_group("replica", "Replicas of a stream: where its records are sent.", {"autosetup": autosetup})
_group("upstream", "Upstreams of a replica: from where it accepts records.")
