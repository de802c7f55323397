# SPDX-License-Identifier: Apache-2.0
"""Errors of calls: the server's code, its message, the field and what to do."""

from __future__ import annotations

import re
from typing import Any, Optional

import grpc

from qgemm import _wire

_DETAILS_KEY = "grpc-status-details-bin"
_RETRY_INFO = b"type.googleapis.com/google.rpc.RetryInfo"
# Errors name the field first: "m = 0 ...", "a has 12 bytes; ...".
_FIELD = re.compile(r"([a-z]\w*(?:\.\w+|\[\d+\])*) (?:=|has|is) ")


class Error(Exception):
    """A call that failed.

    code         the gRPC code's name, such as "NOT_FOUND"
    message      the server's words
    field        the field of the request that they begin with, or None
    retry_after  seconds after which the server says the same may succeed, or None
    advice       what to do about an error of this code
    """

    code = "UNKNOWN"
    advice = "Look into the server's log."

    def __init__(self, message: str, *, code: str = "",
                 retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        match = _FIELD.match(message)
        self.field = match[1] if match else None
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message} ({self.advice})"


class InvalidArgument(Error, ValueError):
    code = "INVALID_ARGUMENT"
    advice = "The request is wrong as it stands: change what the message names."


class NotFound(Error):
    code = "NOT_FOUND"
    advice = "Load it first; client.weights() and client.programs() list what is there."


class AlreadyExists(Error):
    code = "ALREADY_EXISTS"
    advice = "Take another name, unload this one, or drop create_only."


class FailedPrecondition(Error):
    code = "FAILED_PRECONDITION"
    advice = "The name is bound to something else by now: look, then decide."


class PermissionDenied(Error):
    code = "PERMISSION_DENIED"
    advice = "Ask the server's administrator for the right (docs/access.md)."


class Unauthenticated(Error):
    code = "UNAUTHENTICATED"
    advice = "Connect with a token or a certificate that the server knows."


class ResourceExhausted(Error):
    code = "RESOURCE_EXHAUSTED"
    advice = ("Try later if retry_after is set; else unload weights, raise the limit "
              "that the message names, or send large operands by client.stream().")


class Aborted(Error):
    code = "ABORTED"
    advice = "Upload again."


class DataLoss(Error):
    code = "DATA_LOSS"
    advice = "The bytes changed on their way: upload again."


class DeadlineExceeded(Error):
    code = "DEADLINE_EXCEEDED"
    advice = "Give more time (timeout=), or send less at once."


class Unimplemented(Error):
    code = "UNIMPLEMENTED"
    advice = "Take a format and mode that the message or client.info() names."


class Unavailable(Error):
    code = "UNAVAILABLE"
    advice = "Check the address and that qgemm_server runs there, then call again."


class Cancelled(Error):
    code = "CANCELLED"
    advice = "The call was cancelled, or its client closed."


_BY_CODE = {kind.code: kind for kind in (
    InvalidArgument, NotFound, AlreadyExists, FailedPrecondition, PermissionDenied,
    Unauthenticated, ResourceExhausted, Aborted, DataLoss, DeadlineExceeded,
    Unimplemented, Unavailable, Cancelled)}


def make(code: str, message: str, retry_after: Optional[float] = None) -> Error:
    """The error of a code's name."""
    return _BY_CODE.get(code, Error)(message, code=code, retry_after=retry_after)


def make_numbered(number: int, message: str, retry_after: Optional[float]) -> Error:
    """The error of a code's number, as a stream's answer has it."""
    for code in grpc.StatusCode:
        if code.value[0] == number:
            return make(code.name, message, retry_after)
    return make("UNKNOWN", message, retry_after)


def of_call(failed: Any) -> Error:
    """The error of a grpc.RpcError. A server that resets a call while it shuts
    down says CANCELLED, which is UNAVAILABLE to whoever did not cancel."""
    code = failed.code().name
    if code == "CANCELLED" and not getattr(failed, "cancelled", bool)():
        code = "UNAVAILABLE"
    return make(code, failed.details() or "", _retry_delay(failed))


def _retry_delay(failed: Any) -> Optional[float]:
    """Seconds of the google.rpc.RetryInfo in the details, if there is one:
    Status.details = 3, Any.type_url = 1 and value = 2, RetryInfo.retry_delay = 1."""
    for key, value in failed.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        for detail in _wire.bytes_fields(value, 3):
            if _RETRY_INFO in _wire.bytes_fields(detail, 1):
                info = b"".join(_wire.bytes_fields(detail, 2))
                return _seconds(b"".join(_wire.bytes_fields(info, 1)))
    return None


def _seconds(duration: bytes) -> float:
    """Of a google.protobuf.Duration: seconds = 1, nanos = 2."""
    parts = {number: _wire.read_varint(duration, value)[0]
             for number, _, value, _ in _wire.fields(duration)}
    return parts.get(1, 0) + parts.get(2, 0) * 1e-9
