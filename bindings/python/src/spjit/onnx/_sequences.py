"""Convolutions of one dimension, as kernels of images of height 1."""

from __future__ import annotations

import onnx

from .._onnx_weights import Names
from ._arranged import with_axes

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
    return with_axes(op, values, [_HEIGHT], f"{op} {values[1]}", model, names)
