"""Products of integers: which nodes they are, and that a model with kernels gives the same bits."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper

import spjit.onnx
from onnx_graph_bounds import plain_session
from onnx_testing import floats, kernels_are_faster, node, sparse  # noqa: F401
from spjit._onnx_file import convert
from spjit._onnx_graph import survey
from spjit.onnx import _graph, _optimize
from spjit.onnx._sessions import Own

RNG = np.random.default_rng(11)
K, ROWS = 24, 40
MODES = {"SparseLayer": "tensor", "SparseIntegerLayer": "given", "SparseUint8Layer": "given",
         "SparseInt8Layer": "given", "SparseIntegerProduct": "none"}
DYNAMIC = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"])]
TO_FLOATS = [node("Cast", "i", "f", to=TensorProto.FLOAT), node("Mul", "xs ws", "s"),
             node("Mul", "f s", "y")]


def integers(*shape, zeros=0.8, dtype=np.int8, middle=0):
    values = RNG.integers(-90, 91, shape)
    values[RNG.random(shape) < zeros] = 0
    return (values + middle).astype(dtype)


def scales(*shape):
    return RNG.uniform(0.001, 0.1, shape).astype(np.float32)


W, WS, WZ, B = integers(K, ROWS), scales(ROWS), np.int8(0), floats(ROWS)
CONSTANTS = {"w": W, "ws": WS, "wz": WZ, "b": B}


def model_of(nodes, constants, x=("x", TensorProto.FLOAT, ["n", K]), outputs=("y",), inputs=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*one) for one in (x, *inputs)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20),
                                                   helper.make_opsetid("com.microsoft", 1)],
                             ir_version=9)


def quantized(tmp_path, **options):
    """Two products of one x, and one behind them, as quantize_dynamic writes them."""
    from onnxruntime.quantization import quantize_dynamic
    nodes = [node("MatMul", "x a", "p"), node("Add", "p c", "q"), node("MatMul", "x b", "r"),
             node("Mul", "q r", "m"), node("MatMul", "m d", "o"), node("Add", "e o", "z"),
             node("Relu", "z", "y")]
    weights = {"a": sparse(K, ROWS), "b": sparse(K, ROWS), "d": sparse(ROWS, K), "c": floats(ROWS),
               "e": floats(K)}
    for name, one in zip("abcd", nodes[::2]):
        one.name = f"node {name}"
    original, result = tmp_path / "floats.onnx", tmp_path / "model.onnx"
    onnx.save(model_of(nodes, weights), str(original))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it uses of onnx
        quantize_dynamic(str(original), str(result), **options)
    return result


def saved(tmp_path, *given, **named):
    path = tmp_path / "model.onnx"
    onnx.save(model_of(*given, **named), str(path))
    return path


def modes_of(fast):
    return sorted(MODES[one.op_type] for one in fast.model.graph.node if one.domain == "spjit")


def check(path, x, modes, **options):
    """An optimized model with kernels of these modes, which gives the bits of the original."""
    fast = spjit.onnx.optimize(path, x, **options)
    right = plain_session(onnx.load(str(path))).run(None, {"x": x})

    assert modes_of(fast) == sorted(modes), str(fast.report)
    for y, expected in zip(fast(x), right):
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)
    return fast


# ---- What is found --------------------------------------------------------------------------


@pytest.mark.parametrize("weight_type", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("is_fused", [False, True])
def test_what_quantize_dynamic_writes(tmp_path, weight_type, per_channel, is_fused):
    from onnxruntime.quantization import QuantType
    path = quantized(tmp_path, weight_type=getattr(QuantType, weight_type), per_channel=per_channel,
                     reduce_range=weight_type == "QUInt8")
    model = _graph.fused(path, Own()) if is_fused else onnx.load(str(path))

    layers = survey(model).layers

    assert sorted((one.quantisation.mode, one.bias is not None, one.activation)
                  for one in layers) == [("given", False, None), ("given", True, None),
                                         ("tensor", True, "relu")]
    for one in layers:
        assert one.zeros > 0.8
        np.testing.assert_array_equal(one.weight, np.round(one.weight))


def test_a_quantised_x_that_others_see_stays():
    nodes = [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS]

    alone, = survey(model_of(nodes, CONSTANTS)).layers
    seen, = survey(model_of(nodes, CONSTANTS, outputs=("y", "q"))).layers

    assert (alone.quantisation.mode, alone.input, alone.nodes) == ("tensor", "x", (0, 1, 2, 3, 4))
    assert (seen.quantisation.mode, seen.input, seen.nodes) == ("given", "q", (1, 2, 3, 4))
    assert (seen.quantisation.x_scale, seen.quantisation.x_zero_point) == ("xs", "xz")


def test_a_product_of_scales_that_others_see_stays():
    nodes = [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS]
    layer, = survey(model_of(nodes, CONSTANTS, outputs=("y", "s"))).layers
    assert layer.nodes == (1, 2, 4)


@pytest.mark.parametrize("middle", [0, 3])
@pytest.mark.parametrize("is_per_column", [False, True])
def test_zero_points_become_part_of_weights(middle, is_per_column):
    zero = np.full((ROWS,) if is_per_column else (), middle, np.int8)
    weight = integers(K, ROWS, middle=middle)
    layer, = survey(model_of([*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS],
                             {**CONSTANTS, "w": weight, "wz": zero})).layers
    np.testing.assert_array_equal(layer.weight, weight.T.astype(int) - middle)


_FUSED = {"domain": "com.microsoft"}
_OF_TWO = "x w xs ws xz wz"


@pytest.mark.parametrize(("nodes", "constants", "reason"), [
    ([node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS],
     {"w": np.uint8([[0, 255]] * K), "wz": np.uint8(100), "ws": np.float32(1)},
     "less their zero point are -100 to 155"),
    ([node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS],
     {**CONSTANTS, "wz": np.zeros(3, np.int8)}, "another number than columns"),
    ([node("MatMulInteger", "q w xz xz", "i"), *TO_FLOATS], CONSTANTS,
     "zero point of its weights is computed"),
    ([node("MatMulInteger", "q w xz wz", "y")], CONSTANTS, "zero point of its activations is comp"),
    ([node("MatMulInteger", "q w xz wz", "y")], {**CONSTANTS, "w": integers(2, K, ROWS)},
     "have 3 dimensions"),
    ([node("MatMulInteger", "w q", "y")], {"w": integers(4, 9)}, "the first operand"),
    ([node("MatMulIntegerToFloat", "q w xs s xz wz", "y", **_FUSED),
      node("Mul", "xs xs", "s")], CONSTANTS, "scale of its weights is no constant"),
    ([node("MatMulIntegerToFloat", "q w xs ws xz wz x", "y", **_FUSED)], CONSTANTS,
     "its bias is no constant [40]"),
    ([node("MatMulIntegerToFloat", "q w x ws xz wz", "y", **_FUSED)], CONSTANTS,
     "scale of its activations is not known to be one number"),
    ([node("QLinearMatMul", "q xs xz w ws wz ys yz", "y")],
     {**CONSTANTS, "ys": np.float32(1), "yz": np.uint8(0)}, "no constants of one number"),
    ([node("QLinearMatMul", "q os yz w ws wz ys yz", "y")],
     {**CONSTANTS, "os": np.float32(1), "ys": np.float32(0), "yz": np.uint8(0)}, "make infinity"),
    ([node("Identity", "q", "p"), node("Unsqueeze", "p axes", "q4"),
      node("ConvInteger", "q4 w xz wz", "y")],
     {"w": integers(1, 1, 3, 3), "wz": np.int8(0), "axes": np.array([0, 1])},
     "zero point of its activations is computed, and its sums"),
    ([node("QGemm", "q xs xz w ws wz", "y", **_FUSED)], CONSTANTS, "no constants of one number"),
    ([node("QGemm", "q os oz w ws wz", "y", transA=1, **_FUSED)],
     {**CONSTANTS, "os": np.float32(1), "oz": np.uint8(0)}, "transA is set"),
    ([node("QGemm", "q os xz w ws wz", "y", **_FUSED)], {**CONSTANTS, "os": np.float32(1)},
     "zero point of its activations is no constant"),
    ([node("QGemm", "q os oz w ws wz c", "y", **_FUSED)],
     {**CONSTANTS, "os": np.float32(1), "oz": np.uint8(0), "c": np.ones((3, ROWS), np.int32)},
     "C is no constant of int32 [40]"),
    ([node("QGemm", "q os oz w ws wz  os oz", "y", alpha=3e38, **_FUSED)],
     {**CONSTANTS, "os": np.float32(1e10), "oz": np.uint8(0)}, "make infinity"),
    ([node("MatMulNBits", "x w ws", "y", N=4, K=K, bits=4, block_size=32, **_FUSED)],
     {"w": np.zeros((4, 1, 16), np.uint8), "ws": scales(4)}, "packed in bytes"),
], ids=lambda one: one[:24] if isinstance(one, str) else "")
def test_what_stays_dense_has_a_reason(nodes, constants, reason):
    found = survey(model_of([*DYNAMIC, *nodes], constants))
    assert not found.layers
    assert [reason in one.reason for one in found.others] == [True], found.others


@pytest.mark.parametrize("nodes", [
    [node("Cast", "i", "f", to=TensorProto.DOUBLE), node("Identity", "f", "y")],
    [node("Cast", "i", "f", to=TensorProto.FLOAT), node("Add", "f ws", "y")],
    [node("Cast", "i", "f", to=TensorProto.FLOAT), node("Mul", "f many", "y")],
    [node("Cast", "i", "f", to=TensorProto.FLOAT), node("Mul", "many ws", "s"),
     node("Mul", "f s", "y")],
    [node("Cast", "i", "f", to=TensorProto.FLOAT), node("Mul", "f f", "y")]])
def test_sums_of_other_nodes_stay_integers(nodes):
    """x has no zero point, so that such sums are a kernel's, too."""
    layer, = survey(model_of(
        [node("MatMulInteger", "x w", "i"), *nodes], CONSTANTS, ("x", TensorProto.UINT8, ["n", K]),
        inputs=[("many", TensorProto.FLOAT, ["n", 1])])).layers
    assert (layer.quantisation.mode, layer.output) == ("none", "i")


