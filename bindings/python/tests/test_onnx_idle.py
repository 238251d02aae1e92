"""Channels that are constant, or that nothing reads, leave a model: which, through which nodes, and
what the model then gives. SPJIT_ONNX_GRAPHS: how many random graphs."""

from __future__ import annotations

import os

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx_idle_fuzz as fuzz
import spjit.onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_idle_fuzz import run
from onnx_testing import kernels_are_faster  # noqa: F401
from spjit._onnx_values import Graph
from spjit.onnx import _channel_layers, _channel_moves, _channel_nodes, _channels, _idle, _optimize

RNG = np.random.default_rng(3)
GRAPHS = int(os.environ.get("SPJIT_ONNX_GRAPHS", "300"))


def whole(*shape):
    """Numbers with which sums are exact in any order; none is 0."""
    return RNG.choice(np.array([-3, -2, -1, 1, 2, 3], np.float32), shape)


def without(weight, *, rows=(), columns=()):
    """A weight [out, in, ...] with these empty."""
    made = weight.copy()
    made[list(rows)] = 0
    made[:, list(columns)] = 0
    return made


def node(op, inputs, output, **attributes):
    return helper.make_node(op, ["" if name == "-" else name for name in inputs.split()],
                            output.split(), f"node {output}", **attributes)


def model_of(nodes, constants, x, outputs=("y",), defaults=(), opset=17):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x), *(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, constants[name].shape)
            for name in defaults)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def check(model, x, rows, columns, folded=0):
    """So many of each go, of all layers, and the model gives the same."""
    small, layers = _idle.without_idle_channels(model)

    cuts = [layer.cut for layer in layers]
    assert (sum(cut.rows for cut in cuts), sum(cut.columns for cut in cuts),
            sum(cut.folded for cut in cuts)) == (rows, columns, folded)
    for y, wanted in zip(run(small, x), run(model, x)):
        assert y.shape == wanted.shape
        np.testing.assert_array_equal(y, wanted)
    return small


# ---- Between two products -------------------------------------------------------------------

# y = W2 f(W1 x + b1) + b2 of 8 channels, 3 of which have no row, and 2 others no column.
ROWS, COLUMNS = (1, 4, 6), (0, 4, 7)
W1, W2 = without(whole(8, 5), rows=ROWS), without(whole(4, 8), columns=COLUMNS)
PAIR = {"w1": W1.T.copy(), "b1": whole(8), "w2": W2.T.copy(), "b2": whole(4)}
X = whole(2, 3, 5)


def between(nodes, constants=None, x=X, outputs=("y",), **more):
    """These nodes between the two products: they make r of a."""
    return model_of([node("MatMul", "x w1", "p"), node("Add", "p b1", "a"), *nodes,
                     node("MatMul", "r w2", "q"), node("Add", "b2 q", "y")],
                    {**PAIR, **(constants or {})}, [None, *x.shape[1:]], outputs, **more)


def test_rows_and_columns_without_entries():
    """Channels 1 and 6 are constant, 0 and 7 are not read, 4 is both."""
    small = check(between([node("Relu", "a", "r")]), X, 5, 5,
                  folded=sum(PAIR["b1"][c] > 0 for c in (1, 6)))
    shapes = {one.name: tuple(one.dims) for one in small.graph.initializer}
    assert sorted(shapes.values()) == sorted([(5, 3), (3,), (3, 4), (4,)])


@pytest.mark.parametrize("nodes", [
    [node("Neg", "a", "n"), node("Clip", "n low high", "r")],
    [node("Mul", "f a", "m"), node("Sub", "m f", "s"), node("Max", "s a", "r")],
    [node("PRelu", "a slopes", "r")],
    [node("Transpose", "a", "t", perm=[0, 2, 1]), node("Relu", "t", "u"),
     node("Transpose", "u", "r", perm=[0, 2, 1])],
    [node("Reshape", "a flat", "t"), node("Abs", "t", "u"), node("Reshape", "u back", "r")],
    [node("Unsqueeze", "a axis", "t"), node("Squeeze", "t axis", "r")],
    [node("Split", "a sizes", "s t", axis=2), node("Neg", "s", "u"),
     node("Concat", "u t", "r", axis=-1)],
    [node("Gather", "a order", "t", axis=-1), node("Gather", "t order", "r", axis=2)],
    [node("Concat", "a a", "t", axis=1), node("Slice", "t zero three one", "r")],
    [node("ReduceMax", "a", "t", axes=[-2]), node("Add", "t a", "r")],
    [node("Identity", "a", "t"), node("Dropout", "t half", "r")],
], ids=["unary", "constants", "slopes", "transposed", "reshaped", "dimensions", "split", "gathered",
        "side by side", "reduced", "dropped"])
