"""The way of a model's layers from dense to sparse."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import nn

from .._report import Memory, Removed, Report, Row
from .._timing import usual_time
from . import _passes
from ._attention import is_attention
from ._candidates import AttentionLayer, Layer, QuantisedLayer, RecurrentLayer
from ._clock import gpus_of
from ._fusion import fused_pairs, swap_parents
from ._hosts import open_hosts, see_host
from ._idle import idle_parts
from ._layer_rows import parameters_of, row_of
from ._layers import Told, check_model, is_layer, is_sparse, swap, told_of, unswap, weights_of
from ._masks import pause_masks, refresh_masks
from ._memory import MemoryBefore
from ._passes import Passes, replaced, time_switched
from ._quantised import is_quantised
from ._recurrent import is_recurrent
from ._release import is_released, rebuild, release, release_layers
from ._swapped import DenseCalls
from ._uses import Uses, uses_in
from ._weights import rows_of


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
        if _passes.is_slower(before, after):
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

        def leave_out(does: bool) -> None:
            for part in parts:
                vars(part.layer.module)["spjit_short"] = part.short if does else None
            swap_parents(self._model)

        whole, short = time_switched(leave_out, run, budget)
        is_slower = _passes.is_slower(whole, short)
        leave_out(not is_slower)
        if is_slower:
            return
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
                      removed=self._removed, memory=self._memory, gpus=gpus_of(self._model))


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
