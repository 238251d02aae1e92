"""Activations that are part of kernels in an ONNX model, beside ONNX Runtime's own."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

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

W1, B1 = sparse(32, 48), floats(48)
IMAGE = (2, 8, 11, 9)

# What a kernel has of it behind a product, and behind a convolution; None: it stays a node.
FUSED = [("Sigmoid", {}, "sigmoid", "sigmoid"), ("Tanh", {}, "tanh", None),
         ("LeakyRelu", {"alpha": 0.1}, "leaky-relu:0.1", "leaky-relu:0.1"),
         ("LeakyRelu", {"alpha": -2.5}, "leaky-relu:-2.5", "leaky-relu:-2.5"),
         ("LeakyRelu", {}, "leaky-relu:0.01", "leaky-relu:0.01"),
         ("HardSigmoid", {}, "hard-sigmoid:0.2,0.5", "hard-sigmoid:0.2,0.5"),
         ("HardSigmoid", {"alpha": 1 / 6}, *2 * ("hard-sigmoid:0.16666667,0.5", )),
         ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, *2 * ("hard-sigmoid:0.3,0.4", )),
         ("Softplus", {}, None, None), ("Elu", {"alpha": 0.7}, None, None),
         ("Selu", {"alpha": 1.5, "gamma": 1.1}, None, None)]


@pytest.mark.parametrize(("op", "attributes", "product", "convolution"), FUSED)
def test_activations_that_onnxruntime_fuses_into_a_layer(tmp_path, op, attributes, product,
                                                         convolution):
    for layer, constants, shape, within in (
            ("Gemm", {"w": W1, "b": B1}, (3, 32), product),
            ("Conv", {"w": sparse(6, 8, 3, 3, zeros=0.7), "b": floats(6)}, IMAGE, convolution)):
        nodes = [node(layer, "x w b", "p"), node(op, "p", "y", **attributes)]
        path, x = write(tmp_path / "m.onnx", nodes, constants, list(shape)), floats(*shape)
        fast = check(path, x, 1)
        names = [one.op_type for one in fast.model.graph.node]
        assert names == (["SparseLayer"] if within else ["SparseLayer", op])
        assert fast.report.rows[0].activation == (within or "")
        fast.save(tmp_path / "fast.onnx")
        again = spjit.onnx.load(tmp_path / "fast.onnx")
        np.testing.assert_array_equal(again.run(None, {"x": x})[0], fast(x)[0])


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 90, -90, -1, 2, -3,
                    3, 0.5], np.float32)


@pytest.mark.parametrize(("op", "attributes"), [
    ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"alpha": 0.1}), ("LeakyRelu", {"alpha": -2.5}),
    ("LeakyRelu", {"alpha": 0.0}), ("HardSigmoid", {}), ("HardSigmoid", {"alpha": 1 / 6}),
    ("HardSigmoid", {"alpha": -1.0, "beta": 2.0})])
def test_special_values_of_activations(tmp_path, op, attributes):
    """A layer that gives what it takes, and a sum: without it, its weights would be one-hot."""
    weight = np.concatenate([np.eye(16, dtype=np.float32), np.ones((16, 1), np.float32)], axis=1)
    nodes = [node("MatMul", "x w", "p"), node(op, "p", "y", **attributes)]
    path = write(tmp_path / "m.onnx", nodes, {"w": weight}, ["n", 16])
    alone = write(tmp_path / "alone.onnx", [node(op, "x", "y", **attributes)], {}, ["n", 16])
    x = np.stack([np.roll(SPECIAL, i) for i in range(16)])

    fast = spjit.onnx.optimize(path, x)
    y, reference = fast(x)[0][:, :16], dense_of(alone, x)

    assert [one.op_type for one in fast.model.graph.node] == ["SparseLayer"]
    np.testing.assert_allclose(y, reference, rtol=1e-6, atol=1.2e-7)
    # Products have -0 as 0, and beyond 80 ONNX Runtime's sigmoid is 0.
    zeros = (reference == 0) & (x != 0) & (np.abs(x) < 80)
    np.testing.assert_array_equal(np.signbit(y[zeros]), np.signbit(reference[zeros]))


def test_forms_of_a_leaky_relu(tmp_path):
    constants = {"w": W1, "slope": np.full((1, 1), 0.2, np.float32)}
    for behind in ([node("PRelu", "p slope", "y")],
                   [node("Mul", "p slope", "m"), node("Max", "m p", "y")]):
        path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "p"), *behind], constants, [3, 32])
        fast = check(path, floats(3, 32), 1)
        assert [one.op_type for one in fast.model.graph.node] == ["SparseLayer"]
        assert fast.report.rows[0].activation == "leaky-relu:0.2"


def test_a_gate_of_another_layer_has_its_sigmoid(tmp_path):
    nodes = [node("MatMul", "x w", "p"), node("Sigmoid", "p", "s"), node("MatMul", "x v", "q"),
             node("Mul", "s q", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": W1, "v": sparse(32, 48)}, [3, 32])
    fast = check(path, floats(3, 32), 2)
    assert [row.activation for row in fast.report.rows] == ["sigmoid", ""]


@pytest.mark.parametrize(("given", "other"), [('"alpha":0.125', '"alpha":0.25'),
                                              ('"beta":0.75', '"beta":0.5')])
def test_a_kernel_of_another_parameter_is_refused(tmp_path, given, other):
    nodes = [node("Gemm", "x w b", "p"), node("HardSigmoid", "p", "y", alpha=0.125, beta=0.75)]
    path = write(tmp_path / "m.onnx", nodes, {"w": W1, "b": B1}, ["n", 32])
    spjit.onnx.optimize(path, floats(3, 32)).save(tmp_path / "fast.onnx")
    model = onnx.load(str(tmp_path / "fast.onnx"))
    problem, = [one for one in model.graph.node[0].attribute if one.name == "problem"]
    assert given in problem.s.decode()

    problem.s = problem.s.replace(given.encode(), other.encode())
    onnx.save(model, str(tmp_path / "fast.onnx"))

    with pytest.raises(Exception, match="spjit, node .*is another one"):
        spjit.onnx.load(tmp_path / "fast.onnx")
