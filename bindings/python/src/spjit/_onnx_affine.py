"""Chains of nodes that multiply by constants of each channel and add such: batch normalisation in
any spelling. Behind or before a layer they become part of its weights and bias, which are computed
in fp64 and rounded once."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import NamedTuple, Optional

import numpy as np
import onnx

from ._onnx_constants import attribute_of
from ._onnx_values import Graph, is_standard

_FP32 = np.finfo(np.float32)
# Products with inputs are summed before a factor, and after it once it is folded: with weights up
# to here no sum overflows that did not before.
LARGEST_WEIGHT = 2.0**64
_OF_NORMALIZATION = ("epsilon", "momentum", "training_mode")
_SMALLEST_BIAS = 1e-20  # beside which digits of denormal weights are nothing


class Place(NamedTuple):
    """Where the channels of a value are."""

    rank: int  # its dimensions, as many as are sure
    channels: int
    trailing: int  # dimensions behind that of the channels


class Affine(NamedTuple):
    """factor * x + shift, fp64 [channels]."""

    factor: np.ndarray
    shift: np.ndarray

    def then(self, after: Affine) -> Affine:
        with np.errstate(all="ignore"):
            return Affine(after.factor * self.factor, after.factor * self.shift + after.shift)

    @classmethod
    def nothing(cls, channels: int) -> Affine:
        return cls(np.ones(channels), np.zeros(channels))


class Chain(NamedTuple):
    """Nodes, one after another, that give or take `end` and are together `affine`."""

    affine: Affine
    end: str
    nodes: tuple[int, ...]


class Limits(NamedTuple):
    """The least and the largest magnitude of the normal numbers that get a channel's factor."""

    least: np.ndarray
    largest: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, axis: int) -> Limits:
        rows = weight.shape[axis]
        magnitude = np.abs(np.moveaxis(weight, axis, 0).reshape(rows, weight.size // max(rows, 1)))
        least = np.where(magnitude >= _FP32.tiny, magnitude, np.inf).min(axis=1, initial=np.inf)
        return cls(least.astype(np.float64), magnitude.max(axis=1, initial=0).astype(np.float64))

    def admit(self, affine: Affine, is_bias: bool = False) -> bool:
        """Whether no product is too large, or so small that it loses digits. `is_bias`: whether the
        shift is added to those products."""
        size = np.abs(affine.factor)
        with np.errstate(all="ignore"):
            keeps = (size == 0) | (size == 1) | (size * self.least >= _FP32.tiny)
            if is_bias:
                keeps |= np.abs(affine.shift) >= _SMALLEST_BIAS
            fits = size * self.largest <= np.maximum(self.largest, LARGEST_WEIGHT)
            return bool(np.all(keeps & fits & (np.abs(affine.shift) <= _FP32.max)))


def per_channel(value: np.ndarray | None, channels: int, trailing: int) -> np.ndarray | None:
    """A constant that broadcasts to [..., channels, 1...] with `trailing` ones, as [channels]."""
    if value is None or value.dtype != np.float32:
        return None
    if value.size == 1:
        return np.full(channels, value.reshape(()), np.float32)
    axis = value.ndim - 1 - trailing
    if axis < 0 or value.shape[axis] != channels or value.size != channels:
        return None
    return value.reshape(channels)


def _operand(graph: Graph, name: str, place: Place) -> np.ndarray | None:
    value = graph.floats(name)
    if value is None or value.ndim > place.rank:  # which would add dimensions
        return None
    found = per_channel(value, place.channels, place.trailing)
    return None if found is None else found.astype(np.float64)


def _normalization(graph: Graph, node: onnx.NodeProto, place: Place) -> Affine | None:
    """Y = (X - mean) * scale / sqrt(variance + epsilon) + shift"""
    # `is_test` and others of old versions change what it computes.
    if place.trailing != place.rank - 2 or attribute_of(node, "training_mode", 0) or \
            any(one.name not in _OF_NORMALIZATION for one in node.attribute) or \
            any(node.output[1:]):
        return None
    given = [graph.constant(name) for name in node.input[1:5]]
    if any(one is None or one.shape != (place.channels,) for one in given):
        return None
    scale, shift, mean, variance = (np.asarray(one, np.float64) for one in given)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + attribute_of(node, "epsilon", 1e-5))
    return Affine(factor, shift - mean * factor)


def affine_of(graph: Graph, node: onnx.NodeProto, value: str, place: Place) -> Affine | None:
    """What the node computes of `value`; None for others, and with more than constants."""
    if not is_standard(node) or value not in node.input:
        return None
    one, nothing = Affine.nothing(place.channels)
    if node.op_type == "BatchNormalization":
        return _normalization(graph, node, place) if node.input[0] == value else None
    if node.op_type == "Neg":
        return Affine(-one, nothing)
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.input) != 2 or \
            node.attribute:  # before version 7 they said which dimensions broadcast
        return None
    first = node.input[0] == value
    constant = _operand(graph, node.input[1 if first else 0], place)
    if constant is None or (node.op_type == "Div" and not (first and np.all(constant))):
        return None
    if node.op_type == "Add":
        return Affine(one, constant)
    if node.op_type == "Sub":
        return Affine(one, -constant) if first else Affine(-one, constant)
    return Affine(constant if node.op_type == "Mul" else 1 / constant, nothing)


