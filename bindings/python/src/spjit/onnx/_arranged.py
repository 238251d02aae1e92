"""Nodes around kernels whose operands are not those of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper

from .._onnx_products import Arrangement, Step
from .._onnx_protos import copied, opset_of
from .._onnx_weights import Names


def step_names(name: str, arrangement: Arrangement) -> list[str]:
    """Of the nodes around the kernels of the node `name`."""
    count = len(arrangement.before) + len(arrangement.behind)
    apart = [f"{name} split", f"{name} concat"] if arrangement.batch else []
    return [f"{name} step {i}" for i in range(count)] + apart


def constant(model: onnx.ModelProto, values: Sequence[int], names: Names) -> str:
    """An initializer of integers; returns its name."""
    name = names.unique("spjit " + " ".join(map(str, values)))
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array(values, np.int64), name))
    return name


def with_axes(op: str, values: tuple[str, str], axes: Sequence[int], name: str,
              model: onnx.ModelProto, names: Names) -> onnx.NodeProto:
    """Unsqueeze or Squeeze. Axes are an input since version 13 of the operators, before an
    attribute."""
    value, result = values
    if opset_of(model) < 13:
        return helper.make_node(op, [value], [result], name, axes=list(axes))
    return helper.make_node(op, [value, constant(model, axes, names)], [result], name)


def in_place(kernels: Sequence[onnx.NodeProto], arrangement: Arrangement, name: str,
             model: onnx.ModelProto, names: Names) -> list[onnx.NodeProto]:
    """These nodes SparseLayer, which have the layer's X and Y, with what is around them."""
    x, y = kernels[0].input[0], kernels[0].output[0]
    made: list[onnx.NodeProto] = []
    for number, step in enumerate(arrangement.before):
        result = names.unique(f"{name} x {number}")
        made.append(_node(step, (x, result), f"{name} step {number}", model, names))
        x = result
    results = [names.unique(f"{name} y {i}") for i in range(len(arrangement.behind))] + [y]
    if arrangement.batch:
        made += _in_parts(kernels, (x, results[0]), name, model, names)
    else:
        kernel = copied(kernels[0])
        kernel.input[0], kernel.output[0] = x, results[0]
        made.append(kernel)
    for number, step in enumerate(arrangement.behind):
        made.append(_node(step, (results[number], results[number + 1]),
                          f"{name} step {len(arrangement.before) + number}", model, names))
    return made


def _in_parts(kernels: Sequence[onnx.NodeProto], values: tuple[str, str], name: str,
              model: onnx.ModelProto, names: Names) -> list[onnx.NodeProto]:
    """Each has a part of X's first dimension, and gives that of Y."""
    given, taken = ([names.unique(f"{name} {of} of {i}") for i in range(len(kernels))]
                    for of in ("x", "y"))
    ones = [1] * len(kernels)
    sizes = [constant(model, ones, names)] if opset_of(model) >= 13 else []
    split = helper.make_node("Split", [values[0], *sizes], given, f"{name} split", axis=0,
                             **({} if sizes else {"split": ones}))
    made = [split]
    for kernel, x, y in zip(kernels, given, taken):
        part = copied(kernel)
        part.input[0], part.output[0] = x, y
        made.append(part)
    return [*made, helper.make_node("Concat", taken, [values[1]], f"{name} concat", axis=0)]


def _node(step: Step, values: tuple[str, str], name: str, model: onnx.ModelProto,
          names: Names) -> onnx.NodeProto:
    value, result = values
    if step.op == "Transpose":
        return helper.make_node(step.op, [value], [result], name, perm=list(step.sizes))
    if step.op == "Reshape":
        return helper.make_node(step.op, [value, constant(model, step.sizes, names)], [result],
                                name)
    return with_axes(step.op, values, step.sizes, name, model, names)