# ---- What is computed -----------------------------------------------------------------------


@pytest.mark.parametrize("weight_type", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_dynamically_quantised_model_gives_the_same_bits(tmp_path, weight_type, per_channel):
    from onnxruntime.quantization import QuantType
    path = quantized(tmp_path, weight_type=getattr(QuantType, weight_type), per_channel=per_channel,
                     reduce_range=weight_type == "QUInt8")
    fast = check(path, floats(7, K), ["given", "given", "tensor"])

    assert [row.types for row in fast.report.sparse] == ["i8,u8,f32"] * 2 + ["i8,f32,f32"]
    assert all(row.kernel for row in fast.report.sparse)
    x = np.zeros((0, K), np.float32)
    assert fast(x)[0].shape == (0, K)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero", [0, 100])
def test_sums_of_bytes(tmp_path, dtype, zero):
    x = RNG.integers(0, 100, (2, 3, K)).astype(dtype)
    path = saved(tmp_path, [node("MatMulInteger", "x w xz", "y")],
                 {"w": W, "xz": np.array(zero, dtype)},
                 ("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [2, 3, K]))
    fast = check(path, x, ["none"])
    assert fast.report.sparse[0].types == f"i8,{'u8' if dtype is np.uint8 else 'i8'},i32"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_static_product_is_what_qlinearmatmul_gives(tmp_path, dtype):
    x = RNG.integers(*((0, 256) if dtype is np.uint8 else (-128, 128)), (33, K)).astype(dtype)
    path = saved(tmp_path, [node("QLinearMatMul", "x xs xz w ws wz ys yz", "y")],
                 {"w": W, "ws": WS, "wz": np.zeros(ROWS, np.int8), "xs": np.float32(0.03),
                  "xz": np.array(5, dtype), "ys": np.float32(0.7), "yz": np.array(9, dtype)},
                 ("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["n", K]))
    check(path, x, ["given"])


_OF_GEMM = {"xs": np.float32(0.03), "ys": np.float32(0.7), "ws": WS}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("added", ["many", "row", "one", "zeros", ""])
@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize("is_turned", [True, False])
def test_a_gemm_of_integers_has_each_bit(tmp_path, dtype, added, quantised, is_turned):
    ends = (0, 256) if dtype is np.uint8 else (-128, 128)
    x = RNG.integers(*ends, (65, K)).astype(dtype)
    sums = {"many": RNG.integers(-9000, 9000, ROWS), "row": RNG.integers(-9000, 9000, (1, ROWS)),
            "one": np.array(77), "zeros": np.zeros(ROWS), "": None}[added]
    constants = {**_OF_GEMM, "w": W.T if is_turned else W, "wz": np.zeros(ROWS, np.int8),
                 "xz": np.array(5, dtype), "yz": np.array(9, dtype)}
    if sums is not None:
        constants["c"] = sums.astype(np.int32)
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "c" if added else ""]
    inputs += ["ys", "yz"] if quantised else []
    one = helper.make_node("QGemm", inputs, ["y"], transB=int(is_turned), alpha=1.5, **_FUSED)
    path = saved(tmp_path, [one], constants,
                 ("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["n", K]))

    fast = check(path, x, ["given"])

    assert fast.report.sparse[0].kind == "QGemm"
    name = "u8" if dtype is np.uint8 else "i8"
    assert fast.report.sparse[0].types == f"i8,{name},{name if quantised else 'f32'}"
    assert len(fast.model.graph.node) == 1
    fast.save(tmp_path / "fast.onnx")
    again = spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x})[0]
    np.testing.assert_array_equal(again, fast(x)[0])


def test_a_gemm_of_integers_is_what_numpy_computes(tmp_path):
    """A sum with C before it is rounded: after it, other integers would come of halves."""
    x = RNG.integers(0, 256, (501, K)).astype(np.uint8)
    c = RNG.integers(-9000, 9000, ROWS).astype(np.int32)
    constants = {**_OF_GEMM, "w": W, "wz": np.zeros(ROWS, np.int8), "xz": np.uint8(131),
                 "yz": np.uint8(128), "c": c}
    path = saved(tmp_path, [node("QGemm", "x xs xz w ws wz c ys yz", "y", **_FUSED)], constants,
                 ("x", TensorProto.UINT8, ["n", K]))

    fast = check(path, x, ["given"])

    sums = (x.astype(np.int64) - 131) @ W.astype(np.int64) + c
    factor = np.float32(0.03) * WS / np.float32(0.7)
    expected = np.clip(np.rint(sums.astype(np.float32) * factor) + 128, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(fast(x)[0], expected)


def test_gemms_of_integers_chain(tmp_path):
    """As quantize_static makes layers of a classifier."""
    second = integers(ROWS, 8)
    constants = {**_OF_GEMM, "w": W, "wz": np.zeros(ROWS, np.int8), "xz": np.uint8(131),
                 "yz": np.uint8(128), "c": integers(ROWS).astype(np.int32), "v": second,
                 "vs": np.float32(0.01), "vz": np.int8(0), "d": integers(8).astype(np.int32)}
    nodes = [node("QuantizeLinear", "x xs xz", "q"),
             node("QGemm", "q xs xz w ws wz c ys yz", "h", **_FUSED),
             node("QGemm", "h ys yz v vs vz d", "y", **_FUSED)]
    fast = check(saved(tmp_path, nodes, constants), floats(9, K), ["given", "given"])
    assert [one.op_type for one in fast.model.graph.node] == [
        "QuantizeLinear", "SparseUint8Layer", "SparseIntegerLayer"]


def test_a_gemm_whose_sums_no_float_has_keeps_integers(tmp_path):
    constants = {**_OF_GEMM, "w": W, "wz": np.zeros(ROWS, np.int8), "xz": np.uint8(131),
                 "yz": np.uint8(128), "c": np.full(ROWS, 2**24 + 1, np.int32)}
    path = saved(tmp_path, [node("QGemm", "x xs xz w ws wz c ys yz", "y", **_FUSED)], constants,
                 ("x", TensorProto.UINT8, ["n", K]))
    check(path, RNG.integers(0, 256, (5, K)).astype(np.uint8), ["none"])


# ---- Y of bytes -----------------------------------------------------------------------------


_FLOATS_OF_BYTES = node("MatMulIntegerToFloat", "x w xs ws xz wz b", "f", **_FUSED)
_OF_BYTES = {**CONSTANTS, "xs": np.float32(0.03), "xz": np.uint8(131), "ys": np.float32(0.25)}
_BYTES = ("x", TensorProto.UINT8, ["n", K])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero", [-128, 0, 7, 100])
@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", None])
def test_quantizelinear_behind_floats_becomes_part_of_the_kernel(tmp_path, dtype, zero, activation):
    zero += 128 if dtype is np.uint8 else 0
    x = RNG.integers(0, 256, (70, K)).astype(np.uint8)
    nodes = [_FLOATS_OF_BYTES, *([node(activation, "f", "g")] if activation else []),
             node("QuantizeLinear", f"{'g' if activation else 'f'} ys yz", "y")]
    path = saved(tmp_path, nodes, {**_OF_BYTES, "yz": np.array(zero, dtype)}, _BYTES)

    fast = check(path, x, ["given"])

    assert [one.op_type for one in fast.model.graph.node] == [
        "SparseUint8Layer" if dtype is np.uint8 else "SparseInt8Layer"]
    y, = fast(x)
    assert len(np.unique(y)) > 20
    assert fast(x[:0])[0].shape == (0, ROWS)


def test_quotients_in_the_middle_of_two_integers_are_those_of_quantizelinear(tmp_path):
    constants = {**_OF_BYTES, "xs": np.float32(1), "ws": np.ones(ROWS, np.float32),
                 "b": np.zeros(ROWS, np.float32), "ys": np.float32(2), "yz": np.uint8(100)}
    path = saved(tmp_path, [_FLOATS_OF_BYTES, node("QuantizeLinear", "f ys yz", "y")], constants,
                 _BYTES)
    x = (RNG.integers(0, 3, (70, K)) + 130).astype(np.uint8)
    check(path, x, ["given"])


@pytest.mark.parametrize(("last", "constants", "outputs"), [
    (node("QuantizeLinear", "f ys yz", "y"), {"yz": np.uint8(3)}, ("y", "f")),
    (node("QuantizeLinear", "f ys yz", "y"), {"yz": np.uint8(3), "ys": np.float32(0)}, ("y",)),
    (node("QuantizeLinear", "f ys yz", "y"), {"yz": np.uint16(3)}, ("y",)),
    (node("QuantizeLinear", "f ys yz", "y", axis=1),
     {"yz": np.zeros(ROWS, np.uint8), "ys": scales(ROWS)}, ("y",))])
def test_a_quantizelinear_that_a_kernel_does_not_have_stays(last, constants, outputs):
    layer, = survey(model_of([_FLOATS_OF_BYTES, last], {**_OF_BYTES, **constants}, _BYTES,
                             outputs)).layers
    assert (layer.types, layer.output) == (("i8", "u8", "f32"), "f")


@pytest.mark.parametrize(("place", "value", "message"), [
    (6, np.ones(2, np.float32), r"the scale of Y has the shape \[2\]; expected one element"),
    (6, np.float32(0), "c_scale is 0; expected a finite number above 0"),
    (6, np.float32("nan"), "c_scale is nan; expected a finite number above 0"),
    (7, np.zeros(2, np.uint8), r"the zero point of Y has the shape \[2\]; expected one element")])
def test_scales_of_y_that_do_not_fit_are_named(tmp_path, place, value, message):
    path = saved(tmp_path, [_FLOATS_OF_BYTES, node("QuantizeLinear", "f ys yz", "y")],
                 {**_OF_BYTES, "yz": np.uint8(3)}, _BYTES)
    x = RNG.integers(0, 256, (3, K)).astype(np.uint8)
    fast = check(path, x, ["given"])
    fast.model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), "other"))
    fast.model.graph.node[0].input[place] = "other"
    with pytest.raises(Exception, match=message):
        _graph.session_of(fast.model, fast._options()).run(None, {"x": x})


def test_nodes_of_quantize_static_are_products_of_integers(tmp_path):
    """Which ONNX Runtime fuses: what it gives then, not what it computes of the floats."""
    constants = {"w": W, "ws": np.float32(0.02), "wz": np.int8(0), "xs": np.float32(0.03),
                 "xz": np.uint8(120), "ys": np.float32(0.5), "yz": np.uint8(128)}
    nodes = [node("QuantizeLinear", "x xs xz", "q"), node("DequantizeLinear", "q xs xz", "d"),
             node("DequantizeLinear", "w ws wz", "v"), node("MatMul", "d v", "p"),
             node("QuantizeLinear", "p ys yz", "o"), node("DequantizeLinear", "o ys yz", "y")]
    path = saved(tmp_path, nodes, constants)
    x = floats(9, K)
    fast = spjit.onnx.optimize(path, x)
    fused = plain_session(model_of([
        node("QuantizeLinear", "x xs xz", "q"),
        node("QLinearMatMul", "q xs xz w ws wz ys yz", "o"),
        node("DequantizeLinear", "o ys yz", "y")], constants))

    assert modes_of(fast) == ["given"]
    np.testing.assert_array_equal(fast(x)[0], fused.run(None, {"x": x})[0])


def test_products_of_the_same_names_in_branches(tmp_path):
    constants = {"ws": np.float32(0.02), "wz": np.int8(0), "xs": np.float32(0.03),
                 "xz": np.uint8(120), "ys": np.float32(0.5), "yz": np.uint8(128)}

    def branch(name, weight):
        nodes = [node("QLinearMatMul", f"q xs xz {weight} ws wz ys yz", "o"),
                 node("DequantizeLinear", "o ys yz", "v")]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(
            "v", TensorProto.FLOAT, None)])

    weights = {"a": W, "b": integers(K, ROWS)}
    nodes = [node("QuantizeLinear", "x xs xz", "q"), node("ReduceSum", "x", "t", keepdims=0),
             node("Less", "t zero", "c"),
             helper.make_node("If", ["c"], ["y"], then_branch=branch("then", "a"),
                              else_branch=branch("else", "b"))]
    path = saved(tmp_path, nodes, {**constants, **weights, "zero": np.float32(0)})
    x = np.abs(floats(5, K))
    original = plain_session(onnx.load(str(path)))
    base = _graph.with_unique_names(onnx.load(str(path)))
    layers = survey(base).layers
    assert [one.quantisation.mode for one in layers] == ["given", "given"]

    # In place of kernels, as an example runs one branch alone.
    made = _graph.rewritten(base, [_graph.Swap(one, "{}", "b", 1) for one in layers])
    names = [one.name for one in made.graph.initializer]
    assert len(names) == len(set(names))
    fast = spjit.onnx.optimize(path, x)
    for sign in (1, -1):
        np.testing.assert_array_equal(fast(sign * x)[0], original.run(None, {"x": sign * x})[0])


