"""Scales of groups of columns of A."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._checks import whole
from ._errors import InvalidArgument


class GroupScales:
    """A scale for each row of A and group of `columns` columns. Immutable.

    scales: [out, groups], finite numbers that float32 has; copied. The last group of a row may have
        fewer columns.
    columns: of a group: 32, 64 or 128.

    A sum is that of docs/use/api.md: C = fma(scale, sum of a group, C), groups ascending.

    Raises InvalidArgument for scales that are no numbers or have no two dimensions, and for other
    columns.
    """

    __slots__ = ("_columns", "_values")

    def __init__(self, scales: Any, columns: int) -> None:
        self._columns = whole(columns, "columns")
        if self._columns not in (32, 64, 128):
            raise InvalidArgument(f"columns is {columns}; expected 32, 64 or 128")
        try:
            with np.errstate(over="ignore"):  # the library refuses infinity
                self._values = np.array(scales, order="C").astype(np.float32, casting="same_kind")
        except (RuntimeError, TypeError, ValueError):
            raise InvalidArgument(f"scales are of {type(scales).__name__}; expected real numbers "
                                  "[out, groups]") from None
        if self._values.ndim != 2:
            raise InvalidArgument(f"scales have the shape {self._values.shape}; expected "
                                  "[out, groups]")
        self._values.flags.writeable = False

    def expect_shape(self, rows: int, cols: int) -> None:
        """Raises InvalidArgument unless they are of an A [rows, cols]."""
        expected = (rows, -(-cols // self._columns))
        if self._values.shape != expected:
            raise InvalidArgument(f"scales of groups have the shape {self._values.shape}; expected "
                                  f"{expected} for A [{rows}, {cols}] and groups of "
                                  f"{self._columns} columns")

    @property
    def values(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """[out, groups] of float32; not to be written."""
        return self._values

    @property
    def columns(self) -> int:
        """Of a group."""
        return self._columns

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, GroupScales) and self._columns == other._columns
                and self._values.shape == other._values.shape
                and self._values.tobytes() == other._values.tobytes())

    def __hash__(self) -> int:
        return hash((self._columns, self._values.shape, self._values.tobytes()))

    def __repr__(self) -> str:
        rows, groups = self._values.shape
        return f"GroupScales([{rows} x {groups}], columns={self._columns})"
