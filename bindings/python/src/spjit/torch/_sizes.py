"""Sizes of convolutions and transposed ones, as modules and weights have them."""

from __future__ import annotations

from operator import index
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling


def each_size(size: Any, dimensions: int) -> tuple[int, ...]:
    """Of each dimension. torch also takes one number for all, and any whole numbers, as those of
    numpy and tensors of no dimension."""
    is_one = getattr(size, "ndim", 0) == 0 and not isinstance(size, (tuple, list))
    sizes = (size,) * dimensions if is_one else tuple(size)
    return tuple(each if is_compiling() else index(each) for each in sizes)


def kernel_size(weight: Tensor) -> tuple[int, int]:
    """Height and width of a convolution's weight [filters, channels, ...]."""
    height, width = (1, *weight.shape[2:])[-2:]
    return height, width


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
