# SPDX-License-Identifier: Apache-2.0
"""Client of qgemm, a service for quantized matrix multiplication.

    client = qgemm.connect("unix:/run/qgemm.sock")
    client.load("mlp/up", w, bias=b, format="kbit4")   # w [n, k], NumPy or torch
    y = client.gemm("mlp/up", x)                       # x [..., k] -> y [..., n]

docs/python.md has the rest.
"""

from qgemm import aio, errors, formats
from qgemm._connection import RetryPolicy, Tls
from qgemm.client import Client, connect
from qgemm.errors import (Aborted, AlreadyExists, Cancelled, DataLoss,
                          DeadlineExceeded, Error, FailedPrecondition,
                          InvalidArgument, NotFound, PermissionDenied,
                          ResourceExhausted, Unauthenticated, Unavailable,
                          Unimplemented)
from qgemm.formats import WeightSpec
from qgemm.loading import CheckpointError, LoadedModel, load_model, plan_model
from qgemm.programs import LoadedProgram, Program
from qgemm.server import Server, serve
from qgemm.stream import Stream
from qgemm.v1.qgemm_pb2 import Timings

__all__ = [
    "Aborted", "AlreadyExists", "Cancelled", "CheckpointError", "Client", "DataLoss",
    "DeadlineExceeded", "Error", "FailedPrecondition", "InvalidArgument",
    "LoadedModel", "LoadedProgram", "NotFound", "PermissionDenied", "Program",
    "ResourceExhausted", "RetryPolicy", "Server", "Stream", "Timings", "Tls",
    "Unauthenticated", "Unavailable", "Unimplemented", "WeightSpec", "aio", "connect",
    "errors", "formats", "load_model", "plan_model", "serve",
]
