"""Operators that compute more than a kernel does, as several: the layer within, and the rest. Needs
the package onnx."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper

from ._onnx_affine import per_channel
from ._onnx_constants import attribute_of
from ._onnx_protos import all_graphs_of, copied, graphs_in, put_nodes, without_attributes
from ._onnx_values import Graph, is_standard
from ._onnx_weights import Names, zeros_of

# What ONNX Runtime adds to the name of a MatMul that it makes a Gemm.
_FUSION = "/MatMulAddFusion"
_C_MAY_BE_MISSING = 11  # of a Gemm, since this version of the operators
_Made = dict[int, list[onnx.NodeProto]]  # what takes the place of nodes, by their index
_Splitters = dict[str, Callable[[Graph, int, Names], _Made]]


def names_in(main: onnx.GraphProto) -> Names:
    """Which give out only names that no value and no node of the graph has, nor of those within its
    nodes: there a name would be that of another value."""
    names = Names()
    for graph in all_graphs_of(main):
        for one in (*graph.initializer, *graph.input, *graph.output):
            names.unique(one.name)
        for sparse in graph.sparse_initializer:
            names.unique(sparse.values.name)
        for node in graph.node:
            for name in (node.name, *node.input, *node.output):
                names.unique(name)
    return names


def split(model: onnx.ModelProto, least_zeros: float, *,
          takes_halves: bool = False) -> onnx.ModelProto:
    """Splits operators whose constant weights have this part of zeros or more, in place, also within
    nodes: a sum that is no bias off a Gemm, and a Gemm between two nodes Reshape into the MatMul and
    the Add that ONNX Runtime made it of."""
    for splitters in (_WITHOUT_RESHAPES, _SPLITTERS):
        _split(Graph(model, takes_halves=takes_halves), model.graph, names_in(model.graph),
               splitters, least_zeros)
    return model


def _split(graph: Graph, proto: onnx.GraphProto, names: Names, splitters: _Splitters,
           least_zeros: float) -> None:
    """`proto`, which `graph` is of, and the graphs within its nodes, these first."""
    made: _Made = {}
    for index, node in enumerate(graph.nodes):
        for inner, inner_proto in zip(graph.within(index), graphs_in(node)):
            _split(inner, inner_proto, names, splitters, least_zeros)
        weight = _weight_of(graph, node)[0] if len(node.input) > 1 and any(node.output[:1]) and \
            node.op_type in splitters and is_standard(node) else None
        if weight is not None and weight.ndim >= 2 and zeros_of(weight) >= least_zeros:
            made.update(splitters[node.op_type](graph, index, names))
    if made:
        _replace(graph, made, proto)


def _replace(graph: Graph, made: _Made, proto: onnx.GraphProto) -> None:
    """Puts these nodes in the places of those of the graph, and leaves out what only those read."""
    nodes = [new for index, node in enumerate(graph.nodes) for new in made.get(index, [node])]
    read = {name for node in nodes for name in node.input}
    unread = {node.output[0] for node in graph.nodes
              if node.op_type == "Reshape" and node.output[0] not in read
              and graph.users(node.output[0]) and graph.only_within(
                  node.output[0], set(graph.users(node.output[0])))}
    put_nodes(proto, (node for node in nodes if unread.isdisjoint(node.output)))


def _weight_of(graph: Graph, node: onnx.NodeProto) -> tuple[np.ndarray | None, bool]:
    """Of a product, and whether it is the first operand."""
    second = graph.constant(node.input[1])
    return (second, False) if second is not None else (graph.constant(node.input[0]), True)


def is_residual(graph: Graph, node: onnx.NodeProto, rows: int) -> bool:
    """Whether C of a Gemm is of the output's shape in every run."""
    x, c = node.input[0], node.input[2]
    if attribute_of(node, "transA", 0) or graph.constant(x) is not None:
        return False  # a kernel's output is another
    shape = graph.extents.get(c)
    tokens = (graph.extents.get(x) or (None,))[0]
    return shape is not None and attribute_of(node, "beta", 1.0) == 1 and (
        tokens is not None and shape == (tokens, rows)
        or x == c and len(shape) == 2 and shape[1] == rows)


def _constant(name: str, value: float) -> onnx.NodeProto:
    """A node that gives one number, in the form that all versions of the operators have."""
    return helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(
        np.full((1, ), value, np.float32)))


