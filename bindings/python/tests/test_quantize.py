"""x that is quantised by the kernel, and x of bytes with a scale and a zero point."""

import numpy as np
import pytest
import scipy.sparse

import spjit

K, M = 40, 24


@pytest.fixture
def bytes_of_a(rng):
    """[M, K] of whole numbers that i8 has, with an empty row, a dense one and -128."""
    a = rng.integers(-127, 128, (M, K)) * (rng.random((M, K)) < 0.3)
    a[3] = 0
    a[5] = rng.integers(-128, 128, K)
    a[6, 2] = -128
    return scipy.sparse.csr_array(a.astype(np.float32))


def compiled(a, quantize, x="f32", y="f32", **fields):
    return spjit.compile(a, types=("i8", x, y), accumulate="integer", quantize=quantize, **fields)


def numbers(rng):
    """x [tokens, K] of every kind."""
    for tokens in (1, 2, 9, 33):
        x = rng.standard_normal((tokens, K)).astype(np.float32)
        yield from (x, np.abs(x), -np.abs(x) - 1, np.round(x * 3), x * np.float32(1e-44),
                    x * np.float32(5e37), np.zeros_like(x), -np.zeros_like(x))
        x = x.copy()
        x[0] = 0
        yield x
    yield np.array([[3e38] + [-3e38] * (K - 1)], np.float32)  # a scale beyond fp32