def test_nodes_that_channels_pass(nodes):
    constants = {"low": np.float32(-2), "high": np.float32(2), "f": whole(1, 8),
                 "slopes": whole(8), "flat": np.array([-1, 8]), "back": np.array([2, 3, 8]),
                 "axis": np.array([0]), "sizes": np.array([3, 5]),
                 "order": np.array([3, 2, 1, 0, 7, 6, 5, 4]), "zero": np.array([0]),
                 "three": np.array([3]), "one": np.array([1]), "half": np.float32(0.5)}
    used = {name for one in nodes for name in one.input}
    model = between(nodes, {name: value for name, value in constants.items() if name in used})

    small, layers = _idle.without_idle_channels(model)

    assert [(layer.cut.rows, layer.cut.columns) for layer in layers] == [(5, 0), (0, 5)]
    np.testing.assert_array_equal(run(small, X)[0], run(model, X)[0])


@pytest.mark.parametrize("split", [{"split": [3, 5]}, {}], ids=["sizes", "halves"])
def test_parts_of_old_models(split):
    """Sizes were an attribute before version 13."""
    nodes = [node("Split", "a", "s t", axis=-1, **split), node("Concat", "s t", "r", axis=2)]
    small, layers = _idle.without_idle_channels(between(nodes, opset=12))
    assert [layer.cut.rows for layer in layers] == [5, 0]
    np.testing.assert_array_equal(run(small, X)[0], run(between(nodes, opset=12), X)[0])


@pytest.mark.parametrize("nodes", [
    [node("Softmax", "a", "r", axis=-1)],
    [node("LayerNormalization", "a b1", "r", axis=-1)],
    [node("ReduceMax", "a", "t", axes=[-1]), node("Add", "a t", "r")],
    [node("Reshape", "a mixed", "t"), node("Relu", "t", "u"), node("Reshape", "u back", "r")],
    [node("Softmax", "a", "r", axis=1), node("Identity", "a", "z")],
    [node("Dropout", "a half yes", "r")],
    [node("MatMul", "x w5", "t"), node("Softmax", "t", "s"), node("Add", "a s", "r")],
    [node("Slice", "a zero end last two", "s"), node("Slice", "a one end last two", "t"),
     node("Concat", "s t", "r", axis=2)],
], ids=["softmax", "normalization", "maximum", "mixed", "another softmax", "training", "a sum",
        "every second"])
def test_nodes_that_keep_all_channels(nodes):
    model = between(nodes, {"mixed": np.array([0, -1, 4]), "back": np.array([0, 3, 8]),
                            "half": np.float32(0.5), "yes": np.array(True), "w5": whole(5, 8),
                            **{name: np.array([value]) for name, value in (
                                ("zero", 0), ("one", 1), ("two", 2), ("end", 8), ("last", 2))}})
    assert _idle.without_idle_channels(model) == (model, [])


def test_numbers_that_are_joined_have_to_be_the_same():
    nodes = [node("Neg", "a", "n"), node("Concat", "a n", "r", axis=1)]
    check(between(nodes), X, 3, 3)  # 0, 4 and 7 are not read