def _sum_apart(graph: Graph, index: int, names: Names) -> _Made:
    node = graph.nodes[index]
    weight, is_left = _weight_of(graph, node)
    if len(node.input) < 3 or not node.input[2] or weight is None or weight.ndim != 2:
        return {}
    turned = bool(attribute_of(node, "transA" if is_left else "transB", 0))
    rows = weight.shape[int(turned) if is_left else 1 - int(turned)]
    if per_channel(graph.floats(node.input[2]), rows, trailing=int(is_left)) is not None or \
            is_residual(graph, node, rows):
        return {}
    beta = attribute_of(node, "beta", 1.0)
    product = without_attributes(copied(node), "beta")
    addend = node.input[2]
    del product.input[2:]
    product.output[0] = names.unique(f"{node.output[0]} product")
    made = [product]
    if graph.opset < _C_MAY_BE_MISSING:
        nothing = _constant(names.unique(f"{node.output[0]} nothing"), 0.0)
        product.input.append(nothing.output[0])
        made.insert(0, nothing)
    if beta != 1:
        factor = _constant(names.unique(f"{node.output[0]} beta"), beta)
        addend = names.unique(f"{node.output[0]} addend")
        made += [factor, helper.make_node("Mul", [node.input[2], factor.output[0]], [addend],
                                          names.unique(f"{node.name} beta"))]
    made.append(helper.make_node("Add", [product.output[0], addend], list(node.output),
                                 names.unique(f"{node.name} sum")))
    return {index: made}


def _reshapes_around(graph: Graph, index: int) -> tuple[int, int] | None:
    """The nodes Reshape before and behind a Gemm that together change no size but the last."""
    node = graph.nodes[index]
    before, users = graph.maker(node.input[0]), graph.users(node.output[0])
    if before is None or len(users) != 1 or not graph.only_within(node.output[0], set(users)):
        return None
    first, last = graph.nodes[before], graph.nodes[users[0]]
    if any(one.op_type != "Reshape" or not is_standard(one) or not one.input or not one.output
           for one in (first, last)) or last.input[0] != node.output[0]:
        return None
    flat, rows = graph.shapes.get(node.input[0], ()), graph.shapes.get(node.output[0], ())
    given, result = graph.shapes.get(first.input[0], ()), graph.shapes.get(last.output[0], ())
    is_static = len(given) > 2 and None not in (*given, *result) and len(flat) == len(rows) == 2
    fits = is_static and given[-1] == flat[1] and result == (*given[:-1], rows[1])
    return (before, users[0]) if fits else None


def _without_reshapes(graph: Graph, index: int, names: Names) -> _Made:
    """MatMul and Add of more than two dimensions, whose activation follows at once."""
    node = graph.nodes[index]
    around = _reshapes_around(graph, index)
    weight = graph.constant(node.input[1])
    if around is None or weight is None or attribute_of(node, "transA", 0) or \
            attribute_of(node, "alpha", 1.0) != 1 or attribute_of(node, "beta", 1.0) != 1:
        return {}
    before, behind = around
    transposed = attribute_of(node, "transB", 0)
    has_sum = len(node.input) > 2 and node.input[2]
    rows = weight.shape[0 if transposed else 1]
    if has_sum and per_channel(graph.floats(node.input[2]), rows, trailing=0) is None:
        return {}
    name = names.unique(node.name.removesuffix(_FUSION) or "MatMul")  # a profile knows it by that
    output = graph.nodes[behind].output[0]
    product = names.unique(f"{output} product") if has_sum else output
    weights, made = node.input[1], []
    if transposed:
        weights = names.unique(f"{weights} transposed")
        made.append(helper.make_node("Transpose", [node.input[1]], [weights],
                                     names.unique(f"{name} transpose"), perm=[1, 0]))
    made.append(helper.make_node("MatMul", [graph.nodes[before].input[0], weights], [product],
                                 name))
    if has_sum:
        made.append(helper.make_node("Add", [product, node.input[2]], [output],
                                     names.unique(f"{name} sum")))
    return {index: made, behind: []}


_WITHOUT_RESHAPES: _Splitters = {"Gemm": _without_reshapes}
_SPLITTERS: _Splitters = {"Gemm": _sum_apart}
