"""Operators that compute more than a kernel does, as several: the layer within, and the rest. Needs
the package onnx."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from ._onnx_affine import per_channel
from ._onnx_values import Graph, attribute_of
from ._onnx_weights import Names, zeros_of


def without_attributes(node: onnx.NodeProto, *names: str) -> onnx.NodeProto:
    kept = [one for one in node.attribute if one.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)
    return node


def names_in(graph: onnx.GraphProto) -> Names:
    """Which give out only names that no value and no node of the graph has."""
    names = Names()
    for one in (*graph.initializer, *graph.input, *graph.output):
        names.unique(one.name)
    for node in graph.node:
        for name in (node.name, *node.input, *node.output):
            names.unique(name)
    return names


def split(model: onnx.ModelProto, least_zeros: float) -> onnx.ModelProto:
    """Splits operators whose constant weights have this part of zeros or more, in place: a sum that
    is no bias off a Gemm, the transposition of activations off ONNX Runtime's FusedMatMul."""
    graph = Graph(model)
    names = names_in(model.graph)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        weight = graph.constant(node.input[1]) if len(node.input) > 1 and \
            node.op_type in _SPLITTERS else None
        if weight is None or weight.ndim < 2 or zeros_of(weight) < least_zeros:
            nodes.append(node)
        else:
            nodes += _SPLITTERS[node.op_type](graph, node, names)
    made = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(made)
    return model


def is_residual(graph: Graph, node: onnx.NodeProto, rows: int) -> bool:
    """Whether C of a Gemm is of the output's shape in every run."""
    x, c = node.input[0], node.input[2]
    shape = graph.extents.get(c)
    tokens = (graph.extents.get(x) or (None,))[0]
    return shape is not None and attribute_of(node, "beta", 1.0) == 1 and (
        tokens is not None and shape == (tokens, rows)
        or x == c and len(shape) == 2 and shape[1] == rows)


def _sum_apart(graph: Graph, node: onnx.NodeProto, names: Names) -> list[onnx.NodeProto]:
    weight = graph.constant(node.input[1])
    if len(node.input) < 3 or not node.input[2] or weight is None or weight.ndim != 2:
        return [node]
    rows = weight.shape[0 if attribute_of(node, "transB", 0) else 1]
    if per_channel(graph.constant(node.input[2]), rows, trailing=0) is not None or \
            is_residual(graph, node, rows):
        return [node]
    beta = attribute_of(node, "beta", 1.0)
    product = without_attributes(_copy(node), "beta")
    addend = node.input[2]
    del product.input[2:]
    product.output[0] = names.unique(f"{node.output[0]} product")
    made = [product]
    if beta != 1:
        factor = helper.make_node("Constant", [], [names.unique(f"{node.output[0]} beta")],
                                  value_float=float(beta))
        addend = names.unique(f"{node.output[0]} addend")
        made += [factor, helper.make_node("Mul", [node.input[2], factor.output[0]], [addend],
                                          names.unique(f"{node.name} beta"))]
    made.append(helper.make_node("Add", [product.output[0], addend], list(node.output),
                                 names.unique(f"{node.name} sum")))
    return made


def _transposed_apart(graph: Graph, node: onnx.NodeProto, names: Names) -> list[onnx.NodeProto]:
    shape = graph.shapes.get(node.input[0])
    if not attribute_of(node, "transA", 0) or attribute_of(node, "transBatchA", 0) or \
            shape is None or len(shape) < 2:
        return [node]
    order = list(range(len(shape)))
    order[-2:] = reversed(order[-2:])
    turned = names.unique(f"{node.input[0]} transposed")
    product = without_attributes(_copy(node), "transA")
    product.input[0] = turned
    return [helper.make_node("Transpose", [node.input[0]], [turned],
                             names.unique(f"{node.name} transpose"), perm=order), product]


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    return onnx.NodeProto.FromString(node.SerializeToString())


_SPLITTERS: dict[str, Callable[[Graph, onnx.NodeProto, Names], list[onnx.NodeProto]]] = {
    "Gemm": _sum_apart, "FusedMatMul": _transposed_apart}
