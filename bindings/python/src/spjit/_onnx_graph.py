"""The layers of an ONNX model: products and convolutions with constant weights, with the bias and
the activation that follow them; also as ONNX Runtime's optimizer fuses them (com.microsoft). Needs
the package onnx."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import onnx

from ._group_scales import GroupScales
from ._onnx_activations import FUNCTIONS, activation_behind, activation_of, fused_activation
from ._onnx_affine import LARGEST_WEIGHT, Limits, Place, behind, bias_of, per_channel, scaled
from ._onnx_blocks import block_product, is_block_product
from ._onnx_constants import attribute_of
from ._onnx_convolution import Convolution, convolution_of, transposed_of
from ._onnx_forms import is_residual
from ._onnx_integers import (EXACT_ACTIVATIONS, Quantisation, integer_product,
                             is_integer_product, quantised_to, sum_behind)
from ._onnx_products import (Arrangement, arranged, einsum_terms, matmul_arranged,
                             refuse_one_hot)
from ._onnx_protos import Scope
from ._onnx_recurrent import OnnxRecurrent, is_recurrent, recurrent_at
from ._onnx_shapes import Extents, Shapes
from ._onnx_values import Graph, half_of
from ._onnx_values import is_fused as _is_fused
from ._onnx_values import is_standard as _is_standard
from ._onnx_weights import Names, NoLayer, left_weights, no_layer, weights_of, zeros_of
from ._onnx_weights import Refused as _Refused


@dataclass(frozen=True, eq=False)
class OnnxLayer:
    """output = act(weight * input + bias): input [..., in] and output [..., out], or images."""

    name: str  # of its first node, or what that gives; no two layers have the same
    # "MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", or the operator of integers
    op: str
    # fp32 [out, in], or of several kernels [batch, out, in]; of a convolution
    # [out, in / groups, height, width]
    weight: np.ndarray
    bias: np.ndarray | None  # fp32 [out]
    activation: str | None  # Activation.text
    convolution: Convolution | None
    input: str  # names of values of the graph
    output: str
    nodes: tuple[int, ...]  # all that it stands for, as indices into its graph's node, ascending
    input_shape: Extents | None  # None where it is not known; a dimension that is not: None
    residual: str | None = None  # a value that is added before the activation, as the output
    # An activation that kernels do not have, or what makes integers of floats: a node that makes
    # `output` of what the kernel gives.
    behind: onnx.NodeProto | None = None
    beyond: tuple[onnx.NodeProto, ...] = ()  # more, one after another
    quantisation: Quantisation | None = None  # of a product of integers, whose weights are such
    group_scales: GroupScales | None = None  # of integers, which are weights times these
    quantizes_tokens: bool = False  # of a layer with such: the kernel makes X int8, token by token
    # Of a product whose operands are not those of a kernel, X [..., in] and Y [..., out].
    arrangement: Arrangement | None = None
    prefix: str = ""  # of names of several kernels, which a slash follows
    scope: Scope = ()  # of its graph
    half: str = ""  # "f16" or "bf16": the type of the input and the output; "": f32

    @cached_property  # a look at all weights
    def types(self) -> tuple[str, str, str]:
        """Of the kernel: weights are of the narrowest type that has each of them."""
        if self.quantisation is not None:
            return self.quantisation.types
        if self.group_scales is not None:
            is_nibble = self.weight.min(initial=0) >= -8 and self.weight.max(initial=0) <= 7
            return "i4" if is_nibble else "i8", "f32", "f32"
        around = self.half or "f32"
        return narrowest_type(self.weight, self.half), around, around

    @property
    def kernels(self) -> tuple[str, ...]:
        """Their names in the bundle, of each matrix one."""
        if self.convolution is not None or self.weight.ndim == 2:
            return (self.name,)
        return tuple(f"{self.prefix or self.name}/{i}" for i in range(len(self.weight)))

    @property
    def kernel_output(self) -> str:
        return self.output if self.behind is None else str(self.behind.input[0])

    @property
    def zeros(self) -> float:
        """The share of weights that are 0."""
        return zeros_of(self.weight)

    @property
    def is_depthwise(self) -> bool:
        """Whether it has groups, each of one channel."""
        return (self.convolution is not None and self.convolution.groups > 1
                and self.weight.shape[1] == 1)

    @property
    def image(self) -> Extents:
        """Height and width of a convolution's images, as far as they are known."""
        assert self.convolution is not None
        rank = 2 + self.convolution.dimensions
        shape = self.input_shape
        if shape is None or len(shape) != rank:
            return (None if rank == 4 else 1, None)
        return shape[2:] if rank == 4 else (1, shape[2])


