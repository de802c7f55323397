# SPDX-License-Identifier: Apache-2.0
"""Uploads without a connection: what is to be sent for a matrix, and its messages."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from qgemm import _wire, arrays, formats, quantize
from qgemm.v1 import qgemm_pb2 as pb

Progress = Callable[[int, int], None]  # bytes sent, bytes in all


class Upload:
    """An upload's messages, as often as they are asked for."""

    def __init__(self, name: str, spec: formats.WeightSpec,
                 sections: Mapping[str, Any], progress: Optional[Progress],
                 create_only: bool, if_match: str) -> None:
        self._sections = spec.checked(sections)
        self._progress = progress
        self._header = spec.header()
        self._header.name = name
        self._header.create_only = create_only
        self._header.if_match = if_match
        # Covers every byte, so that chunks need no checksums of their own.
        self._header.sha256 = spec.digest(self._sections)
        self.failure: Optional[BaseException] = None  # of `progress`

    def messages(self) -> Iterator[bytes]:
        """One attempt's messages; they run on one of gRPC's threads."""
        try:
            yield from self._messages()
        except Exception as error:
            self.failure = error
            raise

    def parse(self, answer: bytes) -> pb.LoadWeightsResponse:
        parsed: pb.LoadWeightsResponse = pb.LoadWeightsResponse.FromString(answer)
        return parsed

    def _messages(self) -> Iterator[bytes]:
        yield pb.LoadWeightsRequest(header=self._header).SerializeToString()
        sent = 0
        for name, section in self._sections.items():
            offset = 0
            for piece in section.pieces(formats.PIECE_BYTES):
                yield _chunk(formats.SECTIONS[name], offset, piece)
                offset += len(piece)
                sent += len(piece)
                if self._progress is not None:
                    self._progress(sent, self._header.total_bytes)


def _chunk(section: pb.Section, offset: int, data: memoryview) -> bytes:
    """LoadWeightsRequest.chunk (2), a WeightsChunk, whose field 4 is `data`."""
    head = (pb.WeightsChunk(section=section, offset=offset).SerializeToString() +
            _wire.opening(4, len(data)))
    return b"".join((_wire.opening(2, len(head) + len(data)), head, data))


def layer(w: Any, bias: Any, format: Union[str, formats.Format],
          where: str) -> tuple[formats.WeightSpec, dict[str, Any]]:
    """Spec and sections of a matrix of floats [n, k], in a format."""
    operand = arrays.as_operand(w)
    if len(operand.shape) != 2:
        raise ValueError(f"w is {list(operand.shape)}; expected [n, k]")
    if where not in ("server", "client"):
        raise ValueError(f"where = {where!r}; expected 'server' or 'client'")
    wanted = formats.parse(format)
    sections: dict[str, Any] = {}
    if isinstance(wanted, formats.Dense):
        sent = operand.as_type(wanted.type or operand.type)
        made: formats.Format = dataclasses.replace(wanted, type=sent.type)
        sections["codes"] = sent.view
    elif where == "server":
        made = formats.Dense(operand.type, to=wanted)
        sections["codes"] = operand.view
    else:
        made, sections = quantize.quantize(operand, wanted)
    n, k = operand.shape
    if bias is not None:
        values = arrays.as_operand(bias).as_type("fp32")
        if values.shape != (n,):
            raise ValueError(f"bias is {list(values.shape)}; expected [{n}]")
        sections["bias"] = values.view
    return formats.WeightSpec(n, k, made, bias is not None), sections
