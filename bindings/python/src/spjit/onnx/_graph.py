"""Models with nodes SparseLayer and SparseRecurrent in place of layers."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
from google.protobuf.message import EncodeError
from onnx import helper

from .._compiler import interruptible
from .._errors import InvalidArgument
from .._library import PathLike
from .._onnx_external import DataFiles
from .._onnx_forms import names_in
from .._onnx_graph import OnnxLayer
from .._onnx_protos import all_graphs_of, copied, graph_at, graphs_in, put_nodes
from .._onnx_recurrent import OnnxRecurrent
from .._onnx_values import Graph, names_used_in
from .._onnx_weights import Names
from .._transposed import Phases
from ._arranged import in_place, step_names
from ._integers import OPERATORS, integer_nodes
from ._own_names import give_own_names
from ._sequences import around
from ._sessions import PROVIDERS, Own, feeds_of, plain_options

DOMAIN = "spjit"
_LARGEST = 2**31 - 1  # bytes of a protobuf
# How the optimized model is written, whatever a caller's options say: as `loaded` reads it.
_FORM = {"session.save_model_format": "ONNX"}
_DATA_ENTRY = "session.optimized_model_external_initializers_file_name"
# Of which size weights go there. Smaller ones ONNX Runtime 1.17 would leave in the original's
# files.
_LEAST_ENTRY = "session.optimized_model_external_initializers_min_size_in_bytes"
_TOO_LARGE = "Protobuf serialization failed"  # what ONNX Runtime says of a model over 2 GB
_DATA = ".data"  # behind the name of a model: the file of its weights, where it is larger


class Swap(NamedTuple):
    """A layer and the kernel for it."""

    layer: OnnxLayer | OnnxRecurrent  # whose name is that of the kernel in the bundle
    # JSON: what the kernel computes, of which weights; of a recurrent layer all of it, and of
    # several kernels a list
    problem: str
    bundle: str
    threads: int

    @property
    def node_name(self) -> str:
        return f"spjit {self.layer.name}"

    @property
    def interleave_name(self) -> str:
        """Of the node behind it, where the layer is a transposed convolution."""
        return f"{self.node_name} interleaved"

    @property
    def kernel_names(self) -> list[str]:
        """Of the nodes with kernels."""
        if isinstance(self.layer, OnnxRecurrent) or len(self.layer.kernels) == 1:
            return [self.node_name]
        return [f"spjit {kernel}" for kernel in self.layer.kernels]

    @property
    def other_names(self) -> list[str]:
        """Of nodes beside them that are the layer's, too."""
        if isinstance(self.layer, OnnxRecurrent) or self.layer.arrangement is None:
            return [self.interleave_name]
        return step_names(self.node_name, self.layer.arrangement)


_Result = TypeVar("_Result")


def uninterrupted(call: Callable[[], _Result]) -> _Result:
    """Ctrl-C waits for its end: of folders it would leave some."""
    return interruptible(call, lambda: None)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    made: list[str] = []
    try:
        uninterrupted(lambda: made.append(tempfile.mkdtemp(prefix="spjit-onnx-")))
        yield Path(made[0])
    finally:
        for folder in made:
            uninterrupted(functools.partial(shutil.rmtree, folder, ignore_errors=True))


def with_unique_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Gives names to nodes that have none or that of another: a profile knows nodes by name."""
    names, given = Names(), Names()
    nodes = [node for graph in all_graphs_of(model.graph) for node in graph.node]
    for node in nodes:
        given.unique(node.name)
    for index, node in enumerate(nodes):
        if not node.name or names.unique(node.name) != node.name:
            node.name = given.unique(f"{node.op_type} {index}")
    return model


def _without_inputs_of_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Before version 4 initializers are inputs, too, though no run gives them."""
    if model.ir_version < 4:
        constants = {one.name for one in model.graph.initializer}
        kept = [value for value in model.graph.input if value.name not in constants]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        model.ir_version = 4
    return model


def loaded(path: PathLike, beside: PathLike | None = None) -> onnx.ModelProto:
    """With the weights that are in files beside it, or beside the model `beside`."""
    model = onnx.load(os.fspath(path), "protobuf", load_external_data=False)
    DataFiles(os.fspath(path if beside is None else beside)).load_all(model)
    return model


