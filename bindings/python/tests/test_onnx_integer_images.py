"""Convolutions of integers: a model with kernels gives the bits of ONNX Runtime and of numpy."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import spjit.onnx
from onnx_graph_bounds import plain_session
from onnx_testing import floats, kernels_are_faster, node, sparse  # noqa: F401
from spjit import _onnx_integer_operands, _onnx_integers
from spjit._onnx_convolution import Convolution
from spjit._onnx_graph import survey
from onnx_integer_fuzz import IntegerFuzzer

RNG = np.random.default_rng(3)
CHANNELS, FILTERS = 6, 10
STATIC = "x xs xz w ws wz ys yz"


def filters(*shape, zeros=0.8):
    values = RNG.integers(-128, 128, shape).astype(np.int8)
    values[RNG.random(shape) < zeros] = 0
    return values


W = filters(FILTERS, CHANNELS, 3, 3)
CONSTANTS = {"w": W, "ws": RNG.uniform(0.001, 0.1, FILTERS).astype(np.float32),
             "wz": np.zeros(FILTERS, np.int8), "xs": np.float32(0.03), "xz": np.uint8(131),
             "ys": np.float32(0.9), "yz": np.uint8(120),
             "b": RNG.integers(-9000, 9000, FILTERS).astype(np.int32)}
IMAGES = ("x", TensorProto.UINT8, ["n", CHANNELS, "h", "v"])


def model_of(nodes, constants=CONSTANTS, x=IMAGES):
    used = {name for one in nodes for name in one.input}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*x)], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
         if name in used])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def saved(tmp_path, *given, **named):
    path = tmp_path / "model.onnx"
    onnx.save(model_of(*given, **named), str(path))
    return path


def kernels_of(fast):
    return [one.op_type for one in fast.model.graph.node if one.domain == "spjit"]


def expected(x, constants, bias, pad, stride=1):
    """QLinearConv by loops over pixels and taps, each step as it is defined."""
    w, zero = constants["w"].astype(np.int64), int(constants["xz"])
    shifted = np.pad(x.astype(np.int64) - zero, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    taps = w.shape[2]
    height, width = ((size - taps) // stride + 1 for size in shifted.shape[2:])
    sums = np.zeros((len(x), len(w), height, width), np.int64)
    for p in range(height):
        for q in range(width):
            patch = shifted[:, :, p * stride:p * stride + taps, q * stride:q * stride + taps]
            for row, weights in enumerate(w):
                sums[:, row, p, q] = (patch * weights).sum(axis=(1, 2, 3))
    if bias:
        sums += constants["b"].astype(np.int64)[:, None, None]
    factor = constants["xs"] * constants["ws"] / constants["ys"]
    y = np.rint(sums.astype(np.float32) * factor[:, None, None]) + int(constants["yz"])
    return np.clip(y, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("pad", [0, 2])
@pytest.mark.parametrize("zero", [0, 131, 255])
def test_a_static_convolution_is_what_its_definition_says(tmp_path, bias, pad, zero):
    x = RNG.choice([0, 1, 128, 254, 255], (2, CHANNELS, 7, 9)).astype(np.uint8)
    constants = {**CONSTANTS, "xz": np.uint8(zero)}
    nodes = [node("QLinearConv", STATIC + (" b" if bias else ""), "y", pads=[pad] * 4)]
    path = saved(tmp_path, nodes, constants)

    fast = spjit.onnx.optimize(path, x)
    y, = fast(x)

    assert kernels_of(fast) == ["SparseUint8Layer"]
    assert fast.report.sparse[0].types == "i8,u8,u8"
    assert {0, 255} <= set(np.unique(y).tolist())  # some saturate
    np.testing.assert_array_equal(y, expected(x, constants, bias, pad))
    np.testing.assert_array_equal(y, plain_session(onnx.load(str(path))).run(None, {"x": x})[0])
    assert fast(x[:0])[0].shape == (0, *y.shape[1:])


def test_the_reference_evaluator_of_onnx_gives_the_same(tmp_path):
    x = RNG.integers(0, 256, (1, CHANNELS, 8, 8)).astype(np.uint8)
    nodes = [node("QLinearConv", STATIC, "y", pads=[1] * 4)]
    path = saved(tmp_path, nodes)
    right, = ReferenceEvaluator(onnx.load(str(path))).run(None, {"x": x})
    y, = spjit.onnx.optimize(path, x)(x)
    # It multiplies sums by a factor that it rounds once: halves may become other integers.
    assert np.abs(y.astype(int) - right.astype(int)).max() <= 1
    assert np.mean(y != right) < 0.01


@pytest.mark.parametrize(("attributes", "shape"), [
    ({"group": 2, "strides": [2, 1], "dilations": [1, 2]}, (1, 12, 9, 9)),
    ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (3, 6, 8, 5)),
    ({"auto_pad": "SAME_LOWER"}, (1, 6, 8, 5)),
    ({"auto_pad": "VALID"}, (1, 6, 8, 5)),
    ({"pads": [0, 3, 2, 1]}, (2, 6, 4, 4)),
    ({"pads": [2, 1]}, (2, 6, 20)),
    ({"pads": [1, 1], "strides": [3], "group": 2}, (1, 12, 20))])
def test_geometries(tmp_path, attributes, shape):
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    w = filters(FILTERS, CHANNELS, *[3] * (len(shape) - 2))
    path = saved(tmp_path, [node("QLinearConv", STATIC + " b", "y", **attributes)],
                 {**CONSTANTS, "w": w}, ("x", TensorProto.UINT8, list(shape)))

    fast = spjit.onnx.optimize(path, x)

    assert kernels_of(fast) == ["SparseUint8Layer"]
    np.testing.assert_array_equal(
        fast(x)[0], plain_session(onnx.load(str(path))).run(None, {"x": x})[0])


def quantised(tmp_path, how):
    """Three convolutions, of which the first has a Relu, as ONNX Runtime's tools write them."""
    from onnxruntime import quantization as tools
    constants = {"a": sparse(FILTERS, CHANNELS, 3, 3), "c": sparse(FILTERS, FILTERS, 1, 1),
                 "d": sparse(4, FILTERS, 3, 3), "e": floats(FILTERS), "f": floats(4)}
    nodes = [node("Conv", "x a e", "p", pads=[1] * 4), node("Relu", "p", "q"),
             node("Conv", "q c", "r"), node("Conv", "r d f", "y", pads=[1] * 4)]
    for name, one in zip("abcd", nodes):
        one.name = f"node {name}"
    original, result = tmp_path / "floats.onnx", tmp_path / "model.onnx"
    shape = [2, CHANNELS, 9, 9]
    onnx.save(model_of(nodes, constants, ("x", TensorProto.FLOAT, shape)), str(original))

    class Reader(tools.CalibrationDataReader):
        left = [{"x": floats(*shape)} for _ in range(3)]

        def get_next(self):
            return self.left.pop() if self.left else None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what they use of onnx
        if how == "dynamic":
            tools.quantize_dynamic(str(original), str(result), weight_type=tools.QuantType.QInt8,
                                   op_types_to_quantize=["Conv"])
        else:
            tools.quantize_static(str(original), str(result), Reader(), per_channel=True,
                                  quant_format=tools.QuantFormat[how],
                                  weight_type=tools.QuantType.QInt8)
    return result, floats(*shape)


