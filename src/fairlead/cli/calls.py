"""Calls of a cluster's admin interface for the command line: which cluster, its addresses, the answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fairlead.client.address_book import AddressBook, KnownCluster, default_file
from fairlead.client.admin import Envelope, ask
from fairlead.client.command import CLUSTERS, Command, Given
from fairlead.model.errors import InvalidValue
from fairlead.model.names import StreamPath


def address_book() -> AddressBook:
    """The user's `clusters.toml`."""
    return AddressBook(default_file(os.environ))


def chosen_cluster(name: str | None) -> KnownCluster:
    """The cluster of that name, else of FAIRLEAD_CLUSTER, else the first of the address book.

    Raises:
        InvalidValue: the name that was given is empty, as `--cluster "$SITE"` is where SITE is not set.
        UnknownCluster: it is not in the address book, or the book is empty.
    """
    if name == "":
        raise InvalidValue("the name of the cluster is empty; give one, or leave the option out")
    book = address_book()
    name = name or os.environ.get("FAIRLEAD_CLUSTER") or None
    return book.default() if name is None else book.find(name)


def call(command: Command, params: Mapping[str, Any], cluster: str | None = None) -> Envelope:
    """Call the cluster that the command's first stream is in.

    Raises:
        FairleadError: a value is wrong, a cluster is unknown or does not answer, or what the server answered.
    """
    given = command.parse(params)
    home = _home(command, given, cluster)
    others = _others(command, given, home)
    body = {**params, CLUSTERS: others} if others else dict(params)
    return ask(home.http, command.method, command.path, body)


def _home(command: Command, given: Given, cluster: str | None) -> KnownCluster:
    path = command.home_of(given)
    return chosen_cluster(cluster if path is None or path.cluster is None else path.cluster)


def _others(command: Command, given: Given, home: KnownCluster) -> dict[str, list[str]]:
    """Addresses of the other clusters that the call names and that may have to be called."""
    values = (given[param.name] for param in command.params if param.called)
    named = {value.cluster for value in values if isinstance(value, StreamPath)}
    book = address_book()
    return {name: list(book.find(name).http) for name in named if name is not None and name != home.name}
