"""The operators spjit::linear, spjit::conv1d and spjit::conv2d: opaque to torch, dense where no
kernel can be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.fx import Proxy
from torch.nn import functional

from .._arrays import FEATURES, TOKENS
from .._errors import NotSupported
from .._kernel import Kernel
from .._library import ARGUMENTS, check, library
from ._convolutions import Geometry
from ._dispatch import PLAIN, Bias, is_autocast, is_foreign, is_plain, needs_grad
from ._kernels import Variant, _bound, find_kernel, forget, is_current
from ._places import FLOAT32_ALONE, TYPES_BY_DEVICE, Place, stream_of
from ._released import ReleasedParameter
from ._sizes import kernel_size

_definitions = torch.library.Library("spjit", "DEF")
_definitions.define("linear(Tensor x, Tensor weight, Tensor? bias, str activation, str key) -> "
                    "Tensor")
for _size in (1, 2):
    _definitions.define(f"conv{_size}d(Tensor x, Tensor weight, Tensor? bias, int[{_size}] stride, "
                        f"int[{_size}] padding, int[{_size}] dilation, int groups, str activation, "
                        "str key) -> Tensor")

LINEAR = torch.ops.spjit.linear.default
CONV1D = torch.ops.spjit.conv1d.default
CONV2D = torch.ops.spjit.conv2d.default

_run = library.spjit_kernel_launch  # on the CPU it has run when it returns
_pack = ARGUMENTS.pack
_SIZE = ARGUMENTS.size
_FLOAT32 = torch.float32
_ON_CPU: Mapping[str, Collection[Any]] = {"cpu": FLOAT32_ALONE}
_threads = torch.get_num_threads

Sizes = list[int]  # of two dimensions, or of one


_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu,
    "hard-swish": functional.hardswish, "leaky-relu": functional.leaky_relu,
    "hard-sigmoid": lambda x, *_: functional.hardsigmoid(x), "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh")}


def activated(y: Tensor, activation: str) -> Tensor:
    """`activation`: Activation.text, or none."""
    if not activation:
        return y
    # Not Activation.parse(), whose cache torch.compile cannot look into.
    name, _, parameters = activation.partition(":")
    return _ACTIVATIONS[name](y, *map(float, filter(None, parameters.split(","))))


def _dense_linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor:
    y = functional.linear(x, weight, bias)
    return activated(y, activation)


def _dense_conv2d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
                  dilation: Sizes, groups: int, activation: str, key: str) -> Tensor:
    y = functional.conv2d(x, weight, bias, stride, padding, dilation, groups)
    return activated(y, activation)


def _dense_conv1d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
                  dilation: Sizes, groups: int, activation: str, key: str) -> Tensor:
    y = functional.conv1d(x, weight, bias, stride, padding, dilation, groups)
    return activated(y, activation)


def _is_usual(x: Tensor, weight: Tensor, bias: Bias,
              types: Mapping[str, Collection[Any]] = _ON_CPU) -> bool:
    """Whether a kernel can take them: in one place, of one of the types that it takes there, not
    empty nor the negative of what is there, and a weight that is no subclass, unless it is a
    released one, and whose changes are counted."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    dtype, device = weight.dtype, weight.device
    return (dtype in types.get(device.type, ())
            and all(tensor.dtype is dtype and tensor.device == device
                    and tensor.layout is torch.strided
                    and not tensor.is_neg() and (
                        type(tensor) in PLAIN
                        or (tensor is weight and type(tensor) is ReleasedParameter))
                    for tensor in tensors)
            and x.numel() > 0 and weight.numel() > 0 and not weight.is_inference())


def _slow_kernel(x: Tensor, weight: Tensor, bias: Bias, key: str,
                 variant: Variant) -> Kernel | None:
    if _is_usual(x, weight, bias, TYPES_BY_DEVICE):
        return find_kernel(weight, key, variant)
    if weight.dtype not in TYPES_BY_DEVICE.get(weight.device.type, ()):  # since it was bound
        forget(weight)
    return None


def kernel_of(weight: Tensor, key: str, variant: Variant) -> Kernel | None:
    """For the weight as it is now, which `_is_usual`; None: dense is needed."""
    known = _bound.get(id(weight))
    kernel = known.kernels.get(variant) if known is not None and is_current(known, weight) else None
    return find_kernel(weight, key, variant) if kernel is None else kernel


