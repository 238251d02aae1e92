"""From an ONNX model to one whose layers are kernels where that is faster."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnxruntime

from .._activation import Activation
from .._bundle import Bundle, BundleWriter
from .._checks import cpu_count, flag, seconds
from .._compiler import Compiler
from .._convolution import Conv2d
from .._errors import InvalidArgument, SpjitError
from .._kernel import Kernel
from .._library import PathLike
from .._onnx_forms import split
from .._onnx_graph import OnnxLayer, survey
from .._onnx_protos import graph_at
from .._onnx_recurrent import OnnxRecurrent
from .._onnx_values import Graph
from .._report import DEPTHWISE, LEAST_ZEROS, Removed, Report, Row, why_too_dense
from ._fold import folded
from ._graph import Swap, fused, loaded, rewritten, session_of, shapes_in
from ._idle import removed, without_idle_channels
from ._images import with_tokens
from ._optimized import How, KernelFolder, Optimized, options_of
from ._passes import (NodeTimes, alone, dense_time, model_times, node_times,
                      operand_shapes)
from ._recurrent import Kernels, recurrent_kernels, recurrent_text
from ._sessions import (
    PROVIDERS,
    Own,
    check_version,
    merged,
    path_of,
    plain_options,
    sparse_options,
)
from ._skip import split_skips

_FLOATS = ("f32", ) * 3
_MOST_CHOICES = 4
_SURELY_FASTER = 0.97


@dataclass
class _Candidate:
    layer: OnnxLayer | OnnxRecurrent
    row: Row
    swap: Swap | None = None

    @property
    def is_in(self) -> bool:
        return self.swap is not None and not self.row.reason


def optimize(model: PathLike, *inputs: Any, threads: int = 1, budget: float = 0.5,
             cache: PathLike | bool | None = None, cache_layers: Sequence[PathLike] = (),
             exact_passes: bool = True, activations: str = "",
             session_options: Callable[[], onnxruntime.SessionOptions] | None = None,
             operator_libraries: Sequence[PathLike] = (), **named: Any) -> Optimized:
    """The model with spjit's kernels in place of layers that are faster so.

    model: path of an ONNX model, which stays as it is.
    inputs: example inputs: numpy arrays in the model's order, or one dict by name. Other numbers of
        images and tokens work later; these are what choices are made for.
    named: example inputs by name, alone or beside the dict, which also takes names of options.
    threads: of a run; 0: all CPUs.
    budget: seconds for each comparison of dense with sparse passes, at least eight of each.
    cache, cache_layers: of compiled kernels, as Compiler has them. A bundle that `save` wrote of
        the same model, inputs and threads is a layer that has all kernels.
    exact_passes: whether channels that are constant, and those that nothing reads, leave the model,
        unless it is faster with them.
    activations: "int8": kernels of MatMulNBits make their X int8, a token with one scale, and sum
        exactly, whatever its accuracy_level. Results are those of a rounded X. "": X stays fp32.
    session_options: a function that makes options for a session, new ones each time; `threads`
        replaces their intra_op_num_threads. They must not replace initializers: weights are those
        of the file.
    operator_libraries: paths of libraries with operators of the model, for every session.

    It compiles each MatMul, Gemm, Einsum that is a product, Conv and ConvTranspose with a constant
    weight of at least half zeros, with its bias, activation and sum. So it does each LSTM, GRU and
    RNN with such weights. A layer is timed in passes of the model, where it is as cold as the
    others leave it. It becomes a kernel where it is faster there, and the whole model becomes
    faster. Prints nothing. Stopped by Ctrl-C it leaves nothing behind.

    Raises NotSupported for onnxruntime before 1.17; InvalidArgument for a model that is no path, an
    option that is none and inputs that the model does not have; what onnxruntime raises for a model
    or inputs that it does not take.
    """
    check_version()
    path_of(model)
    inputs = merged(inputs, named)
    how = How(cpu_count(threads), seconds(budget, "budget"),
               Own(session_options, operator_libraries))
    is_shortened = flag(exact_passes, "exact_passes")
    if activations not in ("", "int8"):
        raise InvalidArgument(f"activations is {activations!r}; expected '' or 'int8'")
    whole = split_skips(split(fused(model, how.own), LEAST_ZEROS))
    shorter, cut = without_idle_channels(whole) if is_shortened else (whole, [])

    job = _Job(model, inputs, how, cache, cache_layers, bool(activations))
    attempts = [_attempt(job, shorter, removed(whole, cut, inputs, how.own))]
    try:
        if cut:
            # What is shorter need not be faster: ONNX Runtime has channels in blocks.
            attempts.append(_attempt(job, whole, []))
        chosen = _faster(attempts, job)
    except BaseException:
        for one in attempts:
            one.kernels.remove()
        raise
    for one in attempts:
        if one is not chosen:
            one.kernels.remove()
    return Optimized(chosen.model, chosen.report, chosen.kernels, how)


@dataclass(frozen=True)
class _Job:
    """What `optimize` was given."""

    original: PathLike
    inputs: tuple[Any, ...]
    how: How
    cache: PathLike | bool | None
    cache_layers: Sequence[PathLike]
    quantizes_tokens: bool


@dataclass
class _Attempt:
    """A model with the kernels that make it faster."""

    model: onnx.ModelProto
    report: Report
    kernels: KernelFolder


def _attempt(job: _Job, whole: onnx.ModelProto, channels: list[Removed]) -> _Attempt:
    """`channels`: what has left the model."""
    how = job.how
    base = folded(whole)
    found = survey(base, recurrent=True, takes_blocks=True)
    layers = [replace(layer, quantizes_tokens=job.quantizes_tokens) if layer.group_scales else layer
              for layer in found.layers]
    all_layers: list[OnnxLayer | OnnxRecurrent] = [*layers, *found.recurrent]
    candidates = [_candidate(layer) for layer in all_layers]
    report = Report(threads=how.threads, removed=channels)
    report.rows = [one.row for one in candidates]
    report.rows += [Row(other.name, other.op, other.shape, other.zeros, reason=other.reason)
                    for other in found.others]
    kernels = KernelFolder()
    try:
        network_nnz = sum(int(np.count_nonzero(one.layer.weight)) for one in candidates)
        measured = _Measured(base, job.original, job.inputs, how, kernels.path)
        _compile(measured, candidates,
                 Compiler(threads=how.threads, cache=job.cache, cache_layers=job.cache_layers,
                          network_nnz=network_nnz))
        chosen = _choose(measured, candidates, report)
    except BaseException:
        kernels.remove()
        raise
    for candidate in candidates:
        candidate.row.sparse = candidate.is_in
    return _Attempt(chosen, report, kernels)


def _faster(attempts: list[_Attempt], job: _Job) -> _Attempt:
    """The first, unless the second is faster by more than noise."""
    if len(attempts) == 1:
        return attempts[0]
    sessions = [session_of(one.model, alone(options_of(one.report, one.kernels, job.how)))
                for one in reversed(attempts)]
    second, first = model_times(sessions, job.inputs, job.how.budget)
    return attempts[1 if second < _SURELY_FASTER * first else 0]


def _candidate(layer: OnnxLayer | OnnxRecurrent) -> _Candidate:
    is_depthwise = isinstance(layer, OnnxLayer) and layer.is_depthwise
    reason = why_too_dense(layer.zeros) or (DEPTHWISE if is_depthwise else "")
    types = layer.types if isinstance(layer, OnnxLayer) else _FLOATS
    row = Row(layer.name, layer.op, layer.weight.shape, layer.zeros,
              activation=layer.activation or "", types="" if types == _FLOATS else ",".join(types),
              reason=reason)
    return _Candidate(layer, row)


def _compile(of: _Measured, candidates: list[_Candidate], compiler: Compiler) -> None:
    """Writes the kernels to their bundle, by the names of their layers."""
    wanted = [one for one in candidates if not one.row.reason]
    bundle = of.kernels
    _put_shapes(of, wanted)
    wanted = [one for one in wanted if not one.row.reason]

    def compile_one(one: _Candidate) -> Kernels | None:
        assert one.row.input is not None
        try:
            return _kernels_of(one.layer, one.row.input, compiler)
        except SpjitError as error:
            one.row.reason = str(error)
            return None

    # Two at once: what is not compiling is hashing. Nothing is written there: when this is stopped,
    # one may still be under way.
    pool = ThreadPoolExecutor(max_workers=2)
    with BundleWriter(bundle) as writer:
        try:
            for one, kernels in zip(wanted, pool.map(compile_one, wanted)):
                if kernels is not None:
                    _add(writer, one, kernels, bundle)
        finally:
            pool.shutdown(cancel_futures=True)
    problems = {entry["layer"]: entry["problem"] for entry in Bundle(bundle).entries}
    for one in wanted:
        if one.swap is not None:
            assert one.row.input is not None
            said = _said(one.layer, one.row.input, problems)
            one.swap = one.swap._replace(problem=json.dumps(said, separators=(",", ":")))


def _put_shapes(of: _Measured, wanted: list[_Candidate]) -> None:
    """Row.input, of a run. Values within nodes are in no output: of those a profile knows."""
    outside = [one.layer.input for one in wanted if not one.layer.scope]
    shapes = shapes_in(of.base, outside, of.inputs, of.how.own)
    within: dict[str, tuple[_Candidate, int]] = {}
    for one in wanted:
        if not one.layer.scope:
            one.row.input = shapes[one.layer.input]
            continue
        node = graph_at(of.base, one.layer.scope).node[one.layer.nodes[0]]
        within[node.name] = one, list(node.input).index(one.layer.input)
    found = operand_shapes(of.base, of.plain(), of.inputs) if within else {}
    for name, (one, place) in within.items():
        if name in found:
            one.row.input = found[name][place]
        else:
            one.row.reason = "the example does not run it"


def _said(layer: OnnxLayer | OnnxRecurrent, x: tuple[int, ...], problems: dict[str, Any]) -> Any:
    """Swap.problem. `problems`: of the bundle's kernels, by name."""
    if isinstance(layer, OnnxRecurrent):
        return recurrent_text(layer, x, problems)
    all_ = [problems[name] for name in layer.kernels]
    return all_ if len(all_) > 1 else all_[0]


