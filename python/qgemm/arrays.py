# SPDX-License-Identifier: Apache-2.0
"""Operands and results: NumPy, torch and DLPack arrays as flat little-endian bytes.

NumPy has no bfloat16 of its own. Operands of that type come as arrays of
ml_dtypes.bfloat16, torch tensors or by DLPack; results in NumPy are
ml_dtypes.bfloat16 if that package is installed and else widened to float32.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import sys
from typing import Any, Optional, Sequence

import numpy as np

from qgemm.v1 import qgemm_pb2 as pb



class Choices(dict[str, Any]):
    """Numbers of the proto by their names."""

    def __missing__(self, name: str) -> Any:
        raise ValueError(f"{name!r} is none of {', '.join(self)}")


# What holds the elements of each type; bf16 by its bits.
STORAGE: dict[str, Any] = {"fp32": np.dtype("<f4"), "fp16": np.dtype("<f2"),
                           "bf16": np.dtype("<u2"), "int32": np.dtype("<i4")}
_TYPE_OF = {STORAGE[name]: name for name in ("fp32", "fp16")}
_RESULTS = {**_TYPE_OF, STORAGE["int32"]: "int32"}
FLOAT_TYPE = Choices({name: pb.FloatType.Value(f"FLOAT_TYPE_{name.upper()}")
                      for name in ("fp32", "fp16", "bf16")})


@dataclasses.dataclass
class Operand:
    """An array of floats: C-contiguous elements in the storage of their type."""

    elements: Any  # np.ndarray of STORAGE[type]
    type: str      # fp32, fp16 or bf16
    is_torch: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.elements.shape)

    @property
    def view(self) -> memoryview:
        """The bytes, where they lie."""
        flat = self.elements.reshape(-1).view(np.uint8)
        return memoryview(flat)

    def as_type(self, type: str) -> "Operand":
        """The same numbers, rounded to nearest even where the type is another."""
        if type == self.type:
            return self
        floats = self.as_float32()
        if type == "bf16":
            return Operand(to_bf16(floats), type, self.is_torch)
        return Operand(floats.astype(STORAGE[type]), type, self.is_torch)

    def as_float32(self) -> Any:
        if self.type == "bf16":
            return from_bf16(self.elements)
        return self.elements.astype(np.float32, copy=False)


def to_bf16(values: Any) -> Any:
    """float32 rounded to nearest even, as the uint16 bits of bfloat16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, (bits >> 16 | 0x40).astype(np.uint16), rounded)


def from_bf16(bits: Any) -> Any:
    """The uint16 bits of bfloat16 as float32, exactly."""
    return np.left_shift(bits, 16, dtype=np.uint32).view(np.float32)


def as_operand(x: Any) -> Operand:
    """The operand of a NumPy array, torch tensor or DLPack array in host memory, or
    of nested lists. float64 is rounded to float32. Copies only what is not
    C-contiguous or has another type.

    TypeError: neither floats nor convertible to them."""
    kind = _TYPE_OF.get(x.dtype) if isinstance(x, np.ndarray) else None
    if kind is not None and x.flags.c_contiguous:
        return Operand(x, kind)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _of_torch(torch, x)
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return _of_numpy(np.asarray(x))
    try:
        return _of_numpy(np.from_dlpack(x))
    except (BufferError, RuntimeError):  # bf16 is none of NumPy's types
        return Operand(_bf16_of_dlpack(x), "bf16")


def _of_numpy(x: Any) -> Operand:
    if x.dtype.name == "bfloat16":
        return Operand(np.asarray(x, order="C").view(np.uint16), "bf16")
    if x.dtype.kind == "f" and x.dtype.itemsize == 2:
        return Operand(np.asarray(x, "<f2", order="C"), "fp16")
    if x.dtype.kind == "f" and x.dtype.itemsize <= 8:
        return Operand(np.asarray(x, "<f4", order="C"), "fp32")
    raise TypeError(f"the array has elements of {x.dtype}; "
                    "expected float16, bfloat16, float32 or float64")


def _of_torch(torch: Any, x: Any) -> Operand:
    x = x.detach().cpu().contiguous()
    if x.dtype == torch.bfloat16:
        return Operand(x.view(torch.int16).numpy().view(np.uint16), "bf16", True)
    return dataclasses.replace(_of_numpy(x.numpy()), is_torch=True)


