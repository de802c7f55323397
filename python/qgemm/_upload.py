# SPDX-License-Identifier: Apache-2.0
"""Uploads without a connection: what is to be sent for a matrix, and its messages."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from qgemm import _wire, arrays, errors, formats, quantize
from qgemm._calls import Call
from qgemm.v1 import qgemm_pb2 as pb

Progress = Callable[[int, int], None]  # bytes sent, bytes in all


class Upload:
    """An upload's messages, as often as they are asked for."""

    def __init__(self, name: str, spec: formats.WeightSpec,
                 sections: Mapping[str, Any], progress: Optional[Progress],
                 create_only: bool, if_match: str, resumes: bool = False) -> None:
        """resumes: the first attempt goes on with a load of another process."""
        self.resumes = resumes
        self._sections = spec.checked(sections)
        self._progress = progress
        self._header = spec.header()
        self._header.name = name
        self._header.create_only = create_only
        self._header.if_match = if_match
        # Covers every byte, so that chunks need no checksums of their own.
        self._header.sha256 = spec.digest(self._sections)
        self.failure: Optional[BaseException] = None  # of `progress`

    def messages(self, resume: Optional[int] = None) -> Iterator[bytes]:
        """One attempt's messages; they run on one of gRPC's threads. resume: goes on
        behind that many bytes, which the server has of an attempt before."""
        try:
            yield from self._messages(resume)
        except Exception as error:
            self.failure = error
            raise

    def parse(self, answer: bytes) -> pb.LoadWeightsResponse:
        parsed: pb.LoadWeightsResponse = pb.LoadWeightsResponse.FromString(answer)
        return parsed

    def received(self) -> Call[int]:
        """Asks a server for the bytes that it has of this upload."""
        request = pb.QueryUploadRequest(id=self._header.sha256.hex())
        return Call("QueryUpload", request.SerializeToString(),
                    lambda answer: pb.QueryUploadResponse.FromString(
                        answer).committed_bytes)

    def _messages(self, resume: Optional[int]) -> Iterator[bytes]:
        header = pb.WeightsHeader()
        header.CopyFrom(self._header)
        if resume is not None:
            header.resume_bytes = resume
        yield pb.LoadWeightsRequest(header=header).SerializeToString()
        known, sent = resume or 0, 0
        for name, section in self._sections.items():
            offset = 0
            for piece in section.pieces(formats.PIECE_BYTES):
                skipped = min(max(known - sent, 0), len(piece))
                if skipped < len(piece):
                    yield _chunk(formats.SECTIONS[name], offset + skipped,
                                 piece[skipped:])
                offset += len(piece)
                sent += len(piece)
                if self._progress is not None:
                    self._progress(sent, self._header.total_bytes)


class Resumption:
    """Whether the next attempt at one server goes on where those before came to."""

    QUERY_SECONDS = 10.0

    def __init__(self, resumes: bool) -> None:
        self.resumes = resumes
        self._was_aborted = False

    def begins_anew(self, error: errors.Error) -> bool:
        """After an attempt that failed: True if another follows at once, from the
        first byte, as the server lost what it had or took it amiss."""
        is_aborted = error.code == "ABORTED" or (
            self.resumes and error.code == "DATA_LOSS")
        self.resumes = not is_aborted
        first = is_aborted and not self._was_aborted
        self._was_aborted = self._was_aborted or is_aborted
        return first

    def query_timeout(self, remaining: Optional[float]) -> float:
        if remaining is None:
            return self.QUERY_SECONDS
        return min(self.QUERY_SECONDS, remaining)

    def takes(self, error: errors.Error) -> None:
        """After a question that failed. Raises the error if the attempt failed with
        it, else the upload finds out what was wrong."""
        if error.code == "UNAVAILABLE":
            raise error


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
