# SPDX-License-Identifier: Apache-2.0
"""Keeps a client's lane: opens it, and the next after its end."""

from __future__ import annotations

import threading
import time
from typing import Callable, Optional

from qgemm import errors
from qgemm._lane import Lane

OPEN_SECONDS = 2.0  # for opening a lane that is not required
MIN_PAUSE, MAX_PAUSE = 0.05, 5.0  # between tries to open one that ended


class Keeper:
    """A client's lane: opened at first, and again some time after it ended.
    Thread-safe."""

    def __init__(self, path: Callable[[float], str], token: Callable[[], str],
                 is_required: bool) -> None:
        """path: where the server says the lane is, asked with a timeout."""
        self._path, self._token = path, token
        self.is_required = is_required
        self._lock = threading.Lock()
        self._lane: Optional[Lane] = None
        self._pause, self._next_try = MIN_PAUSE, 0.0
        self._is_closed = False

    def open(self, timeout: float) -> None:
        """Raises errors.Error if there is none."""
        self._lane = self._opened(timeout)

    def _opened(self, timeout: float) -> Lane:
        path = self._path(timeout)
        if not path:
            raise errors.make("UNAVAILABLE", "the server offers no lane to this "
                              "client; one that does has --lane_listen")
        return Lane(path, self._token(), timeout)

    def lane(self) -> Optional[Lane]:
        """None: there is none now."""
        lane = self._lane
        if lane is not None and not lane.has_ended:
            return lane
        if not self._lock.acquire(blocking=False):
            return None  # another thread opens it
        try:
            if self._is_closed or time.monotonic() < self._next_try:
                return None
            if lane is not None:
                lane.end()
            self._lane = None
            try:
                self.open(OPEN_SECONDS)
                self._pause = MIN_PAUSE
            except errors.Error:
                self._next_try = time.monotonic() + self._pause
                self._pause = min(2 * self._pause, MAX_PAUSE)
            return self._lane
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._lane is not None:
                self._lane.end()
            self._lane = None  # its memory goes with the last call
