"""Files of models: what the command line reads of what the packages safetensors and onnx write."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import spjit


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "spjit", *map(str, arguments)], cwd=folder,
                          text=True, capture_output=True, timeout=300, check=False)


def inspect(folder: Path, *arguments: object) -> dict:
    result = run(folder, "inspect", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def floats_with_zeros(rng: np.random.Generator, shape: tuple[int, ...], zeros: float) -> np.ndarray:
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 5, shape)
    values[rng.random(shape) < zeros] = 0
    return values


def test_safetensors_of_all_types(tmp_path):
    """Every type, and names and shapes by chance: as many nonzeros as the package reads."""
    package = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    rng = np.random.default_rng(7)
    for seed in range(5):
        tensors = {}
        for number in range(6):
            shape = tuple(rng.integers(1, 40, rng.choice([1, 2, 2, 4])))
            dtype = [np.float32, np.float16, np.float64][number % 3]
            tensors[f"layer.{number}.weight"] = floats_with_zeros(rng, shape, 0.7).astype(dtype)
        package.save_file(tensors, tmp_path / f"{seed}.safetensors", {"format": "np"})

        found = inspect(tmp_path, f"{seed}.safetensors", "--min-zeros", 0)

        read = package.load_file(tmp_path / f"{seed}.safetensors")
        listed = {Path(one["file"]).name: one for one in [*found["layers"], *found["left_dense"]]}
        assert sorted(listed) == sorted(n for n, t in read.items() if t.ndim > 1)
        for name, one in listed.items():
            assert one["shape"] == list(read[name].shape)
            assert round((1 - one["sparsity"]) * read[name].size) == np.count_nonzero(read[name])


def bfloat16(values: np.ndarray) -> np.ndarray:
    """The upper halves of fp32."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16", "F64"])
def test_kernels_of_safetensors_are_those_of_their_numbers(tmp_path, dtype):
    """A kernel's key has all of A: the same weights as a matrix file come out of the cache."""
    package = pytest.importorskip("safetensors", reason="safetensors is not installed")
    values = floats_with_zeros(np.random.default_rng(3), (30, 40), 0.8)
    bits = {"F32": values.astype(np.float32), "F16": values.astype(np.float16), "F64": values,
            "BF16": bfloat16(values)}[dtype]
    header = json.dumps({"w": {"dtype": dtype, "shape": [30, 40],
                               "data_offsets": [0, bits.nbytes]}}).encode()
    file = struct.pack("<Q", len(header)) + header + bits.tobytes()
    (tmp_path / "m.safetensors").write_bytes(file)
    assert bytes(package.deserialize(file)[0][1]["data"]) == bits.tobytes()
    exact = bits.astype(np.float32)
    if dtype == "BF16":
        exact = (bits.astype(np.uint32) << 16).view(np.float32)
    scipy.sparse.save_npz(tmp_path / "m.npz", scipy.sparse.csr_matrix(exact))

    options = ("--n", 8, "--no-measure", "--cache", tmp_path / "cache", "--json")
    first = run(tmp_path, "compile", "m.npz", *options)
    second = run(tmp_path, "compile", "m.safetensors", *options)

    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    layers = [json.loads(one.stdout)["layers"][0]["kernel"] for one in (first, second)]
    assert layers[0]["key"] == layers[1]["key"]
    assert [layer["from_cache"] for layer in layers] == [False, True]


def test_the_package_refuses_what_is_refused_here(tmp_path):
    """Headers in which a byte was changed by chance."""
    package = pytest.importorskip("safetensors", reason="safetensors is not installed")
    numbers = pytest.importorskip("safetensors.numpy")
    good = numbers.save({"a": np.ones((2, 3), np.float32), "b": np.ones((4, 2), np.float16)})
    rng = np.random.default_rng(5)
    refused = {}
    for number in range(150):
        file = bytearray(good)
        file[rng.integers(0, 110)] = rng.choice(list(b'0123456789,:"{}[]Fax\xff '))
        name = f"{number:03}.safetensors"
        (tmp_path / name).write_bytes(file)
        try:
            package.deserialize(bytes(file))
            refused[name] = False
        except Exception as error:
            # Types that are not known are left alone here.
            refused[name] = "unknown variant" not in str(error)

    result = run(tmp_path, "inspect", *refused)

    assert 20 < sum(refused.values()) < 140
    assert result.returncode == 1
    errors = [line for line in result.stderr.splitlines() if line.startswith("spjit: error: ")]
    assert [line.split(": ")[2] for line in errors] == [n for n, bad in refused.items() if bad]


