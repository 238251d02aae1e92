"""Factors and sums of constants beside layers become part of their weights and biases, also of
those that stay dense: each is a pass over memory less."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Optional

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper

from .._onnx_affine import Chain, Limits, Place, before, behind, bias_of, scaled
from .._onnx_constants import attribute_of
from .._onnx_forms import names_in
from .._onnx_graph import survey
from .._onnx_integers import is_integer_product
from .._onnx_protos import copied, put_nodes, without_attributes
from .._onnx_values import Graph
from ._chains import merge_chains
from ._hard_swish import shorter_hard_swishes


# Which make integers of floats, in whatever domain.
_QUANTISERS = ("QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM")


class _Layer(NamedTuple):
    """A node Conv or Gemm with constant weights, also fused with an activation."""

    node: onnx.NodeProto
    weight: np.ndarray  # [out, in / groups, taps...]
    bias: np.ndarray | None  # [out]
    groups: int

    @property
    def trailing(self) -> int:
        return self.weight.ndim - 2

    @property
    def is_padded(self) -> bool:
        """Or may be, by auto_pad: a sum before it would have to be on the pads, too."""
        automatic = attribute_of(self.node, "auto_pad", b"NOTSET")
        pads = attribute_of(self.node, "pads", [0])
        return automatic in (b"SAME_UPPER", b"SAME_LOWER") or any(pads)

    @property
    def by_input(self) -> np.ndarray:
        """The weights [groups, out / groups, in / groups, all taps]."""
        out, inputs = self.weight.shape[:2]
        return self.weight.reshape(self.groups, out // self.groups, inputs, -1)


class _Edit(NamedTuple):
    """What becomes of a layer. `end`: what it gives, or gets, in place of what it did."""

    weight: np.ndarray
    bias: np.ndarray | None
    end: str
    removed: tuple[int, ...]
    added: Optional[tuple[np.ndarray, str]] = None  # a sum that stays before it, and of what


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that computes the same, but for rounding: each weight and bias is rounded once more,
    so an output is within (k + 2) * 2^-24 * (sum of |weight * input| + |bias|) of the exact one, as
    with k terms without. Nodes apart from layers stay where the model makes integers of floats: one
    bit might become another integer."""
    result = copied(model)
    _swept(result, _edit_behind, lambda node, end: node.output.__setitem__(0, end))
    has_integers = any(one.op_type in _QUANTISERS or is_integer_product(one)
                       for one in model.graph.node)
    if not has_integers:
        _shorten_hard_swishes(result)
    # What a kernel would compute, as the last factor of GELU, is no factor before the next layer.
    kept = {index for layer in survey(result).layers
            if not layer.scope for index in layer.nodes}
    _swept(result, partial(_edit_before, kept=kept),
           lambda node, end: node.input.__setitem__(0, end))
    merge_chains(result, {index for layer in survey(result).layers for index in layer.nodes},
                 only_shapes=has_integers)
    return result


def _shorten_hard_swishes(model: onnx.ModelProto) -> None:
    """In two passes over memory in place of four, behind what stays dense."""
    shorter = shorter_hard_swishes(Graph(model), ())
    put_nodes(model.graph, (new for i, node in enumerate(model.graph.node)
                            for new in shorter.get(i, [node])))


def _swept(model: onnx.ModelProto, edit_of: Callable[[Graph, _Layer], Optional[_Edit]],
           connect: Callable[[onnx.NodeProto, str], None]) -> None:
    graph = Graph(model)
    names = names_in(model.graph)
    removed: set[int] = set()
    added: dict[int, onnx.NodeProto] = {}

    def constant(name: str, value: np.ndarray) -> str:
        unique = names.unique(name)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, unique))
        return unique

    for index, node in enumerate(model.graph.node):
        layer = _layer_at(graph, node)
        edit = None if layer is None else edit_of(graph, layer)
        if edit is None:
            continue
        removed.update(edit.removed)
        end = edit.end
        if edit.added is not None:
            end = names.unique(f"{node.output[0]} shifted")
            added[index] = helper.make_node(
                "Add", [edit.added[1], constant(f"{end} by", edit.added[0])], [end], end)
        _put(node, edit, constant)
        connect(node, end)
    put_nodes(model.graph, (one for i, node in enumerate(model.graph.node) if i not in removed
                            for one in ([added[i], node] if i in added else [node])))