def fused(model: PathLike, own: Own) -> onnx.ModelProto:
    """The model after what ONNX Runtime's optimizer does for any CPU. Raises InvalidArgument for
    one that has kernels already."""
    _check_format(model)
    with temporary_folder() as folder:
        path = folder / "fused.onnx"
        # Weights in files of their own are not copied: paths are those of the original.
        beside: PathLike = model
        try:
            session = _session_that_writes(model, own, path)
        except Exception as error:  # onnxruntime has several types
            if f"{DOMAIN}:Sparse" in str(error):
                raise InvalidArgument(f"{os.fspath(model)} has kernels of spjit already; expected "
                                      "the model that it was made of") from error
            if _TOO_LARGE not in str(error):
                raise
            beside = path
            session = _session_that_writes(model, own, path, f"{path.name}{_DATA}")
        made = loaded(path, beside)
        _say_shapes(made.graph, session)
        _rename_shapes(made.graph)
        give_own_names(made.graph)
        if any(True for node in made.graph.node for _ in graphs_in(node)):
            _say_shapes_within(Graph(made), made.graph)
        return with_unique_names(_without_inputs_of_constants(made))


def _session_that_writes(model: PathLike, own: Own, path: Path,
                         data: str = "") -> onnxruntime.InferenceSession:
    """Writes the optimized model. `data`: the file beside it for its weights, all of them; without
    one those that the optimizer made, as transposed ones, are in the model itself."""
    options = plain_options(1, own)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    for entry, form in _FORM.items():
        options.add_session_config_entry(entry, form)
    options.add_session_config_entry(_DATA_ENTRY, data)
    options.add_session_config_entry(_LEAST_ENTRY, "0")
    options.optimized_model_filepath = str(path)
    return onnxruntime.InferenceSession(os.fspath(model), options, providers=PROVIDERS)


def _rename_shapes(graph: onnx.GraphProto) -> None:
    """Gives other names to constants of integers, shapes for Reshape among them: where ONNX Runtime
    fuses further products in what it has fused before, it takes the same names once more, which ends
    in an error."""
    seen = {value.name for value in (*graph.input, *graph.output)}
    seen.update(name for node in graph.node for name in names_used_in(node))
    names = names_in(graph)
    renamed = {}
    for one in graph.initializer:
        if one.data_type == onnx.TensorProto.INT64 and one.name not in seen:
            renamed[one.name] = names.unique(f"spjit {one.name}")
            one.name = renamed[one.name]
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in renamed:
                node.input[place] = renamed[name]


def _say_shapes(graph: onnx.GraphProto, session: onnxruntime.InferenceSession) -> None:
    """Shapes of outputs that the model does not say and ONNX Runtime found: behind a kernel it finds
    none, and programs ask a session for them."""
    for value, found in zip(graph.output, session.get_outputs()):
        if found.shape:
            _say_shape(value, found.shape)


def _say_shapes_within(graph: Graph, proto: onnx.GraphProto) -> None:
    """The same of outputs of graphs within nodes of `proto`, which `graph` is of: of a Scan, ONNX
    Runtime 1.17 has to know how many dimensions they have."""
    for index, node in enumerate(proto.node):
        for inner, inner_proto in zip(graph.within(index), graphs_in(node)):
            for value in inner_proto.output:
                if value.name in inner.shapes:
                    _say_shape(value, inner.shapes[value.name])
            _say_shapes_within(inner, inner_proto)


def _say_shape(value: onnx.ValueInfoProto, shape: Sequence[int | str | None]) -> None:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or tensor.HasField("shape"):
        return
    for size in shape:
        dimension = tensor.shape.dim.add()
        if isinstance(size, int):
            dimension.dim_value = size
        elif size:
            dimension.dim_param = size


def _check_format(model: PathLike) -> None:
    """The original has to be readable where it is faster. What is no file ONNX Runtime refuses."""
    if os.path.isfile(os.fspath(model)):
        with open(model, "rb") as file:
            if file.read(8)[4:] == b"ORTM":
                raise InvalidArgument(f"{os.fspath(model)} is in ONNX Runtime's own format; "
                                      "expected the .onnx file that it was made of")


