# SPDX-License-Identifier: Apache-2.0
"""The parts of a checkpoint that a client keeps: rows of norms, tables that are
looked up."""

from __future__ import annotations

from typing import Callable

import numpy as np

from qgemm.loading import Checkpoint, CheckpointError, Tensor
from qgemm.loading.sources import Array


class Tables:
    """A checkpoint's tensors as fp32, by name."""

    def __init__(self, checkpoint: Checkpoint):
        self._checkpoint = checkpoint

    def base(self, name: str) -> str:
        """What stands before `name` in the checkpoint's names, as in "model."."""
        for found in self._checkpoint.tensors:
            if found == name or found.endswith("." + name):
                return found[:len(found) - len(name)]
        raise CheckpointError(f"{self._checkpoint.path}: no tensor {name}")

    def tensor(self, name: str, dimensions: int) -> Tensor:
        tensor = self._checkpoint.tensors.get(name)
        if tensor is None or len(tensor.shape) != dimensions:
            raise CheckpointError(
                f"{self._checkpoint.path}: no tensor {name} of {dimensions} "
                "dimensions")
        return tensor

    def row(self, name: str) -> Array:
        """[width] fp32."""
        return self.tensor(name, 1).float32()

    def matrix(self, name: str) -> Array:
        """[rows, width] fp32, in memory."""
        return self.tensor(name, 2).float32()

    def table(self, name: str) -> Callable[[Array], Array]:
        """Looks ids up in the file: ids [m] -> fp32 [m, width].

        IndexError for an id that the table does not have."""
        tensor = self.tensor(name, 2)
        count, width = tensor.shape

        def look_up(ids: Array) -> Array:
            found = np.empty((len(ids), width), np.float32)
            for i, each in enumerate(ids):
                if not -count <= each < count:
                    raise IndexError(f"{tensor}: id {each} of {count}")
                found[i] = tensor.row(int(each) % count).float32()
            return found

        return look_up
