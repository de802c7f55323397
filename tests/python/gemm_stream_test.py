# SPDX-License-Identifier: Apache-2.0
"""Products by GemmStream: fragments, errors and cancellation of requests."""

import unittest

import grpc
import numpy as np
from qgemm.v1 import qgemm_pb2 as pb

from end_to_end import EndToEnd, K, M, N


class GemmStreamTest(EndToEnd):
    def stream_request(self, request_id, data, m=M, **fields):
        gemm = pb.GemmRequest(weights=self.name(), m=m,
                              a_type=pb.FLOAT_TYPE_FP16,
                              c_type=pb.FLOAT_TYPE_FP32)
        return pb.GemmStreamRequest(
            request_id=request_id, a=data,
            open=pb.GemmStreamOpen(gemm=gemm, **fields))

    def test_a_stream_answers_like_gemm(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = self.a.astype("<f2").tobytes()
        rows = [data[i * K * 2:(i + 1) * K * 2] for i in range(M)]
        answers = list(self.stub.GemmStream(
            (self.stream_request(i, row, m=1) for i, row in enumerate(rows)),
            timeout=60))
        together = self.gemm(data).c
        self.assertEqual(sorted(a.request_id for a in answers),
                         list(range(M)))
        for answer in answers:
            row = answer.request_id
            self.assertEqual(answer.c,
                             together[row * N * 4:(row + 1) * N * 4])

    def test_a_stream_takes_and_gives_fragments(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = np.tile(self.a, (100, 1)).astype("<f2").tobytes()
        step = 4000
        messages = [self.stream_request(
            7, data[:step], m=100 * M, a_bytes=len(data),
            c_fragment_bytes=4096)]
        messages += [pb.GemmStreamRequest(
            request_id=7, fragment=pb.GemmStreamFragment(offset=at),
            a=data[at:at + step]) for at in range(step, len(data), step)]
        answers = list(self.stub.GemmStream(iter(messages), timeout=60))
        self.assertEqual([a.offset for a in answers],
                         list(range(0, 100 * M * N * 4, 4096)))
        self.assertEqual(b"".join(a.c for a in answers),
                         self.gemm(data, m=100 * M).c)

    def test_an_error_of_one_request_leaves_the_stream(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = self.a.astype("<f2").tobytes()
        answers = {a.request_id: a for a in self.stub.GemmStream(iter([
            self.stream_request(1, data[:-1]), self.stream_request(2, data)]),
            timeout=60)}
        self.assertEqual(answers[1].error.code,
                         grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertIn(str(len(data) - 1), answers[1].error.message)
        self.assertFalse(answers[2].HasField("error"))
        self.assertEqual(answers[2].c, self.gemm(data).c)

    def test_a_message_of_no_request_ends_the_stream(self):
        self.assert_code(
            grpc.StatusCode.INVALID_ARGUMENT,
            lambda: list(self.stub.GemmStream(
                iter([pb.GemmStreamRequest(request_id=3)]), timeout=60)),
            "request_id = 3", "open, fragment and cancel")

    def test_a_request_of_a_stream_can_be_cancelled(self):
        self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        data = self.a.astype("<f2").tobytes()
        answer, = self.stub.GemmStream(iter([
            self.stream_request(1, data[:100], a_bytes=len(data)),
            pb.GemmStreamRequest(request_id=1, cancel=pb.GemmStreamCancel())]),
            timeout=60)
        self.assertEqual(answer.error.code,
                         grpc.StatusCode.CANCELLED.value[0])


if __name__ == "__main__":
    unittest.main()
