"""Weights of floats as integers."""

from __future__ import annotations

from ctypes import byref, c_double
from typing import Any, NamedTuple

import numpy as np

from ._errors import InvalidArgument
from ._library import Handle, check, library
from ._matrix import matrix_of


class Quantized(NamedTuple):
    """Integers of a matrix, a scale for each row, and how like the matrix they are."""

    integers: Any
    """[out, in] of int8, -127 to 127: a `scipy.sparse.csr_array`, or an array of numpy."""
    scale: np.ndarray
    """[out] of float32, above 0: the `scale` of a kernel's calls."""
    cosine: float
    """Between the matrix and the integers times their scale, all entries as one vector."""
    relative_error: float
    """The 2-norm of their difference, over that of the matrix."""


def quantize(matrix: Any) -> Quantized:
    """Symmetric int8 of a matrix [out, in]. The scale of a row is its largest magnitude over 127, or
    1 for a row of zeros. An integer is the entry over the scale, rounded to nearest even.

        q = spjit.quantize(weight)
        kernel = spjit.compile(q.integers, types=("i8", "f32", "f32"), scale=True)
        y = kernel(x, scale=q.scale)

    `matrix`: a scipy.sparse matrix or a numpy array; integers are the same. Raises InvalidArgument
    for an entry that is not finite and a row whose scale would be denormal, and what `compile`
    raises for a matrix."""
    if not isinstance(matrix, np.ndarray) and not hasattr(matrix, "tocsr"):
        raise TypeError(f"matrix is {type(matrix).__name__}; expected a scipy.sparse matrix or a "
                        "numpy array [out, in]")
    rows, cols = _shape_of(matrix)
    whole = matrix_of(matrix)
    scale = np.empty(rows, np.float32)
    cosine, error = c_double(), c_double()
    integers = Handle(lambda result: library.spjit_matrix_quantize(
        whole.pointer, result, scale.ctypes.data, byref(cosine), byref(error)),
        library.spjit_matrix_destroy)
    entries = library.spjit_matrix_nnz(integers.pointer)
    row_ptrs = np.empty(rows + 1, np.int64)
    col_idxs = np.empty(entries, np.int32)
    values = np.empty(entries, np.float32)
    check(library.spjit_matrix_copy(integers.pointer, row_ptrs.ctypes.data, col_idxs.ctypes.data,
                                    values.ctypes.data))
    if isinstance(matrix, np.ndarray):
        made: Any = np.zeros((rows, cols), np.int8)
        made[np.repeat(np.arange(rows), np.diff(row_ptrs)), col_idxs] = values
    else:
        from scipy.sparse import csr_array

        made = csr_array((values.astype(np.int8), col_idxs, row_ptrs), shape=(rows, cols))
    return Quantized(made, scale, cosine.value, error.value)


def _shape_of(matrix: Any) -> tuple[int, int]:
    if len(matrix.shape) == 2:
        return matrix.shape  # type: ignore[no-any-return]
    raise InvalidArgument(f"matrix has the shape {list(matrix.shape)}; expected [out, in]")
