"""Layers found in ONNX models, against what onnxruntime or numpy computes."""

from __future__ import annotations

import re

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper

from spjit._onnx_graph import Convolution, layers_of, survey

RNG = np.random.default_rng(1)
W = RNG.standard_normal((4, 6)).astype(np.float32)  # [in, out], as MatMul has it
B = RNG.standard_normal(6).astype(np.float32)
CONV = np.zeros((6, 4, 3, 3), np.float32)
IMAGE = [("x", [1, 4, 9, 9])]


def model_of(nodes, constants, *, inputs=(("x", ["batch", "tokens", 4]),), outputs=("y",),
             opset=17, ir_version=8):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                             ir_version=ir_version)


def only_layer(model):
    found = survey(model)
    assert len(found.layers) == 1, found
    return found.layers[0]


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def constants(**more):
    return {"w": W, "b": B, **{name: np.float32(value) for name, value in more.items()}}


def test_a_product_with_its_bias():
    layer = only_layer(model_of([node("MatMul", "x w", "p"), node("Add", "b p", "y")], constants()))

    assert (layer.op, layer.input, layer.output, layer.nodes) == ("MatMul", "x", "y", (0, 1))
    assert layer.input_shape == (None, None, 4)
    np.testing.assert_array_equal(layer.weight, W.T)
    np.testing.assert_array_equal(layer.bias, B)


def test_zeros_are_counted():
    weight = W.copy()
    weight[:, :3] = 0
    assert only_layer(model_of([node("MatMul", "x w", "y")], {"w": weight})).zeros == 0.5


def test_a_factor_of_each_row_and_a_second_bias():
    nodes = [node("Gemm", "x w b", "p"), node("Mul", "b p", "q"), node("Add", "q b", "r"),
             node("Relu", "r", "y")]

    layer = only_layer(model_of(nodes, constants(), inputs=[("x", [3, 4])]))

    assert (layer.activation, layer.nodes) == ("relu", (0, 1, 2, 3))
    np.testing.assert_array_equal(layer.weight, W.T * B[:, None])
    np.testing.assert_allclose(layer.bias, B * B + B, rtol=1e-6)


def test_what_onnxruntime_fuses():
    fused = {"domain": "com.microsoft"}
    nodes = [node("FusedMatMul", "x w", "p", alpha=2.0, **fused),
             node("BiasGelu", "p b", "y", **fused)]

    layer = only_layer(model_of(nodes, constants()))

    assert (layer.op, layer.activation, layer.nodes) == ("MatMul", "gelu", (0, 1))
    np.testing.assert_array_equal(layer.weight, 2 * W.T)
    np.testing.assert_array_equal(layer.bias, B)


@pytest.mark.parametrize(("attributes", "expected"), [
    ({"activation": "Relu"}, "relu"),
    ({"activation": "Clip", "activation_params": [0.0, 6.0]}, "clamp:0,6"),
])
def test_a_fused_convolution(attributes, expected):
    conv = node("FusedConv", "x w b z", "y", domain="com.microsoft", **attributes)
    layer = only_layer(model_of([conv], {"w": CONV, "b": B}, inputs=[*IMAGE, ("z", [1, 6, 7, 7])]))

    assert (layer.op, layer.residual) == ("Conv", "z")
    assert layer.activation == expected


FUSED = [("FusedConv", "Tanh", {}), *((op, *other) for op in ("FusedConv", "FusedGemm") for other in (
    ("Softplus", {}), ("Softsign", {}), ("Elu", {"alpha": 0.7}), ("ThresholdedRelu", {"alpha": 0.7}),
    ("Selu", {"alpha": 1.5, "gamma": 1.1}), ("LeakyRelu", {"alpha": np.inf}),
    ("HardSigmoid", {"alpha": 0.2, "beta": -np.inf})))]


