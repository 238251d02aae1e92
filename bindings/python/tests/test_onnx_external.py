"""Weights in files beside a model, which may be links."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx_testing import check, floats, kernels_are_faster, node, sparse, write  # noqa: F401
from spjit._onnx_external import DataFiles
from spjit.onnx import _optimize

W = sparse(32, 48)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "net").mkdir()
    path = write(tmp_path / "net" / "model.onnx", [node("MatMul", "x w", "y")], {"w": W},
                 ["batch", 32])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights",
              size_threshold=0)
    return path


def link_within(model):
    (model.parent / "weights").rename(model.parent / "others")
    (model.parent / "weights").symlink_to("others")
    return model


def link_twice(model):
    """As a cache of downloaded models: all files are links into one folder."""
    blobs, names = model.parent.parent / "blobs", model.parent
    blobs.mkdir()
    for number, name in enumerate(("model.onnx", "weights")):
        (names / name).rename(blobs / str(number))
        (names / name).symlink_to(f"../blobs/{number}")
    return model


def link_hard(model):
    os.link(model.parent / "weights", model.parent.parent / "again")
    return model


def link_of_folder(model):
    (model.parent.parent / "link").symlink_to("net")
    return model.parent.parent / "link" / "model.onnx"


LINKS = [link_within, link_twice, link_hard, link_of_folder]


def inspect(path):
    return subprocess.run([sys.executable, "-m", "spjit", "inspect", str(path)], text=True,
                          capture_output=True, timeout=300, check=False)


@pytest.mark.parametrize("link", LINKS)
def test_links_to_weights_are_followed(model, link):
    path = link(model)

    check(path, floats(3, 32), 1)
    result = inspect(path)

    assert result.returncode == 0, result.stderr
    assert "y.weight" in result.stdout


def test_the_original_is_read_through_links_where_it_stays(model, monkeypatch):
    monkeypatch.setattr(_optimize, "model_times", lambda sessions, *_: [1.0, 2.0])
    check(link_twice(model), floats(3, 32), 0)


def test_files_outside_are_refused(model):
    (model.parent / "weights").rename(model.parent.parent / "weights")
    (model.parent / "weights").symlink_to("../weights")

    result = inspect(model)

    assert result.returncode == 3
    line, = result.stderr.splitlines()
    assert "the data of the constant 'w' are in 'weights', which leads to " in line
    assert line.endswith("expected a file in the model's folder")


@pytest.mark.parametrize(("key", "value", "message"), [
    ("location", "", "are in ''; expected the path of a file from the model's folder"),
    ("location", "/etc/passwd", "are in '/etc/passwd'; expected the path of a file from"),
    ("location", "../none", "expected a file in the model's folder"),
    ("location", "none", "none does not exist"),
    ("location", ".", "is no regular file"),
    ("offset", "-1", "the offset of the constant 'w' is '-1'; expected a number of bytes"),
    ("offset", "9" * 30, "expected a number of bytes"),
    ("offset", "7000", "are bytes 7000 to 13144 of "),
    ("length", "x", "the length of the constant 'w' is 'x'; expected a number of bytes"),
    ("length", "6145", "weights, which has 6144")])
def test_what_is_not_there_has_one_clear_error(model, key, value, message):
    tensor = onnx.load(model, load_external_data=False).graph.initializer[0]
    entries = {one.key: one.value for one in tensor.external_data}
    del tensor.external_data[:]
    for name, given in {**entries, key: value}.items():
        tensor.external_data.add(key=name, value=given)
    with pytest.raises(ValueError) as caught:
        DataFiles(str(model)).load(tensor)
    assert message in str(caught.value)


def test_tensors_of_functions_and_of_graphs_within_are_read(model):
    """Which onnx.load() leaves out in some versions."""
    outside = onnx.load(model, load_external_data=False).graph.initializer[0]
    constant = onnx.helper.make_node("Constant", [], ["c"], value=outside)
    body = onnx.helper.make_graph([constant], "g", [], [onnx.helper.make_empty_tensor_value_info(
        "c")])
    inner = onnx.helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body)
    function = onnx.helper.make_function("own", "F", ["yes"], ["y"], [constant, inner],
                                         [onnx.helper.make_opsetid("", 17)])
    whole = onnx.helper.make_model(onnx.helper.make_graph([inner], "g", [], []),
                                   functions=[function])

    DataFiles(str(model)).load_all(whole)

    assert whole.SerializeToString().count(W.tobytes()) == 5
