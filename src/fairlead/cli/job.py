"""`fairlead job …`: commands that touch many topics, while a cluster carries them out."""

from __future__ import annotations

import typer

from fairlead.cli.generate import add_noun
from fairlead.cli.transfer import show

app = typer.Typer(no_args_is_help=True, help="Commands that touch many topics, while the cluster carries them out.")
add_noun(app, ("job",), {"show": show})
