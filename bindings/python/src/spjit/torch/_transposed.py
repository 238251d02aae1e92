"""Sizes of transposed convolutions."""

from __future__ import annotations

import functools
from operator import index
from typing import Any, NamedTuple

from torch import Tensor, nn

from .._transposed import Axis, Phases
from ._sizes import each_size, kernel_size

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d)

# Stride, padding, output padding and dilation, each of as many dimensions as there are.
Sizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class TransposedGeometry(NamedTuple):
    """Of a ConvTranspose2d or ConvTranspose1d."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    output_padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    activation: str  # behind it, Activation.text, or ""

    @classmethod
    def of(cls, sizes: Any, groups: int, activation: str) -> TransposedGeometry:
        """Of `Sizes`: a ConvTranspose1d is a ConvTranspose2d of height 1."""
        stride, padding, output_padding, dilation = map(tuple, sizes)
        return cls((1, *stride)[-2:], (0, *padding)[-2:], (0, *output_padding)[-2:],
                   (1, *dilation)[-2:], groups, activation)

    def axes(self, weight: Tensor) -> tuple[Axis, Axis]:
        rows, columns = (
            Axis.of(stride, (padding, padding), dilation, taps, more)
            for stride, padding, dilation, taps, more in zip(
                self.stride, self.padding, self.dilation, kernel_size(weight),
                self.output_padding))
        return rows, columns

    def phases(self, weight: Tensor) -> Phases:
        return _phases(*self.axes(weight), self.groups)


@functools.lru_cache(maxsize=1024)
def _phases(rows: Axis, columns: Axis, groups: int) -> Phases:
    return Phases(rows, columns, groups)


def sizes_of_transposed(module: nn.Module) -> Sizes:
    """As they are now."""
    dimensions = 1 if isinstance(module, nn.ConvTranspose1d) else 2
    stride, padding, output_padding, dilation = (
        each_size(size, dimensions)
        for size in (module.stride, module.padding, module.output_padding, module.dilation))
    return stride, padding, output_padding, dilation


def why_other_transposed(module: nn.Module) -> str:
    """Why forward() does not compute what kernels do; "" if it does."""
    if module.padding_mode != "zeros":
        return f"padding_mode is {module.padding_mode!r}; expected 'zeros'"
    return ""


def geometry_of_transposed(module: nn.Module, activation: str) -> TransposedGeometry:
    """With this activation behind the layer."""
    groups = index(module.groups)  # type: ignore[arg-type]
    return TransposedGeometry.of(sizes_of_transposed(module), groups, activation)
