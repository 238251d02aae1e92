"""Operands of products of integers in ONNX models. Needs the package onnx."""

from __future__ import annotations

import numpy as np
import onnx

from ._onnx_affine import per_channel
from ._onnx_convolution import Convolution, dimensions_of, geometry_of
from ._onnx_values import Graph
from ._onnx_weights import Refused

# Their names as Problem.types has them.
TYPE_NAMES = {np.dtype(np.int8): "i8", np.dtype(np.uint8): "u8", np.dtype(np.float32): "f32"}
_LEAST, _MOST = -128, 127  # of weights


def operand(node: onnx.NodeProto, place: int) -> str:
    return node.input[place] if place < len(node.input) else ""


def weights_less_zeros(graph: Graph, node: onnx.NodeProto, place: int, zero_place: int,
             is_turned: bool = False) -> np.ndarray:
    """[out, in], the zero points subtracted. `is_turned`: so is the operand. Raises Refused where a
    kernel's type has not all."""
    values = graph.constant(node.input[place])
    assert values is not None
    if values.ndim != 2:
        raise Refused(f"its weights have {values.ndim} dimensions; of integers two are expected")
    values = values.T if is_turned else values
    return _shifted(graph, values, operand(node, zero_place), "columns").T


def _shifted(graph: Graph, values: np.ndarray, zero_point: str, what: str) -> np.ndarray:
    """fp32: weights less their zero points, one or as many as the last dimension has, which are
    `what`. Raises Refused where a kernel's type has not all."""
    if values.dtype not in (np.int8, np.uint8):
        raise Refused(f"its weights are {values.dtype}; expected int8 or uint8")
    zero = graph.constant(zero_point) if zero_point else np.zeros((), np.int8)
    if zero is None:
        raise Refused("the zero point of its weights is computed; expected a constant")
    if zero.size not in (1, values.shape[-1]):
        raise Refused(f"its weights have zero points of another number than {what}")
    shifted = values.astype(np.int32) - zero.astype(np.int32).reshape(-1)
    low, high = int(shifted.min(initial=0)), int(shifted.max(initial=0))
    if low < _LEAST or high > _MOST:
        raise Refused(f"its weights less their zero point are {low} to {high}; a kernel's are "
                      f"{_LEAST} to {_MOST}. A symmetric quantisation, as QInt8, has such weights")
    return shifted.astype(np.float32)


def filters_less_zeros(graph: Graph, node: onnx.NodeProto, place: int,
             zero_place: int) -> tuple[np.ndarray, Convolution]:
    """Of a convolution: weights [out, in / groups, height, width] and the geometry."""
    values = graph.constant(node.input[place])
    assert values is not None
    dimensions = dimensions_of(values)
    last = _shifted(graph, np.moveaxis(values, 0, -1), operand(node, zero_place), "filters")
    return geometry_of(graph, node, np.ascontiguousarray(np.moveaxis(last, -1, 0)), dimensions)


def scale_of_rows(graph: Graph, name: str, rows: int) -> np.ndarray:
    scale = graph.constant(name)
    found = None if scale is None or scale.ndim > 1 else per_channel(scale, rows, trailing=0)
    if found is None:
        raise Refused("the scale of its weights is no constant of one number, or one a column")
    return found


def bias_of_rows(graph: Graph, name: str, rows: int) -> np.ndarray | None:
    if not name:
        return None
    bias = graph.constant(name)
    found = None if bias is None or bias.ndim > 1 else per_channel(bias, rows, trailing=0)
    if found is None:
        raise Refused(f"its bias is no constant [{rows}]")
    return found


def type_of_x(graph: Graph, name: str, zero_point: str) -> str:
    """Of bytes."""
    zero = graph.constant(zero_point) if zero_point else None
    dtype = graph.types.get(name) if zero is None else zero.dtype
    made = None if dtype is None else TYPE_NAMES.get(dtype)
    if made not in ("i8", "u8"):
        raise Refused("the type of its activations is not known; expected int8 or uint8")
    return made


def of_one_element(graph: Graph, name: str, what: str) -> str:
    """The name, of a value that is known to be one number."""
    value = graph.constant(name) if name else np.zeros(())
    shape = graph.shapes.get(name) if value is None else value.shape
    if shape not in ((), (1,)):
        raise Refused(f"{what} of its activations is not known to be one number")
    return name


def zero_point_of(graph: Graph, name: str) -> str:
    value = graph.constant(name) if name else None
    return "" if value is not None and not np.any(value) and value.size == 1 else \
        of_one_element(graph, name, "the zero point")
