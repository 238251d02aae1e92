"""The layers of an ONNX model: products and convolutions with constant weights, with the bias and
the activation that follow them; also as ONNX Runtime's optimizer fuses them (com.microsoft). Needs
the package onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Optional

import numpy as np
import onnx
import onnx.numpy_helper

from ._onnx_activations import Activation, activation_behind, activation_of, fused_activation
from ._onnx_shapes import Extents, Shapes, shapes_of

# Nodes with weights that are no layers here, and why.
_OTHER_NODES = {
    "ConvTranspose": "transposed convolutions have no kernel",
    "ConvInteger": "its weights are integers",
    "MatMulInteger": "its weights are integers",
    "QLinearConv": "its weights are integers",
    "QLinearMatMul": "its weights are integers",
    "LSTM": "recurrent layers have no kernel",
    "GRU": "recurrent layers have no kernel",
}


_LAYER_NODES = ("MatMul", "Gemm", "Conv")


@dataclass(frozen=True)
class Convolution:
    """Of images NCHW, as ONNX has it: stride and dilation of height and width; padding of top,
    left, bottom and right."""

    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1


@dataclass(frozen=True, eq=False)
class OnnxLayer:
    """output = act(weight * input + bias): input [..., in] and output [..., out], or images."""

    name: str  # of its first node, or what that gives; no two layers have the same
    op: str  # "MatMul", "Gemm" or "Conv"
    weight: np.ndarray  # fp32 [out, in]; of a convolution [out, in / groups, height, width]
    bias: np.ndarray | None  # fp32 [out]
    activation: str | None  # as spjit.compile() has it, or "clamp"
    clamp: tuple[float, float] | None  # of "clamp": low and high
    convolution: Convolution | None
    input: str  # names of values of the graph
    output: str
    nodes: tuple[int, ...]  # all that it stands for, as indices into graph.node, ascending
    input_shape: Extents | None  # None where it is not known; a dimension that is not: None
    residual: str | None = None  # a value that is added before the activation, as the output
    # An activation that kernels do not have: a node that makes `output` of what the kernel gives.
    behind: onnx.NodeProto | None = None

    @property
    def kernel_output(self) -> str:
        return self.output if self.behind is None else str(self.behind.input[0])

    @property
    def zeros(self) -> float:
        """The share of weights that are 0."""
        return 1 - np.count_nonzero(self.weight) / max(self.weight.size, 1)


class NoLayer(NamedTuple):
    """A node with constant weights that is no layer."""

    name: str
    op: str
    reason: str


class Survey(NamedTuple):
    layers: list[OnnxLayer]
    others: list[NoLayer]


def layers_of(model: onnx.ModelProto, shapes: Shapes | None = None) -> list[OnnxLayer]:
    """The layers of the main graph, in the order of their nodes. `shapes`: of inputs of the model,
    where they are to be others than it says."""
    return survey(model, shapes).layers


def survey(model: onnx.ModelProto, shapes: Shapes | None = None) -> Survey:
    """The same, and the other nodes with constant weights. Raises ValueError for shapes that are
    of no input."""
    graph = _Graph(model, shapes or {})
    layers: list[OnnxLayer] = []
    others: list[NoLayer] = []
    names: set[str] = set()
    for index, node in enumerate(graph.nodes):
        name = _unique(node.name or node.output[0], names)
        try:
            layer = _layer_at(graph, index, name)
        except _Refused as refused:
            others.append(NoLayer(name, node.op_type, str(refused)))
        else:
            if layer is not None:
                layers.append(_with_followers(graph, layer))
        others += [NoLayer(_unique(inner.name or inner.output[0], names), inner.op_type,
                           f"it is in a graph within {name}, a node {node.op_type}")
                   for inner in _inner_layers(graph, node)]
    return Survey(layers, others)


class _Refused(Exception):
    """Why a node with weights is no layer."""


def _unique(name: str, taken: set[str]) -> str:
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique)
    return unique


class _Graph:
    """Who makes and who uses each value of the main graph, and which values are constant."""

    def __init__(self, model: onnx.ModelProto, shapes: Shapes) -> None:
        graph = model.graph
        self.nodes = graph.node
        self._initializers = {one.name: one for one in graph.initializer}
        self._sparse = {one.values.name: one for one in graph.sparse_initializer}
        if model.ir_version >= 4:  # what is an input, too, is a default that a run may replace
            for value in graph.input:
                self._initializers.pop(value.name, None)
        self._makers = {name: i for i, node in enumerate(self.nodes) for name in node.output}
        self._users: dict[str, list[int]] = {}
        self._kept = {value.name for value in graph.output}
        for i, node in enumerate(self.nodes):
            for name in node.input:
                self._users.setdefault(name, []).append(i)
            for attribute in node.attribute:
                self._kept.update(_names_in(attribute))
        self._known = {*self._initializers, *self._makers, *self._users, *self._kept,
                       *(value.name for value in graph.input)}
        self.shapes = shapes_of(model, shapes)

    def users(self, name: str) -> list[int]:
        return self._users.get(name, [])

    def unused(self, name: str) -> str:
        """A name that no value has."""
        while name in self._known:
            name += "'"
        return name

    def only_within(self, name: str, nodes: set[int]) -> bool:
        """Nothing but these nodes sees the value."""
        return name not in self._kept and nodes.issuperset(self.users(name))

    def constant(self, name: str) -> np.ndarray | None:
        """None for a value that is computed of inputs."""
        if name in self._initializers:
            return onnx.numpy_helper.to_array(self._initializers[name])
        if name in self._sparse:
            return _densified(self._sparse[name])
        node = self.nodes[self._makers[name]] if name in self._makers else None
        if node is None or not _is_standard(node):
            return None
        if node.op_type == "Constant":
            return _constant_of(node)
        if node.op_type not in ("Identity", "Transpose", "Cast"):
            return None
        value = self.constant(node.input[0])
        if value is None or node.op_type == "Identity":
            return value
        if node.op_type == "Cast":  # of fp16 weights, as ONNX Runtime computes with them on a CPU
            to = attribute_of(node, "to", 0)
            return value.astype(np.float32) if to == onnx.TensorProto.FLOAT else None
        return value.transpose(attribute_of(node, "perm", None))

    def scalar(self, name: str, rank: int = 1) -> float | None:
        """A constant of one element, of at most `rank` dimensions: one of more would add some to
        what it is computed with."""
        value = self.constant(name) if name else None
        fits = value is not None and value.size == 1 and value.ndim <= rank
        return float(value.reshape(())) if value is not None and fits else None


def _is_standard(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")


def _is_fused(node: onnx.NodeProto) -> bool:
    """By ONNX Runtime."""
    return node.domain == "com.microsoft"


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return onnx.helper.get_attribute_value(attribute)
    return default


def _names_in(attribute: onnx.AttributeProto) -> Iterator[str]:
    """What a graph within a node may use of the main graph."""
    for graph in (attribute.g, *attribute.graphs):
        yield from (value.name for value in graph.output)
        for node in graph.node:
            yield from node.input
            for inner in node.attribute:
                yield from _names_in(inner)


def _densified(sparse: onnx.SparseTensorProto) -> np.ndarray:
    values = onnx.numpy_helper.to_array(sparse.values)
    places = onnx.numpy_helper.to_array(sparse.indices)  # [nnz] of the flat array, or [nnz, rank]
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    dense[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, dense.shape)] = values
    return dense


def _graphs_in(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def _inner_layers(outer: _Graph, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Nodes of graphs within the node that would be layers outside, by their weights."""
    for graph in _graphs_in(node):
        constant = {one.name for one in graph.initializer}
        constant.update(each.output[0] for each in graph.node if each.op_type == "Constant")
        for inner in graph.node:
            if (inner.op_type in _LAYER_NODES and len(inner.input) > 1
                    and (inner.input[1] in constant
                         or outer.constant(inner.input[1]) is not None)):
                yield inner
            yield from _inner_layers(outer, inner)