def layer_with(op, activation, parameters):
    """A layer into which ONNX Runtime has fused an activation, "f"."""
    attributes = ({} if not parameters else
                  {"activation_params": list(parameters.values())} if op == "FusedConv" else
                  {f"activation_{name}": value for name, value in parameters.items()})
    fused = node(op, "x w b", "y", domain="com.microsoft", activation=activation, name="f",
                 **attributes)
    return only_layer(model_of([fused, node("Relu", "y", "z")],
                               {"w": CONV if op == "FusedConv" else W, "b": B},
                               inputs=IMAGE if op == "FusedConv" else [("x", [3, 4])],
                               outputs=("z", )))


@pytest.mark.parametrize(("op", "activation", "parameters", "text"), [
    ("FusedGemm", "Tanh", {}, "tanh"), *((op, *other) for op in ("FusedConv", "FusedGemm") for other in (
        ("Sigmoid", {}, "sigmoid"), ("LeakyRelu", {"alpha": 0.1}, "leaky-relu:0.1"),
        ("LeakyRelu", {"alpha": -3e-7}, "leaky-relu:-3e-07"),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, "hard-sigmoid:0.3,0.4")))])
def test_a_fused_activation_with_a_kernel(op, activation, parameters, text):
    layer = layer_with(op, activation, parameters)
    assert (layer.activation, layer.behind, layer.output) == (text, None, "y")


@pytest.mark.parametrize(("op", "activation", "parameters"), FUSED)
def test_a_fused_activation_without_a_kernel_is_a_node_behind_it(op, activation, parameters):
    layer = layer_with(op, activation, parameters)

    behind = layer.behind
    assert (layer.activation, layer.output, layer.nodes) == (None, "y", (0, ))
    assert (behind.op_type, behind.domain, behind.name) == (activation, "", "f")
    assert list(behind.input) == [layer.kernel_output] == ["y linear"]
    assert list(behind.output) == ["y"]
    assert {one.name: pytest.approx(one.f) for one in behind.attribute} == parameters


@pytest.mark.parametrize(("activation", "more", "message"), [
    ("Another", {}, "Another is not known; expected one of Clip, Elu"),
    ("LeakyRelu", {}, "LeakyRelu has 0 parameters; expected 1"),
    ("Clip", {"activation_params": [0.0]}, "Clip has 1 parameters; expected 2"),
    ("Clip", {"activation_params": [1.0, 0.0]}, r"bounds \[1.0, 0.0\]; expected the lower one first"),
])
def test_a_fused_activation_that_is_not_known(activation, more, message):
    conv = node("FusedConv", "x w", "y", domain="com.microsoft", activation=activation, **more)
    found = survey(model_of([conv], {"w": CONV}, inputs=IMAGE))
    assert not found.layers
    assert re.search(message, found.others[0].reason)


def test_the_name_of_a_value_that_is_new():
    fused = node("FusedGemm", "x w b", "y", domain="com.microsoft", activation="Softplus")
    layer = only_layer(model_of([node("Abs", "x", "y linear"), fused], constants(),
                                inputs=[("x", [3, 4])], outputs=("y", "y linear")))
    assert layer.kernel_output == "y linear'"


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_with_factors(transposed):
    weight = W.T.copy() if transposed else W
    model = model_of([node("Gemm", "x w b", "y", transB=transposed, alpha=2.0, beta=0.5)],
                     {"w": weight, "b": B}, inputs=[("x", [3, 4])])

    layer = only_layer(model)

    np.testing.assert_array_equal(layer.weight, 2 * W.T)
    np.testing.assert_array_equal(layer.bias, B / 2)


def test_weights_through_identity_transpose_and_constant():
    nodes = [helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(W.T.copy())),
             node("Identity", "c", "i"), node("Transpose", "i", "t", perm=[1, 0]),
             node("MatMul", "x t", "y")]
    np.testing.assert_array_equal(only_layer(model_of(nodes, {})).weight, W.T)