class _DLTensor(ctypes.Structure):
    """dlpack.h: DLTensor, which a DLManagedTensor begins with."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


def _bf16_of_dlpack(x: Any) -> Any:
    """The bits of a bf16 array, which NumPy does not take by DLPack. The capsule is
    not consumed but kept by the array: its own destructor frees what it holds."""
    capsule = x.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer_of(capsule, b"dltensor"))
    if (tensor.device_type, tensor.code, tensor.bits, tensor.lanes) != (1, 4, 16, 1):
        raise TypeError("the DLPack array is neither floats nor bf16 in host memory; "
                        "copy it to the host first")
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    if 0 in shape:
        return np.empty(shape, np.uint16)
    strides = [2 * (tensor.strides[i] if tensor.strides else math.prod(shape[i + 1:]))
               for i in range(tensor.ndim)]
    reaches = [(extent - 1) * step for extent, step in zip(shape, strides)]
    before = -sum(min(0, reach) for reach in reaches)
    after = sum(max(0, reach) for reach in reaches) + 2
    memory = (ctypes.c_uint8 * (before + after)).from_address(
        tensor.data + tensor.byte_offset - before)
    memory.capsule = capsule
    lent = np.ndarray(shape, np.uint16, memory, before, strides)
    return np.asarray(lent, order="C")


class Result:
    """Memory of a result, and the array over it that a caller is given."""

    def __init__(self, shape: Sequence[int], type: str, is_torch: bool,
                 out: Optional[Any] = None) -> None:
        if out is not None:
            self._array = out
            self._elements, given = lent(out)
            if self._elements.shape != tuple(shape) or given != type:
                raise ValueError(f"out is {list(self._elements.shape)} of {given}; "
                                 f"the result is {list(shape)} of {type}")
        elif is_torch:
            self._array, self._elements = _new_tensor(shape, type)
        else:
            self._elements = np.empty(shape, STORAGE[type])
            self._array = None
        self._type = type
        # The bytes to be filled, a flat uint8 array.
        self.memory = self._elements.reshape(-1).view(np.uint8)

    def array(self) -> Any:
        """The caller's array, once the memory is filled."""
        if self._array is not None:
            return self._array
        if self._type != "bf16":
            return self._elements
        try:
            import ml_dtypes
        except ImportError:
            return from_bf16(self._elements)
        return self._elements.view(ml_dtypes.bfloat16)


def _new_tensor(shape: Sequence[int], type: str) -> tuple[Any, Any]:
    torch = sys.modules["torch"]
    kind = {"fp32": torch.float32, "fp16": torch.float16,
            "bf16": torch.bfloat16, "int32": torch.int32}[type]
    tensor = torch.empty(tuple(shape), dtype=kind)
    if type == "bf16":
        return tensor, tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor, tensor.numpy()


def lent(out: Any) -> tuple[Any, str]:
    """The elements of a caller's NumPy array or torch tensor, where they lie, and
    their type. ValueError: they cannot be filled."""
    torch = sys.modules.get("torch")
    elements = out
    if torch is not None and isinstance(out, torch.Tensor):
        if out.device.type != "cpu" or not out.is_contiguous():
            raise ValueError("out must be contiguous and in the host's memory")
        flat = out.detach()
        elements = (flat.view(torch.int16).numpy().view(np.uint16)
                    if out.dtype == torch.bfloat16 else flat.numpy())
        kind = "bf16" if out.dtype == torch.bfloat16 else _RESULTS.get(elements.dtype)
    elif isinstance(out, np.ndarray) and out.dtype.name == "bfloat16":
        elements, kind = out.view(np.uint16), "bf16"
    elif isinstance(out, np.ndarray):
        kind = _RESULTS.get(out.dtype)
    else:
        raise TypeError(f"out is a {type(out).__name__}; expected NumPy or torch")
    if kind is None or not (elements.flags.c_contiguous and elements.flags.writeable):
        raise ValueError(f"out has elements of {elements.dtype}; it must be writable, "
                         "C-contiguous and of float16, bfloat16, float32 or int32")
    return elements, kind
