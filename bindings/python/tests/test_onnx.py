"""Models that ONNX Runtime runs with kernels as operators, beside what it computes densely."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit
import spjit.onnx
from google.protobuf.message import EncodeError
from onnx import TensorProto, helper, numpy_helper
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
from spjit.onnx import _graph, _optimize, _sessions
from spjit.onnx._passes import dense_time

W1, B1, W2, B2 = sparse(32, 48), floats(48), sparse(48, 32), floats(32)
IMAGE = (2, 8, 11, 9)


GELU = [node("Div", "p root2", "d"), node("Erf", "d", "e"), node("Add", "e one", "a"),
        node("Mul", "p a", "m"), node("Mul", "m half", "h")]


@pytest.fixture
def feed_forward(tmp_path):
    """y = W2 gelu(W1 x + b1) + b2, x [batch, tokens, 32]."""
    nodes = [node("MatMul", "x w1", "o"), node("Add", "b1 o", "p"), *GELU,
             node("MatMul", "h w2", "q"), node("Add", "q b2", "y")]
    constants = {"w1": W1, "b1": B1, "w2": W2, "b2": B2, "root2": np.float32(2**0.5),
                 "one": np.float32(1), "half": np.float32(0.5)}
    return write(tmp_path / "model.onnx", nodes, constants, ["batch", "tokens", 32])


# ---- Layers ---------------------------------------------------------------------------------


def test_a_feed_forward_block(feed_forward):
    fast = check(feed_forward, floats(2, 5, 32), 2)

    names = [one.op_type for one in fast.model.graph.node]
    assert names == ["SparseLayer", "SparseLayer"]
    assert not {"w1", "w2"} & {one.name for one in fast.model.graph.initializer}


@pytest.mark.parametrize("behind", [
    [node("Relu", "p", "y")],
    [node("Sigmoid", "p", "s"), node("Mul", "p s", "y")],
    [node("Clip", "p low high", "y")],
    [node("Mul", "p b1", "m"), node("Add", "m b1", "y")],
])
def test_activations_and_factors(tmp_path, behind):
    nodes = [node("MatMul", "x w1", "o"), node("Add", "o b1", "p"), *behind]
    constants = {"w1": W1, "b1": B1, "low": np.float32(-0.5), "high": np.float32(0.7)}
    check(write(tmp_path / "m.onnx", nodes, constants, [3, 32]), floats(3, 32), 1)


@pytest.mark.parametrize("limit", [7, 10, 20])
def test_a_clamp_behind_an_activation(tmp_path, limit):
    nodes = [node("MatMul", "x w1", "p"), node("Sigmoid", "p", "s"), node("Mul", "p s", "m"),
             helper.make_node("Clip", ["m", "", "limit"], ["y"])]
    path = write(tmp_path / "m.onnx", nodes, {"w1": W1, "limit": np.float32(limit)}, [3, 32])

    fast = check(path, 100 * floats(3, 32), 1)

    assert fast(100 * floats(3, 32))[0].max() == limit


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(tmp_path, transposed):
    nodes = [node("Gemm", "x w b1", "y", transB=transposed, alpha=0.5, beta=2.0)]
    constants = {"w": W1.T.copy() if transposed else W1, "b1": B1}
    check(write(tmp_path / "m.onnx", nodes, constants, ["n", 32]), floats(7, 32), 1)


def test_weights_through_identity_and_shared(tmp_path):
    square = sparse(32, 32)
    nodes = [node("Identity", "w", "v"), node("MatMul", "x v", "p"), node("MatMul", "p w", "q"),
             node("Relu", "q", "y")]
    fast = check(write(tmp_path / "m.onnx", nodes, {"w": square}, ["n", 32]), floats(4, 32), 2)
    assert len({row.kernel for row in fast.report.sparse}) == 1


@pytest.mark.parametrize("attributes", [
    {},
    {"strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"dilations": [1, 2], "pads": [1, 2, 1, 2]},
    {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "SAME_LOWER"},
    {"auto_pad": "VALID"},
    {"group": 2},
])
@pytest.mark.parametrize("dims", [list(IMAGE), ["batch", 8, "height", "width"]])
def test_convolutions(tmp_path, attributes, dims):
    weight = sparse(6, 8 // attributes.get("group", 1), 3, 3, zeros=0.7)
    nodes = [node("Conv", "x w b", "c", **attributes), node("Relu", "c", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": weight, "b": floats(6)}, dims)
    fast = check(path, floats(*IMAGE), 1)
    if dims[0] == "batch":
        x = floats(1, 8, 14, 6)
        np.testing.assert_allclose(fast(x)[0], dense_of(path, x), rtol=0, atol=1e-4)


def test_a_convolution_of_one_tap_and_a_sum(tmp_path):
    nodes = [node("Conv", "x w b", "c"), node("Add", "c x", "s"), node("Relu", "s", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w": sparse(8, 8, 1, 1), "b": floats(8)},
                 ["n", 8, "h", "w_"])
    fast = check(path, floats(*IMAGE), 1)
    x = floats(3, 8, 4, 5)
    np.testing.assert_allclose(fast(x)[0], dense_of(path, x), rtol=0, atol=1e-4)


def hard_swish(*, three="three", six="six", gated="c"):
    return [node("Add", f"c {three}", "a"), node("Clip", f"a zero {six}", "l"),
            node("Mul", f"{gated} l", "m"), node("Div", "m six", "y")]


SWISH = {"w": sparse(8, 8, 3, 3), "b": floats(8), "zero": np.float32(0), "three": np.float32(3),
         "six": np.float32(6), "two": np.float32(2),
         "three_of_5_dimensions": np.full((1, 1, 1, 1, 1), 3, np.float32)}


def test_a_hard_swish_behind_a_convolution(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Conv", "x w b", "c"), *hard_swish()], SWISH,
                 list(IMAGE))
    fast = check(path, floats(*IMAGE), 1)
    assert [one.op_type for one in fast.model.graph.node] == ["SparseLayer"]


def test_a_hard_swish_behind_what_is_no_layer(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Conv", "x w b", "o"), node("Abs", "o", "c"),
                                       *hard_swish()], SWISH, list(IMAGE))
    fast = check(path, floats(*IMAGE), 1)
    assert [one.op_type for one in fast.model.graph.node][1:] == ["Abs", "HardSigmoid", "Mul"]


@pytest.mark.parametrize("wrong", [{"three": "two"}, {"three": "three_of_5_dimensions"},
                                   {"six": "two"}, {"gated": "a"}])
def test_what_is_no_hard_swish_stays(tmp_path, wrong):
    path = write(tmp_path / "m.onnx", [node("Conv", "x w b", "c"), *hard_swish(**wrong)], SWISH,
                 list(IMAGE))
    fast = check(path, floats(*IMAGE), 1)
    assert "HardSigmoid" not in [one.op_type for one in fast.model.graph.node]


def test_a_hard_swish_that_a_graph_within_a_node_sees_stays(tmp_path):
    inner = helper.make_graph([node("Neg", "l", "n")], "inner", [],
                              [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)])
    nodes = [node("Conv", "x w b", "o"), node("Abs", "o", "c"), *hard_swish()[:-1],
             node("Div", "m six", "h"), node("ReduceMax", "o", "r", keepdims=0),
             node("Greater", "r zero", "when"),
             node("If", "when", "i", then_branch=inner, else_branch=inner),
             node("Add", "h i", "y")]
    fast = check(write(tmp_path / "m.onnx", nodes, SWISH, list(IMAGE)), floats(*IMAGE), 1)
    assert "HardSigmoid" not in [one.op_type for one in fast.model.graph.node]


def test_values_that_have_the_names_that_new_ones_would_have(tmp_path):
    nodes = [helper.make_node("Abs", ["x"], ["spjit fc bias"]),
             helper.make_node("Neg", ["x"], ["shape of x"]),
             helper.make_node("Gemm", ["x", "w", "b"], ["p linear"], "fc"),
             helper.make_node("Softplus", ["p linear"], ["p"]),
             helper.make_node("Concat", ["p", "spjit fc bias", "shape of x"], ["y"], axis=1)]
    check(write(tmp_path / "m.onnx", nodes, {"w": W1, "b": B1}, [3, 32]), floats(3, 32), 1)


def test_a_hard_swish_of_float64_stays(tmp_path):
    constants = {name: np.float64(value) if np.ndim(value) == 0 else value
                 for name, value in SWISH.items()}
    nodes = [node("Conv", "x w b", "o"), node("Cast", "o", "c", to=TensorProto.DOUBLE),
             *hard_swish()[:-1], node("Div", "m six", "h"),
             node("Cast", "h", "y", to=TensorProto.FLOAT)]
    fast = check(write(tmp_path / "m.onnx", nodes, constants, list(IMAGE)), floats(*IMAGE), 1)
    assert "HardSigmoid" not in [one.op_type for one in fast.model.graph.node]


@pytest.mark.parametrize("behind", [
    [node("Add", "o b", "y")],
    [node("Mul", "o b", "y")],
    [node("Sigmoid", "o", "s"), node("Mul", "o s", "m"), node("Mul", "m one", "y")],
], ids=["bias", "factor", "activation"])
def test_constants_that_add_dimensions_stay(tmp_path, behind):
    constants = {"w": W1, "b": floats(1, 1, 48), "one": np.ones((1, 1, 1), np.float32)}
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "o"), *behind], constants, ["n", 32])

    fast = check(path, floats(3, 32), 1)

    assert [one.op_type for one in fast.model.graph.node][-1] in ("Add", "Mul")


@pytest.mark.parametrize("zeros", [0.9, 0])
def test_weights_in_a_file_beside_the_model(tmp_path, monkeypatch, zeros):
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "y")],
                 {"w": sparse(32, 48, zeros=zeros)}, ["n", 32])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin",
              size_threshold=0)

    fast = check(path, floats(3, 32), int(zeros > 0.5))

    x = floats(4, 32)
    fast.save(tmp_path / "fast.onnx")
    if zeros:
        assert np.array_equal(spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x}), fast(x))
    monkeypatch.chdir(tmp_path)
    check("m.onnx", x, int(zeros > 0.5))


def test_initializers_that_are_inputs(tmp_path):
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "y")], {"w": W1}, ["n", 32])
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, W1.shape))
    onnx.save(model, path)
    check(path, floats(3, 32), 0)  # a run may give others

    model.ir_version = 3
    model.opset_import[0].version = 8
    onnx.save(model, path)
    check(path, floats(3, 32), 1)


def test_sparse_and_half_precision_weights(tmp_path):
    nodes = [node("Cast", "x", "h", to=TensorProto.FLOAT16), node("MatMul", "h w", "p"),
             node("Cast", "p", "y", to=TensorProto.FLOAT)]
    path = write(tmp_path / "half.onnx", nodes, {"w": W1.astype(np.float16)}, ["n", 32])
    check(path, floats(3, 32), 1)

    path = write(tmp_path / "sparse.onnx", [node("MatMul", "x w", "y")], {}, ["n", 32])
    model = onnx.load(path)
    places = np.flatnonzero(W1)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(
        numpy_helper.from_array(W1.ravel()[places], "w"),
        numpy_helper.from_array(places, "places"), W1.shape))
    onnx.save(model, path)
    fast = check(path, floats(3, 32), 1)
    assert not fast.model.graph.sparse_initializer


def test_a_model_that_has_kernels_already_is_refused(feed_forward, tmp_path):
    x = floats(2, 5, 32)
    spjit.onnx.optimize(feed_forward, x).save(tmp_path / "fast.onnx")
    with pytest.raises(spjit.InvalidArgument, match="has kernels of spjit already"):
        spjit.onnx.optimize(tmp_path / "fast.onnx", x)


def test_threads_that_are_no_number_are_refused(feed_forward):
    with pytest.raises(spjit.InvalidArgument, match="threads is '2'; expected a whole number"):
        spjit.onnx.optimize(feed_forward, floats(2, 5, 32), threads="2")


def test_a_model_without_sparse_layers(tmp_path):
    path = write(tmp_path / "m.onnx", [node("MatMul", "x w", "y")], {"w": floats(32, 8)}, [3, 32])
    fast = check(path, floats(3, 32), 0)
    assert fast.report.rows[0].reason == "less than 50 % zeros"


def test_layers_that_are_none_are_in_the_report(tmp_path):
    path = write(tmp_path / "m.onnx", [node("ConvTranspose", "x w", "y")],
                 {"w": sparse(8, 4, 3, 3)}, list(IMAGE))
    row, = spjit.onnx.optimize(path, floats(*IMAGE)).report.rows
    assert (row.kind, row.sparse) == ("ConvTranspose", False)
    assert "no kernel" in row.reason


# ---- Bits -----------------------------------------------------------------------------------


def test_bits_are_those_of_spjits_kernels(feed_forward):
    x = floats(2, 5, 32)
    fast = spjit.onnx.optimize(feed_forward, x)
    up = spjit.compile(np.ascontiguousarray(W1.T), activation="gelu", bias=True)
    down = spjit.compile(np.ascontiguousarray(W2.T), bias=True)
    np.testing.assert_array_equal(fast(x)[0], down(up(x, bias=B1), bias=B2))


def test_bits_do_not_depend_on_batch_length_and_threads(feed_forward):
    x = floats(3, 70, 32)
    expected = spjit.onnx.optimize(feed_forward, x)(x)[0]
    for threads in (1, 2, 3):
        fast = spjit.onnx.optimize(feed_forward, x[:1, :5], threads=threads)
        np.testing.assert_array_equal(fast(x)[0], expected)
        for length in (1, 2, 9, 33):
            np.testing.assert_array_equal(fast(x[1:2, :length])[0], expected[1:2, :length])


def test_no_tokens(feed_forward):
    fast = spjit.onnx.optimize(feed_forward, floats(2, 5, 32))
    assert fast(floats(0, 5, 32))[0].shape == (0, 5, 32)
    assert fast(floats(2, 0, 32))[0].shape == (2, 0, 32)


def test_threads_run_one_model(feed_forward):
    fast = spjit.onnx.optimize(feed_forward, floats(2, 5, 32), threads=2)
    inputs = [floats(2, 40 + i, 32) for i in range(6)]
    expected = [fast(x)[0] for x in inputs]
    wrong = []

    def work(i):
        for _ in range(20):
            if not np.array_equal(fast(inputs[i])[0], expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- Files ----------------------------------------------------------------------------------


def test_saved_and_loaded(feed_forward, tmp_path):
    before = feed_forward.read_bytes()
    x = floats(2, 5, 32)
    fast = spjit.onnx.optimize(feed_forward, {"x": x})
    for _ in range(2):  # the second replaces the first
        fast.save(tmp_path / "fast.onnx")

    session = spjit.onnx.load(tmp_path / "fast.onnx", threads=2)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], fast(x)[0])
    assert feed_forward.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["fast.onnx", "fast.spjit",
                                                              "model.onnx"]
    assert len(spjit.Bundle(tmp_path / "fast.spjit")) == 2


def test_where_nodes_say(feed_forward, tmp_path, monkeypatch):
    x = floats(2, 5, 32)
    fast = spjit.onnx.optimize(feed_forward, x)
    fast.save(tmp_path / "fast.onnx")
    monkeypatch.chdir(tmp_path)
    options = onnxruntime.SessionOptions()
    spjit.onnx.register(options)
    session = onnxruntime.InferenceSession("fast.onnx", options)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], fast(x)[0])


def test_missing_files(feed_forward, tmp_path):
    spjit.onnx.optimize(feed_forward, floats(1, 2, 32)).save(tmp_path / "fast.onnx")
    with pytest.raises(FileNotFoundError, match="expected a model"):
        spjit.onnx.load(tmp_path / "none.onnx")
    (tmp_path / "fast.spjit").rename(tmp_path / "other.spjit")
    with pytest.raises(FileNotFoundError, match="expected the kernels"):
        spjit.onnx.load(tmp_path / "fast.onnx")


def saved(feed_forward, folder, change):
    """A saved model whose nodes `change` has changed."""
    path = folder / "fast.onnx"
    spjit.onnx.optimize(feed_forward, floats(1, 2, 32)).save(path)
    model = onnx.load(str(path))
    for one in model.graph.node:
        change(one)
    onnx.save(model, str(path))
    return path


def attributes_of(one, **values):
    del one.attribute[:]
    one.attribute.extend(helper.make_attribute(name, value) for name, value in values.items())


def changed_problem(one, problem):
    values = {each.name: helper.get_attribute_value(each) for each in one.attribute}
    attributes_of(one, **{**values, "problem": problem})


@pytest.mark.parametrize(("change", "message"), [
    (lambda one: attributes_of(one), "spjit, node .*layer"),
    (lambda one: attributes_of(one, layer="fc9", problem="{}", bundle="x", threads=1),
     "spjit, node .*fast.spjit: there is no layer 'fc9'"),
    (lambda one: changed_problem(one, "not JSON"), "spjit, node .*JSON"),
    (lambda one: changed_problem(one, "{}"), "spjit, node .*is another one"),
    (lambda one: changed_problem(one, "[1]"), "spjit, node .*is another one"),
])
def test_wrong_attributes(feed_forward, tmp_path, change, message):
    path = saved(feed_forward, tmp_path, change)
    with pytest.raises(Exception, match=message):
        spjit.onnx.load(path)


def test_wrong_threads(feed_forward, tmp_path):
    path = saved(feed_forward, tmp_path,
                 lambda one: attributes_of(one, layer="0", problem="{}", bundle="x", threads=0))
    options = onnxruntime.SessionOptions()
    spjit.onnx.register(options, tmp_path / "fast.spjit")
    with pytest.raises(Exception, match="threads is 0; expected 1"):
        onnxruntime.InferenceSession(str(path), options)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("spjit.threads", "two")
    with pytest.raises(Exception, match="'two'; expected 1 or more"):
        spjit.onnx.register(options)


@pytest.mark.parametrize("entry", ["spjit.public_key", "spjit.bundle", "spjit.threads"])
def test_empty_entries_of_a_session_are_refused(entry):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(entry, "")
    with pytest.raises(Exception, match=f"{entry} is empty; expected a value"):
        spjit.onnx.register(options)


@pytest.mark.parametrize("place", [100, 4096 + 4200, -1000, -10])
def test_damaged_kernels(feed_forward, tmp_path, place):
    path = saved(feed_forward, tmp_path, lambda one: None)
    content = bytearray((tmp_path / "fast.spjit").read_bytes())
    content[place] ^= 1
    (tmp_path / "fast.spjit").unlink()
    (tmp_path / "fast.spjit").write_bytes(content)
    with pytest.raises(Exception, match="spjit, node .*fast.spjit: "):
        spjit.onnx.load(path)


def test_kernels_of_another_model(feed_forward, tmp_path):
    path = saved(feed_forward, tmp_path, lambda one: None)
    other = onnx.load(str(feed_forward))
    for one in other.graph.initializer:
        if one.name == "w2":
            one.CopyFrom(numpy_helper.from_array(sparse(48, 32), "w2"))
    onnx.save(other, str(tmp_path / "other.onnx"))
    spjit.onnx.optimize(tmp_path / "other.onnx", floats(1, 2, 32)).save(tmp_path / "more.onnx")
    (tmp_path / "more.spjit").rename(tmp_path / "fast.spjit")
    with pytest.raises(Exception, match="spjit, node .*is another one"):
        spjit.onnx.load(path)


def test_kernels_for_another_typical_size_serve(feed_forward, tmp_path):
    x = floats(2, 5, 32)
    fast = spjit.onnx.optimize(feed_forward, x)
    fast.save(tmp_path / "fast.onnx")
    spjit.onnx.optimize(feed_forward, floats(1, 300, 32)).save(tmp_path / "more.onnx")
    (tmp_path / "more.spjit").rename(tmp_path / "fast.spjit")
    session = spjit.onnx.load(tmp_path / "fast.onnx")
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], fast(x)[0])


def test_layers_share_one_open_file_until_it_is_replaced(feed_forward, tmp_path):
    def open_files():
        links = (os.path.join("/proc/self/fd", one) for one in os.listdir("/proc/self/fd"))
        return sum(os.path.islink(one) and "fast.spjit" in os.readlink(one) for one in links)

    spjit.onnx.optimize(feed_forward, floats(1, 2, 32)).save(tmp_path / "fast.onnx")
    options = _sessions.sparse_options(tmp_path / "fast.spjit", 1)
    path = str(tmp_path / "fast.onnx")
    sessions = [onnxruntime.InferenceSession(path, options) for _ in range(2)]
    assert open_files() == 1
    content = (tmp_path / "fast.spjit").read_bytes()
    (tmp_path / "new").write_bytes(content)
    (tmp_path / "new").rename(tmp_path / "fast.spjit")
    sessions.append(onnxruntime.InferenceSession(path, options))
    assert open_files() == 2
    del sessions
    gc.collect()
    assert open_files() == 0


def test_signed_kernels(feed_forward, tmp_path, signing_keys):
    private, public = signing_keys("ours")
    _, other = signing_keys("theirs")
    fast = spjit.onnx.optimize(feed_forward, floats(1, 2, 32))
    fast.save(tmp_path / "fast.onnx", private_key=private)
    for key in (public, public.read_text()):
        spjit.onnx.load(tmp_path / "fast.onnx", public_key=key)
    with pytest.raises(Exception, match="another key"):
        spjit.onnx.load(tmp_path / "fast.onnx", public_key=other)
    fast.save(tmp_path / "plain.onnx")
    with pytest.raises(Exception, match="not signed"):
        spjit.onnx.load(tmp_path / "plain.onnx", public_key=public)
    for empty in ("", "\0"):
        with pytest.raises(spjit.InvalidArgument, match="expected PEM text|without NUL"):
            spjit.onnx.load(tmp_path / "plain.onnx", public_key=empty)


def test_the_model_does_not_take_the_name_of_its_kernels(feed_forward, tmp_path):
    fast = spjit.onnx.optimize(feed_forward, floats(1, 2, 32))
    with pytest.raises(spjit.InvalidArgument, match="does not end in .spjit"):
        fast.save(tmp_path / "fast.spjit")


@pytest.mark.parametrize("name", ["", ".", "/", "folder"])
def test_a_folder_is_no_path_of_a_model(feed_forward, tmp_path, monkeypatch, name):
    """Before anything is written: kernels beside it may be those of a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.spjit").write_text("of another model")
    fast = spjit.onnx.optimize(feed_forward, floats(1, 2, 32))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(spjit.InvalidArgument, match="expected that of a file, not of a folder"):
        fast.save(name)
    with pytest.raises(spjit.InvalidArgument, match="expected that of a file, not of a folder"):
        spjit.onnx.load(name or ".")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "folder.spjit").read_text() == "of another model"