def run_linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor | None:
    """Where x is; None: dense is needed. Each line costs some 0.1 us of each call."""
    known = _bound.get(id(weight))
    kernel = None
    is_on_cpu = x.is_cpu
    place = _threads() if is_on_cpu else x.device
    if (known is not None and known.weight() is weight and known.version == weight._version
            and known.pointer == weight.data_ptr() and known.shape == weight.shape
            and known.stride == weight.stride() and not weight.is_neg()
            and known.dtype is weight.dtype is x.dtype):  # is_current()
        kernel = known.kernels.get((place, bias is not None, activation, False))
    if kernel is None:
        kernel = _slow_kernel(x, weight, bias, key, Variant(place, bias is not None, activation))
        if kernel is None:
            return None
    features, rows = kernel._in, kernel._out
    if bias is not None:
        if not _is_vector(bias, rows, x.dtype, place):
            return None
        bias = bias.float()  # the same tensor, if it is fp32
    *lead, given = x.shape or (0,)
    if given != features:
        return None  # dense says what is wrong
    if not x.is_contiguous():
        x = x.contiguous()
    y = x.new_empty(*lead, rows)
    status = _run(kernel._handle.pointer, _pack(
        _SIZE, x.data_ptr(), features, y.data_ptr(), rows, x.numel() // features, TOKENS, TOKENS,
        0, 0 if bias is None else bias.data_ptr(), 0, 0, 0, 1, 0, 0, 0, 0, 0,
        0 if is_on_cpu else stream_of(x), 0, 0, 0, 0, 0, 0))
    if status:
        check(status)
    return y


def run_tokens(kernel: Kernel, x: Tensor, y: Tensor, scale: Bias, bias: Bias,
               x_scale: int = 0, x_zero_point: int = 0) -> Tensor:
    """y, which a kernel for the CPU computes of contiguous tokens of x. `x_scale`: its address."""
    status = _run(kernel._handle.pointer, _pack(
        _SIZE, x.data_ptr(), kernel._in, y.data_ptr(), kernel._out, x.numel() // kernel._in,
        TOKENS, TOKENS, 0 if scale is None else scale.data_ptr(),
        0 if bias is None else bias.data_ptr(), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        x_scale, x_zero_point, 0, 0))
    if status:
        check(status)
    return y


def _linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor:
    y = run_linear(x, weight, bias, activation, key)
    return _dense_linear(x, weight, bias, activation, key) if y is None else y


def _is_vector(bias: Bias, rows: int, dtype: torch.dtype = _FLOAT32, place: Place = 1) -> bool:
    return bias is None or (
        bias.dtype is dtype and (bias.is_cpu if isinstance(place, int) else bias.device == place)
        and bias.shape == (rows,) and bias.is_contiguous() and not bias.is_neg())


def outputs_of(x: Tensor, weight: Tensor, geometry: Geometry) -> tuple[Any, ...]:
    """Height and width of y."""
    return tuple((x.shape[axis - 2] + 2 * geometry.padding[axis]
                  - geometry.dilation[axis] * (size - 1) - 1) // geometry.stride[axis] + 1
                 for axis, size in enumerate(kernel_size(weight)))


def is_like_channels_last(images: Tensor) -> bool:
    """As torch's suggest_memory_format(): by the strides of [n, channels, height, width] alone."""
    shape, strides = images.shape, images.stride()
    if strides[1] == 0:
        return False
    least = 0
    for axis in (1, 3, 2, 0):
        # Of one pixel both orders are the same: it is the contiguous one.
        if (shape[axis] == 0 or strides[axis] < least
                or (axis == 0 and least == strides[1])):
            return False
        least = strides[axis] * (shape[axis] if shape[axis] > 1 else 1)
    return True


def order_of(images: Tensor, weight: Tensor) -> torch.memory_format:
    """In which torch gives a convolution of images [(n), channels, height, width]."""
    images = images if images.dim() == 4 else images[None]
    is_last = is_like_channels_last(images) or (
        weight.dim() == 4 and is_like_channels_last(weight))
    return torch.channels_last if is_last else torch.contiguous_format


def _empty_images(x: Tensor, shape: tuple[Any, ...], order: torch.memory_format) -> Tensor:
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=order)


def _takes_size(kernel: Kernel, x: Tensor) -> bool:
    """Whether it is for such images. On the CPU all are."""
    return kernel.is_product or kernel.convolution.takes_size(  # type: ignore[attr-defined]
        *x.shape[-2:])