def ort_session(a, weight_scale, bias):
    onnx = pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    helper, proto = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             helper.make_node("MatMulInteger", ["q", "w", "z"], ["sums"]),
             helper.make_node("Cast", ["sums"], ["floats"], to=proto.FLOAT),
             helper.make_node("Mul", ["s", "s_w"], ["unit"]),
             helper.make_node("Mul", ["floats", "unit"], ["product"]),
             helper.make_node("Add", ["product", "bias"], ["y"])]
    weights = [onnx.numpy_helper.from_array(a.toarray().T.astype(np.int8), "w"),
               onnx.numpy_helper.from_array(weight_scale, "s_w"),
               onnx.numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", proto.FLOAT, [None, None, K])],
        [helper.make_tensor_value_info("y", proto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options,
                                providers=["CPUExecutionProvider"])


def assert_same_bits(y, expected):
    same = (y.view(np.int32) == expected.view(np.int32)) | (np.isnan(y) & np.isnan(expected))
    assert same.all(), (y[~same], expected[~same])


@pytest.mark.parametrize("family", ["reference", None])
@pytest.mark.parametrize("is_of_a_row", [True, False])
def test_a_tensor_has_the_bits_of_onnx(bytes_of_a, rng, is_of_a_row, family):
    weight_scale = rng.uniform(1e-3, 1, M if is_of_a_row else 1).astype(np.float32)
    bias = rng.standard_normal(M).astype(np.float32)
    session = ort_session(bytes_of_a, weight_scale, bias)
    kernel = compiled(bytes_of_a, "tensor", scale=True, bias=True, family=family)
    scale = np.broadcast_to(weight_scale, M).copy()

    for x in numbers(rng):
        batch = np.stack([x, np.roll(x, 1, axis=-1) / 2])
        expected, = session.run(None, {"x": batch})

        assert_same_bits(kernel(batch, scale=scale, bias=bias), expected)


def test_tokens_are_symmetric_and_apart(bytes_of_a, rng):
    kernel = compiled(bytes_of_a, "token")
    dense = bytes_of_a.toarray().astype(np.int64)

    for x in numbers(rng):
        most = np.abs(x).max(axis=1, keepdims=True)
        unit = np.where(most / np.float32(127) == 0, np.float32(1), most / np.float32(127))
        q = np.clip(np.rint(x / unit), -127, 127).astype(np.int64)

        with np.errstate(over="ignore"):
            expected = (q @ dense.T).astype(np.float32) * unit
        assert_same_bits(kernel(x), expected)


@pytest.mark.parametrize("x_type, zero_point", [("u8", 0), ("u8", 255), ("u8", 128), ("i8", -128),
                                                ("i8", 0), ("i8", 127)])
def test_given_bytes_have_a_scale_and_a_zero_point(bytes_of_a, rng, x_type, zero_point):
    kernel = compiled(bytes_of_a, "given", x=x_type)
    x = rng.integers(0, 256, (3, K)).astype(np.uint8).view({"u8": np.uint8, "i8": np.int8}[x_type])
    sums = (x.astype(np.int64) - zero_point) @ bytes_of_a.toarray().T.astype(np.int64)

    for scale in (0.1, np.float32(3e-39), np.array([2.5], np.float32), -1):
        y = kernel(x, x_scale=scale, x_zero_point=zero_point)

        assert_same_bits(y, sums.astype(np.float32) * np.asarray(scale, np.float32))
    if zero_point == 0:
        assert_same_bits(kernel(x, x_scale=1), sums.astype(np.float32))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_makes_nan(bytes_of_a, wrong):
    x = np.ones((3, K), np.float32)
    x[1, 7] = wrong

    of_tensor = compiled(bytes_of_a, "tensor")(x)
    of_tokens = compiled(bytes_of_a, "token")(x)
    as_bytes = compiled(bytes_of_a, "token", y="i8")(x)

    assert np.isnan(of_tensor).all()
    assert np.isnan(of_tokens[1]).all() and np.isfinite(of_tokens[[0, 2]]).all()
    assert (as_bytes[1] == -128).all() and (as_bytes[0] > -128).any()


def test_the_scale_and_the_zero_point_are_checked(bytes_of_a):
    kernel = compiled(bytes_of_a, "given", x="u8")
    x = np.ones((2, K), np.uint8)

    for given, message in (({}, 'x_scale is missing; .* quantize="given"'),
                           ({"x_scale": [1, 2]}, "x_scale has 2 elements; expected a number"),
                           ({"x_scale": "1"}, "x_scale is '1'; expected a number"),
                           ({"x_scale": 1j}, "x_scale is 1j; expected a number"),
                           ({"x_scale": True}, "x_scale is True; expected a number"),
                           ({"x_scale": 1, "x_zero_point": 256}, "x_zero_point is 256; expected one"),
                           ({"x_scale": 1, "x_zero_point": 0.5}, "expected a whole number")):
        with pytest.raises(spjit.InvalidArgument, match=message):
            kernel(x, **given)
    dynamic = compiled(bytes_of_a, "token")
    for given in ({"x_scale": 1.0}, {"x_zero_point": 3}):
        with pytest.raises(spjit.InvalidArgument, match=f"{[*given][0]} is given; this kernel was"):
            dynamic(np.ones((2, K), np.float32), **given)


def test_a_scale_may_be_a_tensor_of_one(bytes_of_a):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = compiled(bytes_of_a, "given", x="u8")
    x = np.arange(2 * K, dtype=np.uint8).reshape(2, K)

    assert_same_bits(kernel(x, x_scale=torch.tensor([0.5])), kernel(x, x_scale=0.5))


def test_a_kernel_says_how_x_is_quantised(bytes_of_a, tmp_path):
    kernel = compiled(bytes_of_a, "token", n=2)
    kernel.save(tmp_path / "kernel")
    x = np.linspace(-1, 1, 2 * K, dtype=np.float32).reshape(2, K)

    loaded = spjit.load(tmp_path / "kernel")

    assert loaded.info["numerics"] == {"a": "i8", "b": "f32", "c": "f32", "accumulate": "integer",
                                       "quantize": "token"}
    assert_same_bits(loaded(x), kernel(x))


@pytest.mark.parametrize("fields, message", [
    ({"quantize": "row"}, "quantize is 'row'"),
    ({"types": ("i8", "i8", "f32"), "quantize": "token"}, "token is of integer and B i8; expected"),
    ({"types": ("i8", "f32", "f32"), "quantize": "given"}, "given is of integer and B f32"),
    ({"types": ("i8", "f32", "f32")}, "expected A and B of integers"),
])
def test_what_does_not_go_together_is_refused(bytes_of_a, fields, message):
    with pytest.raises(spjit.InvalidArgument, match=message):
        spjit.compile(bytes_of_a, accumulate="integer", **fields)
