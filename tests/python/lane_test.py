# SPDX-License-Identifier: Apache-2.0
"""Lanes byte by byte, as docs/lane.md has them: the bits of Gemm and Run, errors
as completions, and the end of a lane."""

import os
import socket
import struct
import tempfile
import unittest

import grpc
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb

import lane
from end_to_end import EndToEnd, K, M, N, SERVER_BINARY
from server_process import ServerProcess

FP16, FP32 = pb.FLOAT_TYPE_FP16, pb.FLOAT_TYPE_FP32
TYPES = (FP16, FP32, pb.COMPUTE_MODE_A16, 0)
INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT.value[0]
NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]


class LaneTest(EndToEnd):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="qgemm-lane-")
        cls.addClassCleanup(folder.cleanup)
        cls.path = os.path.join(folder.name, "lane.sock")
        cls.flags = ("--backend=cpu", f"--lane_listen=unix:{cls.path}")
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.lane = lane.Lane(self.path)
        self.addCleanup(self.lane.close)
        self.a_bytes = self.a.astype("<f2").tobytes()

    def load_and_open(self):
        loaded = self.upload_dense(quantize_kbit=pb.KbitFormat(bits=4))
        opened = self.lane.open(self.name())
        self.assertEqual((opened.kind, opened.n, opened.k, opened.id),
                         (lane.WEIGHTS, N, K, loaded.weights.id))
        return opened

    def call(self, opened, **fields):
        fields.setdefault("types", TYPES)
        return self.lane.call(opened, M, self.a_bytes, M * N * 4, **fields)

    def test_the_parts_are_aligned_and_within_the_segment(self):
        parts = sorted([
            (0, 256), (self.lane.requests, 64 * self.lane.slots),
            (self.lane.completions, 512 * self.lane.slots),
            (self.lane.done_words, 8 * self.lane.slots),
            (self.lane.operands, self.lane.operand_bytes)])
        self.assertEqual([begin % 64 for begin, _ in parts], [0] * 5)
        ends = [begin + size for begin, size in parts]
        following = [begin for begin, _ in parts[1:]]
        self.assertTrue(all(
            end <= begin
            for end, begin in zip(ends, following + [self.lane.segment_bytes])))
        self.assertGreaterEqual(self.lane.operand_bytes, 1 << 20)
        self.assertEqual(self.lane.slots, 8)

    def test_an_answer_has_the_bits_of_gemm(self):
        opened = self.load_and_open()
        expected = self.gemm(self.a_bytes).c
        for wait in (self.lane.sleep_until_done, self.lane.spin_until_done):
            answer = self.call(opened, wait=wait)
            self.assertEqual((answer.code, answer.message), (0, ""))
            self.assertEqual(answer.c, expected)
            self.assertGreaterEqual(answer.launch_rows, M)
            self.assertGreater(answer.total_ns, 0)

    def test_an_answer_has_the_bits_of_run(self):
        self.load_and_open()
        program = program_pb2.Program(
            revision=1, value_type=program_pb2.NUMBER_TYPE_BF16)
        program.inputs.add(width=K, type=program_pb2.NUMBER_TYPE_FP16)
        op = program.ops.add(type=program_pb2.NUMBER_TYPE_FP32)
        op.gemm.weights = self.name()
        op.gemm.x = 0
        program.outputs.append(1)
        self.stub.LoadProgram(pb.LoadProgramRequest(
            name=self.name(), program=program), timeout=60)
        opened = self.lane.open(self.name(), lane.PROGRAM)
        self.assertEqual((opened.input_row_bytes, opened.output_row_bytes),
                         (K * 2, N * 4))
        expected = self.stub.Run(pb.RunRequest(
            program=self.name(), m=M, inputs=self.a_bytes), timeout=60).outputs
        self.assertEqual(self.call(opened, types=(0, 0, 0, 0)).c, expected)

    def test_requests_go_round_the_ring_in_any_slot(self):
        opened = self.load_and_open()
        expected = self.gemm(self.a_bytes).c
        for position in range(3 * self.lane.slots):
            slot = position * 5 % self.lane.slots
            answer = self.call(opened, slot=slot)
            self.assertEqual(answer.c, expected)
            lap = position // self.lane.slots + 1
            self.assertEqual(answer.done_word, lap << 32 | slot)

    def test_every_slot_may_be_in_flight(self):
        opened = self.load_and_open()
        rows = [row.astype("<f2").tobytes() for row in self.a]
        expected = [self.gemm(row, m=1).c for row in rows]
        places = [self.lane.publish(opened, 1, row, N * 4, slot=slot,
                                    a_offset=4096 * slot, types=TYPES)
                  for slot, row in enumerate(rows)]
        for slot, place in enumerate(places):
            self.lane.sleep_until_done(slot)
            self.assertEqual(
                self.lane.answer(slot, place, N * 4, 0).c, expected[slot])

    def test_errors_are_completions(self):
        opened = self.load_and_open()
        for fields, word in (
                ({"types": (9, FP32, 0, 0)}, "a_type"),
                ({"c_offset": 1 << 40}, "c"),
                ({"c_offset": 4097}, "c"),
                ({"priority": 77}, "priority")):
            answer = self.call(opened, **fields)
            self.assertEqual(answer.code, INVALID_ARGUMENT, fields)
            self.assertIn(word, answer.message)
        self.assertEqual(self.call(opened).code, 0)

    def test_names_are_looked_up_at_each_request(self):
        opened = self.load_and_open()
        self.stub.UnloadWeights(pb.UnloadWeightsRequest(weights=self.name()))
        self.assertEqual(self.call(opened).code, NOT_FOUND)
        self.upload_dense()
        self.assertEqual(self.call(opened).c, self.gemm(self.a_bytes).c)

    def test_names_that_are_not_there_are_not_opened(self):
        with self.assertRaises(lane.Refused) as raised:
            self.lane.open("nobody")
        self.assertEqual(raised.exception.code, NOT_FOUND)

    def test_a_handle_is_given_back(self):
        opened = self.load_and_open()
        self.lane.close_handle(opened.handle)
        self.assertEqual(self.call(opened).code, NOT_FOUND)

    def test_the_memory_cannot_be_resized(self):
        with lane.Lane(self.path) as other:
            with self.assertRaises((OSError, SystemError)):
                other.memory.resize(other.segment_bytes // 2)

    def test_another_version_is_refused_with_the_servers(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.settimeout(60)
            other.connect(self.path)
            other.send(lane.HEADER.pack(lane.MAGIC, lane.HELLO, 99, 1, 0) +
                       struct.pack("<QII", 4096, 8, 0))
            _, kind, version, _, code = lane.HEADER.unpack_from(other.recv(8192))
        self.assertEqual((kind, version, code),
                         (lane.END, lane.VERSION,
                          grpc.StatusCode.UNIMPLEMENTED.value[0]))

    def test_the_path_is_told_to_clients_on_the_host(self):
        info = self.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=60)
        self.assertEqual(info.lane_path, self.path)

    def test_a_drained_server_hangs_up(self):
        folder = tempfile.TemporaryDirectory(prefix="qgemm-lane-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "lane.sock")
        with ServerProcess(SERVER_BINARY, "--backend=cpu",
                           f"--lane_listen=unix:{path}") as server:
            client = lane.Lane(path)
            self.addCleanup(client.close)
            self.assertEqual(server.stop(), 0)
            packets = []
            while packet := client.socket.recv(8192):
                packets.append(lane.HEADER.unpack_from(packet)[1])
            self.assertEqual(packets, [lane.END])
            self.assertNotEqual(client.word(lane.ENDED), 0)


if __name__ == "__main__":
    unittest.main()
