"""Nodes that follow one another and are one: factors by constants, sums of constants, and shapes.
ONNX Runtime's optimizer leaves them apart."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper

from .._onnx_affine import only_user
from .._onnx_constants import attribute_of
from .._onnx_protos import put_nodes
from .._onnx_shapes import NamedExtents
from .._onnx_values import Graph, is_standard
from ._graph import Constants, drop_unread

_FP32 = np.finfo(np.float32)
# No sum with a smaller constant overflows: it is less than half a digit of the largest number.
_MOST_SUMMAND = 2.0**100
_SHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


class _Step(NamedTuple):
    """x * value or x + value."""

    kind: str  # "Mul" or "Add"
    operand: str  # x
    value: np.ndarray  # fp64
    is_fp32: bool = True  # x is; False: not known


def merge_chains(model: onnx.ModelProto, kept: Set[int], *, only_shapes: bool = False) -> None:
    """In place; without nodes of these indices."""
    constants = Constants(model)
    made: list[onnx.NodeProto] = []
    steps: dict[str, _Step] = {}  # by what they give
    renamed: dict[str, str] = {}
    graph = Graph(model)
    for index, node in enumerate(graph.nodes):
        one = onnx.NodeProto()
        one.CopyFrom(node)
        for place, name in enumerate(one.input):
            one.input[place] = renamed.get(name, name)
        made.append(one)
        if index in kept or not is_standard(node):
            continue
        if node.op_type in _SHAPES:
            _merge_shapes(graph, one, renamed, constants)
            continue
        step = None if only_shapes else _step_of(graph, one)
        if step is not None:
            total = _joined(graph, steps, step, node.input)
            steps[node.output[0]] = total
            if total is not step:
                _put(one, total, constants)
    put_nodes(model.graph, made)
    drop_unread(model.graph)


# ---- Factors and sums -----------------------------------------------------------------------


def _step_of(graph: Graph, node: onnx.NodeProto) -> _Step | None:
    if node.op_type == "Neg":
        return _Step("Mul", node.input[0], np.array(-1.0), is_fp32=False)
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.input) != 2 or node.attribute:
        return None
    known = [graph.constant(name) for name in node.input]
    place = 0 if known[1] is None else 1
    value, operand = known[place], node.input[1 - place]
    if value is None or known[1 - place] is not None or value.dtype != np.float32 or \
            (place == 0 and node.op_type in ("Sub", "Div")):
        return None
    exact = value.astype(np.float64)
    if node.op_type in ("Add", "Sub"):
        return _Step("Add", operand, exact if node.op_type == "Add" else -exact)
    if not np.all(np.isfinite(exact) & (exact != 0)):
        return None
    return _Step("Mul", operand, exact if node.op_type == "Mul" else 1 / exact)


def _joined(graph: Graph, steps: dict[str, _Step], step: _Step, seen: list[str]) -> _Step:
    """With the step before it, unless others need what is between. `seen`: inputs of the node."""
    before = steps.get(step.operand)
    if before is None or before.kind != step.kind or not (before.is_fp32 or step.is_fp32) or \
            only_user(graph, step.operand) is None or step.operand not in seen:
        return step
    sizes = before.value.size, step.value.size
    if np.broadcast(before.value, step.value).size > max(sizes):
        return step
    join = _product if step.kind == "Mul" else _sum
    value = join(before.value, step.value)
    return step if value is None else _Step(step.kind, before.operand, value)


def _product(one: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """None where a number could be too large, or too small, between the two alone."""
    grows = (np.abs(one) >= 1) & (np.abs(other) >= 1)
    shrinks = (np.abs(one) <= 1) & (np.abs(other) <= 1)
    product = one * other
    size = np.abs(product)
    fits = np.all((grows | shrinks) & (size <= _FP32.max) & (size >= _FP32.tiny))
    return np.asarray(product) if fits else None


def _sum(one: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    fits = np.all((np.abs(one) < _MOST_SUMMAND) & (np.abs(other) < _MOST_SUMMAND))
    return np.asarray(one + other) if fits else None


def _put(node: onnx.NodeProto, step: _Step, constants: Constants) -> None:
    value = constants.put(f"{node.output[0]} constant", step.value.astype(np.float32))
    made = helper.make_node(step.kind, [step.operand, value], list(node.output), node.name)
    node.CopyFrom(made)


# ---- Shapes ---------------------------------------------------------------------------------


def _merge_shapes(graph: Graph, node: onnx.NodeProto, renamed: dict[str, str],
                  constants: Constants) -> None:
    """Takes what is before such a node, too, into it."""
    output = node.output[0]
    made = graph.extents.get(output)
    source = _first(graph, node.input[0])
    if made is not None and graph.extents.get(source) == made and None not in made:
        renamed[output] = renamed.get(source, source)
        return
    if source == node.input[0]:
        return
    sizes = _sizes(graph, node, made)
    if sizes is None:
        return
    shape = constants.put(f"{output} shape", np.array(sizes, np.int64))
    node.CopyFrom(helper.make_node("Reshape", [renamed.get(source, source), shape], [output],
                                   node.name))


def _first(graph: Graph, value: str) -> str:
    """What the value has the elements of, all in order."""
    while (index := graph.maker(value)) is not None and only_user(graph, value) is not None:
        node = graph.nodes[index]
        if node.op_type not in _SHAPES or not is_standard(node) or \
                graph.constant(node.input[0]) is not None:
            break
        value = node.input[0]
    return value


def _sizes(graph: Graph, node: onnx.NodeProto, made: NamedExtents | None) -> list[int] | None:
    """A shape that says the same of any input."""
    if made is not None:
        sizes = [size if isinstance(size, int) else -1 for size in made]
        if sizes.count(-1) <= 1:
            return sizes
    if node.op_type != "Reshape" or attribute_of(node, "allowzero", 0):
        return None
    given = graph.constant(node.input[1])
    return None if given is None or not np.all(given) else [int(size) for size in given]