def session_of(model: onnx.ModelProto,
               options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    if not _is_large(model):
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=PROVIDERS)
    with temporary_folder() as folder:
        path = folder / "model.onnx"
        write(model, path)
        return onnxruntime.InferenceSession(str(path), options, providers=PROVIDERS)


def _is_large(model: onnx.ModelProto) -> bool:
    """Whether one protobuf cannot have it."""
    try:
        return model.ByteSize() > _LARGEST
    except EncodeError:
        return True


def write(model: onnx.ModelProto, path: Path) -> list[Path]:
    """To files in one folder, the model last; returns them. A large one has its weights in a file
    of their own."""
    if not _is_large(model):
        onnx.save(model, str(path), "protobuf")
        return [path]
    data = path.with_name(path.name + _DATA)
    try:
        onnx.save(model, str(path), "protobuf", save_as_external_data=True,
                  location=data.name)
    finally:  # which takes the weights out of the model
        DataFiles(str(path)).load_all(model)
    return [data, path]


def shapes_in(model: onnx.ModelProto, values: Sequence[str],
              inputs: tuple[Any, ...], own: Own) -> dict[str, tuple[int, ...]]:
    """Shapes of values in a run with these inputs."""
    probed = copied(model)
    graph = Graph(model)
    names = {value: graph.unused(f"shape of {value}") for value in values}
    for value, name in names.items():
        probed.graph.node.append(helper.make_node("Shape", [value], [name]))
        probed.graph.output.append(
            helper.make_tensor_value_info(name, onnx.TensorProto.INT64, None))
    session = session_of(probed, plain_options(1, own))
    feeds = feeds_of(session, inputs)
    found = session.run(list(names.values()), feeds) if names else []
    return {value: tuple(map(int, shape)) for value, shape in zip(names, found)}


def _nodes_of(swap: Swap, bias: str, model: onnx.ModelProto,
              names: Names) -> list[onnx.NodeProto]:
    """The kernel, and the activation that it does not have; `model` gets constants of theirs."""
    if isinstance(swap.layer, OnnxRecurrent):
        layer = swap.layer
        return [helper.make_node("SparseRecurrent", [layer.input, bias, layer.lengths,
                                                     *layer.states], layer.outputs, swap.node_name,
                                 domain=DOMAIN, recurrent=swap.problem, bundle=swap.bundle,
                                 threads=swap.threads)]
    if swap.layer.quantisation is not None:
        kernel, *behind = integer_nodes(
            swap.layer, bias, model, names, name=swap.node_name, domain=DOMAIN,
            layer=swap.layer.name, problem=swap.problem, bundle=swap.bundle, threads=swap.threads)
        of = swap.layer.convolution
        is_sequence = of is not None and of.dimensions == 1
        return [*(around(kernel, model, names) if is_sequence else [kernel]), *behind]
    inputs = [swap.layer.input, bias, swap.layer.residual or ""]
    while not inputs[-1]:
        inputs.pop()
    problems = [swap.problem]
    if len(swap.layer.kernels) > 1:
        problems = [json.dumps(one, separators=(",", ":")) for one in json.loads(swap.problem)]
    kernels = [helper.make_node("SparseLayer", inputs, [swap.layer.kernel_output], name,
                                domain=DOMAIN, layer=layer, problem=problem, bundle=swap.bundle,
                                threads=swap.threads)
               for name, layer, problem in zip(swap.kernel_names, swap.layer.kernels, problems)]
    made, kernel = kernels, kernels[0]
    if swap.layer.arrangement is not None:
        made = in_place(kernels, swap.layer.arrangement, swap.node_name, model, names)
    convolution = swap.layer.convolution
    if convolution is not None:
        if convolution.dimensions == 1:
            made = around(kernel, model, names)
        if convolution.phases is not None:
            made.insert(made.index(kernel) + 1,
                        _interleaved(kernel, convolution.phases, swap.interleave_name, names))
    return made if swap.layer.behind is None else [*made, swap.layer.behind]