GELU_TORCH = [node("Div", "p root2", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"),
              node("Mul", "p a", "m"), node("Mul", "m half", "y")]
GELU_OTHER = [node("Mul", "p half", "h"), node("Mul", "p root_half", "d"), node("Erf", "d", "e"),
              node("Add", "one e", "a"), node("Mul", "a h", "y")]
GELU_TANH = [node("Pow", "p three", "c"), node("Mul", "c k", "ck"), node("Add", "p ck", "s"),
             node("Mul", "s root2pi", "t"), node("Tanh", "t", "th"), node("Add", "th one", "a"),
             node("Mul", "p half", "h"), node("Mul", "h a", "y")]
SCALARS = {"root2": 2**0.5, "root_half": 0.5**0.5, "one": 1, "half": 0.5, "three": 3,
           "k": 0.044715, "root2pi": (2 / np.pi)**0.5}


@pytest.mark.parametrize(("name", "behind"), [
    ("relu", [node("Relu", "p", "y")]),
    ("gelu", GELU_TORCH), ("gelu", GELU_OTHER), ("gelu-tanh", GELU_TANH),
    ("silu", [node("Sigmoid", "p", "s"), node("Mul", "s p", "y")]),
    ("hard-swish", [node("HardSwish", "p", "y")]),
    ("hard-swish", [node("HardSigmoid", "p", "s", alpha=1 / 6), node("Mul", "s p", "y")]),
    ("hard-swish", [node("Add", "p three", "a"), node("Clip", "a zero six", "l"),
                    node("Mul", "p l", "m"), node("Div", "m six", "y")]),
])
def test_activations_behind_a_bias(name, behind):
    model = model_of([node("MatMul", "x w", "q"), node("Add", "q b", "p"), *behind],
                     constants(zero=0, six=6, **SCALARS))

    layer = only_layer(model)

    assert (layer.activation, layer.output) == (name, "y")
    assert layer.nodes == tuple(range(len(behind) + 2))


@pytest.mark.parametrize(("approximate", "name"), [("none", "gelu"), ("tanh", "gelu-tanh")])
def test_gelu_as_one_node(approximate, name):
    model = model_of([node("MatMul", "x w", "p"), node("Gelu", "p", "y", approximate=approximate)],
                     constants(), opset=20)
    assert only_layer(model).activation == name


def test_clip_is_a_clamp():
    model = model_of([node("MatMul", "x w", "p"), node("Clip", "p zero six", "y")],
                     constants(zero=0, six=6))

    layer = only_layer(model)

    assert (layer.activation, layer.output) == ("clamp:0,6", "y")


@pytest.mark.parametrize("limit", [7, 10, 20, 1e30])
def test_a_clamp_behind_an_activation_stays(limit):
    silu = [node("Sigmoid", "p", "s"), node("Mul", "s p", "m")]
    for behind in (silu, [*GELU_TORCH[:-1], node("Mul", "m half", "h")]):
        last = behind[-1].output[0]
        for clip in (helper.make_node("Clip", [last, "", "limit"], ["y"]),
                     node("Min", f"{last} limit", "y")):
            model = model_of([node("MatMul", "x w", "p"), *behind, clip],
                             constants(limit=limit, **SCALARS))

            layer = only_layer(model)

            assert layer.activation == ("silu" if behind is silu else "gelu")
            assert layer.output == last


@pytest.mark.parametrize("factor", [1e-42, 1e38, np.inf, np.nan])
def test_factors_with_which_weights_are_beyond_floats_stay(factor):
    many = np.full(6, factor, np.float32)
    for behind, values in (([node("Mul", "p f", "y")], {"f": many}),
                           ([node("Mul", "p f", "m"), node("Add", "m b", "y")], {"f": many})):
        layer = only_layer(model_of([node("MatMul", "x w", "p"), *behind],
                                    {"w": 10 * W, "b": B, **values}))
        assert (layer.output, layer.bias) == ("p", None)
    found = survey(model_of([node("Gemm", "x w", "y", alpha=factor)], {"w": 10 * W},
                            inputs=[("x", [3, 4])]))
    assert "alpha is " in found.others[0].reason


def test_a_factor_of_denormal_weights_and_of_a_dead_channel():
    weight = W.copy()
    weight[:, 0] = 1e-41
    layer = only_layer(model_of([node("MatMul", "x w", "p"), node("Mul", "p b", "y")],
                                {"w": weight, "b": B / 10}))
    assert layer.output == "y"

    scale = B.copy()
    scale[2] = 1e-42  # as a regularised scale becomes
    values = {"w": CONV + 1, "b": B, "scale": scale, "one": np.ones(6, np.float32)}
    for shift, output in (("b", "y"), ("scale", "c")):
        layer = only_layer(model_of(
            [node("Conv", "x w", "c"), node("BatchNormalization", f"c scale {shift} zero one", "y")],
            {**values, "zero": np.zeros(6, np.float32)}, inputs=IMAGE))
        assert layer.output == output


def test_sums_of_biases_that_are_beyond_floats_stay():
    large = np.full(6, 3e38, np.float32)
    layer = only_layer(model_of([node("Gemm", "x w b", "p"), node("Add", "p b", "y")],
                                {"w": W, "b": large}, inputs=[("x", [3, 4])]))
    assert layer.output == "p"


def test_operands_that_broadcast_as_in_old_versions_stay():
    square = 2 * np.eye(4, dtype=np.float32)
    for op in ("Add", "Mul"):
        layer = only_layer(model_of([node("MatMul", "x w", "p"),
                                     node(op, "p b", "y", axis=0, broadcast=1)],
                                    {"w": square, "b": B[:4]}, inputs=[("x", [4, 4])], opset=6))
        assert layer.output == "p"


@pytest.mark.parametrize("claimed", [[1, 3, 4], [4]])
def test_what_a_file_says_of_shapes_between_is_not_believed(claimed):
    """ONNX Runtime only warns of it."""
    nodes = [node("Abs", "x", "a"), node("MatMul", "a w", "p"), node("Add", "p b", "y")]
    model = model_of(nodes, {"w": W, "b": B.reshape(1, 1, 6)}, inputs=[("x", ["n", 4])])
    model.graph.value_info.append(
        helper.make_tensor_value_info("a", TensorProto.FLOAT, claimed))

    layer = only_layer(model)

    assert layer.input_shape == (None, 4)
    assert layer.output == "p"  # the sum has a dimension more


def test_an_image_that_a_file_says_is_of_one_size_may_be_of_any():
    model = model_of([node("Relu", "x", "a"), node("Conv", "a w", "y")], {"w": CONV},
                     inputs=[("x", ["n", 4, "height", "width"])])
    model.graph.value_info.append(
        helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 4, 9, 9]))
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 5
    assert only_layer(model).input_shape == (None, 4, None, None)


