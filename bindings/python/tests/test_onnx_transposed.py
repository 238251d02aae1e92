"""Transposed convolutions of ONNX models, as convolutions of phases."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import helper, numpy_helper

import spjit.onnx
from onnx_testing import (  # noqa: F401
    check,
    dense_of,
    floats,
    kernels_are_faster,
    node,
    sparse,
    write,
)
from spjit._onnx_graph import survey

IMAGE = (2, 8, 6, 5)
FORMS = [
    {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 1], "group": 2},
    {"strides": [5, 4], "output_padding": [3, 0], "group": 4},  # phases without a tap
    {"dilations": [3, 2], "pads": [2, 0, 1, 3]},
    {"strides": [2, 3], "dilations": [3, 2], "pads": [3, 1, 2, 4]},
    {"strides": [3, 1], "auto_pad": "SAME_UPPER"}, {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"strides": [1, 5], "auto_pad": "SAME_UPPER", "output_padding": [0, 2]},
    {"strides": [2, 2], "auto_pad": "VALID"}, {},
]


def operators(fast):
    return [one.op_type for one in fast.model.graph.node]


def written(tmp_path, dims, attributes, taps=(3, 3), bias=True, behind="Relu"):
    groups = attributes.get("group", 1)
    constants = {"w": sparse(8, 12 // groups, *taps, zeros=0.7)}
    if bias:
        constants["b"] = floats(12)
    nodes = [node("ConvTranspose", "x w b" if bias else "x w", "c", **attributes),
             node(behind, "c", "y")]
    return write(tmp_path / "m.onnx", nodes, constants, dims)


def check_sizes(fast, path, *shapes):
    for shape in shapes:
        x = floats(*shape)
        reference = dense_of(path, x)
        y, = fast(x)
        assert y.shape == reference.shape
        np.testing.assert_allclose(y, reference, rtol=0, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("attributes", FORMS)
@pytest.mark.parametrize("dims", [list(IMAGE), ["n", 8, "h", "w_"]])
def test_any_form_gives_what_onnx_runtime_does(tmp_path, dims, attributes, bias):
    path = written(tmp_path, dims, attributes, bias=bias)

    fast = check(path, floats(*IMAGE), 1)

    assert operators(fast) == ["SparseLayer", "Interleave"]
    row, = fast.report.rows
    assert (row.kind, row.activation) == ("ConvTranspose", "relu")
    if dims[0] == "n":
        check_sizes(fast, path, (1, 8, 9, 3), (0, 8, 4, 4), (1, 8, 3, 4))


@pytest.mark.parametrize("taps", [(1, 1), (1, 2), (4, 5)])
@pytest.mark.parametrize("attributes", [{}, {"strides": [3, 2]}, {"pads": [0, 0, 0, 0], "group": 4}])
def test_other_taps_and_images_of_one_pixel(tmp_path, taps, attributes):
    path = written(tmp_path, ["n", 8, "h", "w_"], attributes, taps)
    fast = check(path, floats(*IMAGE), 1)
    check_sizes(fast, path, (1, 8, 1, 1), (2, 8, 1, 7))


@pytest.mark.parametrize("shape", [[12, 10], [11, 9], [13, 11], [9, 10]])
@pytest.mark.parametrize("automatic", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_sizes_that_the_node_says(tmp_path, shape, automatic):
    attributes = {"strides": [2, 2], "output_shape": shape, "auto_pad": automatic}
    check(written(tmp_path, list(IMAGE), attributes), floats(*IMAGE), 1)
    path = written(tmp_path, ["n", 8, "h", "w_"], attributes)
    row, = check(path, floats(*IMAGE), 0).report.rows
    assert "whose size the model leaves open" in row.reason


@pytest.mark.parametrize("attributes", [
    {"strides": [8], "pads": [4, 4]}, {"strides": [5], "output_padding": [4], "group": 2},
    {"dilations": [4], "pads": [3, 0]}, {"strides": [2], "auto_pad": "SAME_LOWER"}])
@pytest.mark.parametrize("dims", [[2, 8, 11], ["n", 8, "length"]])
def test_of_one_dimension(tmp_path, dims, attributes):
    taps = (16,) if attributes.get("strides") == [8] else (3,)
    path = written(tmp_path, dims, attributes, taps)

    fast = check(path, floats(2, 8, 11), 1)

    assert operators(fast) == ["Unsqueeze", "SparseLayer", "Interleave", "Squeeze"]
    if dims[0] == "n":
        check_sizes(fast, path, (1, 8, 30), (0, 8, 11), (2, 8, 1) if "pads" not in attributes
                    else (2, 8, 9))


@pytest.mark.parametrize("attributes, size", [
    ({"pads": [3] * 4}, (4, 4)), ({"strides": [3, 3]}, (0, 3)), ({"strides": [3, 3]}, (3, 0)),
    ({"strides": [3, 3], "pads": [3, 0, 3, 0]}, (2, 5)), ({"strides": [2, 2], "pads": [2] * 4},
                                                          (1, 4))])
def test_images_without_a_pixel_are_refused_as_by_onnx_runtime(tmp_path, attributes, size):
    path = written(tmp_path, ["n", 8, "h", "w_"], attributes)
    fast = check(path, floats(2, 8, 7, 7), 1)
    for batch in (2, 0):
        x = floats(batch, 8, *size)
        # The latter is what ONNX Runtime 1.17 says.
        with pytest.raises(Exception, match="dimension is <= 0|dim_size > 0 was false"):
            dense_of(path, x)
        with pytest.raises(Exception, match="; expected (1 x 1|images into)") as wrong:
            fast(x)
        assert len(str(wrong.value).splitlines()) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_saved_decoder(tmp_path, threads):
    constants = {"w": sparse(8, 12, 4, 4), "b": floats(12), "v": sparse(12, 5, 3, 3),
                 **{name: floats(12) for name in ("scale", "shift", "mean")},
                 "variance": np.abs(floats(12)) + 1}
    nodes = [node("ConvTranspose", "x w b", "c", strides=[2, 2], pads=[1] * 4),
             node("BatchNormalization", "c scale shift mean variance", "n"), node("Relu", "n", "r"),
             node("ConvTranspose", "r v", "d", strides=[2, 2]), node("Tanh", "d", "y")]
    path = write(tmp_path / "m.onnx", nodes, constants, ["n", 8, "h", "w_"])
    fast = check(path, floats(*IMAGE), 2, threads=threads)
    assert operators(fast) == 2 * ["SparseLayer", "Interleave"] + ["Tanh"]

    fast.save(tmp_path / "fast.onnx")
    session = spjit.onnx.load(tmp_path / "fast.onnx", threads=threads)

    x = floats(3, 8, 7, 4)
    y, = session.run(None, {"x": x})
    np.testing.assert_allclose(y, dense_of(path, x), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(y, fast(x)[0])


def test_times_are_those_of_both_nodes(tmp_path, monkeypatch):
    monkeypatch.undo()
    path = written(tmp_path, list(IMAGE), {"strides": [2, 2]})
    monkeypatch.setattr(spjit.onnx._optimize, "node_times", lambda *_: [
        {"ConvTranspose 0": 9.0, "c": 9.0}, {}])
    times = [{}, {}]

    def node_times(models, *_):
        base, made = (model for model, _ in models)
        times[0] = {base.graph.node[0].name: 9.0}
        times[1] = {made.graph.node[0].name: 5.0, made.graph.node[1].name: 3.0}
        return times

    monkeypatch.setattr(spjit.onnx._optimize, "node_times", node_times)
    monkeypatch.setattr(spjit.onnx._optimize, "model_times",
                        lambda sessions, *_: [float(-i) for i, _ in enumerate(sessions)])

    row, = spjit.onnx.optimize(path, floats(*IMAGE)).report.rows

    assert (row.before_us, row.after_us, row.sparse) == (9.0, 8.0, True)


def survey_of(op, weight, **attributes):
    x_shape = [2, 8, *[6] * (weight.ndim - 2)]
    graph = helper.make_graph(
        [node(op, "x w", "y", **attributes)], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x_shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")])
    return survey(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


@pytest.mark.parametrize(("op", "weight", "attributes", "reason"), [
    ("Conv", floats(4, 8, 2, 2, 2), {}, "it has three dimensions; expected one or two"),
    ("ConvTranspose", floats(8, 4, 2, 2, 2), {}, "it has three dimensions; expected one or two"),
    ("ConvTranspose", floats(8, 4, 2, 2), {"group": 3}, "its group is 3"),
    ("ConvTranspose", floats(8, 4, 2, 2), {"strides": [2]}, "its strides are [2]"),
    ("ConvTranspose", floats(8, 4, 2, 2), {"output_padding": [-1, 0]}, "its output_padding are"),
    ("ConvTranspose", floats(8, 4, 2, 2), {"output_shape": [2, 4, 9, 9]}, "its output_shape are"),
    ("ConvTranspose", floats(8, 4, 2, 2), {"auto_pad": "OTHER"}, "its auto_pad is OTHER")])
def test_what_has_no_kernel_says_why(op, weight, attributes, reason):
    found = survey_of(op, weight, **attributes)
    assert not found.layers
    other, = found.others
    assert reason in other.reason


@pytest.mark.parametrize(("op", "filters"), [("Conv", 16), ("Conv", 8), ("ConvTranspose", 1)])
@pytest.mark.parametrize("taps", [(3,), (3, 3)])
def test_depthwise_ones_stay_dense(tmp_path, op, filters, taps):
    weight = sparse(8, filters, *taps) if op == "ConvTranspose" else sparse(filters, 1, *taps)
    path = write(tmp_path / "m.onnx", [node(op, "x w", "y", group=8)], {"w": weight},
                 [2, 8, *[6] * len(taps)])
    row, = check(path, floats(2, 8, *[6] * len(taps)), 0).report.rows
    assert row.reason == ("it is depthwise: a filter has the taps of one channel, too few for a "
                          "sparse kernel")