def narrowest_type(weight: np.ndarray, preferred: str = "") -> str:
    """"bf16" or "f16" if each of these fp32 numbers is one of it, else "f32"."""
    bits = np.ascontiguousarray(weight).view(np.uint32)
    if np.any(bits & 0x1FFF):  # digits that neither has
        return "f32"
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(weight.astype(np.float16).astype(np.float32))
    has_each = {"bf16": not np.any(bits & 0xFFFF),
                "f16": np.array_equal(bits, rounded.view(np.uint32))}
    return next((name for name in (preferred, *has_each) if has_each.get(name)), "f32")


class Survey(NamedTuple):
    layers: list[OnnxLayer]
    others: list[NoLayer]
    recurrent: list[OnnxRecurrent]


def layers_of(model: onnx.ModelProto, shapes: Shapes | None = None) -> list[OnnxLayer]:
    """The layers of the main graph and of graphs within its nodes, in the order of these. `shapes`:
    of inputs of the model, where they are to be others than it says."""
    return survey(model, shapes).layers


def survey(model: onnx.ModelProto, shapes: Shapes | None = None, *,
           recurrent: bool = False, takes_halves: bool = False,
           takes_blocks: bool = False) -> Survey:
    """The same, and the other nodes with weights. `recurrent`: LSTM, GRU and RNN are layers, too.
    `takes_halves`: so are products and convolutions of fp16 and bf16. `takes_blocks`: so are those
    of integers with scales of blocks. Raises ValueError for shapes
    that are of no input."""
    found = Survey([], [], [])
    graph = Graph(model, shapes, takes_halves=takes_halves, takes_blocks=takes_blocks)
    _survey_graph(graph, (), Names(), found, recurrent)
    taken = [one.name for one in (*found.layers, *found.recurrent)]
    return found._replace(
        layers=[replace(one, prefix=_prefix(one.name, taken)) for one in found.layers],
        recurrent=[replace(one, prefix=_prefix(one.name, taken)) for one in found.recurrent])


def _survey_graph(graph: Graph, scope: Scope, names: Names, found: Survey,
                  recurrent: bool) -> None:
    for index, node in enumerate(graph.nodes):
        name = names.unique(node.name or (node.output[0] if node.output else node.op_type))
        try:
            of_node = recurrent_at(graph, index, name) if recurrent and is_recurrent(node) else None
            if of_node is not None:
                found.recurrent.append(replace(of_node, scope=scope))
                continue
            layer = _layer_at(graph, index, name)
        except _Refused as refused:
            found.others.extend(_refused(graph, node, name, str(refused)))
            continue
        if layer is None:
            found.others.extend(left_weights(graph, node, names, name))
        else:
            found.layers.append(replace(_with_followers(graph, layer), scope=scope))
        for number, inner in enumerate(graph.within(index)):
            _survey_graph(inner, (*scope, (index, number)), names, found, recurrent)


def _prefix(name: str, taken: list[str]) -> str:
    """With which no layer's name begins that goes on behind a slash."""
    while any(one.startswith(f"{name}/") for one in taken):
        name += "'"
    return name


def _refused(graph: Graph, node: onnx.NodeProto, name: str, reason: str) -> list[NoLayer]:
    weights = weights_of(graph, node)[:1]
    return ([no_layer(graph, node, name, reason, operand) for operand in weights]
            or [NoLayer(name, node.op_type, reason)])


# ---- A node with weights --------------------------------------------------------------------


