"""Options of sessions, libraries of operators and inputs that a caller brings."""

from __future__ import annotations

import gc
import os
import signal
import tempfile

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit
import spjit.onnx
from onnx import helper
from onnx_testing import check, floats, kernels_are_faster, node, sparse, write  # noqa: F401
from spjit.onnx import _optimize, _optimized


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


@pytest.mark.parametrize("entries", [
    {"session.save_model_format": "ORT"},
    {"session.optimized_model_external_initializers_file_name": "weights.bin",
     "session.optimized_model_external_initializers_min_size_in_bytes": "10"}])
def test_options_that_say_how_a_model_is_written(model, entries):
    def options():
        made = onnxruntime.SessionOptions()
        for entry, value in entries.items():
            made.add_session_config_entry(entry, value)
        return made

    check(model, floats(5, 32), 1, session_options=options)


def test_a_model_in_the_format_of_onnxruntime_is_refused(model, tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(model), options)
    with pytest.raises(spjit.InvalidArgument, match="own format; expected the .onnx file"):
        spjit.onnx.optimize(tmp_path / "m.ort", floats(5, 32))


@pytest.mark.parametrize("name", ["m.json", "m.onnxtxt", "m.pbtxt"])
def test_models_are_binary_whatever_their_names(model, tmp_path, name, monkeypatch):
    x = floats(5, 32)
    original = model.rename(tmp_path / name)
    fast = spjit.onnx.optimize(original, x)
    fast.save(tmp_path / f"fast.{name}")
    session = spjit.onnx.load(tmp_path / f"fast.{name}")
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], fast(x)[0])
    monkeypatch.setattr(_optimize, "model_times", lambda sessions, *_: list(range(len(sessions))))
    assert not spjit.onnx.optimize(original, x).report.sparse


@pytest.mark.parametrize("made_of", [lambda path: path.read_bytes(), os.fsencode, onnx.load,
                                     lambda path: onnxruntime.InferenceSession(str(path))])
def test_models_that_are_no_paths_are_refused(model, made_of):
    given, x = made_of(model), floats(5, 32)
    message = f"the model is a {type(given).__name__}; expected the path of a file"
    with pytest.raises(spjit.InvalidArgument, match=message):
        spjit.onnx.optimize(given, x)
    with pytest.raises(spjit.InvalidArgument, match=message):
        spjit.onnx.load(given)
    with pytest.raises(spjit.InvalidArgument, match=message):
        spjit.onnx.optimize(model, x).save(given)


def test_models_whose_names_differ_behind_a_dot_have_kernels_each(model, tmp_path):
    x = floats(5, 32)
    other = write(tmp_path / "other.onnx", [node("MatMul", "x w", "y")], {"w": sparse(32, 40)},
                  ["tokens", 32])
    one, two = (spjit.onnx.optimize(path, x) for path in (model, other))
    one.save(tmp_path / "net-0.8")
    two.save(tmp_path / "net-0.9")
    for path, made in ((tmp_path / "net-0.8", one), (tmp_path / "net-0.9", two)):
        np.testing.assert_array_equal(spjit.onnx.load(path).run(None, {"x": x})[0], made(x)[0])
    assert (tmp_path / "net-0.8.spjit").exists()


def test_options_that_are_no_function_are_refused(model):
    with pytest.raises(spjit.InvalidArgument, match="SessionOptions; expected a function"):
        spjit.onnx.optimize(model, floats(5, 32), session_options=onnxruntime.SessionOptions())
    with pytest.raises(spjit.InvalidArgument, match="'own.so'; expected a list of paths"):
        spjit.onnx.optimize(model, floats(5, 32), operator_libraries="own.so")
    for wrong in (5, [5], {"own.so"}, None):
        with pytest.raises(spjit.InvalidArgument, match="operator_libraries is .*list of paths"):
            spjit.onnx.optimize(model, floats(5, 32), operator_libraries=wrong)