def _constant_of(node: onnx.NodeProto) -> np.ndarray | None:
    attribute = node.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return onnx.numpy_helper.to_array(value)
    if attribute.name in ("value_float", "value_floats"):
        return np.asarray(value, np.float32)
    if attribute.name in ("value_int", "value_ints"):
        return np.asarray(value, np.int64)
    return None


# ---- A node with weights --------------------------------------------------------------------


def _layer_at(graph: _Graph, index: int, name: str) -> OnnxLayer | None:
    """Of one node; None if it has no constant weights."""
    node = graph.nodes[index]
    if not (_is_standard(node) or _is_fused(node)) or len(node.input) < 2:
        return None
    makers = {"MatMul": _matmul, "Gemm": _gemm, "Conv": _conv, "FusedConv": _conv,
              "FusedGemm": _gemm, "FusedMatMul": _fused_matmul}
    if node.op_type not in makers and node.op_type not in _OTHER_NODES:
        return None
    if node.op_type == "MatMul" and graph.constant(node.input[0]) is not None:
        raise _Refused("the constant is the left operand; expected activations * weights")
    weight = graph.constant(node.input[-2 if node.op_type.startswith("QLinear") else 1])
    if weight is None:
        return None
    if node.op_type in _OTHER_NODES:
        raise _Refused(_OTHER_NODES[node.op_type])
    if weight.dtype != np.float32:
        raise _Refused(f"its weights are {weight.dtype}; expected float32")
    weight, bias, convolution = makers[node.op_type](graph, node, weight)
    residual = node.input[3] if node.op_type == "FusedConv" and len(node.input) > 3 else None
    layer = OnnxLayer(name=name, op=node.op_type.replace("Fused", ""), weight=weight, bias=bias,
                      activation=None, clamp=None, convolution=convolution,
                      input=node.input[0], output=node.output[0], nodes=(index,),
                      input_shape=graph.shapes.get(node.input[0]), residual=residual or None)
    return _with_fused_activation(graph, layer, node) if _is_fused(node) else layer


