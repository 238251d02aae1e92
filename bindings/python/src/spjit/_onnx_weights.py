"""Weights of an ONNX model that are no layer's, and why. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx

from ._onnx_quantised import may_be_weight, numbers_of
from ._onnx_values import Graph, is_standard

_RECURRENT = "of a recurrent layer all weights have to be constant"
_LOOKED_UP = "a table: its rows are looked up, nothing is multiplied"
_ELEMENTWISE = "its elements are used one by one, without a product"

# Why a node is no layer, by what it computes.
_REASONS = {
    "QLinearConv": "a convolution of integers of images NHWC, as ONNX Runtime makes them; expected "
                   "the model that it was made of",
    "MatMulNBits": "its weights are integers, packed in bytes with a scale a block; spjit.onnx "
                   "takes such, the command line does not",
    "ConvTransposeWithDynamicPads": "its pads are computed; expected a ConvTranspose",
    "RNN": _RECURRENT, "LSTM": _RECURRENT, "GRU": _RECURRENT,
    "Gather": _LOOKED_UP, "GatherElements": _LOOKED_UP, "GatherND": _LOOKED_UP,
    "EmbedLayerNormalization": _LOOKED_UP,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "PRelu", "Concat",
                     "Expand", "Slice", "Tile", "Pad", "Less", "Greater", "Equal"), _ELEMENTWISE),
}
# Of operands whose dimensions of one element broadcast: [1, channels, 1, 1] is a vector.
_VECTORS_TOO = frozenset(name for name, reason in _REASONS.items() if reason is _ELEMENTWISE)


@dataclass(frozen=True)
class NoLayer:
    """A node with weights of two dimensions or more that is no layer; a node with several has one
    for each."""

    name: str
    op: str
    reason: str
    shape: tuple[int, ...] = ()  # of its weight
    zeros: float = 0.0  # their share in it


class Refused(Exception):
    """Why a node with weights is no layer."""


class Names:
    """Makes names that no other has: what comes second gets a number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}  # most nodes of some models have the same name: none

    def unique(self, name: str) -> str:
        unique, number = name, self._next.get(name, 2)
        while unique in self._taken:
            unique, number = f"{name}_{number}", number + 1
        self._next[name] = number
        self._taken.add(unique)
        return unique


def zeros_of(weight: np.ndarray) -> float:
    """The share of elements that are 0."""
    return 1 - int(np.count_nonzero(weight)) / max(weight.size, 1)


def no_layer(graph: Graph, node: onnx.NodeProto, name: str, reason: str,
             operand: str) -> NoLayer:
    """Of the node's weight `operand`."""
    def value(place: int) -> np.ndarray | None:
        name = node.input[place] if place < len(node.input) else ""
        return graph.default(name) if name else None

    numbers = numbers_of(node, list(node.input).index(operand), value)
    return NoLayer(name, node.op_type, reason, tuple(numbers.shape), zeros_of(numbers))


def weights_of(graph: Graph, node: onnx.NodeProto) -> list[str]:
    """The names of its constant operands of two dimensions or more, also of those that a run may
    replace. None of a node that only makes a constant, for another node."""
    if any(name and graph.default(name) is not None for name in node.output):
        return []
    found = []
    for name in dict.fromkeys(node.input):
        value = graph.default(name) if name else None
        if value is None or not may_be_weight(node, list(node.input).index(name), value):
            continue
        if node.op_type not in _VECTORS_TOO or sum(size > 1 for size in value.shape) > 1:
            found.append(name)
    return found


def _why_no_layer(graph: Graph, node: onnx.NodeProto, name: str) -> str:
    """Of a node that has the weight `name`."""
    weight = graph.default(name)
    assert weight is not None
    if graph.is_replaceable(name):
        return ("its weights are an input of the model, too, which a run may replace; without it "
                "in graph.input they are constant")
    if node.op_type in _REASONS:
        return _REASONS[node.op_type]
    if weight.dtype.kind in "iu" or weight.dtype.name.startswith(("int", "uint")):
        return f"its weights are integers, {weight.dtype.name}; expected float32"
    if not is_standard(node):
        return f"operators {node.domain}.{node.op_type} have no kernel"
    return f"operators {node.op_type} have no kernel; expected MatMul, Gemm or Conv"


def left_weights(graph: Graph, node: onnx.NodeProto, names: Names, name: str) -> Iterator[NoLayer]:
    """Of a node that is no layer, `name`: a line for each of its weights."""
    weights = weights_of(graph, node)
    for operand in weights:
        unique = name if len(weights) == 1 else names.unique(f"{name}:{operand}")
        yield no_layer(graph, node, unique, _why_no_layer(graph, node, operand), operand)