def _run_conv(x: Tensor, weight: Tensor, bias: Bias, geometry: Geometry, key: str) -> Tensor | None:
    """Of images [n, channels, height, width], where x is; None: dense is needed."""
    place = _threads() if x.is_cpu else x.device
    name = (place, bias is not None, geometry, False)
    known = _bound.get(id(weight))
    kernel = None
    if (known is not None and known.weight() is weight and known.version == weight._version
            and known.pointer == weight.data_ptr() and known.shape == weight.shape
            and known.stride == weight.stride() and not weight.is_neg()
            and known.dtype is weight.dtype is x.dtype):  # is_current()
        kernel = known.kernels.get(name)
    if kernel is None:
        kernel = _slow_kernel(x, weight, bias, key, Variant(*name))
    if kernel is not None and not x.is_cpu and not _takes_size(kernel, x):
        kernel = _slow_kernel(x, weight, bias, key, Variant(*name[:3], any_size=True))
    if (kernel is None or x.shape[1] != weight.shape[1] * geometry.groups
            or not _is_vector(bias, kernel._out, x.dtype, place)):
        return None
    if bias is not None:
        bias = bias.float()
    rows, columns = outputs_of(x, weight, geometry)
    if len(x) == 0 or rows < 1 or columns < 1:
        return None
    return _run_images(kernel, x, bias, (len(x), kernel._out, rows, columns), order_of(x, weight))


def run_conv2d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
               dilation: Sizes, groups: int, activation: str, key: str) -> Tensor | None:
    """Where x is; None: dense is needed."""
    geometry = Geometry((stride[0], stride[1]), (padding[0], padding[1]),
                        (dilation[0], dilation[1]), groups, activation)
    if x.dim() == 4:
        return _run_conv(x, weight, bias, geometry, key)
    y = _run_conv(x[None], weight, bias, geometry, key) if x.dim() == 3 else None
    return None if y is None else y[0]


def run_conv1d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
               dilation: Sizes, groups: int, activation: str, key: str) -> Tensor | None:
    """Where x is, as images of height 1; None: dense is needed."""
    geometry = Geometry((1, stride[0]), (0, padding[0]), (1, dilation[0]), groups, activation)
    if x.dim() not in (2, 3):
        return None
    y = _run_conv(as_images(x), weight, bias, geometry, key)
    return None if y is None else as_signals(y, x)


def as_images(x: Tensor) -> Tensor:
    """Signals [(n), channels, length] as images of height 1, contiguous as torch makes them."""
    images = x.contiguous().unsqueeze(-2)
    return images if x.dim() == 3 else images[None]


def as_signals(y: Tensor, x: Tensor) -> Tensor:
    """What images of height 1 gave, with as many dimensions as x."""
    return y.squeeze(2) if x.dim() == 3 else y[0].squeeze(1)


def _conv2d(x: Tensor, weight: Tensor, bias: Bias, *sizes: Any) -> Tensor:
    y = run_conv2d(x, weight, bias, *sizes)
    return _dense_conv2d(x, weight, bias, *sizes) if y is None else y


def _conv1d(x: Tensor, weight: Tensor, bias: Bias, *sizes: Any) -> Tensor:
    y = run_conv1d(x, weight, bias, *sizes)
    return _dense_conv1d(x, weight, bias, *sizes) if y is None else y


def _run_images(kernel: Kernel, x: Tensor, bias: Bias, shape: tuple[int, ...],
                order: torch.memory_format) -> Tensor:
    """`order`: of the result, which x gets, too, unless a kernel for a GPU has another one."""
    wanted = order
    if not x.is_cpu:
        is_last = kernel.layout == "tokens"
        order = torch.channels_last if is_last else torch.contiguous_format
    x = x.contiguous(memory_format=order)
    y = _empty_images(x, shape, order)
    images, channels, height, width = x.shape
    _, filters, rows, columns = shape
    pixels, outputs = height * width, rows * columns
    if order is torch.channels_last:
        layout, ldb, ldc = TOKENS, channels, filters
    else:
        layout, ldb, ldc = FEATURES, pixels, outputs
    n, height, width = (outputs, 0, 0) if kernel.is_product else (0, height, width)
    status = _run(kernel._handle.pointer, _pack(
        _SIZE, x.data_ptr(), ldb, y.data_ptr(), ldc, n, layout, layout, 0,
        0 if bias is None else bias.data_ptr(), 0, 0, 0, images, pixels * channels,
        outputs * filters, 0, 0, 0, 0 if x.is_cpu else stream_of(x), height, width, 0, 0,
        0, 0))
    if status:
        check(status)
    return y if order is wanted else y.contiguous(memory_format=wanted)


