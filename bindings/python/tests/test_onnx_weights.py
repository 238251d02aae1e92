"""Every weight of an ONNX model has a line, and a reason where it is no layer's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper

from spjit._onnx_file import convert
from spjit._onnx_forms import split
from spjit._onnx_graph import survey

RNG = np.random.default_rng(3)
W = RNG.standard_normal((4, 6)).astype(np.float32)
W[:, 1:] *= RNG.random((4, 5)) < 0.4
IMAGE = [("x", [1, 4, 9, 9])]
TOKENS = [("x", [3, 4])]
STEPS = [("x", [5, 1, 4])]


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def values(names):
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]


def graph_of(nodes, constants, inputs, outputs=("y",), name="g"):
    return helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(one, TensorProto.FLOAT, shape) for one, shape in inputs],
        values(outputs), [numpy_helper.from_array(np.asarray(value), one)
                          for one, value in constants.items()])


def model_of(nodes, constants, inputs, *, opset=17, domains=(), functions=()):
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in domains)]
    return helper.make_model(graph_of(nodes, constants, inputs), opset_imports=opsets,
                             ir_version=8, functions=functions)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*shape):
    return RNG.integers(1, 100, shape).astype(np.uint8)


SCALES = {"xs": np.float32(0.1), "xz": np.uint8(3), "ws": np.float32(0.2), "wz": np.uint8(100)}


@pytest.mark.parametrize(("one", "constants", "inputs", "reasons"), [
    (node("Einsum", "x w", "y", equation="ij,ij->j"), {"w": W}, [("x", [4, 6])],
     ["no dimension of its weights"]),
    (node("LSTM", "x w r", "y", hidden_size=2), {"w": floats(1, 8, 4), "r": floats(1, 8, 2)}, STEPS,
     ["recurrent"] * 2),
    (node("GRU", "x w r", "y", hidden_size=2), {"w": floats(1, 6, 4), "r": floats(1, 6, 2)}, STEPS,
     ["recurrent"] * 2),
    (node("ConvTransposeWithDynamicPads", "x w p", "y", domain="com.microsoft"),
     {"w": floats(4, 2, 3, 3), "p": np.array([0, 0, 0, 0])}, IMAGE, ["its pads are computed"]),
    (node("ConvInteger", "x w xz wz", "y"), {"w": integers(2, 4, 3, 3), **SCALES}, IMAGE,
     ["its sums are not made floats"]),
    (node("DynamicQuantizeLSTM", "x w r b s i c p ws wz ws wz", "y", domain="com.microsoft",
          hidden_size=2),
     {"w": integers(1, 4, 8), "r": integers(1, 2, 8), **SCALES}, STEPS,
     ["integers, uint8"] * 2),
    (node("Gather", "w x", "y"), {"w": W}, [("x", [3])], ["looked up"]),
    (node("Add", "x w", "y"), {"w": W}, [("x", [4, 6])], ["one by one"]),
    (node("Attention", "x w b", "y", domain="com.microsoft", num_heads=2),
     {"w": floats(4, 12), "b": floats(12)}, STEPS, ["com.microsoft.Attention have no kernel"]),
], ids=lambda one: getattr(one, "op_type", ""))
def test_weights_that_are_no_layers(one, constants, inputs, reasons):
    found = survey(model_of([one], constants, inputs))

    assert found.layers == []
    weights = [value for value in constants.values() if value.ndim > 1]
    assert [other.shape for other in found.others] == [weight.shape for weight in weights]
    assert {other.op for other in found.others} == {one.op_type}
    for other, reason in zip(found.others, reasons, strict=True):
        assert reason in other.reason
    assert len({other.name for other in found.others}) == len(weights)


def test_zeros_of_quantised_weights_are_their_zero_points():
    weight = np.full((4, 6), 100, np.uint8)
    weight[0] = 0
    layer, = survey(model_of([node("MatMulInteger", "x w xz wz", "y")], {"w": weight, **SCALES},
                             TOKENS)).layers
    assert layer.zeros == 0.75


@pytest.mark.parametrize("weight", [W, floats(2, 4, 3, 3)])
def test_weights_that_are_inputs_too(weight):
    op, inputs = ("MatMul", TOKENS) if weight.ndim == 2 else ("Conv", IMAGE)
    found = survey(model_of([node(op, "x w", "y")], {"w": weight},
                            [*inputs, ("w", weight.shape)]))

    assert found.layers == []
    other, = found.others
    assert (other.op, other.shape) == (op, weight.shape)
    assert "a run may replace" in other.reason


def test_vectors_are_no_weights():
    constants = {"b": floats(1, 4, 1, 1), "i": np.array([[0, 1], [1, 0]])}
    found = survey(model_of([node("Mul", "x b", "p"), node("Gather", "p i", "y")], constants,
                            IMAGE))
    assert found == ([], [], [])


def test_a_product_behind_dequantization_is_a_layer():
    weight = (RNG.integers(-4, 5, (4, 6)) * (RNG.random((4, 6)) < 0.3)).astype(np.int8)
    scale = np.linspace(0.5, 2, 6, dtype=np.float32)
    model = model_of([node("DequantizeLinear", "w s z", "v", axis=1), node("MatMul", "x v", "y")],
                     {"w": weight, "s": scale, "z": np.zeros(6, np.int8)}, TOKENS)

    found = survey(model)

    assert found.others == []
    np.testing.assert_array_equal(found.layers[0].weight, (weight * scale).T)


def test_blocks_that_are_dequantized_have_a_line():
    model = model_of([node("DequantizeLinear", "w s", "v", axis=0, block_size=2),
                      node("MatMul", "x v", "y")],
                     {"w": np.ones((4, 6), np.int8), "s": floats(2, 6)}, TOKENS, opset=21)
    assert [(one.op, one.shape) for one in survey(model).others] == [("DequantizeLinear", (4, 6))]


def _quantised(shape, axis, points):
    """Numbers around a zero point for each place of the axis, of which 3/4 are it."""
    aligned = np.moveaxis(np.broadcast_to(points, (*np.delete(shape, axis), len(points))), -1, axis)
    is_zero = np.arange(np.prod(shape)).reshape(shape) % 4 < 3
    return np.where(is_zero, aligned, aligned ^ 1).astype(np.uint8)


ROWS, COLUMNS = np.arange(4, dtype=np.uint8) + 100, np.arange(8, dtype=np.uint8) + 100


@pytest.mark.parametrize(("one", "weight", "points", "opset"), [
    (node("QLinearMatMul", "x xs xz w ws wz ws xz", "y"), _quantised((4, 8), 1, COLUMNS), COLUMNS,
     17),
    (node("MatMulInteger", "x w xz wz", "y"), _quantised((4, 8), 1, COLUMNS), COLUMNS, 17),
    (node("DynamicQuantizeMatMul", "x w ws wz", "y", domain="com.microsoft"),
     _quantised((4, 8), 1, COLUMNS), COLUMNS, 17),
    (node("QLinearConv", "x xs xz w ws wz ws xz", "y"), _quantised((4, 4, 3, 3), 0, ROWS), ROWS,
     17),
    (node("QGemm", "x xs xz w ws wz", "y", domain="com.microsoft", transB=1),
     _quantised((4, 8), 0, ROWS), ROWS, 17),
    (node("DequantizeLinear", "w ws wz", "y", axis=0, block_size=3),
     _quantised((4, 8), 0, ROWS), np.stack([COLUMNS] * 2), 21),
], ids=lambda one: getattr(one, "op_type", ""))
def test_zeros_of_channels_are_their_zero_points(one, weight, points, opset):
    if one.op_type == "DequantizeLinear":
        weight = _quantised(weight.shape, 1, COLUMNS)
        # Of constants alone it would be one: its scale is an input.
        model = model_of([one], {"w": weight, "wz": points}, [("ws", points.shape)], opset=opset)
    else:
        model = model_of([one], {"w": weight, "wz": points, "ws": np.ones(points.shape, np.float32),
                                 "xs": np.float32(1), "xz": np.uint8(3)},
                         IMAGE if weight.ndim == 4 else TOKENS, opset=opset)
    found = survey(model)
    shapes = [((one.weight if one.op == "QGemm" else one.weight.T).shape, one.zeros)
              for one in found.layers]
    assert [*shapes, *((one.shape, one.zeros) for one in found.others)] == [(weight.shape, 0.75)]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_points", [False, True])
def test_packed_weights_have_their_numbers(bits, has_points):
    n, k, block, blocks, apart = 3, 20, 16, 2, 8 // bits
    points = RNG.integers(0, 1 << bits, (n, max(blocks, apart)))
    if not has_points:
        points[:] = 1 << (bits - 1)
    numbers = np.repeat(points[:, :blocks], block, 1)
    numbers[:, ::4] ^= 1
    numbers[:, k:] = 0  # behind the weight: counts for nothing

    def packed(values):
        shifted = values.reshape(n, -1, apart) << np.arange(0, 8, bits)
        return shifted.sum(-1).astype(np.uint8)

    constants = {"w": packed(numbers).reshape(n, blocks, -1), "z": packed(points),
                 "s": np.ones((n, blocks), np.float32)}
    model = model_of([node("MatMulNBits", "x w s z" if has_points else "x w s", "y",
                           domain="com.microsoft", N=n, K=k, bits=bits, block_size=block)],
                     constants, [("x", [3, k])])
    other, = survey(model).others
    assert (other.shape, other.zeros) == ((n, k), 0.75)


@pytest.mark.parametrize(("kind", "code"), [(0, 0), (1, 7)])
def test_weights_of_a_vector_of_codes_have_a_line(kind, code):
    codes = np.full((4, 6), code, np.uint8)
    codes[:, ::2] = 3
    packed = codes.ravel()[::2] << 4 | codes.ravel()[1::2]
    model = model_of([node("MatMulBnb4", "x w s", "y", domain="com.microsoft", N=4, K=6,
                           block_size=16, quant_type=kind)],
                     {"w": packed, "s": np.ones(2, np.float32)}, [("x", [3, 6])])
    other, = survey(model).others
    assert (other.op, other.shape, other.zeros) == ("MatMulBnb4", (4, 6), 0.5)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32])
@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_weights_of_16_bits_are_dequantised(dtype, domain):
    weight = (RNG.integers(1, 999, (4, 6)) * (RNG.random((4, 6)) < 0.3)).astype(dtype)
    one = node("DequantizeLinear", "w s", "v", domain=domain)
    layer, = survey(model_of([one, node("MatMul", "x v", "y")],
                             {"w": weight, "s": np.float32(0.5)}, TOKENS, opset=21)).layers
    np.testing.assert_array_equal(layer.weight, weight.T.astype(np.float32) / 2)

    # Where it is no layer's, as its scale is an input, it has a line.
    other, = survey(model_of([one], {"w": weight}, [("s", [])], opset=21)).others
    assert (other.op, other.shape) == ("DequantizeLinear", (4, 6))


def loop(body):
    return [helper.make_node("Constant", [], ["n"], value_int=3),
            helper.make_node("Constant", [], ["go"], value=numpy_helper.from_array(np.array(True))),
            helper.make_node("Loop", ["n", "go", "x"], ["y"], name="loop", body=body)]


def body_of(op, **attributes):
    nodes = [node("Identity", "c", "c2"), node(op, "v w", "v2", name="inside", **attributes)]
    body = graph_of(nodes, {}, [], ("c2", "v2"), "body")
    body.input.extend([helper.make_tensor_value_info("i", TensorProto.INT64, []),
                       helper.make_tensor_value_info("c", TensorProto.BOOL, []), *values(["v"])])
    return body


def test_products_in_loops_are_layers():
    square = W[:, :4].copy()
    layer, = survey(model_of(loop(body_of("MatMul")), {"w": square}, TOKENS)).layers

    assert (layer.name, layer.op) == ("inside", "MatMul")
    np.testing.assert_array_equal(layer.weight, square.T)


@pytest.mark.parametrize(("op", "attributes", "shape", "reason"), [
    ("Einsum", {"equation": "ij,jk->ik"}, (4, 4), "an unknown number of dimensions"),
    ("GRU", {"hidden_size": 4}, (1, 12, 4), "of a recurrent layer"),
    ("Gather", {}, (4, 4), "looked up")])
def test_what_is_no_layer_in_loops_has_a_line(op, attributes, shape, reason):
    """Of what a loop hands on nobody knows the shape."""
    body = body_of(op, **attributes)
    if op == "GRU":
        body.node[1].input.append("w")
    if op == "Gather":
        body.node[1].input[:] = ["w", "i"]
    other, = survey(model_of(loop(body), {"w": floats(*shape)}, TOKENS)).others

    assert (other.name, other.op, other.shape) == ("inside", op, shape)
    assert reason in other.reason


def test_sparse_constants_are_weights():
    places = np.flatnonzero(W)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(W.ravel()[places], ""), numpy_helper.from_array(places, "p"),
        W.shape)
    model = model_of([helper.make_node("Constant", [], ["w"], sparse_value=sparse),
                      node("MatMul", "x w", "y")], {}, TOKENS)
    np.testing.assert_array_equal(survey(model).layers[0].weight, W.T)


# ---- The command line -----------------------------------------------------------------------


def run(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "spjit", *map(str, arguments)], cwd=folder,
                          text=True, capture_output=True, timeout=300, check=False)


def inspect(folder, model):
    onnx.save(model, folder / "m.onnx")
    result = run(folder, "inspect", "m.onnx", "--json", "--min-zeros", 0)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("damage, given", [
    (lambda weight: setattr(weight, "raw_data", weight.raw_data[:100]), "1, and shape, [32, 48]"),
    (lambda weight: weight.dims.__setitem__(0, 2**62), "shape, [4611686018427387904, 48]"),
    (lambda weight: weight.dims.__setitem__(0, -32), "shape, [-32, 48]"),
    (lambda weight: setattr(weight, "data_type", 77), "type, 77")])
def test_weights_that_do_not_fit_their_shape_fail_alone(tmp_path, damage, given):
    nodes = [node("MatMul", "x w", "y", name="bad"), node("MatMul", "x v", "z", name="/good/one")]
    model = model_of(nodes, {"w": np.zeros((32, 48), np.float32), "v": W}, TOKENS)
    damage(model.graph.initializer[0])
    onnx.save(model, tmp_path / "m.onnx")
    result = run(tmp_path, "inspect", "m.onnx")
    assert result.returncode == 1
    line, = result.stderr.splitlines()
    assert line.startswith("spjit: error: m.onnx/bad: the data of the constant 'w' ")
    assert given in line
    assert "good.one.weight" in result.stdout


def test_each_node_with_damaged_constants_fails_alone(tmp_path):
    """Of nodes Constant, of graphs within nodes, and of nodes that have other constants as well."""
    def damaged(array):
        tensor = numpy_helper.from_array(array)
        tensor.raw_data = tensor.raw_data[:-1]
        return tensor

    square = W[:, :4].copy()
    body = graph_of([node("MatMul", "s v", "r", name="within"),
                     node("MatMul", "r q", "t", name="good")],
                    {"v": square, "q": square}, [], ("t",))
    body.initializer[0].raw_data = b"short"
    nodes = [helper.make_node("Constant", [], ["c"], value=damaged(square)),
             node("Transpose", "c", "ct", name="turned"),
             node("MatMul", "x ct", "s", name="behind"),
             helper.make_node("If", ["yes"], ["y"], name="if", then_branch=body,
                              else_branch=body),
             node("Gemm", "s w c", "z", name="gemm")]
    model = model_of(nodes, {"w": square}, TOKENS)
    model.graph.input.append(helper.make_tensor_value_info("yes", TensorProto.BOOL, []))
    onnx.save(model, tmp_path / "m.onnx")

    result = run(tmp_path, "inspect", "m.onnx", "--json", "--min-zeros", 0)

    assert result.returncode == 1, result.stderr
    found = json.loads(result.stdout)
    errors = {one["file"]: one["error"] for one in found["layers"]}
    failed = ["m.onnx/turned", "m.onnx/within", "m.onnx/within_2", "m.onnx/gemm"]
    assert {name for name, error in errors.items() if error} == set(failed)
    assert found["failed"] == len(failed)
    assert all("do not fit its type, 1, and shape, [4, 4]" in errors[name] for name in failed)
    assert {name for name, error in errors.items() if not error} == {"m.onnx/good.weight",
                                                                     "m.onnx/good_2.weight"}
    assert found["left_dense"] == []


def test_weights_that_are_not_in_their_file_fail_alone(tmp_path):
    nodes = [node("MatMul", "x w", "y", name="a"), node("MatMul", "x v", "z", name="b")]
    model = model_of(nodes, {"w": W, "v": 2 * W}, TOKENS)
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.data",
              size_threshold=0)
    model = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    where, = (one for one in model.graph.initializer[1].external_data if one.key == "location")
    where.value = "none.data"
    onnx.save(model, tmp_path / "m.onnx")

    some = run(tmp_path, "inspect", "m.onnx")
    (tmp_path / "m.data").unlink()
    none = run(tmp_path, "inspect", "m.onnx")

    assert some.returncode == 1
    assert "a.weight" in some.stdout
    line, = some.stderr.splitlines()
    assert line.startswith("spjit: error: m.onnx/b: ") and "none.data" in line
    assert none.returncode == 3
    line, = none.stderr.splitlines()
    assert line.startswith("spjit: error: m.onnx: cannot be read as ONNX: ")
    assert line.endswith("are in 'none.data': none.data does not exist")


def test_weights_that_are_cast_to_infinities_do_not_warn(tmp_path):
    double = W.astype(np.float64)
    double[0, 0] = 1e300
    cast = helper.make_node("Cast", ["d"], ["w"], to=TensorProto.FLOAT)
    onnx.save(model_of([cast, node("MatMul", "x w", "y")], {"d": double}, TOKENS),
              tmp_path / "m.onnx")
    result = run(tmp_path, "inspect", "m.onnx", "--min-zeros", 0)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("attributes", [{"pads": [1, 1]}, {"strides": [1]},
                                        {"dilations": [1, 1, 1]}, {"strides": "ab"}])
def test_a_convolution_with_too_few_sizes_is_left(attributes):
    model = model_of([node("Conv", "x w", "y", **attributes)],
                     {"w": np.zeros((4, 3, 3, 3), np.float32)}, [("x", [1, 3, 8, 8])])
    found = survey(model)
    assert not found.layers
    assert f"its {next(iter(attributes))} are " in found.others[0].reason


@pytest.mark.parametrize("automatic", ["SAME", 3])
def test_a_convolution_of_another_auto_pad_is_left(automatic):
    model = model_of([node("Conv", "x w", "y", auto_pad=automatic)],
                     {"w": np.zeros((4, 3, 3, 3), np.float32)}, [("x", [1, 3, 8, 8])])
    found = survey(model)
    assert not found.layers
    assert f"its auto_pad is {automatic}; expected" in found.others[0].reason


@pytest.mark.parametrize("changed, reason", [
    ({"w": (1, 12, 5)}, "its weights and biases are [1, 12, 5], [1, 16, 4], [1, 32]; expected "
                        "[1, 16, inputs], [1, 16, 4] and [1, 32], and hidden_size 4"),
    ({"w": (16, 5)}, "its weights and biases are [16, 5]"), ({"w": (2, 16, 5)}, "are [2, 16, 5]"),
    ({"r": (1, 16, 7)}, "[1, 16, 7], [1, 32]; expected [1, 28, inputs]"),
    ({"r": (16,)}, "[16], [1, 32]"), ({"b": (1, 16)}, "[1, 16]; expected"), ({"b": (32,)}, "[32];"),
    ({"hidden_size": 8}, "and hidden_size 4"), ({"direction": 3}, "its direction is none of ONNX"),
    ({"direction": "bidirectional"}, "expected [2, 16, inputs]"),
    ({"activations": [1, 2]}, "its activations are [1, 2]; expected names"),
    ({"activations": "Tanh"}, "its activations are b'Tanh'; expected names")])
def test_a_recurrent_node_of_other_shapes_or_types_is_left(changed, reason):
    shapes = {"w": (1, 16, 5), "r": (1, 16, 4), "b": (1, 32)}
    constants = {name: np.zeros(changed.get(name, shape), np.float32)
                 for name, shape in shapes.items()}
    attributes = {"hidden_size": 4, **{name: value for name, value in changed.items()
                                       if name not in shapes}}
    model = model_of([node("LSTM", "x w r b", "y", **attributes)], constants, [("x", [3, 1, 5])])
    found = survey(model, recurrent=True)
    assert not found.recurrent
    assert reason in found.others[0].reason


def test_products_without_a_result_are_not_split():
    """Of which no model is valid; they break nothing else."""
    nodes = [helper.make_node("Gemm", ["x", "w", "c"], []),
             helper.make_node("Gemm", ["x", "w", "c"], [""]),
             helper.make_node("Reshape", [], ["g"]),
             node("Gemm", "g w", "k"), node("Reshape", "k s", ""), node("MatMul", "x w", "y")]
    model = model_of(nodes, {"w": W, "c": np.zeros((3, 6), np.float32),
                             "s": np.array([1, -1])}, TOKENS)
    assert "MatMul" in [one.op for one in survey(split(model, 0.0)).layers]


def test_a_product_that_gives_nothing_is_left():
    assert not survey(model_of([node("MatMul", "x w", "")], {"w": W}, TOKENS)).layers


def test_sparse_constants_with_an_index_below_0_are_refused():
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([1, 2]), "w"),
        numpy_helper.from_array(np.array([[-1, 0], [1, 1]])), [4, 6])
    model = model_of([node("MatMul", "x w", "y")], {}, TOKENS)
    model.graph.sparse_initializer.append(sparse)
    with pytest.raises(ValueError, match="'w' has the index -1; expected none below 0"):
        survey(model)


def test_layers_of_functions_are_inspected(tmp_path):
    function = helper.make_function("own", "Linear", ["a", "b"], ["c"],
                                    [node("MatMul", "a b", "c")], [helper.make_opsetid("", 17)])
    model = model_of([node("Linear", "x w", "y", domain="own")], {"w": W}, TOKENS,
                     domains=["own"], functions=[function])

    layer, = inspect(tmp_path, model)["layers"]

    assert layer["shape"] == [6, 4]


def _doubling(levels, last):
    """Functions, each of which calls the next one twice."""
    names = [f"f{level}" for level in range(levels)] + [last]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return [helper.make_function("own", name, ["a"], ["c"],
                                 [node(other, "a", "b", domain="own"),
                                  node(other, "b", "c", domain="own")], opsets)
            for name, other in zip(names, names[1:])]


@pytest.mark.parametrize(("levels", "last", "message"), [
    (40, "Missing", "its functions are 1099511627776 nodes where they are called"),
    (3, "f1", "its function 'f1' calls itself")])
def test_functions_that_are_too_many_nodes_are_refused(tmp_path, levels, last, message):
    model = model_of([node("f0", "x", "y", domain="own")], {"w": W}, TOKENS, domains=["own"],
                     functions=_doubling(levels, last))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=message):
        convert(str(tmp_path / "m.onnx"), "")


def test_functions_of_large_models_are_inlined_without_weights(tmp_path, monkeypatch):
    """Which are in a file of their own because no protobuf can have them."""
    function = helper.make_function("own", "Linear", ["a", "b"], ["c"],
                                    [node("MatMul", "a b", "c")], [helper.make_opsetid("", 17)])
    model = model_of([node("Linear", "x w", "y", domain="own")], {"w": W}, TOKENS,
                     domains=["own"], functions=[function])
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.data",
              size_threshold=0)
    inline = onnx.inliner.inline_local_functions

    def without_weights(given):
        assert not any(one.raw_data for one in given.graph.initializer)
        return inline(given)

    monkeypatch.setattr(onnx.inliner, "inline_local_functions", without_weights)
    text = Path(convert(str(tmp_path / "m.onnx"), "")).read_bytes()

    assert W.T.tobytes() in text


def test_what_is_no_layer_is_inspected(tmp_path):
    found = inspect(tmp_path, model_of([node("Einsum", "x w", "y", equation="ij,ij->j")],
                                       {"w": W}, [("x", [4, 6])]))
    assert found["layers"] == []
    assert found["left_dense"][0]["reason"].startswith("Einsum, weights 4x6, ")


@pytest.mark.parametrize(("one", "weight", "x"), [
    (node("MatMul", "w x", "y", name="n"), floats(6, 4), [4, 3]),
    (node("MatMul", "x w", "y", name="n"), floats(2, 4, 6), [2, 3, 4])])
def test_products_that_need_nodes_around_are_left(tmp_path, one, weight, x):
    found = inspect(tmp_path, model_of([one], {"w": weight}, [("x", x)]))
    assert found["layers"] == []
    assert "spjit.onnx has kernels for it" in found["left_dense"][0]["reason"]


def test_products_of_tokens_and_those_within_nodes_are_inspected(tmp_path):
    square = np.where(W[:, :4] == 0, 0, 1).astype(np.float32) + np.eye(4, dtype=np.float32)
    nodes = [node("Einsum", "x w", "v", equation="ij,kj->ki", name="turned"),
             *loop(body_of("MatMul"))]
    found = inspect(tmp_path, model_of(nodes, {"w": square}, TOKENS))
    assert sorted((one["file"], one["shape"]) for one in found["layers"]) == [
        ("m.onnx/inside.weight", [4, 4]), ("m.onnx/turned.weight", [4, 4])]


def test_a_file_without_a_model_is_said(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"")
    result = run(tmp_path, "inspect", "m.onnx")
    assert "m.onnx: cannot be read as ONNX: it is empty, or another kind" in result.stderr


@pytest.mark.parametrize(("attributes", "reason"), [
    ({"strides": [0, 1]}, r"its strides are [0, 1]; expected 2 numbers from 1 on"),
    ({"dilations": [1, -1]}, r"its dilations are [1, -1]; expected 2 numbers from 1 on"),
    ({"pads": [0, 0, -1, 0]}, r"its pads are [0, 0, -1, 0]; expected 4 numbers from 0 on"),
    ({"group": 0}, "its group is 0; expected a divisor of 6 filters"),
    ({"group": 4}, "its group is 4; expected a divisor of 6 filters"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_a_convolution_that_is_none_is_said(tmp_path, attributes, reason):
    weight = np.zeros((6, 4, 3, 3), np.float32)
    weight[0, 0, 0, 0] = 1
    model = model_of([node("Conv", "x w", "y", **attributes)], {"w": weight},
                     [("x", [1, 4, 8, 8])])
    found = inspect(tmp_path, model)
    assert found["layers"] == []
    assert reason in found["left_dense"][0]["reason"]


def test_a_model_without_weights_is_said(tmp_path):
    onnx.save(model_of([node("Relu", "x", "y")], {}, TOKENS), tmp_path / "m.onnx")
    result = run(tmp_path, "inspect", "m.onnx")
    assert "m.onnx: has no weights of two dimensions or more" in result.stderr
    assert result.returncode != 0


def test_names_that_dots_make_alike_stay_apart(tmp_path):
    weights = {name: floats(4, 6) for name in "abc"}
    nodes = [node("MatMul", "x a", "p", name="/fc/MatMul"),
             node("MatMul", "x b", "q", name="fc.MatMul"),
             node("MatMul", "x c", "r", name="fc/MatMul_2"),
             node("Sum", "p q r", "y")]
    model = model_of(nodes, weights, TOKENS)

    found = inspect(tmp_path, model)
    compiled = run(tmp_path, "compile", "m.onnx", "--n", 8, "--min-zeros", 0, "--bundle",
                   "m.spjit", "--no-measure", "--json")

    assert sorted(one["file"] for one in found["layers"]) == [
        "m.onnx/fc.MatMul.weight", "m.onnx/fc.MatMul_2.weight", "m.onnx/fc.MatMul_2_2.weight"]
    assert compiled.returncode == 0, compiled.stderr
    import spjit
    assert len(spjit.Bundle(tmp_path / "m.spjit").layers) == 3


def test_a_name_is_no_pattern_for_others(tmp_path):
    """Options of a layer go to it alone, though its name would match others as a glob."""
    nodes = [node("MatMul", "x a", "p", name="fc1"), node("Relu", "p", "q"),
             node("MatMul", "q b", "y", name="fc*")]
    found = inspect(tmp_path, model_of(nodes, {"a": W, "b": W.T.copy()}, TOKENS))
    kinds = {one["file"]: one["problem"]["epilogue"]["activation"] for one in found["layers"]}
    assert kinds == {"m.onnx/fc1.weight": "relu", "m.onnx/fc_.weight": "none"}


def test_parameters_of_activations_reach_the_command_line(tmp_path):
    nodes = [node("MatMul", "x w", "p", name="a"), node("LeakyRelu", "p", "l", alpha=0.1),
             node("MatMul", "l v", "q", name="b"), node("HardSigmoid", "q", "h", beta=-0.25),
             node("MatMul", "h w", "r", name="c"), node("Clip", "r", "s"),
             node("MatMul", "s v", "t", name="d"), node("Tanh", "t", "y")]
    found = inspect(tmp_path, model_of(nodes, {"w": W, "v": W.T.copy()}, TOKENS))
    kinds = [one["problem"]["epilogue"] for one in found["layers"]]
    assert [one["activation"] for one in kinds] == ["leaky-relu", "hard-sigmoid", "clamp", "tanh"]
    assert [(np.float32(one["alpha"]), np.float32(one["beta"])) for one in kinds] == [
        (np.float32(0.1), 0), (np.float32(0.2), np.float32(-0.25)), (0, 0), (0, 0)]
    largest = np.finfo(np.float32).max
    assert (np.float32(kinds[2]["low"]), np.float32(kinds[2]["high"])) == (-largest, largest)