@pytest.mark.parametrize("how", ["dynamic", "QDQ", "QOperator"])
def test_a_quantised_model_gives_the_same_bits(tmp_path, how):
    path, x = quantised(tmp_path, how)
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_DISABLE_ALL if how == "dynamic" else \
        level.ORT_ENABLE_EXTENDED  # which makes QLinearConv of the nodes
    session = onnxruntime.InferenceSession(str(path), options)

    fast = spjit.onnx.optimize(path, x)

    operators = {"SparseLayer"} if how == "dynamic" else {"SparseUint8Layer", "SparseInt8Layer"}
    assert len(kernels_of(fast)) == 3 and operators.issuperset(kernels_of(fast)), str(fast.report)
    np.testing.assert_array_equal(fast(x)[0], session.run(None, {"x": x})[0])
    fast.save(tmp_path / "fast.onnx")
    again = spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x})[0]
    np.testing.assert_array_equal(again, fast(x)[0])


def test_sums_alone(tmp_path):
    x = RNG.integers(0, 256, (1, CHANNELS, 7, 9)).astype(np.uint8)
    path = saved(tmp_path, [node("ConvInteger", "x w", "y", pads=[1] * 4)])
    fast = spjit.onnx.optimize(path, x)
    assert kernels_of(fast) == ["SparseIntegerProduct"]
    np.testing.assert_array_equal(
        fast(x)[0], plain_session(onnx.load(str(path))).run(None, {"x": x})[0])


