# SPDX-License-Identifier: Apache-2.0
"""Uploads of weights: identity and names, bad headers, spoiled chunks."""

import unittest

import grpc
import numpy as np
from qgemm.v1 import qgemm_pb2 as pb

import quantize
import wire
from end_to_end import EndToEnd, K, N


class WeightsTest(EndToEnd):
    # Identity and names ----------------------------------------------------

    def test_same_upload_is_deduplicated_without_chunks(self):
        _, sections = quantize.kbit4(self.w + 1)
        first = self.upload_kbit4(sections, self.name())
        text = first.weights.spec
        header = pb.WeightsHeader(
            name=self.name() + ".again", n=N, k=K,
            kbit=pb.KbitFormat(bits=4), sha256=wire.weights_id(text, sections),
            total_bytes=sum(len(data) for _, data in sections))
        again = self.stub.LoadWeights(
            iter([pb.LoadWeightsRequest(header=header)]), timeout=60)
        self.assertTrue(again.deduplicated)
        self.assertEqual(again.weights.id, first.weights.id)
        self.assertEqual(list(again.weights.names),
                         [self.name(), self.name() + ".again"])

    def test_weights_go_with_their_last_name(self):
        self.w += 2
        loaded = self.upload_dense(quantize_q4_0=pb.Q40Format())
        listed = self.stub.ListWeights(pb.ListWeightsRequest(), timeout=60)
        self.assertIn(loaded.weights.id, [w.id for w in listed.weights])
        freed = self.stub.UnloadWeights(
            pb.UnloadWeightsRequest(weights=self.name()), timeout=60)
        self.assertTrue(freed.freed)
        self.assert_code(
            grpc.StatusCode.NOT_FOUND, lambda: self.stub.GetWeights(
                pb.GetWeightsRequest(weights=loaded.weights.id), timeout=60))

    # Bad uploads -----------------------------------------------------------

    def kbit4_header(self, **fields):
        fields.setdefault("n", N)
        fields.setdefault("k", K)
        return pb.WeightsHeader(name=self.name(),
                                kbit=pb.KbitFormat(bits=4), **fields)

    def send(self, *requests):
        return lambda: self.stub.LoadWeights(iter(requests), timeout=60)

    def test_bad_headers(self):
        _, sections = quantize.kbit4(self.w)
        total = sum(len(data) for _, data in sections)
        for fields in ({"n": 0}, {"k": 0}, {"k": 33}, {"n": 1 << 63},
                       {"k": (1 << 63) + 1}, {"total_bytes": total - 1},
                       {"total_bytes": 0}, {"sha256": b"short"}):
            with self.subTest(fields=fields):
                fields.setdefault("total_bytes", total)
                self.assert_code(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    self.send(pb.LoadWeightsRequest(
                        header=self.kbit4_header(**fields))))

    def chunk_requests(self):
        """A header without an id and its chunks, to be spoiled."""
        _, sections = quantize.kbit4(self.w + 3)
        header = self.kbit4_header(
            total_bytes=sum(len(data) for _, data in sections))
        return [pb.LoadWeightsRequest(header=header),
                *wire.chunks(sections, 1024)]

    def test_a_corrupted_chunk(self):
        requests = self.chunk_requests()
        requests[2].chunk.crc32c ^= 1
        self.assert_code(grpc.StatusCode.DATA_LOSS, self.send(*requests))

    def test_what_is_absent_is_not_checked(self):
        requests = self.chunk_requests()
        requests[0].header.ClearField("total_bytes")
        for request in requests[1:]:
            request.chunk.ClearField("crc32c")
        loaded = self.send(*requests)()
        self.assertEqual(loaded.weights.format, "kbit4")

    def test_reordered_chunks(self):
        requests = self.chunk_requests()
        requests[2], requests[3] = requests[3], requests[2]
        self.assert_code(grpc.StatusCode.ABORTED, self.send(*requests))

    def test_a_missing_last_chunk(self):
        self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                         self.send(*self.chunk_requests()[:-1]))

    def test_chunks_without_a_header(self):
        self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                         self.send(*self.chunk_requests()[1:]))

    def test_a_wrong_id(self):
        requests = self.chunk_requests()
        requests[0].header.sha256 = bytes(32)
        self.assert_code(grpc.StatusCode.DATA_LOSS, self.send(*requests))

    def test_an_illegal_ternary_code_names_its_place(self):
        codes = np.zeros((N, K), np.int8)
        codes[7, 13] = 2
        header = pb.WeightsHeader(name=self.name(), n=N, k=K,
                                  ternary=pb.TernaryFormat())
        sections = [("scales", np.ones(N, "<f4").tobytes()),
                    ("codes", codes.tobytes())]
        self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                         lambda: wire.upload(self.stub, header, sections),
                         "7", "13")

    def test_failed_uploads_leave_nothing_behind(self):
        def held():
            return self.stub.GetServerInfo(pb.GetServerInfoRequest(),
                                           timeout=60).weights_bytes

        before = held()
        requests = self.chunk_requests()
        requests[-1].chunk.crc32c ^= 1
        self.assert_code(grpc.StatusCode.DATA_LOSS, self.send(*requests))
        self.assertEqual(held(), before)


if __name__ == "__main__":
    unittest.main()
