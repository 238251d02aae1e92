"""Models that ONNX Runtime runs with kernels as operators, beside what it computes densely."""

from __future__ import annotations

import threading

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit
import spjit.onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_testing import (  # noqa: F401
    B1,
    B2,
    IMAGE,
    W1,
    W2,
    check,
    dense_of,
    feed_forward,
    floats,
    kernels_are_faster,
    node,
    sparse,
    write,
)
from spjit.onnx import _graph, _sessions


onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")


onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def test_a_feed_forward_block(feed_forward):
    fast = check(feed_forward, floats(2, 5, 32), 2)

    names = [one.op_type for one in fast.model.graph.node]
    assert names == ["SparseLayer", "SparseLayer"]
    assert not {"w1", "w2"} & {one.name for one in fast.model.graph.initializer}


@pytest.mark.parametrize("behind", [
    [node("Relu", "p", "y")],
    [node("Sigmoid", "p", "s"), node("Mul", "p s", "y")],
    [node("Clip", "p low high", "y")],
    [node("Mul", "p b1", "m"), node("Add", "m b1", "y")],
])
def test_activations_and_factors(tmp_path, behind):
    nodes = [node("MatMul", "x w1", "o"), node("Add", "o b1", "p"), *behind]
    constants = {"w1": W1, "b1": B1, "low": np.float32(-0.5), "high": np.float32(0.7)}
    check(write(tmp_path / "m.onnx", nodes, constants, [3, 32]), floats(3, 32), 1)


@pytest.mark.parametrize("limit", [7, 10, 20])
def test_a_clamp_behind_an_activation(tmp_path, limit):
    nodes = [node("MatMul", "x w1", "p"), node("Sigmoid", "p", "s"), node("Mul", "p s", "m"),
             helper.make_node("Clip", ["m", "", "limit"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, {"w1": W1, "limit": np.float32(limit)}, [3, 32])

    fast = check(path, 100 * floats(3, 32), 1)

    assert fast(100 * floats(3, 32))[0].max() == limit


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(tmp_path, transposed):
    nodes = [node("Gemm", "x w b1", "y", transB=transposed, alpha=0.5, beta=2.0)]
    constants = {"w": W1.T.copy() if transposed else W1, "b1": B1}
    check(write(tmp_path / "m.onnx", nodes, constants, ["n", 32]), floats(7, 32), 1)


def test_weights_through_identity_and_shared(tmp_path):
    square = sparse(32, 32)
    nodes = [node("Identity", "w", "v"), node("MatMul", "x v", "p"), node("MatMul", "p w", "q"),
             node("Relu", "q", "y")]
    fast = check(write(tmp_path / "m.onnx", nodes, {"w": square}, ["n", 32]), floats(4, 32), 2)
    assert len({row.kernel for row in fast.report.sparse}) == 1


@pytest.mark.parametrize("attributes", [
    {},
    {"strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"dilations": [1, 2], "pads": [1, 2, 1, 2]},
    {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "SAME_LOWER"},
    {"auto_pad": "VALID"},
    {"group": 2},
])
@pytest.mark.parametrize("dims", [list(IMAGE), ["batch", 8, "height", "width"]])
def test_convolutions(tmp_path, attributes, dims):
    weight = sparse(6, 8 // attributes.get("group", 1), 3, 3, zeros=0.7)
    nodes = [node("Conv", "x w b", "c", **attributes), node("Relu", "c", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": weight, "b": floats(6)}, dims)
    fast = check(path, floats(*IMAGE), 1)
    if dims[0] == "batch":
        x = floats(1, 8, 14, 6)
        np.testing.assert_allclose(fast(x)[0], dense_of(path, x), rtol=0, atol=1e-4)


def test_a_convolution_of_one_tap_and_a_sum(tmp_path):
    nodes = [node("Conv", "x w b", "c"), node("Add", "c x", "s"), node("Relu", "s", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(8, 8, 1, 1), "b": floats(8)},
                 ["n", 8, "h", "w_"])
    fast = check(path, floats(*IMAGE), 1)
    x = floats(3, 8, 4, 5)
    np.testing.assert_allclose(fast(x)[0], dense_of(path, x), rtol=0, atol=1e-4)


def test_values_that_have_the_names_that_new_ones_would_have(tmp_path):
    nodes = [helper.make_node("Abs", ["x"], ["spjit fc bias"]),
             helper.make_node("Neg", ["x"], ["shape of x"]),
             helper.make_node("Gemm", ["x", "w", "b"], ["p linear"], "fc"),
             helper.make_node("Softplus", ["p linear"], ["p"]),
             helper.make_node("Concat", ["p", "spjit fc bias", "shape of x"], ["y"], axis=1)]
    check(write(tmp_path / "m.onnx", nodes, {"w": W1, "b": B1}, [3, 32]), floats(3, 32), 1)


@pytest.mark.parametrize("behind", [
    [node("Add", "o b", "y")],
    [node("Mul", "o b", "y")],
    [node("Sigmoid", "o", "s"), node("Mul", "o s", "m"), node("Mul", "m one", "y")],
], ids=["bias", "factor", "activation"])
def test_constants_that_add_dimensions_stay(tmp_path, behind):
    constants = {"w": W1, "b": floats(1, 1, 48), "one": np.ones((1, 1, 1), np.float32)}
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "o"), *behind], constants, ["n", 32])

    fast = check(path, floats(3, 32), 1)

    assert [one.op_type for one in fast.model.graph.node][-1] in ("Add", "Mul")


@pytest.mark.parametrize("zeros", [0.9, 0])
def test_weights_in_a_file_beside_the_model(tmp_path, monkeypatch, zeros):
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "y")],
                 {"w": sparse(32, 48, zeros=zeros)}, ["n", 32])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin",
              size_threshold=0)

    fast = check(path, floats(3, 32), int(zeros > 0.5))

    x = floats(4, 32)
    fast.save(tmp_path / "fast.onnx")
    if zeros:
        assert np.array_equal(spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x}), fast(x))
    monkeypatch.chdir(tmp_path)
    check("m.onnx", x, int(zeros > 0.5))


