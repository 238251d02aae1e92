"""Arrays of a caller as memory: numpy's, or those of any library through DLPack."""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, NamedTuple, Optional

import numpy as np

from ._errors import InvalidArgument, InvalidMatrix

FLOAT32 = np.dtype(np.float32)
_ITEM = FLOAT32.itemsize


class Elements(NamedTuple):
    """A type of elements."""

    name: str  # of numpy
    size: int  # bytes
    dlpack: tuple[int, int]  # code and bits
    dtype: Optional[np.dtype[Any]]  # None: numpy has none

    def dtype_like(self, array: Any) -> np.dtype[Any]:
        """The dtype of a new array beside `array`. Types that numpy lacks are those of ml_dtypes,
        where the program has imported it."""
        if self.dtype is not None:
            return self.dtype
        dtype = getattr(array, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.name == self.name:
            return dtype
        if "ml_dtypes" in sys.modules:
            return np.dtype(getattr(sys.modules["ml_dtypes"], self.name))
        raise InvalidArgument(f"y is {self.name}, which numpy does not have; expected out=, an array "
                              "for y")


def _elements(name: str, dlpack: tuple[int, int], in_numpy: bool = True) -> Elements:
    return Elements(name, dlpack[1] // 8, dlpack, np.dtype(name) if in_numpy else None)


ELEMENTS = {"f32": _elements("float32", (2, 32)), "f16": _elements("float16", (2, 16)),
            "bf16": _elements("bfloat16", (4, 16), in_numpy=False),
            "i32": _elements("int32", (0, 32)), "i8": _elements("int8", (0, 8)),
            "u8": _elements("uint8", (1, 8))}
_FLOATS = ELEMENTS["f32"]

Extents = tuple[int, ...]
# Memory that somebody else owns: the address, the shape, the strides in bytes, and what keeps
# the memory. Plain tuples: a call has to take few microseconds.
Dense = tuple[int, Extents, Extents, Any]


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)),
                ("byte_offset", c_uint64)]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_DL_CPU = 1
_ON_CPU = "an array in memory of the CPU"
_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


def wrong_type(name: str, what: str, expected: str) -> TypeError:
    return TypeError(f"{name} is {what}; expected {expected}")


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def dlpack_tensor(array: Any, name: str, **how: Any) -> tuple[Any, Any]:
    """Of `array.__dlpack__(**how)`: a capsule that keeps the memory, and the tensor in it."""
    is_negated = getattr(array, "is_neg", None)
    if is_negated is not None and is_negated():  # torch gives its memory all the same
        raise InvalidArgument(f"{name} is a negated view, whose memory has the opposite numbers; "
                              f"expected an array as it is in memory: {name}.resolve_neg()")
    try:
        capsule = array.__dlpack__(**how)  # not consumed: it releases the memory when it goes
    except (BufferError, RuntimeError) as error:  # of tensors with gradients, sparse or nested ones
        raise InvalidArgument(f"{name} is a {type(array).__name__} whose memory DLPack does not give: "
                              f"{error}") from error
    return capsule, _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))


def of_tensor(tensor: Any, name: str, elements: Elements, capsule: Any) -> Dense:
    """Of `dlpack_tensor`. TypeError for another type."""
    if (tensor.code, tensor.bits, tensor.lanes) != (*elements.dlpack, 1):
        raise wrong_type(name, f"{_DL_KINDS.get(tensor.code, 'unknown')}{tensor.bits}",
                         elements.name)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else contiguous_strides(shape)
    bytes_apart = tuple([stride * elements.size for stride in strides])
    return (tensor.data or 0) + tensor.byte_offset, shape, bytes_apart, capsule


def as_float32(array: Any, name: str) -> Any:
    """Rounded to fp32, by the rule of matrix files: NaN and infinities are taken as they are, a
    finite number beyond fp32 is refused. A copy only if it is another type or not contiguous."""
    if not np.can_cast(array.dtype, np.float32, casting="same_kind"):
        raise TypeError(f"{name} is {array.dtype}; expected real numbers")
    if np.ma.is_masked(array):
        raise InvalidMatrix(f"{name} has masked elements; expected a plain array: {name}.filled(0) "
                            "has zeros there")
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype.kind == "f" and array.dtype.itemsize > _ITEM:
        too_large = np.isinf(rounded) & np.isfinite(array)
        if too_large.any():
            at = int(np.argmax(too_large))
            raise InvalidMatrix(f"{name}: element {at} is {array.flat[at]!s}, which does not fit "
                                "fp32: expected at most 3.4028235e38")
    return rounded


