"""Rules of nodes that keep channels apart: elementwise ones, normalizations by constants, pools.
Other nodes, as LayerNormalization and Softmax, see all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from .._channels import Channels, Gone, tie
from .._onnx_affine import per_channel
from .._onnx_constants import attribute_of
from .._onnx_values import is_fused, is_standard
from ._channel_layers import has_sum_behind
from ._channels import Edits, Rule, Scope, along, computed, same

# Of fp32 numbers one by one, the first output alone; other operands broadcast.
_ELEMENTWISE = frozenset((
    "Abs", "Add", "Celu", "Ceil", "Clip", "Cos", "Div", "Dropout", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul",
    "Neg", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin",
    "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu"))
_FUSED = frozenset(("BiasGelu", "FastGelu", "Gelu", "QuickGelu"))  # of ONNX Runtime


def is_elementwise(node: onnx.NodeProto) -> bool:
    return (is_standard(node) and node.op_type in _ELEMENTWISE) or \
        (is_fused(node) and node.op_type in _FUSED)


def _has_one_output(node: onnx.NodeProto) -> bool:
    return len(node.output) > 0 and not any(node.output[1:])


# ---- Elementwise ----------------------------------------------------------------------------


def elementwise(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    graph = scope.graph
    tracked = list(dict.fromkeys(name for name in node.input if name in scope.channels))
    if not tracked or not _has_one_output(node) or (
            node.op_type == "Dropout" and len(node.input) > 2):  # which may be of training
        return None
    like = scope.channels[tracked[0]]
    constant = np.ones(like.size, bool)
    operands: dict[int, np.ndarray] = {}
    cut: dict[int, int] = {}  # axes of constants, by their place
    factors: list[np.ndarray] = []
    for place, name in enumerate(node.input):
        channels = scope.channels.get(name)
        if channels is not None:
            if (channels.trailing, channels.size) != (like.trailing, like.size):
                return None
            constant &= channels.constant
            operands[place] = _column(channels.values, like.trailing)
        elif name:
            value = graph.constant(name)
            size = along(graph.shapes.get(name) if value is None else value.shape, like.trailing)
            if size not in (1, like.size) or (size != 1 and value is None):
                return None
            if size != 1 and value is not None:
                cut[place] = value.ndim - 1 - like.trailing
            operand = None if value is None else _uniform(value, like)
            constant &= operand is not None
            factors += [operand] if operand is not None and node.op_type == "Mul" else []
            operands[place] = np.zeros(1, np.float32) if operand is None else operand
    made = _with_zeros(computed(scope, node, operands, like, constant), factors)

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> None:
        keep = ~gone[node.output[0]]
        given = list(node.input)
        for place, axis in cut.items():
            node.input[place] = edits.cut(given[place], (axis, keep))
        _add_sum(node, given, keep, edits)

    names = [*tracked, node.output[0]]
    return Rule({node.output[0]: made}, lambda gone: tie(gone, names), edit)


def _column(values: np.ndarray, trailing: int) -> np.ndarray:
    return values.reshape(1, -1, *(1,) * trailing)


def _uniform(value: np.ndarray, like: Channels) -> np.ndarray | None:
    """A constant that is the same for all elements of a channel, to be computed with."""
    if value.size == 1:
        return value
    each = per_channel(value, like.size, like.trailing)
    return None if each is None else _column(each, like.trailing)


def _with_zeros(made: Channels, factors: Sequence[np.ndarray]) -> Channels:
    """What is multiplied by 0 is 0, as within a layer."""
    zero = np.zeros(made.size, bool)
    for factor in factors:
        zero |= factor.reshape(-1) == 0
    return Channels.of(made.trailing, made.constant | zero, np.where(zero, 0, made.values))


def _add_sum(node: onnx.NodeProto, given: Sequence[str], keep: np.ndarray, edits: Edits) -> None:
    """What a product before it adds besides becomes part of this node's constant."""
    for product in given:
        if product not in edits.sums or not has_sum_behind(edits.graph, product, len(keep)):
            continue
        place = next(i for i, name in enumerate(given) if name != product)
        value = edits.graph.constant(given[place])
        each = per_channel(value, len(keep), trailing=0)
        assert value is not None and each is not None
        total = (each + edits.sums.pop(product)).astype(np.float32)[keep]
        node.input[place] = edits.put(f"{node.output[0]} bias kept",
                                      total.reshape(*(1,) * (value.ndim - 1), -1))


def normalization(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """By constants of each channel."""
    x = scope.channels.get(node.input[0])
    given = [scope.graph.constant(name) for name in node.input[1:5]]
    if x is None or scope.rank(node.input[0]) != x.trailing + 2 or not _has_one_output(node) or \
            attribute_of(node, "training_mode", 0) or len(given) != 4:
        return None
    operands = {0: _column(x.values, x.trailing)}
    for place, value in enumerate(given, 1):
        if value is None or value.shape != (x.size,):
            return None
        operands[place] = value
    made = computed(scope, node, operands, x, x.constant)

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> None:
        for place in range(1, 5):
            node.input[place] = edits.cut(node.input[place], (0, ~gone[node.output[0]]))

    return Rule({node.output[0]: made},
                lambda gone: tie(gone, [node.input[0], node.output[0]]), edit)


# ---- Pools and images -----------------------------------------------------------------------


def pool(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """A window of one channel."""
    x = scope.channels.get(node.input[0])
    if x is None or not _has_one_output(node) or \
            len(attribute_of(node, "kernel_shape", ())) != x.trailing:
        return None
    is_padded = any(attribute_of(node, "pads", [0])) or \
        attribute_of(node, "auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")
    sees_pads = node.op_type == "AveragePool" and is_padded and \
        attribute_of(node, "count_include_pad", 0)
    known = np.full(x.size, not attribute_of(node, "ceil_mode", 0))
    return same(scope, node, node.input[0], x.only(known & ((x.values == 0) | (not sees_pads))))


def global_pool(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    x = scope.channels.get(node.input[0])
    if x is None or scope.rank(node.input[0]) != x.trailing + 2:
        return None
    return same(scope, node, node.input[0], x)


def reduction(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """A mean or an extreme over other dimensions."""
    x, rank = scope.channels.get(node.input[0]), scope.rank(node.input[0])
    axes = attribute_of(node, "axes", None)
    if len(node.input) > 1 and node.input[1]:
        axes = scope.graph.constant(node.input[1])
    if x is None or rank is None or axes is None or len(axes) == 0:
        return None
    channel = rank - 1 - x.trailing
    places = {int(axis) % rank for axis in axes}
    if channel in places:
        return None
    trailing = x.trailing if attribute_of(node, "keepdims", 1) else \
        x.trailing - sum(axis > channel for axis in places)
    return same(scope, node, node.input[0], x._replace(trailing=trailing))


NODES = {
    "BatchNormalization": normalization, "MaxPool": pool, "AveragePool": pool,
    "GlobalAveragePool": global_pool, "GlobalMaxPool": global_pool, "ReduceMean": reduction,
    "ReduceMax": reduction, "ReduceMin": reduction,
}