def _with_fused_activation(graph: _Graph, layer: OnnxLayer, node: onnx.NodeProto) -> OnnxLayer:
    """With the activation that is part of the node: of the kernel, or as a node behind it."""
    try:
        fused = fused_activation(node)
    except ValueError as error:
        raise _Refused(str(error)) from error
    if fused is None:
        return layer
    activation = activation_of(fused.expression)
    if activation is not None:
        return _activated(layer, activation)
    if fused.operator == "Clip":  # whose bounds are attributes in old models alone
        raise _Refused(f"its activation Clip has the bounds {list(fused.attributes.values())}; "
                       "expected the lower one first")
    behind = onnx.helper.make_node(fused.operator, [graph.unused(f"{layer.output} linear")],
                                   [layer.output], node.name, **fused.attributes)
    return replace(layer, behind=behind)


_Parts = tuple[np.ndarray, Optional[np.ndarray], Optional[Convolution]]


def _matmul(_graph: _Graph, _node: onnx.NodeProto, weight: np.ndarray) -> _Parts:
    if weight.ndim != 2:
        raise _Refused(f"its weights have {weight.ndim} dimensions; expected 2")
    return weight.T, None, None


def _fused_matmul(_graph: _Graph, node: onnx.NodeProto, weight: np.ndarray) -> _Parts:
    if any(attribute_of(node, name, 0) for name in ("transA", "transBatchA", "transBatchB")):
        raise _Refused("its activations are transposed; expected [..., tokens, in]")
    weight, bias, convolution = _matmul(_graph, node, weight)
    weight = weight.T if attribute_of(node, "transB", 0) else weight
    return _times_alpha(weight, attribute_of(node, "alpha", 1.0)), bias, convolution


def _gemm(graph: _Graph, node: onnx.NodeProto, weight: np.ndarray) -> _Parts:
    if attribute_of(node, "transA", 0):
        raise _Refused("transA is set; expected activations [tokens, in]")
    weight = weight if attribute_of(node, "transB", 0) else weight.T
    alpha, beta = attribute_of(node, "alpha", 1.0), attribute_of(node, "beta", 1.0)
    weight = _times_alpha(weight, alpha)
    bias = None
    if len(node.input) > 2 and node.input[2]:
        bias = _per_row(graph.constant(node.input[2]), weight.shape[0], trailing=0)
        if bias is None:
            raise _Refused(f"C is no constant [{weight.shape[0]}]")
        bias = _product(bias, beta, may_vanish=True)
        if bias is None:
            raise _Refused(f"beta is {beta}, with which C is beyond fp32")
    return weight, bias, None


