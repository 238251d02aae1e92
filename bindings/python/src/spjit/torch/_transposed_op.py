"""The operators spjit::conv_transpose1d and spjit::conv_transpose2d: one convolution of all phases,
which are put together; opaque to torch, dense where no kernel can be."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._library import library
from .._transposed import Phases
from ._dispatch import Bias
from ._kernels import Variant
from ._op import (
    _definitions,
    _empty_images,
    _is_usual,
    _is_vector,
    _run_images,
    activated,
    as_images,
    as_signals,
    kernel_of,
    order_of,
    register,
)
from ._threads import parallel_for
from ._transposed import TransposedGeometry

for _size in (1, 2):
    _definitions.define(
        f"conv_transpose{_size}d(Tensor x, Tensor weight, Tensor? bias, int[{_size}] stride, "
        f"int[{_size}] padding, int[{_size}] output_padding, int[{_size}] dilation, int groups, "
        "str activation, str key) -> Tensor")

TRANSPOSED1D = torch.ops.spjit.conv_transpose1d.default
TRANSPOSED2D = torch.ops.spjit.conv_transpose2d.default

_interleave = library.spjit_python_interleave
_NUMBERS4, _NUMBERS5 = 4 * ctypes.c_int64, 5 * ctypes.c_int64

Sizes = list[int]  # of two dimensions, or of one


def _dense_by(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def dense(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
              output_padding: Sizes, dilation: Sizes, groups: int, activation: str,
              key: str) -> Tensor:
        y = function(x, weight, bias, stride, padding, output_padding, groups, dilation)
        return activated(y, activation)

    return dense


_dense1d = _dense_by(functional.conv_transpose1d)
_dense2d = _dense_by(functional.conv_transpose2d)


def _shape(x: Tensor, weight: Tensor, geometry: TransposedGeometry) -> tuple[Any, ...]:
    """Of y, for images x."""
    rows, columns = geometry.axes(weight)
    return (*x.shape[:-3], weight.shape[1] * geometry.groups, rows.size_of(x.shape[-2]),
            columns.size_of(x.shape[-1]))


def _has_valid_sizes(geometry: TransposedGeometry) -> bool:
    """Whether torch takes them; others dense refuses."""
    return all(more < max(stride, apart) for more, stride, apart in zip(
        geometry.output_padding, geometry.stride, geometry.dilation)) and min(
            *geometry.stride, *geometry.dilation, geometry.groups) > 0 and min(
                *geometry.padding, *geometry.output_padding) >= 0


def _interleaved(y: Tensor, phases: Phases, shape: tuple[int, ...],
                 order: torch.memory_format) -> Tensor:
    """Images of this shape of `y`, whose channels are phases. `order`: of both."""
    if phases.count == 1 and phases.rows.crop == phases.columns.crop == 0:
        return y
    rows, columns, groups = phases.rows.phases, phases.columns.phases, phases.groups
    if order is torch.contiguous_format:
        result = y.new_empty(shape)
        threads = torch.get_num_threads()
        _, team = (threads > 1 and parallel_for()) or (0, None)
        _interleave(y.data_ptr(), _NUMBERS4(*y.shape), _NUMBERS5(
            rows, columns, phases.rows.crop, phases.columns.crop, groups), result.data_ptr(),
            threads, team)
        return result
    images, filters, *size = shape
    apart: Tensor = y.unflatten(  # type: ignore[no-untyped-call]
        1, (groups, rows, columns, filters // groups))
    whole = apart.permute(0, 5, 2, 6, 3, 1, 4).reshape(
        images, y.shape[2] * rows, y.shape[3] * columns, filters).permute(0, 3, 1, 2)
    return whole[..., :size[0], :size[1]].contiguous(memory_format=order)


def _run_transposed(x: Tensor, weight: Tensor, bias: Bias, geometry: TransposedGeometry,
                    key: str) -> Tensor | None:
    """Of images [n, channels, height, width] on the CPU; None: dense is needed."""
    if not (_is_usual(x, weight, bias) and _has_valid_sizes(geometry)) or \
            x.shape[1] != weight.shape[0]:
        return None
    shape = _shape(x, weight, geometry)
    kernel = kernel_of(weight, key, Variant(torch.get_num_threads(), bias is not None, geometry))
    if kernel is None or min(shape) < 1 or not _is_vector(bias, shape[1]):
        return None
    phases = geometry.phases(weight)
    if bias is not None and phases.count > 1:
        bias = bias.detach().view(phases.groups, 1, -1).expand(-1, phases.count, -1).reshape(-1)
    size = (phases.rows.size_of(x.shape[2]), phases.columns.size_of(x.shape[3]))
    order = order_of(x, weight)
    y = _run_images(kernel, x, bias, (len(x), kernel._out, *size), order)
    return _interleaved(y, phases, shape, order)


def run_transposed2d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
                     output_padding: Sizes, dilation: Sizes, groups: int, activation: str,
                     key: str) -> Tensor | None:
    """On the CPU; None: dense is needed."""
    geometry = TransposedGeometry.of((stride, padding, output_padding, dilation), groups,
                                     activation)
    if x.dim() == 4:
        return _run_transposed(x, weight, bias, geometry, key)
    y = _run_transposed(x[None], weight, bias, geometry, key) if x.dim() == 3 else None
    return None if y is None else y[0]


def run_transposed1d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
                     output_padding: Sizes, dilation: Sizes, groups: int, activation: str,
                     key: str) -> Tensor | None:
    """On the CPU, as images of height 1; None: dense is needed."""
    geometry = TransposedGeometry.of((stride, padding, output_padding, dilation), groups,
                                     activation)
    if x.dim() not in (2, 3):
        return None
    y = _run_transposed(as_images(x), weight, bias, geometry, key)
    return None if y is None else as_signals(y, x)


def _or_dense(run: Callable[..., Tensor | None],
              dense: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def on_cpu(*given: Any) -> Tensor:
        y = run(*given)
        return dense(*given) if y is None else y

    return on_cpu


def _fake2d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
            output_padding: Sizes, dilation: Sizes, groups: int, activation: str,
            key: str) -> Tensor:
    geometry = TransposedGeometry.of((stride, padding, output_padding, dilation), groups,
                                     activation)
    images = x if x.dim() == 4 else x[None]
    y = _empty_images(images, _shape(images, weight, geometry), order_of(images, weight))
    return y if x.dim() == 4 else y[0]


def _fake1d(x: Tensor, weight: Tensor, bias: Bias, stride: Sizes, padding: Sizes,
            output_padding: Sizes, dilation: Sizes, groups: int, activation: str,
            key: str) -> Tensor:
    geometry = TransposedGeometry.of((stride, padding, output_padding, dilation), groups,
                                     activation)
    images = as_images(x)
    y = _empty_images(images, _shape(images, weight, geometry), order_of(images, weight))
    return as_signals(y, x)


register("conv_transpose1d", TRANSPOSED1D, _or_dense(run_transposed1d, _dense1d), _dense1d, _fake1d)
register("conv_transpose2d", TRANSPOSED2D, _or_dense(run_transposed2d, _dense2d), _dense2d, _fake2d)
