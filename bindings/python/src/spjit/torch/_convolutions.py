"""Sizes of convolutions."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn

from ._sizes import each_size, taps_of

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


class Geometry(NamedTuple):
    """Of a Conv2d or Conv1d."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    activation: str  # behind it, Activation.text, or ""

    @classmethod
    def of(cls, stride: Any, padding: Any, dilation: Any, groups: Any, activation: str) -> Geometry:
        """Of one size or two each: a Conv1d is a Conv2d of height 1."""
        return cls((1, *stride)[-2:], (0, *padding)[-2:], (1, *dilation)[-2:], groups, activation)


def is_product(geometry: Geometry, taps: tuple[int, int]) -> bool:
    """Whether each pixel of y is of one pixel of x, so that sizes of images do not matter."""
    return taps == geometry.stride == (1, 1) and geometry.padding == (0, 0)


# Stride, padding and dilation of a convolution, each of as many dimensions as it has.
Sizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def is_same(before: Any, now: Any) -> bool:
    """False for what a comparison gives no one answer for, as numpy's numbers beside a tuple."""
    return type(now) in (tuple, list, int, str) and type(now) is type(before) and now == before


def _padding_of(padding: Any, dilation: tuple[int, ...],
                taps: tuple[int, ...]) -> tuple[int, ...] | None:
    if padding == "valid":
        return (0,) * len(dilation)
    if padding == "same":
        whole = [apart * (size - 1) for apart, size in zip(dilation, taps)]
        return None if any(size % 2 for size in whole) else tuple(size // 2 for size in whole)
    return each_size(padding, len(dilation))


def sizes_of(module: nn.Module, weight: Tensor) -> Sizes | None:
    """Of a convolution with this weight, whatever its kernel_size says; None if its padding is not
    the same on both sides."""
    dimensions = 1 if isinstance(module, nn.Conv1d) else 2
    dilation = each_size(module.dilation, dimensions)
    padding = _padding_of(module.padding, dilation, taps_of(weight))
    return None if padding is None else (each_size(module.stride, dimensions), padding, dilation)


def why_other_convolution(module: nn.Module) -> str:
    """Why forward() computes another convolution than kernels do; "" if it does not."""
    if "_conv_forward" in vars(module):
        return "its _conv_forward() was replaced"
    if module.padding_mode != "zeros":
        return f"padding_mode is {module.padding_mode!r}; expected 'zeros'"
    return ""