# ---- ONNX -----------------------------------------------------------------------------------


@pytest.fixture
def network(tmp_path):
    """A convolution with ReLU, a product with bias and GELU, and a transposed convolution."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(2)
    weights = {"conv": floats_with_zeros(rng, (8, 3, 3, 3), 0.9),
               "fc": floats_with_zeros(rng, (20, 12), 0.8), "bias": rng.standard_normal(12),
               "dense": rng.standard_normal((20, 12))}
    nodes = [helper.make_node("Conv", ["image", "conv"], ["c"], name="/features/conv", pads=[1] * 4,
                              strides=[2, 2]),
             helper.make_node("Relu", ["c"], ["y"]),
             helper.make_node("MatMul", ["tokens", "fc"], ["p"], name="/fc/MatMul"),
             helper.make_node("Add", ["p", "bias"], ["q"]),
             helper.make_node("Gelu", ["q"], ["z"]),
             helper.make_node("MatMul", ["tokens", "dense"], ["d"], name="/dense"),
             helper.make_node("ConvTranspose", ["y", "conv"], ["t"], name="/up",
                              strides=[2, 2], pads=[1, 0, 0, 1])]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, "h", "w"]),
         helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["n", 20])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yzdt"],
        [numpy_helper.from_array(array.astype(np.float32), name)
         for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, tmp_path / "network.onnx")
    return tmp_path


def test_onnx_layers_are_inspected(network):
    found = inspect(network, "network.onnx", "--input-shape", "image=1x3x16x20")

    layers = {one["file"]: one for one in found["layers"]}
    assert list(layers) == ["network.onnx/fc.MatMul.weight", "network.onnx/features.conv.weight",
                            "network.onnx/up.weight"]
    linear, convolution, transposed = layers.values()
    assert linear["shape"] == [12, 20]
    assert linear["problem"]["epilogue"]["activation"] == "gelu"
    assert linear["problem"]["epilogue"]["bias"] is True
    assert convolution["problem"]["epilogue"]["activation"] == "relu"
    geometry = convolution["problem"]["convolution"]
    assert (geometry["height"], geometry["width"], geometry["stride"]) == (16, 20, [2, 2])
    reasons = {one["file"]: one["reason"] for one in found["left_dense"]}
    assert "--min-zeros" in reasons["network.onnx/dense.weight"]
    assert transposed["shape"] == [4 * 3, 8, 2, 2]
    geometry = transposed["problem"]["convolution"]
    assert (geometry["height"], geometry["width"], geometry["stride"]) == (8, 10, [1, 1])


def test_onnx_convolutions_need_an_image(network):
    found = inspect(network, "network.onnx")
    reasons = {one["file"]: one["reason"] for one in found["left_dense"]}
    assert "--input-shape" in reasons["network.onnx/features.conv.weight"]


def test_onnx_layers_are_compiled(network):
    result = run(network, "compile", "network.onnx", "--layout", "tokens", "--cache", "cache",
                 "--no-measure", "--json", "--input-shape", "image=1x3x16x20")

    assert result.returncode == 0, result.stderr
    layers = json.loads(result.stdout)["layers"]
    assert [one["verification"]["passed"] for one in layers] == [True, True, True]


def test_phases_of_onnx_are_a_transposed_convolution(network):
    """The kernel of a bundle, whose phases are put together here."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    result = run(network, "compile", "network.onnx", "--bundle", "k.spjit", "--no-measure",
                 "--input-shape", "image=1x3x16x20")
    assert result.returncode == 0, result.stderr
    kernel = spjit.Bundle(network / "k.spjit")["up.weight"]
    session = runtime.InferenceSession(str(network / "network.onnx"))
    rng = np.random.default_rng(3)
    image, tokens = rng.standard_normal((1, 3, 16, 20)), rng.standard_normal((2, 20))
    y, expected = session.run(["y", "t"], {"image": image.astype(np.float32),
                                           "tokens": tokens.astype(np.float32)})

    phases = kernel(y).reshape(2, 2, 3, *kernel(y).shape[2:])

    whole = phases.transpose(2, 3, 0, 4, 1).reshape(1, 3, 2 * phases.shape[3], -1)
    np.testing.assert_allclose(whole[:, :, :expected.shape[2], :expected.shape[3]], expected,
                               rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def write_recurrent(path, op, *, zeros=0.8, **attributes):
    """A model of one node in both directions, 7 inputs and a state of 11."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(4)
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * 11
    weights = {"w": floats_with_zeros(rng, (2, rows, 7), zeros),
               "r": floats_with_zeros(rng, (2, rows, 11), zeros),
               "b": rng.standard_normal((2, 2 * rows))}
    for weight in weights.values():
        weight /= np.abs(weight).max()
    node = helper.make_node(op, ["x", "w", "r", "b"], ["y"], name="/steps", hidden_size=11,
                            direction="bidirectional", **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s", "n", 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array.astype(np.float32), name)
         for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              str(path))


@pytest.mark.parametrize("op, cell, attributes", [
    ("LSTM", "lstm", {}), ("GRU", "gru", {"linear_before_reset": 1}),
    ("GRU", "gru-reset-first", {}), ("RNN", "rnn-tanh", {})])
def test_a_recurrent_layer_of_kernels_in_a_bundle(tmp_path, op, cell, attributes):
    """The command line compiles the matrices of an ONNX node, of which spjit.Recurrent is made."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write_recurrent(tmp_path / "m.onnx", op, **attributes)
    result = run(tmp_path, "compile", "m.onnx", "--bundle", "k.spjit", "--no-measure", "--json")
    assert result.returncode == 0, result.stderr
    bundle = spjit.Bundle(tmp_path / "k.spjit")
    parts = ["input", "recurrent"] + ["candidate"] * (cell == "gru-reset-first")
    assert sorted(entry["layer"] for entry in bundle.entries) == sorted(
        f"steps.{part}.{number}.weight" for part in parts for number in (0, 1))
    converted = converted_tensors(tmp_path / "m.onnx")
    biases = {f"{part}_bias": [converted[f"steps.{part}.{number}.bias"] for number in (0, 1)]
              for part in parts}
    kernels = {part: [bundle[f"steps.{part}.{number}.weight"] for number in (0, 1)]
               for part in parts}
    x = np.random.default_rng(5).standard_normal((5, 3, 7)).astype(np.float32)

    layer = spjit.Recurrent(cell, **kernels, direction="both")
    y = layer(x, **biases)[0]

    expected = runtime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})[0]
    np.testing.assert_allclose(y.reshape(5, 3, 2, 11), expected.transpose(0, 2, 1, 3), rtol=2e-5,
                               atol=2e-6)