def test_what_a_function_of_options_gives(model):
    with pytest.raises(spjit.InvalidArgument, match="made a NoneType; expected an onnxruntime"):
        spjit.onnx.optimize(model, floats(5, 32), session_options=lambda: None)
    same = onnxruntime.SessionOptions()
    with pytest.raises(spjit.InvalidArgument, match="has already; expected new ones each time"):
        spjit.onnx.optimize(model, floats(5, 32), session_options=lambda: same)


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


def two_inputs(tmp_path):
    graph = helper.make_graph(
        [node("MatMul", "x w", "p"), node("Add", "p threads", "y")], "g",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size])
         for name, size in (("x", 32), ("threads", 48))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(sparse(32, 48), "w")])
    path = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              str(path))
    return path


def test_examples_by_name(model, tmp_path):
    x, more = floats(5, 32), floats(5, 48)
    fast = spjit.onnx.optimize(model, x=x)
    np.testing.assert_array_equal(fast(x=x)[0], fast(x)[0])
    # An input with the name of an option is in the dict, and others may be beside it.
    both = spjit.onnx.optimize(two_inputs(tmp_path), {"threads": more}, x=x, threads=2)
    assert both.report.threads == 2
    assert len(both.report.sparse) == 1
    np.testing.assert_array_equal(both({"threads": more}, x=x)[0], both(x, more)[0])


@pytest.mark.parametrize("budget", ["x", None, -1, float("nan")])
def test_a_budget_that_is_none(model, budget):
    with pytest.raises(spjit.InvalidArgument, match=f"budget is {budget!r}; expected seconds"):
        spjit.onnx.optimize(model, floats(5, 32), budget=budget)


def test_a_budget_without_end(model):
    with pytest.raises(spjit.InvalidArgument, match="budget is inf; expected a finite number"):
        spjit.onnx.optimize(model, floats(5, 32), budget=float("inf"))


def test_ctrl_c_leaves_no_folder(model, tmp_path, monkeypatch):
    """Also where it comes between making one and knowing it."""
    fast = spjit.onnx.optimize(model, floats(5, 32))
    made, make = [], tempfile.mkdtemp

    def interrupted(*arguments, **options):
        made.append(make(*arguments, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return made[-1]

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for call in (lambda: fast.save(tmp_path / "fast.onnx"), _optimized.KernelFolder,
                     lambda: spjit.onnx.optimize(model, floats(5, 32))):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(tempfile, "mkdtemp", interrupted)
                call()
            gc.collect()
    finally:
        signal.signal(signal.SIGINT, handler)

    assert len(made) == 3
    assert not any(os.path.exists(folder) for folder in made)
    np.testing.assert_array_equal(  # what had begun is whole
        spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": np.ones((2, 32), np.float32)})[0],
        fast(np.ones((2, 32), np.float32))[0])


@pytest.mark.parametrize(("inputs", "named", "message"), [
    ((1, ), {"x": 2}, "1 inputs in order and 'x' by name; expected all in order or all by name"),
    (({"x": 1}, {"y": 1}), {"x": 2}, "2 inputs in order"),
    (({"x": 1}, ), {"x": 2}, "both have 'x'; expected it once"),
    ((), {"z": 1}, "the inputs are 'z'; expected 'x'"),
    (({"x": 1}, ), {"thread": 2}, "the inputs are 'x', 'thread'; expected 'x'"),
])
def test_inputs_that_are_not_the_models(model, tmp_path, inputs, named, message):
    fast = spjit.onnx.optimize(model, floats(5, 32))
    dense = write(tmp_path / "dense.onnx", [node("Abs", "x", "y")], {}, [3, 32])
    for call in (fast, lambda *given, **more: spjit.onnx.optimize(model, *given, **more),
                 lambda *given, **more: spjit.onnx.optimize(dense, *given, **more)):
        with pytest.raises(spjit.InvalidArgument, match=message):
            call(*inputs, **named)
