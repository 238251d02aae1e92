"""Products of integers with constant weights: MatMulInteger with the nodes that make its x of
floats and floats of its sums, and the operators as which ONNX Runtime fuses these. Needs the
package onnx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Optional

import numpy as np
import onnx

from ._onnx_affine import only_user, per_channel
from ._onnx_constants import attribute_of
from ._onnx_convolution import Convolution
from ._onnx_integer_operands import (TYPE_NAMES, bias_of_rows, filters_less_zeros, of_one_element,
                                     operand, scale_of_rows, type_of_x, weights_less_zeros,
                                     zero_point_of)
from ._onnx_values import Graph, is_fused, is_standard
from ._onnx_weights import Refused

_STANDARD = ("MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv")
_MOST_EXACT = 2**24  # up to which a float has every integer
# Activations of which each number that a kernel gives has the bits of ONNX Runtime's node.
EXACT_ACTIVATIONS = ("relu", "clamp", "leaky-relu")


@dataclass(frozen=True, eq=False)
class Quantisation:
    """How the bytes that are multiplied come of X, and Y of their sums (docs/use/onnx.md)."""

    x: str  # the type of X: "u8", "i8"; "f32": the kernel does what DynamicQuantizeLinear does
    scale: np.ndarray | None  # fp32 [out], of a unit of each row's weights; None: Y are the sums
    # Names of values of one element, of X of bytes: what a unit is worth, and what stands for 0.
    # "": 1 and 0.
    x_scale: str = ""
    x_zero_point: str = ""
    y: str = "f32"  # the type of Y: "u8" and "i8", too, with the same two names
    y_scale: str = ""
    y_zero_point: str = ""
    bias_first: bool = False  # Problem.bias_first
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)  # of OnnxLayer.behind

    @property
    def mode(self) -> str:
        """Problem.quantize."""
        if self.scale is None:
            return "none"
        return "tensor" if self.x == "f32" else "given"

    @property
    def types(self) -> tuple[str, str, str]:
        """Problem.types."""
        return ("i8", self.x, "i32" if self.scale is None else self.y)


class IntegerProduct(NamedTuple):
    """A layer as far as it is not like others."""

    # fp32 [out, in], or of a convolution: integers from -128 to 127, zero points subtracted
    weight: np.ndarray
    bias: np.ndarray | None
    x: str
    output: str
    nodes: tuple[int, ...]
    quantisation: Quantisation
    behind: Optional[onnx.NodeProto] = None
    beyond: tuple[onnx.NodeProto, ...] = ()  # one after another, behind that
    convolution: Optional[Convolution] = None

    @property
    def trailing(self) -> int:
        """Dimensions of Y behind that of rows."""
        return 0 if self.convolution is None else self.convolution.dimensions


def is_integer_product(node: onnx.NodeProto) -> bool:
    return (node.op_type in _STANDARD and is_standard(node)) or (
        node.op_type in ("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm")
        and is_fused(node))


def integer_product(graph: Graph, index: int) -> IntegerProduct | None:
    """Of such a node; None if it has no constant weights. Raises Refused."""
    node = graph.nodes[index]
    place = 3 if node.op_type in ("QLinearMatMul", "QLinearConv", "QGemm") else 1
    may_be_first = node.op_type not in ("DynamicQuantizeMatMul", "ConvInteger", "QLinearConv")
    if graph.constant(node.input[place]) is None:
        if graph.constant(node.input[0]) is not None and may_be_first:
            raise Refused("its weights are the first operand; of integers the second is expected")
        return None
    if graph.constant(node.input[0]) is not None:
        raise Refused("both operands are constant")
    makers = {"MatMulInteger": _of_sums, "QLinearMatMul": _of_static,
              "MatMulIntegerToFloat": _of_bytes, "DynamicQuantizeMatMul": _of_floats,
              "QGemm": _of_gemm, "ConvInteger": _of_sums, "QLinearConv": _of_static_images}
    return _with_sum(graph, makers[node.op_type](graph, index))


# ---- Operators ------------------------------------------------------------------------------


def _of_floats(graph: Graph, index: int) -> IntegerProduct:
    """DynamicQuantizeMatMul: X, weights, scale, zero point, bias."""
    node = graph.nodes[index]
    weight = weights_less_zeros(graph, node, 1, 3)
    scale = scale_of_rows(graph, node.input[2], len(weight))
    return IntegerProduct(weight, bias_of_rows(graph, operand(node, 4), len(weight)), node.input[0],
                          node.output[0], (index,), Quantisation("f32", scale))


def _of_bytes(graph: Graph, index: int) -> IntegerProduct:
    """MatMulIntegerToFloat: X, weights, scales of both, zero points of both, bias. ONNX Runtime has
    the scales in the order of the product that it fuses."""
    node = graph.nodes[index]
    weight = weights_less_zeros(graph, node, 1, 5)
    scales = sorted(node.input[2:4], key=lambda name: graph.constant(name) is not None)
    scale = scale_of_rows(graph, scales[1], len(weight))
    zero_point = operand(node, 4)
    given = Quantisation(type_of_x(graph, node.input[0], zero_point), scale,
                         of_one_element(graph, scales[0], "the scale"),
                         zero_point_of(graph, zero_point))
    bias = bias_of_rows(graph, operand(node, 6), len(weight))
    product = IntegerProduct(weight, bias, node.input[0], node.output[0], (index,), given)
    return _quantised_within(graph, product, zero_point)


def _of_static(graph: Graph, index: int) -> IntegerProduct:
    """QLinearMatMul: X, its scale and zero point, the same of the weights, scale and zero point of
    Y. ONNX Runtime multiplies sums by one number, which is rounded to fp32 twice, and adds the zero
    point of Y to what it has rounded, as a kernel does whose Y has a scale of 1."""
    node = graph.nodes[index]
    weight = weights_less_zeros(graph, node, 3, 5)
    scale = _static_scale(graph, node, len(weight))
    given = Quantisation(type_of_x(graph, node.input[0], node.input[2]), scale,
                         x_zero_point=zero_point_of(graph, node.input[2]))
    product = IntegerProduct(weight, None, node.input[0], node.output[0], (index,), given)
    return _to_bytes(graph, product, node.input[7])


def _static_scale(graph: Graph, node: onnx.NodeProto, rows: int) -> np.ndarray:
    """What ONNX Runtime multiplies sums by, of QLinearMatMul and QLinearConv."""
    scale = scale_of_rows(graph, node.input[4], rows)
    x_scale, y_scale = (graph.scalar(node.input[place]) for place in (1, 6))
    if x_scale is None or y_scale is None or graph.constant(node.input[7]) is None:
        raise Refused("the scales of its activations or its output are no constants of one number")
    with np.errstate(all="ignore"):
        scale = np.float32(x_scale) * scale / np.float32(y_scale)
    if not np.all(np.isfinite(scale)):
        raise Refused("the scales of its operands and its output make infinity, or NaN")
    return scale


def _of_static_images(graph: Graph, index: int) -> IntegerProduct:
    """QLinearConv: the operands of QLinearMatMul, and integers that are added to the sums."""
    node = graph.nodes[index]
    weight, convolution = filters_less_zeros(graph, node, 3, 5)
    rows = len(weight)
    scale = _static_scale(graph, node, rows)
    x_type, zero_point = type_of_x(graph, node.input[0], node.input[2]), node.input[2]
    added = _integers_added(graph, operand(node, 8), rows)
    given = Quantisation(x_type, scale, x_zero_point=zero_point_of(graph, zero_point))
    product = IntegerProduct(weight, None, node.input[0], node.output[0], (index,), given,
                             convolution=convolution)
    if np.any(added):
        if not _are_exact(weight, added):
            raise Refused("its sums may be over 2^24, to which a float has every integer, before "
                          "its bias is added")
        product = _with_integers(product, added)
    return _to_bytes(graph, product, node.input[7])


def _are_exact(weight: np.ndarray, added: np.ndarray) -> bool:
    """Whether fp32 has all sums, and what they are with these numbers added."""
    rows = len(weight)
    largest = np.abs(weight).reshape(rows, -1).sum(axis=1, dtype=np.float64) * 255
    return bool(np.max(largest + np.abs(added), initial=0) <= _MOST_EXACT)


def _with_integers(product: IntegerProduct, added: np.ndarray) -> IntegerProduct:
    """With integers that are added to the sums: to floats, which are these sums."""
    return product._replace(bias=added.astype(np.float32),
                            quantisation=replace(product.quantisation, bias_first=True))


def _of_gemm(graph: Graph, index: int) -> IntegerProduct:
    """QGemm: X, its scale and zero point, the same of the weights, integers C that are added to the
    sums, and, unless Y is floats, its scale and zero point."""
    node = graph.nodes[index]
    if attribute_of(node, "transA", 0):
        raise Refused("transA is set; of integers the weights as second operand are expected")
    weight = weights_less_zeros(graph, node, 3, 5, is_turned=bool(attribute_of(node, "transB", 0)))
    scale = _factor_of_gemm(graph, node, len(weight))
    x_type = type_of_x(graph, node.input[0], node.input[2])
    zero = graph.constant(node.input[2])
    shift = _integers_added(graph, operand(node, 6), len(weight))
    if zero is None or zero.size != 1:
        raise Refused("the zero point of its activations is no constant of one number")
    if np.any(shift) and not _are_exact(weight, shift):
        end = [operand(node, 8)] if operand(node, 7) else []
        shift = shift - weight.astype(np.int64).sum(axis=1) * int(zero.reshape(()))
        return _with_nodes_of_gemm(graph, index, weight, x_type, shift.astype(np.int32), scale, end)
    given = Quantisation(x_type, scale, x_zero_point=zero_point_of(graph, node.input[2]))
    product = IntegerProduct(weight, None, node.input[0], node.output[0], (index,), given)
    if np.any(shift):
        product = _with_integers(product, shift)
    return _to_bytes(graph, product, operand(node, 8)) if operand(node, 7) else product


def _factor_of_gemm(graph: Graph, node: onnx.NodeProto, rows: int) -> np.ndarray:
    """What sums are multiplied by, in the order of ONNX Runtime."""
    scale = scale_of_rows(graph, node.input[4], rows)
    x_scale = graph.scalar(node.input[1])
    y_scale = graph.scalar(node.input[7]) if operand(node, 7) else 1.0
    if x_scale is None or y_scale is None or (
            operand(node, 8) and graph.constant(node.input[8]) is None):
        raise Refused("the scales of its activations or its output are no constants of one number")
    with np.errstate(all="ignore"):
        alpha = np.float32(attribute_of(node, "alpha", 1.0)) * np.float32(x_scale)
        scale = (alpha * scale).astype(np.float32)
        if operand(node, 7):
            scale = scale / np.float32(y_scale)
    if not np.all(np.isfinite(scale)):
        raise Refused("the scales of its operands and its output make infinity, or NaN")
    return scale


def _integers_added(graph: Graph, name: str, rows: int) -> np.ndarray:
    """C, as int64 [rows]."""
    if not name:
        return np.zeros(rows, np.int64)
    added = graph.constant(name)
    if added is None or added.dtype != np.int32 or added.ndim > 2 or (
            added.size != 1 and added.shape not in ((rows,), (1, rows))):
        raise Refused(f"C is no constant of int32 [{rows}]")
    return np.broadcast_to(added.reshape(-1).astype(np.int64), (rows,))


def _with_nodes_of_gemm(graph: Graph, index: int, weight: np.ndarray, x_type: str,
                        shift: np.ndarray, scale: np.ndarray, end: list[str]) -> IntegerProduct:
    """Sums as a kernel has them, to which nodes add and of which they make Y: floats that were
    rounded before a sum would give other integers."""
    node = graph.nodes[index]
    output = node.output[0]
    added, factor, one = (graph.unused(f"{output} {name}") for name in ("shift", "factor", "scale"))
    steps = [("Add", [added], {}), ("Cast", [], {"to": onnx.TensorProto.FLOAT}),
             ("Mul", [factor], {}), *(("QuantizeLinear", [one, name], {}) for name in end)]
    names = [graph.unused(f"{output} {op} of") for op, _, _ in steps] + [output]
    nodes = [onnx.helper.make_node(op, [x, *more], [y], f"{node.name} {op}", **attributes)
             for (op, more, attributes), x, y in zip(steps, names, names[1:])]
    constants = {added: shift, factor: scale, **({one: np.ones((), np.float32)} if end else {})}
    return IntegerProduct(weight, None, node.input[0], output, (index,),
                          Quantisation(x_type, None, constants=constants), nodes[0],
                          tuple(nodes[1:]))


def _to_bytes(graph: Graph, product: IntegerProduct, zero_point: str) -> IntegerProduct:
    """With a Y of bytes, whose scale is part of that of the rows."""
    y_type = _type_of_y(graph, zero_point)
    if y_type is None:
        raise Refused("the zero point of its output is no constant of one int8 or uint8")
    return product._replace(quantisation=replace(product.quantisation, y=y_type,
                                                 y_zero_point=zero_point))


def _type_of_y(graph: Graph, zero_point: str) -> str | None:
    """Of bytes with a constant zero point."""
    zero = graph.constant(zero_point) if zero_point else np.zeros((), np.uint8)
    found = None if zero is None or zero.size != 1 else TYPE_NAMES.get(zero.dtype)
    return found if found in ("i8", "u8") else None


def quantised_to(graph: Graph, of: Quantisation, node: onnx.NodeProto) -> Quantisation | None:
    """With the Y that QuantizeLinear makes of floats; None where it is of no kernel."""
    given = graph.constant(node.input[1])
    scale = None if given is None or given.dtype != np.float32 else graph.scalar(node.input[1])
    y_type = _type_of_y(graph, operand(node, 2))
    is_usual = all(one.name in ("axis", "saturate") for one in node.attribute)
    if scale is None or y_type is None or not is_usual or not 0 < scale < np.inf:
        return None
    return replace(of, y=y_type, y_scale=node.input[1], y_zero_point=operand(node, 2))


def _of_sums(graph: Graph, index: int) -> IntegerProduct:
    """MatMulInteger or ConvInteger, with the nodes that make floats of its sums, if it has them."""
    node = graph.nodes[index]
    convolution = None
    if node.op_type == "ConvInteger":
        weight, convolution = filters_less_zeros(graph, node, 1, 3)
    else:
        weight = weights_less_zeros(graph, node, 1, 3)
    zero_point = operand(node, 2)
    x_type = type_of_x(graph, node.input[0], zero_point)
    trailing = 0 if convolution is None else convolution.dimensions
    floats = _floats_behind(graph, node, len(weight), trailing)
    if floats is None:
        return _sums_alone(graph, index, weight, x_type)._replace(convolution=convolution)
    given = Quantisation(x_type, floats.scale, floats.x_scale, zero_point_of(graph, zero_point))
    product = IntegerProduct(weight, None, node.input[0], floats.output,
                             tuple(sorted({index, *floats.nodes})), given, convolution=convolution)
    return _quantised_within(graph, product, zero_point)


def _sums_alone(graph: Graph, index: int, weight: np.ndarray, x_type: str) -> IntegerProduct:
    """Y of int32. A zero point of X takes the same from each sum of a row."""
    node = graph.nodes[index]
    alone = Quantisation(x_type, None)
    zero_point = zero_point_of(graph, operand(node, 2))
    if not zero_point:
        return IntegerProduct(weight, None, node.input[0], node.output[0], (index,), alone)
    zero = graph.constant(zero_point)
    if zero is None:
        raise Refused("the zero point of its activations is computed, and its sums are not made "
                      "floats by Cast and Mul")
    if node.op_type == "ConvInteger":  # padding is 0 for a kernel of sums
        raise Refused("its activations have a zero point, and its sums are not made floats by Cast "
                      "and Mul")
    shift = graph.unused(f"{node.output[0]} shift")
    with np.errstate(over="ignore"):
        total = weight.astype(np.int64).sum(axis=1) * int(zero.reshape(()))
    alone = Quantisation(x_type, None, constants={shift: total.astype(np.int32)})
    behind = onnx.helper.make_node("Sub", [graph.unused(f"{node.output[0]} sums"), shift],
                                   list(node.output), node.name)
    return IntegerProduct(weight, None, node.input[0], node.output[0], (index,), alone, behind)


# ---- Nodes around MatMulInteger -------------------------------------------------------------


class _Floats(NamedTuple):
    """What makes floats of sums."""

    scale: np.ndarray
    x_scale: str
    output: str
    nodes: tuple[int, ...]


def _floats_behind(graph: Graph, node: onnx.NodeProto, rows: int,
                   trailing: int) -> _Floats | None:
    """Cast, and Mul with a product of two scales or a constant."""
    cast = only_user(graph, node.output[0])
    user = None if cast is None else graph.nodes[cast]
    if cast is None or user is None or user.op_type != "Cast" or not is_standard(user) or \
            attribute_of(user, "to", 0) != onnx.TensorProto.FLOAT:
        return None
    value = user.output[0]
    factor = only_user(graph, value)
    other = None if factor is None else _other_operand(graph, factor, "Mul", value)
    if factor is None or other is None:
        return None
    output = graph.nodes[factor].output[0]
    constant = graph.constant(other)
    if constant is not None:
        scale = _scale_behind(constant, rows, trailing)
        return None if scale is None else _Floats(scale, "", output, (cast, factor))
    maker = graph.maker(other)
    if maker is None or graph.nodes[maker].op_type != "Mul":
        if graph.shapes.get(other) not in ((), (1,)):
            return None
        return _Floats(np.ones(rows, np.float32), other, output, (cast, factor))
    return _of_two_scales(graph, maker, (rows, trailing),
                          _Floats(np.zeros(0), "", output, (cast, factor)))


def _scale_behind(scale: np.ndarray, rows: int, trailing: int) -> np.ndarray | None:
    return per_channel(scale, rows, trailing) if scale.ndim <= 1 + trailing else None


def _of_two_scales(graph: Graph, maker: int, sizes: tuple[int, int],
                   found: _Floats) -> _Floats | None:
    """Of the node that multiplies them, which goes, too, if nothing else sees what it gives."""
    node = graph.nodes[maker]
    for place, name in enumerate(node.input):
        weights, x_scale = graph.constant(name), node.input[1 - place]
        if weights is None or \
                graph.shapes.get(x_scale) not in ((), (1,)) or graph.constant(x_scale) is not None:
            continue
        scale = _scale_behind(weights, *sizes)
        if scale is not None:
            alone = graph.only_within(node.output[0], set(found.nodes))
            return found._replace(scale=scale, x_scale=x_scale,
                                  nodes=(*found.nodes, maker) if alone else found.nodes)
    return None


def _other_operand(graph: Graph, index: int, op: str, value: str) -> str | None:
    """Of a node of two operands, one of which is the value."""
    node = graph.nodes[index]
    if node.op_type != op or not is_standard(node) or node.attribute or \
            list(node.input).count(value) != 1:
        return None
    return str(node.input[1 if node.input[0] == value else 0])


def _with_sum(graph: Graph, product: IntegerProduct) -> IntegerProduct:
    """With a sum with a constant of each row that follows, if it has no bias."""
    if product.bias is not None or product.quantisation.scale is None or \
            product.behind is not None or product.quantisation.y != "f32":
        return product
    added = sum_behind(graph, product.output, product.x, len(product.weight), product.trailing)
    if added is None:
        return product
    return product._replace(bias=added.bias, output=added.output,
                            nodes=tuple(sorted({*product.nodes, added.node})))


class AddedBias(NamedTuple):
    bias: np.ndarray  # fp32 [rows]
    output: str
    node: int


def sum_behind(graph: Graph, value: str, x: str, rows: int, trailing: int = 0) -> AddedBias | None:
    """A sum of `value` with a constant of each row, if nothing else uses it. `x`: what the value is
    made of, with as many dimensions; `trailing`: those behind that of rows."""
    index = only_user(graph, value)
    other = None if index is None else _other_operand(graph, index, "Add", value)
    constant = None if other is None else graph.constant(other)
    rank = 2 + trailing if trailing else len(graph.shapes.get(x, (None,)))
    if index is None or constant is None or constant.ndim > rank:
        return None
    bias = per_channel(constant, rows, trailing)
    return None if bias is None else AddedBias(bias, graph.nodes[index].output[0], index)


def _quantised_within(graph: Graph, product: IntegerProduct, zero_point: str) -> IntegerProduct:
    """The same of floats, where the node that quantises them is the product's alone."""
    index = graph.maker(product.x)
    node = None if index is None else graph.nodes[index]
    if index is None or node is None or node.op_type != "DynamicQuantizeLinear" or \
            not is_standard(node):
        return product
    given = [product.x, product.quantisation.x_scale, zero_point]
    nodes = {index, *product.nodes}
    if list(node.output) != given or not all(graph.only_within(name, nodes) for name in given):
        return product
    return product._replace(x=node.input[0], nodes=tuple(sorted(nodes)),
                            quantisation=Quantisation("f32", product.quantisation.scale))
