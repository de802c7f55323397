# SPDX-License-Identifier: Apache-2.0
"""Where a checkpoint's bytes come from: files, read piece by piece, or memory.

A mapped file would end the process if it were shortened meanwhile; a read one is a
CheckpointError then.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol

import numpy as np

Array = Any  # a NumPy array; its shape stands where it is made
TURN_BYTES = 16 << 20  # of a read; then another thread has its turn


class CheckpointError(ValueError):
    """A file is not what it says it is, or holds what cannot be loaded."""


class Source(Protocol):
    """Bytes that are read by their place."""

    def read_into(self, begin: int, made: Array) -> None:
        """Fills a uint8 array. Raises CheckpointError if the bytes are not there."""

    def read(self, begin: int, count: int) -> Array:
        """The bytes [count], uint8; so too."""


class Memory:
    """A uint8 array, which is lent, not copied."""

    def __init__(self, data: Array) -> None:
        self._data = data

    def read_into(self, begin: int, made: Array) -> None:
        made[:] = self.read(begin, made.size)

    def read(self, begin: int, count: int) -> Array:
        return self._data[begin:begin + count]


class File:
    """A file, open as long as there is the object; another that takes its name is
    not read. Thread-safe."""

    def __init__(self, path: str) -> None:
        """Raises CheckpointError if it cannot be opened, or is empty."""
        self.path = path
        self._lock = threading.Lock()  # of the file's position
        try:
            self._file = open(path, "rb", buffering=0)
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from error
        self.size = os.fstat(self._file.fileno()).st_size
        if self.size == 0:
            raise CheckpointError(f"{path}: the file is empty")

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def read(self, begin: int, count: int) -> Array:
        made = np.empty(count, np.uint8)
        self.read_into(begin, made)
        return made

    def read_into(self, begin: int, made: Array) -> None:
        done = 0
        while done < made.size:
            got = self._read_part(begin + done, made[done:done + TURN_BYTES])
            if got == 0:
                raise CheckpointError(
                    f"{self.path}: bytes {begin} to {begin + made.size} are wanted, "
                    f"and it ends by {begin + done}: it was shortened since it was "
                    f"opened, when it had {self.size}")
            done += got

    def _read_part(self, begin: int, part: Array) -> int:
        try:
            with self._lock:
                self._file.seek(begin)
                return self._file.readinto(memoryview(part)) or 0
        except OSError as error:
            raise CheckpointError(f"{self.path}: {error.strerror}") from error


class Window:
    """A file's bytes from the first on, a piece of it at a time in memory: for
    headers, whose fields are small and many."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._begin = 0
        self._bytes = b""

    def read(self, begin: int, count: int) -> bytes:
        """Bytes that lie within the file's size."""
        at = begin - self._begin
        if not 0 <= at <= at + count <= len(self._bytes):
            wanted = max(count, min(1 << 20, self._file.size - begin))
            self._begin, at = begin, 0
            self._bytes = self._file.read(begin, wanted).tobytes()
        return self._bytes[at:at + count]