@pytest.mark.parametrize(("nodes", "constants", "reason"), [
    ([node("QLinearConv", STATIC, "y")], {"w": filters(FILTERS, CHANNELS, 1, 3, 3)},
     "it has three dimensions; expected one or two"),
    ([node("QLinearConv", STATIC + " b", "y")], {"b": np.full(FILTERS, 2**24 + 1, np.int32)},
     "its sums may be over 2^24"),
    ([node("QLinearConv", STATIC + " b", "y")], {"b": np.zeros(3, np.int32)},
     "C is no constant of int32 [10]"),
    ([node("QLinearConv", STATIC, "y")], {"ys": np.float32(0)}, "make infinity, or NaN"),
    ([node("QLinearConv", STATIC, "y")], {"wz": np.full(FILTERS, -3, np.int8),
                                          "w": np.where(W == 0, -3, 127).astype(np.int8)},
     "its weights less their zero point are 0 to 130"),
    ([node("QLinearConv", STATIC, "y")], {"wz": np.zeros(4, np.int8)},
     "zero points of another number than filters"),
    ([node("ConvInteger", "x w xz", "y")], {},
     "its activations have a zero point, and its sums are not made floats by Cast and Mul")])
def test_what_stays_dense_has_a_reason(nodes, constants, reason):
    found = survey(model_of(nodes, {**CONSTANTS, **constants}))
    assert not found.layers
    assert [reason in one.reason for one in found.others] == [True], found.others


def test_the_command_line_gets_the_numbers_of_a_convolution(tmp_path):
    path = saved(tmp_path, [node("QLinearConv", STATIC, "y", pads=[1] * 4)],
                 x=("x", TensorProto.UINT8, [1, CHANNELS, 7, 9]))
    made = subprocess.run([sys.executable, "-m", "spjit", "inspect", str(path), "--json"],
                          capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    layer, = json.loads(made.stdout)["layers"]
    assert layer["family"] == "byte_windows"


# ---- The fuzzer -----------------------------------------------------------------------------


def without_padding_before(monkeypatch):
    """Padding is all behind the image."""
    found = _onnx_integer_operands.geometry_of

    def wrong(*given):
        weight, of = found(*given)
        top, left, bottom, right = of.pad
        return weight, Convolution(of.stride, (0, 0, top + bottom, left + right), of.dilation,
                                   of.groups, of.dimensions)

    monkeypatch.setattr(_onnx_integer_operands, "geometry_of", wrong)


def one_factor(monkeypatch):
    """The factor of the first filter is that of all."""
    found = _onnx_integers._static_scale
    monkeypatch.setattr(_onnx_integers, "_static_scale", lambda *given: np.full_like(
        found(*given), found(*given)[0]))


def without_zero_points_of_x(monkeypatch):
    """0 stands for 0."""
    monkeypatch.setattr(_onnx_integers, "zero_point_of", lambda *_: "")


def without_a_bias(monkeypatch):
    """Nothing is added to the sums."""
    monkeypatch.setattr(_onnx_integers, "_with_integers", lambda product, _: product)


@pytest.mark.parametrize("plant", [without_padding_before, one_factor, without_zero_points_of_x,
                                   without_a_bias])
def test_the_fuzzer_finds_a_planted_fault(tmp_path, monkeypatch, plant):
    plant(monkeypatch)
    fuzzer = IntegerFuzzer(tmp_path)

    assert any(fuzzer.wrong(4 * i + 3) for i in range(300)), plant.__doc__
