"""Products with weights of 4 or 8 bits that have a scale for each block of columns: MatMulNBits of
ONNX Runtime. Needs the package onnx."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
import onnx

from ._group_scales import GroupScales
from ._onnx_constants import attribute_of
from ._onnx_integer_operands import bias_of_rows, operand
from ._onnx_quantised import bits_apart
from ._onnx_values import Graph, is_fused
from ._onnx_weights import Refused

_BLOCKS = (32, 64, 128)  # that kernels have
_LEAST, _MOST = -128, 127  # of weights less their zero points


class BlockProduct(NamedTuple):
    """A layer as far as it is not like others."""

    weight: np.ndarray  # fp32 [out, in]: integers, zero points subtracted
    scales: GroupScales
    bias: Optional[np.ndarray]


class _Sizes(NamedTuple):
    """Of the weight, as the node's attributes have them."""

    n: int
    k: int
    block: int
    bits: int

    @property
    def blocks(self) -> int:
        """Of a row."""
        return -(-self.k // self.block)


def is_block_product(node: onnx.NodeProto) -> bool:
    return node.op_type == "MatMulNBits" and is_fused(node)


def block_product(graph: Graph, index: int) -> BlockProduct | None:
    """Of such a node; None if it has no constant weights. Raises Refused."""
    node = graph.nodes[index]
    packed = graph.constant(operand(node, 1))
    if packed is None:
        return None
    if graph.constant(node.input[0]) is not None:
        raise Refused("both operands are constant")
    if operand(node, 4):
        raise Refused("its columns are in groups of any order (g_idx); expected blocks of "
                      "neighbours")
    sizes = _sizes_of(node)
    numbers = _numbers(packed, sizes.n * sizes.blocks, sizes.block, sizes.bits, "weights")
    weight = numbers.reshape(sizes.n, -1) - np.repeat(_zero_points(graph, node, sizes),
                                                     sizes.block, axis=1)
    weight = weight[:, :sizes.k]
    low, high = int(weight.min()), int(weight.max())
    if low < _LEAST or high > _MOST:
        raise Refused(f"its weights less their zero points are {low} to {high}; a kernel's are "
                      f"{_LEAST} to {_MOST}")
    return BlockProduct(np.ascontiguousarray(weight, np.float32),
                        GroupScales(_scales(graph, node, sizes), sizes.block),
                        bias_of_rows(graph, operand(node, 5), sizes.n))


def _sizes_of(node: onnx.NodeProto) -> _Sizes:
    sizes = _Sizes(*(int(attribute_of(node, name, default)) for name, default in (
        ("N", 0), ("K", 0), ("block_size", 0), ("bits", 4))))
    if sizes.bits not in (4, 8):
        raise Refused(f"its weights have {sizes.bits} bits; expected 4 or 8")
    if sizes.block not in _BLOCKS:
        raise Refused(f"its blocks have {sizes.block} columns; expected 32, 64 or 128")
    if min(sizes.n, sizes.k) < 1:
        raise Refused(f"its weights are [{sizes.n}, {sizes.k}]; expected sizes above 0")
    return sizes


def _numbers(packed: np.ndarray, rows: int, columns: int, bits: int, what: str) -> np.ndarray:
    """int32 [rows, columns] of bytes, each row of whole bytes."""
    of_row = -(-columns * bits // 8)
    if packed.dtype != np.uint8 or packed.size != rows * of_row:
        raise Refused(f"its {what} are {packed.dtype}{list(packed.shape)}; expected "
                      f"{rows * of_row} of uint8")
    return bits_apart(packed.reshape(rows, of_row), bits)[:, :columns].astype(np.int32)


def _zero_points(graph: Graph, node: onnx.NodeProto, sizes: _Sizes) -> np.ndarray:
    """int32 [n, blocks]."""
    name = operand(node, 3)
    if not name:
        return np.full((sizes.n, sizes.blocks), 1 << (sizes.bits - 1), np.int32)
    points = graph.constant(name)
    if points is None:
        raise Refused("the zero points of its weights are computed; expected constants")
    if points.dtype.kind == "f":
        raise Refused(f"the zero points of its weights are {points.dtype}; expected uint8")
    return _numbers(points, sizes.n, sizes.blocks, sizes.bits, "zero points")


def _scales(graph: Graph, node: onnx.NodeProto, sizes: _Sizes) -> np.ndarray:
    """fp32 [n, blocks]."""
    scales = graph.constant(operand(node, 2))
    if scales is None:
        raise Refused("the scales of its weights are computed; expected constants")
    if scales.dtype != np.float32:
        raise Refused(f"the scales of its weights are {scales.dtype}; expected float32")
    if scales.size != sizes.n * sizes.blocks:
        raise Refused(f"there are {scales.size} scales of its weights; expected {sizes.n} x "
                      f"{sizes.blocks}")
    if not np.all(np.isfinite(scales)):
        raise Refused("a scale of its weights is infinity, or NaN")
    return scales.reshape(sizes.n, sizes.blocks)
