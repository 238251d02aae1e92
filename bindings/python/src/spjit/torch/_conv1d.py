"""The Conv1D of transformers (GPT-2 and others), which computes x W. spjit does not import
transformers: the class is known by its name."""

from __future__ import annotations

from torch import Tensor, nn

from ._views import Part, view_of


def conv1d_kind(kind: type) -> type[nn.Module] | None:
    """The class Conv1D that this one is or comes from."""
    for base in kind.__mro__:
        if (base.__name__ == "Conv1D" and base.__module__.partition(".")[0] == "transformers"
                and issubclass(base, nn.Module)):
            return base
    return None


def is_conv1d(module: nn.Module) -> bool:
    """Whether its weight is [in, out]."""
    return conv1d_kind(type(module)) is not None


def as_rows(weight: Tensor) -> Tensor:
    """A weight [in, out] as kernels have it."""
    return view_of(weight, Part(0, weight.shape[-1], True))
