"""Which chains of nodes are an activation of kernels, and which only look so."""

from __future__ import annotations

import math

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper

from spjit import _onnx_activations as activations
from spjit._activation import Activation
from spjit._onnx_activations import FORMS, Form, activation_behind, activation_of
from spjit._onnx_expressions import (
    LARGEST,
    X,
    Expression,
    computed,
    constant,
    constants_of,
    expression_of,
    formula,
)
from spjit._onnx_values import Graph

PARAMETERS = {"low": -0.5, "high": 7.0, "alpha": 0.3, "beta": 0.25}


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def graph_of(nodes, constants=(), outputs=("y",), x=("n", 4)):
    return Graph(helper.make_model(helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value, np.float32), name)
         for name, value in dict(constants).items()]), ir_version=8), {})


def written(form):
    """The formula with numbers for parameters."""
    def filled(one):
        if one.operator == "any":
            return constant(PARAMETERS[one.name])
        return one._replace(operands=tuple(map(filled, one.operands)))

    return filled(form.wanted)


def described(form):
    def text(one):
        inner = ",".join(map(text, one.operands))
        return one.name or (f"{one.value:.3g}" if one.operator == "constant" else
                            f"{one.operator}({inner})" if inner else one.operator)

    return text(form.wanted)


# ---- Forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=described)
def test_a_form_is_its_activation(form):
    known = {**PARAMETERS, **dict(form.constants)}

    found = activation_of(written(form))

    names = {"clamp": ("low", "high"), "leaky-relu": ("alpha", ), "hard-sigmoid": ("alpha", "beta")}
    assert found == (form.activation, tuple(map(known.get, names.get(form.activation, ()))))


def changed(one, change):
    """Each way to change one constant of an expression."""
    if one.operator == "constant":
        yield constant(change(one.value))
    for i, operand in enumerate(one.operands):
        for other in changed(operand, change):
            yield one._replace(operands=(*one.operands[:i], other, *one.operands[i + 1:]))


@pytest.mark.parametrize("change", [lambda value: value * (1 + 1e-6) + 1e-6,
                                    lambda value: math.nan], ids=["a little", "NaN"])
