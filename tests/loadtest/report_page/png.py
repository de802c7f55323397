# SPDX-License-Identifier: Apache-2.0
"""Reads the PNG files that browsers write: 8 bits a channel, RGB or RGBA, not
interlaced.
"""

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {2: 3, 6: 4}  # by colour type


def chunks(data):
    """Yields kind and content; checks the signature and each checksum."""
    if not data.startswith(SIGNATURE):
        raise ValueError("no PNG signature")
    at = len(SIGNATURE)
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if checksum != zlib.crc32(kind + body):
            raise ValueError(f"checksum of {kind}")
        yield kind, body
        at += 12 + length


def paeth(left, above, corner):
    """The neighbour nearest to left + above - corner (PNG, section 9.4)."""
    guess = left + above - corner
    distances = (abs(guess - left), abs(guess - above), abs(guess - corner))
    return (left, above, corner)[distances.index(min(distances))]


def unfilter(kind, row, above, step):
    """One row of bytes without its filter."""
    if kind == 0:
        return row
    if kind == 2:
        return row + above
    out = [0] * step + [int(v) for v in row]
    up = [0] * step + [int(v) for v in above]
    for i in range(step, len(out)):
        left, over, corner = out[i - step], up[i], up[i - step]
        guess = (left if kind == 1 else (left + over) // 2 if kind == 3 else
                 paeth(left, over, corner))
        out[i] = (out[i] + guess) & 255
    return np.array(out[step:], np.uint8)


def decode(data):
    """The picture as an array [height, width, channels] of bytes."""
    parts = list(chunks(data))
    header = dict(parts)[b"IHDR"]
    width, height, bits, colour, _, _, interlace = struct.unpack(
        ">IIBBBBB", header)
    if bits != 8 or colour not in CHANNELS or interlace:
        raise ValueError(f"unexpected PNG: {bits} bits, colour type {colour}")
    step = CHANNELS[colour]
    packed = b"".join(body for kind, body in parts if kind == b"IDAT")
    rows = np.frombuffer(zlib.decompress(packed), np.uint8)
    rows = rows.reshape(height, 1 + step * width)
    out = np.zeros((height, step * width), np.uint8)
    above = np.zeros(step * width, np.uint8)
    for y in range(height):
        above = out[y] = unfilter(rows[y, 0], rows[y, 1:], above, step)
    return out.reshape(height, width, step)
