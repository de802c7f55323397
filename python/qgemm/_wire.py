# SPDX-License-Identifier: Apache-2.0
"""The bytes of messages that carry operands, made and read around the operand.

Protobuf's classes copy a bytes field when it is set, serialized, parsed and read;
here it is copied once, into the message, and read where it lies.
"""

from __future__ import annotations

from typing import Sequence, Union

Buffer = Union[bytes, memoryview]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
OPERAND = 15  # the field that every operand is
_OPERAND_TAG = bytes([OPERAND << 3 | _BYTES])


def varint(value: int) -> bytes:
    """A number, 0 or more, in 7 bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def opening(field: int, size: int) -> bytes:
    """All of a bytes or message field but its `size` bytes."""
    return varint(field << 3 | _BYTES) + varint(size)


def with_operand(head: bytes, parts: Sequence[Buffer]) -> bytes:
    """A serialized message and its operand, which is the parts one after another."""
    size = sum(map(len, parts))
    return b"".join((head, _OPERAND_TAG, varint(size), *parts))


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    value = shift = 0
    for at in range(at, min(at + 10, len(data))):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise ValueError("the message ends inside a number")


def fields(data: Buffer) -> list[tuple[int, int, int, int]]:
    """Each field's number, and where it, its value and the field after it begin.

    ValueError: the message is broken."""
    found = []
    at, size = 0, len(data)
    while at < size:
        begin = at
        tag, at = read_varint(data, at)
        kind = tag & 7
        value = at
        if kind == _VARINT:
            _, at = read_varint(data, at)
        elif kind == _BYTES:
            count, value = read_varint(data, at)
            at = value + count
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"the message has a field of wire type {kind}")
        if at > size:
            raise ValueError("the message ends inside a field")
        found.append((tag >> 3, begin, value, at))
    return found


def bytes_fields(data: Buffer, number: int) -> list[bytes]:
    """The values of a bytes or message field, each time that it is there."""
    return [bytes(data[value:end]) for field, _, value, end in fields(data)
            if field == number]


def split_operand(message: bytes) -> tuple[bytes, memoryview]:
    """A message without its operand, and the operand, a view of the message."""
    rest, view = b"", memoryview(message)
    operand = view[:0]
    for number, begin, value, end in fields(message):
        if number == OPERAND:
            operand = view[value:end]
        else:
            rest += view[begin:end]
    return rest, operand
