"""ONNX Runtime's SkipLayerNormalization as the sum and the normalization that it stands for, which
take a fifth of the time."""

from __future__ import annotations

import onnx
from onnx import helper

from .._onnx_constants import attribute_of
from .._onnx_forms import names_in
from .._onnx_protos import put_nodes
from .._onnx_values import Graph, is_fused
from ._channel_layers import LAYERS

_OLDEST = 17  # which has LayerNormalization
_EPSILON = 1e-12
_OF_INTEGERS = ("MatMulIntegerToFloat", "DynamicQuantizeMatMul")  # which give floats
_INPUT, _SKIP, _SCALE, _SHIFT, _BIAS = range(5)


def split_skips(model: onnx.ModelProto) -> onnx.ModelProto:
    """In place. Of those behind products with constant weights: behind a kernel ONNX Runtime knows
    no shape, and leaves them apart. Where the product stays, it fuses them once more."""
    graph = Graph(model)
    if graph.opset < _OLDEST:
        return model
    names = names_in(model.graph)
    made: list[onnx.NodeProto] = []
    for node in graph.nodes:
        product = _product_of(graph, node)
        if product is None:
            made.append(node)
            continue
        given = [*node.input, *[""] * 5]
        other = given[_SKIP if product == given[_INPUT] else _INPUT]
        total = node.output[3] if len(node.output) > 3 and node.output[3] else names.unique(
            f"{node.output[0]} sum")
        if given[_BIAS]:
            biased = names.unique(f"{node.output[0]} biased")
            made.append(helper.make_node("Add", [product, given[_BIAS]], [biased],
                                         names.unique(f"{node.name} bias")))
            product = biased
        made.append(helper.make_node("Add", [product, other], [total],
                                     names.unique(f"{node.name} sum")))
        operands = [total, given[_SCALE], given[_SHIFT]]
        made.append(helper.make_node(
            "LayerNormalization", operands if operands[2] else operands[:2], [node.output[0]],
            node.name, axis=-1, epsilon=attribute_of(node, "epsilon", _EPSILON)))
    put_nodes(model.graph, made)
    return model


def _product_of(graph: Graph, node: onnx.NodeProto) -> str | None:
    """Of such a node, the operand that a layer gives."""
    if node.op_type != "SkipLayerNormalization" or not is_fused(node) or any(node.output[1:3]):
        return None
    for name in node.input[:2]:
        index = graph.maker(name)
        if index is not None and graph.nodes[index].op_type in (*LAYERS, *_OF_INTEGERS) and \
                graph.constant(graph.nodes[index].input[1]) is not None:
            return str(name)
    return None