def dense(array: Any, name: str, elements: Elements = _FLOATS, *,
          writable: bool = False) -> Dense:
    """The memory of an array of such elements. TypeError for another type or what is no array;
    InvalidArgument for memory that is not aligned, or cannot be written to, and for masked
    elements."""
    if isinstance(array, np.ndarray):
        if type(array) is not np.ndarray and np.ma.is_masked(array):
            raise InvalidArgument(f"{name} has masked elements; expected a plain array: "
                                  f"{name}.filled(0) has zeros there")
        dtype = array.dtype
        if dtype != elements.dtype if elements.dtype is not None else dtype.name != elements.name:
            module = "ml_dtypes" if elements.dtype is None else "numpy"
            raise wrong_type(name, dtype.name if dtype.isnative else str(dtype),
                             f"{elements.name}: {name}.astype({module}.{elements.name})")
        pointer, read_only = array.__array_interface__["data"]
        if writable and read_only:
            raise InvalidArgument(f"{name} is read-only; expected an array to write to")
        if pointer % elements.size:
            raise InvalidArgument(f"{name} begins at an address that is no multiple of "
                                  f"{elements.size}; expected an aligned array")
        return pointer, array.shape, array.strides, array
    if hasattr(array, "__dlpack__"):
        capsule, tensor = dlpack_tensor(array, name)
        if tensor.device_type != _DL_CPU:
            raise wrong_type(name, f"in memory of a device (DLPack type {tensor.device_type})",
                             _ON_CPU)
        return of_tensor(tensor, name, elements, capsule)
    if hasattr(array, "__cuda_array_interface__"):
        raise wrong_type(name, "in memory of a GPU", _ON_CPU)
    raise wrong_type(name, type(array).__name__,
                     f"a {elements.name} array of numpy, or one with DLPack")


# dense(), or the same of arrays that are elsewhere.
Read = Callable[..., Dense]


def vector(array: Any, name: str, length: int, read: Read = dense) -> Dense:
    """A contiguous [length]."""
    memory = read(array, name, _FLOATS)
    _, shape, strides, _ = memory
    if shape != (length,):
        raise InvalidArgument(f"{name} has the shape {list(shape)}; expected [{length}]")
    if length > 1 and strides[0] != _ITEM:
        raise InvalidArgument(f"{name} has a stride of {strides[0]} bytes; expected a contiguous "
                              f"array: numpy.ascontiguousarray({name})")
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


FEATURES = 1  # SPJIT_LAYOUT_FEATURES
TOKENS = 2  # SPJIT_LAYOUT_TOKENS

# How an operand lies: its layout (enum spjit_layout), leading dimension and distance, in elements.
Placed = tuple[int, int, int]
# Of a shape: how many of the first dimensions are a batch, which are features and which tokens.
Dimensions = tuple[int, int, slice]


def _place(shape: Extents, strides: Extents, size: int, dimensions: Dimensions,
           only: int | None) -> Placed | None:
    """None if it is no batch of matrices with unit stride in one direction, that of the layout
    `only`, if it is given. `size`: bytes of an element."""
    if any(stride % size for stride in strides):
        return None
    strides = tuple(stride // size for stride in strides)
    batch_dims, feature_dim, token_dims = dimensions
    features, feature_stride = shape[feature_dim], strides[feature_dim]
    token_shape = shape[token_dims]
    if features == 0:  # numpy's strides are 0 there, and mean nothing
        return (FEATURES, math.prod(token_shape), 0) if only == FEATURES else (TOKENS, 1, 0)
    distance = _merged(shape[:batch_dims], strides[:batch_dims])
    token_stride = _merged(token_shape, strides[token_dims])
    if distance is None or token_stride is None:
        return None
    tokens = math.prod(token_shape)
    # The stride of a dimension of one element means nothing.
    if features == 1 and tokens == 1 and only is None:
        return FEATURES, 1, distance
    if only != FEATURES and (feature_stride == 1 or features == 1):
        if tokens == 1:
            return TOKENS, features, distance
        if token_stride > 0:
            return TOKENS, token_stride, distance
    if only != TOKENS and (token_stride == 1 or tokens == 1):
        if features == 1:
            return FEATURES, tokens, distance
        if feature_stride > 0:
            return FEATURES, feature_stride, distance
    return None


# Of a call: how many of the last dimensions are tokens (pixels), whether they come before features,
# whether there may be any number of them, the shape of x and its strides, the same of y, the
# strides of the residual if there is one, the size of an element of x and of y, the only layout
# that the kernel takes if there is one. Strides and sizes are in bytes.
Shapes = tuple[int, bool, bool, Extents, Extents, Extents, Extents, Optional[Extents], int, int,
               Optional[int]]


class Placement(NamedTuple):
    """What spjit_arguments says of them."""

    n: int
    batch: int
    x: Placed
    y: Placed
    residual: Placed


@functools.lru_cache(maxsize=4096)
def placement(shapes: Shapes) -> Placement | None:
    """None if they cannot be computed without a copy."""
    (token_count, tokens_major, any_n, x_shape, x_strides, y_shape, y_strides, r_strides, x_size,
     y_size, only) = shapes
    most = max(len(x_shape) - 1 - token_count, 0)
    # Tokens that follow one another evenly are one matrix; else leading dimensions are a batch.
    least = 0 if tokens_major and any_n and token_count == 1 else most
    for batch_dims in range(least, most + 1):
        dimensions: Dimensions = (
            (batch_dims, -1, slice(batch_dims, -1)) if tokens_major else
            (batch_dims, -1 - token_count, slice(-token_count, None)))
        x = _place(x_shape, x_strides, x_size, dimensions, only)
        y = _place(y_shape, y_strides, y_size, dimensions, only)
        residual = (y if r_strides is None else
                    _place(y_shape, r_strides, y_size, dimensions, only))
        if x is None or y is None or residual is None or residual[0] != y[0]:
            continue
        return Placement(math.prod(x_shape[dimensions[2]]), math.prod(x_shape[:batch_dims]), x, y,
                         residual)
    return None
