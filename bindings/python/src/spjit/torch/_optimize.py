"""Swaps the layers of a model that are faster as sparse kernels, in the model's own sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .._checks import cpu_count, flag, seconds
from .._report import Report
from ._example import Example
from ._graph_modules import layers_in_graphs
from ._layers import check_model
from ._memory import MemoryBefore
from ._passes import as_in_use
from ._swap import Swap


def optimize_(model: nn.Module, example: Any = (), *, kwargs: Mapping[str, Any] | None = None,
              threads: int | None = None, budget: float = 0.15,
              exact_passes: bool = True, release_dense: bool = False) -> Report:
    """Swaps layers of the model, in place, where a sparse kernel is faster.

    example: what the model is called with: a tensor, a tuple of arguments, or a dict of named ones,
        as tokenizers give. Any other number of tokens and images works later; these are what
        choices are made for.
    kwargs: named arguments of that call.
    threads: for which times are taken; 0: all CPUs; None: torch.get_num_threads(). Later calls use
        as many as torch then has.
    budget: seconds for each comparison of dense with sparse passes of the model, at least four of
        each.
    exact_passes: whether layers leave out channels that are constant, and those that no layer
        reads, where modules show who reads them and it is faster. `report.removed` says what.
        Not with release_dense.
    release_dense: frees the dense weights of linear layers and convolutions that became sparse.
        They stay as a bit for each weight and the nonzeros, and read as before, but cannot be
        changed in place: `restore_` makes them dense again. `report.memory` has the bytes.

    It looks at every layer with at least half zeros, also under masks of torch.nn.utils.prune and
    torch.ao.pruning: nn.Linear, nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d,
    recurrent layers, projections of nn.MultiheadAttention, the Conv1D of transformers, and linear
    layers of torch.ao.quantization.quantize_dynamic and of torchao. In graphs of torch.export and
    torch.fx, products with the weight of a module become calls of a layer. Layers are compiled and
    timed in passes of the model, without gradients. There each is as cold as the others leave it.
    Sparse becomes what is faster. Prints nothing. Names, parameters, hooks and `state_dict()` stay; the
    model gives the same up to rounding. Where it stops with an exception, also by Ctrl-C, the model
    is as it was.

    Layers on a GPU get kernels for it: linear layers, convolutions and projections of attention, in
    fp32, without exact passes and release_dense. Times are of events there.

    Sparse layers run dense while gradients of their weights are recorded: call the model within
    torch.inference_mode(), or model.requires_grad_(False) once.

    There are some 10 to 200 passes, each with its own copy of the example. Buffers, attributes,
    modes and states of generators are put back; docs/use/torch.md says what is not.

    Raises InvalidArgument for an example, a number of threads or a budget that is none; what the
    model raises.
    """
    check_model(model)
    budget = seconds(budget, "budget")
    is_shortened = flag(exact_passes, "exact_passes") and not release_dense
    before = MemoryBefore(model) if release_dense else None
    threads = torch.get_num_threads() if threads is None else cpu_count(threads)
    with layers_in_graphs(model), Example(model, example, kwargs) as passes, Swap(model) as swap:
        swap.find()
        with as_in_use(model, threads):
            swap.see_inputs(passes.run)
            swap.compile()
            swap.choose(passes.run, budget)
            swap.keep()
            if is_shortened:
                swap.shorten(passes.run, budget)
        if before is not None:
            swap.release(before)
    return swap.report(threads)
