"""`fairlead cluster …`: the address book of this user, and what a cluster says of itself."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fairlead.cli.calls import address_book, call, chosen_cluster
from fairlead.cli.generate import confirm
from fairlead.cli.output import print_json, print_rows
from fairlead.client.address_book import KnownCluster
from fairlead.client.admin import ask, check_url
from fairlead.client.catalog import BY_PATH
from fairlead.model.addresses import parse_address
from fairlead.model.errors import InvalidValue, Unreachable
from fairlead.model.names import check_cluster_name

app = typer.Typer(no_args_is_help=True, help="The clusters that this command line knows.")
_INFO = BY_PATH["/rest/cluster/info"]

NameOption = Annotated[str, typer.Option("--name", help="name of the cluster")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]


@app.command("add")
def add(
    http: Annotated[str, typer.Option("--http", help="its HTTP addresses, http://HOST:PORT, with commas between")],
    name: Annotated[str | None, typer.Option("--name", help="its name (default: it is asked)")] = None,
    kafka: Annotated[str | None, typer.Option("--kafka", help="its Kafka addresses (default: it is asked)")] = None,
) -> None:
    """Enter a cluster in the address book."""
    urls = tuple(check_url(url) for url in _split(http))
    if not urls:
        raise InvalidValue(f"-http {http!r}: give the address of the cluster, http://HOST:PORT")
    addresses = tuple(str(parse_address(each, "-kafka")) for each in _split(kafka or ""))
    if name is None or not addresses:
        name, addresses = _ask(KnownCluster(name or "?", urls, addresses), name)
    address_book().put(KnownCluster(check_cluster_name(name), urls, addresses))
    print(f"cluster {name} is known at {', '.join(urls)}")


def _ask(cluster: KnownCluster, name: str | None) -> tuple[str, tuple[str, ...]]:
    """Let the cluster say what was not given; one that does not answer can be entered by its name alone."""
    try:
        row = ask_info(cluster)
    except Unreachable:
        if name is None:
            raise
        return name, cluster.kafka
    if name not in {None, row["name"]}:
        raise InvalidValue(f"-name {name}: the cluster at {cluster.http[0]} is called {row['name']}")
    told = tuple(str(parse_address(text, f"Kafka address of {row['name']}")) for text in row["kafka"])
    return row["name"], cluster.kafka or told


@app.command("list")
def list_clusters(as_json: JsonOption = False) -> None:
    """List the known clusters; the first is meant by a path without a cluster."""
    clusters = address_book().clusters()
    rows = [
        {"cluster": known.name, "http": list(known.http), "kafka": list(known.kafka), "default": number == 0}
        for number, known in enumerate(clusters)
    ]
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, ("cluster", "http", "kafka", "default"))


@app.command("info")
def info(
    name: Annotated[str | None, typer.Option("--name", help="name of the cluster (default: the first)")] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a cluster for its name, version, addresses, streams and links."""
    answer = call(_INFO, {}, name)
    if as_json:
        print_json(answer.envelope)
    else:
        print_rows(answer.data, ())


@app.command("remove")
def remove(name: NameOption, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Forget a cluster; the cluster itself is not touched."""
    chosen_cluster(name)
    confirm(f"Forget the cluster {name}?", yes)
    address_book().remove(name)


def ask_info(cluster: KnownCluster) -> dict[str, Any]:
    """A row of `cluster info`, from a cluster that need not be in the book.

    Raises:
        InvalidValue: what answers there is no server of Fairlead. FairleadError: as `ask`.
    """
    row = ask(cluster.http, _INFO.method, _INFO.path).first
    name, kafka = row.get("name"), row.get("kafka")
    if isinstance(name, str) and isinstance(kafka, list) and all(isinstance(text, str) for text in kafka):
        return row
    raise InvalidValue(
        f"{', '.join(cluster.http)} is not a Fairlead server: it says neither its name nor its addresses"
    )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