@pytest.mark.parametrize(("nodes", "tokens"), [
    ([node("Reshape", "a shape", "r")], 8),
    ([node("Unsqueeze", "a axis", "t"), node("Squeeze", "t", "r")], 3),
], ids=["of another dimension", "of one element"])
def test_shapes_that_depend_on_the_number_of_channels(nodes, tokens):
    """The second size is that of the input's channels, and any of one element goes."""
    used = {name for one in nodes for name in one.input}
    constants = {"shape": np.array([1, 0, 8]), "axis": np.array([0])}
    model = model_of([node("Gemm", "x w1", "a", transB=1), *nodes, node("MatMul", "r w2", "y")],
                     {"w1": W1, "w2": without(whole(4, 8), columns=(0, 1, 2, 4, 5, 6, 7)).T.copy(),
                      **{name: value for name, value in constants.items() if name in used}},
                     [tokens, 5])
    assert _idle.without_idle_channels(model) == (model, [])


def test_sizes_in_the_file_that_are_no_longer_true_go():
    model = between([node("Relu", "a", "r")])
    model.graph.value_info.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, size])
        for name, size in (("a", 8), ("q", 4)))
    small, _ = _idle.without_idle_channels(model)
    assert [one.name for one in small.graph.value_info] == ["q"]


def test_one_is_kept_where_all_could_go():
    model = model_of([node("MatMul", "x w1", "p"), node("Add", "p b1", "a"),
                      node("MatMul", "a w2", "y")],
                     {"w1": np.zeros((5, 8), np.float32), "b1": whole(8), "w2": whole(8, 4)},
                     [3, 5])
    check(model, whole(3, 5), 7, 7, folded=7)


def test_what_is_dead_makes_more_dead():
    """Of the chain of three, the last reads one channel."""
    w1, w2, w3 = whole(6, 5), np.diag(whole(6)), without(whole(4, 6), columns=(0, 2, 3, 4, 5))
    model = model_of([node("MatMul", "x w1", "p"), node("Relu", "p", "a"),
                      node("MatMul", "a w2", "q"), node("Relu", "q", "r"),
                      node("MatMul", "r w3", "y")],
                     {"w1": w1.T.copy(), "w2": w2, "w3": w3.T.copy()}, [3, 5])
    check(model, whole(3, 5), 10, 10)


def test_rows_of_constants_alone_are_constant():
    """Row 2 of the second has an entry in channel 1 alone, which is constant."""
    w1, w2 = without(whole(4, 5), rows=(1,)), whole(4, 4)
    w2[2, [0, 2, 3]] = 0
    model = model_of([node("Gemm", "x w1 b1", "a", transB=1), node("Gemm", "a w2 b2", "q",
                                                                  transB=1),
                      node("Gemm", "q w3", "y", transB=1)],
                     {"w1": w1, "b1": whole(4), "w2": w2, "b2": np.full(4, 10, np.float32),
                      "w3": whole(3, 4)}, [3, 5])
    check(model, whole(3, 5), 2, 2, folded=2)


def test_sums_of_products_get_what_is_folded():
    """With no sum behind it, a product gets one."""
    model = model_of([node("Gemm", "x w1 b1", "a", transB=1), node("MatMul", "a w2", "q"),
                      node("Relu", "q", "y")],
                     {"w1": W1, "b1": PAIR["b1"], "w2": PAIR["w2"]}, [3, 5])
    small = check(model, whole(3, 5), 5, 5, folded=2)
    assert [one.op_type for one in small.graph.node] == ["Gemm", "MatMul", "Add", "Relu"]
    small = check(between([node("Identity", "a", "r")]), X, 5, 5, folded=2)
    assert [one.op_type for one in small.graph.node] == ["MatMul", "Add", "Identity", "MatMul",
                                                         "Add"]


# ---- Several users --------------------------------------------------------------------------


def test_all_users_of_a_channel_have_to_do_without():
    other = without(whole(4, 8), columns=(0, 5))
    model = model_of([node("Gemm", "x w1 b1", "a", transB=1), node("Gemm", "a w2", "q", transB=1),
                      node("Gemm", "a w3", "r", transB=1), node("Add", "q r", "y")],
                     {"w1": W1, "b1": PAIR["b1"], "w2": W2, "w3": other}, [3, 5])
    # 1, 4 and 6 are constant; 0 nobody reads.
    check(model, whole(3, 5), 4, 8, folded=5)