def kernels_of_node(node: onnx.NodeProto) -> list[str]:
    """Names, in the bundle, of the kernels of a node of spjit."""
    attributes = {one.name: one for one in node.attribute}
    if node.op_type in OPERATORS:
        return [attributes["layer"].s.decode()]
    if "recurrent" not in attributes:
        return []
    text = json.loads(attributes["recurrent"].s)
    parts = [*text["kernels"], *(text["fixed"] or {"kernels": []})["kernels"]]
    return list(dict.fromkeys(one["layer"] for part in parts for one in part.values()))


def _interleaved(kernel: onnx.NodeProto, phases: Phases, name: str, names: Names) -> onnx.NodeProto:
    """The node that puts together the phases which the kernel gives."""
    result = kernel.output[0]
    kernel.output[0] = names.unique(f"{kernel.name} phases")
    rows, columns = phases.rows, phases.columns
    return helper.make_node("Interleave", [kernel.output[0]], [result], name, domain=DOMAIN,
                            rows=rows.phases, columns=columns.phases, crop_rows=rows.crop,
                            crop_columns=columns.crop, groups=phases.groups)


def rewritten(model: onnx.ModelProto, swaps: Sequence[Swap]) -> onnx.ModelProto:
    """A copy in which these layers, which `survey` found in `model`, are nodes of spjit."""
    result = copied(model)
    names = names_in(result.graph)
    # The innermost first: what is around is copied with what is within.
    for scope in sorted({swap.layer.scope for swap in swaps}, key=len, reverse=True):
        _rewrite(graph_at(result, scope), [swap for swap in swaps if swap.layer.scope == scope],
                 result, names)
    for graph in all_graphs_of(result.graph):
        drop_unused(graph)
    if swaps:
        result.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return result


def _rewrite(graph: onnx.GraphProto, swaps: Sequence[Swap], model: onnx.ModelProto,
             names: Names) -> None:
    """One graph of the model. Constants become those of the main graph, which all others see."""
    removed = {index for swap in swaps for index in swap.layer.nodes}
    made: dict[int, list[onnx.NodeProto]] = {}
    for swap in swaps:
        bias = ""
        if swap.layer.bias is not None:
            bias = names.unique(f"{swap.node_name} bias")
            phases = swap.layer.convolution and swap.layer.convolution.phases
            summand = np.ascontiguousarray(
                phases.bias(swap.layer.bias) if phases else swap.layer.bias)
            model.graph.initializer.append(onnx.numpy_helper.from_array(summand, bias))
        # All that a layer's last node needs is there before it.
        last = next(i for i in swap.layer.nodes if swap.layer.output in graph.node[i].output)
        made[last] = _nodes_of(swap, bias, model, names)
    put_nodes(graph, (new for i, node in enumerate(graph.node)
                      for new in made.get(i, [] if i in removed else [node])))


class Constants:
    """New ones of a model, with names that it does not have."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._names = names_in(model.graph)

    def unique(self, name: str) -> str:
        return self._names.unique(name)

    def put(self, name: str, value: np.ndarray) -> str:
        """The name that it gets."""
        unique = self._names.unique(name)
        self._graph.initializer.append(onnx.numpy_helper.from_array(
            np.asarray(value, order="C"), unique))
        return unique


def drop_unread(graph: onnx.GraphProto) -> None:
    """Nodes that give nothing to others, as those of constants whose place others have taken."""
    read = {value.name for value in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if not read.isdisjoint(node.output) or not node.output:
            kept.append(node)
            read.update(node.input)
            read.update(names_used_in(node))
    put_nodes(graph, reversed(kept))
    drop_unused(graph)


def drop_unused(graph: onnx.GraphProto) -> None:
    """Initializers that nothing reads, nor any graph within a node."""
    used = {name for node in graph.node for name in (*node.input, *names_used_in(node))}
    used.update(value.name for value in (*graph.output, *graph.input))
    # Not by a new list: protobuf cannot copy a tensor of over 2 GB into one.
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name not in used:
            del graph.initializer[index]
    for index in reversed(range(len(graph.sparse_initializer))):
        if graph.sparse_initializer[index].values.name not in used:
            del graph.sparse_initializer[index]
