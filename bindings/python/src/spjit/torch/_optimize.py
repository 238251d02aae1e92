"""Swaps the layers of a model that are faster as sparse kernels, in the model's own sequence."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .._errors import SpjitError
from .._options import cpu_count, seconds
from .._report import Report, Row, why_too_dense
from .._timing import turns, usual_time
from ._example import Example
from ._kernels import (LayerKey, Variant, compile_layer, content_hash, find_bound, put_kernel,
                       zeros_of)
from ._layers import (DenseCalls, Swap, activation_of, computed_by, fused_pairs, is_layer,
                      is_sparse, kind_of, refusal, swap, swap_of, swap_parents, unswap)
from ._masks import pause_masks, weight_of
from ._op import is_usual_input
from ._weights import rows_of

_LEAST_ROUNDS = 4


@dataclass
class Layer:
    """A Linear, Conv1d or Conv2d of the model."""

    module: nn.Module
    row: Row
    then: nn.Module | None = None  # the activation behind it, which a kernel can do, too
    inputs: list[Tensor] = field(default_factory=list)  # of one pass; without memory
    key: LayerKey | None = None
    before: list[float] = field(default_factory=list)  # us of each pass
    after: list[float] = field(default_factory=list)
    spent: float = 0.0  # us of the pass under way

    @property
    def is_candidate(self) -> bool:
        return not self.row.reason

    @property
    def weight(self) -> Tensor:
        return weight_of(self.module)

    @property
    def variant(self) -> Variant:
        return Variant(torch.get_num_threads(), self.module.bias is not None,
                       computed_by(self.module, self.row.activation))

    def swap(self, key: str, calls: DenseCalls) -> None:
        swap(self.module, Swap(key, self.row.activation, self.row.layer, calls))

    def measured(self) -> None:
        """Into the row, and out if dense was faster."""
        self.row.before_us, self.row.after_us = usual_time(self.before), usual_time(self.after)
        if _is_slower(self.row.before_us, self.row.after_us):
            self.row.reason = "dense is faster here"


def layers_of(model: nn.Module, *, count_zeros: bool = True) -> list[Layer]:
    """In the order of `named_modules`; of a module with several names one."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if is_layer(module):
            names.setdefault(module, []).append(name)
    pairs = fused_pairs(model)
    layers = [_layer_of(module, ", ".join(names[module]), count_zeros) for module in names]
    for layer in layers:
        layer.then = pairs.get(layer.module)
        layer.row.activation = "" if layer.then is None else activation_of(layer.then)
    return layers


def rows_of_model(model: nn.Module, layers: list[Layer]) -> list[Row]:
    """Of the layers and of all other weights of two dimensions and more, in the model's order."""
    rows = {layer.module: layer.row for layer in layers}
    seen = {id(weight) for module in rows for weight in module.parameters()}
    result: list[Row] = []
    for name, module in model.named_modules():
        result.extend([rows[module]] if module in rows else rows_of(name, module, seen))
    return result


def _is_countable(weight: Tensor) -> bool:
    return not is_lazy(weight) and weight.device.type == "cpu" and weight.layout is torch.strided


def _layer_of(module: nn.Module, name: str, count_zeros: bool) -> Layer:
    weight = module.weight
    shape = () if is_lazy(weight) else tuple(weight.shape)  # type: ignore
    row = Row(name, kind_of(module).__name__, shape, 0.0, reason=refusal(module))
    if count_zeros and _is_countable(weight):  # type: ignore[arg-type]
        row.zeros = zeros_of(weight)  # type: ignore[arg-type]
        row.reason = row.reason or why_too_dense(row.zeros)
    return Layer(module, row)


