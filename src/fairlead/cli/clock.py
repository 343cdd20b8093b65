"""`fairlead clock …`: whether a cluster believes its clock."""

from __future__ import annotations

import typer

from fairlead.cli.generate import add_noun

app = typer.Typer(no_args_is_help=True, help="The clock of a cluster, by which records expire.")
add_noun(app, ("clock",))
