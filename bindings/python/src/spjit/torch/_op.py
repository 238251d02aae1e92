"""The operators spjit::linear and spjit::conv2d: opaque to torch, dense where no kernel can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional

from .._arrays import FEATURES, TOKENS
from .._kernel import Kernel
from .._library import ARGUMENTS, check, library
from ._kernels import Geometry, Variant, _bound, find_kernel

_definitions = torch.library.Library("spjit", "DEF")
_definitions.define("linear(Tensor x, Tensor weight, Tensor? bias, str activation, str key) -> "
                    "Tensor")
_definitions.define("conv2d(Tensor x, Tensor weight, Tensor? bias, int[2] stride, int[2] padding, "
                    "int[2] dilation, int groups, str activation, str key) -> Tensor")

LINEAR = torch.ops.spjit.linear.default
CONV2D = torch.ops.spjit.conv2d.default

_run = library.spjit_kernel_run
_pack = ARGUMENTS.pack
_SIZE = ARGUMENTS.size
_FLOAT32 = torch.float32
_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled

Bias = Optional[Tensor]
Pair = list[int]


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
    "hard-swish": functional.hardswish,
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh")}


def _dense_linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor:
    y = functional.linear(x, weight, bias)
    return _ACTIVATIONS[activation](y) if activation else y


def _dense_conv2d(x: Tensor, weight: Tensor, bias: Bias, stride: Pair, padding: Pair,
                  dilation: Pair, groups: int, activation: str, key: str) -> Tensor:
    y = functional.conv2d(x, weight, bias, stride, padding, dilation, groups)
    return _ACTIVATIONS[activation](y) if activation else y


def _is_usual(x: Tensor, weight: Tensor, bias: Bias) -> bool:
    """Whether a kernel can take them: fp32 in memory of the CPU, not empty, and a weight that is no
    subclass and whose changes are counted."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    return (all(tensor.dtype is _FLOAT32 and tensor.is_cpu and tensor.layout is torch.strided
                and type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
            and x.numel() > 0 and weight.numel() > 0 and not weight.is_inference())


def _slow_kernel(x: Tensor, weight: Tensor, bias: Bias, key: str,
                 variant: Variant) -> Kernel | None:
    return find_kernel(weight, key, variant) if _is_usual(x, weight, bias) else None


def _linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor:
    """On the CPU. Each line costs some 0.1 us of each call."""
    known = _bound.get(id(weight))
    kernel = None
    if (known is not None and known.weight() is weight and known.version == weight._version
            and known.pointer == weight.data_ptr() and x.dtype is _FLOAT32):
        kernel = known.kernels.get((_threads(), bias is not None, activation))
    if kernel is None:
        kernel = _slow_kernel(x, weight, bias, key,
                              Variant(_threads(), bias is not None, activation))
        if kernel is None:
            return _dense_linear(x, weight, bias, activation, key)
        known = _bound[id(weight)]
    assert known is not None
    summand = 0
    if bias is not None:
        summand = bias.data_ptr()
        if known.bias is not bias or known.bias_pointer != summand:
            if not _is_vector(bias, kernel._out):
                return _dense_linear(x, weight, bias, activation, key)
            known.bias, known.bias_pointer = bias, summand
    features, rows = kernel._in, kernel._out
    *lead, given = x.shape or (0,)
    if given != features:
        return _dense_linear(x, weight, bias, activation, key)  # says what is wrong
    if not x.is_contiguous():
        x = x.contiguous()
    y = x.new_empty(*lead, rows)
    status = _run(kernel._handle.pointer, _pack(
        _SIZE, x.data_ptr(), features, y.data_ptr(), rows, x.numel() // features, TOKENS, TOKENS,
        0, summand, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0))
    if status:
        check(status)
    return y


def _is_vector(bias: Bias, rows: int) -> bool:
    return bias is None or (bias.dtype is _FLOAT32 and bias.numel() == rows
                            and bias.is_contiguous())


def _outputs(x: Tensor, weight: Tensor, stride: Pair, padding: Pair,
             dilation: Pair) -> tuple[Any, Any]:
    """Height and width of y."""
    rows, columns = x.shape[-2:]
    return ((rows + 2 * padding[0] - dilation[0] * (weight.shape[2] - 1) - 1) // stride[0] + 1,
            (columns + 2 * padding[1] - dilation[1] * (weight.shape[3] - 1) - 1) // stride[1] + 1)


def _is_channels_last(x: Tensor) -> bool:
    return not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def _empty_images(x: Tensor, shape: tuple[Any, ...]) -> Tensor:
    """In the order of x."""
    order = torch.channels_last if _is_channels_last(x) else torch.contiguous_format
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=order)


def _conv2d(x: Tensor, weight: Tensor, bias: Bias, stride: Pair, padding: Pair, dilation: Pair,
            groups: int, activation: str, key: str) -> Tensor:
    """On the CPU."""
    sizes = stride, padding, dilation, groups, activation, key
    if x.dim() == 3:
        return _conv2d(x[None], weight, bias, *sizes)[0]
    geometry = Geometry((stride[0], stride[1]), (padding[0], padding[1]),
                        (dilation[0], dilation[1]), groups, activation)
    name = (_threads(), bias is not None, geometry)
    known = _bound.get(id(weight))
    kernel = None
    if (known is not None and known.weight() is weight and known.version == weight._version
            and known.pointer == weight.data_ptr() and x.dtype is _FLOAT32):
        kernel = known.kernels.get(name)
    if kernel is None:
        kernel = _slow_kernel(x, weight, bias, key, Variant(*name))
    if (kernel is None or x.dim() != 4 or x.shape[1] != weight.shape[1] * groups
            or not _is_vector(bias, kernel._out)):
        return _dense_conv2d(x, weight, bias, *sizes)
    images, channels, height, width = x.shape
    rows, columns = _outputs(x, weight, stride, padding, dilation)
    if images == 0 or rows < 1 or columns < 1:
        return _dense_conv2d(x, weight, bias, *sizes)
    return _run_conv2d(kernel, x, bias, (images, kernel._out, rows, columns))


