# SPDX-License-Identifier: Apache-2.0
"""Tests what the readers make of files: tensors, shapes, values."""

import unittest

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import checkpoints
from cases import FolderTest
from qgemm.loading import CheckpointError, open_checkpoint
from qgemm.loading.gguf import TYPES
from qgemm.loading.ggml_blocks import decode
from qgemm.loading.int4 import make_int4_layer, read_config


class SafetensorsTest(FolderTest):

    def test_values_are_those_of_the_file(self):
        tensors = {
            "a": self.random.standard_normal((3, 5)).astype("<f4"),
            "b": self.random.standard_normal((4, 2)).astype("<f2"),
            "c": np.array([[0x3f80, 0xc020]], "<u2"),
            "d": np.arange(4, dtype="<i8")}
        checkpoints.write_safetensors(self.path("x.safetensors"), tensors,
                                      __metadata__={"format": "pt"})
        found = open_checkpoint(self.path("x.safetensors")).tensors
        self.assertEqual(list(tensors), list(found))
        for name, array in tensors.items():
            np.testing.assert_array_equal(array, found[name].array())
        np.testing.assert_array_equal([[1, -2.5]], found["c"].float32())

    def test_a_directory_has_the_tensors_of_its_index(self):
        one, two = np.ones((2, 3), "<f4"), np.zeros((1, 3), "<f4")
        checkpoints.write_safetensors(self.path("m-1.safetensors"), {"a": one})
        checkpoints.write_safetensors(self.path("m-2.safetensors"), {"b": two})
        index = {"a": "m-1.safetensors", "b": "m-2.safetensors"}
        name = "model.safetensors.index.json"
        checkpoints.write_json(self.folder, name, {"weight_map": index})
        checkpoints.write_json(self.folder, "config.json", {"model_type": "x"})
        found = open_checkpoint(self.folder)
        self.assertEqual({"a", "b"}, set(found.tensors))
        self.assertEqual({"model_type": "x"}, found.config)
        for wrong in ({**index, "c": "m-1.safetensors"},
                      {**index, "a": "m-2.safetensors"},
                      {"a": "../m-1.safetensors"}, {"a": "m-3.safetensors"},
                      {"a": 1}, [index]):
            checkpoints.write_json(self.folder, name, {"weight_map": wrong})
            with self.assertRaises(CheckpointError, msg=str(wrong)):
                open_checkpoint(self.folder)

    def test_files_that_are_no_checkpoint_are_refused(self):
        with self.assertRaisesRegex(CheckpointError, "no .safetensors"):
            open_checkpoint(self.folder)
        with self.assertRaises(CheckpointError):
            open_checkpoint(self.path("absent"))
        for content in (b"", b"1234567", b"\xff" * 64, b"GGUF" + b"\1" * 40):
            with open(self.path("y"), "wb") as file:
                file.write(content)
            with self.assertRaises(CheckpointError):
                open_checkpoint(self.path("y"))


class GgufTest(FolderTest):

    def test_every_type_of_the_package_is_known_with_its_size(self):
        for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
            self.assertEqual((kind.name, elements, size), TYPES[int(kind)])

    def test_blocks_decode_to_the_bits_of_the_package(self):
        array = self.random.standard_normal((6, 512)).astype(np.float32)
        for kind in (Type.Q4_0, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K):
            blocks = checkpoints.blocks_of(array, kind)
            want = gguf.quants.dequantize(blocks, kind)
            got = decode(kind.name, blocks.reshape(-1), array.shape)
            self.assertGreater(np.abs(want).max(), 0)
            np.testing.assert_array_equal(want, got, err_msg=kind.name)

    def test_a_file_of_the_package_has_its_tensors(self):
        array = self.random.standard_normal((3, 64)).astype(np.float32)
        checkpoints.write_gguf(
            self.path("m.gguf"),
            {"blk.0.attn_q.weight": array, "output_norm.weight": array[0]},
            {"blk.0.attn_q.weight": Type.Q8_0})
        found = open_checkpoint(self.path("m.gguf"))
        self.assertEqual(1, found.config["llama.block_count"])
        self.assertNotIn("tokenizer.ggml.tokens", found.config)
        weight = found.tensors["blk.0.attn_q.weight"]
        self.assertEqual(("Q8_0", (3, 64)), (weight.type, weight.shape))
        np.testing.assert_array_equal(
            array[0], found.tensors["output_norm.weight"].array())


class Int4Test(FolderTest):

    def layer(self, tensors, config):
        checkpoints.write_safetensors(self.path("q.safetensors"), tensors)
        found = open_checkpoint(self.path("q.safetensors")).tensors
        return make_int4_layer("x", found, read_config(config))

    def test_gptq_decodes_to_its_weights(self):
        for version, act_order in ((1, False), (2, False), (1, True)):
            tensors, want = checkpoints.gptq_layer(
                "x", self.random, 16, 128, 32, version, act_order)
            layer = self.layer(tensors, {
                "quant_method": "gptq", "bits": 4, "group_size": 32,
                "checkpoint_format": "gptq" if version == 1 else "gptq_v2"})
            np.testing.assert_array_equal(want, layer.decoded())
            self.assertEqual(act_order, layer.group_index is not None)

    def test_awq_decodes_to_its_weights(self):
        tensors, want = checkpoints.awq_layer("x", self.random, 16, 64, 64)
        layer = self.layer(tensors, {
            "quant_method": "awq", "bits": 4, "group_size": 64})
        np.testing.assert_array_equal(want, layer.decoded())

    def test_what_does_not_fit_is_refused(self):
        config = {"quant_method": "gptq", "bits": 4, "group_size": 32}
        for key, value in (("bits", 8), ("group_size", 48), ("bits", "4"),
                           ("quant_method", "fp8"), ("group_size", None),
                           ("checkpoint_format", "marlin")):
            with self.assertRaisesRegex(CheckpointError, key):
                read_config({**config, key: value})
        tensors, _ = checkpoints.gptq_layer("x", self.random, 16, 128, 32, 1)
        for name, array in (
                ("x.scales", tensors["x.scales"][1:]),
                ("x.qzeros", tensors["x.qzeros"].reshape(2, 4)),
                ("x.g_idx", tensors["x.g_idx"] + 1),
                ("x.g_idx", tensors["x.g_idx"] * 0),
                ("x.qweight", tensors["x.qweight"].reshape(-1))):
            with self.assertRaisesRegex(CheckpointError, name):
                self.layer({**tensors, name: array}, config)


if __name__ == "__main__":
    unittest.main()
