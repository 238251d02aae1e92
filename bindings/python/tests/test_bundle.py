"""Bundles: written, read, signed, damaged, shared by processes."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest
from conftest import assert_close, expected, floats

import spjit


@pytest.fixture
def kernel(weights):
    return spjit.compile(weights, bias=True, activation="relu")


@pytest.fixture
def path(tmp_path, kernel, weights):
    with spjit.BundleWriter(tmp_path / "model.spjit") as bundle:
        bundle.add("fc1", kernel)
        bundle.add("fc2", spjit.compile(weights.T.tocsr(), 16, layout="features"))
    return tmp_path / "model.spjit"


def test_layers_come_back_as_they_were(path, kernel, rng):
    x, bias = floats(rng, 7, 40), floats(rng, 48)

    bundle = spjit.Bundle(path)
    loaded = bundle["fc1"]

    assert list(bundle) == bundle.layers == ["fc1", "fc2"]
    assert "fc2" in bundle and "fc3" not in bundle
    assert len(bundle) == 2
    assert np.array_equal(loaded(x, bias=bias), kernel(x, bias=bias))
    assert loaded.info["key"] == kernel.info["key"]
    assert bundle["fc2"].layout == "features"
    bundle.verify()


def test_entries_say_what_is_there(path, weights):
    first, second = spjit.Bundle(path).entries

    assert (first["layer"], first["rows"], first["cols"]) == ("fc1", 48, 40)
    assert first["nnz"] == weights.nnz
    assert first["runtime_n"] and not second["runtime_n"]
    assert first["target"].startswith("host-")
    assert len(first["weights"]) == 32 and first["weights"] != second["weights"]
    assert first["problem"]["epilogue"]["activation"] == "relu"


def test_what_is_not_there_is_none_or_a_key_error(path):
    bundle = spjit.Bundle(path)

    assert bundle.load("fc3") is None
    with pytest.raises(KeyError):
        bundle["fc3"]
    with pytest.raises(spjit.InvalidArgument, match="expected 0 to 1"):
        bundle.load(2)
    with pytest.raises(spjit.InvalidArgument):
        bundle.load(-1)


def test_kernels_are_found_by_weights_and_problem(path, weights, rng):
    bundle = spjit.Bundle(path)
    x, bias = floats(rng, 3, 40), floats(rng, 48)

    found = bundle.find(weights, typical_n=9, bias=True, activation="relu", threads=2)

    assert found is not None
    assert_close(found(x, bias=bias),
                 expected(weights, x, bias=bias, act=lambda y: np.maximum(y, 0)))
    assert bundle.find(weights, bias=True) is None
    assert bundle.find(weights * 2, bias=True, activation="relu") is None
    assert bundle.find(weights.toarray(), bias=True, activation="relu") is not None


def test_other_targets_are_named(path):
    with pytest.raises(spjit.NotSupported, match="'fc1' is there for host-.*asked for was sm_90"):
        spjit.Bundle(path).load("fc1", target="sm_90")


def test_a_writer_that_fails_leaves_nothing(tmp_path, kernel):
    path = tmp_path / "model.spjit"

    with pytest.raises(ZeroDivisionError):
        with spjit.BundleWriter(path) as bundle:
            bundle.add("fc1", kernel)
            1 / 0

    assert not path.exists()
    with pytest.raises(spjit.InvalidArgument):
        bundle.add("fc1", kernel)


def test_bundles_are_merged(tmp_path, path, kernel):
    both = tmp_path / "both.spjit"

    with spjit.BundleWriter(both) as writer:
        writer.add_bundle(spjit.Bundle(path))
        writer.add("fc3", kernel)
        with pytest.raises(spjit.InvalidArgument, match="fc3"):
            writer.add("fc3", kernel)

    assert spjit.Bundle(both).layers == ["fc1", "fc2", "fc3"]


def test_damage_is_found(tmp_path, path):
    good = path.read_bytes()
    for place in (4096 + 64, len(good) - 1000, len(good) - 10):
        bad = tmp_path / "bad.spjit"
        bad.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1:])
        with pytest.raises(spjit.IoError, match="bad.spjit: "):
            spjit.Bundle(bad).verify()
    bad.write_bytes(good[:-1])
    with pytest.raises(spjit.IoError):
        spjit.Bundle(bad)


def test_others_must_not_write_to_it(path):
    path.chmod(0o666)

    with pytest.raises(spjit.IoError, match="everybody can write"):
        spjit.Bundle(path)

    assert spjit.Bundle(path, any_owner=True).load("fc1") is not None


def _keys(folder, name):
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    try:
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private],
                       check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl")
    return private, public


def test_signed_bundles(tmp_path, path, kernel):
    private, public = _keys(tmp_path, "ours")
    _, other = _keys(tmp_path, "theirs")
    signed = tmp_path / "signed.spjit"
    with spjit.BundleWriter(signed, private_key=private) as bundle:
        bundle.add("fc1", kernel)

    assert spjit.Bundle(signed, public_key=public)["fc1"].info["rows"] == 48
    assert spjit.Bundle(signed, public_key=public.read_text()).layers == ["fc1"]
    assert spjit.Bundle(signed).layers == ["fc1"]
    with pytest.raises(spjit.IoError, match="another key"):
        spjit.Bundle(signed, public_key=other)
    with pytest.raises(spjit.IoError, match="not signed"):
        spjit.Bundle(path, public_key=public)
    with pytest.raises(spjit.InvalidArgument, match="no public key"):
        spjit.Bundle(signed, public_key=private)


def test_kernels_of_a_bundle_run_after_a_fork(path, rng):
    bundle = spjit.Bundle(path)
    kernel = bundle["fc1"]
    x, bias = floats(rng, 7, 40), floats(rng, 48)
    reference = kernel(x, bias=bias)

    child = os.fork()
    if child == 0:
        try:
            same = np.array_equal(kernel(x, bias=bias), reference)
            again = np.array_equal(bundle["fc1"](x, bias=bias), reference)
            os._exit(0 if same and again else 1)
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