def test_a_residual_goes_in_both_branches_or_in_none():
    w1, w2 = without(whole(8, 5), rows=(1, 2)), without(whole(8, 5), rows=(2, 3))
    model = model_of([node("Gemm", "x w1 b1", "a", transB=1), node("Gemm", "x w2", "c", transB=1),
                      node("Add", "a c", "s"), node("Gemm", "s w3", "y", transB=1)],
                     {"w1": w1, "w2": w2, "b1": whole(8), "w3": without(whole(4, 8), columns=(5,))},
                     [3, 5])
    check(model, whole(3, 5), 4, 2, folded=1)  # 2 is constant in both, and 5 is not read


@pytest.mark.parametrize("more", [{}, {"beta": 2.0}], ids=["sum", "factor"])
def test_a_product_with_another_sum_than_a_bias_takes_no_constants(more):
    """Nor may it, or what it adds, lose a row."""
    w3 = without(whole(5, 4), columns=(2,))
    model = model_of([node("Gemm", "x w1 b1", "a", transB=1), node("Gemm", "x w4", "c", transB=1),
                      node("Gemm", "a w2 c", "d", transB=1, **more),
                      node("Gemm", "d w3", "y", transB=1)],
                     {"w1": W1, "b1": PAIR["b1"], "w2": without(W2, rows=(1,)), "w3": w3,
                      "w4": without(whole(4, 5), rows=(3,))}, [3, 5])
    # 0, 4 and 7 are not read; and 2 in both terms of the sum, unless it has a factor.
    check(model, whole(3, 5), 0 if more else 5, 0 if more else 4)


def test_what_is_too_large_for_a_bias_is_not_folded():
    w1, w2 = without(whole(4, 5), rows=(1,)), whole(3, 4)
    model = model_of([node("Gemm", "x w1 b1", "a", transB=1), node("Gemm", "a w2", "y", transB=1)],
                     {"w1": w1, "b1": np.array([1, 3e38, 1, 1], np.float32), "w2": 2 * w2}, [3, 5])
    assert _idle.without_idle_channels(model) == (model, [])


def test_what_a_model_gives_stays():
    model = between([node("Relu", "a", "r")], outputs=("y", "r"))
    assert _idle.without_idle_channels(model) == (model, [])


def test_what_a_graph_within_a_node_uses_stays():
    inner = helper.make_graph([helper.make_node("Neg", ["r"], ["n"])], "then", [],
                              [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)])
    model = between([node("Relu", "a", "r"), node("If", "yes", "z", then_branch=inner,
                                                  else_branch=inner)],
                    {"yes": np.array(True)}, outputs=("y", "z"))
    assert _idle.without_idle_channels(model) == (model, [])


def test_weights_that_a_run_may_replace_stay():
    model = between([node("Relu", "a", "r")], defaults=("w2",))
    # Without a reader that is known, rows are kept.
    assert _idle.without_idle_channels(model) == (model, [])


def test_layers_that_share_a_weight():
    """It is cut for each of them as it needs."""
    w = without(whole(6, 6), rows=(1,), columns=(1, 3))
    nodes = [node("Gemm", "x w b", "a", transB=1), node("Relu", "a", "c"),
             node("Gemm", "c w b", "d", transB=1), node("Relu", "d", "e"),
             node("Gemm", "e w b", "y", transB=1)]
    small = check(model_of(nodes, {"w": w, "b": whole(6)}, [3, 6]), whole(3, 6), 4, 4)
    assert sorted(one.dims[0] * one.dims[1] for one in small.graph.initializer
                  if len(one.dims) == 2) == [16, 24, 24]


# ---- Convolutions ---------------------------------------------------------------------------

K1, K2 = without(whole(6, 3, 3, 3), rows=(1, 4)), without(whole(4, 6, 3, 3), columns=(0, 4))
IMAGE = whole(2, 3, 6, 6)
BIAS = np.array([1, 2, -1, 3, -2, 1], np.float32)
FIRST = node("Conv", "x k1 b", "a", pads=[1, 1, 1, 1])


def image_model(nodes, more=None, k2=K2):
    return model_of([FIRST, *nodes], {"k1": K1, "b": BIAS, "k2": k2, **(more or {})},
                    [None, 3, 6, 6])


