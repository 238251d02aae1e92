"""Linear layers of torch.ao.quantization.quantize_dynamic that call spjit: int8 weights, and inputs
that each call quantises to bytes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.ao.nn.quantized.dynamic import Linear as PackedLinear

from .._problem import Problem
from . import _op
from ._integers import LEAST, MOST, TOO_WIDE, IntegerKernels, SparseIntegers, Weights

_REDUCED = 4  # the version of modules since which bytes of inputs are 0 to 127
_LARGEST_BYTE = 127
_LEAST_SCALE = float(np.float32(6.1e-5))  # SMALL_SCALE_THRESHOLD of ATen/native/quantized
# Of |y| + |bias|: a kernel rounds the product and its sum with the bias, torch may round once.
ROUNDING = 2.0**-22


def byte_scale(low: float, high: float) -> tuple[float, int] | None:
    """Scale and zero point of inputs from `low` to `high`, as torch chooses them for 7 bits; None
    for inputs that are not finite. ChooseQuantizationParams of ATen/native/quantized."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / _LARGEST_BYTE
    with np.errstate(all="ignore"):
        if np.float32(scale) == 0 or np.isinf(np.float32(1) / np.float32(scale)):
            scale = 0.1
    if scale < _LEAST_SCALE:
        grown = _LEAST_SCALE / scale
        if low == 0:
            high = _LEAST_SCALE * _LARGEST_BYTE
        elif high == 0:
            low = -_LEAST_SCALE * _LARGEST_BYTE
        else:
            low, high = float(np.float32(low * grown)), float(np.float32(high * grown))
        scale = _LEAST_SCALE
    from_low, from_high = -low / scale, _LARGEST_BYTE - high / scale
    is_of_low = -abs(low / scale) < _LARGEST_BYTE - abs(high / scale)
    zero = round(from_low if is_of_low else from_high)
    return float(np.float32(scale)), min(max(zero, 0), _LARGEST_BYTE)


class PackedKernels(IntegerKernels):
    @staticmethod
    def is_for(module: nn.Module) -> bool:
        return isinstance(module, PackedLinear)

    @staticmethod
    def why_other(module: Any) -> str:
        if module._packed_params.dtype is not torch.qint8:
            dtype = str(module._packed_params.dtype).removeprefix("torch.")
            return f"its weight is packed as {dtype}; expected qint8"
        if (module.version or 0) < _REDUCED:
            return "its inputs have 8 bits, as in torch before 1.6; expected a layer of a later one"
        weight = module.weight()
        if weight.dim() != 2 or weight.numel() == 0:
            return "its weight is empty"
        if weight.qscheme() not in (torch.per_tensor_affine, torch.per_channel_affine):
            return f"its weight is {weight.qscheme()}; expected one scale, or one a row"
        if weight.qscheme() is torch.per_channel_affine and weight.q_per_channel_axis() != 0:
            return "its weight has a scale a column; expected one a row"
        integers = PackedKernels.read(module).integers
        return TOO_WIDE if integers.min() < LEAST or integers.max() > MOST else ""

    @staticmethod
    def read(module: Any) -> Weights:
        """Precondition: qint8 with one scale, or one a row."""
        weight, bias = module._weight_bias()
        rows = len(weight)
        if weight.qscheme() is torch.per_tensor_affine:
            scale = torch.full((rows,), weight.q_scale())
            zero_points = np.full(rows, weight.q_zero_point(), np.int16)
        else:
            scale = weight.q_per_channel_scales().float().contiguous()
            zero_points = weight.q_per_channel_zero_points().numpy().astype(np.int16)
        integers = weight.int_repr().numpy().astype(np.int16) - zero_points[:, None]
        return Weights(integers, scale,
                       None if bias is None else bias.detach().float().contiguous())

    @staticmethod
    def types(module: Any) -> tuple[str, str, str]:
        return "i8", "u8", "f32"

    @staticmethod
    def problem(module: Any, weights: Weights, tokens: int) -> Problem:
        return Problem(typical_n=tokens, types=PackedKernels.types(module), accumulate="integer",
                       quantize="given", scale=True, bias=weights.bias is not None)

    @staticmethod
    def held(module: Any) -> Sequence[Any]:
        return (module._packed_params._packed_params,)

    @staticmethod
    def takes(module: Any, x: Tensor) -> bool:
        return x.dtype is torch.float32 and x.dim() >= 2

    def run(self, module: Any, x: Tensor) -> Tensor | None:
        """Of a plain x [..., tokens, in] in fp32; None: dense is needed."""
        kernel = self._kernel_for(module)
        if kernel is None or self._weights is None or x.shape[-1] != kernel._in:
            return None
        low, high = torch.aminmax(x)
        chosen = byte_scale(low.item(), high.item())
        if chosen is None:
            return None
        scale, zero = chosen
        given = torch.quantize_per_tensor(x.contiguous(), scale, zero, torch.quint8)
        y = x.new_empty(*x.shape[:-1], kernel._out)
        weights, factor = self._weights, ctypes.c_float(scale)
        assert weights.scale is not None
        return _op.run_tokens(kernel, given, y, weights.scale, weights.bias,
                              ctypes.addressof(factor), zero)

    def why_other_result(self, module: Any) -> str:
        """Weights do not say which engine they were packed for."""
        assert self._weights is not None
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(4, module.in_features, generator=generator)
        with torch.no_grad():
            y, dense = self.run(module, x), PackedLinear.forward(module, x)
        bias = 0.0 if self._weights.bias is None else self._weights.bias.abs()
        if y is not None and bool(torch.all((y - dense).abs() <= ROUNDING * (dense.abs() + bias))):
            return ""
        return ("the engine that it was packed for computes something else; expected x86 or fbgemm "
                "as torch.backends.quantized.engine")


class SparsePackedLinear(SparseIntegers, PackedLinear):
    """Of `optimize_`."""

    _kernels_type = PackedKernels
    _dense = PackedLinear
