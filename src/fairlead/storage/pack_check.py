"""What is wrong with the packs of a directory, for `fairlead fsck`. Nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fairlead.model.errors import Damaged
from fairlead.storage import files
from fairlead.storage.pack_index import PackIndex
from fairlead.storage.pack_register import Entry, PackRegister
from fairlead.storage.packs import check_unregistered, missing, read_whole


def check(index: PackIndex, register: PackRegister) -> Iterator[Damaged]:
    """Every pack that is missing or not as it was written, and the register. `index` knows no pack yet.

    Raises:
        OSError
    """
    try:
        entry = register.read()
    except Damaged as error:
        yield error
        return
    there = index.names()
    for name in there:
        if name not in entry.removed:
            try:
                _check(index, name, entry)
            except Damaged as error:
                yield error
    for name in sorted(entry.packs.keys() - set(there)):
        if name in register.read().packs:
            yield missing(name)


def _check(index: PackIndex, name: str, entry: Entry) -> None:
    pack = index.pack(name)
    descriptor = os.open(pack.path, os.O_RDONLY)
    try:
        if not files.lock(descriptor):
            return  # a server appends to it just now
        files.unlock(descriptor)  # a server that starts meanwhile must not take us for its maker
        if name in entry.packs:
            read_whole(index, pack, descriptor, entry.packs[name])
        else:
            check_unregistered(pack, descriptor)
    finally:
        os.close(descriptor)
