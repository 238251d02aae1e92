"""Rules of products and convolutions with constant weights: rows without entries give constants,
and columns without entries read nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np
import onnx

from .._channels import ChannelLayer, Channels, Cut, Gone, keep_all, tie
from .._onnx_affine import only_user
from .._onnx_constants import attribute_of
from .._onnx_values import Graph, is_fused, is_standard
from ._channels import Edits, Rule, Scope, bias_at, computed

_PRODUCTS = ("MatMul", "FusedMatMul", "Gemm", "FusedGemm")
_CONVOLUTIONS = ("Conv", "FusedConv", "ConvTranspose")
LAYERS = (*_PRODUCTS, *_CONVOLUTIONS)


@dataclass(eq=False)
class _Layer(ChannelLayer):
    axes: tuple[int, int]  # of rows and of columns in the constant itself
    bias_place: int | None  # of the input; None: it has none
    residual: str  # added to the output; "" if nothing is


def layer_rule(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """None for a node whose weights are not constant, or of a form that is left alone."""
    graph = scope.graph
    if len(node.input) < 2 or not (is_standard(node) or is_fused(node)) or \
            graph.constant(node.input[0]) is not None or \
            _is_smaller_elsewhere(graph, node.input[1]):
        return None
    weight = graph.constant(node.input[1])
    if weight is None or weight.dtype != np.float32 or weight.ndim < 2 or weight.size == 0:
        return None
    if node.op_type in _CONVOLUTIONS and attribute_of(node, "group", 1) != 1:
        return _depthwise(scope, node, weight)
    layer = _product(graph, node, weight) if node.op_type in _PRODUCTS else \
        _convolution(graph, node, weight)
    return None if layer is None else _rule(scope, node, layer)


def _is_smaller_elsewhere(graph: Graph, name: str) -> bool:
    """Whether its bytes are those of another type: integers, or fp16."""
    while (index := graph.maker(name)) is not None and graph.nodes[index].input:
        if graph.nodes[index].op_type in ("DequantizeLinear", "Cast"):
            return True
        name = graph.nodes[index].input[0]
    return False


def _product(graph: Graph, node: onnx.NodeProto, weight: np.ndarray) -> _Layer | None:
    is_gemm = node.op_type.endswith("Gemm")
    if weight.ndim != 2 or any(attribute_of(node, name, 0) for name in (
            "transA", "transBatchA", "transBatchB")):
        return None
    axes = (0, 1) if attribute_of(node, "transB", 0) else (1, 0)
    is_plain = attribute_of(node, "alpha", 1.0) == 1 and attribute_of(node, "beta", 1.0) == 1
    rows = weight.shape[axes[0]]
    addend = node.input[2] if is_gemm and len(node.input) > 2 else ""
    bias = bias_at(graph, addend, rows) if addend else None
    if addend and not is_plain:
        return None
    ordered = weight.transpose(axes)
    return _Layer(ordered[:, :, None], ordered.shape, 0, bias,
                  takes_bias=is_plain and (not addend or bias is not None), is_bordered=False,
                  axes=axes, bias_place=2 if is_gemm else None,
                  residual=addend if bias is None else "")


def _convolution(graph: Graph, node: onnx.NodeProto, weight: np.ndarray) -> _Layer | None:
    is_transposed = node.op_type == "ConvTranspose"
    axes = (1, 0) if is_transposed else (0, 1)
    trailing = weight.ndim - 2
    rows = weight.shape[axes[0]]
    bias = None
    if len(node.input) > 2 and node.input[2]:
        bias = bias_at(graph, node.input[2], rows)
        if bias is None:
            return None
    ordered = np.moveaxis(weight, axes, (0, 1))
    taps = ordered.reshape(*ordered.shape[:2], -1)
    residual = node.input[3] if len(node.input) > 3 else ""
    return _Layer(taps, ordered.shape, trailing, bias, takes_bias=True,
                  is_bordered=is_transposed or _is_padded(node), axes=axes, bias_place=2,
                  residual=residual)


def _is_padded(node: onnx.NodeProto) -> bool:
    automatic = attribute_of(node, "auto_pad", b"NOTSET")
    return automatic in (b"SAME_UPPER", b"SAME_LOWER") or any(attribute_of(node, "pads", [0]))


def _activated(scope: Scope, node: onnx.NodeProto, linear: Channels) -> Channels:
    """With the activation that is part of the node, which has the bias for its result."""
    if not node.op_type.startswith("Fused") or node.op_type == "FusedMatMul":
        return linear
    count, trailing = linear.size, linear.trailing
    x = np.zeros((1, 1, *(1,) * trailing), np.float32)
    weight = np.zeros((count, 1, *(1,) * trailing), np.float32)
    single = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=node.input[:3],
                            output=node.output)
    while len(single.input) < 3:
        single.input.append("bias")
    single.attribute.extend(one for one in node.attribute if one.name.startswith("activation"))
    if not trailing:
        single.attribute.append(onnx.helper.make_attribute("transB", 1))
    return computed(scope, single, {0: x, 1: weight, 2: linear.values}, linear, linear.constant)


def _rule(scope: Scope, node: onnx.NodeProto, layer: _Layer) -> Rule:
    rows, inputs = layer.entries.shape
    source, output = node.input[0], node.output[0]
    x = scope.channels.get(source)
    if not layer.matches(x):
        x = None
    foldable = layer.foldable(x)
    linear = layer.made(x, foldable, has_residual=bool(layer.residual))
    added = scope.channels.get(layer.residual) if layer.residual else None
    is_tied = added is not None and (added.trailing, added.size) == (layer.trailing, rows)

    def limit(gone: Gone) -> None:
        if layer.residual:
            if is_tied:
                tie(gone, [layer.residual, output])
            else:
                keep_all(gone, [layer.residual, output])
        if x is not None:
            gone[source] &= layer.goable(foldable, gone[output])
        else:
            keep_all(gone, [source])

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> Optional[Cut]:
        keep_rows = ~gone[output]
        keep = ~gone[source] if x is not None else np.ones(inputs, bool)
        if keep.all() and keep_rows.all():
            return None
        _put_weight(edits, node, layer, keep_rows, keep)
        _put_bias(edits, node, layer, keep_rows, layer.folded(x, ~keep))
        return layer.cut(x, keep_rows, keep)

    return Rule({output: _activated(scope, node, linear)}, limit, edit)


def _put_weight(edits: Edits, node: onnx.NodeProto, layer: _Layer, rows: np.ndarray,
                columns: np.ndarray) -> None:
    node.input[1] = edits.cut(node.input[1], (layer.axes[0], rows), (layer.axes[1], columns))


def _put_bias(edits: Edits, node: onnx.NodeProto, layer: _Layer, rows: np.ndarray,
              shift: np.ndarray) -> None:
    """`shift`: what is added to it, of all rows."""
    if layer.bias_place is None:
        if np.any(shift[rows]):
            edits.sums[node.output[0]] = shift
        return
    if layer.bias is None and not np.any(shift[rows]):
        return
    total = layer.shifted_bias(shift)
    while len(node.input) <= layer.bias_place:
        node.input.append("")
    node.input[layer.bias_place] = edits.put(f"{node.output[0]} bias kept", total[rows])


# ---- Depthwise ------------------------------------------------------------------------------


def _depthwise(scope: Scope, node: onnx.NodeProto, weight: np.ndarray) -> Rule | None:
    """A filter for each channel: channels go with their filters."""
    graph, source, output = scope.graph, node.input[0], node.output[0]
    x = scope.channels.get(source)
    groups, trailing = weight.shape[0], weight.ndim - 2
    if node.op_type == "ConvTranspose" or attribute_of(node, "group", 1) != groups or \
            weight.shape[1] != 1 or x is None or (x.trailing, x.size) != (trailing, groups):
        return None
    bias = np.zeros(groups, np.float32)
    if len(node.input) > 2 and node.input[2]:
        given = bias_at(graph, node.input[2], groups)
        if given is None:
            return None
        bias = given
    taps = weight.reshape(groups, -1)
    total = taps.sum(axis=1, dtype=np.float64) * x.values + bias
    constant = ~taps.any(axis=1) | (x.constant & ((x.values == 0) | (not _is_padded(node))))
    residual = node.input[3] if len(node.input) > 3 else ""
    linear = Channels.of(trailing, constant & (not residual), total.astype(np.float32))
    is_tied = not residual or residual in scope.channels and \
        scope.channels[residual].size == groups and \
        scope.channels[residual].trailing == trailing
    names = [name for name in (source, output, residual) if name]

    def limit(gone: Gone) -> None:
        if is_tied:
            tie(gone, names)
        else:
            keep_all(gone, names)

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> Optional[Cut]:
        keep = ~gone[output]
        if keep.all():
            return None
        node.input[1] = edits.cut(node.input[1], (0, keep))
        if len(node.input) > 2 and node.input[2]:
            node.input[2] = edits.put(f"{output} bias kept", bias[keep])
        left = int(keep.sum())
        for one in node.attribute:
            if one.name == "group":
                one.i = left
        return Cut(weight.shape, groups - left, 0, (groups - left) * taps.shape[1], 0)

    return Rule({output: _activated(scope, node, linear)}, limit, edit)


def has_sum_behind(graph: Graph, value: str, channels: int) -> bool:
    """Whether its only user adds a constant of each channel, in which another can be."""
    index = only_user(graph, value)
    if index is None:
        return False
    node = graph.nodes[index]
    is_sum = (node.op_type == "Add" and is_standard(node)) or \
        (node.op_type == "BiasGelu" and is_fused(node) and node.input[0] == value)
    others = [name for name in node.input if name != value]
    return is_sum and len(others) == 1 and bias_at(graph, others[0], channels) is not None
