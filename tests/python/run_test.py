# SPDX-License-Identifier: Apache-2.0
"""Programs that run: against their products one by one and numpy, alone, beside
other clients and over streams."""

import concurrent.futures
import unittest

import grpc
import numpy as np
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb
from qgemm.v1 import qgemm_pb2_grpc

from end_to_end import EndToEnd, K, M, N, channel_to

Program = program_pb2.Program
FP32 = program_pb2.NUMBER_TYPE_FP32
FP16 = program_pb2.NUMBER_TYPE_FP16


class RunTest(EndToEnd):
    """The program is relu(W x) + r, and its product with W x; every op but the
    product has one right answer in fp32."""

    def setUp(self):
        super().setUp()
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        self.residual = self.rng.standard_normal((M, N)).astype(np.float32)
        ops = [
            Program.Op(gemm=Program.Gemm(x=0, weights=self.name())),
            Program.Op(act=Program.Act(x=2, kind=Program.Act.KIND_RELU)),
            Program.Op(add=Program.Binary(x=3, y=1)),
            Program.Op(type=FP16, mul=Program.Binary(x=4, y=2))]
        self.program = Program(
            revision=1, value_type=FP32, ops=ops, outputs=[4, 5],
            inputs=[Program.Input(name="x", type=FP16, width=K),
                    Program.Input(name="residual", width=N)])
        self.loaded = self.stub.LoadProgram(pb.LoadProgramRequest(
            name=self.name(), program=self.program), timeout=60).program

    def inputs(self, rows=slice(None)):
        return (self.a[rows].astype("<f2").tobytes() +
                self.residual[rows].astype("<f4").tobytes())

    def run_program(self, inputs, m=M, stub=None, **fields):
        fields.setdefault("program", self.name())
        return (stub or self.stub).Run(
            pb.RunRequest(m=m, inputs=inputs, **fields), timeout=60)

    def expected(self, rows=slice(None)):
        """The sum in fp32, then its product in fp16."""
        product = np.frombuffer(
            self.gemm(self.a[rows].astype("<f2").tobytes(),
                      m=len(self.a[rows])).c, "<f4").reshape(-1, N)
        total = np.maximum(product, 0) + self.residual[rows]
        with np.errstate(over="ignore"):
            return (total.tobytes() +
                    (total * product).astype("<f2").tobytes())

    def test_a_program_answers_like_its_products(self):
        answer = self.run_program(self.inputs())
        self.assertEqual(answer.outputs, self.expected())
        self.assertEqual(answer.timings.launch_rows, M)
        self.assertGreater(answer.timings.total_ns, 0)
        by_id = self.run_program(self.inputs(), program=self.loaded.id)
        self.assertEqual(by_id.outputs, answer.outputs)

    def test_times_of_ops_come_on_request(self):
        answer = self.run_program(self.inputs(), time_ops=True)
        self.assertEqual(answer.outputs, self.expected())
        self.assertEqual(len(answer.timings.op_ns), len(self.program.ops))
        self.assertGreater(sum(answer.timings.op_ns), 0)
        self.assertLessEqual(sum(answer.timings.op_ns),
                             answer.timings.kernel_ns)
        self.assertEqual(
            len(self.run_program(self.inputs()).timings.op_ns), 0)
        streamed, = self.stub.GemmStream(iter([
            self.stream_request(1, self.inputs(), time_ops=True)]), timeout=60)
        self.assertEqual(len(streamed.timings.op_ns), len(self.program.ops))

    def test_a_large_request_runs_in_chunks(self):
        times = 60
        tile = lambda rows: np.tile(rows, (times, 1))
        answer = self.run_program(
            tile(self.a).astype("<f2").tobytes() +
            tile(self.residual).tobytes(), m=times * M)
        total, product = (np.frombuffer(part, kind).reshape(-1, N)
                          for part, kind in (
                              (self.expected()[:M * N * 4], "<f4"),
                              (self.expected()[M * N * 4:], "<f2")))
        self.assertEqual(answer.outputs,
                         tile(total).tobytes() + tile(product).tobytes())

    def test_rows_of_clients_share_launches_unseen(self):
        expected = [self.expected(slice(i, i + 1)) for i in range(M)]

        def client(row):
            with channel_to(self.server.address) as channel:
                stub = qgemm_pb2_grpc.QgemmStub(channel)
                inputs = self.inputs(slice(row, row + 1))
                return {self.run_program(inputs, m=1, stub=stub,
                                         client_id=f"client{row}").outputs
                        for _ in range(50)}

        with concurrent.futures.ThreadPoolExecutor(M) as pool:
            answers = list(pool.map(client, range(M)))
        self.assertEqual(answers, [{one} for one in expected])

    def test_a_program_keeps_its_weights(self):
        expected = self.expected()
        self.stub.UnloadWeights(pb.UnloadWeightsRequest(weights=self.name()),
                                timeout=60)
        self.assertEqual(self.run_program(self.inputs()).outputs, expected)
        self.stub.UnloadProgram(pb.UnloadProgramRequest(program=self.name()),
                                timeout=60)
        self.assert_code(grpc.StatusCode.NOT_FOUND,
                         lambda: self.run_program(self.inputs()), self.name())

    # Streams ---------------------------------------------------------------

    def stream_request(self, request_id, data, m=M, time_ops=False, **fields):
        run = pb.RunRequest(program=self.name(), m=m, time_ops=time_ops)
        return pb.GemmStreamRequest(
            request_id=request_id, a=data,
            open=pb.GemmStreamOpen(run=run, **fields))

    def test_a_stream_runs_programs_beside_products(self):
        data = self.a.astype("<f2").tobytes()
        gemm = pb.GemmRequest(weights=self.name(), m=M,
                              a_type=pb.FLOAT_TYPE_FP16,
                              c_type=pb.FLOAT_TYPE_FP32)
        answers = {a.request_id: a.c for a in self.stub.GemmStream(iter([
            self.stream_request(1, self.inputs()),
            pb.GemmStreamRequest(request_id=2, a=data,
                                 open=pb.GemmStreamOpen(gemm=gemm)),
            self.stream_request(3, self.inputs(slice(0, 1)), m=1)]),
            timeout=60)}
        self.assertEqual(answers, {
            1: self.expected(), 2: self.gemm(data).c,
            3: self.expected(slice(0, 1))})

    def test_a_stream_takes_inputs_in_fragments(self):
        data = self.inputs()
        step = 1000
        messages = [self.stream_request(7, data[:step], a_bytes=len(data),
                                        c_fragment_bytes=4096)]
        messages += [pb.GemmStreamRequest(
            request_id=7, fragment=pb.GemmStreamFragment(offset=at),
            a=data[at:at + step]) for at in range(step, len(data), step)]
        answers = self.stub.GemmStream(iter(messages), timeout=60)
        self.assertEqual(b"".join(a.c for a in answers), self.expected())

    # Bad requests ----------------------------------------------------------

    def test_bad_requests_name_the_field(self):
        inputs = self.inputs()
        for fields, words in (
                ({"m": 0}, ("m = 0",)),
                ({"m": M + 1}, ("inputs has", str(len(inputs)))),
                ({"m": 1 << 62}, (str(1 << 62),)),
                ({"client_id": "no spaces"}, ("client_id",))):
            self.assert_code(
                grpc.StatusCode.INVALID_ARGUMENT,
                lambda fields=fields: self.run_program(inputs, **fields),
                *words)
        self.assert_code(
            grpc.StatusCode.NOT_FOUND,
            lambda: self.run_program(inputs, program="nobody"), "nobody")

    def test_a_stream_refuses_inputs_in_two_places(self):
        request = self.stream_request(1, self.inputs())
        request.open.run.inputs = b"x"
        answer, = self.stub.GemmStream(iter([request]), timeout=60)
        self.assertIn("open.run.inputs", answer.error.message)


if __name__ == "__main__":
    unittest.main()
