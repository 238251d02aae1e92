"""Options of sessions, libraries of operators and inputs that a caller brings."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit
import spjit.onnx
from onnx import helper
from onnx_testing import check, floats, kernels_are_faster, node, sparse, write  # noqa: F401


@pytest.fixture
def model(tmp_path):
    return write(tmp_path / "m.onnx", [node("MatMul", "x w", "p"), node("Relu", "p", "y")],
                 {"w": sparse(32, 48)}, ["tokens", 32])


def test_own_session_options(model, tmp_path):
    made = []

    def options():
        made.append(onnxruntime.SessionOptions())
        made[-1].add_free_dimension_override_by_name("tokens", 5)
        made[-1].intra_op_num_threads = 7
        return made[-1]

    fast = spjit.onnx.optimize(model, floats(5, 32), session_options=options, threads=2)
    fast.save(tmp_path / "fast.onnx")
    session = spjit.onnx.load(tmp_path / "fast.onnx", session_options=options)

    assert len(fast.report.sparse) == 1
    assert len(made) == len({id(one) for one in made}) > 4
    assert fast.session.get_inputs()[0].shape == [5, 32]
    assert session.get_inputs()[0].shape == [5, 32]
    assert fast.session.get_session_options().intra_op_num_threads == 2


def test_options_that_are_no_function_are_refused(model):
    with pytest.raises(spjit.InvalidArgument, match="SessionOptions; expected a function"):
        spjit.onnx.optimize(model, floats(5, 32), session_options=onnxruntime.SessionOptions())
    with pytest.raises(spjit.InvalidArgument, match="'own.so'; expected a list of paths"):
        spjit.onnx.optimize(model, floats(5, 32), operator_libraries="own.so")


def test_a_library_of_operators(tmp_path):
    extensions = pytest.importorskip("onnxruntime_extensions",
                                     reason="onnxruntime-extensions is not installed")
    library = extensions.get_library_path()
    nodes = [node("MatMul", "x w", "p"),
             helper.make_node("NegPos", ["p"], ["n", "y"], domain="ai.onnx.contrib")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(32, 48)}, [3, 32])
    changed = onnx.load(path)
    changed.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    onnx.save(changed, path)
    x = floats(3, 32)

    fast = spjit.onnx.optimize(path, x, operator_libraries=[library])
    fast.save(tmp_path / "fast.onnx")
    session = spjit.onnx.load(tmp_path / "fast.onnx", operator_libraries=[library])

    assert [one.op_type for one in fast.model.graph.node] == ["SparseLayer", "NegPos"]
    weight = onnx.numpy_helper.to_array(changed.graph.initializer[0])
    np.testing.assert_allclose(fast(x)[0], np.maximum(x @ weight, 0), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], fast(x)[0])
    with pytest.raises(Exception, match="NegPos"):
        spjit.onnx.optimize(path, x)


def test_inputs_by_name(model):
    x = floats(5, 32)
    fast = spjit.onnx.optimize(model, {"x": x})
    np.testing.assert_array_equal(fast(x=x)[0], fast(x)[0])
    np.testing.assert_array_equal(fast({"x": x})[0], fast(x)[0])


@pytest.mark.parametrize("names", [[], ["z"], ["x", "z"]])
def test_other_names_are_refused(model, names):
    with pytest.raises(spjit.InvalidArgument, match="expected 'x'"):
        spjit.onnx.optimize(model, {name: floats(5, 32) for name in names})