def _layer_at(graph: Graph, index: int, name: str) -> OnnxLayer | None:
    """Of one node; None if it has no constant weights."""
    node = graph.nodes[index]
    if not (_is_standard(node) or _is_fused(node)) or len(node.input) < 2 or not node.output:
        return None
    if is_integer_product(node):
        return _layer_of_integers(graph, index, name)
    if graph.takes_blocks and is_block_product(node):
        return _layer_of_blocks(graph, index, name)
    makers = {"MatMul": _matmul, "Gemm": _gemm, "Conv": _convolution(convolution_of),
              "ConvTranspose": _convolution(transposed_of), "Einsum": _einsum,
              "FusedConv": _convolution(convolution_of), "FusedGemm": _gemm,
              "FusedMatMul": _fused_matmul}
    if node.op_type not in makers or graph.constant(node.output[0]) is not None:
        return None
    place = _place_of_weights(graph, node)
    if place is None:
        return None
    weight, half = graph.floats(node.input[place]), half_of(graph.constant(node.input[place]))
    assert weight is not None
    if weight.dtype != np.float32:
        raise _Refused(f"its weights are {weight.dtype}; expected float32")
    parts = makers[node.op_type](graph, node, _Weights(weight, place))
    x = node.input[1 - place]
    if parts.convolution is None:
        refuse_one_hot(graph, x, parts.weight, parts.arrangement)
    layer = OnnxLayer(name=name, op=node.op_type.replace("Fused", ""), weight=parts.weight,
                      bias=parts.bias, activation=None, convolution=parts.convolution, input=x,
                      output=node.output[0], nodes=(index,), input_shape=graph.shapes.get(x),
                      residual=_residual_of(node, parts.bias), arrangement=parts.arrangement,
                      half=half)
    return _with_fused_activation(graph, layer, node) if _is_fused(node) else layer


def _layer_of_integers(graph: Graph, index: int, name: str) -> OnnxLayer | None:
    found = integer_product(graph, index)
    if found is None:
        return None
    return OnnxLayer(name=name, op=graph.nodes[index].op_type, weight=found.weight,
                     bias=found.bias, activation=None, convolution=found.convolution,
                     input=found.x, output=found.output, nodes=found.nodes,
                     input_shape=graph.shapes.get(found.x), behind=found.behind,
                     beyond=found.beyond,
                     quantisation=found.quantisation)


def _layer_of_blocks(graph: Graph, index: int, name: str) -> OnnxLayer | None:
    found = block_product(graph, index)
    if found is None:
        return None
    node = graph.nodes[index]
    layer = OnnxLayer(name=name, op=node.op_type, weight=found.weight, bias=found.bias,
                      activation=None, convolution=None, input=node.input[0],
                      output=node.output[0], nodes=(index,),
                      input_shape=graph.shapes.get(node.input[0]), group_scales=found.scales)
    added = None if found.bias is not None else sum_behind(graph, layer.output, node.input[0],
                                                           len(found.weight))
    if added is None:
        return layer
    return replace(layer, bias=added.bias, output=added.output, nodes=(index, added.node))


def _place_of_weights(graph: Graph, node: onnx.NodeProto) -> int | None:
    """Of the two operands; None if neither is constant."""
    first, second = (graph.constant(name) if name else None for name in node.input[:2])
    if second is None:
        return None if first is None or node.op_type.removeprefix("Fused") in (
            "Conv", "ConvTranspose") else 0
    if first is not None:
        raise _Refused("both operands are constant")
    return 1


def _residual_of(node: onnx.NodeProto, bias: np.ndarray | None) -> str | None:
    """What the node itself adds to the product, of its shape."""
    place = 3 if node.op_type == "FusedConv" else 2
    if len(node.input) <= place or (bias is not None and place == 2):
        return None
    return node.input[place] or None


def _with_fused_activation(graph: Graph, layer: OnnxLayer, node: onnx.NodeProto) -> OnnxLayer:
    """With the activation that is part of the node: of the kernel, or as a node behind it."""
    try:
        fused = fused_activation(node)
    except ValueError as error:
        raise _Refused(str(error)) from error
    if fused is None:
        return layer
    activation = activation_of(fused.expression, _activations_for(layer))
    if activation is not None:
        return replace(layer, activation=activation.text)
    if fused.operator == "Clip":  # whose bounds are attributes in old models alone
        raise _Refused(f"its activation Clip has the bounds {list(fused.attributes.values())}; "
                       "expected the lower one first")
    behind = onnx.helper.make_node(fused.operator, [graph.unused(f"{layer.output} linear")],
                                   [layer.output], node.name, **fused.attributes)
    return replace(layer, behind=behind)


class _Weights(NamedTuple):
    values: np.ndarray
    place: int  # of the operand that they are

    @property
    def is_left(self) -> bool:
        return self.place == 0


