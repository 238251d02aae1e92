"""The layers of an ONNX model: products and convolutions with constant weights, with the bias and
the activation that follow them; also as ONNX Runtime's optimizer fuses them (com.microsoft). Needs
the package onnx."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Optional

import numpy as np
import onnx
import onnx.numpy_helper

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
        self.shapes = shapes_of(model, shapes)

    def users(self, name: str) -> list[int]:
        return self._users.get(name, [])

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
    activation, clamp = _fused_activation(node)
    residual = node.input[3] if node.op_type == "FusedConv" and len(node.input) > 3 else None
    return OnnxLayer(name=name, op=node.op_type.replace("Fused", ""), weight=weight, bias=bias,
                     activation=activation, clamp=clamp, convolution=convolution,
                     input=node.input[0], output=node.output[0], nodes=(index,),
                     input_shape=graph.shapes.get(node.input[0]), residual=residual)


def _fused_activation(node: onnx.NodeProto) -> tuple[str | None, tuple[float, float] | None]:
    """Activation and bounds that are part of the node, as OnnxLayer has them."""
    name = attribute_of(node, "activation", b"").decode() if _is_fused(node) else ""
    if name == "Clip":
        low, high = attribute_of(node, "activation_params", [-math.inf, math.inf])
        return "clamp", (low, high)
    if name not in ("", "Relu"):
        raise _Refused(f"its activation {name} has no kernel")
    return ("relu" if name else None), None


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
    if layer.activation or layer.residual:
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


# An activation is often several nodes, in one of many orders. So the nodes behind a layer are
# computed for some numbers, and what they give is compared with the functions that kernels have.
_POINTS = np.linspace(-6.0, 6.0, 49)
_MOST_NODES = 16
_FUSED_ACTIVATIONS = ("Gelu", "FastGelu", "QuickGelu")  # of com.microsoft

def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(one) for one in x])


_ELEMENTWISE: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
    "Neg": np.negative, "Erf": _erf, "Tanh": np.tanh, "Sqrt": np.sqrt, "Identity": lambda x: x,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Relu": lambda x: np.maximum(x, 0),
}


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / 2 * (1 + _erf(x / math.sqrt(2))))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(x / 2 * (1 + np.tanh(inner)))


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


_ACTIVATIONS = {"relu": np.maximum(_POINTS, 0), "gelu": _gelu(_POINTS),
                "gelu-tanh": _gelu_tanh(_POINTS), "silu": _POINTS / (1 + np.exp(-_POINTS)),
                "hard-swish": _hard_swish(_POINTS)}
# The constants of a model are fp32; gelu and gelu-tanh are 5e-4 apart.
_SAME = 1e-5


def _with_activation(graph: _Graph, layer: OnnxLayer) -> OnnxLayer:
    clipped = _clip_behind(graph, layer)
    if clipped is not None:
        return clipped
    values = {layer.output: _POINTS}  # of what is computed of the layer's output alone
    makers: dict[str, int] = {}
    waiting = list(graph.users(layer.output))
    heapq.heapify(waiting)
    best = layer
    while waiting and len(makers) < _MOST_NODES:
        index = heapq.heappop(waiting)
        node = graph.nodes[index]
        value = None if node.output[0] in makers else _computed(graph, node, values, _rank(layer))
        if value is None:
            continue
        values[node.output[0]], makers[node.output[0]] = value, index
        for user in graph.users(node.output[0]):
            heapq.heappush(waiting, user)
        name = _name_of(value)
        within = _nodes_behind(graph, node.output[0], makers)
        hidden = [layer.output, *(graph.nodes[i].output[0] for i in within - {index})]
        if name is not None and all(graph.only_within(one, within) for one in hidden):
            best = replace(layer, activation=name, output=node.output[0],
                           nodes=tuple(sorted({*layer.nodes, *within})))
    return best


def _clip_behind(graph: _Graph, layer: OnnxLayer) -> OnnxLayer | None:
    follower = _follower(graph, layer, "Clip")
    if follower is None:
        return None
    index, node = follower
    bounds = _bounds_of(graph, node)
    if bounds is None or node.input[0] != layer.output:
        return None
    low, high = bounds
    return replace(layer, activation="clamp", clamp=(low, high), output=node.output[0],
                   nodes=(*layer.nodes, index))


def _bounds_of(graph: _Graph, clip: onnx.NodeProto) -> tuple[float, float] | None:
    """Of a Clip whose bounds are constants, the first not above the second."""
    bounds = []
    for place, name, default in ((1, "min", -math.inf), (2, "max", math.inf)):
        given = clip.input[place] if len(clip.input) > place else ""
        bounds.append(graph.scalar(given) if given else attribute_of(clip, name, default))
    low, high = bounds
    return None if low is None or high is None or not low <= high else (low, high)


def _clipped(graph: _Graph, clip: onnx.NodeProto,
             values: dict[str, np.ndarray]) -> np.ndarray | None:
    bounds = _bounds_of(graph, clip)
    value = values.get(clip.input[0])
    return None if bounds is None or value is None else np.clip(value, *bounds)


def _computed(graph: _Graph, node: onnx.NodeProto, values: dict[str, np.ndarray],
              rank: int) -> np.ndarray | None:
    """What the node gives; None if it needs more than `values`, which have so many dimensions, and
    constants of one element."""
    if not (_is_standard(node) or node.op_type in _FUSED_ACTIVATIONS):
        return None
    if node.op_type == "Clip":
        return _clipped(graph, node, values)
    inputs: list[Any] = []
    for name in node.input:
        value = values[name] if name in values else graph.scalar(name, rank)
        if value is None:
            return None
        inputs.append(value)
    if node.op_type == "Gelu":
        approximate = attribute_of(node, "approximate", b"none") == b"tanh"
        return (_gelu_tanh if approximate else _gelu)(inputs[0])
    if node.op_type == "FastGelu" and len(inputs) == 1:
        return _gelu_tanh(inputs[0])
    if node.op_type == "QuickGelu":
        return np.asarray(inputs[0] / (1 + np.exp(-attribute_of(node, "alpha", 1.702)
                                                  * inputs[0])))
    if node.op_type == "HardSwish":
        return _hard_swish(inputs[0])
    if node.op_type == "HardSigmoid":
        slope, middle = attribute_of(node, "alpha", 0.2), attribute_of(node, "beta", 0.5)
        return np.asarray(np.clip(slope * inputs[0] + middle, 0, 1))
    if node.op_type not in _ELEMENTWISE:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(_ELEMENTWISE[node.op_type](*inputs), np.float64)


def _name_of(value: np.ndarray) -> str | None:
    for name, expected in _ACTIVATIONS.items():
        if value.shape == expected.shape and np.allclose(value, expected, rtol=0, atol=_SAME):
            return name
    return None


def _nodes_behind(graph: _Graph, output: str, makers: dict[str, int]) -> set[int]:
    """All that `output` is made of, up to the layer."""
    nodes: set[int] = set()
    waiting = [output]
    while waiting:
        name = waiting.pop()
        if name in makers and makers[name] not in nodes:
            nodes.add(makers[name])
            waiting.extend(graph.nodes[makers[name]].input)
    return nodes