def _add(writer: BundleWriter, one: _Candidate, kernels: Kernels, bundle: str) -> None:
    info = kernels[-1][1].info
    one.row.kernel = info["family"]
    try:
        for name, kernel in kernels:
            writer.add(name, kernel)
    except InvalidArgument as error:  # a name of over 1000 bytes
        one.row.reason = str(error)
        return
    one.swap = Swap(one.layer, "", bundle, info["threads"])


def _kernels_of(layer: OnnxLayer | OnnxRecurrent, x: tuple[int, ...],
                compiler: Compiler) -> Kernels:
    """By their names in the bundle."""
    if isinstance(layer, OnnxRecurrent):
        return recurrent_kernels(layer, x, compiler)
    matrices = layer.weight if len(layer.kernels) > 1 else [layer.weight]
    return [(name, _kernel_of(layer, weight, x, compiler))
            for name, weight in zip(layer.kernels, matrices)]


def _kernel_of(layer: OnnxLayer, weight: np.ndarray, x: tuple[int, ...],
               compiler: Compiler) -> Kernel:
    """For any number of tokens; of a convolution for any images where the model takes such."""
    convolution = None
    layout, typical_n = "tokens", max(int(np.prod(x[:-1])), 1)
    if layer.convolution is not None:
        of = layer.convolution
        height, width = x[2:] if of.dimensions == 2 else (1, x[2])
        any_size = None in layer.image
        if of.phases is not None:
            weight = of.phases.weights(weight)
            convolution = of.phases.convolution(x[1], height, width, any_size=any_size)
        else:
            convolution = Conv2d(x[1], height, width, weight.shape[2:], of.stride, of.pad,
                                 of.dilation, of.groups, any_size=any_size)
        layout = "features"
    elif layer.arrangement is not None:
        layout, typical_n = layer.arrangement.layout, layer.arrangement.typical_n(x)
    weight = weight if convolution else np.ascontiguousarray(weight)
    return compiler.compile(
        weight, typical_n=typical_n, layout=layout, bias=layer.bias is not None,
        residual=layer.residual is not None, convolution=convolution,
        **Activation.parse(layer.activation or "").arguments, **_numerics_of(layer))


