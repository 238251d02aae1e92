"""MatMulNBits: which nodes become layers, and that kernels compute what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper

import spjit.onnx
from onnx_testing import floats, kernels_are_faster, node, sparse, sparse_nodes  # noqa: F401
from spjit._onnx_graph import survey

RNG = np.random.default_rng(9)


def packed(numbers, bits):
    """uint8 [rows, bytes] of [rows, numbers], the lowest bits first."""
    if bits == 8:
        return numbers.astype(np.uint8)
    even = np.pad(numbers, ((0, 0), (0, numbers.shape[1] % 2))).astype(np.uint8)
    return even[:, ::2] | even[:, 1::2] << 4


class Blocks:
    """A weight [n, k] in blocks; `q` and `points` are as they are stored."""

    def __init__(self, n, k, block=32, bits=4, zeros=0.7, has_points=False, most=None):
        middle = 1 << (bits - 1)
        self.n, self.k, self.block, self.bits, self.has_points = n, k, block, bits, has_points
        count = -(-k // block)
        most = middle - 1 if most is None else most
        self.points = np.full((n, count), middle)
        if has_points:  # a kernel has values from -128 on
            self.points = RNG.integers(middle - (bits == 4) * 5, middle + 1, (n, count))
        values = RNG.integers(-(1 << (bits - 1)), most + 1, (n, count * block))
        values[RNG.random(values.shape) < zeros] = 0
        values[n // 2] = 0  # a row without entries
        values[:, k:] = 0
        repeated = np.repeat(self.points, block, 1)
        self.q = np.clip(values + repeated, 0, (1 << bits) - 1)
        self.scales = RNG.uniform(-0.1, 0.1, (n, count)).astype(np.float32)
        self.scales[0, 0] = 0
        self.integers = (self.q - repeated)[:, :k]

    @property
    def weight(self):
        """float64 [n, k]."""
        return self.integers * np.repeat(self.scales, self.block, 1)[:, :self.k].astype(np.float64)

    def constants(self, bias=None):
        made = {"w": packed(self.q, self.bits).reshape(self.n, -1, self.block * self.bits // 8),
                "s": self.scales.reshape(-1)}
        if self.has_points:
            made["z"] = packed(self.points, self.bits).reshape(-1)
        return made if bias is None else {**made, "b": bias}

    def node(self, name="y", bias=False, **attributes):
        inputs = ["x", "w", "s", "z" if self.has_points else "", "", "b" if bias else ""]
        while not inputs[-1]:
            inputs.pop()
        return helper.make_node("MatMulNBits", inputs, [name], domain="com.microsoft", **{
            "N": self.n, "K": self.k, "block_size": self.block, "bits": self.bits, **attributes})


def model_of(nodes, constants, x_shape, dtype=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, x_shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20),
                                                   helper.make_opsetid("com.microsoft", 1)],
                             ir_version=9)


def surveyed(model):
    return survey(model, takes_blocks=True)


def refusal(model):
    found = surveyed(model)
    assert not found.layers
    return found.others[0].reason


def changed(blocks, x_shape=("n", None), **constants):
    nodes = [blocks.node()]
    return model_of(nodes, {**blocks.constants(), **constants},
                    (x_shape[0], x_shape[1] or blocks.k))


# ---- What becomes a layer -------------------------------------------------------------------


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [32, 64, 128])
@pytest.mark.parametrize("has_points", [False, True])
def test_a_layer_has_the_integers_and_the_scales(bits, block, has_points):
    blocks = Blocks(7, 150, block, bits, has_points=has_points)

    layer, = surveyed(changed(blocks)).layers

    np.testing.assert_array_equal(layer.weight, blocks.integers)
    np.testing.assert_array_equal(layer.group_scales.values, blocks.scales)
    assert layer.group_scales.columns == block
    is_nibble = blocks.integers.min() >= -8 and blocks.integers.max() <= 7
    assert layer.types == ("i4" if is_nibble else "i8", "f32", "f32")
    assert layer.zeros == pytest.approx(np.mean(blocks.integers == 0))


def test_integers_beyond_a_nibble_are_bytes():
    blocks = Blocks(5, 64, has_points=True)
    blocks.points[:] = 0
    blocks.q[:] = 15

    layer, = surveyed(changed(blocks)).layers

    assert layer.types == ("i8", "f32", "f32")
    assert np.all(layer.weight == 15)


def test_a_bias_and_an_activation_are_part_of_the_layer():
    blocks, bias = Blocks(6, 40), RNG.standard_normal(6).astype(np.float32)
    own = model_of([blocks.node("s1", bias=True), node("Relu", "s1", "y")],
                   blocks.constants(bias), ["n", 40])
    behind = model_of([blocks.node("s1"), node("Add", "s1 b", "s2"), node("Relu", "s2", "y")],
                      blocks.constants(bias), ["n", 40])

    for model, nodes in ((own, (0, 1)), (behind, (0, 1, 2))):
        layer, = surveyed(model).layers
        assert (layer.activation, layer.nodes, layer.output) == ("relu", nodes, "y")
        np.testing.assert_array_equal(layer.bias, bias)


def test_a_factor_behind_it_stays():
    """As part of the scales it would be rounded."""
    blocks = Blocks(6, 40)
    model = model_of([blocks.node("m"), node("Mul", "m f", "y")],
                     {**blocks.constants(), "f": np.float32(3)}, ["n", 40])

    layer, = surveyed(model).layers

    assert (layer.nodes, layer.output) == ((0,), "m")


@pytest.mark.parametrize("attributes, reason", [
    ({"block_size": 16}, "its blocks have 16 columns; expected 32, 64 or 128"),
    ({"block_size": 256}, "its blocks have 256 columns; expected 32, 64 or 128"),
    ({"bits": 2}, "its weights have 2 bits; expected 4 or 8"),
    ({"N": 0}, "its weights are [0, 64]; expected sizes above 0"),
    ({"K": 96}, "its weights are uint8[6, 2, 16]; expected 288 of uint8"),
])
def test_attributes_that_do_not_fit_are_refused_in_one_line(attributes, reason):
    blocks = Blocks(6, 64)

    assert refusal(model_of([blocks.node(**attributes)], blocks.constants(), ["n", 64])) == reason


def test_operands_that_do_not_fit_are_refused_in_one_line():
    blocks, points = Blocks(6, 64), Blocks(6, 64, has_points=True)
    nan = blocks.scales.reshape(-1).copy()
    nan[3] = np.nan

    assert refusal(changed(blocks, s=nan)) == "a scale of its weights is infinity, or NaN"
    assert refusal(changed(blocks, s=nan.astype(np.float16))) == \
        "the scales of its weights are float16; expected float32"
    assert refusal(changed(blocks, s=nan[1:])) == \
        "there are 11 scales of its weights; expected 6 x 2"
    assert refusal(changed(points, z=np.full((6, 2), 8, np.float32))) == \
        "the zero points of its weights are float32; expected uint8"
    assert refusal(changed(points, z=np.zeros(5, np.uint8))) == \
        "its zero points are uint8[5]; expected 6 of uint8"
    ordered = blocks.node()
    ordered.input.extend(["", "g"])
    assert refusal(model_of([ordered], {**blocks.constants(), "g": np.zeros(64, np.int32)},
                            ["n", 64])) == \
        "its columns are in groups of any order (g_idx); expected blocks of neighbours"


def test_bytes_less_their_zero_points_have_to_be_bytes():
    blocks = Blocks(6, 64, bits=8, has_points=True)
    blocks.points[:] = 3
    blocks.q[:] = 250

    assert refusal(changed(blocks)) == ("its weights less their zero points are 247 to 247; a "
                                        "kernel's are -128 to 127")


def test_the_command_line_leaves_them():
    found = survey(changed(Blocks(6, 64)))

    assert not found.layers
    assert found.others[0].reason.endswith("spjit.onnx takes such, the command line does not")


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_what_onnx_runtime_quantises_keeps_its_zeros(tmp_path, is_symmetric):
    state = pytest.importorskip("onnxruntime.capi._pybind_state")
    if not hasattr(state, "quantize_matmul_4bits"):
        pytest.skip("this onnxruntime has no quantize_matmul_4bits")
    n, k, block = 24, 160, 32
    weight = sparse(k, n, zeros=0.8)
    made = {"w": np.zeros((n, k // block, block // 2), np.uint8),
            "s": np.zeros(n * k // block, np.float32),
            "z": np.zeros(n * 3, np.uint8)}  # five blocks of a row
    state.quantize_matmul_4bits(made["w"], weight, made["s"], made["z"], block, n, k, is_symmetric)
    if is_symmetric:
        del made["z"]
    step = helper.make_node("MatMulNBits", ["x", *made], ["y"], domain="com.microsoft", N=n, K=k,
                            block_size=block, bits=4)
    path = tmp_path / "model.onnx"
    onnx.save(model_of([step], made, ["n", k]), str(path))
    x = floats(3, k)

    fast = spjit.onnx.optimize(path, x)

    row, = fast.report.rows
    assert row.sparse and row.zeros >= np.mean(weight == 0)
    dense = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
    np.testing.assert_allclose(fast(x)[0], dense, rtol=0, atol=1e-4)


# ---- What kernels compute -------------------------------------------------------------------


def error_bound(blocks, x):
    """Of a sum in order: an FMA for each entry and for each group, on top of those of float64."""
    terms = np.abs(x.astype(np.float64)) @ np.abs(blocks.weight).T
    roundings = np.count_nonzero(blocks.integers, axis=1) + blocks.scales.shape[1]
    return terms * roundings * 2.0**-24 / (1 - roundings * 2.0**-24) + 1e-30


def in_order(blocks, x):
    """The promise: in each group an fp32 FMA for each entry, then one with its scale."""
    total = np.zeros((len(x), blocks.n), np.float32)
    for first, scales in zip(range(0, blocks.k, blocks.block), blocks.scales.T):
        sums = np.zeros_like(total)
        for column in range(first, min(first + blocks.block, blocks.k)):
            products = np.outer(x[:, column].astype(np.float64), blocks.integers[:, column])
            sums = (sums + products).astype(np.float32)
        total = (total + sums.astype(np.float64) * scales).astype(np.float32)
    return total


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block, k", [(32, 32), (32, 150), (64, 150), (128, 130), (128, 520)])
@pytest.mark.parametrize("has_points", [False, True])
@pytest.mark.parametrize("x_shape", [(1,), (3,), (2, 1, 5)])
def test_kernels_are_as_near_to_float64_as_their_sums_allow(tmp_path, bits, block, k, has_points,
                                                            x_shape):
    blocks = Blocks(33, k, block, bits, has_points=has_points)
    path = tmp_path / "model.onnx"
    onnx.save(model_of([blocks.node()], blocks.constants(), [*map(str, range(len(x_shape))), k]),
              str(path))
    x = RNG.standard_normal((*x_shape, k)).astype(np.float32)

    fast = spjit.onnx.optimize(path, x)
    y = fast(x)[0]
    dense = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]

    assert len(sparse_nodes(fast)) == 1, str(fast.report)
    assert y.shape == dense.shape
    rows = x.reshape(-1, k)
    expected = rows.astype(np.float64) @ blocks.weight.T
    bound = error_bound(blocks, rows)
    assert np.all(np.abs(y.reshape(-1, 33) - expected) <= bound)
    # ONNX Runtime rounds weights, too, and sums in another order.
    assert np.all(np.abs(y - dense).reshape(-1, 33) <= 4 * bound + 1e-6)
    assert np.all(y.reshape(-1, 33)[:, 16] == 0)


def test_kernels_give_the_bits_of_their_promise(tmp_path):
    blocks = Blocks(20, 100)
    path = tmp_path / "model.onnx"
    onnx.save(model_of([blocks.node(accuracy_level=4)], blocks.constants(), ["n", 100]), str(path))
    # Numbers of few bits: float64 has each FMA's exact result.
    x = RNG.integers(-500, 501, (3, 100)).astype(np.float32)

    fast = spjit.onnx.optimize(path, x)

    np.testing.assert_array_equal(fast(x)[0], in_order(blocks, x))


def of_tokens(blocks, x):
    """The promise of int8 activations: exact sums of groups, an FMA for each with its scale, and
    one multiplication by the token's scale."""
    of_token = np.abs(x).max(1, keepdims=True) / np.float32(127)
    of_token[of_token == 0] = 1
    q = np.clip(np.rint(x / of_token), -127, 127).astype(np.int64)
    total = np.zeros((len(x), blocks.n), np.float32)
    for first, scales in zip(range(0, blocks.k, blocks.block), blocks.scales.T):
        of_group = slice(first, min(first + blocks.block, blocks.k))
        sums = (q[:, of_group] @ blocks.integers[:, of_group].T).astype(np.float32)
        total = (total + sums.astype(np.float64) * scales).astype(np.float32)
    return total * of_token


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_int8_activations_have_a_scale_of_each_token(tmp_path, kernels_are_faster, bits, rows):
    blocks, bias = Blocks(33, 300, 32, bits), RNG.standard_normal(33).astype(np.float32)
    path = tmp_path / "model.onnx"
    onnx.save(model_of([blocks.node(bias=True, accuracy_level=4)], blocks.constants(bias),
                       ["n", 300]), str(path))
    x = RNG.standard_normal((rows, 300)).astype(np.float32)
    x[0] *= 0 if rows > 1 else 1

    fast = spjit.onnx.optimize(path, x, activations="int8")
    y = fast(x)[0]

    row, = fast.report.rows
    assert row.sparse and row.types == ("i4,f32,f32" if bits == 4 else "i8,f32,f32")
    np.testing.assert_array_equal(y, of_tokens(blocks, x) + bias)
    exact = x.astype(np.float64) @ blocks.weight.T + bias
    dense = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
    # A scale of a token is at most as fine as ONNX Runtime's of a block.
    assert np.linalg.norm(y - exact) < 0.02 * np.linalg.norm(exact)
    assert np.linalg.norm(y - dense) < 0.03 * np.linalg.norm(exact)


