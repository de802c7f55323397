# SPDX-License-Identifier: Apache-2.0
"""Sleep on a word of memory that processes share, futex(2) of Linux."""

from __future__ import annotations

import ctypes
import platform
import sys
from typing import Any

# Of 64-bit machines, whose timespec has two words of 64 bits.
_NUMBER = ({"x86_64": 202, "aarch64": 98, "riscv64": 98}.get(platform.machine())
           if sys.platform == "linux" else None)
_WAIT, _WAKE, _ALL = 0, 1, 0x7FFFFFFF


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64)]


_syscall: Any = None
if _NUMBER is not None:
    _syscall = ctypes.CDLL(None).syscall  # releases the interpreter's lock meanwhile
    _syscall.restype = ctypes.c_long
    _syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32,
                         ctypes.POINTER(_Timespec)]


def is_known() -> bool:
    """True if this machine's number of the system call is known."""
    return _NUMBER is not None


def wait(address: int, shown: int, seconds: float) -> None:
    """Sleeps while the word shows that number, until it is woken or time is over; it
    may return early."""
    limit = _Timespec(int(seconds), int(seconds % 1 * 1e9))
    _syscall(_NUMBER, address, _WAIT, shown, limit)


def wake(address: int) -> None:
    """Wakes all that sleep on the word."""
    _syscall(_NUMBER, address, _WAKE, _ALL, None)