def _numerics_of(layer: OnnxLayer) -> dict[str, Any]:
    """Fields of the Problem."""
    quantisation = layer.quantisation
    made: dict[str, Any]
    if quantisation is None:
        made = {"types": layer.types, "group_scales": layer.group_scales}
        return {**made, "accumulate": "integer", "quantize": "token"} if layer.quantizes_tokens \
            else made
    made = {"types": layer.types, "accumulate": "integer"}
    if quantisation.scale is None:
        return made
    return {**made, "scale": True, "quantize": quantisation.mode,
            "bias_first": quantisation.bias_first}


@dataclass
class _Measured:
    """What passes are made of."""

    base: onnx.ModelProto
    original: PathLike
    inputs: tuple[Any, ...]
    how: How
    kernels: str

    @cached_property
    def graph(self) -> Graph:
        """Of the base."""
        return Graph(self.base)

    def plain(self) -> onnxruntime.SessionOptions:
        return plain_options(self.how.threads, self.how.own)

    def options(self) -> onnxruntime.SessionOptions:
        return sparse_options(self.kernels, self.how.threads, own=self.how.own)

    def nodes(self, model: onnx.ModelProto) -> list[NodeTimes]:
        """Of the base, and of this model."""
        return node_times([(self.base, self.plain), (model, self.options)], self.inputs,
                          self.how.budget)

    def with_kernels(self, chosen: list[_Candidate]) -> list[onnx.ModelProto]:
        """The base with these, and behind that, where they can, with images of bytes that go from
        kernel to kernel with their channels last."""
        model = rewritten(self.base, [one.swap for one in chosen if one.swap])
        turned = with_tokens(model, self.graph)
        return [model] if turned is model else [model, turned]

    def totals(self, models: list[onnx.ModelProto]) -> list[float]:
        """us of a pass of the original, and of these models."""
        original = onnxruntime.InferenceSession(
            os.fspath(self.original), alone(self.plain()), providers=PROVIDERS)
        sessions = [session_of(model, alone(self.options())) for model in models]
        return model_times([original, *sessions], self.inputs, self.how.budget)


