"""Convolutions of one dimension, as kernels of images of height 1."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper

from .._onnx_protos import opset_of
from .._onnx_weights import Names

_HEIGHT = 2  # the dimension that is put in


def around(node: onnx.NodeProto, model: onnx.ModelProto, names: Names) -> list[onnx.NodeProto]:
    """The node SparseLayer, whose operands are [batch, channels, length], between nodes that put in
    and take out the height; neither copies. Values and constants get names of `names`."""
    made = []
    for place in (0, 2):  # X and the residual
        if place < len(node.input) and node.input[place]:
            image = names.unique(f"{node.name} image {place}")
            made.append(_node("Unsqueeze", (node.input[place], image), model, names))
            node.input[place] = image
    image = names.unique(f"{node.name} image")
    back = _node("Squeeze", (image, node.output[0]), model, names)
    node.output[0] = image
    return [*made, node, back]


def _node(op: str, values: tuple[str, str], model: onnx.ModelProto,
          names: Names) -> onnx.NodeProto:
    """Axes are an input since version 13 of the operators, before an attribute."""
    value, result = values
    name = f"{op} {result}"
    if opset_of(model) < 13:
        return helper.make_node(op, [value], [result], name, axes=[_HEIGHT])
    axes = names.unique("spjit height")
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([_HEIGHT], np.int64), axes))
    return helper.make_node(op, [value, axes], [result], name)
