# SPDX-License-Identifier: Apache-2.0
"""What tests have before they begin: a folder, or a server too."""

import os
import tempfile
import unittest

import numpy as np

import qgemm


class FolderTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.random = np.random.default_rng(1)

    def path(self, name):
        return os.path.join(self.folder, name)


class ServerTest(FolderTest):

    @classmethod
    def setUpClass(cls):
        cls.server = qgemm.serve("--backend=cpu")
        cls.client = cls.server.connect()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def tearDown(self):
        for program in self.client.programs():
            self.client.unload_program(program.id)
        for weights in self.client.weights():
            self.client.unload(weights.id)