@pytest.mark.parametrize("activation", list(activations.FUNCTIONS))
def test_another_constant_is_no_activation(activation, change):
    forms = [form for form in FORMS if form.activation == activation]
    for form in forms[::1 + len(forms) // 20]:
        for other in changed(form.wanted, change):
            whole = written(Form(activation, other))
            found = activation_of(whole)
            # max(x, 0) becomes a bound.
            assert found is None or found.name == "clamp" and activations._agrees(whole, found), \
                described(Form("", other))


TAILS = {"clip 7": Expression("Clip", (X, constant(-LARGEST), constant(7))),
         "clip 20": Expression("Clip", (X, constant(-LARGEST), constant(20))),
         "clip 1e30": Expression("Clip", (X, constant(-1e30), constant(1e30))),
         "min 1e38": Expression("Min", (X, constant(1e38))),
         "max -1e38": Expression("Max", (X, constant(-1e38))),
         "add 1e-7": Expression("Add", (X, constant(1e-7))),
         "div": Expression("Div", (X, constant(1 + 1e-7))),
         "mul 1": Expression("Mul", (X, constant(1)))}


def of(outer, inner):
    """outer(inner(x))"""
    if outer.operator == "x":
        return inner
    return outer._replace(operands=tuple(of(one, inner) for one in outer.operands))


@pytest.mark.parametrize("tail", list(TAILS))
def test_what_differs_only_far_from_zero_is_no_activation(tail):
    for form in (*FORMS[:16], *FORMS[16::9]):
        whole, more = written(form), TAILS[tail]
        for expression in (of(more, whole), of(whole, more)):
            found = activation_of(expression)
            # Bounds of bounds are bounds.
            assert found is None or (form.activation in ("clamp", "relu") and found.name == "clamp"
                                     and activations._agrees(expression, found)), described(form)


@pytest.mark.parametrize(("text", "is_silu"), [
    ("Min(x * Sigmoid(x), 1e30)", False), ("x * Sigmoid(x) * 1.00001", False),
    ("x / (Exp(-x) + 1) + 1e-5", False), ("Max(x * Sigmoid(x), 0)", False),
    ("Max(x * Sigmoid(x), -1)", True),  # silu is -0.28 at least
])
def test_a_wrong_row_of_the_list_is_noticed(monkeypatch, text, is_silu):
    monkeypatch.setattr(activations, "FORMS", (Form("silu", formula(text)), ))
    assert (activation_of(formula(text)) is not None) == is_silu


def test_points_are_on_both_sides_of_constants_and_everywhere():
    points = activations._points(formula("Clip(x, 0.001, 12345)"))

    for bound in (np.float32(0.001), np.float32(12345)):
        for side in (-np.inf, np.inf):
            assert float(np.nextafter(bound, np.float32(side))) in points
    assert {0.0, np.inf, -np.inf, LARGEST, -LARGEST} <= set(points)
    assert np.isnan(points).any()
    for exponent in range(-45, 38):
        assert np.any((points >= 10.0**exponent) & (points <= 10.0**(exponent + 2)))


# ---- Operators ------------------------------------------------------------------------------

MODELS = [("Neg", {}), ("Exp", {}), ("Erf", {}), ("Tanh", {}), ("Sigmoid", {}), ("Relu", {}),
          ("HardSwish", {}), ("HardSigmoid", {}), ("HardSigmoid", {"alpha": 0.3, "beta": 0.1}),
          ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Add", {}), ("Sub", {}), ("Mul", {}),
          ("Div", {}), ("Pow", {}), ("Max", {}), ("Min", {}), ("Clip", {}), ("Identity", {}),
          ("LeakyRelu", {}), ("LeakyRelu", {"alpha": -2.0}), ("PRelu", {}),
          ("microsoft.Gelu", {}), ("microsoft.FastGelu", {}), ("microsoft.QuickGelu", {}),
          ("microsoft.QuickGelu", {"alpha": 1.0})]


@pytest.mark.parametrize(("name", "attributes"), MODELS)
def test_operators_compute_what_onnxruntime_does(name, attributes):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    domain = "com.microsoft" if "." in name else ""
    count = {"Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Pow": 2, "Max": 2, "Min": 2, "Clip": 1,
             "PRelu": 2}
    inputs = "x two" if count.get(name) == 2 else "x"
    one = node(name.split(".")[-1], inputs, "y", domain=domain, **attributes)
    model = helper.make_model(helper.make_graph(
        [one], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(2), "two")]), ir_version=8,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])
    x = np.array([-np.inf, -1e9, -30, -3.5, -2, -1e-20, 0, 1e-3, 1, 2.9, 7, 1e9, np.inf, np.nan],
                 np.float32)
    try:
        session = runtime.InferenceSession(model.SerializeToString())
    except Exception as error:  # version 1.17 has no Gelu of ONNX
        pytest.skip(str(error))
    theirs = session.run(None, {"x": x})[0]

    expression = expression_of(Graph(model, {}), one, {"x": X}, 1)

    with np.errstate(all="ignore"):
        ours = computed(expression, x.astype(np.float64))
    limit = np.isinf(x) & np.isnan(theirs)  # vectors of ONNX Runtime may have NaN for infinity
    np.testing.assert_allclose(np.where(limit, np.nan, ours), theirs, rtol=1e-5, atol=1e-6)


def test_bounds_that_a_clip_does_not_have_are_the_largest_floats():
    graph = graph_of([node("Clip", "x", "y")])
    found = activation_behind(graph, "x", 2, seen=True)
    assert found.activation == ("clamp", (-LARGEST, LARGEST))


@pytest.mark.parametrize(("one", "constants"), [
    (helper.make_node("Clip", ["x", "", "c"], ["y"]), {"c": 7}),
    (helper.make_node("Clip", ["x"], ["y"], max=7.0), {}),
    (helper.make_node("Min", ["c", "x"], ["y"]), {"c": [7]}),
])
def test_one_bound(one, constants):
    found = activation_behind(graph_of([one], constants), "x", 2, seen=True)
    assert found.activation.parameters[1] == 7
    assert found.activation.parameters[0] <= -LARGEST


