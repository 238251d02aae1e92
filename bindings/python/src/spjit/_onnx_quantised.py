"""Numbers of quantised weights of ONNX models, and which stand for 0. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import numpy as np
import onnx

from ._onnx_constants import attribute_of

Value = Callable[[int], Optional[np.ndarray]]  # of an operand of the node

# Of operators with quantised weights: which operand has the zero points of which weight.
_ZERO_POINTS = {
    "ConvInteger": {1: 3}, "MatMulInteger": {1: 3}, "DynamicQuantizeMatMul": {1: 3},
    "QLinearConv": {3: 5}, "QLinearMatMul": {3: 5}, "MatMulIntegerToFloat": {1: 5},
    "QGemm": {3: 5}, "QAttention": {1: 7}, "DynamicQuantizeLSTM": {1: 9, 2: 11},
    "DequantizeLinear": {0: 2},
}
# Of which weights are packed, several numbers in a byte, also as a vector.
_PACKED = {"MatMulNBits": 1, "MatMulBnb4": 1}
# Numbers of indices and shapes; all else is numbers of weights.
_INDICES = ("int64", "int32", "uint64", "uint32", "int16", "uint16", "bool")
# Codes of 0 in the types of MatMulBnb4: FP4, with -0, and NF4.
_ZERO_CODES = {0: (0, 8), 1: (7,)}


def is_packed(node: onnx.NodeProto, place: int) -> bool:
    """Whether the operand is a weight whatever its dimensions."""
    return node.domain == "com.microsoft" and _PACKED.get(node.op_type) == place


def may_be_weight(node: onnx.NodeProto, place: int, value: np.ndarray) -> bool:
    """By its type and dimensions. Beside quantised weights are scales and zero points."""
    if node.op_type in _PACKED:
        return is_packed(node, place)
    if node.op_type in _ZERO_POINTS:
        return place in _ZERO_POINTS[node.op_type] and value.ndim >= 2
    return value.ndim >= 2 and value.dtype.name not in _INDICES


def numbers_of(node: onnx.NodeProto, place: int, value: Value) -> np.ndarray:
    """Of the weight that the operand is, as many as there are: 0 is what stands for it, if that is
    known."""
    weight = value(place)
    assert weight is not None
    if is_packed(node, place):
        unpacked = _of_blocks(node, weight, value(3)) if node.op_type == "MatMulNBits" else \
            _of_codes(node, weight)
        return weight if unpacked is None else unpacked
    if weight.dtype.kind == "f":
        return weight
    zero_place = _ZERO_POINTS.get(node.op_type, {}).get(place)
    zero = None if zero_place is None else value(zero_place)
    if zero is None:
        return weight != np.zeros((), np.int8)
    try:
        return np.asarray(weight != _aligned(node, zero, weight))
    except ValueError:  # points that are not as many
        return weight != np.zeros((), np.int8)


def _aligned(node: onnx.NodeProto, zero: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Zero points as they broadcast to the weight. Raises ValueError."""
    if zero.size == 1:
        return zero.reshape(())
    if node.op_type == "DynamicQuantizeLSTM":  # [directions] or [directions, 4 * hidden]
        return zero.reshape(zero.shape[0], 1, -1)
    axis = {"DequantizeLinear": attribute_of(node, "axis", 1), "QLinearConv": 0, "ConvInteger": 0,
            "QGemm": 0 if attribute_of(node, "transB", 0) else -1}.get(node.op_type, -1)
    block = attribute_of(node, "block_size", 0)
    if block:
        return np.repeat(zero, block, axis).take(range(weight.shape[axis]), axis)
    if zero.ndim != 1:
        return zero
    shape = [1] * weight.ndim
    shape[axis] = zero.size
    return zero.reshape(shape)


def bits_apart(packed: np.ndarray, bits: int) -> np.ndarray:
    """[..., bytes] as [..., numbers], the lowest bits first."""
    apart = (packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)) & ((1 << bits) - 1)
    return apart.reshape(*packed.shape[:-1], -1)


def _of_blocks(node: onnx.NodeProto, weight: np.ndarray,
               zero: np.ndarray | None) -> np.ndarray | None:
    """Of MatMulNBits, [N, K]; None where its sizes do not fit."""
    n, k, block, bits = (int(attribute_of(node, name, default)) for name, default in (
        ("N", 0), ("K", 0), ("block_size", 1), ("bits", 4)))
    if bits not in (2, 4, 8) or weight.dtype != np.uint8:
        return None
    blocks = -(-k // max(block, 1))
    try:
        numbers = bits_apart(weight.reshape(n, -1), bits)[:, :k].reshape(n, k)
        if zero is None:
            return numbers != 1 << (bits - 1)
        points = bits_apart(zero.reshape(n, -1), bits)[:, :blocks] if zero.dtype == np.uint8 \
            else zero.reshape(n, blocks)
        return np.asarray(numbers != np.repeat(points, block, 1)[:, :k])
    except ValueError:
        return None


def _of_codes(node: onnx.NodeProto, weight: np.ndarray) -> np.ndarray | None:
    """Of MatMulBnb4, [N, K]."""
    n, k = int(attribute_of(node, "N", 0)), int(attribute_of(node, "K", 0))
    if weight.dtype != np.uint8 or 2 * weight.size < n * k or n * k == 0:
        return None
    both = np.stack([weight.ravel() >> 4, weight.ravel() & 15], 1).ravel()[:n * k]
    return ~np.isin(both, _ZERO_CODES.get(attribute_of(node, "quant_type", 1), ())).reshape(n, k)
