"""`clusters.toml`: which clusters a user knows and where they are. Nothing but the address book of the command line.

    [clusters.sanfrancisco]
    http = ["http://127.0.0.1:7660"]
    kafka = ["127.0.0.1:9092"]

The first cluster is the one meant by a path without a cluster, as in the original's `mapr-clusters.conf`.
The file lies in the user's configuration folder (`~/.config/fairlead/clusters.toml`), or where `FAIRLEAD_CLUSTERS`
says.
"""

from __future__ import annotations

import fcntl
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.client.admin import check_form
from fairlead.model.errors import BadRequest, InvalidValue, NotFound, UnknownCluster
from fairlead.model.names import check_cluster_name


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """One cluster of the address book."""

    name: str
    http: tuple[str, ...]
    """Addresses of its HTTP listeners, `http://HOST:PORT`."""
    kafka: tuple[str, ...] = ()
    """Addresses of its Kafka listeners, `HOST:PORT`; empty if not known."""


class AddressBook:
    """The file, read anew at each call, so that two commands see each other's changes."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def clusters(self) -> list[KnownCluster]:
        """All clusters, in the order in which they were added.

        Raises:
            InvalidValue: the file cannot be understood; the message names it.
        """
        return list(self._read().values())

    def find(self, name: str) -> KnownCluster:
        """The cluster of that name.

        Raises:
            UnknownCluster: there is none; the message says which there are.
        """
        known = self._read()
        if name not in known:
            raise UnknownCluster(
                f"cluster {name} is not in {self.file}, which knows {', '.join(known) or 'none'}; "
                f"enter it with `fairlead cluster add -name {name} -http http://HOST:PORT`"
            )
        return known[name]

    def default(self) -> KnownCluster:
        """The cluster meant by a path that names none: the first.

        Raises:
            UnknownCluster: the book is empty.
        """
        clusters = self.clusters()
        if not clusters:
            raise UnknownCluster(
                f"no cluster is known in {self.file}; start one with `fairlead up --name NAME --data DIR`, "
                "or enter one with `fairlead cluster add -name NAME -http http://HOST:PORT`"
            )
        return clusters[0]

    def put(self, cluster: KnownCluster) -> None:
        """Enter a cluster, in the place of one of the same name or at the end."""
        with self._changing() as known:
            known[cluster.name] = cluster

    def remove(self, name: str) -> None:
        """Forget a cluster.

        Raises:
            NotFound: it is not in the book.
        """
        with self._changing() as known:
            if known.pop(name, None) is None:
                raise NotFound(f"cluster {name} is not in {self.file}")

    def take_back(self, cluster: KnownCluster) -> None:
        """Forget a cluster that was entered for a time, unless another entry of its name has come since."""
        with self._changing() as known:
            if known.get(cluster.name) == cluster:
                del known[cluster.name]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, KnownCluster]]:
        """Read, change and write under a lock; other readers see the old file or the new one. Where the file is a link,
        that stays, and what it leads to is changed."""
        file = Path(os.path.realpath(self.file))
        try:
            if file.exists() and not file.is_file():
                raise InvalidValue(f"{self.file} is no file; the address book of clusters cannot be kept there")
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.with_name(f"{file.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self._read()
                yield known
                fresh = file.with_name(f"{file.name}.new")
                fresh.write_text(_written(known.values()), "utf-8")
                os.replace(fresh, file)
        except OSError as error:
            raise InvalidValue(f"{self.file}: {error.strerror}") from error

    def _read(self) -> dict[str, KnownCluster]:
        try:
            content = tomllib.loads(self.file.read_text("utf-8"))
            return {name: _parsed(name, entry) for name, entry in content.get("clusters", {}).items()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InvalidValue(f"{self.file}: {error.strerror}") from error
        except BadRequest as error:
            raise InvalidValue(f"{self.file}: {error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError, KeyError, AttributeError) as error:
            raise InvalidValue(f"{self.file} is not an address book of clusters: {error}") from error


def default_file(variables: Mapping[str, str]) -> Path:
    """Where the address book is: `FAIRLEAD_CLUSTERS`, else in the user's configuration folder.

    Raises:
        InvalidValue: neither is said, and the user has no home.
    """
    named = variables.get("FAIRLEAD_CLUSTERS")
    if named:
        return Path(named)
    folder = variables.get("XDG_CONFIG_HOME")
    try:
        return (Path(folder) if folder else Path.home() / ".config") / "fairlead" / "clusters.toml"
    except RuntimeError as error:
        raise InvalidValue(
            "this user has no home directory for the address book of clusters; set FAIRLEAD_CLUSTERS to a file"
        ) from error


def _parsed(name: str, entry: Mapping[str, Any]) -> KnownCluster:
    """What no host can be called is found out when that cluster is asked, and keeps nobody from the others."""
    addresses = tuple(check_form(url) for url in _texts(entry["http"]))
    return KnownCluster(check_cluster_name(name), addresses, tuple(_texts(entry.get("kafka", []))))


def _texts(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{value!r} is not a list of addresses")
    return value


def _written(clusters: Iterable[KnownCluster]) -> str:
    head = "# The clusters that `fairlead` knows; the first is meant by a path without a cluster.\n"
    return head + "".join(map(_section, clusters))


def _section(cluster: KnownCluster) -> str:
    http, kafka = _toml(list(cluster.http)), _toml(list(cluster.kafka))
    return f"\n[clusters.{_toml(cluster.name)}]\nhttp = {http}\nkafka = {kafka}\n"


def _toml(value: str | list[str]) -> str:
    """A JSON string and a JSON list of strings are TOML ones too, but that TOML knows no pairs of surrogates, and wants
    DEL written as an escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
