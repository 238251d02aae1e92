"""Transposed convolutions, as convolutions whose filters are phases: pixels of the output with the
same place within a stride have the same taps."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ._convolution import Conv2d


class Axis(NamedTuple):
    """Of a transposed convolution: y[q] sums weight[tap] * x[(q + padding - tap * dilation) /
    stride] over the taps with which that is whole and within x."""

    stride: int
    padding: int  # before the image
    dilation: int
    taps: int
    growth: int  # size of y - stride * size of x

    @classmethod
    def of(cls, stride: int, padding: tuple[int, int], dilation: int, taps: int,
           output_padding: int) -> Axis:
        """As PyTorch and ONNX have it, with padding before and behind."""
        growth = dilation * (taps - 1) + 1 + output_padding - sum(padding) - stride
        return cls(stride, padding[0], dilation, taps, growth)

    def size_of(self, size: int) -> int:
        """Of y."""
        return self.stride * size + self.growth


class AxisOfPhases:
    """An axis of the convolution that gives y[stride * t + phase] for each t, of all phases."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        # Each tap has one phase, and is so many pixels of x behind t.
        self._places = [self._place(tap) for tap in range(axis.taps)]
        behind = [offset for _, offset in self._places]
        self._first = min(0, *behind)
        self._last = max(behind)
        whole = math.gcd(*(offset - self._first for offset in behind))
        self.dilation = max(whole, 1)
        self.taps = (self._last - self._first) // self.dilation + 1
        self.padding = (-self._first, max(0, -(-axis.growth // axis.stride) + self._last))

    def _place(self, tap: int) -> tuple[int, int]:
        """Phase and offset."""
        stride = self._axis.stride
        before = tap * self._axis.dilation - self._axis.padding
        return before % stride, -(before // stride)

    @property
    def phases(self) -> int:
        return self._axis.stride

    def places(self) -> list[tuple[int, int]]:
        """Phase and tap there, of each of the transposed convolution's taps."""
        return [(phase, (offset - self._first) // self.dilation)
                for phase, offset in self._places]

    def size_of(self, size: int) -> int:
        """Numbers t."""
        return size + self.padding[1] - self._last

    @property
    def crop(self) -> int:
        """Pixels of the last phases that y does not have."""
        return (self.padding[1] - self._last) * self.phases - self._axis.growth


class Phases:
    """The convolution of all phases: its filters are those of the first group in the first phase,
    of this group in the next one and so on; phases are in the order (row, column)."""

    def __init__(self, rows: Axis, columns: Axis, groups: int) -> None:
        self.rows = AxisOfPhases(rows)
        self.columns = AxisOfPhases(columns)
        self.groups = groups

    @cached_property
    def count(self) -> int:
        return self.rows.phases * self.columns.phases

    def weights(self, weight: np.ndarray) -> np.ndarray:
        """Of weights [out, in / groups, taps of rows, taps of columns]."""
        out, inputs = weight.shape[:2]
        own = weight.reshape(self.groups, out // self.groups, *weight.shape[1:])
        result = np.zeros((self.groups, self.rows.phases, self.columns.phases, out // self.groups,
                           inputs, self.rows.taps, self.columns.taps), np.float32)
        for i, (row, row_tap) in enumerate(self.rows.places()):
            for j, (column, column_tap) in enumerate(self.columns.places()):
                result[:, row, column, :, :, row_tap, column_tap] = own[..., i, j]
        return result.reshape(-1, *result.shape[-3:])

    def bias(self, bias: np.ndarray) -> np.ndarray:
        own = bias.reshape(self.groups, 1, -1)
        return np.tile(own, (1, self.count, 1)).reshape(-1)

    def convolution(self, channels: int, height: int, width: int, *, any_size: bool) -> Conv2d:
        rows, columns = self.rows, self.columns
        padding = (rows.padding[0], columns.padding[0], rows.padding[1], columns.padding[1])
        return Conv2d(channels, height, width, (rows.taps, columns.taps), 1, padding,
                      (rows.dilation, columns.dilation), self.groups, any_size)


def filters_first(weight: np.ndarray, groups: int) -> np.ndarray:
    """[out, in / groups, rows, columns] of what PyTorch and ONNX have: [in, out / groups, ...], of
    two dimensions or of one."""
    size = (1, *weight.shape[2:])[-2:]
    own = weight.reshape(groups, len(weight) // groups, weight.shape[1], *size)
    return own.swapaxes(1, 2).reshape(-1, own.shape[1], *size)
