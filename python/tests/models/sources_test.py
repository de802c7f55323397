# SPDX-License-Identifier: Apache-2.0
"""Tests that files are read as they are, and that one which changes while it is read
is an error, not the end of the process."""

import os
import threading
import unittest

import numpy as np
from gguf import GGMLQuantizationType as Type

import checkpoints
import qgemm
from cases import FolderTest, ServerTest
from qgemm.loading import CheckpointError, open_checkpoint
from qgemm.loading import sources


class FileTest(FolderTest):

    def file(self, content):
        path = self.path("file")
        with open(path, "wb") as file:
            file.write(content)
        return sources.File(path)

    def test_reads_are_what_the_file_has_there(self):
        content = self.random.bytes(3 * 1000)
        file = self.file(content)
        self.addCleanup(setattr, sources, "TURN_BYTES", sources.TURN_BYTES)
        sources.TURN_BYTES = 7
        window = sources.Window(file)
        for begin, count in ((0, 0), (0, 3000), (2999, 1), (1500, 900), (3000, 0)):
            want = content[begin:begin + count]
            self.assertEqual(want, file.read(begin, count).tobytes())
            self.assertEqual(want, window.read(begin, count))

    def test_threads_do_not_move_each_others_place(self):
        content = self.random.bytes(1 << 16)
        file = self.file(content)
        wrong = []

        def work(begin):
            for _ in range(300):
                if file.read(begin, 999).tobytes() != content[begin:begin + 999]:
                    wrong.append(begin)

        threads = [threading.Thread(target=work, args=(i * 1000,))
                   for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong)

    def test_a_file_that_takes_the_name_is_not_read(self):
        file = self.file(b"a" * 100)
        os.unlink(file.path)
        self.file(b"b" * 100)
        self.assertEqual(b"a" * 100, file.read(0, 100).tobytes())

    def test_a_shortened_file_is_an_error_with_its_sizes(self):
        file = self.file(b"a" * 100)
        os.truncate(file.path, 40)
        self.assertEqual(b"a" * 40, file.read(0, 40).tobytes())
        for begin, count in ((0, 41), (39, 2), (40, 60), (70, 10)):
            with self.assertRaisesRegex(CheckpointError, "shortened.* had 100"):
                file.read(begin, count)


class ShortenedTest(ServerTest):

    def write(self):
        """Paths of checkpoints of each kind whose last layer is "z"."""
        normal = self.random.standard_normal((64, 256)).astype(np.float32)
        checkpoints.write_safetensors(self.path("m.safetensors"), {
            "a.weight": normal.astype("<f2"), "z.weight": normal.astype("<f2")})
        checkpoints.write_gguf(
            self.path("m.gguf"), {"a.weight": normal, "z.weight": normal},
            {"a.weight": Type.Q4_0, "z.weight": Type.Q6_K})
        return self.path("m.safetensors"), self.path("m.gguf")

    def test_a_checkpoint_that_is_shortened_before_its_upload(self):
        for path in self.write():
            checkpoint = open_checkpoint(path)
            os.truncate(path, os.path.getsize(path) - 1)
            with self.assertRaisesRegex(CheckpointError, "shortened"):
                qgemm.load_model(self.client, checkpoint, format="kbit4")
            self.assertNotIn("z", [each for info in self.client.weights()
                                   for each in info.names])

    def test_a_checkpoint_that_is_shortened_in_the_middle_of_its_upload(self):
        for path in self.write():
            client = ShorteningClient(self.client, path)
            with self.assertRaisesRegex(CheckpointError, "shortened"):
                qgemm.load_model(client, path, format="kbit4", jobs=1)
            self.assertEqual(["a"], client.loaded)


class ShorteningClient:
    """Passes one upload on, then shortens the file; a worker that has the layers in
    turn reads the next one after that."""

    def __init__(self, client, path):
        self.client, self.path, self.loaded = client, path, []

    def load_packed(self, name, spec, sections, **options):
        result = self.client.load_packed(name, spec, sections, **options)
        os.truncate(self.path, 1000)
        self.loaded.append(name)
        return result


if __name__ == "__main__":
    unittest.main()