@pytest.mark.parametrize(("nodes", "rows", "folded"), [
    ([node("Conv", "a k2", "y")], 3, 1),
    ([node("Conv", "a k2", "y", pads=[0, 0, 1, 1])], 2, 0),  # 1 is 2, but for the border
    ([node("Conv", "a k2", "y", auto_pad="SAME_UPPER")], 2, 0),
    ([node("Sub", "a two", "s"), node("Relu", "s", "r"), node("Conv", "r k2", "y", pads=[1] * 4)],
     3, 0),  # it is 0
    ([node("MaxPool", "a", "r", kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
      node("Conv", "r k2", "y")], 3, 1),
    ([node("AveragePool", "a", "r", kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1),
      node("Conv", "r k2", "y")], 2, 0),
    ([node("AveragePool", "a", "r", kernel_shape=[2, 2], count_include_pad=1),
      node("Conv", "r k2", "y")], 3, 1),
    ([node("MaxPool", "a", "r", kernel_shape=[2, 2], ceil_mode=1), node("Conv", "r k2", "y")], 2,
     0),
    ([node("GlobalMaxPool", "a", "r"), node("Conv", "r k3", "y")], 2, 1),
    ([node("ConvTranspose", "a k4", "y")], 2, 0),
    ([node("Conv", "a depth", "r", group=6), node("Conv", "r k2", "y")], 3, 1),
    ([node("Conv", "a depth", "r", group=6, pads=[1, 1, 1, 1]), node("Conv", "r k2", "y")], 2, 0),
    ([node("Conv", "a pairs", "r", group=2), node("Conv", "r k2", "y")], 0, 0),
    ([node("Add", "a plane", "r"), node("Conv", "r k2", "y")], 2, 0),
    ([node("BatchNormalization", "a f b f one", "r", epsilon=0.0), node("Conv", "r k2", "y")], 3,
     1),
], ids=["plain", "padded", "automatic", "zero", "maximum", "mean of pads", "mean", "rounded up",
        "global", "transposed", "depthwise", "padded depthwise", "groups", "of places",
        "normalization"])
def test_constants_at_borders(nodes, rows, folded):
    """Channel 1 is constant, 0 is not read, 4 is both."""
    more = {"two": np.float32(2), "k3": without(whole(4, 6, 1, 1), columns=(4,)),
            "k4": without(whole(6, 4, 2, 2), rows=(0, 4)), "depth": whole(6, 1, 1, 1),
            "pairs": whole(6, 3, 1, 1), "plane": whole(6, 6, 6), "f": whole(6),
            "one": np.ones(6, np.float32)}
    model = image_model(nodes, more)
    small, layers = _idle.without_idle_channels(model)
    assert layers[0].cut.rows == rows if rows else not layers
    assert sum(layer.cut.folded for layer in layers) == folded
    np.testing.assert_array_equal(run(small, IMAGE)[0], run(model, IMAGE)[0])


def test_a_normalization_in_training():
    """By means of what it is given."""
    model = image_model([node("BatchNormalization", "a f b f one", "r", training_mode=1),
                         node("Conv", "r k2", "y")],
                        {"f": whole(6), "one": np.ones(6, np.float32)})
    assert _idle.without_idle_channels(model) == (model, [])


def test_a_product_over_another_dimension():
    model = image_model([node("MatMul", "a w6", "y")], {"w6": without(whole(6, 4), rows=(1,))})
    assert _idle.without_idle_channels(model) == (model, [])


def test_pixels_that_become_features():
    """Each channel is 36 columns of a product."""
    weight = without(whole(4, 6, 36), columns=(0, 4)).reshape(4, -1)
    for nodes in ([node("Flatten", "a", "f")], [node("Reshape", "a shape", "f")]):
        model = image_model([*nodes, node("Gemm", "f g", "y", transB=1)],
                            {"g": weight, "shape": np.array([0, -1])})
        check(model, IMAGE, 3, 3 * 36, folded=36)


@pytest.mark.parametrize(("channels", "empty", "gone"), [(32, 5, 0), (32, 16, 16), (32, 18, 16),
                                                         (32, 32, 16), (31, 5, 5)])
def test_images_keep_whole_blocks_of_channels(channels, empty, gone):
    """With which convolutions that stay dense are faster."""
    model = model_of([node("Conv", "x k", "a"), node("Relu", "a", "r"), node("Conv", "r l", "y")],
                     {"k": without(whole(channels, 3, 1, 1), rows=range(empty)),
                      "l": whole(4, channels, 1, 1)}, [None, 3, 6, 6])
    if gone:
        check(model, IMAGE, gone, gone)
    else:
        assert _idle.without_idle_channels(model) == (model, [])


def test_a_factor_of_the_image_keeps_channels_apart():
    """Squeeze and excitation. Channel 1 is constant in both factors; 4 in one, and is not read."""
    nodes = [node("GlobalMaxPool", "a", "m"), node("Conv", "m k3 b", "g"), node("Mul", "a g", "r"),
             node("Conv", "r k2", "y")]
    check(image_model(nodes, {"k3": without(whole(6, 6, 1, 1), rows=(1,))}), IMAGE, 4, 4, folded=3)


def test_what_is_multiplied_by_0_is_0():
    factor = np.array([1, 0, 2, 0, 1, 1], np.float32)
    nodes = [node("Mul", "a f", "m"), node("Relu", "m", "r"),
             node("Conv", "r k2", "y", pads=[1] * 4)]
    check(image_model(nodes, {"f": factor.reshape(-1, 1, 1)}), IMAGE, 4, 4)


# ---- As ONNX Runtime fuses ------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "x"), [
    ([node("FusedGemm", "x w1 b1", "a", activation="LeakyRelu", activation_alpha=0.5, transB=1,
           domain="com.microsoft"), node("Gemm", "a w2", "y", transB=1)], whole(3, 5)),
    ([node("FusedConv", "x v1 b1", "a", activation="HardSigmoid", activation_params=[0.25, 0.5],
           domain="com.microsoft"), node("Conv", "a v2", "y")], whole(1, 5, 2, 2)),
    ([node("FusedMatMul", "x w1", "p", transB=1, domain="com.microsoft"),
      node("Add", "p b1", "a"), node("FusedMatMul", "a w2", "y", transB=1,
                                     domain="com.microsoft")], whole(3, 5)),
], ids=["gemm", "conv", "matmul"])
def test_activations_within_layers(nodes, x):
    constants = {"w1": W1, "b1": np.array([1, 2, 3, 2, -1, 1, -2, 1], np.float32), "w2": W2,
                 "v1": W1[..., None, None], "v2": W2[..., None, None]}
    used = {name for one in nodes for name in one.input}
    model = model_of(nodes, {name: value for name, value in constants.items() if name in used},
                     x.shape)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    small, layers = _idle.without_idle_channels(model)
    assert [layer.cut[1:3] for layer in layers] == [(5, 0), (0, 5)]
    np.testing.assert_allclose(run(small, x)[0], run(model, x)[0], rtol=1e-6)