def _choose(measured: _Measured, candidates: list[_Candidate], report: Report) -> onnx.ModelProto:
    """Kernels are layers that are faster so among all of them, and then among those chosen. The
    original where that is fastest."""
    models: list[tuple[onnx.ModelProto, list[_Candidate]]] = []
    chosen = [one for one in candidates if one.is_in]
    for _ in range(_MOST_CHOICES):
        if not chosen:
            break
        made = measured.with_kernels(chosen)
        models += [(model, chosen) for model in made]
        dense, sparse = measured.nodes(made[-1])
        for one in chosen:
            _compare(one, measured.base, dense, sparse)
        left = [one for one in chosen if one.is_in]
        if len(left) == len(chosen):
            break
        chosen = left
    if report.removed:
        models.insert(0, (measured.base, []))
    if not models:
        return loaded(measured.original)
    before, *after = measured.totals([model for model, _ in models])
    report.before_us = before
    best = min(range(len(after)), key=after.__getitem__)
    is_faster = after[best] <= before
    report.after_us = after[best] if is_faster else before
    model, chosen = models[best]
    taken = set(map(id, chosen)) if is_faster else set()
    for one in candidates:
        if id(one) in taken:
            one.row.reason = ""
        elif not one.row.reason:
            one.row.reason = "the model as a whole was not faster"
    if is_faster:
        return model
    report.removed = []
    return loaded(measured.original)


def _measured_nodes(layer: OnnxLayer | OnnxRecurrent,
                    nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Those that it stands for, the product first: the nodes before a product of integers are part
    of that where ONNX Runtime fuses them."""
    if isinstance(layer, OnnxRecurrent) or layer.quantisation is None:
        return list(layer.nodes)
    return sorted(layer.nodes, key=lambda index: nodes[index].op_type != layer.op)


def _compare(one: _Candidate, base: onnx.ModelProto, dense: NodeTimes, sparse: NodeTimes) -> None:
    assert one.swap is not None
    row = one.row
    nodes = graph_at(base, one.layer.scope).node
    row.before_us = dense_time(dense, (nodes[i] for i in _measured_nodes(one.layer, nodes)))
    kernels = [sparse.get(name) for name in one.swap.kernel_names]
    others = sum(sparse.get(name, 0.0) for name in one.swap.other_names)
    measured = [time for time in kernels if time is not None]
    row.after_us = sum(measured) + others if len(measured) == len(kernels) else None
    if row.after_us is not None and one.layer.behind is not None:
        activation = dense_time(sparse, [one.layer.behind, *one.layer.beyond])
        row.after_us = None if activation is None else row.after_us + activation
    if row.before_us is not None and row.after_us is not None and row.after_us > row.before_us:
        row.reason = "dense is faster here"
