"""What a layer of each kind sees of its calls, and the kernels that it takes."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .._errors import SpjitError
from .._kernel import Kernel
from .._report import Row
from .._timing import usual_time
from . import _passes
from ._attention import Projections, inputs_by_name, projection_of
from ._clock import Clock, clock_of
from ._dispatch import is_usual_input
from ._kernels import LayerKey, Variant, compile_layer, content_hash, find_bound, put_kernel
from ._layer_rows import row_of_uses
from ._layers import computed_by, matrix_of, weights_of
from ._op import order_of
from ._places import place_of
from ._quantised import kernels_type
from ._recurrent import parts_of
from ._uses import USED_BY_FUNCTIONS, Uses


_UNCALLED = "the example does not call it"


@dataclass
class Layer:
    """A layer of the model; as it stands here, a Linear, a convolution or a Conv1D."""

    function = "forward"  # the module's, which passes replace

    module: nn.Module
    row: Row
    then: nn.Module | None = None  # the activation behind it, which a kernel can do, too
    inputs: list[Tensor] = field(default_factory=list)  # of one pass; without memory
    unseen: str = _UNCALLED  # why there are none
    used_too = False  # its weight, by functions
    key: LayerKey | Projections | None = None  # of its kernel
    before: list[float] = field(default_factory=list)  # us of each pass
    after: list[float] = field(default_factory=list)
    marks: list[tuple[Any, Any]] = field(default_factory=list)  # of its clock, of a pass

    @property
    def is_candidate(self) -> bool:
        return not self.row.reason

    @functools.cached_property
    def clock(self) -> Clock:
        return clock_of(*weights_of(self.module)[:1])

    @property
    def spent(self) -> float:
        """us of the last pass, which is done."""
        return sum(self.clock.us(begin, end) for begin, end in self.marks)

    @property
    def dense(self) -> Callable[..., Any]:
        """`function` without spjit."""
        return _passes.dense_forward(self.module)

    @property
    def weight(self) -> Tensor:
        return matrix_of(self.module)

    @property
    def nonzeros(self) -> int:
        return sum(int(torch.count_nonzero(each)) for each in weights_of(self.module))

    @property
    def rows(self) -> list[Row]:
        """Of the report: the layer's, and one for functions that use its weight, too."""
        return [self.row, row_of_uses(self.row)] if self.used_too else [self.row]

    @property
    def variant(self) -> Variant:
        return Variant(place_of(self.weight), self.module.bias is not None,
                       computed_by(self.module, self.row.activation))

    def see(self, input: Any, *given: Any, **named: Any) -> Any:
        """forward(), dense, that remembers what it is called with."""
        self._remember(input)
        return self.dense(input, *given, **named)

    def _remember(self, input: Tensor) -> None:
        if is_usual_input(input):
            self.inputs.append(torch.empty_strided(input.shape, input.stride(), dtype=input.dtype,
                                                   device="meta"))
        else:
            self.unseen = (f"its input is a {type(input).__name__} "
                           f"({str(input.layout).removeprefix('torch.')}, "
                           f"{'' if input.is_nested else 'not '}nested); expected a plain dense "
                           "tensor")

    def find_uses(self, uses: Uses) -> None:
        """Of the weight by functions, beside the module. Precondition: it is a candidate."""
        if self.unseen == _UNCALLED and any(map(uses.of_memory, weights_of(self.module))):
            self.unseen = USED_BY_FUNCTIONS
        self.used_too = bool(self.inputs) and uses.is_by_functions(
            self.module._parameters.get("weight"))

    def seen(self) -> None:
        """Into the row; out if no kernel takes it."""
        if self.inputs:
            self.row.input = tuple(self._typical().shape)
        elif self.is_candidate:
            self.row.reason = self.unseen

    def _typical(self) -> Tensor:
        """The most frequent input, of those the largest."""
        counts = Counter(tuple(each.shape) for each in self.inputs)
        return max(self.inputs, key=lambda each: (counts[tuple(each.shape)], each.numel()))

    def key_for(self, network_nnz: int) -> LayerKey:
        seen = self._typical()
        weights = content_hash(self.weight)
        if self.row.kind in ("Linear", "Conv1D"):
            return LayerKey(weights, tokens=seen.numel() // max(seen.shape[-1], 1),
                            network_nnz=network_nnz)
        if self.row.kind.endswith("1d"):
            return LayerKey(weights, height=1, width=seen.shape[-1], network_nnz=network_nnz)
        last = order_of(seen, self.weight) is torch.channels_last
        return LayerKey(weights, height=seen.shape[-2], width=seen.shape[-1], channels_last=last,
                        network_nnz=network_nnz)

    def take(self, key: LayerKey, kernel: Kernel | None = None) -> None:
        """This kernel, or one that is compiled; out if there is none."""
        try:
            made = compile_layer(self.weight, key, self.variant) if kernel is None else kernel
        except SpjitError as error:
            self.row.reason = str(error)
            return
        self.key = key
        info = made.info
        self.row.kernel, self.row.zeros = info["family"], 1 - info["nnz"] / self.weight.numel()
        put_kernel(find_bound(self.weight, key.weights), key, self.variant, made)

    @property
    def shared(self) -> Any:
        """Equal for layers that one kernel is for."""
        return id(self.weight), self.variant

    def take_of(self, other: Layer) -> None:
        """Its kernel, of the same weight."""
        self.key, mine, its = other.key, self.row, other.row
        mine.kernel, mine.zeros, mine.reason = its.kernel, its.zeros, its.reason

    def measured(self) -> None:
        """Into the row; out if dense was faster."""
        self.row.before_us, self.row.after_us = usual_time(self.before), usual_time(self.after)
        if _passes.is_slower(self.row.before_us, self.row.after_us):
            self.row.reason = "dense is faster here"