def converted_tensors(path):
    """What the command line reads of an ONNX model."""
    package = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    from spjit._onnx_file import convert

    file = convert(str(path), "")
    try:
        return package.load(Path(file).read_bytes())
    finally:
        os.close(int(Path(file).name))


def test_says_why_recurrent_layers_are_left(tmp_path):
    write_recurrent(tmp_path / "m.onnx", "LSTM", clip=0.5)
    write_recurrent(tmp_path / "dense.onnx", "RNN", zeros=0.2)

    clipped = inspect(tmp_path, "m.onnx")["left_dense"]
    dense = inspect(tmp_path, "dense.onnx")

    assert {one["file"] for one in clipped} == {"m.onnx/steps"}
    assert "its cells are clipped" in clipped[0]["reason"]
    assert dense["layers"] == []
    assert [one["file"] for one in dense["left_dense"]] == [
        f"dense.onnx/steps.{part}.{number}.weight"
        for part in ("input", "recurrent") for number in (0, 1)]


@pytest.mark.parametrize(("shape", "status", "begin"), [
    ("image", 2, "--input-shape: "), ("image=", 2, "--input-shape: "),
    ("image=3xa", 2, "--input-shape: "), ("image=0x1x1x1", 2, "--input-shape: "),
    ("other=1x2", 3, "network.onnx: ")])
def test_wrong_input_shapes_are_refused(network, shape, status, begin):
    result = run(network, "inspect", "network.onnx", "--input-shape", shape)
    assert result.returncode == status
    assert result.stderr.startswith(f"spjit: error: {begin}")
    assert len(result.stderr.splitlines()) == 1


def test_what_is_no_onnx_is_refused(tmp_path):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xfe not a model")
    result = run(tmp_path, "inspect", "bad.onnx", "missing.onnx")
    assert result.returncode == 3
    assert [line.split(": ")[2] for line in result.stderr.splitlines()] == ["bad.onnx",
                                                                            "missing.onnx"]


def test_a_missing_onnx_package_is_said(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "onnx.py").write_text("raise ImportError('none')")
    result = run(tmp_path, "inspect", "m.onnx")
    assert "pip install onnx" in result.stderr
    assert spjit.__version__