def test_a_layer_of_quantised_weights_stays():
    model = model_of([node("DequantizeLinear", "q scale", "w"), node("Gemm", "x w", "a"),
                      node("Gemm", "a w2", "y", transB=1)],
                     {"q": W1.T.astype(np.int8), "scale": np.float32(0.5), "w2": W2}, [3, 5])
    assert _idle.without_idle_channels(model) == (model, [])


def test_old_operators_stay():
    model = model_of([node("Gemm", "x w1 b1", "a", transB=1), node("Gemm", "a w2 b2", "y",
                                                                  transB=1)],
                     {"w1": W1, "b1": PAIR["b1"], "w2": W2, "b2": PAIR["b2"]}, [3, 5], opset=6)
    assert _idle.without_idle_channels(model) == (model, [])


# ---- By chance ------------------------------------------------------------------------------


def test_random_graphs(tmp_path):
    fuzzer = fuzz.Fuzzer(tmp_path)

    wrong = [message for seed in range(GRAPHS) if (message := fuzzer.wrong(seed))]

    assert not wrong, "\n".join(wrong[:5])
    assert fuzzer.removed > 4 * GRAPHS
    assert fuzzer.folded > GRAPHS // 10


def borders(monkeypatch):
    """Constants go on behind the border of an image."""
    monkeypatch.setattr(_channel_layers, "_is_padded", lambda _: False)