def test_an_activation_that_may_change_bits_stays_a_node(tmp_path):
    path = saved(tmp_path, [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS[:2],
                            node("Mul", "f s", "p"), node("Add", "p b", "a"),
                            node("Tanh", "a", "y")], CONSTANTS)
    fast = check(path, floats(5, K), ["tensor"])
    assert [one.op_type for one in fast.model.graph.node] == ["SparseLayer", "Tanh"]


def test_nan_in_x_makes_a_layer_nan_that_quantises_it(tmp_path):
    path = saved(tmp_path, [node("DynamicQuantizeMatMul", "x w ws wz b", "y", **_FUSED)], CONSTANTS)
    x = floats(3, K)
    fast = check(path, x, ["tensor"])
    x[1, 2] = np.nan
    assert np.isnan(fast(x)[0]).all()


def test_weights_with_few_zeros_stay_dense(tmp_path):
    path = saved(tmp_path, [node("DynamicQuantizeMatMul", "x w ws wz b", "y", **_FUSED)],
                 {**CONSTANTS, "w": integers(K, ROWS, zeros=0.3)})
    fast = check(path, floats(3, K), [])
    assert fast.report.rows[0].reason == "less than 50 % zeros"


@pytest.mark.measured
@pytest.mark.parametrize("is_fused", [False, True])
def test_a_product_is_timed_as_onnx_runtime_fuses_it(tmp_path, monkeypatch, is_fused):
    path = saved(tmp_path, [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS],
                 CONSTANTS)
    if not is_fused:
        monkeypatch.setattr(_optimize, "fused", lambda path, *_: _graph.with_unique_names(
            onnx.load(str(path))))
    row, = spjit.onnx.optimize(path, floats(3, K), budget=0.02).report.rows
    assert row.before_us is not None and row.after_us is not None
    assert row.sparse or row.reason