def _with_grad(operator: Any, dense: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(keys: Any, x: Tensor, weight: Tensor, bias: Bias, *sizes: Any) -> Tensor:
        if needs_grad(x, weight, bias):
            return dense(x, weight, bias, *sizes)
        return operator.redispatch(  # type: ignore[no-any-return]
            keys & _below_autograd, x, weight, bias, *sizes)

    return run


_below_autograd = torch._C._after_autograd_keyset


def _fake_linear(x: Tensor, weight: Tensor, bias: Bias, activation: str, key: str) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _fake_images(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    shape = (*x.shape[:-3], weight.shape[0], *outputs_of(x, weight, geometry))
    return _empty_images(x, shape, order_of(x, weight))


def _fake_conv2d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
                 dilation: Sizes, groups: int, activation: str, key: str) -> Tensor:
    geometry = Geometry.of(stride, padding, dilation, groups, activation)
    if x.dim() == 3:  # as _conv2d does, in the order of x
        return _fake_images(x[None], weight, geometry)[0]
    return _fake_images(x, weight, geometry)


def _fake_conv1d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
                 dilation: Sizes, groups: int, activation: str, key: str) -> Tensor:
    geometry = Geometry.of(stride, padding, dilation, groups, activation)
    return as_signals(_fake_images(as_images(x), weight, geometry), x)


def _refuse_onnx() -> None:
    if torch.onnx.is_in_onnx_export():
        raise NotSupported("torch.onnx.export does not know sparse layers: call "
                           "spjit.torch.restore_(model) before")


def _not_to_onnx(fake: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """torch.export's ways into a graph, which torch.onnx.export tries, all ask for shapes."""
    @functools.wraps(fake)
    def run(*given: Any) -> Tensor:
        _refuse_onnx()
        return fake(*given)

    return run


def _after(dense: Callable[..., Tensor], fake: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`dense` refuses operands of other devices, types and sizes, of which `fake` knows nothing."""
    def run(*given: Any) -> Tensor:
        dense(*given)
        return fake(*given)

    return run


_DENSE: dict[Any, Callable[..., Tensor]] = {}


def register(name: str, operator: Any, sparse: Callable[..., Tensor],
             dense: Callable[..., Tensor], fake: Callable[..., Tensor],
             devices: Sequence[str] = ("CPU",)) -> None:
    """Autocast and other devices: dense, as without spjit."""
    _DENSE[operator] = dense
    for device in devices:
        _definitions.impl(name, sparse, device)
    _definitions.impl(name, _with_grad(operator, dense), "Autograd", with_keyset=True)
    for others in ("CompositeExplicitAutograd", "AutocastCPU", "AutocastCUDA"):
        _definitions.impl(name, dense, others)
    torch.library.register_fake(f"spjit::{name}", _not_to_onnx(_after(dense, fake)),
                                lib=_definitions)


CPU_AND_CUDA = ("CPU", "CUDA")

register("linear", LINEAR, _linear, _dense_linear, _fake_linear, CPU_AND_CUDA)
register("conv1d", CONV1D, _conv1d, _dense_conv1d, _fake_conv1d, CPU_AND_CUDA)
register("conv2d", CONV2D, _conv2d, _dense_conv2d, _fake_conv2d, CPU_AND_CUDA)


def dense_of_operator(operator: Any) -> Callable[..., Tensor]:
    """What it does where no kernel can be."""
    return _DENSE[operator]


def runs_dense(x: Any, weight: Tensor, bias: Bias) -> bool:
    """Whether a call that no kernel took at once runs dense; other calls torch has to see."""
    # Proxies of torch.fx are no tensors; in torch.jit.trace numbers are none.
    if not isinstance(x, Tensor) or torch.jit.is_tracing():
        return False
    return (is_plain(x, weight, bias) or needs_grad(x, weight, bias)
            or not _is_usual(x, weight, bias, TYPES_BY_DEVICE) or is_foreign(x, weight, bias)
            or is_autocast(x))


def call(operator: Any, x: Any, weight: Tensor, bias: Bias, *sizes: Any) -> Tensor:
    """By torch; dense where it has nothing to see, after no kernel took it, or does not know the
    operator. What is no tensor, nor a proxy of torch.fx, dense refuses, or knows by itself."""
    if not is_compiling():
        _refuse_onnx()
        if torch.jit.is_tracing() and type(weight) is ReleasedParameter:
            raise NotSupported("torch.jit.trace takes no weights whose dense memory was freed: "
                               "call spjit.torch.restore_(model) before")
    is_like_tensor = isinstance(x, (Tensor, Proxy))
    if is_like_tensor and not is_foreign(x, weight, bias) and (
            is_compiling() or not is_plain(x, weight, bias)):
        return operator(x, weight, bias, *sizes)  # type: ignore[no-any-return]
    return _DENSE[operator](x, weight, bias, *sizes)