@pytest.mark.parametrize(("one", "text"), [
    (node("LeakyRelu", "x", "y"), "leaky-relu:0.01"),
    (node("LeakyRelu", "x", "y", alpha=-7.5), "leaky-relu:-7.5"),
    (node("HardSigmoid", "x", "y"), "hard-sigmoid:0.2,0.5"),
    (node("HardSigmoid", "x", "y", alpha=1 / 6), "hard-sigmoid:0.16666667,0.5"),
    (node("HardSigmoid", "x", "y", beta=0.0), "hard-sigmoid:0.2,0"),
    (node("PRelu", "x slope", "y"), "leaky-relu:0.3"),
    (node("Clip", "x", "y", max=7.0), "clamp:-3.4028235e+38,7"),
])
def test_parameters_are_those_of_the_node(one, text):
    found = activation_behind(graph_of([one], {"slope": [0.3]}), "x", 2, seen=True)

    assert found.activation.text == text
    again = Activation.parse(text)
    assert again.name == found.activation.name
    np.testing.assert_array_equal(np.float32(again.parameters),
                                  np.float32(found.activation.parameters))


@pytest.mark.parametrize(("text", "arguments"), [
    ("", {"activation": None}), ("tanh", {"activation": "tanh"}), ("clamp:-1,inf", {"clamp": (-1, np.inf)}),
    ("leaky-relu:1e-05", {"activation": "leaky-relu", "alpha": 1e-5}),
    ("hard-sigmoid:0.2,-0", {"activation": "hard-sigmoid", "alpha": 0.2, "beta": 0.0}),
])
def test_arguments_of_compile(text, arguments):
    assert Activation.parse(text).arguments == arguments


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-45, 3.4028235e38, -7, 16777217, 1.17549421e-38])
def test_a_text_is_the_number_as_fp32(value):
    made = Activation("leaky-relu", (float(np.float32(value)), ))
    assert np.float32(Activation.parse(made.text).parameters[0]) == np.float32(value)


@pytest.mark.parametrize("nodes", [
    [node("LeakyRelu", "x", "y", alpha=np.inf)],
    [node("HardSigmoid", "x", "y", alpha=np.nan)],
    [node("HardSigmoid", "x", "y", beta=-np.inf)],
    [node("PRelu", "x two", "y")],
    [node("PRelu", "x x", "y")],
    [node("PRelu", "c x", "y")],
    [node("Add", "x c", "y", axis=0)],  # of old versions: which dimensions broadcast
    [node("Relu", "x", "y", alpha=0.1)],
    [node("Relu", "x", "y", domain="another")],
    [node("Sum", "x x", "y")],
    [node("Max", "x c x", "y")],
    [node("Clip", "c x", "y")],
    [node("Clip", "x c x", "y")],
    [node("Clip", "x nan", "y")],
    [node("Gelu", "x", "y", approximate="else")],
    [node("FastGelu", "x c", "y", domain="com.microsoft")],
    [node("Max", "x more", "y")],  # a constant that adds a dimension
    [node("Max", "x two", "y")],  # of two elements
])
def test_nodes_that_are_none(nodes):
    graph = graph_of(nodes, {"c": 0, "nan": np.nan, "more": np.zeros((1, 1, 1)), "two": [0, 0]})
    assert activation_behind(graph, "x", 2, seen=True) is None


# ---- Who sees what is between -----------------------------------------------------------------

SILU = [node("MatMul", "x w", "p"), node("Sigmoid", "p", "s"), node("Mul", "s p", "m"),
        node("Clip", "m low high", "y")]
CONSTANTS = {"w": np.eye(4), "low": -LARGEST, "high": 7}


def test_the_longest_chain_that_is_one():
    found = activation_behind(graph_of(SILU, CONSTANTS), "p", 2)
    assert (found.activation.name, found.output, found.nodes) == ("silu", "m", {1, 2})


@pytest.mark.parametrize("seen", ["p", "s"])
def test_a_chain_whose_middle_is_seen_stays(seen):
    assert activation_behind(graph_of(SILU, CONSTANTS, outputs=("y", seen)), "p", 2) is None
    more = [*SILU, node("Abs", seen, "z")]
    assert activation_behind(graph_of(more, CONSTANTS), "p", 2) is None


def test_a_value_that_may_be_seen():
    graph = graph_of(SILU, CONSTANTS, outputs=("y", "p"))
    assert activation_behind(graph, "p", 2, seen=True).output == "m"


def test_the_list_has_no_form_twice():
    texts = [described(form) for form in FORMS]
    assert len(set(texts)) == len(texts)
    assert all(constants_of(form.wanted) is not None for form in FORMS)
