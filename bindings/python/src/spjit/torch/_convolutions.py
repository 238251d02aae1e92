"""Sizes of convolutions."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

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


def kernel_size(weight: Tensor) -> tuple[int, int]:
    """Height and width of a convolution's weight [filters, channels, ...]."""
    height, width = (1, *weight.shape[2:])[-2:]
    return height, width


# Stride, padding and dilation of a convolution, each of as many dimensions as it has.
Sizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _each(size: Any, dimensions: int) -> tuple[int, ...]:
    """torch also takes one number for all, and any whole numbers, as those of numpy and
    tensors of none."""
    is_one = getattr(size, "ndim", 0) == 0 and not isinstance(size, (tuple, list))
    sizes = (size,) * dimensions if is_one else tuple(size)
    return tuple(each if is_compiling() else index(each) for each in sizes)


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
    return _each(padding, len(dilation))


def taps_of(weight: Tensor) -> tuple[int, ...]:
    """The sizes of a convolution's kernel; numbers even where torch.jit traces."""
    if is_compiling() or not torch.jit.is_tracing():
        return tuple(weight.shape[2:])
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        return tuple(weight.shape[2:])
    finally:
        torch._C._set_tracing_state(state)


def sizes_of(module: nn.Module, weight: Tensor) -> Sizes | None:
    """Of a convolution with this weight, whatever its kernel_size says; None if its padding is not
    the same on both sides."""
    dimensions = 1 if isinstance(module, nn.Conv1d) else 2
    dilation = _each(module.dilation, dimensions)
    padding = _padding_of(module.padding, dilation, taps_of(weight))
    return None if padding is None else (_each(module.stride, dimensions), padding, dilation)


def why_other_convolution(module: nn.Module) -> str:
    """Why forward() computes another convolution than kernels do; "" if it does not."""
    if "_conv_forward" in vars(module):
        return "its _conv_forward() was replaced"
    if module.padding_mode != "zeros":
        return f"padding_mode is {module.padding_mode!r}; expected 'zeros'"
    return ""
