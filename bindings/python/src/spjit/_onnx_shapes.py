"""Shapes of the values of an ONNX model, as they follow from those of its inputs, which ONNX
Runtime checks in each run. What a file says of other values may be of another model: nobody checks it.
Needs the package onnx."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Optional, Union

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper

from ._onnx_protos import all_graphs_in, copied, graphs_in

Extents = tuple[Optional[int], ...]
Shapes = Mapping[str, Sequence[int]]

# Larger constants are no shapes, axes, bounds or factors, which other shapes may depend on.
_MOST_ELEMENTS = 1024
_INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
_FEW_ELEMENTS = 16
_KNOWN_TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
_UNKNOWN = "unknown"
# Operators of ONNX Runtime whose first output has the shape of the first input.
_AS_INPUT = ("BiasGelu", "FastGelu", "Gelu", "QuickGelu", "SkipLayerNormalization",
             "SkipSimplifiedLayerNormalization", "LayerNormalization", "SimplifiedLayerNormalization")
# Those that have the shape of an operator of ONNX, and how many inputs that has.
_AS_STANDARD = {"FusedConv": ("Conv", 3), "FusedGemm": ("Gemm", 3), "FusedMatMul": ("MatMul", 2)}


NamedExtents = tuple[Union[int, str, None], ...]


def inferred(model: onnx.ModelProto, shapes: Shapes | None = None) -> onnx.GraphProto:
    """The graph with shapes of its values, and of values within its nodes: named_shapes_of() reads
    them. `shapes`: of inputs, where they are to be others than the model says. Raises ValueError
    for shapes that are of no input."""
    skeleton = _skeleton(model)
    inputs = skeleton.graph.input[:len(model.graph.input)]
    _set_shapes(inputs, shapes or {})
    _name_sizes(inputs)
    try:
        return onnx.shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except (ValueError, onnx.shape_inference.InferenceError):
        return skeleton.graph  # shapes of inputs alone


def named_shapes_of(graph: onnx.GraphProto) -> dict[str, NamedExtents]:
    """With names of sizes that are not known: of the same name are sizes that follow from one
    another. That is not the model's name, which two inputs may have: no run checks those. None:
    nothing is known of a size. graph: of inferred(), or within a node of that."""
    return {value.name: _extents(value) for value in (
        *graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")}


def types_of(graph: onnx.GraphProto) -> dict[str, np.dtype]:
    """Of the elements of values of inferred(), as far as numpy has them."""
    return {value.name: helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            for value in (*graph.input, *graph.value_info, *graph.output)
            if value.type.tensor_type.elem_type in _KNOWN_TYPES}


def _extents(value: onnx.ValueInfoProto) -> NamedExtents:
    return tuple(size.dim_value if size.HasField("dim_value") and size.dim_value > 0 else
                 size.dim_param or None for size in value.type.tensor_type.shape.dim)


def _skeleton(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without weights, with the model's word for shapes of inputs alone, and with operators
    that onnx knows."""
    made = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    made.opset_import.extend(model.opset_import)
    made.functions.extend(model.functions)
    graph = made.graph
    graph.name = model.graph.name
    domains = {one.domain for one in model.opset_import}
    graph.node.extend(_known_node(_without_claims(given), domains) for given in model.graph.node)
    made.opset_import.append(helper.make_opsetid(_UNKNOWN, 1))
    graph.input.extend(model.graph.input)
    inputs = {value.name for value in model.graph.input}
    for one in model.graph.initializer:
        is_default = one.name in inputs and model.ir_version >= 4  # which a run may replace
        if _is_small(one) and not is_default:
            graph.initializer.append(one)
        elif one.name not in inputs:
            graph.input.append(helper.make_tensor_value_info(one.name, one.data_type, one.dims))
    for sparse in model.graph.sparse_initializer:
        graph.input.append(helper.make_tensor_value_info(
            sparse.values.name, sparse.values.data_type, sparse.dims))
    graph.output.extend(model.graph.output)
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


def _is_small(tensor: onnx.TensorProto) -> bool:
    count = 1
    for size in tensor.dims:
        count *= size
    is_inside = tensor.data_location != onnx.TensorProto.EXTERNAL
    return is_inside and count <= (_MOST_ELEMENTS if tensor.data_type in _INTEGERS
                                   else _FEW_ELEMENTS)


def _without_claims(node: onnx.NodeProto) -> onnx.NodeProto:
    """Without what a file says of shapes in graphs within the node."""
    if not any(True for _ in graphs_in(node)):
        return node
    made = copied(node)
    for graph in all_graphs_in(made):
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    return made


def _known_node(node: onnx.NodeProto, domains: Collection[str]) -> onnx.NodeProto:
    """What stands for the node: inference ends at an operator that should be there and is not, and
    goes on behind one of a domain that it does not know."""
    if node.op_type in _AS_INPUT and node.input and node.output:
        return helper.make_node("Identity", [node.input[0]], [node.output[0]])
    if node.domain != "com.microsoft" or node.op_type not in _AS_STANDARD:
        is_standard = node.domain in ("", "ai.onnx")
        if onnx.defs.has(node.op_type) if is_standard else node.domain in domains:
            return node
        unknown = copied(node)
        unknown.domain = _UNKNOWN
        return unknown
    operator, inputs = _AS_STANDARD[node.op_type]
    kept = [one for one in node.attribute if not one.name.startswith("activation")]
    if operator == "MatMul":
        if any(one.i for one in kept if one.name.startswith("trans")):
            return node
        kept = []
    standard = helper.make_node(operator, list(node.input)[:inputs], list(node.output))
    standard.attribute.extend(kept)
    return standard


def _name_sizes(inputs: Sequence[onnx.ValueInfoProto]) -> None:
    """Gives each size that is not known a name of its own."""
    for value in inputs:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if size.dim_value <= 0:
                size.dim_param = f"{value.name}[{axis}]"


def _set_shapes(inputs: Sequence[onnx.ValueInfoProto], shapes: Shapes) -> None:
    values = {value.name: value.type.tensor_type.shape for value in inputs}
    for name, shape in shapes.items():
        if name not in values or len(values[name].dim) != len(shape):
            known = ", ".join(f"{one} of {len(its.dim)} dimensions" for one, its in values.items())
            raise ValueError(f"the shape {list(shape)} is for {name!r}; the model has {known}")
        for dimension, size in zip(values[name].dim, shape):
            dimension.Clear()
            dimension.dim_value = size
