"""`fairlead status`: every known cluster in one line, then what is wrong, if anything."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fairlead.cli.calls import address_book
from fairlead.cli.cluster import ask_info
from fairlead.cli.output import print_json, print_rows
from fairlead.client.address_book import KnownCluster
from fairlead.model.errors import FairleadError

COLUMNS = ("cluster", "state", "http", "kafka", "streams", "topics", "links", "connections")


def status(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Show whether the known clusters run, and how they are; exit code 1 if one does not."""
    book = address_book()
    book.default()
    rows = [_row(cluster) for cluster in book.clusters()]
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, COLUMNS)
        for row in rows:
            for why in row["why"]:
                print(f"\n{row['cluster']}: {why}")
    if any(row["state"] != "ok" for row in rows):
        raise typer.Exit(1)


def _row(cluster: KnownCluster) -> dict[str, Any]:
    place = {"cluster": cluster.name, "http": list(cluster.http), "kafka": list(cluster.kafka)}
    try:
        found = ask_info(cluster)
    except FairleadError as error:
        return {**place, "state": "down", "why": [str(error)]}
    if found["name"] != cluster.name:
        return {**place, "state": "wrong", "why": [f"the cluster at {cluster.http[0]} is called {found['name']}"]}
    return {**place, **found, "state": "stopped" if found["stopped"] else "ok", "why": found["stopped"]}
