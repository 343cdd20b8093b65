"""`fairlead status`: every known cluster in one line, then what is wrong, if anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from fairlead.cli.calls import address_book
from fairlead.cli.cluster import ask_info
from fairlead.cli.output import print_json, print_rows
from fairlead.client.address_book import KnownCluster
from fairlead.model.ages import age
from fairlead.model.errors import FairleadError
from fairlead.model.shown import few

COLUMNS = ("cluster", "state", "http", "kafka", "streams", "topics", "links", "connections", "replicator")


def status(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Show whether the known clusters run, and what is wrong with them or their links; exit code 1 if anything is."""
    book = address_book()
    book.default()
    rows = [_row(cluster) for cluster in book.clusters()]
    if as_json:
        print_json(rows)
    else:
        print_rows([{**row, "replicator": _replicator(row.get("replicator"))} for row in rows], COLUMNS)
        for row in rows:
            for why in (*row["why"], *row.get("expiryheld", ())):
                print(f"\n{row['cluster']}: {why}")
            for lines in _faults(row.get("failing", ())):
                print(f"\n{row['cluster']}: {lines}")
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
    return {**place, **found, "state": found["health"], "why": [*found["stopped"], *found["upkeep"]]}


def _replicator(now: Mapping[str, Any] | None) -> str:
    """What it does, for how long it lives or is down, and how often it was started again."""
    if now is None:
        return ""
    again = f", started again {now['startedagain']:,} times" if now["startedagain"] else ""
    return f"{now['state']} {age(now['seconds'])}{again}"


def _faults(failing: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each fault once: which links have it, for how long, and the command that mends it. A replicator that is down
    fails all of them."""
    by_fault: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for link in failing:
        by_fault.setdefault((link["error"], link["command"]), []).append(link)
    for (error, command), links in by_fault.items():
        named = few([f"{link['path']} to {link['replica']}" for link in links])
        what = "link" if len(links) == 1 else "links"
        since = age(max(int(link["seconds"]) for link in links))
        mend = f"\n  run: {command}" if command and command not in error else ""
        yield f"{what} {named} fail{'s' if len(links) == 1 else ''} for {since}: {error}{mend}"
