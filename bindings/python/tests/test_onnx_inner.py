"""Layers in graphs within If, Loop and Scan, and in functions of a model."""

from __future__ import annotations

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit.onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_testing import floats, kernels_are_faster, node, sparse  # noqa: F401
from spjit._onnx_graph import survey
from spjit._onnx_protos import all_graphs_of
from spjit.onnx import _passes
from spjit.onnx._own_names import give_own_names

W, V = sparse(17, 17, zeros=0.8) / 4, sparse(17, 17, zeros=0.8) / 4
BIAS = floats(17)


def value(name, shape=None, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(nodes, inputs, outputs, constants=None, name="inner"):
    return helper.make_graph(nodes, name, list(inputs), [
        one if isinstance(one, onnx.ValueInfoProto) else value(one) for one in outputs],
        [numpy_helper.from_array(np.asarray(one), of) for of, one in (constants or {}).items()])


def model_of(nodes, constants, x=("b", 17), *, inputs=(), outputs=("y",), functions=(),
             ir_version=8):
    main = graph(nodes, [value("x", x), *inputs], outputs, constants, "main")
    return helper.make_model(main, ir_version=ir_version, functions=functions, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1),
        helper.make_opsetid("mine", 1)])


def constant(name, given):
    return helper.make_node("Constant", [], [name],
                            value=numpy_helper.from_array(np.asarray(given), f"{name} value"))


def choice(then, other, output="y", name="if"):
    return helper.make_node("If", ["flag"], [output], name, then_branch=then, else_branch=other)


FLAG = value("flag", (), TensorProto.BOOL)


