"""Files of optimized models: written whole or not at all, also of large ones."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit
import spjit.onnx
from google.protobuf.message import EncodeError
from onnx import numpy_helper
from onnx_testing import (  # noqa: F401
    check,
    feed_forward,
    floats,
    kernels_are_faster,
    node,
    sparse,
    write,
)
from spjit.onnx import _graph


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

    fast = check(path, x, 1, exact_passes=False)
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
