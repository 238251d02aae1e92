"""Arrays of a caller as memory: numpy's, or those of any library through DLPack."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from ._errors import InvalidArgument

FLOAT32 = np.dtype(np.float32)
_ITEM = FLOAT32.itemsize


class Dense(NamedTuple):
    """fp32 memory that somebody else owns."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # floats
    owner: Any  # kept while the memory is used


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)),
                ("byte_offset", c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_DL_CPU = 1
_DL_FLOAT = 2
_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


def _wrong_type(name: str, what: str, expected: str = "float32") -> TypeError:
    return TypeError(f"{name} is {what}; expected {expected}")


def _contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def _of_dlpack(array: Any, name: str) -> Dense:
    # Not consumed: the capsule releases the memory when it goes.
    capsule = array.__dlpack__()
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if tensor.device_type != _DL_CPU:
        raise _wrong_type(name, f"in memory of a device (DLPack type {tensor.device_type})",
                          "an array in memory of the CPU")
    if (tensor.code, tensor.bits, tensor.lanes) != (_DL_FLOAT, 32, 1):
        raise _wrong_type(name, f"{_DL_KINDS.get(tensor.code, 'unknown')}{tensor.bits}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _contiguous_strides(shape)
    return Dense((tensor.data or 0) + tensor.byte_offset, shape, strides, capsule)


def dense(array: Any, name: str, *, writable: bool = False) -> Dense:
    """The memory of an fp32 array. TypeError for another type or what is no array; InvalidArgument
    for memory that cannot be read as floats, or cannot be written to."""
    if isinstance(array, np.ndarray):
        if array.dtype != FLOAT32:
            raise _wrong_type(name, array.dtype.name if array.dtype.isnative else str(array.dtype),
                              f"float32: {name}.astype(numpy.float32)")
        pointer, read_only = array.__array_interface__["data"]
        if writable and read_only:
            raise InvalidArgument(f"{name} is read-only; expected an array to write to")
        strides = array.strides
        if pointer % _ITEM or any(stride % _ITEM for stride in strides):
            raise InvalidArgument(f"{name} has floats that are not aligned to 4 bytes; expected an "
                                  "aligned array")
        return Dense(pointer, array.shape, tuple([stride // _ITEM for stride in strides]), array)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, name)
    raise _wrong_type(name, type(array).__name__, "a float32 array of numpy, or one with DLPack")


def vector(array: Any, name: str, length: int) -> Dense:
    """A contiguous [length]."""
    memory = dense(array, name)
    if memory.shape != (length,):
        raise InvalidArgument(f"{name} has the shape {list(memory.shape)}; expected [{length}]")
    if length > 1 and memory.strides[0] != 1:
        raise InvalidArgument(f"{name} has a stride of {memory.strides[0]} floats; expected a "
                              f"contiguous array: numpy.ascontiguousarray({name})")
    return memory


def _merged(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """The distance of elements of these dimensions as one; None if there is no such."""
    stride, size = None, 1
    for extent, distance in zip(reversed(shape), reversed(strides)):
        if extent == 1:
            continue
        if stride is None:
            stride = distance
        elif distance != stride * size:
            return None
        size *= extent
    return 0 if stride is None else stride


class Placed(NamedTuple):
    """How an operand lies: what spjit_arguments says of it."""

    layout: int  # enum spjit_layout
    ld: int
    distance: int


FEATURES = 1  # SPJIT_LAYOUT_FEATURES
TOKENS = 2  # SPJIT_LAYOUT_TOKENS


def place(memory: Dense, tokens_major: bool, batch_dims: int) -> Placed | None:
    """Of [batch..., tokens..., features], or [batch..., features, tokens] where not `tokens_major`,
    with `batch_dims` dimensions of the batch; None if it is no batch of matrices with unit stride
    in one direction."""
    shape, strides = memory.shape, memory.strides
    if tokens_major:
        features, feature_stride = shape[-1], strides[-1]
        token_shape, token_strides = shape[batch_dims:-1], strides[batch_dims:-1]
    else:
        features, feature_stride = shape[-2], strides[-2]
        token_shape, token_strides = shape[-1:], strides[-1:]
    distance = _merged(shape[:batch_dims], strides[:batch_dims])
    token_stride = _merged(token_shape, token_strides)
    if distance is None or token_stride is None:
        return None
    tokens = 1
    for extent in token_shape:
        tokens *= extent
    # The stride of a dimension of one element means nothing.
    if features == 1 and tokens == 1:
        return Placed(FEATURES, 1, distance)
    if feature_stride == 1 or features == 1:
        if tokens == 1:
            return Placed(TOKENS, features, distance)
        if token_stride > 0:
            return Placed(TOKENS, token_stride, distance)
    if token_stride == 1 or tokens == 1:
        if feature_stride > 0:
            return Placed(FEATURES, feature_stride, distance)
    return None
