"""Factors and sums of constants that become part of layers: what is left of a model, and how exact
it is."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx.reference
from onnx import TensorProto, helper, numpy_helper
from spjit._onnx_graph import survey
from spjit.onnx._fold import folded

RNG = np.random.default_rng(11)
CHANNELS, FILTERS = 4, 6


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def per_channel(channels=FILTERS):
    return floats(channels, 1, 1) + np.float32(3)


CONSTANTS = {"w": floats(FILTERS, CHANNELS, 3, 3), "b": floats(FILTERS), "f": per_channel(),
             "g": per_channel(), "s": per_channel(), "one": np.array([1.7], np.float32),
             "v": floats(5, FILTERS, 1, 1), "c": floats(5), "p": floats(5, FILTERS, 3, 3),
             "depth": floats(FILTERS, 1, 3, 3), "zero": np.float32(0), "six": np.float32(6),
             "three": np.float32(3), "huge": np.float32(1e30), "tiny": np.float32(1e-38),
             "square": floats(CHANNELS, CHANNELS, 1, 1), "b4": floats(CHANNELS),
             "gw": floats(CHANNELS, FILTERS), "row": floats(FILTERS), "column": floats(3, 1),
             "root": np.float32(2**0.5), "half": np.float32(0.5), "unit": np.float32(1),
             "none": np.zeros((FILTERS, 1, 1), np.float32),
             "shift": floats(1, CHANNELS, 1, 1), "scale": floats(1, CHANNELS, 1, 1) + np.float32(3),
             "ones": np.full((1, 1, 1, 1), 1.7, np.float32), "line": floats(CHANNELS),
             "row1": floats(1, CHANNELS)}


def model_of(nodes, outputs=("y",), x=(1, CHANNELS, 7, 8)):
    used = {name for one in nodes for name in one.input}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in CONSTANTS.items()
         if name in used])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": x})[0]


def in_fp64(model, x, magnitudes=False):
    """By the reference implementation of the package onnx. `magnitudes`: sums of the magnitudes of
    all terms; a model has no division by what may be small."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for one in model.graph.initializer:
        value = numpy_helper.to_array(one).astype(np.float64)
        one.CopyFrom(numpy_helper.from_array(abs(value) if magnitudes else value, one.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for one in model.graph.node:
        if magnitudes and one.op_type in ("Sub", "Neg"):
            one.op_type = {"Sub": "Add", "Neg": "Identity"}[one.op_type]
    x = abs(x) if magnitudes else x
    return onnx.reference.ReferenceEvaluator(model).run(None, {"x": x.astype(np.float64)})[0]


def operators(model):
    return [one.op_type for one in model.graph.node]


CONV = node("Conv", "x w b", "o", pads=[1, 1, 1, 1])
NORMALIZATION = [node("Sub", "o s", "n1"), node("Mul", "n1 f", "n2"), node("Div", "n2 g", "n3"),
                 node("Add", "n3 s", "y")]


@pytest.mark.parametrize("nodes", [
    [CONV, *NORMALIZATION],
    [node("Conv", "x w", "o", strides=[2, 2]), *NORMALIZATION],
    [CONV, node("Sub", "s o", "n"), node("Neg", "n", "m"), node("Mul", "one m", "y")],
], ids=["all", "without bias", "signs"])
def test_what_follows_a_convolution(nodes):
    model = model_of(nodes)
    x = floats(1, CHANNELS, 7, 8)

    short = folded(model)

    assert operators(short) == ["Conv"]
    assert short.graph.node[0].output == ["y"]
    bound = (9 * CHANNELS + 2) * 2.0**-24 * in_fp64(model, x, magnitudes=True)
    assert np.all(abs(run(short, x) - in_fp64(model, x)) <= bound)
    assert len(survey(model).layers[0].nodes) == len(nodes)
    np.testing.assert_array_equal(survey(model).layers[0].weight,
                                  survey(short).layers[0].weight)


def before(first, *chain, last=None):
    return [first, *chain, last or node("Conv", "a v c", "y")]


@pytest.mark.parametrize(("nodes", "left", "terms"), [
    (before(node("Relu", "x", "o"), node("Mul", "o f", "m"), node("Add", "s m", "a")),
     ["Relu", "Conv"], FILTERS),
    (before(node("Relu", "x", "o"), node("Add", "o s", "m"), node("Mul", "m one", "a")),
     ["Relu", "Conv"], FILTERS),
    # Pads are 0 behind the sum: it stays, and takes the factor's place.
    (before(node("Relu", "x", "o"), node("Mul", "one o", "m"), node("Add", "m s", "a"),
            last=node("Conv", "a p c", "y", pads=[1, 1, 1, 1])), ["Relu", "Add", "Conv"],
     9 * FILTERS),
    (before(node("Relu", "x", "o"), node("Mul", "o f", "m"), node("Add", "m one", "a"),
            last=node("Conv", "a depth b", "y", pads=[1, 1, 1, 1], group=FILTERS)),
     ["Relu", "Add", "Conv"], 9),
    (before(node("Relu", "x", "o"), node("Mul", "o f", "a"),
            last=node("Conv", "a p c", "y", pads=[1, 1, 1, 1])), ["Relu", "Conv"], 9 * FILTERS),
    (before(node("Relu", "x", "o"), node("Add", "o one", "a"),
            last=node("Conv", "a p c", "y", auto_pad="SAME_UPPER")), ["Relu", "Add", "Conv"],
     9 * FILTERS),
], ids=["both", "sum first", "padded", "depthwise", "factor alone", "sum alone"])
def test_what_is_before_a_convolution(nodes, left, terms):
    model = model_of(nodes, x=(2, FILTERS, 7, 8))
    x = floats(2, FILTERS, 7, 8)

    short = folded(model)

    assert operators(short) == left
    bound = (terms + 3) * 2.0**-24 * in_fp64(model, x, magnitudes=True)
    assert np.all(abs(run(short, x) - in_fp64(model, x)) <= bound)


@pytest.mark.parametrize(("nodes", "given", "runs"), [
    ([node("Sub", "x shift", "m"), node("Div", "m scale", "a"), node("Conv", "a w b", "y")],
     (1, 1, 7, 8), [(1, 1, 7, 8)]),
    ([node("Mul", "x scale", "a"), node("Conv", "a w b", "y")], (CHANNELS, 7, 8),
     [(CHANNELS, 7, 8)]),
    ([node("Mul", "x scale", "a"), node("Conv", "a w b", "y")], ("n", "c", "h", "w"),
     [(1, 1, 7, 8), (2, CHANNELS, 7, 8)]),
    ([node("Mul", "x ones", "a"), node("Conv", "a w b", "y")], (CHANNELS, 7, 8),
     [(CHANNELS, 7, 8)]),
    ([node("Mul", "x line", "a"), node("Gemm", "a gw", "y")], (3, 1), [(3, 1)]),
    ([node("Mul", "x row1", "a"), node("Gemm", "a gw", "y")], (CHANNELS,), [(CHANNELS,)]),
    ([node("Mul", "x row1", "a"), node("Gemm", "a gw", "y")], None,
     [(CHANNELS,), (3, CHANNELS)]),
], ids=["one channel", "three dimensions", "unknown channels", "of one element", "one column",
        "one dimension", "unknown dimensions"])
def test_constants_that_make_their_operand_larger_stay(nodes, given, runs):
    """A gray image that gets a mean for each channel."""
    model = model_of(nodes, x=given)

    short = folded(model)

    for shape in runs:
        x = floats(*shape)
        y, wanted = run(short, x), run(model, x)
        assert y.shape == wanted.shape
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)


def test_constants_of_one_element_keep_a_shape_that_is_not_known():
    model = model_of([node("Mul", "x one", "m"), node("Sub", "m ones", "a"),
                      node("Conv", "a w b", "y")], x=("n", "c", "h", "w"))
    x = floats(2, CHANNELS, 7, 8)

    short = folded(model)

    assert operators(short) == ["Conv"]
    np.testing.assert_allclose(run(short, x), run(model, x), rtol=0, atol=1e-5)


def test_a_block_of_a_real_network():
    """A convolution with a factor and a sum, hard swish, again both, a depthwise convolution."""
    nodes = [CONV, node("Mul", "o one", "m"), node("Add", "m one", "a"),
             node("Add", "a three", "h"), node("Clip", "h zero six", "k"), node("Mul", "a k", "l"),
             node("Div", "l six", "d"), node("Mul", "one d", "e"), node("Add", "e one", "q"),
             node("Conv", "q depth b", "y", pads=[1, 1, 1, 1], group=FILTERS)]
    model = model_of(nodes)
    x = floats(1, CHANNELS, 7, 8)

    short = folded(model)

    assert operators(short) == ["Conv", "HardSigmoid", "Mul", "Add", "Conv"]
    np.testing.assert_allclose(run(short, x), run(model, x), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("nodes", "outputs"), [
    ([CONV, node("Mul", "o f", "m"), node("Relu", "m", "y"), node("Neg", "o", "z")], ("y", "z")),
    ([CONV, node("Mul", "o f", "y")], ("y", "o")),
    ([CONV, node("Mul", "o o", "y")], ("y",)),
    ([CONV, node("Mul", "o huge", "t"), node("Mul", "t huge", "y")], ("y",)),
    ([CONV, node("Mul", "o tiny", "y")], ("y",)),
    ([CONV, node("Div", "o none", "y")], ("y",)),
    ([CONV, node("Div", "f o", "y")], ("y",)),
    ([node("Relu", "x", "o"), node("Mul", "o one", "a"),
      node("FusedConv", "a square b4 a", "y", domain="com.microsoft", activation="Relu")], ("y",)),
    ([node("Relu", "x", "o"), node("Mul", "o one", "a"), node("Conv", "a w b", "y"),
      node("Neg", "a", "z")], ("y", "z")),
], ids=["used", "output", "square", "overflow", "underflow", "zero", "divisor", "residual",
        "used before"])
def test_what_stays(nodes, outputs):
    model = model_of(nodes, outputs)
    short = folded(model)
    assert [one for one in operators(short) if one in ("Mul", "Div")]
    x = floats(1, CHANNELS, 7, 8)
    np.testing.assert_allclose(run(short, x), run(model, x), rtol=1e-5, atol=1e-5)


def test_a_product_takes_sums_and_factors_of_its_columns():
    model = model_of([node("Add", "x one", "a"), node("Gemm", "a gw", "o"),
                      node("Mul", "o row", "m"), node("Sub", "m row", "n"),
                      node("Mul", "n column", "y")], x=(3, CHANNELS))
    x = floats(3, CHANNELS)

    short = folded(model)

    assert operators(short) == ["Gemm", "Mul"]
    np.testing.assert_allclose(run(short, x), run(model, x), rtol=0, atol=1e-5)


def test_the_last_factor_of_an_activation_is_not_the_next_layers():
    """GELU ends in a factor, which belongs to the kernel before it."""
    gelu = [node("Div", "o root", "d"), node("Erf", "d", "e"), node("Add", "e unit", "g1"),
            node("Mul", "o g1", "g2"), node("Mul", "g2 half", "h")]
    model = model_of([CONV, *gelu, node("Conv", "h v c", "y")])

    layers = survey(folded(model)).layers

    assert [layer.activation for layer in layers] == ["gelu", None]


def test_models_by_chance():
    """Chains of factors and sums between convolutions, of channels and of all."""
    rng = np.random.default_rng(4)
    names = ["f", "g", "s", "one"]
    for _ in range(60):
        nodes, value = [CONV], "o"
        for i in range(rng.integers(0, 6)):
            pair = [value, names[rng.integers(len(names))]]
            op = ["Add", "Sub", "Mul", "Div"][rng.integers(4)]
            if op != "Div" and rng.random() < 0.3:
                pair.reverse()
            nodes.append(node(op, " ".join(pair), f"t{i}"))
            value = f"t{i}"
            if rng.random() < 0.2:
                nodes.append(node("Relu", value, f"r{i}"))
                value = f"r{i}"
        pad = int(rng.integers(2))
        nodes.append(node("Conv", f"{value} p c", "y", pads=[pad] * 4))
        model, x = model_of(nodes), floats(1, CHANNELS, 7, 8)

        short = folded(model)

        assert len(short.graph.node) <= len(nodes)
        reference = in_fp64(model, x)
        scale = abs(in_fp64(model, x, magnitudes=True)).max()
        np.testing.assert_allclose(run(short, x), reference, rtol=0, atol=3e-6 * scale)