def test_initializers_that_are_inputs(tmp_path):
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "y")], {"w": W1}, ["n", 32])
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, W1.shape))
    onnx.save(model, path)
    check(path, floats(3, 32), 0)  # a run may give others

    model.ir_version = 3
    model.opset_import[0].version = 8
    onnx.save(model, path)
    check(path, floats(3, 32), 1)


def test_sparse_and_half_precision_weights(tmp_path):
    nodes = [node("Cast", "x", "h", to=TensorProto.FLOAT16), node("MatMul", "h w", "p"),
             node("Cast", "p", "y", to=TensorProto.FLOAT)]
    path = write(tmp_path / "half.onnx", nodes, {"w": W1.astype(np.float16)}, ["n", 32])
    check(path, floats(3, 32), 1)

    path = write(tmp_path / "sparse.onnx", [node("MatMul", "x w", "y")], {}, ["n", 32])
    model = onnx.load(path)
    places = np.flatnonzero(W1)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(
        numpy_helper.from_array(W1.ravel()[places], "w"),
        numpy_helper.from_array(places, "places"), W1.shape))
    onnx.save(model, path)
    fast = check(path, floats(3, 32), 1)
    assert not fast.model.graph.sparse_initializer


def test_a_model_that_has_kernels_already_is_refused(feed_forward, tmp_path):
    x = floats(2, 5, 32)
    spjit.onnx.optimize(feed_forward, x).save(tmp_path / "fast.onnx")
    with pytest.raises(spjit.InvalidArgument, match="has kernels of spjit already"):
        spjit.onnx.optimize(tmp_path / "fast.onnx", x)


def test_threads_that_are_no_number_are_refused(feed_forward):
    with pytest.raises(spjit.InvalidArgument, match="threads is '2'; expected a whole number"):
        spjit.onnx.optimize(feed_forward, floats(2, 5, 32), threads="2")


def test_a_model_without_sparse_layers(tmp_path):
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "y")], {"w": floats(32, 8)}, [3, 32])
    fast = check(path, floats(3, 32), 0)
    assert fast.report.rows[0].reason == "less than 50 % zeros"


def test_layers_that_are_none_are_in_the_report(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Einsum", "x w", "y", equation="nchw,co->nhw")],
                 {"w": sparse(8, 4)}, list(IMAGE))
    row, = spjit.onnx.optimize(path, floats(*IMAGE)).report.rows
    assert (row.kind, row.sparse) == ("Einsum", False)
    assert "is in one operand alone" in row.reason


def test_bits_are_those_of_spjits_kernels(feed_forward):
    x = floats(2, 5, 32)
    fast = spjit.onnx.optimize(feed_forward, x)
    up = spjit.compile(np.ascontiguousarray(W1.T), activation="gelu", bias=True)
    down = spjit.compile(np.ascontiguousarray(W2.T), bias=True)
    np.testing.assert_array_equal(fast(x)[0], down(up(x, bias=B1), bias=B2))