def _run_conv2d(kernel: Kernel, x: Tensor, bias: Bias, shape: tuple[int, ...]) -> Tensor:
    if not (x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last)):
        x = x.contiguous()
    y = _empty_images(x, shape)
    images, channels, height, width = x.shape
    _, filters, rows, columns = shape
    pixels, outputs = height * width, rows * columns
    if _is_channels_last(x):
        layout, ldb, ldc = TOKENS, channels, filters
    else:
        layout, ldb, ldc = FEATURES, pixels, outputs
    n, height, width = (outputs, 0, 0) if kernel.is_product else (0, height, width)
    status = _run(kernel._handle.pointer, _pack(
        _SIZE, x.data_ptr(), ldb, y.data_ptr(), ldc, n, layout, layout, 0,
        0 if bias is None else bias.data_ptr(), 0, 0, 0, images, pixels * channels,
        outputs * filters, 0, 0, 0, 0, height, width))
    if status:
        check(status)
    return y


def _linear_with_grad(keys: Any, x: Tensor, weight: Tensor, bias: Bias, activation: str,
                      key: str) -> Tensor:
    if _needs_grad(x, weight, bias):
        return _dense_linear(x, weight, bias, activation, key)
    return LINEAR.redispatch(keys & _below_autograd, x, weight, bias, activation,  # type: ignore
                             key)


def _conv2d_with_grad(keys: Any, x: Tensor, weight: Tensor, bias: Bias, *sizes: Any) -> Tensor:
    if _needs_grad(x, weight, bias):
        return _dense_conv2d(x, weight, bias, *sizes)
    return CONV2D.redispatch(keys & _below_autograd, x, weight, bias, *sizes)  # type: ignore


_below_autograd = torch._C._after_autograd_keyset


def _needs_grad(x: Tensor, weight: Tensor, bias: Bias) -> bool:
    if _is_grad_enabled() and (x.requires_grad or weight.requires_grad
                               or (bias is not None and bias.requires_grad)):
        return True
    return forward_ad._current_level >= 0  # of tangents nothing is known here


def _fake_linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _fake_conv2d(x: Tensor, weight: Tensor, bias: Bias, stride: Pair, padding: Pair,
                 dilation: Pair, groups: int, activation: str, key: str) -> Tensor:
    if x.dim() == 3:  # as _conv2d does, in the order of x
        return _fake_conv2d(x[None], weight, bias, stride, padding, dilation, groups, activation,
                            key)[0]
    shape = (*x.shape[:-3], weight.shape[0], *_outputs(x, weight, stride, padding, dilation))
    return _empty_images(x, shape) if x.dim() == 4 else x.new_empty(shape)


def _register() -> None:
    """Autocast and other devices than the CPU: dense, as without spjit."""
    for name, cpu, dense, with_grad, fake in (
            ("linear", _linear, _dense_linear, _linear_with_grad, _fake_linear),
            ("conv2d", _conv2d, _dense_conv2d, _conv2d_with_grad, _fake_conv2d)):
        _definitions.impl(name, cpu, "CPU")
        _definitions.impl(name, with_grad, "Autograd", with_keyset=True)
        for others in ("CompositeExplicitAutograd", "AutocastCPU", "AutocastCUDA"):
            _definitions.impl(name, dense, others)
        torch.library.register_fake(f"spjit::{name}", fake, lib=_definitions)


_register()


_keys_of = torch._C._dispatch_keys
_included = torch._C._dispatch_tls_local_include_set
_excluded = torch._C._dispatch_tls_local_exclude_set


def _usual() -> tuple[set[int], set[int], set[int]]:
    """The sets of dispatch keys that tensors in memory of the CPU have, that a thread adds and that
    it leaves out, without anything and in inference mode. Modes, transforms, autocast and tracing
    have others."""
    tensors, included, excluded = set(), set(), set()
    for mode in (False, True):
        with torch.inference_mode(mode):
            tensors.add(_keys_of(torch.empty(0, device="cpu")).raw_repr())
            included.add(_included().raw_repr())
            excluded.add(_excluded().raw_repr())
    return tensors, included, excluded


_TENSORS, _INCLUDED, _EXCLUDED = _usual()


def is_plain(x: Tensor, weight: Tensor, bias: Bias) -> bool:
    """Whether an operator may be called without torch, which would do nothing else."""
    return (type(x) is Tensor and _keys_of(x).raw_repr() in _TENSORS
            and _included().raw_repr() in _INCLUDED and _excluded().raw_repr() in _EXCLUDED
            and not _needs_grad(x, weight, bias))


def _is_tensor(x: Any) -> bool:
    """Or something like it, as the proxies of torch.fx."""
    return isinstance(x, Tensor) or hasattr(x, "__torch_function__")


def call_linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor:
    """spjit::linear, in some us less where it is called as usual."""
    if is_plain(x, weight, bias):
        return _linear(x, weight, bias, activation, key)
    call = LINEAR if _is_tensor(x) else _dense_linear  # which says what is wrong
    return call(x, weight, bias, activation, key)


def call_conv2d(x: Tensor, weight: Tensor, bias: Bias, *sizes: Any) -> Tensor:
    """The same of spjit::conv2d."""
    if is_plain(x, weight, bias):
        return _conv2d(x, weight, bias, *sizes)
    call = CONV2D if _is_tensor(x) else _dense_conv2d
    return call(x, weight, bias, *sizes)
