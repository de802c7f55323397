# SPDX-License-Identifier: Apache-2.0
"""Uploads as any client can make them: chunks, CRC-32C, ids, spec texts.

Written from docs/formats.md and the proto alone, so that it disagrees with the
server where the documents do.
"""

import hashlib

from qgemm.v1 import qgemm_pb2 as pb

SECTION = {
    "codebook": pb.SECTION_CODEBOOK,
    "group_index": pb.SECTION_GROUP_INDEX,
    "bias": pb.SECTION_BIAS,
    "scales": pb.SECTION_SCALES,
    "zeros": pb.SECTION_ZEROS,
    "codes": pb.SECTION_CODES,
}


def _crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def canonical_text(fmt, n, k, bias, fields):
    """The header text of a weight's identity; fields in their fixed order."""
    lines = ["qgemm-weights-v1", f"format={fmt}", f"n={n}", f"k={k}",
             f"bias={int(bias)}"]
    lines += [f"{name}={value}" for name, value in fields]
    return "".join(line + "\n" for line in lines)


def weights_id(text, sections):
    """SHA-256 over the text and the section bytes in order."""
    digest = hashlib.sha256(text.encode())
    for _, data in sections:
        digest.update(data)
    return digest.digest()


def chunks(sections, chunk_bytes=64 << 10):
    """LoadWeightsRequests for (section name, bytes) pairs in order."""
    for name, data in sections:
        for offset in range(0, len(data), chunk_bytes):
            part = data[offset:offset + chunk_bytes]
            yield pb.LoadWeightsRequest(chunk=pb.WeightsChunk(
                section=SECTION[name], offset=offset, crc32c=crc32c(part),
                bytes=part))


def upload(stub, header, sections):
    """Sends a header and its sections; fills in the byte count."""
    header.total_bytes = sum(len(data) for _, data in sections)

    def requests():
        yield pb.LoadWeightsRequest(header=header)
        yield from chunks(sections)

    return stub.LoadWeights(requests(), timeout=60)
