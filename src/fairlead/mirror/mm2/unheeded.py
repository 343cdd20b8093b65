"""Keys of MirrorMaker 2's file that are not heeded: those that have no meaning here are told, what cannot be done is
refused."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.kafka.configuration.entries import Entries
from fairlead.mirror.mm2 import keys
from fairlead.mirror.mm2.file import Mm2File


def refuse_impossible(entries: Entries) -> None:
    """Raises: InvalidValue: a flow asks for what would change what is mirrored, and is not done here."""
    for key, instead in keys.REFUSED.items():
        if entries.text(key) is not None:
            raise entries.wrong(key, instead)
    for key, (only, instead) in keys.CLASSES.items():
        named = entries.text(key, only)
        if named != only:
            raise entries.wrong(key, f"is {named}, a class of Java, which cannot be run here: {instead}")


def unheeded(file: Mm2File) -> Iterator[str]:
    """A warning for each key that has no effect."""
    where = str(file.path)
    for key in file.of_all():
        yield from _of_flow(where, key)
    for alias in file.aliases:
        for key in file.of_cluster(alias):
            yield from _of_cluster(f"{where}, {alias}", key)
    for pair in file.pairs():
        own = file.of_pair(pair).keys() - file.of_all().keys()
        for key in sorted(own):
            yield from _of_flow(f"{where}, {pair}", key)


def _of_flow(where: str, key: str) -> Iterator[str]:
    if key.startswith(keys.CLIENTS):
        yield from _admin(where, key)
    elif key in keys.NOT_YET:
        yield f"{where}: {key} is not done here yet"
    elif key in keys.IDLE:
        yield f"{where}: {key} has no effect here: {keys.IDLE[key]}"
    elif _is_of_workers(key):
        yield f"{where}: {key} has no effect here: there are no Connect workers"
    elif not _is_heeded(key):
        yield f"{where}: {key} is nothing that MirrorMaker 2 knows; is it misspelt?"


def _of_cluster(where: str, key: str) -> Iterator[str]:
    if key.startswith(keys.CLIENTS):
        yield from _admin(where, key)
    elif key in keys.NOT_YET:
        yield f"{where}: {key} is not done here yet"
    elif not key.startswith(keys.OF_CONNECTIONS) and key != keys.EXACTLY_ONCE:
        known = _is_of_workers(key) or key in keys.IDLE
        why = (
            "there are no Connect workers" if known else "it counts for none of the cluster's clients; is it misspelt?"
        )
        yield f"{where}: {key} has no effect here: {why}"


def _admin(where: str, key: str) -> Iterator[str]:
    if key.startswith("admin."):
        yield f"{where}: {key} has no effect here: topics are made as the producer connects"


def _is_of_workers(key: str) -> bool:
    return key.startswith(keys.OF_WORKERS)


def _is_heeded(key: str) -> bool:
    of_client = key.startswith((*keys.OF_CONNECTIONS, "source.", "target."))
    refused = any(key == each or key.startswith(f"{each}.") for each in keys.REFUSED)
    return of_client or key in keys.READ or key in keys.CLASSES or refused