def test_shapes_behind_what_onnxruntime_has_fused():
    fused = {"domain": "com.microsoft"}
    nodes = [node("FusedConv", "x w b", "c", activation="Relu", pads=[1, 1, 1, 1], **fused),
             node("Another", "x", "unknown", domain="com.microsoft"),
             node("Conv", "c v", "y")]
    model = model_of(nodes, {"w": CONV, "b": B, "v": np.zeros((6, 6, 3, 3), np.float32)},
                     inputs=IMAGE, outputs=("y", "unknown"))
    assert [layer.input_shape for layer in layers_of(model)] == [(1, 4, 9, 9), (1, 6, 9, 9)]


@pytest.mark.parametrize("behind", [
    # Not GELU: 0.4 in place of 0.5.
    [*GELU_TORCH[:-1], node("Mul", "m wrong", "y")],
    # Operations that are not known.
    [node("Elu", "p", "y")], [node("LeakyRelu", "p", "y", alpha=np.inf)],
    # A slope of each row, and one above 1, with which max(x, c x) is no leaky ReLU.
    [node("PRelu", "p b", "y")], [node("Mul", "p six", "m"), node("Max", "m p", "y")],
    # A clamp without an order, and one whose bound is computed.
    [node("Clip", "p six zero", "y")],
    [node("Clip", "p x", "y")],
])
def test_what_is_no_activation_stays(behind):
    model = model_of([node("MatMul", "x w", "p"), *behind],
                     constants(wrong=0.4, zero=0, six=6, **SCALARS))

    layer = only_layer(model)

    assert (layer.activation, layer.output, layer.nodes) == (None, "p", (0,))


