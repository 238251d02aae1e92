"""ONNX models, and what ONNX Runtime computes of them with and without kernels."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import spjit.onnx
from spjit.onnx import _optimize

RNG = np.random.default_rng(5)


def sparse(*shape, zeros=0.9):
    weight = RNG.standard_normal(shape).astype(np.float32)
    weight[RNG.random(shape) < zeros] = 0
    return weight


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def write(path, nodes, constants, x_shape, *, dtype=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, x_shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def dense_of(path, x):
    return onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]


@pytest.fixture(autouse=True)
def kernels_are_faster(request, monkeypatch):
    """These layers are too small to win, and no test may depend on a time."""
    if "measured" in request.keywords:
        return
    monkeypatch.setattr(_optimize, "model_times",
                        lambda sessions, *_: [float(len(sessions) - i) for i, _ in
                                              enumerate(sessions)])
    monkeypatch.setattr(_optimize, "_compare", lambda *_: None)


def sparse_nodes(optimized):
    return [one for one in optimized.model.graph.node if one.op_type == "SparseLayer"]


def check(path, x, count, **options):
    """An optimized model with so many kernels, which gives what the dense one does."""
    fast = spjit.onnx.optimize(path, x, **options)

    assert len(sparse_nodes(fast)) == count, str(fast.report)
    assert len(fast.report.sparse) == count
    y, reference = fast(x)[0], dense_of(path, x)
    assert y.shape == reference.shape
    np.testing.assert_allclose(y, reference, rtol=0, atol=1e-5 * np.abs(reference).max())
    return fast


W1, B1, W2, B2 = sparse(32, 48), floats(48), sparse(48, 32), floats(32)
IMAGE = (2, 8, 11, 9)
GELU = [node("Div", "p root2", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"),
        node("Mul", "p a", "m"), node("Mul", "m half", "h")]


@pytest.fixture
def feed_forward(tmp_path):
    """y = W2 gelu(W1 x + b1) + b2, x [batch, tokens, 32]."""
    nodes = [node("MatMul", "x w1", "o"), node("Add", "b1 o", "p"), *GELU,
             node("MatMul", "h w2", "q"), node("Add", "q b2", "y")]
    constants = {"w1": W1, "b1": B1, "w2": W2, "b2": B2, "root2": np.float32(2**0.5),
                 "one": np.float32(1), "half": np.float32(0.5)}
    return write(tmp_path / "model.onnx", nodes, constants, ["batch", "tokens", 32])
