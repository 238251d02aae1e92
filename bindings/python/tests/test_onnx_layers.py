"""Forms of layers that models have, as kernels in ONNX Runtime beside what it computes densely."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import helper

import spjit.onnx
from onnx_testing import (  # noqa: F401
    check,
    dense_of,
    floats,
    kernels_are_faster,
    node,
    sparse,
    write,
)
from spjit.onnx._graph import with_unique_names

IMAGE = (2, 8, 11, 9)


def operators(fast):
    return [one.op_type for one in fast.model.graph.node]


@pytest.mark.parametrize("behind", [[], [node("Relu", "s", "r")]], ids=["sum", "relu"])
def test_x_w_plus_x_of_two_dimensions(tmp_path, behind):
    nodes = [node("MatMul", "x w", "p"), node("Add", "p x", "s"), *behind,
             node("Neg", "r" if behind else "s", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(32, 32)}, ["n", 32])

    fast = check(path, floats(5, 32), 1)

    assert operators(fast) == ["SparseLayer", "Neg"]
    x = floats(9, 32)
    np.testing.assert_allclose(fast(x)[0], dense_of(path, x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("c", [(3, 1), (3, 48), (1, 48), (48,), (1,), None])
def test_gemm_with_any_sum(tmp_path, c, beta):
    constants = {"w": sparse(32, 48), **({} if c is None else {"c": floats(*c)})}
    path = write(tmp_path / "m.onnx", [node("Gemm", "x w" if c is None else "x w c", "y",
                                            beta=beta)], constants, [3, 32])
    check(path, floats(3, 32), 1)


def test_a_sum_of_one_column_that_is_computed(tmp_path):
    nodes = [node("ReduceSum", "x axes", "c"), node("Gemm", "x w c", "y", beta=2.0)]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(32, 48), "axes": np.array([1])},
                 ["n", 32])
    check(path, floats(5, 32), 1)


@pytest.mark.parametrize("behind", [
    [node("Relu", "s", "y")], [node("Sigmoid", "s", "t"), node("Mul", "s t", "y")],
    [node("Div", "s root", "d"), node("Erf", "d", "e"), node("Add", "e one", "f"),
     node("Mul", "s f", "h"), node("Mul", "h half", "y")],
    [node("Mul", "s scale", "m"), node("Tanh", "m", "y")]], ids=["relu", "silu", "gelu", "tanh"])
@pytest.mark.parametrize("dims", [[2, 5, 32], [1, 5, 32], [2, 2, 5, 32]])
def test_a_product_with_a_bias_of_static_shape_has_its_activation(tmp_path, dims, behind):
    """ONNX Runtime makes Reshape, Gemm and Reshape of it."""
    constants = {"w": sparse(32, 48), "b": floats(48), "root": np.float32(2**0.5),
                 "one": np.float32(1), "half": np.float32(0.5), "scale": floats(48)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], "fc"), node("Add", "p b", "s"), *behind]
    path = write(tmp_path / "m.onnx", nodes, constants, dims)

    fast = check(path, floats(*dims), 1)

    assert operators(fast) == ["SparseLayer"]
    assert fast.report.rows[0].layer == "fc"


@pytest.mark.parametrize("zeros", [(0, 0.9), (0.9, 0, 0.9), (0, 0.9) * 4])
def test_products_with_a_bias_of_static_shape_beside_dense_ones(tmp_path, zeros):
    """What ONNX Runtime makes of the dense ones takes names of its own."""
    nodes, constants, value = [], {}, "x"
    for i, share in enumerate(zeros):
        constants |= {f"w{i}": sparse(24, 24, zeros=share), f"b{i}": floats(24)}
        nodes += [node("MatMul", f"{value} w{i}", f"p{i}"), node("Add", f"p{i} b{i}", f"s{i}"),
                  node("Sigmoid", f"s{i}", f"a{i}" if i + 1 < len(zeros) else "y")]
        value = f"a{i}"
    path = write(tmp_path / "m.onnx", nodes, constants, [2, 6, 24])
    check(path, floats(2, 6, 24), sum(share > 0 for share in zeros))


@pytest.mark.parametrize("rows", [3, 1])
def test_a_sum_whose_rows_have_the_name_of_the_tokens(tmp_path, rows):
    """No run checks that sizes of one name are the same: Gemm then repeats the one row."""
    path = write(tmp_path / "m.onnx", [node("Gemm", "x w z", "y")], {"w": sparse(32, 48)},
                 ["n", 32])
    model = onnx.load(str(path))
    model.graph.input.append(
        onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n", 48]))
    onnx.save(model, str(path))
    x, z = floats(3, 32), floats(3, 48)
    fast = spjit.onnx.optimize(path, x, z)

    y = fast(x, z[:rows])[0]

    reference = onnxruntime.InferenceSession(str(path)).run(None, {"x": x, "z": z[:rows]})[0]
    np.testing.assert_allclose(y, reference, rtol=0, atol=1e-5)
    assert operators(fast) == ["SparseLayer", "Add"]


@pytest.mark.parametrize("shape", [(2, 5, 32), (1, 5, 32)])
def test_weights_with_a_dimension_of_one(tmp_path, shape):
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "o"), node("Add", "o b", "y")],
                 {"w": sparse(1, 32, 48), "b": floats(48)}, [None, None, 32])
    check(path, floats(*shape), 1)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("strides", [[2, 2], [3, 1]])
def test_automatic_padding_with_a_stride(tmp_path, mode, strides):
    nodes = [node("Conv", "x w", "y", auto_pad=mode, strides=strides)]
    constants = {"w": sparse(6, 8, 3, 3, zeros=0.7)}
    check(write(tmp_path / "m.onnx", nodes, constants, list(IMAGE)), floats(*IMAGE), 1)
    open_size = write(tmp_path / "o.onnx", nodes, constants, ["n", 8, "h", "w_"])
    row, = check(open_size, floats(*IMAGE), 0).report.rows
    assert "size the model leaves open" in row.reason


@pytest.mark.parametrize("attributes", [
    {}, {"strides": [2], "pads": [1, 2]}, {"dilations": [2], "group": 2},
    {"strides": [5], "pads": [0, 3], "dilations": [3]}, {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID", "strides": [4]}])
@pytest.mark.parametrize("dims", [[2, 8, 30], ["batch", 8, "length"]])
def test_convolutions_of_one_dimension(tmp_path, attributes, dims):
    weight = sparse(6, 8 // attributes.get("group", 1), 3, zeros=0.7)
    nodes = [node("Conv", "x w b", "c", **attributes), node("Relu", "c", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": weight, "b": floats(6)}, dims)

    fast = check(path, floats(2, 8, 30), 1)

    if dims[0] == "batch":
        x = floats(1, 8, 17)
        np.testing.assert_allclose(fast(x)[0], dense_of(path, x), rtol=0, atol=1e-4)


@pytest.mark.parametrize("version", [11, 17])
def test_a_sequence_with_a_sum(tmp_path, version):
    nodes = [node("Conv", "x w b", "c", pads=[1, 1]), node("Add", "c x", "s"),
             node("Relu", "s", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(8, 8, 3), "b": floats(8)}, [2, 8, 30])
    model = onnx.load(path)
    model.opset_import[0].version = version
    onnx.save(model, path)
    check(path, floats(2, 8, 30), 1)


@pytest.mark.parametrize("taken", ["spjit c bias", "spjit c image 0", "spjit c image",
                                   "spjit height"])
def test_a_sequence_whose_new_values_have_names_of_others(tmp_path, taken):
    nodes = [node("Abs", "x", "a"), helper.make_node("Softplus", ["a"], [taken]),
             helper.make_node("Conv", ["x", "w", "b"], ["c"], "c"),
             node("ReduceMax", "c", "r", keepdims=0),
             helper.make_node("Add", [taken, "r"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(6, 8, 3, zeros=0.7), "b": floats(6)},
                 [2, 8, 30])
    check(path, floats(2, 8, 30), 1)


def test_transposed_activations(tmp_path):
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "t w", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(32, 48)}, [2, 32, "n"])
    check(path, floats(2, 32, 7), 1)


def test_dequantised_weights(tmp_path):
    """As fp32 where ONNX Runtime computes so, else with their reason."""
    weight = np.round(sparse(32, 48) * 20).astype(np.int8)
    nodes = [node("DequantizeLinear", "w s", "v", axis=1), node("Gemm", "x v b", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": weight, "s": floats(48), "b": floats(48)},
                 ["n", 32])

    row, = spjit.onnx.optimize(path, floats(7, 32)).report.rows

    assert row.sparse or ("integers" in row.reason and abs(row.zeros - 0.9) < 0.05)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_dequantised_weights_of_16_bits(tmp_path, dtype):
    weight = np.abs(np.round(sparse(32, 48) * 1000)).astype(dtype)
    weight[weight == 0] = 7
    path = write(tmp_path / "m.onnx", [node("DequantizeLinear", "w s z", "v", axis=1),
                                       node("MatMul", "x v", "y")],
                 {"w": weight, "s": np.abs(floats(48)), "z": np.full(48, 7, dtype)}, ["n", 32])
    model = onnx.load(path)
    model.opset_import[0].version, model.ir_version = 21, 10
    onnx.save(model, path)

    check(path, floats(7, 32), 1)


def test_normalization_between_layers(tmp_path):
    """As nodes, as they are where the exporter has no batch normalization."""
    channels = {name: floats(6, 1, 1) + 3 for name in "mfgs"}
    nodes = [node("Conv", "x w", "c"), node("Sub", "c m", "c1"), node("Mul", "c1 f", "c2"),
             node("Div", "c2 g", "c3"), node("Add", "c3 s", "c4"), node("Relu", "c4", "r"),
             node("Mul", "r f", "r1"), node("Add", "r1 s", "r2"), node("Conv", "r2 v", "y")]
    path = write(tmp_path / "m.onnx", nodes,
                 {"w": sparse(6, 8, 3, 3), "v": sparse(5, 6, 1, 1, zeros=0.8), **channels},
                 list(IMAGE))
    fast = check(path, floats(*IMAGE), 2)
    assert operators(fast) == ["SparseLayer", "SparseLayer"]


def test_the_share_of_weights_that_became_sparse(tmp_path):
    nodes = [node("MatMul", "x w", "p"), node("MatMul", "p d", "q"),
             node("Einsum", "q e", "y", equation="ij,jk->i")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(32, 48), "d": floats(48, 16),
                                              "e": sparse(16, 16)}, ["n", 32])
    report = check(path, floats(3, 32), 1, exact_passes=False).report

    assert {row.kind: row.shape for row in report.rows if not row.sparse} == {
        "MatMul": (16, 48), "Einsum": (16, 16)}
    assert report.sparse_share == 32 * 48 / (32 * 48 + 48 * 16 + 16 * 16)
    assert "1 of 3 layers are sparse, 60.0 % of the model's weights" in str(report)


def test_names_of_nodes_are_unique(tmp_path):
    """A profile knows nodes by name: one without may not get another's."""
    nodes = [node("MatMul", "x w", "p", name="Neg 2"), node("Neg", "p", "q"),
             node("Neg", "q", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(32, 48)}, ["n", 32])
    names = [one.name for one in with_unique_names(onnx.load(path)).graph.node]
    assert len(set(names)) == 3
