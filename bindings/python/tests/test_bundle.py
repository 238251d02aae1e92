"""Bundles: written, read, signed, damaged, shared by processes."""

from __future__ import annotations

import os
from dataclasses import replace

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
    for wrong in (2**64, 0.0, None):
        with pytest.raises(spjit.InvalidArgument, match="a name or the place of an entry"):
            bundle.load(wrong)


def test_names_that_c_would_cut_short_are_refused(tmp_path, path, kernel):
    with pytest.raises(spjit.InvalidArgument, match="without NUL"):
        spjit.Bundle(path).load("fc1\0x")
    with spjit.BundleWriter(tmp_path / "b.spjit") as bundle:
        for wrong in ("a\0b", "\ud800"):
            with pytest.raises(spjit.InvalidArgument, match="expected a text"):
                bundle.add(wrong, kernel)


@pytest.mark.parametrize("empty", ["", b""])
def test_an_empty_key_is_none(tmp_path, path, empty):
    """As a variable that is not set: who asks for a check gets one."""
    with pytest.raises(spjit.InvalidArgument, match="public_key is b?''; expected PEM text"):
        spjit.Bundle(path, public_key=empty)
    with pytest.raises(spjit.InvalidArgument, match="private_key is b?''; expected PEM text"):
        spjit.BundleWriter(tmp_path / "b.spjit", private_key=empty)


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


CONVOLUTIONS = [
    spjit.Conv2d(4, 9, 11, kernel=3, stride=(2, 1), padding=1),
    spjit.Conv2d(4, 9, 11, kernel=3, padding=(1, 0, 2, 0), groups=2),
    spjit.Conv2d(4, 9, 11),  # a product
    spjit.Conv2d(4, 9, 11, kernel=3, any_size=True),
]


@pytest.mark.parametrize("of", CONVOLUTIONS, ids=["stride", "groups", "one-tap", "any-size"])
@pytest.mark.parametrize("layout", ["tokens", "features"])
def test_convolutions_are_found_by_weights_and_problem(tmp_path, rng, of, layout):
    w = floats(rng, *of.weight_shape(6)) * (rng.random(of.weight_shape(6)) < 0.4)
    made = spjit.compile(w, convolution=of, bias=True, layout=layout)
    with spjit.BundleWriter(tmp_path / "model.spjit") as writer:
        writer.add("conv", made)
    bundle = spjit.Bundle(tmp_path / "model.spjit")

    found = bundle.find(w, convolution=of, bias=True, layout=layout)

    assert isinstance(found, spjit.Conv2dKernel)
    assert found.convolution == of
    shape = (2, 9, 11, 4) if layout == "tokens" else (2, 4, 9, 11)
    x, bias = floats(rng, *shape), floats(rng, 6)
    assert np.array_equal(found(x, bias=bias), made(x, bias=bias))
    assert bundle.find(w, convolution=of, layout=layout) is None
    assert bundle.find(2 * w, convolution=of, bias=True, layout=layout) is None


def test_a_convolution_of_other_sizes_is_another_one(tmp_path, rng):
    of = CONVOLUTIONS[0]
    w = floats(rng, *of.weight_shape(6))
    with spjit.BundleWriter(tmp_path / "model.spjit") as writer:
        writer.add("conv", spjit.compile(w, convolution=of))
        writer.add("any", spjit.compile(w, convolution=replace(of, any_size=True)))
    bundle = spjit.Bundle(tmp_path / "model.spjit")

    assert bundle.find(w, convolution=replace(of, height=10)) is None
    assert bundle.find(w, convolution=replace(of, stride=1)) is None
    found = bundle.find(w, convolution=replace(of, height=10, any_size=True))
    assert found is not None and found.info["n"] is not None
    with pytest.raises(spjit.InvalidArgument, match="expected weights"):
        bundle.find(w, convolution=replace(of, channels=5))


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


def test_a_layer_has_one_set_of_weights(tmp_path, weights, kernel):
    with spjit.BundleWriter(tmp_path / "two.spjit") as bundle:
        bundle.add("fc1", kernel)
        for other in (spjit.compile(2 * weights), spjit.compile(weights, activation="tanh")):
            with pytest.raises(spjit.InvalidArgument, match="'fc1' is in the bundle with"):
                bundle.add("fc1", other)
        bundle.add("fc2", spjit.compile(2 * weights))
        for layer, wrong, message in [("fc3", weights, "kernel is csr_.*; expected a Kernel"),
                                      (None, kernel, "layer is None; expected a text")]:
            with pytest.raises(spjit.InvalidArgument, match=message):
                bundle.add(layer, wrong)

    assert spjit.Bundle(tmp_path / "two.spjit").layers == ["fc1", "fc2"]


def test_empty_paths_are_no_default(weights):
    for call in (lambda: spjit.compile(weights, cache=""), lambda: spjit.BundleWriter(""),
                 lambda: spjit.Bundle(""), lambda: spjit.load(""), lambda: spjit.compile("")):
        with pytest.raises(spjit.InvalidArgument, match="is empty; expected a path"):
            call()


def test_a_bundle_is_a_layer_of_a_cache(tmp_path, path, weights, kernel):
    compiler = spjit.Compiler(cache=tmp_path / "cache", cache_layers=[path])

    hit = compiler.compile(weights, bias=True, activation="relu")

    assert hit.info["cache_directory"] == str(path)
    assert hit.info["key"] == kernel.info["key"]
    with pytest.raises(spjit.CacheError, match="nowhere"):
        spjit.compile(weights, cache_layers=[tmp_path / "nowhere"])


def test_a_bundle_serves_without_a_cache(path, weights, tmp_path):
    """As a program that writes nothing would use it."""
    def made(**options):
        return spjit.compile(weights, bias=True, activation="relu", cache=False, **options)

    hit = made(cache_layers=[path])

    assert hit.info["from_cache"]
    assert hit.info["cache_directory"] == str(path)
    assert not made().info["from_cache"]
    with pytest.raises(spjit.CacheError, match="nowhere"):
        made(cache_layers=[tmp_path / "nowhere"])


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


def test_signed_bundles(tmp_path, path, kernel, signing_keys):
    private, public = signing_keys("ours")
    _, other = signing_keys("theirs")
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
