"""Matrices of a caller as those of the library."""

from __future__ import annotations

import copy
import math
import os
import sys
from ctypes import byref
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import as_float32
from ._errors import InvalidArgument, InvalidMatrix
from ._library import Csr, Handle, library, path_bytes

if TYPE_CHECKING:
    from ._convolution import Conv2d

_INDEX_TYPES = {np.dtype(np.int32): 1, np.dtype(np.int64): 2}


def _as_indices(array: Any, name: str) -> Any:
    """int32 or int64; a copy only if it is another type of integers."""
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} is {array.dtype}; expected integers")
    if array.dtype in _INDEX_TYPES:
        return array
    if len(array) and int(array.max()) > np.iinfo(np.int64).max:
        raise InvalidMatrix(f"{name} has {array.max()}; expected less than 2^63")
    return array.astype(np.int64)


def _with_indices(matrix: Any) -> Any:
    """The same with indices of a type that scipy and the library take."""
    parts = {name: getattr(matrix, name) for name in ("indptr", "indices")
             if isinstance(getattr(matrix, name, None), np.ndarray)}
    if all(part.dtype in _INDEX_TYPES for part in parts.values()):
        return matrix
    matrix = copy.copy(matrix)
    for name, part in parts.items():
        setattr(matrix, name, _as_indices(part, name))
    return matrix


def _check_within(indices: Any, name: str, size: int) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        wrong = indices.min() if indices.min() < 0 else indices.max()
        raise InvalidMatrix(f"{name} has {wrong}; expected 0 to {size - 1}")


def _check_arrays(matrix: Any) -> None:
    """scipy looks at these as it makes a matrix, if at all, and later reads and writes where they
    point."""
    for name in ("data", "indices", "indptr", "row", "col"):
        part = getattr(matrix, name, None)
        if matrix.format != "dok" and not isinstance(part, (np.ndarray, type(None))):
            raise InvalidMatrix(f"{name} is {type(part).__name__}; expected a numpy array")
    if matrix.format == "lil" and any(len(row) != len(values) for row, values in
                                      zip(matrix.rows, matrix.data)):
        raise InvalidMatrix("a row of the lil matrix has not as many values as columns")
    if matrix.format == "coo":
        for name, size in zip(("row", "col"), matrix.shape):
            _check_within(getattr(matrix, name), name, size)
    if matrix.format not in ("csr", "csc", "bsr"):
        return
    block = matrix.data.shape[1:] if matrix.format == "bsr" else (1, 1)
    sizes = [size // max(each, 1) for size, each in zip(matrix.shape, block)]
    lines, across = reversed(sizes) if matrix.format == "csc" else sizes
    pointers, indices = matrix.indptr, matrix.indices
    if len(pointers) != lines + 1 or len(indices) != len(matrix.data):
        raise InvalidMatrix(f"indptr, indices and data have {len(pointers)}, {len(indices)} and "
                            f"{len(matrix.data)} elements; expected {lines + 1}, and of the others "
                            "as many as of each other")
    if pointers[0] != 0 or np.any(pointers[1:] < pointers[:-1]) or pointers[-1] > len(indices):
        raise InvalidMatrix(f"indptr goes from {pointers[0]} to {pointers[-1]}, "
                            f"{np.count_nonzero(pointers[1:] < pointers[:-1])} times downwards; "
                            f"expected 0 to at most {len(indices)}, never downwards")
    if matrix.format != "csr":  # whose columns the library looks at
        _check_within(indices, "indices", across)


def _canonical(matrix: Any) -> Any:
    """As CSR, columns in order, none twice. Sums are of the widest floats: those of a narrower type
    wrap around or become infinite."""
    matrix = _with_indices(matrix)
    _check_arrays(matrix)
    repeats = not getattr(matrix, "has_canonical_format", True)
    if repeats and matrix.dtype.kind in "fiu":
        matrix = matrix.astype(np.longdouble)
    try:
        csr = matrix.tocsr()
    except ValueError as error:  # of what scipy does look at
        raise InvalidMatrix(f"matrix is damaged: {error}") from error
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is matrix else csr
        csr.sum_duplicates()
    return csr


def _is_of_scipy(matrix: Any) -> bool:
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(matrix))


def _as_scipys(matrix: Any) -> Any:
    """What has tocsr(), of scipy.sparse. Matrices of other libraries, as of PyData's sparse, have
    other members."""
    found = matrix if _is_of_scipy(matrix) else matrix.tocsr()
    if not _is_of_scipy(found):
        raise TypeError(f"matrix is {type(matrix).__name__}, and its tocsr() gives "
                        f"{type(found).__name__}; expected a scipy.sparse matrix")
    return found


def _from_csr(matrix: Any) -> Handle:
    used = int(matrix.indptr[-1])  # scipy allows room behind, which prune() removes
    values = as_float32(matrix.data[:used], "matrix")
    row_ptrs, col_idxs = (np.ascontiguousarray(a) for a in (matrix.indptr, matrix.indices[:used]))
    rows, cols = matrix.shape
    csr = Csr(rows=rows, cols=cols, nnz=len(values), row_ptrs=row_ptrs.ctypes.data,
              col_idxs=col_idxs.ctypes.data, values=values.ctypes.data,
              row_ptr_type=_INDEX_TYPES[row_ptrs.dtype], col_idx_type=_INDEX_TYPES[col_idxs.dtype])
    return Handle(library.spjit_matrix_from_csr, library.spjit_matrix_destroy, byref(csr))


def matrix_of(matrix: Any, convolution: Conv2d | None = None) -> Handle:
    destroy = library.spjit_matrix_destroy
    if convolution is not None and isinstance(matrix, np.ndarray) and matrix.ndim == 4:
        expected = convolution.weight_shape(matrix.shape[0])
        if matrix.shape != expected:
            raise InvalidArgument(f"matrix has the shape {list(matrix.shape)}; expected weights "
                                  f"{list(expected)}")
        matrix = matrix.reshape(len(matrix), math.prod(expected[1:]))
    if isinstance(matrix, (str, os.PathLike)):
        return Handle(library.spjit_matrix_load, destroy, path_bytes(matrix))
    is_array = isinstance(matrix, np.ndarray) or hasattr(matrix, "tocsr")
    if hasattr(matrix, "tocsr") and len(matrix.shape) == 2:
        return _from_csr(_canonical(_as_scipys(matrix)))
    if isinstance(matrix, np.ndarray) and matrix.ndim == 2:
        values = as_float32(matrix, "matrix")
        return Handle(library.spjit_matrix_from_dense, destroy, values.ctypes.data, *values.shape)
    what = f"an array of {len(matrix.shape)} dimensions" if is_array else type(matrix).__name__
    raise TypeError(f"matrix is {what}; expected a scipy.sparse matrix, a numpy array "
                    "[out, in] or the path of a file")