class _Parts(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray | None = None
    convolution: Convolution | None = None
    arrangement: Arrangement | None = None


_Maker = Callable[[Graph, onnx.NodeProto, _Weights], _Parts]


def _convolution(of: Callable[[Graph, onnx.NodeProto, np.ndarray],
                              tuple[np.ndarray, np.ndarray | None, Convolution]]) -> _Maker:
    return lambda graph, node, weights: _Parts(*of(graph, node, weights.values))


def _matmul(graph: Graph, node: onnx.NodeProto, weights: _Weights) -> _Parts:
    shape = graph.shapes.get(node.input[1 - weights.place])
    weight, arrangement = matmul_arranged(shape, weights.values, left=weights.is_left)
    return _Parts(weight, arrangement=arrangement)


def _fused_matmul(graph: Graph, node: onnx.NodeProto, weights: _Weights) -> _Parts:
    if any(attribute_of(node, name, 0) for name in ("transBatchA", "transBatchB")):
        raise _Refused("transBatchA or transBatchB is set; expected dimensions of batches first")
    turned = [bool(attribute_of(node, name, 0)) for name in ("transA", "transB")]
    shape = graph.shapes.get(node.input[1 - weights.place])
    is_vector = weights.values.ndim < 2 or (shape is not None and len(shape) < 2)
    if is_vector and any(turned):
        raise _Refused("a vector is transposed; expected two dimensions or more")
    weight = weights.values.swapaxes(-1, -2) if turned[weights.place] else weights.values
    weight, arrangement = matmul_arranged(shape, weight, left=weights.is_left,
                                          turned_x=turned[1 - weights.place])
    return _Parts(_times_alpha(weight, attribute_of(node, "alpha", 1.0)), arrangement=arrangement)


def _einsum(graph: Graph, node: onnx.NodeProto, weights: _Weights) -> _Parts:
    shape = graph.shapes.get(node.input[1 - weights.place])
    weight, arrangement = arranged(
        einsum_terms(node, weights.place, shape, weights.values), weights.values)
    return _Parts(weight, arrangement=arrangement)


def _gemm(graph: Graph, node: onnx.NodeProto, weights: _Weights) -> _Parts:
    if weights.values.ndim != 2:
        raise _Refused(f"its weights have {weights.values.ndim} dimensions; expected two")
    turned = [bool(attribute_of(node, name, 0)) for name in ("transA", "transB")]
    weight = weights.values.T if turned[weights.place] else weights.values
    weight, arrangement = matmul_arranged((None, None), weight, left=weights.is_left,
                                          turned_x=turned[1 - weights.place])
    beta = attribute_of(node, "beta", 1.0)
    weight = _times_alpha(weight, attribute_of(node, "alpha", 1.0))
    bias = None
    if len(node.input) > 2 and node.input[2]:
        rows = weight.shape[0]
        bias = per_channel(graph.floats(node.input[2]), rows, trailing=int(weights.is_left))
        if bias is None and not is_residual(graph, node, rows):
            raise _Refused(f"C is no constant [{rows}{', 1' if weights.is_left else ''}], and not "
                           "known to be of the output's shape")
        if bias is not None:
            bias = _product(bias, beta, may_vanish=True)
            if bias is None:
                raise _Refused(f"beta is {beta}, with which C is too large for fp32")
    return _Parts(weight, bias, arrangement=arrangement)


def _times_alpha(weight: np.ndarray, alpha: float) -> np.ndarray:
    product = weight if alpha == 1 else _product(weight, alpha)
    if product is None:
        raise _Refused(f"alpha is {alpha}, with which weights are too large or too small for fp32")
    return product


def _product(values: np.ndarray, factor: float, may_vanish: bool = False) -> np.ndarray | None:
    """Of both as fp32; None where it is too large, or where a number that is not 0 would lose
    digits or vanish, and may not: as a weight it may meet an input that is large."""
    with np.errstate(all="ignore"):
        exact = np.asarray(values, np.float64) * factor
        product = exact.astype(np.float32)
    tiny = np.finfo(np.float32).tiny
    has_lost = (product != exact) & (np.abs(exact) < tiny) & (np.abs(values) >= tiny)
    is_in = np.abs(product) <= np.maximum(np.abs(values), LARGEST_WEIGHT)
    return None if not np.all(is_in) or (not may_vanish and np.any(has_lost)) else product


def _sum(one: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """Of both as fp32; None where it is infinite or NaN."""
    with np.errstate(all="ignore"):
        total = (np.asarray(one, np.float64) + other).astype(np.float32)
    return total if np.all(np.isfinite(total)) else None


# ---- What follows it ------------------------------------------------------------------------


def _rank(layer: OnnxLayer) -> int:
    """Dimensions of the output, as many as are sure."""
    if layer.convolution:
        return 2 + layer.convolution.dimensions
    if layer.arrangement is not None:
        return layer.arrangement.rank
    if layer.op == "Gemm":
        return 2
    return 1 if layer.input_shape is None else len(layer.input_shape)


def _with_followers(graph: Graph, layer: OnnxLayer) -> OnnxLayer:
    are_integers = layer.quantisation is not None and layer.types[2] != "f32"
    if layer.activation or layer.behind is not None or are_integers:
        return layer
    is_of_floats = layer.quantisation is None and layer.group_scales is None
    if is_of_floats and not layer.residual and _trailing(layer) is not None:
        # A residual is added before the activation, and after all else.
        layer = _with_bias_gelu(graph, _with_affine(graph, layer))
    layer = layer if layer.activation else _with_activation(graph, layer)
    return _with_bytes(graph, layer)


def _with_bytes(graph: Graph, layer: OnnxLayer) -> OnnxLayer:
    """With the node that quantises the output of a product of bytes."""
    follower = _follower(graph, layer, "QuantizeLinear")
    if follower is None or layer.quantisation is None or layer.quantisation.mode != "given":
        return layer
    index, node = follower
    made = quantised_to(graph, layer.quantisation, node)
    if made is None:
        return layer
    return replace(layer, quantisation=made, output=node.output[0],
                   nodes=tuple(sorted({*layer.nodes, index})))


def _trailing(layer: OnnxLayer) -> int | None:
    """Dimensions of the output behind that of rows; None where rows are not one dimension."""
    if layer.arrangement is not None:
        return layer.arrangement.trailing
    return layer.convolution.dimensions if layer.convolution else 0


def _place(layer: OnnxLayer) -> Place:
    """Of its output."""
    return Place(_rank(layer), layer.weight.shape[0], _trailing(layer) or 0)


def _follower(graph: Graph, layer: OnnxLayer, op: str,
              domain: Callable[[onnx.NodeProto], bool] = _is_standard,
              ) -> tuple[int, onnx.NodeProto] | None:
    """The node that alone sees the layer's output, if it is such a one."""
    users = graph.users(layer.output)
    if len(users) != 1 or not graph.only_within(layer.output, set(users)):
        return None
    node = graph.nodes[users[0]]
    return (users[0], node) if node.op_type == op and domain(node) else None


def _with_affine(graph: Graph, layer: OnnxLayer) -> OnnxLayer:
    """Factors and sums of each row become part of the weights and the bias."""
    chain = behind(graph, layer.output, _place(layer), Limits.of(layer.weight, 0), layer.bias)
    return replace(layer, weight=scaled(layer.weight, chain.affine.factor, 0),
                   bias=bias_of(chain.affine.shift, layer.bias), output=chain.end,
                   nodes=(*layer.nodes, *chain.nodes))


def _with_bias_gelu(graph: Graph, layer: OnnxLayer) -> OnnxLayer:
    follower = _follower(graph, layer, "BiasGelu", _is_fused)
    if follower is None or _trailing(layer):
        return layer
    index, node = follower
    bias = per_channel(graph.floats(node.input[1]), layer.weight.shape[0], trailing=0)
    if bias is None or node.input[0] != layer.output:
        return layer
    if layer.bias is not None:
        bias = _sum(layer.bias, bias)
        if bias is None:
            return layer
    return replace(layer, bias=bias, activation="gelu", output=node.output[0],
                   nodes=(*layer.nodes, index))


def _activations_for(layer: OnnxLayer) -> tuple[str, ...]:
    """Names of those that are faster within its kernel: ONNX Runtime's Tanh behind a convolution is
    as fast, or faster (docs/use/onnx.md). Of a product of integers those alone that change no bit,
    which might become another integer behind it."""
    if layer.quantisation is not None:
        return EXACT_ACTIVATIONS
    return tuple(name for name in FUNCTIONS if name != "tanh" or layer.convolution is None)


def _with_activation(graph: Graph, layer: OnnxLayer) -> OnnxLayer:
    found = activation_behind(graph, layer.output, _rank(layer), names=_activations_for(layer))
    if found is None:
        return layer
    return replace(layer, activation=found.activation.text, output=found.output,
                   nodes=tuple(sorted({*layer.nodes, *found.nodes})))
