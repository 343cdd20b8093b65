"""What the compiled loops over records have in common: bytes at an address, varints, and how numba compiles.

A loop is handed addresses of memory that its caller keeps alive. Records lie in many buffers (one for each compressed
batch), and numba counts references at every use of an array, which costs ten times as much as reading a varint. No byte
is read at or beyond the `end` that is handed down.

Compiled code is kept beside its file or in the user's cache folder; if neither can be written (a read-only installation
without a home), each process compiles it again, which takes seconds. numba looks at the time and size of the file of
the function that it compiled, not of what that one calls: after a change here, remove `__pycache__` of the rooms with
loops.
"""

# numba says of its decorators' results neither what they take nor what they give
# mypy: disable-error-code="no-untyped-call, call-arg, var-annotated, import-untyped, untyped-decorator, return-value"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


def compiled(signature: Any, **options: Any) -> Callable[[Any], Any]:
    """Compile a function when it is defined; with a cache for the processes to come, where numba can write one."""

    def compile_now(function: Any) -> Any:
        try:
            return njit(signature, cache=True, nogil=True, **options)(function)
        except RuntimeError:  # numba: "cannot cache function: no locator available", nothing is writable
            return njit(signature, nogil=True, **options)(function)

    return compile_now


@intrinsic
def byte_at(typing_context: Any, address: Any) -> Any:
    """The byte at an address, as uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.uint64(types.int64), generate


@intrinsic
def copy(typing_context: Any, to: Any, source: Any, length: Any) -> Any:
    """memcpy between addresses: making slices would cost as much as copying a hundred bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to_pointer, source_pointer = (builder.inttoptr(argument, pointer) for argument in arguments[:2])
        cgutils.raw_memcpy(builder, to_pointer, source_pointer, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@njit(inline="always")
def varint(position: Any, end: Any) -> Any:
    """A zigzag varint and the position after it; the position is -1 if the varint is cut or longer than 64 bits."""
    if position >= end:
        return 0, -1
    byte = byte_at(position)
    position += 1
    value = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte >= np.uint64(0x80):
        if position >= end or shift > np.uint64(63):
            return 0, -1
        byte = byte_at(position)
        position += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return 0, -1
        value |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position


@njit(inline="always")
def field(position: Any, end: Any) -> Any:
    """Length (-1 for null) and position of a field's bytes; the position is -1 if they do not fit before `end`."""
    length, position = varint(position, end)
    if position < 0:
        return 0, -1
    if length < 0:
        return -1, position
    if length > end - position:
        return 0, -1
    return length, position


@compiled(types.UniTuple(types.int64, 3)(types.int64, types.int64, types.int64))
def skip_headers(position: Any, end: Any, count: Any) -> Any:
    """Bytes of the headers' keys and of their values; -1 if the headers do not end at `end`."""
    key_bytes = value_bytes = np.int64(0)
    for _ in range(count):
        length, position = field(position, end)
        if position < 0:
            return -1, -1, -1
        key_bytes += max(length, 0)
        position += max(length, 0)
        length, position = field(position, end)
        if position < 0:
            return -1, -1, -1
        value_bytes += max(length, 0)
        position += max(length, 0)
    if position != end:
        return -1, -1, -1
    return key_bytes, value_bytes, position


@intrinsic
def put_byte(typing_context: Any, address: Any, value: Any) -> Any:
    """Write the lowest byte of a uint64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), pointer)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@njit(inline="always")
def varint_bytes(value: Any) -> Any:
    """How many bytes `put_varint` writes."""
    rest = np.uint64((value << 1) ^ (value >> 63)) >> np.uint64(7)
    count = np.int64(1)
    while rest != np.uint64(0):
        rest >>= np.uint64(7)
        count += 1
    return count


@njit(inline="always")
def put_varint(position: Any, value: Any) -> Any:
    """Write a zigzag varint, and give the position after it."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        put_byte(position, rest | np.uint64(0x80))
        position += 1
        rest >>= np.uint64(7)
    put_byte(position, rest)
    return position + 1
