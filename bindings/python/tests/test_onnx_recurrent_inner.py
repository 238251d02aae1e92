"""LSTM and GRU in graphs within If, Loop and Scan, against ONNX Runtime."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnxruntime  # noqa: E402
import spjit.onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from onnx_testing import floats, kernels_are_faster, sparse  # noqa: E402, F401

HIDDEN, INPUTS = 9, 6


def weights_of(prefix, op="LSTM"):
    rows = {"LSTM": 4, "GRU": 3}[op] * HIDDEN
    return [numpy_helper.from_array(value, f"{prefix}{name}") for name, value in (
        ("w", sparse(1, rows, INPUTS, zeros=0.7)), ("r", sparse(1, rows, HIDDEN, zeros=0.7)),
        ("b", floats(1, 2 * rows)))]


def value(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def saved(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              str(path))
    return path


def branches(path):
    """An LSTM, whose weights are of the main graph, and a GRU, whose weights are its own."""
    one = helper.make_graph(
        [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y1"], "lstm", hidden_size=HIDDEN)],
        "then", [], [value("y1")])
    other = helper.make_graph(
        [helper.make_node("GRU", ["x", "gw", "gr", "gb"], ["y2"], "gru", hidden_size=HIDDEN)],
        "else", [], [value("y2")], weights_of("g", "GRU"))
    chosen = helper.make_node("If", ["c"], ["y"], "if", then_branch=one, else_branch=other)
    return saved(path, [chosen], [value("x", ["s", "n", INPUTS]), value("c", [], TensorProto.BOOL)],
                 [value("y")], weights_of(""))


def assert_same(path, session, feeds):
    expected = onnxruntime.InferenceSession(str(path)).run(None, feeds)
    for one, other in zip(session.run(None, feeds), expected):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_branches_of_an_if(tmp_path):
    path = branches(tmp_path / "m.onnx")
    x = floats(5, 2, INPUTS)

    fast = spjit.onnx.optimize(path, {"x": x, "c": np.array(True)})

    lines = {row.layer: row for row in fast.report.rows}
    assert lines["lstm"].sparse and lines["lstm"].input == (5, 2, INPUTS)
    assert lines["gru"].reason == "the example does not run it"
    fast.save(tmp_path / "fast.onnx")
    for session in (fast.session, spjit.onnx.load(tmp_path / "fast.onnx")):
        for steps, batch, chosen in ((5, 2, True), (1, 1, True), (3, 7, True), (5, 2, False)):
            assert_same(path, session, {"x": floats(steps, batch, INPUTS), "c": np.array(chosen)})


def test_the_body_of_a_loop(tmp_path):
    """A step in each turn, whose state the loop hands on."""
    body = helper.make_graph(
        [helper.make_node("GRU", ["x", "w", "r", "b", "", "h"], ["y", "next"], "steps",
                          hidden_size=HIDDEN),
         helper.make_node("Identity", ["c"], ["more"])],
        "body", [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("h")],
        [value("more", [], TensorProto.BOOL), value("next"), value("y")])
    loop = helper.make_node("Loop", ["turns", "", "h0"], ["last", "all"], "loop", body=body)
    path = saved(tmp_path / "m.onnx", [loop],
                 [value("x", ["s", "n", INPUTS]), value("h0", [1, "n", HIDDEN]),
                  value("turns", [], TensorProto.INT64)], [value("last"), value("all")],
                 weights_of("", "GRU"))

    def feeds(steps, batch, turns):
        return {"x": floats(steps, batch, INPUTS), "h0": floats(1, batch, HIDDEN),
                "turns": np.array(turns, np.int64)}

    fast = spjit.onnx.optimize(path, feeds(3, 2, 4))

    assert [row.layer for row in fast.report.sparse] == ["steps"]
    for one in (feeds(3, 2, 4), feeds(1, 1, 1), feeds(2, 5, 3)):
        assert_same(path, fast.session, one)


def test_the_body_of_a_scan(tmp_path):
    body = helper.make_graph(
        [helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["", "h1", "c1"], "steps",
                          hidden_size=HIDDEN),
         helper.make_node("Identity", ["h1"], ["h2"])],
        "body", [value("h"), value("c"), value("x")], [value("h1"), value("c1"), value("h2")])
    scan = helper.make_node("Scan", ["h0", "c0", "xs"], ["h", "c", "hs"], "scan", body=body,
                            num_scan_inputs=1)
    state = [1, "n", HIDDEN]
    path = saved(tmp_path / "m.onnx", [scan],
                 [value("h0", state), value("c0", state), value("xs", ["t", 1, "n", INPUTS])],
                 [value(name) for name in ("h", "c", "hs")], weights_of(""))

    def feeds(steps, batch):
        return {"xs": floats(steps, 1, batch, INPUTS), "h0": floats(1, batch, HIDDEN),
                "c0": floats(1, batch, HIDDEN)}

    fast = spjit.onnx.optimize(path, feeds(4, 3))

    assert [row.layer for row in fast.report.sparse] == ["steps"]
    for one in (feeds(4, 3), feeds(1, 1), feeds(2, 6)):
        assert_same(path, fast.session, one)


def test_says_why_one_stays_dense(tmp_path):
    inner = helper.make_graph(
        [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y1"], "lstm", hidden_size=HIDDEN,
                          clip=0.5)], "then", [], [value("y1")])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["y2"])], "else", [],
                              [value("y2")])
    chosen = helper.make_node("If", ["c"], ["y"], "if", then_branch=inner, else_branch=other)
    path = saved(tmp_path / "m.onnx", [chosen],
                 [value("x", ["s", "n", INPUTS]), value("c", [], TensorProto.BOOL)],
                 [value("y")], weights_of(""))

    report = spjit.onnx.optimize(path, {"x": floats(5, 2, INPUTS), "c": np.array(True)}).report

    assert [row.reason for row in report.rows] == ["its cells are clipped, which kernels do not do"]
