# SPDX-License-Identifier: Apache-2.0
"""Programs: identity and names, weights that they keep, what is refused."""

import hashlib
import struct
import unittest
import zlib

import grpc
import numpy as np
from qgemm.v1 import program_pb2
from qgemm.v1 import qgemm_pb2 as pb

from end_to_end import EndToEnd, K, N

FP32 = program_pb2.NUMBER_TYPE_FP32
BF16 = program_pb2.NUMBER_TYPE_BF16
Program = program_pb2.Program


def norm_weight():
    return struct.pack(f"<{K}f", *([0.5] * K))


class ProgramsTest(EndToEnd):
    flags = ("--backend=reference",)

    def setUp(self):
        """Weights, and so programs, that no other test has."""
        super().setUp()
        rng = np.random.default_rng(
            [self.seed, zlib.crc32(self.name().encode())])
        self.w = rng.standard_normal((N, K)).astype(np.float16).astype(
            np.float32)
        self.layer = self.upload_dense().weights.id

    def program(self, weights=None, **fields):
        """A norm, a product with the test's layer and an activation."""
        fields.setdefault("revision", 1)
        return Program(
            value_type=FP32,
            inputs=[Program.Input(name="x", width=K)],
            constants=[Program.Constant(values=norm_weight())],
            ops=[Program.Op(rms_norm=Program.RmsNorm(x=0, weight=1, eps=1e-5)),
                 Program.Op(name="up", gemm=Program.Gemm(
                     x=2, weights=weights or self.name())),
                 Program.Op(name="y", type=BF16, act=Program.Act(
                     x=3, kind=Program.Act.KIND_SILU))],
            outputs=[4], **fields)

    def load(self, program, name=None, **fields):
        name = self.name() if name is None else name
        return self.stub.LoadProgram(
            pb.LoadProgramRequest(name=name, program=program, **fields),
            timeout=60)

    def get(self, program):
        return self.stub.GetProgram(pb.GetProgramRequest(program=program),
                                    timeout=60).program

    def unload(self, program, **fields):
        return self.stub.UnloadProgram(
            pb.UnloadProgramRequest(program=program, **fields),
            timeout=60).freed

    def held_bytes(self):
        return self.stub.GetServerInfo(pb.GetServerInfoRequest(),
                                       timeout=60).weights_bytes

    def assert_refused(self, code, program, *words):
        before = self.held_bytes()
        self.assert_code(code, lambda: self.load(program), *words)
        self.assertEqual(self.held_bytes(), before)
        self.assert_code(grpc.StatusCode.NOT_FOUND,
                         lambda: self.get(self.name()), self.name())

    # Identity, names, pages ------------------------------------------------

    def test_the_id_is_the_hash_of_the_text_in_the_documents(self):
        loaded = self.load(self.program()).program
        constant = hashlib.sha256(norm_weight()).hexdigest()
        text = (f"qgemm-program-v1\nrevision=1\ninput fp32 {K}\n"
                f"constant fp32 {K} {constant}\n"
                "rms_norm fp32 x=0 weight=1 eps=3727c5ac group=0\n"
                f"gemm fp32 x=2 weights={self.layer} mode=A16 rounding=bf16\n"
                "act bf16 x=3 activation=silu\noutput 4\n")
        self.assertEqual(loaded.text, text)
        self.assertEqual(loaded.id, hashlib.sha256(text.encode()).hexdigest())
        self.assertEqual(self.get(loaded.id), loaded)

    def test_describes_inputs_outputs_and_sizes(self):
        info = self.load(self.program()).program
        value = pb.ProgramInfo.Value
        self.assertEqual(list(info.inputs),
                         [value(name="x", type=FP32, width=K)])
        self.assertEqual(list(info.outputs),
                         [value(name="y", type=BF16, width=N)])
        self.assertEqual((info.input_row_bytes, info.output_row_bytes),
                         (4 * K, 2 * N))
        self.assertEqual((info.ops, list(info.weights)), (3, [self.layer]))
        self.assertGreater(info.resident_bytes, len(norm_weight()))

    def test_the_same_program_again_is_free(self):
        first = self.load(self.program())
        self.assertFalse(first.deduplicated)
        held = self.held_bytes()
        for weights in (self.name(), self.layer):
            again = self.load(self.program(weights=weights))
            self.assertTrue(again.deduplicated)
            self.assertEqual(again.program, first.program)
        self.assertEqual(self.held_bytes(), held)
        alias = self.load(self.program(), self.name() + ".alias")
        self.assertTrue(alias.deduplicated)
        self.assertEqual(list(alias.program.names),
                         [self.name(), self.name() + ".alias"])

    def test_conditions_on_a_name(self):
        first = self.load(self.program(), create_only=True).program
        other = self.program()
        other.ops[0].rms_norm.eps = 1e-6
        self.assert_code(grpc.StatusCode.ALREADY_EXISTS,
                         lambda: self.load(other, create_only=True), first.id)
        self.assert_code(grpc.StatusCode.FAILED_PRECONDITION,
                         lambda: self.load(other, if_match="0" * 64), first.id)
        self.assertEqual(self.get(self.name()), first)
        second = self.load(other, if_match=first.id).program
        self.assertEqual(self.get(self.name()), second)
        self.assert_code(grpc.StatusCode.NOT_FOUND, lambda: self.get(first.id))
        self.assert_code(grpc.StatusCode.FAILED_PRECONDITION,
                         lambda: self.unload(self.name(), if_match=first.id))
        self.assertTrue(self.unload(self.name(), if_match=second.id))

    def test_pages_have_every_program_once(self):
        ids = set()
        for group in (1, 2, 4, 8):
            program = self.program()
            program.ops[0].rms_norm.group = group
            ids.add(self.load(program, f"{self.name()}.{group}").program.id)
        listed, token = [], ""
        while True:
            page = self.stub.ListPrograms(pb.ListProgramsRequest(
                page_size=2, page_token=token), timeout=60)
            self.assertLessEqual(len(page.programs), 2)
            listed += page.programs
            token = page.next_page_token
            if not token:
                break
        self.assertEqual(len(listed), len({info.id for info in listed}))
        self.assertLessEqual(ids, {info.id for info in listed})
        self.assertEqual({info.text for info in listed}, {""})

    def test_server_info_counts_programs_and_tells_their_revision(self):
        def info():
            return self.stub.GetServerInfo(pb.GetServerInfoRequest(),
                                           timeout=60)

        before = info().programs
        self.load(self.program())
        self.assertEqual(info().programs, before + 1)
        self.assertEqual(info().program_revision, 1)

    # Weights under a program -----------------------------------------------

    def unload_layer(self):
        self.stub.UnloadWeights(pb.UnloadWeightsRequest(weights=self.layer),
                                timeout=60)

    def test_a_program_keeps_weights_that_are_unloaded(self):
        loaded = self.load(self.program()).program
        held = self.held_bytes()
        self.unload_layer()
        self.assertEqual(self.get(self.name()), loaded)
        self.assertGreater(self.held_bytes(), held - 1000)  # but for names
        self.assert_code(grpc.StatusCode.NOT_FOUND,
                         lambda: self.load(self.program()), "op 1", "up",
                         self.name(), "not loaded")
        self.assertTrue(self.unload(self.name()))
        self.assertLess(self.held_bytes(), held - 2 * N * K)

    def test_a_name_of_weights_that_moves_makes_another_program(self):
        first = self.load(self.program()).program
        self.w += 1
        moved = self.upload_dense().weights.id
        self.assertNotEqual(moved, self.layer)
        second = self.load(self.program(), self.name() + ".moved")
        self.assertFalse(second.deduplicated)
        self.assertEqual(list(second.program.weights), [moved])
        self.assertEqual(list(self.get(first.id).weights), [self.layer])

    # Refusals --------------------------------------------------------------

    def test_errors_name_the_op_the_value_and_the_limit(self):
        program = self.program()
        program.inputs[0].width = K - 1
        self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT, program,
                            "op 0", "rms_norm", "value 1", str(K))
        program = self.program()
        program.ops[0].convert.x = 0
        del program.constants[:]
        program.inputs[0].width = K - 1
        program.ops[1].gemm.x = 1
        program.ops[2].act.x = 2
        program.outputs[0] = 3
        self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT, program,
                            "op 1 (gemm up)", "value 1", f"width {K - 1}",
                            f"k = {K}")
        program = self.program()
        program.ops.extend([program.ops[2]] * 64)
        self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT, program,
                            "67 ops", "at most 64")

    def test_unknown_weights_are_named(self):
        self.assert_refused(grpc.StatusCode.NOT_FOUND,
                            self.program(weights="nobody"),
                            "op 1 (gemm up)", "nobody")

    def test_a_mode_that_the_weights_lack(self):
        program = self.program()
        program.ops[1].gemm.mode = Program.Gemm.MODE_A8
        self.assert_refused(grpc.StatusCode.UNIMPLEMENTED, program, "op 1")

    def test_a_later_revision_and_unknown_fields(self):
        self.assert_refused(grpc.StatusCode.UNIMPLEMENTED,
                            self.program(revision=2), "revision = 2")
        self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT,
                            self.program(revision=0), "revision = 0")
        program = self.program()
        program.ops[1].MergeFromString(b"\x98\x06\x01")  # field 99 = 1
        self.assert_refused(grpc.StatusCode.UNIMPLEMENTED, program,
                            "ops[1]", "field 99")

    def test_constants_beyond_the_limit(self):
        program = self.program()
        program.constants[0].values = bytes((1 << 20) + 4)
        self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT, program,
                            str((1 << 20) + 4), str(1 << 20))

    def test_bad_names(self):
        for name in ("a b", "x" * 129, "f" * 64):
            with self.subTest(name=name):
                self.assert_code(grpc.StatusCode.INVALID_ARGUMENT,
                                 lambda n=name: self.load(self.program(), n))


if __name__ == "__main__":
    unittest.main()
