"""ONNX Runtime's SkipLayerNormalization behind a product, as a sum and a normalization."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit.onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_idle_fuzz import run
from onnx_testing import floats, kernels_are_faster, sparse  # noqa: F401
from spjit.onnx import _skip

SIZE = 16
CONSTANTS = {"w": sparse(SIZE, SIZE), "scale": floats(SIZE), "shift": floats(SIZE),
             "bias": floats(SIZE)}
X = floats(2, 3, SIZE)
PRODUCT = helper.make_node("MatMul", ["x", "w"], ["p"], "product")


def skip(inputs, outputs="y", **attributes):
    names = [["" if name == "-" else name for name in part.split()] for part in (inputs, outputs)]
    return helper.make_node("SkipLayerNormalization", *names, "skip", domain="com.microsoft",
                            **attributes)


def model_of(nodes, outputs=("y",), opset=17):
    used = {name for one in nodes for name in one.input}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, SIZE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in CONSTANTS.items() if name in used])
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])


def operators(model):
    return [one.op_type for one in model.graph.node]


@pytest.mark.parametrize(("node", "outputs", "left"), [
    (skip("p x scale shift"), "y", ["MatMul", "Add", "LayerNormalization"]),
    (skip("x p scale"), "y", ["MatMul", "Add", "LayerNormalization"]),
    (skip("p x scale shift bias", epsilon=0.5), "y", ["MatMul", "Add", "Add", "LayerNormalization"]),
    (skip("x p scale - bias"), "y", ["MatMul", "Add", "Add", "LayerNormalization"]),
    (skip("p x scale shift bias", "y - - z"), "yz", ["MatMul", "Add", "Add", "LayerNormalization"]),
], ids=["plain", "second", "bias", "without a shift", "sum"])
def test_split(node, outputs, left):
    model = model_of([PRODUCT, node], outputs)
    wanted = run(model, X)

    split = _skip.split_skips(model)

    assert operators(split) == left
    assert len({one.name for one in split.graph.node}) == len(left)
    for y, other in zip(run(split, X), wanted):
        np.testing.assert_allclose(y, other, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("nodes", "outputs", "opset"), [
    ([helper.make_node("Neg", ["x"], ["p"]), skip("p x scale shift")], "y", 17),
    ([helper.make_node("MatMul", ["x", "t"], ["p"]), skip("p x scale shift")], "y", 17),
    ([PRODUCT, skip("p x scale shift")], "y", 16),
    ([PRODUCT, skip("p x scale shift", "y m")], "ym", 17),
], ids=["no product", "no constant", "old", "mean"])
def test_what_stays(nodes, outputs, opset):
    if nodes[0].op_type == "MatMul" and "t" in nodes[0].input:
        nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
                 helper.make_node("MatMul", ["x", "t"], ["q"]),
                 helper.make_node("MatMul", ["q", "x"], ["p"]), nodes[1]]
    model = model_of(nodes, outputs, opset)
    assert operators(_skip.split_skips(model)) == [one.op_type for one in nodes]


def block(path):
    """A product, a residual sum and a normalization, which ONNX Runtime fuses."""
    nodes = [PRODUCT, helper.make_node("Add", ["p", "bias"], ["b"]),
             helper.make_node("Add", ["b", "x"], ["s"]),
             helper.make_node("LayerNormalization", ["s", "scale", "shift"], ["y"], axis=-1)]
    onnx.save(model_of(nodes), str(path))
    return path


def in_a_session(model, options, folder):
    """What ONNX Runtime makes of it."""
    options.optimized_model_filepath = str(folder / "made.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return operators(onnx.load(options.optimized_model_filepath))


def test_they_stay_apart_behind_a_kernel(tmp_path):
    path = block(tmp_path / "model.onnx")
    wanted = run(onnx.load(str(path)), X)[0]
    assert "SkipLayerNormalization" in in_a_session(
        onnx.load(str(path)), onnxruntime.SessionOptions(), tmp_path)

    fast = spjit.onnx.optimize(path, X)

    assert in_a_session(fast.model, fast._options(), tmp_path) == ["SparseLayer", "Add",
                                                                   "LayerNormalization"]
    np.testing.assert_allclose(fast(X)[0], wanted, rtol=0, atol=1e-5)


def test_they_are_fused_behind_a_product(tmp_path):
    model = _skip.split_skips(model_of([PRODUCT, skip("p x scale shift bias")]))
    assert in_a_session(model, onnxruntime.SessionOptions(), tmp_path) == [
        "MatMul", "SkipLayerNormalization"]