def test_other_activations_are_refused(tmp_path):
    blocks = Blocks(20, 100)
    path = tmp_path / "model.onnx"
    onnx.save(changed(blocks), str(path))

    for activations in ("int4", None, True):
        with pytest.raises(spjit.InvalidArgument, match="expected '' or 'int8'"):
            spjit.onnx.optimize(path, np.ones((1, 100), np.float32), activations=activations)


def test_any_number_of_rows_works_later(tmp_path):
    blocks, bias = Blocks(20, 100), RNG.standard_normal(20).astype(np.float32)
    path = tmp_path / "model.onnx"
    onnx.save(model_of([blocks.node(bias=True)], blocks.constants(bias), ["n", 100]), str(path))
    fast = spjit.onnx.optimize(path, np.ones((1, 100), np.float32))

    for rows in (0, 1, 2, 17, 130):
        x = RNG.standard_normal((rows, 100)).astype(np.float32)
        np.testing.assert_allclose(fast(x)[0], x @ blocks.weight.T.astype(np.float32) + bias,
                                   rtol=0, atol=1e-5)


def test_a_layer_with_few_zeros_stays_dense(tmp_path):
    full, few = Blocks(20, 64, zeros=0.2), Blocks(64, 64, zeros=0.8)
    constants = {**full.constants(), **{f"{name}2": value for name, value
                                        in few.constants().items()}}
    second = few.node("m")
    second.input[1:3] = ["w2", "s2"]
    first = full.node()
    first.input[0] = "m"
    path = tmp_path / "model.onnx"
    onnx.save(model_of([second, first], constants, ["n", 64]), str(path))
    x = RNG.standard_normal((2, 64)).astype(np.float32)

    fast = spjit.onnx.optimize(path, x)

    rows = {row.shape: row for row in fast.report.rows}
    assert rows[64, 64].sparse and rows[64, 64].types == "i4,f32,f32"
    assert not rows[20, 64].sparse and "zeros" in rows[20, 64].reason
    dense = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
    np.testing.assert_allclose(fast(x)[0], dense, rtol=0, atol=1e-4)


def test_a_saved_model_is_read_again(tmp_path):
    blocks = Blocks(20, 100)
    path, saved = tmp_path / "model.onnx", tmp_path / "saved.onnx"
    onnx.save(changed(blocks), str(path))
    x = RNG.standard_normal((2, 100)).astype(np.float32)
    fast = spjit.onnx.optimize(path, x)
    fast.save(saved)

    again = spjit.onnx.load(saved)

    np.testing.assert_array_equal(again.run(None, {"x": x})[0], fast(x)[0])
