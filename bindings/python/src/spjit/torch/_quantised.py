"""Linear layers of torch.ao.quantization.quantize_dynamic that call spjit: int8 weights, and inputs
that each call quantises to bytes."""

from __future__ import annotations

import ctypes
import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.ao.nn.quantized.dynamic import Linear as QuantisedLinear
from torch.compiler import is_compiling

from .._arrays import TOKENS
from .._errors import NotSupported, SpjitError
from .._kernel import Kernel
from .._library import ARGUMENTS, check
from .._problem import Problem
from .._report import why_too_dense
from . import _op
from ._dispatch import is_plain
from ._kernels import LayerKey, compile_problem
from ._swapped import Swapped

TYPES_OF_QUANTISED = ("i8", "u8", "f32")
_REDUCED = 4  # the version of modules since which bytes of inputs are 0 to 127
_LARGEST_BYTE = 127
_LEAST_SCALE = float(np.float32(6.1e-5))  # SMALL_SCALE_THRESHOLD of ATen/native/quantized
# Of |y| + |bias|: a kernel rounds the product and its sum with the bias, torch may round once.
ROUNDING = 2.0**-22


def is_quantised(module: nn.Module) -> bool:
    return isinstance(module, QuantisedLinear)


class Weights(NamedTuple):
    """Of one layer."""

    integers: npt.NDArray[np.int16]  # [rows, columns], minus their zero points
    scale: Tensor  # fp32 [rows]
    bias: Tensor | None  # fp32 [rows]

    @property
    def zeros(self) -> float:
        return 1 - int(np.count_nonzero(self.integers)) / max(self.integers.size, 1)


def why_other_quantised(module: Any) -> str:
    """Why kernels do not compute what it does; "" if they do."""
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
    integers = read_weights(module).integers
    if integers.min() < -128 or integers.max() > 127:
        return "its weights minus their zero points leave int8"
    return ""


def read_weights(module: Any) -> Weights:
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
    return Weights(integers, scale, None if bias is None else bias.detach().float().contiguous())


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


class QuantisedKernels:
    """Of one layer, by the number of threads. A copy or a pickle has none: they are made of the
    module."""

    def __init__(self) -> None:
        self._packed: Any = None  # the weights that they are of
        self._weights: Weights | None = None
        self._kernels: dict[int, Kernel | None] = {}

    def __reduce__(self) -> Any:
        return QuantisedKernels, ()

    def __deepcopy__(self, memo: Any) -> QuantisedKernels:
        return QuantisedKernels()

    @property
    def made(self) -> list[Kernel]:
        return [kernel for kernel in self._kernels.values() if kernel is not None]

    def compile(self, module: Any, key: LayerKey, threads: int) -> Kernel:
        """Of the module as it is now. Raises SpjitError."""
        self._see(module)
        weights = read_weights(module)
        kernel = compile_problem(weights.integers.astype(np.float32), Problem(
            typical_n=max(key.tokens, 1), types=TYPES_OF_QUANTISED, accumulate="integer",
            quantize="given", scale=True, bias=weights.bias is not None), threads, key.network_nnz)
        self._weights = weights._replace(integers=weights.integers[:0])  # which the kernel has
        self._kernels[threads] = kernel
        return kernel

    def _see(self, module: Any) -> None:
        """Lets go of kernels of other weights than it has now."""
        packed = module._packed_params._packed_params
        if self._packed is not packed:
            self._kernels, self._weights, self._packed = {}, None, packed

    def _kernel_for(self, module: Any) -> Kernel | None:
        self._see(module)
        threads = torch.get_num_threads()
        if threads not in self._kernels:
            self._kernels[threads] = self._compiled(module, threads)
        return self._kernels[threads]

    def _compiled(self, module: Any, threads: int) -> Kernel | None:
        if why_other_quantised(module) or why_too_dense(read_weights(module).zeros):
            return None
        try:
            kernel = self.compile(module, LayerKey.parse(module.spjit_key), threads)
        except SpjitError as error:
            warnings.warn(f"spjit.torch: a quantised layer [{module.out_features}, "
                          f"{module.in_features}] stays dense: {error}", stacklevel=2)
            return None
        return None if self.why_other_engine(module) else kernel

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
        bias = 0 if weights.bias is None else weights.bias.data_ptr()
        status = _op._run(kernel._handle.pointer, ARGUMENTS.pack(
            ARGUMENTS.size, given.data_ptr(), kernel._in, y.data_ptr(), kernel._out,
            x.numel() // kernel._in, TOKENS, TOKENS, weights.scale.data_ptr(), bias, 0, 0, 0, 1, 0,
            0, 0, 0, 0, 0, 0, 0, ctypes.addressof(factor), zero))
        if status:
            check(status)
        return y

    def why_other_engine(self, module: Any) -> str:
        """Why torch does not compute what kernels do, as seen in one call; "" if it does. Weights
        do not say which engine they were packed for."""
        assert self._weights is not None
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(4, module.in_features, generator=generator)
        with torch.no_grad():
            y, dense = self.run(module, x), QuantisedLinear.forward(module, x)
        bias = 0.0 if self._weights.bias is None else self._weights.bias.abs()
        if y is not None and bool(torch.all((y - dense).abs() <= ROUNDING * (dense.abs() + bias))):
            return ""
        return ("the engine that it was packed for computes something else; expected x86 or fbgemm "
                "as torch.backends.quantized.engine")


class SparseQuantisedLinear(Swapped, QuantisedLinear):
    """Of `optimize_`."""

    def forward(self, x: Tensor) -> Tensor:
        if not is_compiling():
            y = self._run(x)
            if y is not None:
                return y
            self.count_dense()
        return QuantisedLinear.forward(self, x)  # type: ignore[no-any-return]

    def _run(self, x: Any) -> Tensor | None:
        if torch.onnx.is_in_onnx_export() or torch.jit.is_tracing():
            raise NotSupported("torch.onnx.export and torch.jit.trace do not know sparse layers: "
                               "call spjit.torch.restore_(model) before")
        if not (isinstance(x, Tensor) and is_plain(x, x, None) and x.dtype is torch.float32
                and x.is_cpu and x.dim() >= 2 and x.numel() > 0 and not x.is_neg()):
            return None
        kernels = vars(self).get("spjit_quantised")
        if kernels is None:
            kernels = vars(self)["spjit_quantised"] = QuantisedKernels()
        return kernels.run(self, x)  # type: ignore[no-any-return]

    def _made_of(self) -> list[Tensor]:
        return []