def replaced(monkeypatch):
    """Weights that a run may replace are constant."""
    monkeypatch.setattr(Graph, "is_replaceable", lambda *_: False)


def seen(monkeypatch):
    """Nobody sees values but nodes."""
    monkeypatch.setattr(Graph, "is_kept", lambda *_: False)


def unfolded(monkeypatch):
    """What is constant is lost."""
    monkeypatch.setattr(_channel_layers._Layer, "folded",
                        lambda self, *_: np.zeros(len(self.weight)))


def untied(monkeypatch):
    """A node takes from each operand what it likes."""
    for module in (_channel_nodes, _channel_moves, _channels):
        monkeypatch.setattr(module, "tie", lambda gone, names: None)


def in_any_place(monkeypatch):
    """Elements of a channel are all the same constant."""
    monkeypatch.setattr(_channel_nodes, "_uniform", lambda value, like: (
        value if value.size == 1 else np.resize(value, (1, like.size, *(1,) * like.trailing))))


def unlike(monkeypatch):
    """Constants that are joined are those of the first."""
    monkeypatch.setattr(_channel_moves, "_side_by_side", lambda scope, one: _channels.same(
        scope, one, one.input[0], scope.channels[one.input[0]]) if one.input[0] in scope.channels
        else None)


def without_functions(monkeypatch):
    """What an operator makes of constants is forgotten."""
    monkeypatch.setattr(_channel_nodes, "computed",
                        lambda scope, one, operands, like, constant: like.only(constant))


def of_any_node(monkeypatch):
    """A node without a rule keeps nothing."""
    monkeypatch.setattr(_idle, "keep_all", lambda *_: None)


PLANTS = [borders, replaced, seen, unfolded, untied, in_any_place, unlike, without_functions,
          of_any_node]


@pytest.mark.parametrize("plant", PLANTS)
def test_the_fuzzer_finds_a_planted_fault(tmp_path, monkeypatch, plant):
    plant(monkeypatch)
    fuzzer = fuzz.Fuzzer(tmp_path)

    assert any(fuzzer.wrong(seed) for seed in range(1200)), plant.__doc__


# ---- In an optimized model ------------------------------------------------------------------


def pruned(shape, rows, columns):
    weight = RNG.standard_normal(shape).astype(np.float32)
    weight[RNG.random(shape) < 0.6] = 0
    return without(weight, rows=range(rows), columns=range(shape[1] - columns, shape[1]))


@pytest.fixture
def feed_forward(tmp_path):
    """y = W2 relu(W1 x + b1) + b2 of 32 channels: 8 without a row, 4 without a column."""
    constants = {"w1": pruned((32, 24), 8, 0).T.copy(), "w2": pruned((16, 32), 0, 4).T.copy(),
                 "b1": whole(32), "b2": whole(16)}
    nodes = [node("MatMul", "x w1", "p"), node("Add", "p b1", "a"), node("Relu", "a", "r"),
             node("MatMul", "r w2", "q"), node("Add", "q b2", "y")]
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, constants, ["n", 5, 24]), str(path))
    return path


