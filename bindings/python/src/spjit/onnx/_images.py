"""Images of bytes that go from kernel to kernel with their channels last, so that neither has to
transpose them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import onnx
from onnx import helper

from .._onnx_constants import attribute_of
from .._onnx_forms import names_in
from .._onnx_protos import copied, put_nodes
from .._onnx_shapes import Extents
from .._onnx_values import Graph, is_fused, is_standard
from .._onnx_weights import Names
from ._integers import BYTE_KERNELS, OPERATORS_OF_BYTES

_RANK = 4
_FUSED = "com.microsoft"
_TO_TOKENS, _TO_FEATURES = [0, 2, 3, 1], [0, 3, 1, 2]
# What a kernel saves that need not transpose its X, or its Y, and what nodes Transpose cost.
_GAIN_OF_X, _GAIN_OF_Y, _COST = 1, 2, 2
_POOLING = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


def with_tokens(model: onnx.ModelProto, base: Graph) -> onnx.ModelProto:
    """A copy in which images go so where that is likely faster, or the model itself. `base`: the
    model before it had kernels, which has shapes."""
    places = _Places(Graph(model), base)
    turned = {name for one in places.components() if places.gain(one) > 0 for name in one}
    if not turned:
        return model
    result = copied(model)
    _turn(result.graph, places, turned)
    if all(one.domain != _FUSED for one in result.opset_import):
        result.opset_import.append(helper.make_opsetid(_FUSED, 1))
    return result


class _End(NamedTuple):
    """Kernels of images have these operands in either order."""

    x: bool  # X of bytes
    y: bool  # Y, too


def _end_of(node: onnx.NodeProto) -> _End:
    if node.op_type not in OPERATORS_OF_BYTES or node.domain != "spjit":
        return _End(False, False)
    problem = json.loads(attribute_of(node, "problem", b"{}"))
    is_image = problem["b"]["layout"] == "features"
    return _End(is_image, is_image and node.op_type in BYTE_KERNELS)


class _Places:
    """Who makes and who uses images of bytes."""

    def __init__(self, graph: Graph, base: Graph) -> None:
        self.graph, self._shapes = graph, base.shapes
        self.ends = [_end_of(node) for node in graph.nodes]
        self.makers = {node.output[0]: index for index, node in enumerate(graph.nodes)
                       if self.ends[index].y}
        # Nodes that take all operands in one order, and these operands.
        self.tied: dict[int, list[str]] = {}
        for index, node in enumerate(graph.nodes):
            tied = self._tied(node)
            if tied:
                self.tied[index] = tied

    def _tied(self, node: onnx.NodeProto) -> list[str]:
        if node.op_type == "QLinearAdd" and is_fused(node):
            operands = [node.input[0], node.input[3]]
            is_image = all(self._is_image(name) for name in operands)
            return [*operands, node.output[0]] if is_image else []
        if node.op_type == "MaxPool" and is_standard(node) and len(node.output) == 1:
            # Other images had better be transposed behind it, where they are smaller.
            return [node.input[0], node.output[0]] if self.is_made(node.input[0]) else []
        return []

    def _is_image(self, name: str) -> bool:
        """Of four dimensions, and not constant. A sum of two such may broadcast one of them."""
        shape: Extents | None = self._shapes.get(name)
        is_known = shape is not None and len(shape) == _RANK
        return (is_known or self.is_made(name)) and self.graph.constant(name) is None

    def components(self) -> Iterator[set[str]]:
        """Values that are in one order."""
        of: dict[str, set[str]] = {}
        values = [name for tied in self.tied.values() for name in tied]
        values += self.makers
        values += [node.input[0] for index, node in enumerate(self.graph.nodes)
                   if self.ends[index].x]
        for name in values:
            of.setdefault(name, {name})
        for tied in self.tied.values():
            joined = set().union(*(of[name] for name in tied))
            of.update(dict.fromkeys(joined, joined))
        seen: set[int] = set()
        for one in of.values():
            if id(one) not in seen:
                seen.add(id(one))
                yield one

    def is_made(self, name: str) -> bool:
        """By a kernel, or of values of the same component."""
        index = self.graph.maker(name)
        return name in self.makers or index in self.tied

    def needs_features(self, name: str) -> bool:
        """Whether others than these use it."""
        return self.graph.is_kept(name) or any(
            index not in self.tied and not self._is_x(index, name)
            for index in self.graph.users(name))

    def _is_x(self, index: int, name: str) -> bool:
        return self.ends[index].x and list(self.graph.nodes[index].input).count(name) == 1 and \
            self.graph.nodes[index].input[0] == name

    def gain(self, values: set[str]) -> int:
        """Above 0 where the order is worth its nodes Transpose. Those beside a dense convolution of
        integers go: ONNX Runtime puts the other ones around it."""
        total = 0
        for name in values:
            users = self.graph.users(name)
            total += _GAIN_OF_Y * (name in self.makers)
            total += _GAIN_OF_X * sum(self._is_x(index, name) for index in users)
            if not self.is_made(name):
                total -= _COST * (not self._is_dense(self.graph.maker(name)))
            if self.needs_features(name):
                total -= _COST * (self.graph.is_kept(name) or not all(
                    self._is_x(index, name) or index in self.tied or self._is_dense(index)
                    for index in users))
        return total

    def _is_dense(self, index: int | None) -> bool:
        return index is not None and self.graph.nodes[index].op_type == "QLinearConv"


def _turn(graph: onnx.GraphProto, places: _Places, turned: set[str]) -> None:
    names = names_in(graph)
    tokens = {name: names.unique(f"{name} tokens") for name in sorted(turned)}
    made: list[onnx.NodeProto] = []
    for name, last in tokens.items():
        if places.graph.maker(name) is None:  # an input
            made.append(_transposed(name, last, _TO_TOKENS, names))
    for index, node in enumerate(graph.node):
        outputs = [name for name in node.output if name in tokens]
        if index in places.tied:
            _replace(node, tokens)
            if node.op_type == "MaxPool":
                node = _pooled(node)
        else:
            _turn_kernel(node, places.ends[index], tokens)
        made.append(node)
        for name in outputs:
            if not places.is_made(name):
                made.append(_transposed(name, tokens[name], _TO_TOKENS, names))
            elif places.needs_features(name):
                made.append(_transposed(tokens[name], name, _TO_FEATURES, names))
    put_nodes(graph, made)


def _replace(node: onnx.NodeProto, tokens: dict[str, str]) -> None:
    node.input[:] = [tokens.get(name, name) for name in node.input]
    node.output[:] = [tokens.get(name, name) for name in node.output]


def _turn_kernel(node: onnx.NodeProto, end: _End, tokens: dict[str, str]) -> None:
    if end.x and node.input[0] in tokens:
        node.input[0] = tokens[node.input[0]]
        node.attribute.append(helper.make_attribute("x_tokens", 1))
    if end.y and node.output[0] in tokens:
        node.output[0] = tokens[node.output[0]]
        node.attribute.append(helper.make_attribute("y_tokens", 1))


def _pooled(node: onnx.NodeProto) -> onnx.NodeProto:
    """The same of images with channels last."""
    pooled = helper.make_node("NhwcMaxPool", list(node.input), list(node.output), node.name,
                              domain=_FUSED)
    pooled.attribute.extend(one for one in node.attribute if one.name in _POOLING)
    return pooled


def _transposed(value: str, result: str, order: list[int], names: Names) -> onnx.NodeProto:
    return helper.make_node("Transpose", [value], [result], names.unique(f"{result} order"),
                            perm=order)