@pytest.mark.parametrize("shape", [None, ["batch", "length", 48]])
def test_shapes_of_outputs_are_what_they_were(tmp_path, shape):
    """Programs ask a session for them; ONNX Runtime finds none behind a kernel."""
    nodes = [node("MatMul", "x w1", "p"), node("Softplus", "p", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w1": W1}, ["n", None, 32])
    model = onnx.load(path)
    if shape:
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
        onnx.save(model, path)
    expected = [one.shape for one in onnxruntime.InferenceSession(str(path)).get_outputs()]

    fast = check(path, floats(2, 3, 32), 1)
    fast.save(tmp_path / "fast.onnx")

    for session in (fast.session, spjit.onnx.load(tmp_path / "fast.onnx")):
        assert [one.shape for one in session.get_outputs()] == expected


def test_weights_that_became_kernels_go_beside_graphs_within_nodes(tmp_path):
    """Which read other constants of the main graph."""
    def branch(name, constant):
        return helper.make_graph([node("Add", f"p {constant}", name)], name, [],
                                 [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    nodes = [node("MatMul", "x w1", "p"), node("ReduceSum", "x", "s", keepdims=0),
             node("Greater", "s zero", "c"),
             node("If", "c", "y", then_branch=branch("t", "one"), else_branch=branch("e", "two"))]
    constants = {"w1": W1, "zero": np.float32(0), "one": floats(48), "two": floats(48)}
    path = write(tmp_path / "m.onnx", nodes, constants, ["n", 32])
    x = floats(3, 32)

    fast = check(path, x, 1)

    assert not any(list(one.dims) == list(W1.shape) for one in fast.model.graph.initializer)
    np.testing.assert_allclose(fast(-x)[0], dense_of(path, -x), rtol=1e-5, atol=1e-5)


def test_a_layer_whose_name_is_too_long_stays_dense(tmp_path):
    nodes = [node("MatMul", "x w1", "p", name="n" * 1001), node("MatMul", "p w2", "y")]
    path = write(tmp_path / "m.onnx", nodes, {"w1": W1, "w2": W2}, ["n", 32])
    fast = check(path, floats(3, 32), 1)
    assert any("1000" in row.reason for row in fast.report.rows)


def test_wrong_operands(feed_forward):
    fast = spjit.onnx.optimize(feed_forward, floats(1, 2, 32))
    bias = next(one for one in fast.model.graph.initializer if one.name.endswith("bias"))
    bias.CopyFrom(numpy_helper.from_array(floats(3), bias.name))
    session = _graph.session_of(fast.model, _sessions.sparse_options(fast._kernels.path, 1))
    with pytest.raises(Exception, match=r"the bias has the shape \[3\]; expected \[48\]"):
        session.run(None, {"x": floats(1, 2, 32)})


def test_wrong_inputs(feed_forward):
    with pytest.raises(spjit.InvalidArgument, match="2 inputs; expected 1: x"):
        spjit.onnx.optimize(feed_forward, floats(1, 2, 32), floats(1))


def test_an_old_onnxruntime(monkeypatch):
    monkeypatch.setattr(onnxruntime, "__version__", "1.16.3")
    with pytest.raises(spjit.NotSupported, match="expected 1.17 or later"):
        spjit.onnx.load("m.onnx")


INTERRUPTED = """
import os, signal, sys, numpy as np
import spjit.onnx, spjit.onnx._optimize as o
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
compile_ = o._kernel_of
pressed = []
def slow(*arguments):
    if not pressed:
        pressed.append(1)
        os.kill(os.getpid(), signal.SIGINT)
    return compile_(*arguments)
o._kernel_of = slow
try:
    spjit.onnx.optimize(sys.argv[1], np.zeros((1, 2, 32), np.float32))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupted_leaves_nothing(feed_forward, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(feed_forward)],
        env={**os.environ, "TMPDIR": str(scratch)}, capture_output=True, text=True,
        timeout=120, check=False)
    assert result.stdout == "interrupted\n", result.stderr
    assert not list(scratch.glob("spjit*"))
    assert [one.name for one in tmp_path.iterdir() if one != scratch] == ["model.onnx"]


def test_failed_saving_leaves_what_was_there(feed_forward, tmp_path, monkeypatch):
    fast = spjit.onnx.optimize(feed_forward, floats(1, 2, 32))
    fast.save(tmp_path / "fast.onnx")
    before = (tmp_path / "fast.onnx").read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(onnx, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        fast.save(tmp_path / "fast.onnx")
    assert (tmp_path / "fast.onnx").read_bytes() == before
    spjit.onnx.load(tmp_path / "fast.onnx")


class _TooLarge:
    """As protobuf says of over 2 GB."""

    def ByteSize(self):
        raise EncodeError("Failed to serialize proto")


def test_a_model_that_one_protobuf_cannot_have(tmp_path, monkeypatch):
    assert _graph._is_large(_TooLarge())
    dense = floats(32, 48)
    path = write(tmp_path / "model.onnx",
                 [node("MatMul", "x w", "o"), node("MatMul", "o v", "q"), node("Relu", "q", "y")],
                 {"w": sparse(32, 32), "v": dense}, ["batch", 32])
    monkeypatch.setattr(_graph, "_LARGEST", 2000)
    x = floats(3, 32)

    fast = check(path, x, 1)
    for _ in range(2):  # the second replaces the first
        fast.save(tmp_path / "fast.onnx")

    np.testing.assert_array_equal(spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x})[0],
                                  fast(x)[0])
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "fast.onnx", "fast.onnx.data", "fast.spjit", "model.onnx"]
    assert (tmp_path / "fast.onnx.data").stat().st_size >= dense.nbytes
    assert (tmp_path / "fast.onnx").stat().st_size < dense.nbytes
    kept, = (one for one in fast.model.graph.initializer if one.name == "v")
    np.testing.assert_array_equal(numpy_helper.to_array(kept), dense)


def test_weights_that_the_optimizer_makes_and_one_protobuf_cannot_have(tmp_path, monkeypatch):
    """As transposed ones of over 2 GB. Others are in a file beside the model, small ones, too."""
    path = write(tmp_path / "model.onnx",
                 [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "o"),
                  node("Mul", "o s", "p"), node("MatMul", "p v", "q"), node("Relu", "q", "y")],
                 {"w": sparse(32, 32), "v": floats(32, 48), "s": floats(32)}, ["batch", 32])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights",
              size_threshold=0)
    make, refused = onnxruntime.InferenceSession, []

    def refuse(model, options=None, **more):
        name = "session.optimized_model_external_initializers_file_name"
        if options is not None and options.optimized_model_filepath and \
                not options.get_session_config_entry(name):
            refused.append(model)
            raise RuntimeError("[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Protobuf serialization "
                               "failed.")
        return make(model, options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)

    check(path, floats(3, 32), 1)

    assert len(refused) == 1


# ---- The choice -----------------------------------------------------------------------------


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
    assert dense_time({"d": 2.0}, [one]) is None
    assert dense_time({"c/Fusion/": 4.0, "cc": 1.0}, [one]) == 4.0


def test_nodes_that_are_fused_take_no_time_of_their_own():
    nodes = [node("Conv", "x w", "y", name="c"), node("HardSigmoid", "y", "g", name="h"),
             node("Mul", "y g", "z", name="m")]
    assert dense_time({"y_nchwc": 3.0}, nodes) == 3.0
    assert dense_time({"c": 3.0, "h": 1.0, "m": 2.0}, nodes) == 6.0
    assert dense_time({"h": 1.0, "m": 2.0}, nodes) is None
