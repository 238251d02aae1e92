"""Values of a graph of an ONNX model: which are constant, who makes and who uses them, and their
shapes. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Optional

import numpy as np
import onnx
import onnx.numpy_helper

from ._onnx_shapes import Extents, Shapes, named_shapes_of


class Graph:
    """Who makes and who uses each value of the main graph, and which values are constant."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes | None = None) -> None:
        """Raises ValueError for shapes that are of no input."""
        self._take(model.graph, model.ir_version, None)
        self.extents = named_shapes_of(model, shapes)
        self.shapes: dict[str, Extents] = {
            name: tuple(size if isinstance(size, int) else None for size in sizes)
            for name, sizes in self.extents.items()}

    @classmethod
    def within(cls, outer: Graph, graph: onnx.GraphProto) -> Graph:
        """The same of a graph within a node of `outer`; without shapes."""
        made = cls.__new__(cls)
        made._take(graph, outer.ir_version, outer)
        made.extents, made.shapes = {}, {}
        return made

    def _take(self, graph: onnx.GraphProto, ir_version: int, outer: Graph | None) -> None:
        self.nodes = graph.node
        self.outer = outer
        self.ir_version = ir_version
        self._initializers = {one.name: one for one in graph.initializer}
        self._sparse = {one.values.name: one for one in graph.sparse_initializer}
        self._inputs = {value.name for value in graph.input}
        self._makers = {name: i for i, node in enumerate(self.nodes) for name in node.output}
        self._users: dict[str, list[int]] = {}
        self._kept = {value.name for value in graph.output}
        self._computed: dict[str, np.ndarray | None] = {}
        for i, node in enumerate(self.nodes):
            for name in node.input:
                self._users.setdefault(name, []).append(i)
            for attribute in node.attribute:
                self._kept.update(_names_in(attribute))
        self._known = {*self._initializers, *self._sparse, *self._makers, *self._users,
                       *self._kept, *self._inputs}

    def users(self, name: str) -> list[int]:
        return self._users.get(name, [])

    def maker(self, name: str) -> int | None:
        return self._makers.get(name)

    def unused(self, name: str) -> str:
        """A name that no value has."""
        while name in self._known:
            name += "'"
        return name

    def only_within(self, name: str, nodes: set[int]) -> bool:
        """Nothing but these nodes sees the value."""
        return name not in self._kept and nodes.issuperset(self.users(name))

    def is_replaceable(self, name: str) -> bool:
        """What is an input, too, is a default that a run may replace. Before version 4 every
        initializer had to be one."""
        if name in self._initializers or name in self._sparse:
            return self.ir_version >= 4 and self.outer is None and name in self._inputs
        return self.outer is not None and not self._is_own(name) and self.outer.is_replaceable(name)

    def _is_own(self, name: str) -> bool:
        return name in self._makers or name in self._inputs

    def default(self, name: str) -> np.ndarray | None:
        """What `name` is if no run replaces it; None for a value that is computed of inputs."""
        if name in self._initializers:
            return onnx.numpy_helper.to_array(self._initializers[name])
        if name in self._sparse:
            return _densified(self._sparse[name])
        if name in self._makers:
            return self._of_node(name)
        return self.outer.default(name) if self.outer and name not in self._inputs else None

    def constant(self, name: str) -> np.ndarray | None:
        """None for a value that is computed of inputs."""
        return None if self.is_replaceable(name) else self.default(name)

    def _of_node(self, name: str) -> np.ndarray | None:
        if name not in self._computed:
            self._computed[name] = None  # of a cycle
            node = self.nodes[self._makers[name]]
            if is_standard(node) and len(node.output) == 1:
                self._computed[name] = _value_of(node, self.constant)
        return self._computed[name]

    def scalar(self, name: str, rank: int = 1) -> float | None:
        """A constant of one element, of at most `rank` dimensions: one of more would add some to
        what it is computed with."""
        value = self.constant(name) if name else None
        fits = value is not None and value.size == 1 and value.ndim <= rank
        return float(value.reshape(())) if value is not None and fits else None


