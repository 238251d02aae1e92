"""An ONNX model as the command line reads it: a safetensors file in memory, with options of its
layers. Needs the package onnx."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
import onnx.inliner

from ._onnx_damage import Damaged, read_constants
from ._onnx_forms import split
from ._onnx_graph import OnnxLayer, Survey, survey
from ._onnx_protos import graphs_in
from ._onnx_recurrent import OnnxRecurrent
from ._onnx_tensors import of_layer, of_recurrent
from ._onnx_weights import Names, NoLayer

_MOST_NODES = 1_000_000  # of a model whose functions are in place of their calls


def parse_shapes(lines: str) -> dict[str, tuple[int, ...]]:
    """"x=1x3x640x640", a line each. Raises ValueError for others."""
    shapes = {}
    for line in lines.splitlines():
        name, _, sizes = line.rpartition("=")
        try:
            shapes[name] = tuple(int(size) for size in sizes.split("x"))
        except ValueError:
            shapes[name] = ()
        if not name or not shapes[name] or min(shapes[name]) < 1:
            raise ValueError(f"--input-shape {line!r}; expected NAME=SIZES, as x=1x3x640x640")
    return shapes


def convert(path: str, shapes: str) -> str:
    """The path of a file that is there as long as the process. Raises OSError, ValueError."""
    try:
        model = _without_functions(path)
        damaged = read_constants(model, path)
    except Exception as error:  # protobuf has errors of its own
        raise ValueError(f"cannot be read as ONNX: {error}") from error
    found = _without(damaged, _without_nodes_around(
        survey(split(model, least_zeros=0, takes_halves=True), parse_shapes(shapes),
               recurrent=True, takes_halves=True)))
    if not (found.layers or found.others or found.recurrent or damaged):
        raise ValueError("has no weights of two dimensions or more")
    descriptor = os.memfd_create("spjit-onnx")
    with open(descriptor, "wb", closefd=False) as file:
        for piece in _safetensors(found, damaged):
            file.write(piece)
    return f"/proc/self/fd/{descriptor}"


def _without_nodes_around(found: Survey) -> Survey:
    """The command line has no operators that take several matrices, or features before tokens."""
    layers: list[OnnxLayer] = []
    others = list(found.others)
    for layer in found.layers:
        if layer.arrangement is not None and (
                layer.arrangement.batch or layer.arrangement.layout == "features"):
            others.append(NoLayer(layer.name, layer.op,
                                  "a product of several matrices, or with the weights first: "
                                  "spjit.onnx has kernels for it", layer.weight.shape, layer.zeros))
        else:
            layers.append(layer)
    return found._replace(layers=layers, others=others)


def _name_of(node: onnx.NodeProto) -> str:
    """As layers are called."""
    return node.name or (node.output[0] if node.output else node.op_type)


def _without(damaged: list[Damaged], found: Survey) -> Survey:
    """What nothing is known to be wrong with."""
    names = {_name_of(node) for node, _ in damaged}
    return Survey([one for one in found.layers if one.name not in names],
                  [one for one in found.others if one.name not in names],
                  [one for one in found.recurrent if one.name not in names])


def _count_inlined(model: onnx.ModelProto) -> int:
    """Nodes with those of functions in place of each call. Raises ValueError for a function that
    calls itself."""
    functions = {(one.domain, one.name, getattr(one, "overload", "")): one  # since onnx 1.16
                 for one in model.functions}
    counts: dict[tuple[str, str, str], int | None] = {}

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        return sum(of(node) + sum(count(graph.node) for graph in graphs_in(node))
                   for node in nodes)

    def of(node: onnx.NodeProto) -> int:
        name = node.domain, node.op_type, getattr(node, "overload", "")
        if name not in functions:
            return 1
        if name not in counts:
            counts[name] = None  # under way
            counts[name] = count(functions[name].node)
        known = counts[name]
        if known is None:
            raise ValueError(f"its function {node.op_type!r} calls itself")
        return known

    return count(model.graph.node)


def _without_functions(path: str) -> onnx.ModelProto:
    """Weights in files of their own are not read: what is inlined has to fit into a protobuf."""
    model = onnx.load(path, load_external_data=False)
    if not model.HasField("graph"):  # protobuf reads a file of 0 bytes, too
        raise ValueError("it is empty, or another kind of file: it has no graph")
    if model.functions:
        count = _count_inlined(model)
        if count > _MOST_NODES:
            raise ValueError(f"its functions are {count} nodes where they are called; expected at "
                             f"most {_MOST_NODES}")
        model = onnx.inliner.inline_local_functions(model)
    return model


class _FileNames:
    """FILE/NAME goes by dots, so "/encoder/fc/MatMul" becomes "encoder.fc.MatMul", and has nothing
    that a glob would take for more than itself. Each is another."""

    def __init__(self) -> None:
        self._names = Names()

    def of(self, one: OnnxLayer | OnnxRecurrent | NoLayer) -> str:
        return self.unique(one.name, one.op)

    def unique(self, name: str, op: str) -> str:
        dotted = name.strip("/").replace("/", ".")
        return self._names.unique(re.sub(r"[*?\[\]\\]", "_", dotted) or op)


def _reason(other: NoLayer) -> str:
    size = "x".join(map(str, other.shape))
    weights = f", weights {size}, {100 * other.zeros:.1f} % zeros" if size else ""
    return f"{other.op}{weights}: {other.reason}"


def _safetensors(found: Survey, damaged: list[Damaged]) -> Iterator[bytes]:
    tensors: dict[str, np.ndarray] = {}
    options = []
    names = _FileNames()
    layers = [of_layer(names.of(layer), layer) for layer in found.layers]
    layers += [one for layer in found.recurrent for one in of_recurrent(names.of(layer), layer)]
    for one in layers:
        tensors[f"{one.name}.weight"] = one.weight
        if one.bias is not None:
            tensors[f"{one.name}.bias"] = one.bias
        if one.scale is not None:
            tensors[f"{one.name}.scale"] = one.scale
        options.append({"name": f"{one.name}.weight", **one.options})
    document = {
        "layers": options,
        "left_dense": [{"name": names.of(other), "reason": _reason(other)}
                       for other in found.others],
        "damaged": [{"name": names.unique(_name_of(node), node.op_type), "reason": reason}
                    for node, reason in damaged]}
    header: dict[str, Any] = {"__metadata__": {"spjit": json.dumps(document)}}
    end = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape,
                        "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header).encode()
    yield struct.pack("<Q", len(text)) + text
    for tensor in tensors.values():
        yield np.ascontiguousarray(tensor, "<f4").tobytes()
