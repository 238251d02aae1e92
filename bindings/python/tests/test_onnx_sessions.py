"""Sessions of saved models, and what they refuse."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit
import spjit.onnx
from onnx import helper, numpy_helper
from onnx_testing import feed_forward, floats, kernels_are_faster, sparse  # noqa: F401
from spjit.onnx import _sessions


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