class RecurrentLayer(Layer):
    """An LSTM, GRU, RNN or a cell of one. Its inputs are [steps, batch, features]."""

    def see(self, input: Any, *given: Any, **named: Any) -> Any:
        if isinstance(input, PackedSequence):
            sizes = (len(input.batch_sizes), int(input.batch_sizes[0]), input.data.shape[-1])
            self.inputs.append(torch.empty(sizes, device="meta"))
        elif isinstance(input, Tensor):
            self._remember(_as_steps(self.module, input) if is_usual_input(input) else input)
        return _passes.dense_forward(self.module)(input, *given, **named)

    @property
    def shared(self) -> Any:
        return id(self)

    def key_for(self, network_nnz: int) -> LayerKey:
        steps, batch, _ = self._typical().shape
        return LayerKey(content_hash(self.weight), tokens=max(steps * batch, 1),
                        batch=max(batch, 1), network_nnz=network_nnz)

    @property
    def weight(self) -> Tensor:
        """The first one."""
        return weights_of(self.module)[0]

    def take(self, key: LayerKey, find: Any = None) -> None:
        """Kernels of all weights: those that find(weight, variant) has, others are compiled; out
        if there is none for a weight."""
        found = []
        try:
            for weight, text, variant in parts_of(self.module, key):
                of_part = LayerKey.parse(text)
                kernel = None if find is None else find(weight, variant)
                found.append((weight, of_part, variant,
                              kernel or compile_layer(weight, of_part, variant)))
        except SpjitError as error:
            self.row.reason = str(error)
            return
        self.key = key
        for weight, of_part, variant, kernel in found:
            put_kernel(find_bound(weight), of_part, variant, kernel)
        self.row.kernel = found[1][-1].info["family"]  # of the product of a step


@dataclass
class AttentionLayer(Layer):
    """The projections in front of an nn.MultiheadAttention; the one behind is a layer itself."""

    function = "spjit_project"

    # Of each call names of projections and tokens.
    calls: Counter[tuple[tuple[str, int], ...]] = field(default_factory=Counter)

    @property
    def shared(self) -> Any:
        return id(self)

    @property
    def dense(self) -> Callable[..., Any]:
        return self.module.project_dense  # type: ignore[return-value]

    def see(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        self._remember(query)
        packed: bool = self.module._qkv_same_embed_dim  # type: ignore[assignment]
        self.calls[tuple((name, x.numel() // max(x.shape[-1], 1))
                         for name, x in inputs_by_name(packed, query, key, value))] += 1
        return self.dense(query, key, value)

    def key_for(self, network_nnz: int) -> Projections:  # type: ignore[override]
        typical, _ = self.calls.most_common(1)[0]
        return Projections(tuple(
            (name, LayerKey(content_hash(projection_of(self.module, name)), tokens=tokens,
                            network_nnz=network_nnz)) for name, tokens in typical))

    @property
    def variant(self) -> Variant:
        return Variant(place_of(weights_of(self.module)[0]),
                       self.module.in_proj_bias is not None, "")

    def take(self, key: Projections, find: Any = None) -> None:  # type: ignore[override]
        """Kernels of these projections: those that find(weight) has, others are compiled; out if
        there is none for one of them."""
        found = []
        try:
            for name, of_part in key.keys:
                weight = projection_of(self.module, name)
                kernel = None if find is None else find(weight)
                found.append((weight, of_part,
                              kernel or compile_layer(weight, of_part, self.variant)))
        except SpjitError as error:
            self.row.reason = str(error)
            return
        self.key = key
        for weight, of_part, kernel in found:
            put_kernel(find_bound(weight), of_part, self.variant, kernel)
        self.row.kernel = found[0][-1].info["family"]


class QuantisedLayer(Layer):
    """A Linear of `is_quantised`."""

    @property
    def shared(self) -> Any:
        return id(self)

    @property
    def nonzeros(self) -> int:
        weights = kernels_type(self.module).read(self.module)
        return int(np.count_nonzero(weights.integers))

    def key_for(self, network_nnz: int) -> LayerKey:
        seen = self._typical()
        return LayerKey("", tokens=seen.numel() // max(seen.shape[-1], 1), network_nnz=network_nnz)

    def take(self, key: LayerKey, kernel: Kernel | None = None) -> None:
        """A kernel that is compiled; out if there is none, or the library computes otherwise."""
        kernels = kernels_type(self.module)()
        try:
            made = kernels.compile(self.module, key, torch.get_num_threads())
        except SpjitError as error:
            self.row.reason = str(error)
            return
        self.row.kernel = made.info["family"]
        self.row.reason = kernels.why_other_result(self.module)
        self.key = key
        vars(self.module)["spjit_quantised"] = kernels


def _as_steps(module: nn.Module, input: Tensor) -> Tensor:
    """[steps, batch, features]."""
    if isinstance(module, nn.RNNBase):
        if input.dim() == 2:
            return input[:, None]
        return input.transpose(0, 1) if module.batch_first and input.dim() == 3 else input
    return input[None, None] if input.dim() == 1 else input[None]