def _uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Passes change what modules call each time: torch.compile would compile as often, and then
    give up for good."""
    set_stance = getattr(torch.compiler, "set_stance", None)  # of torch 2.6 and later
    return contextlib.nullcontext() if set_stance is None else set_stance("force_eager")


@contextlib.contextmanager
def _as_in_use(model: nn.Module, threads: int) -> Iterator[None]:
    """Evaluation without gradients and torch.compile, with so many threads."""
    modes = [(module, getattr(module, "training", None)) for module in model.modules()]
    threads_before = torch.get_num_threads()
    try:
        try:
            model.eval()
        except NotImplementedError:  # of a part that torch.export made, which has one mode
            for module, _ in modes:
                module.training = False
        torch.set_num_threads(threads)
        with torch.no_grad(), _uncompiled():
            yield
    finally:
        torch.set_num_threads(threads_before)
        for module, mode in modes:
            if mode is None:  # frozen by torch.jit: eval() gave it one
                vars(module).pop("training", None)
            else:
                module.training = mode


@contextlib.contextmanager
def _replaced(forwards: Mapping[nn.Module, Callable[..., Tensor]]) -> Iterator[None]:
    """With other `forward` functions of modules."""
    try:
        for module, forward in forwards.items():
            vars(module)["forward"] = forward
        yield
    finally:
        for module in forwards:
            vars(module).pop("forward", None)


def _dense_forward(module: nn.Module) -> Callable[..., Tensor]:
    return functools.partial(kind_of(module).forward, module)


def _see_inputs(layers: list[Layer], run: Callable[[], float]) -> None:
    others: dict[nn.Module, str] = {}  # inputs that no kernel takes

    def make(layer: Layer) -> Callable[..., Tensor]:
        forward = _dense_forward(layer.module)

        def see(input: Tensor) -> Tensor:
            if is_usual_input(input):
                layer.inputs.append(torch.empty_strided(
                    input.shape, input.stride(), dtype=input.dtype, device="meta"))
            else:
                others[layer.module] = (f"its input is a {type(input).__name__} "
                                        f"({str(input.layout).removeprefix('torch.')}, "
                                        f"{'' if input.is_nested else 'not '}nested); expected a "
                                        "plain dense tensor")
            return forward(input)

        return see

    with _replaced({layer.module: make(layer) for layer in layers if layer.is_candidate}):
        run()
    for layer in layers:
        if layer.inputs:
            layer.row.input = tuple(_typical(layer.inputs).shape)
        elif layer.is_candidate:
            layer.row.reason = others.get(layer.module, "the example does not call it")


def _typical(inputs: list[Tensor]) -> Tensor:
    """The most frequent, of those the largest."""
    counts = Counter(tuple(each.shape) for each in inputs)
    return max(inputs, key=lambda each: (counts[tuple(each.shape)], each.numel()))


def _key_of(layer: Layer, network_nnz: int) -> LayerKey:
    seen = _typical(layer.inputs)
    weights = content_hash(layer.weight)
    if layer.row.kind == "Linear":
        return LayerKey(weights, tokens=seen.numel() // max(seen.shape[-1], 1),
                        network_nnz=network_nnz)
    if layer.row.kind == "Conv1d":
        return LayerKey(weights, height=1, width=seen.shape[-1], network_nnz=network_nnz)
    last = (seen.dim() == 4 and not seen.is_contiguous()
            and seen.is_contiguous(memory_format=torch.channels_last))
    return LayerKey(weights, height=seen.shape[-2], width=seen.shape[-1], channels_last=last,
                    network_nnz=network_nnz)


def _compile(layers: list[Layer]) -> None:
    network_nnz = sum(int(torch.count_nonzero(layer.weight)) for layer in layers)

    def compile_one(layer: Layer) -> None:
        layer.key = _key_of(layer, network_nnz)
        variant = layer.variant
        try:
            kernel = compile_layer(layer.weight, layer.key, variant)
        except SpjitError as error:
            layer.row.reason = str(error)
            return
        layer.row.kernel = kernel.info["family"]
        put_kernel(find_bound(layer.weight, layer.key.weights), layer.key, variant, kernel)

    with ThreadPoolExecutor(max_workers=2) as pool:
        for _ in pool.map(compile_one, layers):
            pass


class _Passes:
    """Passes of the model in which each layer takes its own time."""

    def __init__(self, layers: list[Layer], run: Callable[[], float]) -> None:
        self._layers = layers
        self._run = run
        self._thread = threading.get_ident()
        self._is_sparse = False
        self.before: list[float] = []  # us of whole passes
        self.after: list[float] = []

    def _timed(self, layer: Layer, dense: Callable[[Tensor], Tensor],
               sparse: Callable[[Tensor], Tensor],
               alone: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """`alone`: as `sparse`, for other threads, whose calls may begin or end between two passes.
        """
        now = time.perf_counter_ns

        def forward(input: Tensor) -> Tensor:
            function = dense
            if self._is_sparse and layer.is_candidate:
                function = sparse if threading.get_ident() == self._thread else alone
            begin = now()
            y = function(input)
            layer.spent += (now() - begin) * 1e-3
            return y

        return forward

    def _forwards(self) -> dict[nn.Module, Callable[..., Tensor]]:
        """Of a pair that is fused, the first does all and the second nothing."""
        forwards: dict[nn.Module, Callable[..., Tensor]] = {}
        for layer in self._layers:
            module, then = layer.module, layer.then
            sparse = alone = functools.partial(type(module).forward, module)
            if then is not None:
                sparse = functools.partial(type(module).run, module,  # type: ignore[arg-type]
                                           activation=layer.row.activation)
                activate = functools.partial(type(then).forward, then)
                forwards[then] = self._timed(layer, activate, lambda x: x, activate)
            forwards[module] = self._timed(layer, _dense_forward(module), sparse, alone)
        return forwards

    def _pass(self, is_sparse: bool) -> float:
        self._is_sparse = is_sparse
        for layer in self._layers:
            layer.spent = 0.0
        return self._run()

    def measure(self, seconds: float) -> None:
        """Dense and sparse in turn, after one of each that does not count."""
        self.before, self.after = [], []
        for layer in self._layers:
            layer.before, layer.after = [], []
        with _replaced(self._forwards()):
            self._pass(False)
            self._pass(True)
            for is_sparse in turns(2, seconds, _LEAST_ROUNDS):
                (self.after if is_sparse else self.before).append(self._pass(bool(is_sparse)))
                for layer in self._layers:
                    (layer.after if is_sparse else layer.before).append(layer.spent)


def _is_slower(before_us: float, after_us: float) -> bool:
    return after_us > before_us


def _choose(layers: list[Layer], run: Callable[[], float], budget: float, report: Report) -> None:
    """Sparse are layers that are faster so among all of them, and then among those chosen."""
    passes = _Passes(layers, run)
    chosen = len(layers)
    while chosen > 0:
        passes.measure(budget)
        for layer in layers:
            if layer.is_candidate:
                layer.measured()
        left = sum(layer.is_candidate for layer in layers)
        if left == chosen:
            break
        chosen = left
    if not layers:
        return
    report.before_us = usual_time(passes.before)
    report.after_us = usual_time(passes.after) if chosen else report.before_us
    if _is_slower(report.before_us, report.after_us):
        for layer in layers:
            if layer.is_candidate:
                layer.row.reason = "the model as a whole was not faster"
        report.after_us = report.before_us


def optimize_(model: nn.Module, example: Any = (), *, kwargs: Mapping[str, Any] | None = None,
              threads: int | None = None, budget: float = 0.15) -> Report:
    """Swaps layers of the model, in place, where a sparse kernel is faster.

    example: what the model is called with: a tensor, a tuple of arguments, or a dict of named ones,
        as tokenizers give. Any other number of tokens and images works later; these are what
        choices are made for.
    kwargs: named arguments of that call.
    threads: for which times are taken; 0: all CPUs; None: torch.get_num_threads(). Later calls use
        as many as torch then has.
    budget: seconds for each comparison of dense with sparse passes of the model, at least four of
        each.

    Every nn.Linear, nn.Conv1d and nn.Conv2d with at least half zeros, also under masks of
    torch.nn.utils.prune and torch.ao.pruning, is compiled and timed in passes of the model,
    evaluated without gradients, where it is as cold as the other layers leave it. Sparse becomes
    what is faster there. Prints nothing. Names, parameters, hooks and `state_dict()` stay; the
    model gives the same up to rounding. Where it stops with an exception, also by Ctrl-C, the model
    is as it was.

    Sparse layers run dense while gradients of their weights are recorded: call the model within
    torch.inference_mode(), or model.requires_grad_(False) once.

    Each pass, of some 10 to 200, gets its own copy of the example, and buffers, attributes, modes
    and states of generators are put back; docs/use/torch.md says what is not.

    Raises InvalidArgument for an example, a number of threads or a budget that is none; what the
    model raises.
    """
    budget = seconds(budget, "budget")
    passes = Example(model, example, kwargs)
    threads = torch.get_num_threads() if threads is None else cpu_count(threads)
    before = swapped_layers(model)
    calls = DenseCalls()
    report = Report(threads=threads, dense_calls=calls.by_layer)
    layers: list[Layer] = []
    try:
        restore_(model)
        layers = layers_of(model)
        with _as_in_use(model, threads):
            _see_inputs(layers, passes.run)
            for layer in layers:
                if layer.is_candidate:
                    pause_masks(layer.module)
            candidates = [layer for layer in layers if layer.is_candidate]
            _compile(candidates)
            candidates = [layer for layer in candidates if layer.is_candidate]
            for layer in candidates:
                layer.swap(str(layer.key), calls)
            _choose(candidates, passes.run, budget, report)
        for layer in layers:
            layer.row.sparse = layer.is_candidate
            if not layer.is_candidate:
                unswap(layer.module)
        swap_parents(model)
    except BaseException:
        put_back(model, layers, before)
        raise
    finally:
        passes.put_back()
    calls.by_layer.clear()
    report.rows = rows_of_model(model, layers)
    return report


def restore_(model: nn.Module) -> None:
    """Makes all layers dense again, as they were before `optimize_` and `load_`."""
    for module in model.modules():
        if is_sparse(module):
            unswap(module)
    swap_parents(model)


def swapped_layers(model: nn.Module) -> dict[nn.Module, Swap]:
    """With what `swap` was given."""
    return {module: swap_of(module) for module in model.modules() if is_sparse(module)}


def put_back(model: nn.Module, layers: list[Layer], before: dict[nn.Module, Swap]) -> None:
    """The layers as they were, of which `before` has the swapped ones."""
    for layer in layers:
        unswap(layer.module)
    for module, to in before.items():
        swap(module, to)
    swap_parents(model)