def only_user(graph: Graph, value: str) -> int | None:
    """The node that alone sees the value."""
    users = graph.users(value)
    return users[0] if len(set(users)) == 1 and graph.only_within(value, set(users)) else None


def behind(graph: Graph, value: str, place: Place, limits: Limits,
           bias: np.ndarray | None) -> Chain:
    """What follows `value`, in which `bias` is already, as far as nothing else sees what is
    between. Its shift is the bias of all."""
    start = np.zeros(place.channels) if bias is None else bias.astype(np.float64)
    chain = Chain(Affine(np.ones(place.channels), start), value, ())
    while (index := only_user(graph, chain.end)) is not None:
        step = affine_of(graph, graph.nodes[index], chain.end, place)
        if step is None or not limits.admit(total := chain.affine.then(step), is_bias=True):
            break
        chain = Chain(total, graph.nodes[index].output[0], (*chain.nodes, index))
    return chain


def _operands_of(node: onnx.NodeProto) -> Iterator[str]:
    """Those that may be what the node computes with constants."""
    yield from node.input[:1] if node.op_type == "BatchNormalization" else node.input[:2]


def _has_shape(graph: Graph, node: onnx.NodeProto, operand: str, place: Place) -> bool:
    """Whether the operand has what the node gives of it: constants add dimensions to one of fewer,
    and channels to one with a single one. Batch normalization does neither."""
    if node.op_type == "BatchNormalization":
        return True
    shape = graph.shapes.get(operand)
    if shape is None or len(shape) != place.rank:
        return False
    others = [graph.constant(name) for name in node.input if name != operand]
    return (shape[place.rank - 1 - place.trailing] == place.channels
            or all(one is not None and one.size == 1 for one in others))


def before(graph: Graph, value: str, place: Place, limits: Limits, kept: Set[int]) -> Chain:
    """What gives `value` to its only user, without the nodes `kept`."""
    chain = Chain(Affine.nothing(place.channels), value, ())
    while (user := only_user(graph, chain.end)) is not None and \
            list(graph.nodes[user].input).count(chain.end) == 1 and \
            (index := graph.maker(chain.end)) is not None and index not in kept:
        node = graph.nodes[index]
        found: Optional[tuple[Affine, str]] = None
        for operand in _operands_of(node):
            step = affine_of(graph, node, operand, place)
            if step is not None and _has_shape(graph, node, operand, place) and \
                    limits.admit(total := step.then(chain.affine)):
                found = total, operand
                break
        if found is None:
            break
        chain = Chain(found[0], found[1], (index, *chain.nodes))
    return chain


def scaled(weight: np.ndarray, factor: np.ndarray, axis: int) -> np.ndarray:
    """fp32, each product rounded once; the weight itself where the factor is 1."""
    if np.all(factor == 1):
        return weight
    shape = [1] * weight.ndim
    shape[axis] = len(factor)
    return (weight.astype(np.float64) * factor.reshape(shape)).astype(np.float32)


def bias_of(shift: np.ndarray, bias: np.ndarray | None) -> np.ndarray | None:
    """A chain's shift as a bias, fp32; None where there was none and it is 0."""
    return None if bias is None and not np.any(shift) else shift.astype(np.float32)