@pytest.mark.parametrize("more", [
    {"outputs": ("y", "p")},  # the value between is an output
    {"nodes": [node("Neg", "p", "z")]},  # another node uses it
])
def test_values_that_others_see_are_kept(more):
    nodes = [node("MatMul", "x w", "p"), node("Relu", "p", "y"), *more.get("nodes", [])]
    layer = only_layer(model_of(nodes, constants(), outputs=more.get("outputs", ("y", ))))
    assert (layer.output, layer.nodes) == ("p", (0,))


def test_a_graph_within_a_node_sees_values():
    inner = helper.make_graph([node("Neg", "p", "n")], "inner", [],
                              [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)])
    nodes = [node("MatMul", "x w", "p"), node("Relu", "p", "y"),
             node("If", "when", "z", then_branch=inner, else_branch=inner)]
    model = model_of(nodes, {**constants(), "when": np.array(True)})
    assert only_layer(model).output == "p"


def test_a_convolution():
    weight = RNG.standard_normal((6, 2, 3, 5)).astype(np.float32)
    model = model_of(
        [node("Conv", "x w", "c", strides=[2, 1], pads=[1, 2, 0, 3], dilations=[1, 2], group=2),
         node("Add", "c b", "a"), node("Relu", "a", "y")],
        {"w": weight, "b": B.reshape(1, 6, 1, 1)}, inputs=[("x", [1, 4, 9, "width"])])

    layer = only_layer(model)

    assert layer.convolution == Convolution((2, 1), (1, 2, 0, 3), (1, 2), 2)
    assert (layer.activation, layer.nodes) == ("relu", (0, 1, 2))
    assert layer.input_shape == (1, 4, 9, None)
    np.testing.assert_array_equal(layer.bias, B)


@pytest.mark.parametrize("with_bias", [False, True])
def test_batch_normalization_becomes_factors_and_a_bias(with_bias):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    weight = RNG.standard_normal((6, 4, 3, 3)).astype(np.float32)
    weight[weight < 0] = 0
    model = model_of(
        [node("Conv", "x w b" if with_bias else "x w", "c"),
         node("BatchNormalization", "c scale shift mean var", "n", epsilon=0.01),
         node("Relu", "n", "y")],
        {"w": weight, "b": B, "scale": B + 1, "shift": -B, "mean": B[::-1].copy(), "var": B**2},
        inputs=IMAGE)

    layer = only_layer(model)

    conv = model_of([node("Conv", "x w b", "c"), node("Relu", "c", "y")],
                    {"w": layer.weight, "b": layer.bias}, inputs=IMAGE)
    x = {"x": RNG.standard_normal((1, 4, 9, 9)).astype(np.float32)}
    ours, theirs = (runtime.InferenceSession(one.SerializeToString()).run(None, x)[0]
                    for one in (conv, model))
    assert layer.nodes == (0, 1, 2)
    np.testing.assert_array_equal(layer.weight == 0, weight == 0)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_batch_normalization_that_is_trained_or_computed_stays():
    values = {"w": CONV, "b": B}
    trained = node("BatchNormalization", "c b b b b", "y", training_mode=1)
    computed = node("BatchNormalization", "c b b b x", "y")
    old = node("BatchNormalization", "c b b b b", "y", is_test=0)
    negative = node("BatchNormalization", "c b b b negative", "y")
    values["negative"] = np.full(6, -1, np.float32)
    for normalization in (trained, computed, old, negative):
        layer = only_layer(model_of([node("Conv", "x w", "c"), normalization], values,
                                    inputs=IMAGE))
        assert layer.output == "c"


