"""Which layers become kernels, by times."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit.onnx
from onnx_testing import (  # noqa: F401
    B1,
    W1,
    feed_forward,
    floats,
    kernels_are_faster,
    node,
    write,
)
from spjit._onnx_graph import survey
from spjit.onnx import _graph, _optimize, _sessions
from spjit.onnx._passes import dense_time


@pytest.mark.measured
def test_measured(feed_forward):
    x = floats(2, 5, 32)
    report = spjit.onnx.optimize(feed_forward, x, budget=0.05).report
    assert all(row.before_us is not None and row.after_us is not None for row in report.rows)
    assert all(row.sparse or row.reason for row in report.rows)
    assert report.after_us <= report.before_us


def candidates_of(path):
    base = _graph.with_unique_names(onnx.load(str(path)))
    return base, [_optimize._candidate(layer) for layer in survey(base).layers]


@pytest.mark.measured
def test_a_slower_layer_stays_dense(feed_forward):
    base, (one, _) = candidates_of(feed_forward)
    one.swap = _graph.Swap(one.layer, "{}", "model.spjit", 1)
    dense = {node.name: 1.0 for node in base.graph.node}

    _optimize._compare(one, base, dense, {one.swap.node_name: 6.9})
    assert (one.row.before_us, one.is_in) == (7.0, True)
    _optimize._compare(one, base, dense, {one.swap.node_name: 7.1})
    assert (one.row.reason, one.is_in) == ("dense is faster here", False)


@pytest.mark.measured
def test_a_model_that_is_not_faster_stays(feed_forward, tmp_path, monkeypatch):
    monkeypatch.setattr(_optimize, "model_times", lambda sessions, *_: [
        1.0 + i for i, _ in enumerate(sessions)])
    fast = spjit.onnx.optimize(feed_forward, floats(2, 5, 32), budget=0.01)
    assert fast.model == onnx.load(str(feed_forward))
    assert all(row.reason for row in fast.report.rows)
    fast.save(tmp_path / "same.onnx")
    spjit.onnx.load(tmp_path / "same.onnx")


@pytest.mark.measured
def test_the_time_of_an_activation_behind_a_kernel_counts(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Gemm", "x w b", "p"), node("Softplus", "p", "y")],
                 {"w": W1, "b": B1}, [3, 32])
    base = _graph.fused(path, _sessions.Own())
    one = _optimize._candidate(survey(base).layers[0])
    one.swap = _graph.Swap(one.layer, "{}", "model.spjit", 1)

    _optimize._compare(one, base, {one.layer.behind.name: 5.0},
                       {one.swap.node_name: 3.0, one.layer.behind.name: 1.5})

    assert (one.row.before_us, one.row.after_us) == (5.0, 4.5)


def test_times_of_nodes_that_are_not_in_a_profile():
    one = node("Conv", "x w", "y", name="c")
    assert dense_time({"c": 2.0}, [one]) == 2.0
    assert dense_time({"y_nchwc": 3.0}, [one]) == 3.0
    assert dense_time({"c_token_12": 5.0, "c_two": 1.0}, [one]) == 5.0
    assert dense_time({"d": 2.0}, [one]) is None
    assert dense_time({"c/Fusion/": 4.0, "cc": 1.0}, [one]) == 4.0


def test_nodes_that_are_fused_take_no_time_of_their_own():
    nodes = [node("Conv", "x w", "y", name="c"), node("HardSigmoid", "y", "g", name="h"),
             node("Mul", "y g", "z", name="m")]
    assert dense_time({"y_nchwc": 3.0}, nodes) == 3.0
    assert dense_time({"c": 3.0, "h": 1.0, "m": 2.0}, nodes) == 6.0
    assert dense_time({"h": 1.0, "m": 2.0}, nodes) is None