def loop(nodes, result, constants=None, start="x", output="y", trips=3):
    """Nodes that make `result` of `v`, some times."""
    body = graph([*nodes, node("Identity", "c", "c2")],
                 [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v")],
                 [value("c2", (), TensorProto.BOOL), result], constants, "body")
    return [constant("trips", np.array(trips)), constant("go", np.array(True)),
            helper.make_node("Loop", ["trips", "go", start], [output], "loop", body=body)]


def nodes_in(model, op="SparseLayer"):
    return [one for inner in all_graphs_of(model.graph) for one in inner.node
            if one.op_type == op]


def check(tmp_path, model, kernels, *feeds):
    """The optimized model, before and after saving, beside the original."""
    onnx.save(model, tmp_path / "m.onnx")
    fast = spjit.onnx.optimize(tmp_path / "m.onnx", feeds[0])
    assert len(nodes_in(fast.model)) == kernels, str(fast.report)
    assert len(fast.report.sparse) == kernels
    fast.save(tmp_path / "fast.onnx")
    assert len(spjit.Bundle(tmp_path / "fast.spjit")) == kernels
    saved = spjit.onnx.load(tmp_path / "fast.onnx", threads=2)
    original = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for feed in feeds:
        results = fast(feed), saved.run(None, feed), original.run(None, feed)
        for y, loaded, expected in zip(*results):
            np.testing.assert_array_equal(y, loaded)
            assert y.shape == expected.shape
            np.testing.assert_allclose(y, expected, rtol=0,
                                       atol=2e-5 * np.abs(expected).max(initial=1))
    return fast


def test_a_loop_with_what_follows_its_product(tmp_path):
    nodes = [node("MatMul", "v w", "p"), node("Add", "p b", "q"), node("Relu", "q", "r")]
    x = floats(3, 17)

    fast = check(tmp_path, model_of(loop(nodes, "r"), {"w": W, "b": BIAS}), 1, {"x": x},
                 {"x": floats(1, 17)}, {"x": floats(0, 17)})

    assert nodes_in(fast.model, "Relu") == []
    assert fast.report.rows[0].input == (3, 17)
    exact = x.astype(np.float64)
    for _ in range(3):
        exact = np.maximum(exact @ W + BIAS, 0)
    np.testing.assert_allclose(fast({"x": x})[0], exact, rtol=0, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("trips", [0, 1])
def test_a_loop_of_few_turns(tmp_path, trips):
    """One that the example does not run stays."""
    model = model_of(loop([node("MatMul", "v w", "p")], "p", trips=trips), {"w": W})

    fast = check(tmp_path, model, trips, {"x": floats(2, 17)})

    assert [row.reason for row in fast.report.rows] == (
        [] if not fast.report.rows else ["" if trips else "the example does not run it"])


def test_both_branches_with_the_same_names(tmp_path):
    """Of values, of constants and of nodes."""
    def branch(weight):
        return graph([helper.make_node("MatMul", ["x", "local"], ["p"], "product"),
                      helper.make_node("Relu", ["p"], ["r"], "relu")], [], ["r"],
                     {"local": weight})

    model = model_of([choice(branch(W), branch(V))], {}, inputs=[FLAG])
    x = floats(2, 17)
    onnx.save(model, tmp_path / "m.onnx")

    for flag in (True, False):
        fast = check(tmp_path, model, 1, {"x": x, "flag": np.array(flag)},
                     {"x": x, "flag": np.array(not flag)})
        assert sorted(row.reason for row in fast.report.rows) == ["", "the example does not run it"]
        exact = x.astype(np.float64) @ (W if flag else V)
        np.testing.assert_allclose(fast({"x": x, "flag": np.array(flag)})[0],
                                   np.maximum(exact, 0), rtol=0, atol=1e-5)


def test_weights_used_outside_too_and_values_of_the_outer_graph(tmp_path):
    """The product within reads a value of the main graph."""
    then = graph([node("MatMul", "outer w", "p"), node("Add", "p b", "q")], [], ["q"])
    other = graph([node("MatMul", "w outer2", "s")], [], ["s"])
    model = model_of([node("MatMul", "x w", "outer"), node("Transpose", "outer", "outer2"),
                      choice(then, other, "z"), node("Relu", "z", "y")],
                     {"w": W, "b": BIAS}, inputs=[FLAG], outputs=("y", "outer"))
    x = floats(17, 17)

    for flag in (True, False):
        fast = check(tmp_path, model, 2, {"x": x, "flag": np.array(flag)},
                     {"x": x, "flag": np.array(not flag)})
        assert [row.shape for row in fast.report.sparse] == [(17, 17)] * 2


@pytest.mark.parametrize("form", ["left", "batch", "einsum"])
def test_other_forms_in_a_scan(tmp_path, form):
    """Whose body knows the shapes of what it takes."""
    nodes = {"left": [node("MatMul", "w s", "p")],
             "batch": [node("MatMul", "s k", "p")],
             "einsum": [node("Einsum", "s w", "p", equation="...i,oi->...o")]}[form]
    shape = (4, 3, 5, 17) if form == "batch" else (4, 17, 17)
    body = graph([*nodes, node("Identity", "p", "p2"), node("Add", "h s", "h2")],
                 [value("h"), value("s")], ["h2", "p2"])
    model = model_of([helper.make_node("Scan", ["start", "x"], ["end", "y"], "scan", body=body,
                                       num_scan_inputs=1)],
                     {"w": W, "k": np.stack([W, V, W + V]),
                      "start": np.zeros(shape[1:], np.float32)}, shape)
    onnx.save(model, tmp_path / "m.onnx")
    x = floats(*shape)

    fast = spjit.onnx.optimize(tmp_path / "m.onnx", x)

    assert len(nodes_in(fast.model)) == (3 if form == "batch" else 1), str(fast.report)
    expected = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(fast(x)[0], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_reshapes_that_onnx_runtime_makes_within_a_scan(tmp_path):
    """Around a Gemm for MatMul and Add."""
    nodes = [node("MatMul", "s w", "p"), node("Add", "p b", "q"), node("Relu", "q", "r")]
    shape = (2, 3, 17)
    body = graph([*nodes, node("Add", "h s", "h2")], [value("h", shape), value("s", shape)],
                 ["h2", "r"])
    model = model_of([helper.make_node("Scan", ["start", "x"], ["end", "y"], "scan", body=body,
                                       num_scan_inputs=1)],
                     {"w": W, "b": BIAS, "start": np.zeros(shape, np.float32)}, (4, *shape))

    fast = check(tmp_path, model, 1, {"x": floats(4, *shape)})

    assert nodes_in(fast.model, "Reshape") == nodes_in(fast.model, "Relu") == []
    within = list(all_graphs_of(fast.model.graph))[1]  # of a Scan ONNX Runtime 1.17 needs shapes
    assert [len(one.type.tensor_type.shape.dim) for one in within.output] == [3, 3]


@pytest.mark.parametrize(("op", "weight", "x", "attributes"), [
    ("Conv", (6, 4, 3), (2, 4, 9), {"pads": [1, 1]}),
    ("Conv", (6, 4, 3, 3), (2, 4, 9, 7), {"strides": [2, 1]}),
    ("ConvTranspose", (4, 6, 3, 3), (2, 4, 9, 7), {"strides": [2, 2]}),
    ("ConvTranspose", (4, 6, 3), (2, 4, 9), {"strides": [2]})])
def test_convolutions_within_a_branch(tmp_path, op, weight, x, attributes):
    bias = floats(6, *(1,) * (len(x) - 2))
    then = graph([node(op, "x w", "p", **attributes), node("Add", "p b", "q"),
                  node("Relu", "q", "r")], [], ["r"])
    model = model_of([choice(then, graph([node("Neg", "x", "q")], [], ["q"]))],
                     {"w": sparse(*weight, zeros=0.7), "b": bias}, x, inputs=[FLAG])

    fast = check(tmp_path, model, 1, {"x": floats(*x), "flag": np.array(True)},
                 {"x": floats(*x), "flag": np.array(False)})

    assert nodes_in(fast.model, "Relu") == []


def test_a_sum_that_is_no_bias_within_a_branch(tmp_path):
    then = graph([node("Gemm", "x w c", "p")], [], ["p"], {"c": floats(3, 1)})
    model = model_of([choice(then, graph([node("Neg", "x", "q")], [], ["q"]))], {"w": W}, (3, 17),
                     inputs=[FLAG])

    fast = check(tmp_path, model, 1, {"x": floats(3, 17), "flag": np.array(True)})

    assert len(nodes_in(fast.model, "Add")) == 1


def test_a_branch_within_a_loop(tmp_path):
    """Both are rewritten, and so is what is around."""
    then = graph([node("MatMul", "a w", "t")], [], ["t"])
    other = graph([node("MatMul", "a k", "e")], [], ["e"], {"k": V})
    nodes = [node("MatMul", "v w", "a"), node("Equal", "i zero", "flag"), choice(then, other, "r")]
    model = model_of([*loop(nodes, "r", output="z"), node("MatMul", "z w", "y")],
                     {"w": W, "zero": np.array(0)})

    fast = check(tmp_path, model, 4, {"x": floats(3, 17)}, {"x": floats(1, 17)})

    assert len({one.name for one in nodes_in(fast.model)}) == 4


def test_functions_of_the_model(tmp_path):
    """ONNX Runtime puts them in place of their calls, also within a loop."""
    function = helper.make_function(
        "mine", "Layer", ["a", "k"], ["r"],
        [node("MatMul", "a k", "p"), node("Relu", "p", "r")], [helper.make_opsetid("", 17)])
    call = helper.make_node("Layer", ["x", "w"], ["o"], "call", domain="mine")
    inside = helper.make_node("Layer", ["v", "w"], ["r"], "inside", domain="mine")
    model = model_of([call, *loop([inside], "r", start="o")], {"w": W}, functions=[function])

    fast = check(tmp_path, model, 2, {"x": floats(3, 17)})

    assert nodes_in(fast.model, "Relu") == []


def test_a_local_value_with_the_name_of_an_outer_one():
    """It is not the outer constant; nor are its shapes those of the outer value."""
    shadow = graph([node("Neg", "x", "w"), node("MatMul", "x w", "p")], [], ["p"])
    model = model_of([choice(shadow, graph([node("MatMul", "x w", "q")], [], ["q"]))], {"w": W},
                     (17, 17), inputs=[FLAG])

    found = survey(model)

    assert [one.name for one in found.layers] == ["q"]
    body = model_of(loop([node("MatMul", "v w", "p")], "p"), {"v": V, "w": W})
    assert [one.input for one in survey(body).layers] == ["v"]  # an input of the body


@pytest.mark.parametrize("what", ["output", "input", "constant"])
def test_local_names_of_outer_values_become_others(what):
    """Of each kind, and as a graph further within sees them."""
    deep = graph([node("Add", "v k", "deep")], [], ["deep"])
    other = graph([node("Neg", "a", "n")], [], ["n"])
    body = loop([node("MatMul", "v k", "a"), choice(deep, other, "r")], "r", {"k": V})
    names = {"output": ("a", "b"), "input": ("v", "b"), "constant": ("k", "b")}
    model = model_of([node("Neg", "x", "b"), *body], {}, inputs=[FLAG], outputs=("y", "b"))
    feeds = {"x": floats(17, 17), "flag": np.array(True)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    old, new = names[what]
    for inner in list(all_graphs_of(model.graph))[1:]:
        for one in (*inner.input, *inner.output, *inner.initializer):
            one.name = new if one.name == old else one.name
        for one in inner.node:
            one.input[:] = [new if name == old else name for name in one.input]
            one.output[:] = [new if name == old else name for name in one.output]
    if what == "output":  # the others ONNX Runtime takes as they are
        with pytest.raises(Exception, match="static assignment"):
            onnxruntime.InferenceSession(model.SerializeToString())

    give_own_names(model.graph)

    within = list(all_graphs_of(model.graph))[1:]
    assert not any("b" in (*one.input, *one.output) for inner in within for one in inner.node)
    results = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    for y, reference in zip(results, expected):
        np.testing.assert_array_equal(y, reference)


@pytest.mark.parametrize("hidden_by", ["input", "constant"])
def test_local_values_that_hide_outer_weights(tmp_path, hidden_by):
    """ONNX Runtime takes both."""
    value_of_body, weight = ("w", "k") if hidden_by == "input" else ("v", "w")
    nodes = loop([node("MatMul", f"{value_of_body} {weight}", "p")], "p",
                 {"w": V} if hidden_by == "constant" else None, output="z")
    nodes[-1].attribute[0].g.input[2].name = value_of_body
    model = model_of([*nodes, node("MatMul", "z w", "y")], {"w": W, "k": V})
    x = floats(3, 17)

    fast = check(tmp_path, model, 2, {"x": x})

    exact = x.astype(np.float64) @ V @ V @ V @ W
    np.testing.assert_allclose(fast({"x": x})[0], exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_names_that_the_rewriter_would_give(tmp_path):
    """A local value has the name that a bias would get."""
    nodes = [helper.make_node("MatMul", ["v", "w"], ["p"], "n"),
             node("Add", "p b", "q"), helper.make_node("Relu", ["q"], ["spjit n bias"]),
             helper.make_node("Add", ["spjit n bias", "v"], ["r"])]
    model = model_of(loop(nodes, "r"), {"w": W, "b": BIAS})

    check(tmp_path, model, 1, {"x": floats(3, 17)})


def test_outer_weights_that_a_run_may_replace_stay(tmp_path):
    model = model_of(loop([node("MatMul", "v w", "p")], "p"), {"w": W},
                     inputs=[value("w", (17, 17))])

    found = survey(model)

    assert found.layers == []
    assert ["a run may replace" in one.reason for one in found.others] == [True]
    model.ir_version = 3  # where no run gives them
    assert len(survey(model).layers) == 1


def test_shapes_that_a_file_says_within_nodes_are_not_believed():
    """ONNX Runtime only warns of those that are wrong."""
    inner = graph([node("Abs", "x", "a"), node("MatMul", "w a", "p")], [], [value("p", (9, 9, 9))])
    inner.value_info.append(value("a", (3, 17, 17)))
    model = model_of([choice(inner, graph([node("Neg", "x", "q")], [], ["q"]))], {"w": W},
                     (17, "n"), inputs=[FLAG])

    layer, = survey(model).layers

    assert layer.input_shape == (17, None)


def test_times_are_those_of_a_pass(tmp_path):
    """Of a node in a loop all its turns; of the second of two passes."""
    def event(name, duration, category="Node"):
        return {"cat": category, "name": name, "ts": 0, "dur": duration}

    events = [event("session_initialization", 9, "Session")]
    for factor in (1, 10, 1, 10):
        events += [event("inside_kernel_time", factor * one) for one in (1, 2, 3)]
        events += [event("inside_fence_before", 77), event("alone_kernel_time", factor * 5),
                   event("model_run", 99, "Session")]
    (tmp_path / "p.json").write_text(json.dumps(events))

    assert _passes._node_times(tmp_path / "p.json") == {"inside": 60.0, "alone": 50.0}


@pytest.mark.measured
def test_a_layer_in_a_loop_is_measured(tmp_path):
    wide = sparse(512, 512, zeros=0.97) / 8
    model = model_of(loop([node("MatMul", "v w", "p")], "p", trips=5), {"w": wide}, ("b", 512))
    onnx.save(model, tmp_path / "m.onnx")

    row, = spjit.onnx.optimize(tmp_path / "m.onnx", floats(1, 512), budget=0.1).report.rows

    assert row.before_us is not None and row.after_us is not None
    assert row.input == (1, 512)
