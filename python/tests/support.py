# SPDX-License-Identifier: Apache-2.0
"""What the package's tests share: servers, references, arrays of another library, and
a service in Python that fails on demand."""

import concurrent.futures
import contextlib
import ctypes
import os
import tempfile
import unittest

import grpc
import numpy as np
import qgemm
from qgemm import arrays

N, K, M = 48, 64, 5
GOLDEN = os.path.join(os.path.dirname(__file__), "../../tests/golden")


@contextlib.contextmanager
def lane_server():
    """A server of the CPU backend with a lane, while the block runs."""
    with tempfile.TemporaryDirectory(prefix="qgemm-lane-") as folder:
        with qgemm.serve("--backend=cpu",
                         f"--lane_listen=unix:{folder}/lane") as server:
            yield server


class ServedTest(unittest.TestCase):
    """Tests with one server of the CPU backend and a client of it."""

    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            cls.server = stack.enter_context(qgemm.serve("--backend=cpu"))
            cls.client = stack.enter_context(cls.server.connect())
            cls.addClassCleanup(stack.pop_all().close)

    def setUp(self):
        self.rng = np.random.default_rng(1)
        self.w = self.rng.standard_normal((N, K)).astype(np.float32)
        self.bias = self.rng.standard_normal(N).astype(np.float32)
        self.x = self.rng.standard_normal((M, K)).astype(np.float32)

    def assert_product(self, y, x, w, bias=0, unit=2.0**-11):
        """y is x times w's transpose plus bias, with operands in a type of that unit
        roundoff: three roundings of each product, and one of the result, with room
        for the sums in fp32."""
        x, w, y = (np.asarray(each, np.float64) for each in (x, w, y))
        expected = x @ w.T + bias
        limit = 4 * unit * (np.abs(x) @ np.abs(w).T + np.abs(bias))
        self.assertEqual(y.shape, expected.shape)
        self.assertTrue((np.abs(y - expected) <= limit).all())


class Exporter:
    """An array of another library: DLPack and nothing else. With `code` it says that
    its elements are of another type of that size (4: bfloat)."""

    def __init__(self, array, code=None):
        self._array = array
        self._code = code

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **_):
        capsule = self._array.__dlpack__()
        if self._code is not None:
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype = ctypes.c_void_p
            pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
            tensor = arrays._DLTensor.from_address(pointer(capsule, b"dltensor"))
            tensor.code = self._code
        return capsule


class Refusal:
    """An answer that is an error; retry_ns adds a google.rpc.RetryInfo to it."""

    def __init__(self, code, retry_ns=None):
        self.code, self.retry_ns = code, retry_ns

    def end(self, context):
        if self.retry_ns is not None:
            context.set_trailing_metadata(
                (("grpc-status-details-bin", retry_details(self.retry_ns)),))
        context.abort(self.code, "m = 7 is refused")


def message(field, data):
    """A field of bytes of less than 128."""
    return bytes([field << 3 | 2, len(data)]) + data


def retry_details(nanoseconds):
    """A google.rpc.Status with a RetryInfo of less than 2^28 ns."""
    number = nanoseconds
    varint = bytearray()
    while number > 127:
        varint.append(number & 127 | 128)
        number >>= 7
    duration = b"\x10" + bytes(varint) + bytes([number])
    return message(3, message(1, b"type.googleapis.com/google.rpc.RetryInfo") +
                   message(2, message(1, duration)))


class ScriptedService(grpc.GenericRpcHandler):
    """Answers each method by its next scripted answer, bytes or a Refusal; the last
    one stays. Records the requests and their metadata."""

    def __init__(self, **answers):
        self.answers = {"GetServerInfo": [b""], **answers}
        self.requests = []
        self.metadata = []

    def service(self, details):
        method = details.method.rpartition("/")[2]

        def answer(request, context):
            self.requests.append((method, request))
            self.metadata.append(dict(details.invocation_metadata))
            script = self.answers[method]
            found = script.pop(0) if len(script) > 1 else script[0]
            if isinstance(found, Refusal):
                found.end(context)
            return found

        return grpc.unary_unary_rpc_method_handler(answer)

    def count(self, method):
        return sum(name == method for name, _ in self.requests)

    @contextlib.contextmanager
    def listening(self, address="127.0.0.1:0"):
        """Serves while the block runs; gives the address."""
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((self,))
        port = server.add_insecure_port(address)
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()