def test_bits_do_not_depend_on_batch_length_and_threads(feed_forward):
    x = floats(3, 70, 32)
    expected = spjit.onnx.optimize(feed_forward, x)(x)[0]
    for threads in (1, 2, 3):
        fast = spjit.onnx.optimize(feed_forward, x[:1, :5], threads=threads)
        np.testing.assert_array_equal(fast(x)[0], expected)
        for length in (1, 2, 9, 33):
            np.testing.assert_array_equal(fast(x[1:2, :length])[0], expected[1:2, :length])


def test_no_tokens(feed_forward):
    fast = spjit.onnx.optimize(feed_forward, floats(2, 5, 32))
    assert fast(floats(0, 5, 32))[0].shape == (0, 5, 32)
    assert fast(floats(2, 0, 32))[0].shape == (2, 0, 32)


def test_threads_run_one_model(feed_forward):
    fast = spjit.onnx.optimize(feed_forward, floats(2, 5, 32), threads=2)
    inputs = [floats(2, 40 + i, 32) for i in range(6)]
    expected = [fast(x)[0] for x in inputs]
    wrong = []

    def work(i):
        for _ in range(20):
            if not np.array_equal(fast(inputs[i])[0], expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("shape", [None, ["batch", "length", 48]])
def test_shapes_of_outputs_are_what_they_were(tmp_path, shape):
    """Programs ask a session for them; ONNX Runtime finds none behind a kernel."""
    nodes = [node("MatMul", "x w1", "p"), node("Softplus", "p", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w1": W1}, ["n", None, 32])
    model = onnx.load(path)
    if shape:
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
        onnx.save(model, path)
    expected = [one.shape for one in onnxruntime.InferenceSession(str(path)).get_outputs()]

    fast = check(path, floats(2, 3, 32), 1)
    fast.save(tmp_path / "fast.onnx")

    for session in (fast.session, spjit.onnx.load(tmp_path / "fast.onnx")):
        assert [one.shape for one in session.get_outputs()] == expected


def test_weights_that_became_kernels_go_beside_graphs_within_nodes(tmp_path):
    """Which read other constants of the main graph."""
    def branch(name, constant):
        return helper.make_graph([node("Add", f"p {constant}", name)], name, [],
                                 [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    nodes = [node("MatMul", "x w1", "p"), node("ReduceSum", "x", "s", keepdims=0),
             node("Greater", "s zero", "c"),
             node("If", "c", "y", then_branch=branch("t", "one"), else_branch=branch("e", "two"))]
    constants = {"w1": W1, "zero": np.float32(0), "one": floats(48), "two": floats(48)}
    path = write(tmp_path / "m.onnx", nodes, constants, ["n", 32])
    x = floats(3, 32)

    fast = check(path, x, 1)

    assert not any(list(one.dims) == list(W1.shape) for one in fast.model.graph.initializer)
    np.testing.assert_allclose(fast(-x)[0], dense_of(path, -x), rtol=1e-5, atol=1e-5)


def test_a_layer_whose_name_is_too_long_stays_dense(tmp_path):
    nodes = [node("MatMul", "x w1", "p", name="n" * 1001), node("MatMul", "p w2", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w1": W1, "w2": W2}, ["n", 32])
    fast = check(path, floats(3, 32), 1)
    assert any("1000" in row.reason for row in fast.report.rows)


def test_wrong_operands(feed_forward):
    fast = spjit.onnx.optimize(feed_forward, floats(1, 2, 32))
    bias = next(one for one in fast.model.graph.initializer if one.name.endswith("bias"))
    bias.CopyFrom(numpy_helper.from_array(floats(3), bias.name))
    message = r"the bias has the shape \[3\]; expected \[48\]"

    # Constants are looked at once, others in each run.
    with pytest.raises(Exception, match=message):
        _graph.session_of(fast.model, _sessions.sparse_options(fast._kernels.path, 1))
    fast.model.graph.input.append(
        helper.make_tensor_value_info(bias.name, TensorProto.FLOAT, ["any"]))
    fast.model.graph.initializer.remove(bias)
    session = _graph.session_of(fast.model, _sessions.sparse_options(fast._kernels.path, 1))
    session.run(None, {"x": floats(1, 2, 32), bias.name: floats(48)})
    with pytest.raises(Exception, match=message):
        session.run(None, {"x": floats(1, 2, 32), bias.name: floats(3)})


def test_wrong_inputs(feed_forward):
    with pytest.raises(spjit.InvalidArgument, match="2 inputs; expected 1: x"):
        spjit.onnx.optimize(feed_forward, floats(1, 2, 32), floats(1))


def test_an_old_onnxruntime(monkeypatch):
    monkeypatch.setattr(onnxruntime, "__version__", "1.16.3")
    with pytest.raises(spjit.NotSupported, match="expected 1.17 or later"):
        spjit.onnx.load("m.onnx")
