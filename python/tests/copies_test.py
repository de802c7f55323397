# SPDX-License-Identifier: Apache-2.0
"""How often operands and results are copied: by the messages of gRPC, and by a lane."""

import contextlib
import tracemalloc
import unittest

import ml_dtypes
import numpy as np
import qgemm
from qgemm import _calls, _upload, arrays, formats
from qgemm.programs import LoadedProgram, Port
from qgemm.v1 import qgemm_pb2 as pb

from support import Exporter, lane_server


def peak(act):
    """Bytes that Python and NumPy hold at most while `act` runs, beyond those before,
    and its result, which is in them as each copy is."""
    tracemalloc.start()
    try:
        kept = act()
        return tracemalloc.get_traced_memory()[1], kept
    finally:
        tracemalloc.stop()


class MessageCopiesTest(unittest.TestCase):
    BYTES = 8 << 20
    SLACK = 64 << 10

    def operands(self):
        x = np.ones((self.BYTES // 2 // 1024, 1024), np.float16)
        return x, x.astype(np.float32), x.astype(ml_dtypes.bfloat16), Exporter(x)

    def test_a_request_copies_its_operand_once(self):
        for x in self.operands():
            size = len(arrays.as_operand(x).view)
            held, call = peak(lambda: _calls.Gemm("w", x).call())
            self.assertGreater(len(call.request), size)
            self.assertLess(held, size + self.SLACK)

    def test_an_answer_is_copied_once_or_into_out(self):
        c = np.ones(self.BYTES // 4, np.float32)
        answer = pb.GemmResponse(c=c.tobytes()).SerializeToString()
        for out in (None, np.empty((1024, c.size // 1024), np.float32)):
            x = np.ones((1024, 1), np.float32)
            call = _calls.Gemm("w", x, out=out).call()
            held, y = peak(lambda: call.parse(answer))
            self.assertEqual(y.nbytes, c.nbytes)
            self.assertTrue(y.flags.writeable)
            self.assertLess(held, (0 if out is not None else c.nbytes) + self.SLACK)

    def test_a_run_copies_inputs_and_outputs_once(self):
        a, x, _, _ = self.operands()
        ports = Port("a", "fp16", 1024), Port("x", "fp32", 1024)
        program = LoadedProgram("p", "0" * 64, ports, ports, (), 1)
        held, call = peak(lambda: _calls.Run(program, [a, x]).call())
        size = a.nbytes + x.nbytes
        self.assertLess(held, size + self.SLACK)
        answer = pb.RunResponse(
            outputs=a.tobytes() + x.tobytes()).SerializeToString()
        held, (b, y) = peak(lambda: call.parse(answer))
        np.testing.assert_array_equal(b, a)
        np.testing.assert_array_equal(y, x)
        self.assertLess(held, size + self.SLACK)

    def test_an_upload_holds_a_chunk_at_a_time(self):
        w = np.ones((1024, self.BYTES // 4096), np.float32)
        spec, sections = _upload.layer(w, None, "dense", "server")
        upload = _upload.Upload("w", spec, sections, None, False, "")
        held, sent = peak(lambda: sum(map(len, upload.messages())))
        self.assertGreater(sent, w.nbytes)
        self.assertLess(held, 2 * formats.PIECE_BYTES + self.SLACK)


class LaneCopiesTest(unittest.TestCase):
    """Operands are copied once, into the lane's memory, which is no allocation, and
    results once, out of it. One side of each call is wide and the other narrow, so that
    a copy of the wide one shows, whenever it is made: of one row and of 8 MiB."""

    WIDE, NARROW = 16384, 32
    ROWS = 1, 256
    SLACK = 16 << 10  # half of the smallest wide array

    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(lane_server())
            cls.client = stack.enter_context(server.connect(lane="required"))
            cls.addClassCleanup(stack.pop_all().close)
        for name, k, n in (("in", cls.WIDE, cls.NARROW), ("out", cls.NARROW, cls.WIDE)):
            cls.client.load(name, np.ones((n, k), np.float16))

    def lane_peak(self, call):
        """`peak` of a call that has been made before, by the lane."""
        call()
        lane = self.client._lane.lane()
        before = lane._published
        measured = peak(call)
        self.assertEqual(lane._published, before + 1)
        return measured

    def operands(self, width):
        for rows in self.ROWS:
            x = np.ones((rows, width), np.float16)
            for operand in (x, x[:(rows + 1) // 2].astype(np.float32),
                            x.astype(ml_dtypes.bfloat16), Exporter(x)):
                yield operand

    def test_an_operand_is_copied_into_the_lane_alone(self):
        for x in self.operands(self.WIDE):
            held, y = self.lane_peak(lambda: self.client.gemm("in", x))
            self.assertLess(held, y.nbytes + self.SLACK)

    def test_an_answer_is_copied_once_or_into_out(self):
        for x in self.operands(self.NARROW):
            held, y = self.lane_peak(lambda: self.client.gemm("out", x))
            self.assertGreater(y.nbytes, self.SLACK)
            self.assertLess(held, y.nbytes + self.SLACK)
            held, _ = self.lane_peak(lambda: self.client.gemm("out", x, out=y))
            self.assertLess(held, self.SLACK)

    def program(self, width, weights):
        p = qgemm.Program("fp16")
        p.output(*(p.gemm(p.input(width, name, dtype="fp16"), weights)
                   for name in ("a", "b")))
        return self.client.load_program(weights, p)

    def test_a_run_copies_inputs_and_outputs_once(self):
        inward = self.program(self.WIDE, "in")
        outward = self.program(self.NARROW, "out")
        for rows in (1, self.ROWS[1] // 2):
            a, b = np.ones((2, rows, self.WIDE), np.float16)
            held, made = self.lane_peak(lambda: self.client.run(inward, a, b))
            self.assertLess(held, sum(y.nbytes for y in made) + self.SLACK)
            a, b = np.ones((2, rows, self.NARROW), np.float16)
            held, made = self.lane_peak(lambda: self.client.run(outward, a, b))
            self.assertLess(held, sum(y.nbytes for y in made) + self.SLACK)
            held, _ = self.lane_peak(
                lambda: self.client.run(outward, a, b, outs=made))
            self.assertLess(held, self.SLACK)


if __name__ == "__main__":
    unittest.main()
