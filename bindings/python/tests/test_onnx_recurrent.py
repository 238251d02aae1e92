"""LSTM, GRU and RNN of ONNX models as kernels, against ONNX Runtime and float64."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnxruntime  # noqa: E402
import spjit.onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from onnx_testing import floats, kernels_are_faster, node, sparse  # noqa: E402, F401

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HIDDEN, INPUTS = 9, 6


def constants_of(op, directions=1, bias=True, zeros=0.7):
    rows = GATES[op] * HIDDEN
    made = {"w": sparse(directions, rows, INPUTS, zeros=zeros),
            "r": sparse(directions, rows, HIDDEN, zeros=zeros)}
    if bias:
        made["b"] = floats(directions, 2 * rows)
    return made


def write(path, op, constants, *, inputs="x w r b", outputs="y h c", x=("s", "n", INPUTS),
          given=(), dtype=TensorProto.FLOAT, **attributes):
    """A model of one node. given: names of inputs besides x, with their types and shapes."""
    names = ["" if name == "_" else name for name in inputs.split()]
    results = ["" if name == "_" else name for name in outputs.split()]
    one = helper.make_node(op, names, results, "steps", hidden_size=HIDDEN, **attributes)
    graph = helper.make_graph(
        [one], "g",
        [helper.make_tensor_value_info(name, kind, shape)
         for name, kind, shape in (("x", dtype, x), *given)],
        [helper.make_tensor_value_info(name, dtype, None) for name in results if name],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def dense_of(path, feeds):
    return onnxruntime.InferenceSession(str(path)).run(None, feeds)


def assert_same(results, expected):
    assert len(results) == len(expected)
    for one, other in zip(results, expected):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def recurrent_nodes(fast):
    return [one for one in fast.model.graph.node if one.op_type == "SparseRecurrent"]


def check(path, feeds, *others):
    """One kernel node that gives what the dense one does, also of other inputs."""
    fast = spjit.onnx.optimize(path, feeds)

    assert len(recurrent_nodes(fast)) == 1, str(fast.report)
    for one in (feeds, *others):
        assert_same(fast(one), dense_of(path, one))
    return fast


def outputs_of(op):
    return "y h c" if op == "LSTM" else "y h"


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bias", [True, False])
def test_computes_what_onnx_runtime_does(tmp_path, op, direction, bias):
    constants = constants_of(op, 2 if direction == "bidirectional" else 1, bias)
    path = write(tmp_path / "m.onnx", op, constants, inputs="x w r b" if bias else "x w r",
                 outputs=outputs_of(op), direction=direction)

    fast = check(path, {"x": floats(5, 2, INPUTS)}, {"x": floats(1, 2, INPUTS)},
                 {"x": floats(7, 1, INPUTS)}, {"x": floats(3, 11, INPUTS)})

    row = fast.report.sparse[0]
    assert (row.layer, row.kind, row.input) == ("steps", op, (5, 2, INPUTS))
    rows = GATES[op] * HIDDEN
    assert row.shape == (rows, (INPUTS + HIDDEN) * len(constants["w"]))


@pytest.mark.parametrize("attributes", [
    {"linear_before_reset": 1}, {"linear_before_reset": 0},
    {"linear_before_reset": 1, "direction": "bidirectional"},
    {"activations": ["Sigmoid", "Tanh"]}])
def test_both_forms_of_a_gru(tmp_path, attributes):
    constants = constants_of("GRU", 2 if "direction" in attributes else 1)
    path = write(tmp_path / "m.onnx", "GRU", constants, outputs="y h", **attributes)

    check(path, {"x": floats(5, 2, INPUTS)}, {"x": floats(5, 6, INPUTS)})


def test_relu_of_an_rnn(tmp_path):
    path = write(tmp_path / "m.onnx", "RNN", constants_of("RNN", 2), outputs="y h",
                 activations=["Relu", "Relu"], direction="bidirectional")

    check(path, {"x": floats(5, 2, INPUTS)})


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_states_and_lengths_are_inputs(tmp_path, op):
    given = [("lengths", TensorProto.INT32, ["n"]), ("h0", TensorProto.FLOAT, [2, "n", HIDDEN])]
    feeds = {"x": floats(5, 3, INPUTS), "lengths": np.array([5, 2, 3], np.int32),
             "h0": floats(2, 3, HIDDEN)}
    if op == "LSTM":
        given.append(("c0", TensorProto.FLOAT, [2, "n", HIDDEN]))
        feeds["c0"] = floats(2, 3, HIDDEN)
    path = write(tmp_path / "m.onnx", op, constants_of(op, 2), outputs=outputs_of(op), given=given,
                 inputs=f"x w r b {' '.join(name for name, *_ in given)}",
                 direction="bidirectional")

    check(path, feeds, {**feeds, "lengths": np.array([1, 4, 5], np.int32)})


def test_names_of_its_kernels_are_no_other_layers(tmp_path):
    """Also where that is called as a kernel of a recurrent layer usually is."""
    path = write(tmp_path / "m.onnx", "RNN", {**constants_of("RNN"), "v": sparse(INPUTS, 8)},
                 outputs="y h")
    model = onnx.load(str(path))
    model.graph.node.append(helper.make_node("MatMul", ["x", "v"], ["z"], "steps/input/0"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    onnx.save(model, str(path))

    fast = check(path, {"x": floats(5, 2, INPUTS)}, {"x": floats(3, 7, INPUTS)})

    assert len(fast.report.sparse) == 2


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_a_sequence_without_steps_ends_in_zeros(tmp_path, op, direction):
    """Whatever its first state is, as ONNX Runtime has it."""
    directions = 2 if direction == "bidirectional" else 1
    given = [("lengths", TensorProto.INT32, ["n"]),
             ("h0", TensorProto.FLOAT, [directions, "n", HIDDEN])]
    feeds = {"x": floats(5, 3, INPUTS), "lengths": np.array([0, 5, 2], np.int32),
             "h0": floats(directions, 3, HIDDEN)}
    if op == "LSTM":
        given.append(("c0", TensorProto.FLOAT, [directions, "n", HIDDEN]))
        feeds["c0"] = floats(directions, 3, HIDDEN)
    path = write(tmp_path / "m.onnx", op, constants_of(op, directions), outputs=outputs_of(op),
                 given=given, inputs=f"x w r b {' '.join(name for name, *_ in given)}",
                 direction=direction)

    fast = check(path, feeds, {**feeds, "lengths": np.zeros(3, np.int32)},
                 {**feeds, "lengths": np.array([1, 0, 5], np.int32)})

    for state in fast(feeds)[1:]:
        assert not state[:, 0].any() and state[:, 1:].all()


@pytest.mark.parametrize("outputs", ["y", "_ h", "_ _ c", "y _ c"])
def test_outputs_may_be_missing(tmp_path, outputs):
    path = write(tmp_path / "m.onnx", "LSTM", constants_of("LSTM"), outputs=outputs)

    check(path, {"x": floats(5, 2, INPUTS)})


def test_one_step_and_one_sequence(tmp_path):
    given = [("h0", TensorProto.FLOAT, [1, "n", HIDDEN]), ("c0", TensorProto.FLOAT, [1, "n", HIDDEN])]
    path = write(tmp_path / "m.onnx", "LSTM", constants_of("LSTM"), given=given,
                 inputs="x w r b _ h0 c0")

    def feeds(steps, batch):
        return {"x": floats(steps, batch, INPUTS), "h0": floats(1, batch, HIDDEN),
                "c0": floats(1, batch, HIDDEN)}

    check(path, feeds(1, 1), feeds(4, 1), feeds(1, 3), feeds(2, 2))


def test_saves_and_loads(tmp_path):
    path = write(tmp_path / "m.onnx", "GRU", constants_of("GRU", 2), outputs="y h",
                 direction="bidirectional")
    x = {"x": floats(5, 2, INPUTS)}
    spjit.onnx.optimize(path, x).save(tmp_path / "fast.onnx")

    session = spjit.onnx.load(tmp_path / "fast.onnx", threads=2)

    for one in (x, {"x": floats(5, 9, INPUTS)}):
        assert_same(session.run(None, one), dense_of(path, one))
    with pytest.raises(spjit.InvalidArgument, match="has kernels of spjit already"):
        spjit.onnx.optimize(tmp_path / "fast.onnx", x)


def test_a_wrong_node_is_refused_in_one_line(tmp_path):
    path = write(tmp_path / "m.onnx", "LSTM", constants_of("LSTM"))
    fast = spjit.onnx.optimize(path, {"x": floats(5, 2, INPUTS)})
    fast.save(tmp_path / "fast.onnx")

    def refused(change, text):
        model = copy.deepcopy(onnx.load(str(tmp_path / "fast.onnx")))
        for one in model.graph.node[0].attribute:
            if one.name == "recurrent":
                one.s = change(one.s)
        onnx.save(model, str(tmp_path / "fast.onnx"))
        with pytest.raises(Exception, match=text):
            spjit.onnx.load(tmp_path / "fast.onnx")
        fast.save(tmp_path / "fast.onnx")

    refused(lambda text: b"{", "spjit, node spjit steps: ")
    refused(lambda text: b"{}", "the attribute recurrent is none of spjit")
    refused(lambda text: text.replace(b'"lstm"', b'"ltsm"'), "'ltsm' is given; expected one of lstm")
    refused(lambda text: text.replace(b'"lstm"', b'"gru"'), "has 36 rows|the recurrent kernel")
    refused(lambda text: text.replace(b"steps/input/0", b"steps/other/0"),
            "there is no layer 'steps/other/0'")
    refused(lambda text: text.replace(b"steps/input/0", b"steps/recurrent/0"), "is another one")
    refused(lambda text: text.replace(b'"forward"', b'"both"'), "an input kernel is NULL")


def test_wrong_shapes_are_refused_in_one_line(tmp_path):
    given = [("lengths", TensorProto.INT32, None), ("h0", TensorProto.FLOAT, None)]
    path = write(tmp_path / "m.onnx", "GRU", constants_of("GRU"), outputs="y h", x=None,
                 given=given, inputs="x w r b lengths h0")
    feeds = {"x": floats(5, 2, INPUTS), "lengths": np.array([5, 2], np.int32),
             "h0": floats(1, 2, HIDDEN)}
    fast = spjit.onnx.optimize(path, feeds)

    for change, text in (({"x": floats(5, 2, 5)}, r"X has the shape \[5, 2, 5\]; expected"),
                         ({"lengths": np.array([5], np.int32)},
                          r"sequence_lens has the shape \[1\]; expected \[2\]"),
                         ({"lengths": np.array([5, 6], np.int32)},
                          "the length of sequence 1 is 6; expected 0 to 5"),
                         ({"h0": floats(1, 3, HIDDEN)},
                          r"initial_h has the shape \[1, 3, 9\]; expected \[1, 2, 9\]")):
        with pytest.raises(Exception, match=text):
            fast({**feeds, **change})


@pytest.fixture
def compiled(monkeypatch):
    """For each kernel whether it was compiled, not found."""
    seen = []
    compile_one = spjit.Compiler.compile

    def watch(self, *given, **named):
        kernel = compile_one(self, *given, **named)
        seen.append(not kernel.info["from_cache"])
        return kernel

    monkeypatch.setattr(spjit.Compiler, "compile", watch)
    return seen


@pytest.mark.parametrize("x", [(5, 2), (1, 1), (4, 9)])
def test_kernels_come_from_the_bundle_of_a_saved_model(tmp_path, compiled, x):
    path = write(tmp_path / "m.onnx", "GRU", constants_of("GRU", 2), outputs="y h",
                 direction="bidirectional")
    feeds = {"x": floats(*x, INPUTS)}
    spjit.onnx.optimize(path, feeds, cache=False).save(tmp_path / "fast.onnx")
    assert compiled and all(compiled)
    compiled.clear()

    fast = spjit.onnx.optimize(path, feeds, cache=False, cache_layers=[tmp_path / "fast.spjit"])

    assert compiled and not any(compiled)
    assert_same(fast(feeds), dense_of(path, feeds))


def test_kernels_come_from_a_bundle_of_the_command_line(tmp_path, compiled):
    """Of the same n and nonzeros of the network."""
    path = write(tmp_path / "m.onnx", "LSTM", constants_of("LSTM"))
    feeds = {"x": floats(6, 7, INPUTS)}
    constants = {one.name: numpy_helper.to_array(one)
                 for one in onnx.load(str(path)).graph.initializer}
    nnz = sum(np.count_nonzero(constants[name]) for name in "wr")
    (tmp_path / "n.json").write_text(json.dumps({"layers": [
        {"name": "steps.input.0.weight", "n": "any:42"},
        {"name": "steps.recurrent.0.weight", "n": "any:7"}]}))
    subprocess.run([sys.executable, "-m", "spjit", "compile", "m.onnx", "--layers", "n.json",
                    "--network-nnz", str(nnz), "--bundle", "k.spjit", "--no-measure"], check=True,
                   cwd=tmp_path)

    fast = spjit.onnx.optimize(path, feeds, cache=False, cache_layers=[tmp_path / "k.spjit"])

    assert compiled == [False, False]
    assert_same(fast(feeds), dense_of(path, feeds))


def reason_of(path, x):
    report = spjit.onnx.optimize(path, x).report
    assert not report.sparse
    return report.rows[0].reason


def test_says_why_a_layer_stays_dense(tmp_path):
    x = {"x": floats(5, 2, INPUTS)}
    path = tmp_path / "m.onnx"

    def lstm(**given):
        return write(path, "LSTM", given.pop("constants", constants_of("LSTM")), **given)

    assert reason_of(lstm(constants=constants_of("LSTM", zeros=0.1)), x) == "less than 50 % zeros"
    assert reason_of(lstm(clip=0.5), x) == "its cells are clipped, which kernels do not do"
    peepholes = {**constants_of("LSTM"), "p": floats(1, 3 * HIDDEN)}
    assert reason_of(lstm(constants=peepholes, inputs="x w r b _ _ _ p"), x) == (
        "it has peepholes, which kernels do not have")
    assert reason_of(lstm(activations=["Sigmoid", "Relu", "Tanh"]), x) == (
        "its activations are Sigmoid, Relu, Tanh; expected the default")
    assert reason_of(lstm(input_forget=1), x) == (
        "its input and forget gates are coupled, which kernels do not do")
    mixed = write(path, "RNN", constants_of("RNN", 2), outputs="y h", direction="bidirectional",
                  activations=["Relu", "Tanh"])
    assert reason_of(mixed, x) == "its activations are Relu, Tanh; expected Tanh or Relu"
    computed = lstm(constants={name: value for name, value in constants_of("LSTM").items()
                               if name != "b"},
                    given=[("b", TensorProto.FLOAT, [1, 8 * HIDDEN])])
    assert reason_of(computed, {**x, "b": floats(1, 8 * HIDDEN)}) == (
        "its bias is computed; expected a constant")


def test_layers_around_it_become_kernels_too(tmp_path):
    constants = {**constants_of("LSTM"), "head": sparse(HIDDEN, 4), "axis": np.array([1])}
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b"], ["all"], "steps", hidden_size=HIDDEN),
             node("Squeeze", "all axis", "rows"), node("MatMul", "rows head", "y")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s", "n", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              str(tmp_path / "m.onnx"))

    fast = check(tmp_path / "m.onnx", {"x": floats(5, 2, INPUTS)})

    assert sorted(row.kind for row in fast.report.sparse) == ["LSTM", "MatMul"]


def test_a_quantised_lstm_stays_dense(tmp_path):
    """It quantises its inputs in each run: a kernel of floats would compute something else."""
    rng = np.random.default_rng(6)

    def integers(rows):
        kept = rng.random((1, rows, 4 * HIDDEN)) < 0.2
        return (kept * rng.integers(-9, 9, kept.shape)).astype(np.int8)

    constants = {"w": integers(INPUTS), "r": integers(HIDDEN),
                 "scale": np.array([0.1], np.float32), "zero": np.array([0], np.int8)}
    node_of = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", *[""] * 5, "scale", "zero", "scale", "zero"], ["y"],
        "steps", domain="com.microsoft", hidden_size=HIDDEN)
    graph = helper.make_graph(
        [node_of], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s", "n", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    onnx.save(model, str(tmp_path / "m.onnx"))

    report = spjit.onnx.optimize(tmp_path / "m.onnx", {"x": floats(5, 2, INPUTS)}).report

    assert not report.sparse
    assert [row.shape for row in report.rows] == [(1, INPUTS, 4 * HIDDEN), (1, HIDDEN, 4 * HIDDEN)]
    assert {row.reason for row in report.rows} == {
        "its weights are integers, int8; expected float32"}
