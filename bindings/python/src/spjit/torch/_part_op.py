"""The operator spjit::linear_part: a linear layer of rows of a weight, or of its transpose. Opaque
to torch, dense where no kernel can be."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ._dispatch import Bias
from ._op import CPU_AND_CUDA, _definitions, activated, register, run_linear
from ._views import Part, view_of

_definitions.define("linear_part(Tensor x, Tensor weight, Tensor? bias, int begin, int end, "
                    "bool transposed, str activation, str key) -> Tensor")
LINEAR_PART = torch.ops.spjit.linear_part.default


def run_part(x: Tensor, weight: Tensor, bias: Bias, begin: int, end: int, transposed: bool,
             activation: str, key: str) -> Tensor | None:
    """Where x is; None: dense is needed. `bias`: of these rows."""
    if weight.dim() != 2:
        return None
    return run_linear(x, view_of(weight, Part(begin, end, transposed)), bias, activation, key)


def dense_part(x: Tensor, weight: Tensor, bias: Bias, begin: int, end: int, transposed: bool,
               activation: str, key: str) -> Tensor:
    y = functional.linear(x, Part(begin, end, transposed).of(weight), bias)
    return activated(y, activation)


def _sparse(x: Tensor, weight: Tensor, bias: Bias, begin: int, end: int, transposed: bool,
         activation: str, key: str) -> Tensor:
    given = (begin, end, transposed, activation, key)
    y = run_part(x, weight, bias, *given)
    return dense_part(x, weight, bias, *given) if y is None else y


def _fake(x: Tensor, weight: Tensor, bias: Bias, begin: int, end: int, transposed: bool,
          activation: str, key: str) -> Tensor:
    return x.new_empty((*x.shape[:-1], end - begin))


register("linear_part", LINEAR_PART, _sparse, dense_part, _fake, CPU_AND_CUDA)
