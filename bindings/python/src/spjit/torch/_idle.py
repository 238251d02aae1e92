"""Channels that need not be computed: those that are the same number in every run, and those that
no layer reads. Which of a model's layers leave them out, where modules show all that reads them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._channels import ChannelLayer, Channels, Cut, Gone, keep_all, settle, tie
from .._report import Removed
from ._convolutions import CONVOLUTIONS, Geometry, sizes_of
from ._flow import Flow, Step, flows_in
from ._kernels import LayerKey, bind_part
from ._layers import SparseConv1d, SparseConv2d, SparseLinear
from ._op import (CONV1D, CONV2D, LINEAR, is_like_channels_last, outputs_of, run_conv1d,
                  run_conv2d, run_linear)
from ._shortened import Group, ShortLayer, has_plain_settings

if TYPE_CHECKING:
    from ._candidates import Layer

_RUNS: dict[type[nn.Module], tuple[Any, Callable[..., Any]]] = {
    SparseLinear: (LINEAR, run_linear), SparseConv1d: (CONV1D, run_conv1d),
    SparseConv2d: (CONV2D, run_conv2d)}


class Part(NamedTuple):
    """What is left of a layer."""

    layer: Layer
    short: ShortLayer
    removed: Removed


def idle_parts(model: nn.Module, layers: Sequence[Layer]) -> list[Part]:
    """Of these sparse layers, those that may leave channels out."""
    by_module = {layer.module: layer for layer in layers if _is_usual(layer.module)}
    parts: list[Part] = []
    for flow in flows_in(model, by_module):
        parts += _Channels(flow, by_module).parts()
    return parts


def _is_usual(module: nn.Module) -> bool:
    weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
    return (type(module) in _RUNS and has_plain_settings(module)
            and getattr(module, "groups", 1) == 1
            and type(weight) is nn.Parameter and weight.dtype is torch.float32 and weight.is_cpu
            and (bias is None or (type(bias) is nn.Parameter and bias.dtype is torch.float32
                                  and bias.shape == weight.shape[:1] and bias.is_cpu
                                  and not bias.is_inference() and not bias.is_neg())))


class _Channels:
    """Of the values of a flow."""

    def __init__(self, flow: Flow, layers: dict[nn.Module, Layer]) -> None:
        self._flow = flow
        self._layers = layers
        self._known: dict[str, Channels] = {}
        self._of: dict[str, ChannelLayer] = {}  # by the output
        self._limits: list[Any] = []
        # What others than steps get may be written to, also through what is the same tensor.
        self._written = set(flow.kept)
        for step in reversed(flow.steps):
            if step.apply is not None and step.output in self._written:
                self._written.add(step.source)
        for step in flow.steps:
            if step.apply is None:
                self._add_layer(step)
            else:
                self._add_elementwise(step)
        self._gone: Gone = {name: np.ones(one.size, bool) for name, one in self._known.items()}
        keep_all(self._gone, flow.kept)
        settle(self._gone, self._known, self._limits)

    def _add_layer(self, step: Step) -> None:
        assert step.module is not None
        layer = self._of[step.output] = channel_layer(step.module)
        x = self._input(step)
        foldable = layer.foldable(x)
        made = layer.made(x, foldable)
        self._known[step.output] = made.only(step.output not in self._written)

        def limit(gone: Gone) -> None:
            if x is None:
                keep_all(gone, [step.source])
            else:
                gone[step.source] &= layer.goable(foldable, gone[step.output])

        self._limits.append(limit)

    def _input(self, step: Step) -> Channels | None:
        x = self._known.get(step.source)
        return x if self._of[step.output].matches(x) else None

    def _add_elementwise(self, step: Step) -> None:
        x = self._known.get(step.source)
        if x is None:
            return
        made = x.computed(x.constant, functools.partial(_applied, step, x))
        self._known[step.output] = made.only(step.output not in self._written)
        self._limits.append(lambda gone: tie(gone, [step.source, step.output]))

    def _is_shorter(self, value: str) -> bool:
        return value in self._gone and bool(self._gone[value].any())

    def parts(self) -> list[Part]:
        firsts: dict[str, Step] = {}  # by the value: the layer whose call decides
        groups: dict[str, list[Step]] = {}  # by the output of that
        for step in self._flow.steps:
            first = firsts.get(step.source) if self._is_shorter(step.source) else None
            if first is None and step.apply is None and self._is_shorter(step.output):
                first = step
            if first is not None:
                groups.setdefault(first.output, []).append(step)
                if self._is_shorter(step.output):
                    firsts[step.output] = first
        return [part for steps in groups.values() for part in self._group(steps)]

    def _group(self, steps: list[Step]) -> list[Part]:
        modules = [step.module for step in steps if step.module is not None]
        layers = [step for step in steps if step.apply is None]
        group = Group(self._flow.host, modules,
                      [step.module for step in layers if step.module is not None])
        return [self._part(group, step, step is steps[0]) for step in layers]

    def _part(self, group: Group, step: Step, is_first: bool) -> Part:
        assert step.module is not None
        layer, of, x = self._layers[step.module], self._of[step.output], self._input(step)
        rows = ~self._gone[step.output]
        columns = np.ones(of.entries.shape[1], bool) if x is None else ~self._gone[step.source]
        weight, bias = _left(layer.module, of, rows, columns, of.folded(x, ~columns))
        assert isinstance(layer.key, LayerKey)
        key = layer.key.with_weights(bind_part(weight))
        sizes: tuple[Any, ...] = ()
        if isinstance(layer.module, CONVOLUTIONS):
            found = sizes_of(layer.module, layer.weight)
            assert found is not None
            sizes = (*found, 1)
        short = ShortLayer(group, is_first,
                           (of.trailing, len(columns), int(columns.sum())),
                           (weight, bias, sizes, str(key)), _RUNS[type(layer.module)])
        return Part(layer, short, _removed(layer, of.cut(x, rows, columns)))


def channel_layer(module: nn.Module) -> ChannelLayer:
    """Of a linear layer, or a convolution of one group."""
    weight, bias = module._parameters["weight"], module._parameters["bias"]
    assert weight is not None
    values = weight.detach().numpy()
    sizes = sizes_of(module, weight) if isinstance(module, CONVOLUTIONS) else None
    return ChannelLayer(values.reshape(*values.shape[:2], -1), values.shape, values.ndim - 2,
                        None if bias is None else bias.detach().numpy(), takes_bias=True,
                        is_bordered=sizes is not None and any(sizes[1]))


@torch.no_grad()
def _applied(step: Step, x: Channels) -> np.ndarray | None:
    assert step.apply is not None
    y = step.apply(torch.from_numpy(x.column.copy()))
    return y.numpy() if isinstance(y, Tensor) else None


@torch.inference_mode(False)  # where tensors count changes
@torch.no_grad()
def _left(module: nn.Module, of: ChannelLayer, rows: np.ndarray, columns: np.ndarray,
          shift: np.ndarray) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of these rows and columns. `shift`: what the others add to each row."""
    whole: Tensor = module._parameters["weight"]  # type: ignore[assignment]
    order = torch.channels_last if whole.dim() == 4 and is_like_channels_last(whole) \
        else torch.contiguous_format
    weight = whole[torch.from_numpy(rows)][:, torch.from_numpy(columns)].contiguous(
        memory_format=order)
    if of.bias is None and not np.any(shift[rows]):
        return weight, None
    return weight, torch.from_numpy(of.shifted_bias(shift)[rows].copy())


def _removed(layer: Layer, cut: Cut) -> Removed:
    places = sum(_places(layer, x) for x in layer.inputs)
    return Removed(layer.row.layer, cut.shape, cut.rows, cut.columns, cut.folded,
                   2 * cut.weights * places, 4 * (cut.weights + cut.rows * places))


def _places(layer: Layer, x: Tensor) -> int:
    """Tokens or pixels of what it gives for x."""
    if not isinstance(layer.module, CONVOLUTIONS):
        return x.numel() // max(x.shape[-1], 1)
    sizes = sizes_of(layer.module, layer.weight)
    assert sizes is not None
    trailing = len(sizes[0])
    pixels = outputs_of(x if trailing == 2 else x.unsqueeze(-2), layer.weight,
                        Geometry.of(*sizes, 1, ""))
    images = x.numel() // max(math.prod(x.shape[-1 - trailing:]), 1)
    return int(images * math.prod(pixels))
