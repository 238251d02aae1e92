"""What nodes of constants give: constants, too. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.reference

from ._onnx_protos import copied

Values = Callable[[str], Optional[np.ndarray]]


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return onnx.helper.get_attribute_value(attribute)
    return default


def array_of(tensor: onnx.TensorProto) -> np.ndarray:
    """Raises ValueError for one whose data are not of its type and shape."""
    try:
        if min(tensor.dims, default=0) >= 0:  # numpy would take one below for any
            return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        pass
    raise ValueError(f"the data of the constant {tensor.name!r} do not fit its type, "
                     f"{tensor.data_type}, and shape, [{', '.join(map(str, tensor.dims))}]; "
                     "expected a type of ONNX and an element for each place")


def densified(sparse: onnx.SparseTensorProto) -> np.ndarray:
    values = array_of(sparse.values)
    places = array_of(sparse.indices)  # [nnz] of the flat array, or [nnz, rank]
    if np.any(places < 0):  # numpy would count them from the end
        raise ValueError(f"the sparse constant {sparse.values.name!r} has the index "
                         f"{places.min()}; expected none below 0")
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    dense[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, dense.shape)] = values
    return dense


def _literal(node: onnx.NodeProto) -> np.ndarray | None:
    """Of a node Constant."""
    if not node.attribute:
        return None
    attribute = node.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return array_of(value)
    if attribute.name == "sparse_value":
        return densified(value)
    if attribute.name in ("value_float", "value_floats"):
        return np.asarray(value, np.float32)
    if attribute.name in ("value_int", "value_ints"):
        return np.asarray(value, np.int64)
    return None


def _cast(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    """Of fp16 weights, as ONNX Runtime computes with them on a CPU."""
    if attribute_of(node, "to", 0) != onnx.TensorProto.FLOAT:
        return None
    with np.errstate(over="ignore"):  # what is beyond fp32 becomes an infinity, as there
        return given[0].astype(np.float32)


def _reshaped(_node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    value, sizes = given[0], [int(size) for size in given[1]]
    if 0 in sizes or value.size == 0:  # a size of the value, or really 0
        return None
    return value.reshape(sizes)


def _axes_of(node: onnx.NodeProto, given: list[np.ndarray]) -> list[int] | None:
    """An input since version 13 of the operators, before an attribute."""
    return [int(axis) for axis in given[1]] if len(given) > 1 else attribute_of(node, "axes", None)


def _unsqueezed(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    axes = _axes_of(node, given)
    return None if axes is None else np.expand_dims(given[0], tuple(axes))


def _squeezed(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray:
    axes = _axes_of(node, given)
    return np.squeeze(given[0], None if axes is None else tuple(axes))


def _shape(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray:
    """Of all dimensions, or since version 15 of those from `start` to `end`."""
    shape = given[0].shape
    ends = attribute_of(node, "start", 0), attribute_of(node, "end", len(shape))
    first, last = (max(end + len(shape) if end < 0 else end, 0) for end in ends)
    return np.array(shape[first:last], np.int64)


_DEQUANTISED = (np.int8, np.uint8, np.int16, np.uint16, np.int32)


def _dequantized(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
    """(x - zero point) * scale, of a tensor or an axis; None for blocks, or another type."""
    value, scale = given[0], given[1]
    if value.dtype not in _DEQUANTISED or scale.dtype != np.float32 or \
            attribute_of(node, "block_size", 0) or \
            attribute_of(node, "output_dtype", 0) not in (0, onnx.TensorProto.FLOAT):
        return None
    shape = [1] * value.ndim
    if scale.size > 1:
        axis = attribute_of(node, "axis", 1)
        if scale.ndim != 1 or scale.size != value.shape[axis]:
            return None
        shape[axis] = scale.size
    zero = given[2].reshape(scale.shape).astype(np.int64) if len(given) > 2 else np.zeros(
        scale.shape, np.int64)
    shifted = value.astype(np.int64) - zero.reshape(shape)
    with np.errstate(all="ignore"):
        return (shifted.astype(np.float32) * scale.reshape(shape)).astype(np.float32)


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of integers towards 0. Raises ValueError for one by 0."""
    if x.dtype.kind == "f":
        return np.divide(x, y)
    if not np.all(y):
        raise ValueError("an integer divided by 0")
    down = np.floor_divide(x, y)
    return np.asarray(down + ((x != down * y) & ((x < 0) != (y < 0))))


