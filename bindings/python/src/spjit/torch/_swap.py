"""The way of a model's layers from dense to sparse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .._errors import SpjitError
from .._kernel import Kernel
from .._report import Memory, Removed, Report, Row
from .._timing import turns, usual_time
from ._attention import Projections, inputs_by_name, is_attention, projection_of
from ._dispatch import is_usual_input
from ._fusion import fused_pairs, swap_parents
from ._hosts import open_hosts, see_host
from ._idle import idle_parts
from ._kernels import LayerKey, Variant, compile_layer, content_hash, find_bound, put_kernel
from ._layer_rows import parameters_of, row_of, row_of_uses
from ._layers import (Told, check_model, computed_by, is_layer, is_sparse, matrix_of, swap, told_of,
                      unswap, weights_of)
from ._masks import pause_masks, refresh_masks
from ._memory import MemoryBefore
from ._op import order_of
from ._passes import LEAST_ROUNDS, Passes, dense_forward, replaced
from ._quantised import QuantisedKernels, is_quantised, read_weights
from ._recurrent import is_recurrent, parts_of
from ._release import is_released, rebuild, release, release_layers
from ._swapped import DenseCalls
from ._uses import USED_BY_FUNCTIONS, Uses, uses_in
from ._weights import rows_of


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
    spent: float = 0.0  # us of the pass under way

    @property
    def is_candidate(self) -> bool:
        return not self.row.reason

    @property
    def dense(self) -> Callable[..., Any]:
        """`function` without spjit."""
        return dense_forward(self.module)

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
        return Variant(torch.get_num_threads(), self.module.bias is not None,
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
        if _is_slower(self.row.before_us, self.row.after_us):
            self.row.reason = "dense is faster here"


class RecurrentLayer(Layer):
    """An LSTM, GRU, RNN or a cell of one. Its inputs are [steps, batch, features]."""

    def see(self, input: Any, *given: Any, **named: Any) -> Any:
        if isinstance(input, PackedSequence):
            sizes = (len(input.batch_sizes), int(input.batch_sizes[0]), input.data.shape[-1])
            self.inputs.append(torch.empty(sizes, device="meta"))
        elif isinstance(input, Tensor):
            self._remember(_as_steps(self.module, input) if is_usual_input(input) else input)
        return dense_forward(self.module)(input, *given, **named)

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
        return Variant(torch.get_num_threads(), self.module.in_proj_bias is not None, "")

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
    """A Linear of torch.ao.quantization.quantize_dynamic."""

    @property
    def shared(self) -> Any:
        return id(self)

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(read_weights(self.module).integers))

    def key_for(self, network_nnz: int) -> LayerKey:
        seen = self._typical()
        return LayerKey("", tokens=seen.numel() // max(seen.shape[-1], 1), network_nnz=network_nnz)

    def take(self, key: LayerKey, kernel: Kernel | None = None) -> None:
        """A kernel that is compiled; out if there is none, or torch computes something else."""
        kernels = QuantisedKernels()
        try:
            made = kernels.compile(self.module, key, torch.get_num_threads())
        except SpjitError as error:
            self.row.reason = str(error)
            return
        self.row.kernel = made.info["family"]
        self.row.reason = kernels.why_other_engine(self.module)
        self.key = key
        vars(self.module)["spjit_quantised"] = kernels


def _as_steps(module: nn.Module, input: Tensor) -> Tensor:
    """[steps, batch, features]."""
    if isinstance(module, nn.RNNBase):
        if input.dim() == 2:
            return input[:, None]
        return input.transpose(0, 1) if module.batch_first and input.dim() == 3 else input
    return input[None, None] if input.dim() == 1 else input[None]


def _is_slower(before_us: float, after_us: float) -> bool:
    return after_us > before_us


class Swap:
    """Layers of a model on their way from dense to sparse: find() them, let them see their inputs,
    compile, choose, and keep() what was chosen. By the end of a `with`, an exception undoes all.

    Candidates are layers whose row has no reason against it, so far.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._calls = DenseCalls()
        self._before = {module: told_of(module) for module in model.modules()
                        if is_sparse(module)}
        self._released_before = list(filter(is_released, self._before))
        self._before_us: float | None = None  # of passes of the model
        self._after_us: float | None = None
        self._hosts: list[nn.Module] = []  # of `open_hosts`
        self._uses: Uses | None = None  # of weights, in the pass of see_inputs()
        self._memory: Memory | None = None
        self._removed: list[Removed] = []
        self.layers: list[Layer] = []

    def __enter__(self) -> Swap:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.undo()

    @property
    def candidates(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.is_candidate]

    def find(self) -> None:
        """All layers, dense, in the order of `named_modules`; of a module with several names one.
        """
        restore_(self._model)
        refresh_masks(self._model)
        names: dict[nn.Module, list[str]] = {}
        for name, module in self._model.named_modules(remove_duplicate=False):
            if is_layer(module):
                names.setdefault(module, []).append(name)
        pairs = fused_pairs(self._model)
        for module, its in names.items():
            kind = (RecurrentLayer if is_recurrent(module) else
                    QuantisedLayer if is_quantised(module) else
                    AttentionLayer if is_attention(module) else Layer)
            layer = kind(module, row_of(module, ", ".join(its)))
            layer.then, layer.row.activation = pairs.get(module, (None, ""))
            self.layers.append(layer)

    def see_inputs(self, run: Callable[[], float]) -> None:
        """Of candidates, in a pass of the model, which `run` makes; another one shows what functions
        do with weights."""
        candidates = {layer.module: layer for layer in self.candidates}
        self._hosts = open_hosts(self._model, candidates.__contains__)
        sees: dict[tuple[nn.Module, str], Callable[..., Any]] = {
            (layer.module, layer.function): layer.see for layer in candidates.values()}
        for host in self._hosts:
            sees[host, "forward"] = see_host(host, [
                candidates[module] for module in host.modules() if module in candidates])
        with replaced(sees):
            run()
        self._uses = uses_in(run, [layer.module for layer in candidates.values()
                                   if type(layer) is Layer])
        for layer in self.layers:
            if self._uses is not None and layer.is_candidate:
                layer.find_uses(self._uses)
            layer.seen()

    def compile(self) -> None:
        candidates = self.candidates
        for layer in candidates:
            pause_masks(layer.module)
        network_nnz = sum(layer.nonzeros for layer in candidates)
        firsts: dict[Any, Layer] = {}  # of those that share a weight
        for layer in candidates:
            firsts.setdefault(layer.shared, layer)
        with ThreadPoolExecutor(max_workers=2) as pool:
            for _ in pool.map(lambda layer: layer.take(layer.key_for(network_nnz)),
                              firsts.values()):
                pass
        for layer in candidates:
            first = firsts[layer.shared]
            if layer is not first:
                layer.take_of(first)
        self._swap()

    def _swap(self) -> None:
        for layer in self.candidates:
            swap(layer.module, Told(str(layer.key), layer.row.activation, layer.row.layer,
                                    self._calls))

    def choose(self, run: Callable[[], float], budget: float) -> None:
        """Sparse are layers that are faster so among all candidates, and then among those chosen.
        `budget`: seconds of each comparison."""
        layers = self.candidates
        if not layers:
            return
        passes = Passes(layers, self._hosts, run)
        chosen = len(layers)
        while chosen > 0:
            passes.measure(budget)
            for layer in self.candidates:
                layer.measured()
            left = len(self.candidates)
            if left == chosen:
                break
            chosen = left
        before = usual_time(passes.before)
        after = usual_time(passes.after) if chosen else before
        if _is_slower(before, after):
            for layer in self.candidates:
                layer.row.reason = "the model as a whole was not faster"
            after = before
        self._before_us, self._after_us = before, after

    def keep(self) -> None:
        """Candidates are sparse, the others as they were before."""
        self._swap()
        for layer in self.layers:
            layer.row.sparse = layer.is_candidate
            if not layer.is_candidate:
                unswap(layer.module)
        swap_parents(self._model)

    def shorten(self, run: Callable[[], float], budget: float) -> None:
        """Sparse layers leave out channels that need not be computed, unless passes are faster with
        them. After `keep`."""
        parts = idle_parts(self._model,
                           [layer for layer in self.candidates if type(layer) is Layer])
        if not parts:
            return
        for part in parts:
            vars(part.layer.module)["spjit_short"] = part.short
        swap_parents(self._model)
        times: tuple[list[float], list[float]] = ([], [])
        run()  # which compiles
        for turn in turns(2, budget, LEAST_ROUNDS):
            for part in parts:
                part.short.group.is_on = turn == 1
            times[turn].append(run())
        whole, short = map(usual_time, times)
        if _is_slower(whole, short):
            for part in parts:
                vars(part.layer.module)["spjit_short"] = None
            swap_parents(self._model)
            return
        for part in parts:
            part.short.group.is_on = True
        self._removed = [part.removed for part in parts]
        if self._after_us is not None:
            self._after_us *= short / whole

    def release(self, before: MemoryBefore) -> None:
        """Frees dense weights of sparse layers, after `keep`."""
        layers = self.candidates
        release_layers(self._model, layers)
        self._memory = before.with_now(self._model, [
            weight for layer in layers for weight in weights_of(layer.module)])

    def undo(self) -> None:
        """All layers are as they were, of which some may have been swapped before."""
        for layer in self.layers:
            unswap(layer.module)
        for module, told in self._before.items():
            swap(module, told)
        for module in self._released_before:
            release(module)
        swap_parents(self._model)

    def report(self, threads: int) -> Report:
        """Of the layers and of all other weights of two dimensions and more, in the model's order.
        Calls are counted from now on."""
        layers = {layer.module: layer for layer in self.layers}
        seen = {id(weight) for layer in self.layers
                for weight in parameters_of(layer.module)}
        result: list[Row] = []
        for name, module in self._model.named_modules():
            if module in layers:
                result.extend(layers[module].rows)
            result.extend(rows_of(name, module, seen, self._uses))
        self._calls.by_layer.clear()
        return Report(result, threads, self._before_us, self._after_us, self._calls.by_layer,
                      removed=self._removed, memory=self._memory)


def restore_(model: nn.Module) -> None:
    """Makes all layers dense again, as they were before `optimize_` and `load_`. Raises
    InvalidArgument for what is no model, and NotSupported for a released weight that something
    refers to."""
    check_model(model)
    rebuild(model)
    for module in model.modules():
        if is_sparse(module):
            unswap(module)
    swap_parents(model)
