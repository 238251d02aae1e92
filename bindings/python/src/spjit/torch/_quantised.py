"""Linear layers whose weights are quantised, whichever library made them."""

from __future__ import annotations

from torch import nn

from ._integers import IntegerKernels
from ._packed import PackedKernels
from ._torchao import TensorKernels

_KINDS: tuple[type[IntegerKernels], ...] = (PackedKernels, TensorKernels)


def is_quantised(module: nn.Module) -> bool:
    return any(kind.is_for(module) for kind in _KINDS)


def kernels_type(module: nn.Module) -> type[IntegerKernels]:
    """Precondition: `is_quantised`."""
    return next(kind for kind in _KINDS if kind.is_for(module))
