"""y of int8 and uint8: what ONNX Runtime's QuantizeLinear makes of the fp32 result, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import spjit

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper

TYPES = {np.uint8: "u8", np.int8: "i8"}


@pytest.fixture(scope="module")
def quantize():
    """quantize(values, scale, zero_point) by ONNX Runtime without its optimizer."""
    sessions = {}

    def session_of(dtype):
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph = helper.make_graph(
            [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])], "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None]),
             helper.make_tensor_value_info("s", TensorProto.FLOAT, []),
             helper.make_tensor_value_info("z", element, [])],
            [helper.make_tensor_value_info("y", element, [None, None])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = \
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])

    def run(values, scale, zero_point):
        dtype = zero_point.dtype.type
        session = sessions.setdefault(dtype, session_of(dtype))
        return session.run(None, {"x": values, "s": np.array(scale, np.float32),
                                  "z": np.asarray(zero_point)})[0]

    return run


def identity(n):
    return scipy.sparse.identity(n, np.float32, format="csr")


@pytest.mark.parametrize("target", ["host-avx512", "host-avx2", "host-generic"])
@pytest.mark.parametrize("dtype", list(TYPES))
def test_any_float_becomes_the_byte_of_onnx_runtime(quantize, dtype, target):
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    special = np.float32([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38,
                          -3.4e38])
    try:
        kernel = spjit.compile(identity(33), types=("f32", "f32", TYPES[dtype]),
                               target=target)
        kernel(np.zeros((1, 33), np.float32))
    except spjit.NotSupported as error:
        pytest.skip(str(error))
    for scale in (1e-45, 1e-38, 0.0078125, 0.1, 1.0, 3.0, 1e30, 3e38):
        for zero in (info.min, info.max, 0, int(rng.integers(info.min, info.max))):
            ties = np.float32(rng.integers(-600, 600, (40, 33))) / np.float32(2)
            with np.errstate(all="ignore"):
                x = (ties * np.float32(scale)).astype(np.float32)
                near = np.nextafter(x, np.float32(rng.choice([-np.inf, np.inf])))
            bits = rng.integers(0, 2**32, (20, 33), np.uint32).view(np.float32)
            x = np.concatenate([x, near, bits])
            x[::7, :10] = special

            y = kernel(x, y_scale=scale, y_zero_point=zero)

            assert y.dtype == dtype
            expected = quantize(x, scale, np.array(zero, dtype))
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", list(TYPES))
@pytest.mark.parametrize("layout", ["tokens", "features"])
@pytest.mark.parametrize("n", [1, 3, 17, 70])
def test_layers_of_floats_give_the_bytes_of_their_results(quantize, dtype, layout, n):
    rng = np.random.default_rng(n)
    a = scipy.sparse.random(70, 90, 0.3, format="csr", random_state=n, dtype=np.float32)
    fields = {"layout": layout, "n": n, "bias": True, "activation": "gelu"}
    x = rng.standard_normal((n, 90) if layout == "tokens" else (90, n)).astype(np.float32)
    bias = rng.standard_normal(70).astype(np.float32)
    floats = spjit.compile(a, **fields)(x, bias=bias)

    y = spjit.compile(a, types=("f32", "f32", TYPES[dtype]), **fields)(
        x, bias=bias, y_scale=0.02, y_zero_point=5)

    np.testing.assert_array_equal(y, quantize(floats, 0.02, np.array(5, dtype)))


def test_a_residual_stands_for_numbers(quantize):
    a = scipy.sparse.random(40, 50, 0.3, format="csr", random_state=1, dtype=np.float32)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((7, 50)).astype(np.float32)
    residual = rng.integers(0, 256, (7, 40)).astype(np.uint8)
    scale, zero = np.float32(0.05), 131
    floats = spjit.compile(a, residual=True)(
        x, residual=(residual.astype(np.float32) - zero) * scale)

    kernel = spjit.compile(a, types=("f32", "f32", "u8"), residual=True)
    y = kernel(x, residual=residual, y_scale=scale, y_zero_point=zero)

    np.testing.assert_array_equal(y, quantize(floats, scale, np.uint8(zero)))
    kernel(x, residual=residual, y_scale=scale, y_zero_point=zero, out=residual)
    np.testing.assert_array_equal(residual, y)


def test_without_a_scale_it_is_the_number_itself():
    kernel = spjit.compile(identity(6), types=("f32", "f32", "i8"))
    x = np.float32([[0.5, 1.5, -2.5, 300, -300, np.nan]])
    np.testing.assert_array_equal(kernel(x), np.int8([[0, 2, -2, 127, -128, -128]]))


def test_layers_of_bytes_chain():
    """Sums of bytes with a bias of integers, as QLinearConv has it."""
    rng = np.random.default_rng(3)
    weight = rng.integers(-90, 91, (30, 40)) * (rng.random((30, 40)) < 0.3)
    kernel = spjit.compile(weight.astype(np.float32), types=("i8", "u8", "u8"),
                           accumulate="integer", quantize="given", scale=True, bias=True,
                           bias_first=True)
    x = rng.integers(0, 256, (19, 40)).astype(np.uint8)
    factor = rng.uniform(1e-3, 1e-2, 30).astype(np.float32)
    bias = rng.integers(-9000, 9000, 30)

    y = kernel(x, scale=factor, bias=bias.astype(np.float32), x_scale=1, x_zero_point=120,
               y_zero_point=9)

    sums = (x.astype(np.int64) - 120) @ weight.T + bias
    expected = np.clip(np.rint(sums.astype(np.float32) * factor) + 9, 0, 255)
    np.testing.assert_array_equal(y, expected)
    assert kernel.info["epilogue"]["bias_first"] is True
    assert kernel.info["family"] in ("byte_windows", "reference")  # without AVX2


@pytest.mark.parametrize(("given", "message"), [
    ({"y_scale": 0}, "c_scale is 0; expected a finite number above 0"),
    ({"y_scale": -1.0}, "c_scale is -1; expected a finite number above 0"),
    ({"y_scale": float("nan")}, "c_scale is nan"),
    ({"y_scale": float("inf")}, "c_scale is inf"),
    ({"y_scale": [1, 2]}, "y_scale has 2 elements; expected a number"),
    ({"y_zero_point": 256}, "y_zero_point is 256; expected one that uint8 has"),
    ({"y_zero_point": -1}, "y_zero_point is -1; expected one that uint8 has")])
def test_scales_that_are_none_are_refused(given, message):
    kernel = spjit.compile(identity(4), types=("f32", "f32", "u8"))
    with pytest.raises(spjit.InvalidArgument, match=message):
        kernel(np.zeros((2, 4), np.float32), **given)


def test_other_kernels_have_none():
    kernel = spjit.compile(identity(4))
    for given in ({"y_scale": 1.0}, {"y_zero_point": 0}):
        with pytest.raises(spjit.InvalidArgument, match="y of this kernel is float32, and only"):
            kernel(np.zeros((2, 4), np.float32), **given)


def test_a_bias_is_first_only_with_a_scale():
    with pytest.raises(spjit.InvalidArgument, match="bias_first is set without scale and bias"):
        spjit.compile(identity(4), bias=True, bias_first=True)


def test_a_gpu_has_no_bytes():
    with pytest.raises(spjit.NotSupported, match="C of u8|it does not take C"):
        spjit.compile(identity(4), types=("f32", "f32", "u8"), target="sm_90", n=16)


def test_saved_kernels_give_the_same_bytes(tmp_path):
    kernel = spjit.compile(identity(8), types=("f32", "f32", "i8"))
    x = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
    kernel.save(tmp_path / "kernel")
    again = spjit.load(tmp_path / "kernel")
    np.testing.assert_array_equal(again(x, y_scale=0.01, y_zero_point=3),
                                  kernel(x, y_scale=0.01, y_zero_point=3))