def test_saved_and_loaded(tmp_path):
    path = saved(tmp_path, [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS],
                 CONSTANTS, outputs=("y", "q"))
    x = floats(5, K)
    fast = check(path, x, ["given"])

    fast.save(tmp_path / "fast.onnx")
    y, _ = spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x})

    np.testing.assert_array_equal(y, fast(x)[0])


def test_a_kernel_says_which_bytes_it_takes(tmp_path):
    path = saved(tmp_path, [node("MatMulInteger", "x w", "y")], CONSTANTS,
                 ("x", TensorProto.UINT8, ["n", K]))
    fast = check(path, RNG.integers(0, 256, (3, K)).astype(np.uint8), ["none"])
    fast.model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    session = _graph.session_of(fast.model, fast._options())
    with pytest.raises(Exception, match="X is of the type int8; expected uint8"):
        session.run(None, {"x": np.zeros((3, K), np.int8)})


def test_of_an_operator_a_kernel_has_to_be(tmp_path):
    path = saved(tmp_path, [node("MatMulInteger", "x w", "y")], CONSTANTS,
                 ("x", TensorProto.UINT8, ["n", K]))
    fast = check(path, RNG.integers(0, 256, (3, K)).astype(np.uint8), ["none"])
    fast.model.graph.node[0].op_type = "SparseIntegerLayer"
    fast.model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(Exception, match="is no layer of ONNX Runtime; expected .* whose scale is"):
        _graph.session_of(fast.model, fast._options())