def is_standard(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")


def is_fused(node: onnx.NodeProto) -> bool:
    """By ONNX Runtime."""
    return node.domain == "com.microsoft"


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return onnx.helper.get_attribute_value(attribute)
    return default


def graphs_in(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def _names_in(attribute: onnx.AttributeProto) -> Iterator[str]:
    """What a graph within a node may use of the main graph."""
    for graph in (attribute.g, *attribute.graphs):
        yield from (value.name for value in graph.output)
        for node in graph.node:
            yield from node.input
            for inner in node.attribute:
                yield from _names_in(inner)


# ---- Constants ------------------------------------------------------------------------------

Values = Callable[[str], Optional[np.ndarray]]


def _densified(sparse: onnx.SparseTensorProto) -> np.ndarray:
    values = onnx.numpy_helper.to_array(sparse.values)
    places = onnx.numpy_helper.to_array(sparse.indices)  # [nnz] of the flat array, or [nnz, rank]
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    dense[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, dense.shape)] = values
    return dense


def _literal(node: onnx.NodeProto) -> np.ndarray | None:
    """Of a node Constant."""
    attribute = node.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return onnx.numpy_helper.to_array(value)
    if attribute.name == "sparse_value":
        return _densified(value)
    if attribute.name in ("value_float", "value_floats"):
        return np.asarray(value, np.float32)
    if attribute.name in ("value_int", "value_ints"):
        return np.asarray(value, np.int64)
    return None


def _cast(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    """Of fp16 weights, as ONNX Runtime computes with them on a CPU."""
    is_float = attribute_of(node, "to", 0) == onnx.TensorProto.FLOAT
    return given[0].astype(np.float32) if is_float else None


def _reshaped(_node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    value, sizes = given[0], [int(size) for size in given[1]]
    if 0 in sizes or value.size == 0:  # a size of the value, or really 0
        return None
    return value.reshape(sizes)


def _axes_of(node: onnx.NodeProto, given: list[np.ndarray]) -> list[int] | None:
    """An input since version 13 of the operators, before an attribute."""
    return [int(axis) for axis in given[1]] if len(given) > 1 else attribute_of(node, "axes", None)


def _unsqueezed(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    axes = _axes_of(node, given)
    return None if axes is None else np.expand_dims(given[0], tuple(axes))


def _squeezed(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray:
    axes = _axes_of(node, given)
    return np.squeeze(given[0], None if axes is None else tuple(axes))


def _dequantized(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    """(x - zero point) * scale, of a tensor or an axis; None for blocks, or another type."""
    value, scale = given[0], given[1]
    if value.dtype not in (np.int8, np.uint8, np.int32) or scale.dtype != np.float32 or \
            attribute_of(node, "block_size", 0):
        return None
    shape = [1] * value.ndim
    if scale.size > 1:
        axis = attribute_of(node, "axis", 1)
        if scale.ndim != 1 or scale.size != value.shape[axis]:
            return None
        shape[axis] = scale.size
    zero = given[2].reshape(scale.shape).astype(np.int64) if len(given) > 2 else np.zeros(
        scale.shape, np.int64)
    shifted = value.astype(np.int64) - zero.reshape(shape)
    return (shifted.astype(np.float32) * scale.reshape(shape)).astype(np.float32)


def _elementwise(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    """Of fp32 operands, the largest as large as the result."""
    def compute(_node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
        largest = max(one.size for one in given)
        if any(one.dtype != np.float32 for one in given) or \
                np.broadcast(*given).size > largest:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(function(*given), np.float32)
    return compute


_OPERATIONS: dict[str, Callable[[onnx.NodeProto, list[np.ndarray]], Optional[np.ndarray]]] = {
    "Identity": lambda _node, given: given[0],
    "Transpose": lambda node, given: given[0].transpose(attribute_of(node, "perm", None)),
    "Cast": _cast, "Reshape": _reshaped, "Unsqueeze": _unsqueezed, "Squeeze": _squeezed,
    "DequantizeLinear": _dequantized,
    "Add": _elementwise(np.add), "Sub": _elementwise(np.subtract),
    "Mul": _elementwise(np.multiply), "Div": _elementwise(np.divide),
    "Sqrt": _elementwise(np.sqrt), "Neg": _elementwise(np.negative),
    "Reciprocal": _elementwise(np.reciprocal),
}


def _value_of(node: onnx.NodeProto, constant: Values) -> np.ndarray | None:
    """What the node gives; None unless it is one of these of constants."""
    if node.op_type == "Constant":
        return _literal(node)
    if node.op_type not in _OPERATIONS or "" in node.input:
        return None
    given = []
    for name in node.input:
        value = constant(name)
        if value is None:
            return None
        given.append(value)
    try:
        return _OPERATIONS[node.op_type](node, given)
    except (ValueError, IndexError):  # operands that do not fit, which ONNX Runtime refuses
        return None