def test_shapes_for_a_run():
    model = model_of([node("Conv", "x w", "c"), node("Conv", "c w", "y")],
                     {"w": np.zeros((4, 4, 3, 3), np.float32)},
                     inputs=[("x", [1, 4, "height", "width"])])

    assert [layer.input_shape for layer in layers_of(model, {"x": (1, 4, 20, 30)})] == [
        (1, 4, 20, 30), (1, 4, 18, 28)]
    assert layers_of(model)[1].input_shape == (1, 4, None, None)
    for shapes in ({"z": (1, 4, 20, 30)}, {"x": (1, 4)}):
        with pytest.raises(ValueError, match="x of 4 dimensions"):
            layers_of(model, shapes)


@pytest.mark.parametrize(("mode", "pad"), [("VALID", (0, 0, 0, 0)), ("SAME_UPPER", (0, 1, 1, 1)),
                                           ("SAME_LOWER", (1, 1, 0, 1))])
def test_automatic_padding(mode, pad):
    model = model_of([node("Conv", "x w", "y", auto_pad=mode)],
                     {"w": np.zeros((6, 4, 2, 3), np.float32)}, inputs=[("x", [1, 4, 9, 9])])
    assert only_layer(model).convolution == Convolution(pad=pad)




@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "step"), [(9, 2), (8, 2), (7, 3), (5, 4)])
def test_automatic_padding_with_a_stride(mode, size, step):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    weight = RNG.standard_normal((6, 4, 3, 2)).astype(np.float32)
    x = {"x": RNG.standard_normal((1, 4, size, size + 1)).astype(np.float32)}
    given = model_of([node("Conv", "x w", "y", auto_pad=mode, strides=[step, step])],
                     {"w": weight}, inputs=[("x", x["x"].shape)])

    pads = only_layer(given).convolution.pad

    plain = model_of([node("Conv", "x w", "y", pads=pads, strides=[step, step])],
                     {"w": weight}, inputs=[("x", x["x"].shape)])
    ours, theirs = (runtime.InferenceSession(one.SerializeToString()).run(None, x)[0]
                    for one in (plain, given))
    np.testing.assert_array_equal(ours, theirs)


def test_a_convolution_of_one_dimension():
    model = model_of([node("Conv", "x w", "c", strides=[2], pads=[1, 2], dilations=[3], group=2),
                      node("Mul", "c f", "m"), node("Relu", "m", "y")],
                     {"w": np.ones((6, 2, 5), np.float32), "f": np.full((6, 1), 3, np.float32)},
                     inputs=[("x", [1, 4, 20])])

    layer = only_layer(model)

    assert layer.convolution == Convolution((1, 2), (0, 1, 0, 2), (1, 3), 2, dimensions=1)
    assert (layer.weight.shape, layer.image, layer.activation) == ((6, 2, 1, 5), (1, 20), "relu")
    assert np.all(layer.weight == 3)


def test_weights_with_dimensions_of_one():
    model = model_of([node("MatMul", "x w", "y")], {"w": W[None]})
    np.testing.assert_array_equal(only_layer(model).weight, W.T)


@pytest.mark.parametrize(("c", "x", "z"), [
    ("x", ["n", 4], [3, 4]), ("x", [None, 4], [3, 4]), ("r", ["n", 4], [3, 4]),
    ("r", [None, 4], ["n", 4]), ("z", [3, 4], [3, 4]), ("x", ["n", 4], ["n", 4])])
def test_a_gemm_with_a_sum_of_its_shape(c, x, z):
    square = W[:, :4].copy()
    model = model_of([node("Sigmoid", "x", "r"), node("Gemm", f"x w {c}", "p"),
                      node("Relu", "p", "y")], {"w": square}, inputs=[("x", x), ("z", z)])

    layer = only_layer(model)

    assert (layer.residual, layer.bias, layer.activation) == (c, None, "relu")