def test_the_report_has_what_is_saved(feed_forward):
    x = whole(3, 5, 24)

    fast = spjit.onnx.optimize(feed_forward, x)

    first, second = fast.report.removed
    assert (first.shape, first.rows, first.columns) == ((32, 24), 12, 0)
    assert (second.shape, second.rows, second.columns) == ((16, 32), 0, 12)
    assert second.folded == np.count_nonzero(constant_of(feed_forward, "b1")[:8] > 0)
    assert (first.flops, first.bytes) == (2 * 12 * 24 * 15, 4 * (12 * 24 + 12 * 15))
    assert (second.flops, second.bytes) == (2 * 12 * 16 * 15, 4 * 12 * 16)
    assert [row.shape for row in fast.report.rows] == [(20, 24), (16, 20)]
    total = str(fast.report).splitlines()[-2].split()
    assert total == ["2", "layers", "12", "12", str(second.folded), str(first.flops + second.flops),
                     str(first.bytes + second.bytes)]
    wanted = run(onnx.load(str(feed_forward)), x)[0]
    np.testing.assert_allclose(fast(x)[0], wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def constant_of(path, name):
    return next(numpy_helper.to_array(one) for one in onnx.load(str(path)).graph.initializer
                if one.name == name)


def test_without_passes(feed_forward):
    fast = spjit.onnx.optimize(feed_forward, whole(3, 5, 24), exact_passes=False)
    assert fast.report.removed == []
    assert [row.shape for row in fast.report.rows] == [(32, 24), (16, 32)]
    with pytest.raises(spjit.InvalidArgument, match="exact_passes is 'no'"):
        spjit.onnx.optimize(feed_forward, whole(3, 5, 24), exact_passes="no")


def test_kernels_have_the_same_bits_where_nothing_is_folded(tmp_path):
    """Channels that nobody reads, of random numbers."""
    constants = {"w1": pruned((64, 48), 0, 0).T.copy(), "w2": pruned((32, 64), 0, 30).T.copy(),
                 "b1": RNG.standard_normal(64).astype(np.float32)}
    path = tmp_path / "model.onnx"
    onnx.save(model_of([node("MatMul", "x w1", "p"), node("Add", "p b1", "a"),
                        node("Relu", "a", "r"), node("MatMul", "r w2", "y")], constants,
                       ["n", 48]), str(path))
    x = RNG.standard_normal((7, 48)).astype(np.float32)

    fast, whole_ = (spjit.onnx.optimize(path, x, exact_passes=on) for on in (True, False))

    assert [(one.rows, one.columns) for one in fast.report.removed] == [(30, 0), (0, 30)]
    assert len(fast.report.sparse) == len(whole_.report.sparse) == 2
    np.testing.assert_array_equal(fast(x)[0].view(np.int32), whole_(x)[0].view(np.int32))


@pytest.mark.measured
@pytest.mark.parametrize(("times", "sparse"), [((9.0, 1.0, 5.0), 0), ((9.0, 5.0, 1.0), 2)])
def test_a_shorter_model_may_be_fastest_without_kernels(feed_forward, monkeypatch, times, sparse):
    monkeypatch.setattr(_optimize, "model_times", lambda sessions, *_: list(times)[:len(sessions)])
    monkeypatch.setattr(_optimize, "_compare", lambda *_: None)
    x = whole(3, 5, 24)

    fast = spjit.onnx.optimize(feed_forward, x)

    assert len(fast.report.sparse) == sparse
    assert [one.rows for one in fast.report.removed] == [12, 0]
    assert (fast.report.before_us, fast.report.after_us) == (9.0, 1.0)
    assert all(row.sparse or row.reason for row in fast.report.rows)
    assert fast(x)[0].shape == (3, 5, 16)


@pytest.mark.measured
def test_nothing_is_removed_from_a_model_that_stays(feed_forward, monkeypatch):
    monkeypatch.setattr(_optimize, "model_times", lambda sessions, *_: [
        1.0 + i for i, _ in enumerate(sessions)])
    fast = spjit.onnx.optimize(feed_forward, whole(3, 5, 24), budget=0.01)
    assert fast.model == onnx.load(str(feed_forward))
    assert fast.report.removed == []


@pytest.mark.measured
@pytest.mark.parametrize(("whole_us", "rows"), [(96.0, [(32, 24), (16, 32)]),
                                                (98.0, [(20, 24), (16, 20)])])
def test_channels_stay_where_the_model_is_faster_with_them(feed_forward, monkeypatch, whole_us,
                                                           rows):
    """Two sessions are compared at the end: of the whole model and of the shorter one."""
    monkeypatch.setattr(_optimize, "model_times", lambda *_: [whole_us, 100.0])
    monkeypatch.setattr(_optimize, "_compare", lambda *_: None)
    monkeypatch.setattr(_optimize._Measured, "totals", lambda _, models: [
        9.0 - i for i in range(len(models) + 1)])
    x = whole(3, 5, 24)

    fast = spjit.onnx.optimize(feed_forward, x)

    assert [row.shape for row in fast.report.rows] == rows
    assert bool(fast.report.removed) == (rows[0] == (20, 24))
    assert len(fast.report.sparse) == 2
    assert fast(x)[0].shape == (3, 5, 16)