@pytest.mark.parametrize(("place", "value", "message"), [
    (3, np.ones(ROWS + 1, np.float32), r"the scale has the shape \[41\]; expected \[40\]"),
    (4, np.ones(2, np.float32), r"the scale of X has the shape \[2\]; expected one element"),
    (5, np.zeros(2, np.uint8), r"the zero point of X has the shape \[2\]; expected one element"),
    (5, np.int8(3), "the zero point of X is of the type int8; expected uint8")])
def test_operands_that_do_not_fit_are_named(tmp_path, place, value, message):
    path = saved(tmp_path, [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS],
                 CONSTANTS, outputs=("y", "q"))
    x = floats(5, K)
    fast = check(path, x, ["given"])
    fast.model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), "other"))
    kernel, = (one for one in fast.model.graph.node if one.domain == "spjit")
    kernel.input[place] = "other"
    with pytest.raises(Exception, match=message):
        _graph.session_of(fast.model, fast._options()).run(None, {"x": x})


# ---- The command line -----------------------------------------------------------------------


def test_the_command_line_gets_types_and_weights(tmp_path):
    path = saved(tmp_path, [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS],
                 CONSTANTS)
    content = Path(convert(str(path), "")).read_bytes()
    size, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    layer, = json.loads(header["__metadata__"]["spjit"])["layers"]

    assert {name: layer[name] for name in ("types", "accumulate", "quantize", "scale", "layout")} \
        == {"types": "i8,f32,f32", "accumulate": "integer", "quantize": "tensor", "scale": True,
            "layout": "tokens"}
    begin, end = header[layer["name"]]["data_offsets"]
    values = np.frombuffer(content[8 + size:][begin:end], np.float32)
    np.testing.assert_array_equal(values.reshape(ROWS, K), W.T)


def test_the_command_line_compiles_them(tmp_path):
    saved(tmp_path, [*DYNAMIC, node("MatMulInteger", "q w xz wz", "i"), *TO_FLOATS], CONSTANTS)

    def run(*arguments):
        result = subprocess.run([sys.executable, "-m", "spjit", *arguments], cwd=tmp_path,
                                text=True, capture_output=True, timeout=300, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    found, = json.loads(run("inspect", "model.onnx", "--json"))["layers"]
    assert found["shape"] == [ROWS, K]
    run("compile", "model.onnx", "--n", "any:4", "--bundle", "kernels.spjit")
    kernel, = spjit.Bundle(tmp_path / "kernels.spjit").entries
    assert kernel["problem"]["numerics"] == {"a": "i8", "b": "f32", "c": "f32",
                                             "accumulate": "integer", "quantize": "tensor"}