def _elementwise(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    """Of operands of one type, the largest as large as the result."""
    def compute(node: onnx.NodeProto, given: list[np.ndarray]) -> np.ndarray | None:
        largest = max(one.size for one in given)
        # Attributes said before version 7 which dimensions broadcast.
        if any(one.dtype != given[0].dtype for one in given) or node.attribute or \
                given[0].dtype.kind not in "fiu" or np.broadcast(*given).size > largest:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(function(*given), given[0].dtype)
    return compute


_OPERATIONS: dict[str, Callable[[onnx.NodeProto, list[np.ndarray]], Optional[np.ndarray]]] = {
    "Identity": lambda _node, given: given[0],
    "Transpose": lambda node, given: given[0].transpose(attribute_of(node, "perm", None)),
    "Cast": _cast, "Reshape": _reshaped, "Unsqueeze": _unsqueezed, "Squeeze": _squeezed,
    "DequantizeLinear": _dequantized, "Shape": _shape,
    "Add": _elementwise(np.add), "Sub": _elementwise(np.subtract),
    "Mul": _elementwise(np.multiply), "Div": _elementwise(_quotient),
    "Sqrt": _elementwise(np.sqrt), "Neg": _elementwise(np.negative),
    "Reciprocal": _elementwise(np.reciprocal),
}


# Others that give of constants what exporters leave in a model: slices of attention's weights,
# weight normalization, masks. None has randomness, a state, or a result that is much larger than
# what it is made of.
_OTHERS = frozenset((
    "Abs", "And", "Cast", "CastLike", "Clip", "Concat", "Equal", "Exp", "Flatten", "Gather",
    "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "MatMul", "Max", "Min", "Not", "Or",
    "Pow", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Reciprocal", "Relu", "Round", "Sign", "Size", "Slice", "Split",
    "Where"))
# Of fp16 numbers ONNX Runtime has their sums in fp32, and rounds once.
_SUMS = frozenset(("MatMul", "ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare"))
# Of these ONNX Runtime computes integers partly by way of floats, and stops at the largest.
_EXACT = 2.0**53  # whole numbers below are exact as float64
_ARITHMETIC = frozenset(("Pow", *(name for name in _OTHERS if name.startswith("Reduce"))))


def may_give_values(node: onnx.NodeProto) -> bool:
    """Whether `values_of` knows the operator."""
    return node.op_type == "Constant" or node.op_type in _OPERATIONS or node.op_type in _OTHERS


def _evaluated(node: onnx.NodeProto, given: Sequence[np.ndarray | None],
               opset: int) -> list[np.ndarray] | None:
    """By onnx's reference; None also where ONNX Runtime may compute something else."""
    if node.op_type == "Clip" and not all(one is not None and np.all(np.isfinite(one))
                                          for one in (*given, *[None] * 3)[:3]):
        return None  # a bound that is not given may be the largest number, or infinity
    if node.op_type in _ARITHMETIC and (
            not given or given[0] is None or given[0].size == 0):
        return None  # ONNX Runtime has 0 for the mean of nothing
    results = _by_reference(node, given, opset)
    if results is None or node.op_type not in _ARITHMETIC or given[0] is None or \
            given[0].dtype.kind == "f":
        return results
    wide = _by_reference(node, [given[0].astype(np.float64), *given[1:]], opset)
    is_exact = wide is not None and results[0].dtype == given[0].dtype and \
        np.array_equal(results[0], wide[0]) and np.all(np.abs(wide[0]) < _EXACT)
    return results if is_exact else None


def _by_reference(node: onnx.NodeProto, given: Sequence[np.ndarray | None],
               opset: int) -> list[np.ndarray] | None:
    """As the operator's version has it."""
    known = {name: value for name, value in zip(node.input, given) if value is not None}
    inputs = [onnx.helper.make_tensor_value_info(
        name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in known.items()]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    standard = copied(node)
    standard.domain = ""  # the reference does not know the other name, "ai.onnx"
    model = onnx.helper.make_model(onnx.helper.make_graph([standard], "constant", inputs, outputs),
                                   opset_imports=[onnx.helper.make_opsetid("", opset)])
    is_half = node.op_type in _SUMS and any(
        one is not None and one.dtype == np.float16 for one in given[:1])
    if is_half:
        known = {name: value.astype(np.float32) if value.dtype == np.float16 else value
                 for name, value in known.items()}
    try:
        with np.errstate(all="ignore"):
            results = onnx.reference.ReferenceEvaluator(model).run(None, known)
            if is_half:
                results = [one.astype(np.float16) for one in results]
    except Exception:  # whatever an operator of the reference does not take
        return None
    if not all(isinstance(one, np.ndarray) for one in results):
        return None
    # Of a slice that goes backwards from before the first element ONNX Runtime has that one.
    return None if node.op_type == "Slice" and results[0].size == 0 else results


def values_of(node: onnx.NodeProto, constant: Values, opset: int) -> dict[str, np.ndarray]:
    """What a node of ONNX gives, by name; nothing unless it is one of these, of constants."""
    if node.op_type == "Constant":
        value = _literal(node)
        return {} if value is None else {node.output[0]: value}
    if not may_give_values(node):
        return {}
    given: list[np.ndarray | None] = []
    for name in node.input:
        given.append(constant(name) if name else None)
        if name and given[-1] is None:
            return {}
    if node.op_type in _OPERATIONS and all(one is not None for one in given):
        try:
            value = _OPERATIONS[node.op_type](node, [one for one in given if one is not None])
        except Exception:  # operands and attributes that do not fit, which ONNX Runtime refuses
            return {}
        if value is not None:
            return {node.output[0]: value}
    if node.op_type not in _OTHERS:
        return {}
    made = _evaluated(node, given, opset)
    return {} if made is None else dict(zip(filter(None, node.output), made))