def _times_alpha(weight: np.ndarray, alpha: float) -> np.ndarray:
    product = weight if alpha == 1 else _product(weight, alpha)
    if product is None:
        raise _Refused(f"alpha is {alpha}, with which weights are beyond fp32")
    return product


def _product(values: np.ndarray, factor: np.ndarray | float,
             may_vanish: bool = False) -> np.ndarray | None:
    """Of both as fp32; None where it is infinite or NaN, or where a number that is not 0 would lose
    digits or vanish: as a weight it may meet an input that is large."""
    with np.errstate(all="ignore"):
        exact = np.asarray(values, np.float64) * factor
        product = exact.astype(np.float32)
    has_lost = (product != exact) & (np.abs(exact) < np.finfo(np.float32).tiny)
    if not np.all(np.isfinite(product)) or (not may_vanish and np.any(has_lost)):
        return None
    return product


def _sum(one: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """The same of a sum, which loses no digits."""
    with np.errstate(all="ignore"):
        total = (np.asarray(one, np.float64) + other).astype(np.float32)
    return total if np.all(np.isfinite(total)) else None


def _conv(graph: _Graph, node: onnx.NodeProto, weight: np.ndarray) -> _Parts:
    if weight.ndim != 4:
        raise _Refused(f"its weights have {weight.ndim} dimensions; expected 4, of images")
    bias = None
    if len(node.input) > 2 and node.input[2]:
        bias = _per_row(graph.constant(node.input[2]), weight.shape[0], trailing=0)
        if bias is None:
            raise _Refused(f"its bias is no constant [{weight.shape[0]}]")
    stride = attribute_of(node, "strides", [1, 1])
    dilation = attribute_of(node, "dilations", [1, 1])
    taps = [(size - 1) * apart for size, apart in zip(weight.shape[2:], dilation)]
    convolution = Convolution((stride[0], stride[1]), _padding(node, taps, stride),
                              (dilation[0], dilation[1]), attribute_of(node, "group", 1))
    return weight, bias, convolution


def _padding(node: onnx.NodeProto, taps: list[int],
             stride: list[int]) -> tuple[int, int, int, int]:
    """`taps`: what the kernel covers beside one pixel, in height and width."""
    automatic = attribute_of(node, "auto_pad", b"NOTSET").decode()
    if automatic == "NOTSET":
        top, left, bottom, right = attribute_of(node, "pads", [0, 0, 0, 0])
        return top, left, bottom, right
    if automatic == "VALID":
        return 0, 0, 0, 0
    if list(stride) != [1, 1]:
        raise _Refused(f"auto_pad {automatic} with a stride: its padding depends on the image")
    low = [(tap + (automatic == "SAME_LOWER")) // 2 for tap in taps]
    return low[0], low[1], taps[0] - low[0], taps[1] - low[1]


def _per_row(value: np.ndarray | None, rows: int, trailing: int) -> np.ndarray | None:
    """A constant that broadcasts to [..., rows, 1...] with `trailing` ones, as [rows]."""
    if value is None or value.dtype != np.float32:
        return None
    if value.size == 1:
        return np.full(rows, value.reshape(()), np.float32)
    axis = value.ndim - 1 - trailing
    if axis < 0 or value.shape[axis] != rows or value.size != rows:
        return None
    return value.reshape(rows)


# ---- What follows it ------------------------------------------------------------------------


def _rank(layer: OnnxLayer) -> int:
    """Dimensions of the output, as many as are sure."""
    if layer.convolution:
        return 4
    if layer.op == "Gemm":
        return 2
    return 1 if layer.input_shape is None else len(layer.input_shape)


def _with_followers(graph: _Graph, layer: OnnxLayer) -> OnnxLayer:
    if layer.activation or layer.residual or layer.behind is not None:
        return layer
    if layer.convolution:
        layer = _with_batch_normalization(graph, layer)
    layer = _with_bias(graph, _with_factor(graph, layer))
    return layer if layer.activation else _with_activation(graph, layer)


def _follower(graph: _Graph, layer: OnnxLayer, op: str,
              domain: Callable[[onnx.NodeProto], bool] = _is_standard,
              ) -> tuple[int, onnx.NodeProto] | None:
    """The node that alone sees the layer's output, if it is such a one."""
    users = graph.users(layer.output)
    if len(users) != 1 or not graph.only_within(layer.output, set(users)):
        return None
    node = graph.nodes[users[0]]
    return (users[0], node) if node.op_type == op and domain(node) else None


def _with_batch_normalization(graph: _Graph, layer: OnnxLayer) -> OnnxLayer:
    """Y = (X - mean) * scale / sqrt(variance + epsilon) + shift, as factors of the weights and a
    bias."""
    follower = _follower(graph, layer, "BatchNormalization")
    if follower is None:
        return layer
    index, node = follower
    given = [graph.constant(name) for name in node.input[1:]]
    rows = layer.weight.shape[0]
    # `is_test` and others of old versions change what it computes.
    if node.input[0] != layer.output or attribute_of(node, "training_mode", 0) or \
            not {one.name for one in node.attribute} <= {"epsilon", "momentum", "training_mode"} or \
            any(one is None or one.shape != (rows,) for one in given) or any(node.output[1:]):
        return layer
    scale, shift, mean, variance = (np.asarray(one, np.float64) for one in given)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + attribute_of(node, "epsilon", 1e-5))
        before = 0 if layer.bias is None else layer.bias
        bias = _sum((before - mean) * factor, shift)
    weight = _product(layer.weight, factor.reshape(rows, 1, 1, 1))
    if weight is None or bias is None:
        return layer
    return replace(layer, weight=weight, bias=bias, output=node.output[0],
                   nodes=(*layer.nodes, index))


def _with_factor(graph: _Graph, layer: OnnxLayer) -> OnnxLayer:
    """A constant factor of each row becomes one of the weights and the bias."""
    follower = _follower(graph, layer, "Mul")
    if follower is None:
        return layer
    index, node = follower
    factor = _constant_beside(graph, layer, node)
    if factor is None:
        return layer
    weight = _product(layer.weight, factor.reshape(-1, *(1,) * (layer.weight.ndim - 1)))
    bias = None if layer.bias is None else _product(layer.bias, factor, may_vanish=True)
    if weight is None or (bias is None) != (layer.bias is None):
        return layer
    return replace(layer, weight=weight, bias=bias, output=node.output[0],
                   nodes=(*layer.nodes, index))


def _constant_beside(graph: _Graph, layer: OnnxLayer, node: onnx.NodeProto) -> np.ndarray | None:
    """The node's other operand, as a constant of each row."""
    other = node.input[1] if node.input[0] == layer.output else node.input[0]
    value = graph.constant(other)
    if value is None or value.ndim > _rank(layer):  # which would add dimensions
        return None
    if node.attribute:  # before version 7 of the operators they said which dimensions broadcast
        return None
    return _per_row(value, layer.weight.shape[0], trailing=2 if layer.convolution else 0)


def _with_bias(graph: _Graph, layer: OnnxLayer) -> OnnxLayer:
    follower = (_follower(graph, layer, "Add")
                or _follower(graph, layer, "BiasGelu", _is_fused))
    if follower is None:
        return layer
    index, node = follower
    activation = "gelu" if node.op_type == "BiasGelu" else None
    bias = _constant_beside(graph, layer, node)
    if bias is None:
        return layer
    if layer.bias is not None:
        bias = _sum(layer.bias, bias)
        if bias is None:
            return layer
    return replace(layer, bias=bias, activation=activation, output=node.output[0],
                   nodes=(*layer.nodes, index))


def _with_activation(graph: _Graph, layer: OnnxLayer) -> OnnxLayer:
    found = activation_behind(graph, layer.output, _rank(layer))
    if found is None:
        return layer
    return replace(_activated(layer, found.activation), output=found.output,
                   nodes=tuple(sorted({*layer.nodes, *found.nodes})))


def _activated(layer: OnnxLayer, activation: Activation) -> OnnxLayer:
    clamp = None
    if activation.name == "clamp":
        low, high = activation.parameters
        clamp = (low, high)
    return replace(layer, activation=activation.name, clamp=clamp)
