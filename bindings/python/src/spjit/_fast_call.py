"""Calls of kernels with usual arrays, which the library looks at itself."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import POINTER, byref, c_int32, c_int64, c_void_p, py_object
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import Elements
from ._library import LIBRARY, check

if TYPE_CHECKING:
    from ._kernel import Kernel

# Of x, out, bias, scale and residual: y, or None, which says that nothing was done.
FastCall = Callable[[Any, Any, Any, Any, Any], Any]


class _ElementType(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("bytes", c_int32), ("dlpack_code", c_int32)]


class _KernelCall(ctypes.Structure):
    """KernelFacts of bindings/python/call.cpp."""

    _fields_ = [("kernel", c_void_p), ("in_features", c_int64), ("out_features", c_int64),
                ("n", c_int64), ("tokens_major", c_int32), ("has_scale", c_int32),
                ("has_bias", c_int32), ("has_residual", c_int32), ("x", _ElementType),
                ("y", _ElementType), ("none", py_object), ("ndarray", py_object),
                ("empty", py_object), ("y_dtype", py_object), ("check", py_object)]


def nothing_done(*_given: Any) -> None:
    """A FastCall of a kernel that has none."""


def _element_type(elements: Elements, dtype: np.dtype[Any]) -> _ElementType:
    return _ElementType(ord(dtype.kind), elements.size, elements.dlpack[0])


def fast_call(kernel: Kernel) -> FastCall:
    """Of a product. The kernel has to outlive it."""
    x, y = kernel._of_x, kernel._of_y
    if (sys.implementation.name != "cpython" or kernel._takes_values or kernel._takes_quantized
            or x.dtype is None or y.dtype is None):
        return nothing_done
    # PyDLL holds the interpreter's lock during each call.
    make = ctypes.PyDLL(LIBRARY).spjit_python_call_of
    make.restype, make.argtypes = py_object, [POINTER(_KernelCall)]
    made: FastCall = make(byref(_KernelCall(
        kernel._handle.pointer, kernel._in, kernel._out, -1 if kernel._n is None else kernel._n,
        kernel._tokens_major, *kernel._has, _element_type(x, x.dtype), _element_type(y, y.dtype),
        None, np.ndarray, np.empty, y.dtype, check)))
    return made
