"""ONNX models of fp16 and bf16: kernels whose weights are of these types."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_testing import (  # noqa: E402, F401
    check, dense_of, floats, kernels_are_faster, node, sparse, write)

import spjit  # noqa: E402
import spjit.onnx  # noqa: E402
from spjit._onnx_graph import narrowest_type, survey  # noqa: E402

HALF, BRAIN = np.float16, ml_dtypes.bfloat16
KINDS = {"f16": (HALF, TensorProto.FLOAT16, 2.0**-11),
         "bf16": (BRAIN, TensorProto.BFLOAT16, 2.0**-8)}
W, B, CONV, C = sparse(48, 32), floats(32), sparse(16, 8, 3, 3), floats(16)


def _nodes(kind):
    """Nodes, constants, and the shape of x."""
    if kind == "MatMul":
        return ([node("MatMul", "x w", "h"), node("Add", "h b", "a"), node("Relu", "a", "y")],
                {"w": W, "b": B}, [2, 7, 48])
    if kind == "Gemm":
        return [node("Gemm", "x w b", "y", transB=1)], {"w": W.T, "b": B}, [7, 48]
    return ([node("Conv", "x w b", "h", pads=[1] * 4), node("Relu", "h", "y")],
            {"w": CONV, "b": C}, [2, 8, 9, 9])


def _written(path, kind, dtype):
    numpy_type, onnx_type, _ = KINDS[dtype]
    nodes, constants, shape = _nodes(kind)
    values = {name: value.astype(numpy_type) for name, value in constants.items()}
    return write(path / f"{kind}.onnx", nodes, values, shape, dtype=onnx_type), values, shape


def _exact(kind, x, values):
    """In float64."""
    x, w, b = (np.asarray(one, np.float64) for one in (x, values["w"], values["b"]))
    if kind == "Conv":
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.maximum(np.einsum("nchwij,ocij->nohw", patches, w) + b[:, None, None], 0)
    y = x @ (w.T if kind == "Gemm" else w) + b
    return y if kind == "Gemm" else np.maximum(y, 0)


def _assert_rounded(y, exact, unit):
    """One rounding to the type, and sums in fp32."""
    error = np.abs(np.asarray(y, np.float64) - exact)
    assert np.all(error <= unit * np.abs(exact) + 1e-5)


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Conv"])
def test_fp16_models_get_kernels_with_fp16_weights(tmp_path, kind):
    path, values, shape = _written(tmp_path, kind, "f16")
    x = floats(*shape).astype(HALF)

    fast = spjit.onnx.optimize(path, x)

    row, = fast.report.rows
    assert row.sparse, row.reason
    assert row.types == "f16,f32,f32"
    assert "f16,f32,f32" in str(fast.report)
    y, = fast(x)
    assert y.dtype == HALF
    _assert_rounded(y, _exact(kind, x, values), KINDS["f16"][2])
    np.testing.assert_allclose(y.astype(np.float32), dense_of(path, x).astype(np.float32),
                               rtol=2**-10, atol=1e-5)
    fast.save(tmp_path / "fast.onnx")
    again, = spjit.onnx.load(tmp_path / "fast.onnx").run(None, {"x": x})
    np.testing.assert_array_equal(y, again)


@pytest.mark.parametrize("dtype", list(KINDS))
def test_weights_behind_a_cast_stay_narrow_and_change_no_bit(tmp_path, dtype):
    nodes = [node("Cast", "w", "wide", to=TensorProto.FLOAT), node("MatMul", "x wide", "y")]
    narrow = W.astype(KINDS[dtype][0])
    path = write(tmp_path / "cast.onnx", nodes, {"w": narrow}, [7, 48])
    x = floats(7, 48)

    fast = check(path, x, 1)

    assert fast.report.rows[0].types == f"{dtype},f32,f32"
    wide = np.ascontiguousarray(narrow.astype(np.float32).T)
    np.testing.assert_array_equal(fast(x)[0], spjit.compile(wide)(x))
    sizes = [spjit.compile(wide, types=(one, "f32", "f32")).info["weight_bytes"]
             for one in (dtype, "f32")]
    assert sizes[0] < 0.8 * sizes[1]


def test_weights_that_are_folded_into_others_are_fp32(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Mul", "h s", "y")]
    constants = {"w": W.astype(HALF).astype(np.float32), "s": floats(32)}
    path = write(tmp_path / "scaled.onnx", nodes, constants, [7, 48])
    assert check(path, floats(7, 48), 1).report.rows[0].types == ""


@pytest.mark.parametrize("values, expected", [
    ([1, -0.0, 0, 2.0**-24, 65504, np.inf, -1.5], "f16"), ([2.0**-25], "bf16"),
    ([2.0**-133], "bf16"), ([65536], "bf16"), ([1 + 2.0**-10], "f16"), ([1 + 2.0**-11], "f32"),
    ([1 + 2.0**-7], "bf16"), ([2.0**60 * (1 + 2.0**-8)], "f32"), ([1e-45], "f32"),
    ([0.1], "f32"), ([], "bf16")])
def test_the_narrowest_type_has_each_number(values, expected):
    weight = np.array(values, np.float32)
    assert narrowest_type(weight) == expected
    kinds = {"f16": HALF, "bf16": BRAIN, "f32": np.float32}
    with np.errstate(over="ignore"):
        rounded = {name: weight.astype(kind).astype(np.float32) for name, kind in kinds.items()}
    assert np.array_equal(rounded[expected].view(np.int32), weight.view(np.int32))
    if expected == "f32":
        assert all(not np.array_equal(rounded[one], weight) for one in ("f16", "bf16"))


def test_where_both_types_have_the_numbers_that_of_the_inputs_is_taken():
    weight = np.array([1, 0.5, -0.0, 3], np.float32)
    assert narrowest_type(weight) == "bf16"
    assert narrowest_type(weight, "f16") == "f16"
    assert narrowest_type(weight / 3, "f16") == "f32"


def _command(tmp_path, *arguments):
    environment = {**os.environ, "SPJIT_CACHE_DIR": str(tmp_path / "cache"),
                   "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-m", "spjit", *map(str, arguments)], text=True,
                          capture_output=True, env=environment)


def _dicts(document):
    if isinstance(document, dict):
        yield document
        document = list(document.values())
    for value in document if isinstance(document, list) else ():
        yield from _dicts(value)


@pytest.mark.parametrize("dtype", list(KINDS))
@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Conv"])
def test_the_command_line_compiles_layers_of_these_types(tmp_path, kind, dtype):
    path, values, shape = _written(tmp_path, kind, dtype)
    numpy_type, _, unit = KINDS[dtype]

    seen = _command(tmp_path, "inspect", "--json", path)
    assert seen.returncode == 0, seen.stderr
    layer, = (one for one in _dicts(json.loads(seen.stdout)) if one.get("file"))
    assert layer["problem"]["numerics"] == {
        "a": dtype, "b": dtype, "c": dtype, "accumulate": "ordered"}

    layout = [] if kind == "Conv" else ["--layout", "tokens", "--n", "any"]
    made = _command(tmp_path, "compile", path, "-o", tmp_path / "k.spjit", *layout)
    assert made.returncode == 0, made.stderr
    bundle = spjit.Bundle(tmp_path / "k.spjit")
    kernel = bundle[bundle.layers[0]]
    x = floats(*shape).astype(numpy_type)
    bias = values["b"].astype(np.float32)
    activation = "none" if kind == "Gemm" else "relu"
    assert kernel.info["epilogue"]["activation"] == activation
    out = np.empty((*shape[:-1], 32) if kind != "Conv" else (2, 16, 9, 9), numpy_type)
    kernel(x, bias=bias, out=out)
    _assert_rounded(out, _exact(kind, x, values), unit)


def test_layers_in_onnx_runtime_are_fp32_behind_casts():
    """So spjit.onnx takes none of fp16 itself, whose inputs its operators would not take."""
    graph = helper.make_graph(
        [node("MatMul", "x w", "y")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [7, 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(W.astype(HALF), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    assert survey(model).others[0].reason == "its weights are float16; expected float32"
    assert survey(model, takes_halves=True).layers[0].types == ("f16", "f16", "f16")


def test_the_command_line_keeps_fp32_layers_with_narrow_weights_fp32(tmp_path):
    nodes = [node("Cast", "w", "wide", to=TensorProto.FLOAT), node("MatMul", "x wide", "y")]
    path = write(tmp_path / "cast.onnx", nodes, {"w": W.astype(HALF)}, [7, 48])
    x = floats(7, 48)

    seen = _command(tmp_path, "inspect", "--json", path)
    layer, = (one for one in _dicts(json.loads(seen.stdout)) if one.get("file"))
    assert layer["problem"].get("numerics", {"a": "f32"})["a"] == "f32"

    made = _command(tmp_path, "compile", path, "-o", tmp_path / "k.spjit", "--layout", "tokens",
                    "--n", "any:7", "--types", "f16,f32,f32", "--network-nnz", np.count_nonzero(W))
    assert made.returncode == 0, made.stderr
    fast = spjit.onnx.optimize(path, x)
    assert fast.report.rows[0].types == "f16,f32,f32"
    fast.save(tmp_path / "fast.onnx")
    keys = [spjit.Bundle(tmp_path / name).entries[0]["key"] for name in ("k.spjit", "fast.spjit")]
    assert keys[0] == keys[1]  # so it could have been one of `cache_layers`