def _layer_at(graph: Graph, node: onnx.NodeProto) -> _Layer | None:
    if node.op_type.removeprefix("Fused") not in ("Conv", "Gemm") or \
            node.domain not in ("", "ai.onnx", "com.microsoft") or \
            graph.constant(node.input[0]) is not None:
        return None
    weight = graph.constant(node.input[1])
    if weight is None or weight.dtype != np.float32 or weight.ndim < 2:
        return None
    if weight.ndim == 2:
        if attribute_of(node, "transA", 0) or attribute_of(node, "alpha", 1.0) != 1 or \
                attribute_of(node, "beta", 1.0) != 1:
            return None
        weight = weight if attribute_of(node, "transB", 0) else weight.T
    groups = attribute_of(node, "group", 1)
    bias = None
    if len(node.input) > 2 and node.input[2]:
        bias = graph.constant(node.input[2])
        if bias is None or bias.dtype != np.float32 or bias.shape != weight.shape[:1]:
            return None
    return None if weight.size == 0 or weight.shape[0] % groups else _Layer(node, weight, bias,
                                                                            groups)


def _put(node: onnx.NodeProto, edit: _Edit, constant: Callable[[str, np.ndarray], str]) -> None:
    """Weight and bias into the node."""
    weight = np.ascontiguousarray(edit.weight)
    if weight.ndim == 2:
        without_attributes(node, "transB").attribute.append(helper.make_attribute("transB", 1))
    node.input[1] = constant(f"{node.input[1]} folded", weight)
    if edit.bias is not None:
        while len(node.input) < 3:
            node.input.append("")
        node.input[2] = constant(f"{node.output[0]} bias", edit.bias)


def _edit_behind(graph: Graph, layer: _Layer) -> _Edit | None:
    node = layer.node
    if node.op_type.startswith("Fused"):  # its activation is between
        return None
    place = Place(layer.weight.ndim, layer.weight.shape[0], layer.trailing)
    chain = behind(graph, node.output[0], place, Limits.of(layer.weight, 0), layer.bias)
    if not chain.nodes:
        return None
    return _Edit(scaled(layer.weight, chain.affine.factor, 0),
                 bias_of(chain.affine.shift, layer.bias), chain.end, chain.nodes)


def _edit_before(graph: Graph, layer: _Layer, kept: set[int]) -> _Edit | None:
    groups, out, inputs, _ = layer.by_input.shape
    place = Place(layer.weight.ndim, groups * inputs, layer.trailing)
    channels = layer.by_input.transpose(0, 2, 1, 3).reshape(groups * inputs, -1)
    chain = before(graph, layer.node.input[0], place, Limits.of(channels, 0), kept)
    if not chain.nodes:
        return None
    factor = chain.affine.factor.reshape(groups, 1, inputs, 1)
    weight = (layer.by_input * factor).astype(np.float32).reshape(layer.weight.shape)
    if np.any(chain.affine.shift) and layer.is_padded:
        return _shorter(layer, chain, weight)
    total = (layer.by_input * chain.affine.shift.reshape(groups, 1, inputs, 1)).sum(axis=(2, 3))
    bias = total.reshape(groups * out) + (0 if layer.bias is None else layer.bias)
    if not np.all(np.abs(bias) <= np.finfo(np.float32).max):
        return None
    return _Edit(weight, bias_of(bias, layer.bias), chain.end, chain.nodes)


def _shorter(layer: _Layer, chain: Chain, weight: np.ndarray) -> _Edit | None:
    """The sum stays, before the factor: factor * x + shift = factor * (x + shift / factor)."""
    affine = chain.affine
    if len(chain.nodes) < 2 or not np.all(affine.factor):
        return None
    with np.errstate(all="ignore"):
        shift = (affine.shift / affine.factor).astype(np.float32)
    if not np.all(np.isfinite(shift)):
        return None
    shift = shift[0] if np.all(shift == shift[0]) else shift.reshape(-1, *(1,) * layer.trailing)
    return _Edit(weight, layer.bias, "", chain.nodes, (np.asarray(shift), chain.end))