@pytest.mark.parametrize(("nodes", "weight", "inputs", "reason"), [
    ([node("MatMul", "x w", "y")], W[None], [("x", None)], "an unknown number"),
    ([node("MatMul", "x w", "y")], W.astype(np.float16), [("x", [3, 4])], "float16"),
    ([node("Gemm", "x w x", "y")], W, [("x", [6, 4])], "no constant [6]"),
    ([node("Gemm", "x w z", "y")], W, [("x", ["n", 4]), ("z", ["k", 6])], "no constant [6]"),
    ([node("Gemm", "x w z", "y")], W, [("x", ["n", 4]), ("z", ["n", 6])], "no constant [6]"),
    ([node("Gemm", "x w z", "y")], W, [("x", ["n", 4]), ("z", [None, 6])], "no constant [6]"),
    ([node("Gemm", "x w z", "y")], W, [("x", [None, 4]), ("z", [1, 6])], "no constant [6]"),
    ([node("Conv", "x w", "y", auto_pad="SAME_UPPER", strides=[2, 2])], CONV,
     [("x", [1, 4, "height", 9])], "auto_pad"),
    ([node("Conv", "x w", "y")], CONV[..., None], [("x", [1, 4, 9, 9, 9])],
     "it has three dimensions; expected one or two"),
    ([node("Conv", "x w x", "y")], CONV, IMAGE, "bias is no constant"),
    ([node("ConvTranspose", "x w x", "y")], CONV, IMAGE, "bias is no constant"),
])
def test_nodes_that_are_no_layers_say_why(nodes, weight, inputs, reason):
    found = survey(model_of(nodes, {"w": weight}, inputs=inputs))
    assert found.layers == []
    assert [reason in other.reason for other in found.others] == [True]


def attribute_place(model, name):
    return [one.name for one in model.graph.node[0].attribute].index(name)


def test_layers_of_graphs_within_nodes():
    def branch(name, *nodes):
        return helper.make_graph(list(nodes), name, [], [
            helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)])

    inner = numpy_helper.from_array(W, "v")
    model = model_of([node("If", "c", "y", then_branch=branch("t", node("MatMul", "x w", "a")),
                           else_branch=branch("e", node("Constant", "", "v", value=inner),
                                              node("MatMul", "x v", "b")))],
                     constants(), inputs=[("x", [3, 4]), ("c", [])])

    found = survey(model)

    assert sorted((one.name, one.scope) for one in found.layers) == [
        ("a", ((0, attribute_place(model, "then_branch")),)),
        ("b", ((0, attribute_place(model, "else_branch")),))]
    assert found.others == []
    for layer in found.layers:
        np.testing.assert_array_equal(layer.weight, W.T)


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_initializers(flat):
    places = np.array([1, 8, 23]) if flat else np.array([[0, 1], [1, 2], [3, 5]])
    model = model_of([node("MatMul", "x w", "y")], {})
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w"),
        numpy_helper.from_array(places, "places"), W.shape))
    expected = np.zeros_like(W)
    expected[[0, 1, 3], [1, 2, 5]] = 1, 2, 3

    np.testing.assert_array_equal(only_layer(model).weight, expected.T)


def test_a_product_of_activations_is_not_mentioned():
    found = survey(model_of([node("MatMul", "x z", "y")], {},
                            inputs=[("x", [3, 4]), ("z", [4, 3])]))
    assert found == ([], [], [])


def test_a_default_that_a_run_may_replace_is_no_constant():
    inputs = [("x", [3, 4]), ("w", [4, 6])]
    assert layers_of(model_of([node("MatMul", "x w", "y")], {"w": W}, inputs=inputs)) == []
    old = model_of([node("MatMul", "x w", "y")], {"w": W}, inputs=inputs, ir_version=3)
    assert len(layers_of(old)) == 1


def test_weights_beside_the_model_and_shared_by_two_nodes(tmp_path):
    model = model_of([node("MatMul", "x w", "y", name="n"), node("MatMul", "x w", "z", name="n")],
                     constants(), outputs=("y", "z"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin",
              size_threshold=0)

    layers = layers_of(onnx.load(tmp_path / "m.onnx"))

    assert [layer.name for layer in layers] == ["n", "n_2"]
    for layer in layers:
        np.testing.assert_array_equal(layer.weight, W.T)
