"""Linear layers whose weight is a quantised tensor of torchao: int8 or fewer bits, with inputs as
they are or quantised by the kernel, a token at a time. Nothing here imports torchao."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._group_scales import GroupScales
from .._problem import Problem
from . import _op
from ._integers import LEAST, MOST, TOO_WIDE, IntegerKernels, SparseIntegers, Weights
from ._kernels import TYPES

_READABLE = ("Int8Tensor", "IntxUnpackedToInt8Tensor")
_GROUPS = (128, 64, 32)  # columns that kernels have a scale for
_FOUR_BITS = (-8, 7)
# Of sum |x w| + |bias|, for results of each type: what torch may round, several times and scales,
# too, where kernels round once.
_ROUNDING = {torch.float32: 2.0**-18, torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9}


def is_of_torchao(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and type(tensor).__module__.partition(".")[0] == "torchao"


def _why_other_layout(weight: Any) -> str:
    name = type(weight).__name__
    if name not in _READABLE:
        return f"its weight is of torchao's {name}; expected {' or '.join(_READABLE)}"
    held = (weight.qdata, weight.scale, weight.zero_point)
    if weight.dim() != 2 or weight.numel() == 0:
        return f"its weight is {list(weight.shape)}; expected two dimensions that are not empty"
    if weight.dtype not in TYPES:
        expected = ", ".join(str(dtype).removeprefix("torch.") for dtype in TYPES)
        return (f"its weight stands for {str(weight.dtype).removeprefix('torch.')}; expected "
                f"{expected}")
    if any(type(one) is not Tensor or one.device.type != "cpu" or one.is_inference()
           for one in held if one is not None):
        return "its integers or scales are no plain tensors of the CPU, or of inference mode"
    if weight.qdata.dtype is not torch.int8:
        return f"its integers are {weight.qdata.dtype}; expected int8"
    rows, columns = weight.block_size
    blocks = (weight.shape[0] // max(rows, 1), weight.shape[1] // max(columns, 1))
    if (blocks[0] * rows, blocks[1] * columns) != weight.shape or tuple(
            weight.scale.shape) not in (blocks, (math.prod(blocks),)):
        return (f"its scales are {list(weight.scale.shape)} of blocks {[rows, columns]}; expected "
                f"one for each block of {list(weight.shape)}")
    if columns < weight.shape[1] and all(columns % group for group in _GROUPS):
        return f"its groups have {columns} columns; expected a multiple of 32"
    return ""


def _why_other_int8(weight: Any) -> str:
    """Int8Tensor, whose products of whole rows leave out the zero points."""
    if weight.act_pre_scale is not None:
        return "its inputs have scales of their own (act_pre_scale)"
    if weight.zero_point is not None and bool(torch.any(weight.zero_point != 0)):
        return "its weights have zero points other than 0"
    given = weight.act_quant_kwargs
    if given is None:
        return ""
    if weight.act_quant_scale is not None:
        return "its inputs have a scale that is given; expected one that a call finds"
    granularity = type(given.granularity).__name__
    mapping = getattr(given.mapping_type, "name", given.mapping_type)
    if granularity != "PerRow" or mapping != "SYMMETRIC":
        return (f"its inputs are quantised {granularity}, {mapping}; expected PerRow (a token), "
                "SYMMETRIC")
    if weight.block_size[1] != weight.shape[1]:
        return "its inputs are quantised, and its weights have groups; expected a scale a row"
    return ""


def _why_other_intx(weight: Any) -> str:
    if weight.activation_quantization is not None:
        how = getattr(weight.activation_quantization, "value", weight.activation_quantization)
        return f"its inputs are quantised as {how}; expected none, or Int8Tensor"
    points = weight.zero_point
    if points.is_floating_point() and bool(torch.any(points != points.round())):
        return "its weights have zero points that are no integers"
    return ""


def _expanded(blocks: Tensor, weight: Any, columns: int) -> Tensor:
    """A number a block as one for each row and `columns` columns."""
    rows, of_block = weight.block_size
    blocks = blocks.reshape(weight.shape[0] // rows, -1)
    return blocks.repeat_interleave(rows, 0).repeat_interleave(of_block // columns, 1)


class TensorKernels(IntegerKernels):
    @staticmethod
    def is_for(module: nn.Module) -> bool:
        return isinstance(module, nn.Linear) and is_of_torchao(module._parameters.get("weight"))

    @staticmethod
    def why_other(module: Any) -> str:
        weight = module.weight
        if type(module) not in (nn.Linear, SparseTensorLinear):
            return f"it is a {type(module).__name__}, whose forward() may differ"
        if why := _why_other_layout(weight):
            return why
        is_int8 = type(weight).__name__ == "Int8Tensor"
        if why := (_why_other_int8 if is_int8 else _why_other_intx)(weight):
            return why
        integers = TensorKernels.read(module).integers
        return TOO_WIDE if integers.min() < LEAST or integers.max() > MOST else ""

    @staticmethod
    def read(module: Any) -> Weights:
        weight = module.weight
        integers = weight.qdata.numpy().astype(np.int16)
        of_block = weight.block_size[1]
        if weight.zero_point is not None and bool(torch.any(weight.zero_point != 0)):
            integers -= _expanded(weight.zero_point, weight, 1).to(torch.int16).numpy()
        scale = weight.scale.detach().float()
        if of_block == weight.shape[1]:
            scale = _expanded(scale, weight, of_block).flatten().contiguous()
            return Weights(integers, scale, None)
        columns = next(group for group in _GROUPS if of_block % group == 0)
        scales = GroupScales(_expanded(scale, weight, columns).numpy(), columns)
        return Weights(integers, None, None, scales)

    @staticmethod
    def types(module: Any) -> tuple[str, str, str]:
        weight = module.weight
        if getattr(weight, "act_quant_kwargs", None) is not None:
            return "i8", "f32", "f32"
        integers = TensorKernels.read(module).integers
        has_four_bits = integers.min() >= _FOUR_BITS[0] and integers.max() <= _FOUR_BITS[1]
        other = TYPES[weight.dtype]
        return "i4" if has_four_bits else "i8", other, other

    @staticmethod
    def problem(module: Any, weights: Weights, tokens: int) -> Problem:
        is_dynamic = getattr(module.weight, "act_quant_kwargs", None) is not None
        return Problem(typical_n=tokens, types=TensorKernels.types(module),
                       accumulate="integer" if is_dynamic else "ordered",
                       quantize="token" if is_dynamic else None,
                       scale=weights.scale is not None, group_scales=weights.groups,
                       bias=module.bias is not None)

    @staticmethod
    def held(module: Any) -> Sequence[Any]:
        weight = module._parameters["weight"]
        held: list[Any] = [weight, module._parameters.get("bias") is None]
        if type(weight).__name__ in _READABLE:
            # What functions write to is the weight, as load_state_dict(), what others do its parts.
            for one in (weight, weight.qdata, weight.scale, weight.zero_point):
                held += [one, None if one is None or one.is_inference() else one._version]
        return held

    @staticmethod
    def takes(module: Any, x: Tensor) -> bool:
        weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
        return (is_of_torchao(weight) and x.dtype is weight.dtype
                and (bias is None or bias.dtype is x.dtype))

    def run(self, module: Any, x: Tensor) -> Tensor | None:
        """Of a plain x [..., in] of the weight's type; None: dense is needed."""
        kernel = self._kernel_for(module)
        if kernel is None or self._weights is None or x.shape[-1] != kernel._in:
            return None
        bias = module.bias
        if not _op._is_vector(bias, kernel._out, x.dtype):
            return None
        is_dynamic = getattr(module.weight, "act_quant_kwargs", None) is not None
        given = (x.float() if is_dynamic else x).contiguous()
        bias = None if bias is None else bias.float()
        y = given.new_empty(*x.shape[:-1], kernel._out)
        return _op.run_tokens(kernel, given, y, self._weights.scale, bias).to(x.dtype)

    def why_other_result(self, module: Any) -> str:
        """Of a torchao that keeps something else in these tensors."""
        weight = module.weight
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(4, module.in_features, generator=generator).to(weight.dtype)
        with torch.no_grad():
            y, dense = self.run(module, x), nn.Linear.forward(module, x)
            x, magnitudes = x.float(), weight.dequantize().float().abs()
            terms = x.abs() @ magnitudes.t()
            if module.bias is not None:
                terms += module.bias.float().abs()
            far = _ROUNDING[weight.dtype] * terms
            if getattr(weight, "act_quant_kwargs", None) is not None:
                # Both round x, by scales of their own, to within half of one.
                far += x.abs().amax(1, keepdim=True) / 127 * magnitudes.sum(1)
        if y is not None and bool(torch.all((y.float() - dense.float()).abs() <= far)):
            return ""
        return "torchao computes something else than its integers and scales say"


class SparseTensorLinear(SparseIntegers, nn.Linear):
    """Of `optimize_`."""

    _kernels_type = TensorKernels
    _dense = nn.Linear
