"""Nodes of spjit in place of products of integers."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.numpy_helper
from onnx import helper

from .._onnx_graph import OnnxLayer
from .._onnx_protos import copied
from .._onnx_weights import Names

# By Quantisation.mode, and of mode "given" by Quantisation.y.
_BY_MODE = {"tensor": "SparseLayer", "none": "SparseIntegerProduct"}
_BY_TYPE = {"f32": "SparseIntegerLayer", "u8": "SparseUint8Layer", "i8": "SparseInt8Layer"}
OPERATORS_OF_BYTES = frozenset(_BY_TYPE.values())  # which X is of
BYTE_KERNELS = frozenset((_BY_TYPE["u8"], _BY_TYPE["i8"]))  # Y is, too
OPERATORS = OPERATORS_OF_BYTES.union(_BY_MODE.values())


def integer_nodes(product: OnnxLayer, bias: str, model: onnx.ModelProto, names: Names,
                  **attributes: Any) -> list[onnx.NodeProto]:
    """The kernel, and what makes Y of what it gives; `model` gets constants of theirs. attributes:
    of the kernel's node, and its name."""
    of = product.quantisation
    assert of is not None
    inputs = [product.input]
    if of.scale is not None:
        scale = names.unique(f"{attributes['name']} scale")
        model.graph.initializer.append(onnx.numpy_helper.from_array(of.scale, scale))
        inputs = [product.input, bias, "", scale]
        if of.mode == "given":
            inputs += [of.x_scale, of.x_zero_point, of.y_scale, of.y_zero_point]
    while not inputs[-1]:
        inputs.pop()
    behind = [] if product.behind is None else [
        copied(one) for one in (product.behind, *product.beyond)]
    for name, value in of.constants.items():
        unique = names.unique(name)  # layers in two branches of an If may have the same names
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, unique))
        for node in behind:
            node.input[:] = [unique if one == name else one for one in node.input]
    operator = _BY_MODE.get(of.mode) or _BY_TYPE[of.y]
    kernel = helper.make_node(operator, inputs, [product.kernel_output], **attributes)
    return [kernel, *behind]
