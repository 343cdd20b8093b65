"""What is wrong with the packs of a directory, for `fairlead fsck`. Nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fairlead.model.errors import Damaged
from fairlead.storage import files
from fairlead.storage.pack_file import FIRST, NOWHERE
from fairlead.storage.pack_index import Pack, PackIndex
from fairlead.storage.pack_register import Entry, PackRegister
from fairlead.storage.packs import check_unregistered, missing, read_whole


def check(index: PackIndex, register: PackRegister) -> Iterator[Damaged]:
    """Every pack that is missing or not as it was written, and the register.

    `index` knows no pack yet, and then what a server would find in those that are whole; the others it has not looked
    through.

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
        pack = index.pack(name)
        if name in entry.removed:
            pack.gone = True
            continue
        try:
            _check(index, pack, entry)
        except Damaged as error:
            pack.end, pack.last = FIRST, NOWHERE
            yield error
    for name in sorted(entry.packs.keys() - set(there)):
        if name in register.read().packs:
            yield missing(name)


def _check(index: PackIndex, pack: Pack, entry: Entry) -> None:
    descriptor = os.open(pack.path, os.O_RDONLY)
    try:
        if entry.packs.get(pack.name) is None:
            if not files.lock(descriptor):
                return  # a server appends to it just now
            files.unlock(descriptor)  # a server that starts meanwhile must not take us for its maker
        if pack.name in entry.packs:
            index.note(read_whole(index, pack, descriptor, entry.packs[pack.name]))
        else:
            check_unregistered(pack, descriptor)
    finally:
        os.close(descriptor)
