"""From a matrix to a kernel."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from conftest import assert_close, expected, floats

import spjit


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil"])
def test_takes_every_format_of_scipy(weights, rng, form):
    x = floats(rng, 5, 40)

    kernel = spjit.compile(weights.asformat(form))

    assert_close(kernel(x), expected(weights, x))


def test_takes_sparse_arrays_dense_arrays_and_files(weights, rng, tmp_path):
    x = floats(rng, 5, 40)
    reference = spjit.compile(weights)(x)
    np.save(tmp_path / "a.npy", weights.toarray())
    scipy.sparse.save_npz(tmp_path / "a.npz", weights)

    for source in (scipy.sparse.csr_array(weights), weights.toarray(),
                   np.asfortranarray(weights.toarray()), tmp_path / "a.npy",
                   str(tmp_path / "a.npz")):
        np.testing.assert_array_equal(spjit.compile(source)(x), reference)


def test_rounds_other_real_types(weights, rng):
    x = floats(rng, 3, 40)
    reference = spjit.compile(weights)(x)

    np.testing.assert_array_equal(spjit.compile(weights.astype(np.float64))(x), reference)
    ones = (weights != 0).astype(np.int32)
    assert_close(spjit.compile(ones)(x), expected(ones, x))


def test_sums_entries_that_repeat_and_leaves_the_matrix_alone(rng):
    a = scipy.sparse.csr_matrix((np.ones(4, np.float32), [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    x = floats(rng, 4, 3)

    kernel = spjit.compile(a)

    assert kernel.info["nnz"] == 3
    assert a.nnz == 4
    assert_close(kernel(x), expected(a, x))


def test_tells_what_it_is(weights):
    kernel = spjit.compile(weights, 8, layout="features", activation="relu", threads=2)

    assert (kernel.in_features, kernel.out_features, kernel.n) == (40, 48, 8)
    assert kernel.layout == "features"
    assert kernel.info["threads"] == 2
    assert kernel.info["epilogue"]["activation"] == "relu"
    kernel.info["rows"] = 0
    assert kernel.info["rows"] == 48
    assert repr(kernel).endswith("[48, 40] n=8 layout=features>")
    assert spjit.__version__ == "0.1.0"


def test_another_cpu_can_be_named_and_sources_are_of_gpus_alone(weights, tmp_path):
    named = spjit.compile(weights, 16, target="host-generic:zen3", keep_source=True,
                          cache=tmp_path / "c")
    plain = spjit.compile(weights, 16, target="host-generic:zen3", cache=tmp_path / "c")

    assert named.info["target"] == "host-generic:zen3"
    assert plain.info["from_cache"]
    assert plain.info["key"] == named.info["key"]
    with pytest.raises(spjit.InvalidArgument, match="zen4"):
        spjit.Compiler(target="host-avx512:zen3")


def test_options_reach_the_compiler(weights, tmp_path):
    kernel = spjit.compile(weights, 16, family="csr", verify="full", cache=tmp_path / "c")

    assert kernel.info["family"] == "csr"
    assert kernel.info["verification"]["passed"]
    assert not kernel.info["from_cache"]
    assert spjit.compile(weights, 16, family="csr", cache=tmp_path / "c").info["from_cache"]
    assert not spjit.compile(weights, 16, family="csr", cache=False).info["from_cache"]
    hot = spjit.Compiler(hot=True, threads=0, search="instant", search_budget=1, network_nnz=100)
    assert hot.compile(weights, 16).info["rows"] == 48


@pytest.mark.parametrize(("options", "message"), [
    ({"layout": "rows"}, "layout is 'rows'; expected one of 'features', 'tokens'"),
    ({"activation": "swish"}, "activation is 'swish'"),
    ({"activation": "relu", "clamp": (0, 1)}, "clamp and activation='relu'"),
    ({"clamp": (1, 0)}, "clamp"),
    ({"target": "pdp-11"}, "pdp-11"),
    ({"threads": -3}, "threads is -3"),
    ({"threads": -1}, "threads is -1"),
    ({"threads": 1 << 20}, "threads is 1048576; expected 0 (all CPUs) to 4096"),
    ({"threads": "2"}, "threads is '2'; expected a whole number"),
    ({"threads": 1.5}, "threads is 1.5; expected a whole number"),
    ({"search": "slow"}, "slow"),
    ({"family": "none"}, "none"),
    ({"timeout": -1}, "timeout_ms is -1000"),
    ({"n": -1}, "n is -1"),
])
def test_refuses_wrong_options(weights, options, message):
    with pytest.raises(spjit.InvalidArgument) as error:
        spjit.compile(weights, **options)

    assert message in str(error.value)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(("matrix", "message"), [
    (np.zeros(3, np.float32), "an array of 1 dimensions"),
    ([[1.0]], "matrix is list; expected a scipy.sparse matrix"),
    (np.zeros((2, 2), np.complex64), "complex64; expected real numbers"),
    (None, "matrix is NoneType"),
])
def test_refuses_what_is_no_matrix(matrix, message):
    with pytest.raises(TypeError) as error:
        spjit.compile(matrix)

    assert message in str(error.value)


def test_errors_have_their_types(weights, tmp_path):
    with pytest.raises(spjit.IoError) as missing:
        spjit.compile(tmp_path / "none.npz")
    assert isinstance(missing.value, OSError)
    with pytest.raises(spjit.DeadlineExceeded):
        spjit.compile(weights, timeout=1e-9, cache=False)
    with pytest.raises(spjit.CacheError):
        spjit.compile(weights, cache="/dev/null/cache")
    broken = weights.copy()
    broken.indices[0] = 40
    with pytest.raises(spjit.InvalidMatrix):
        spjit.compile(broken)
    assert issubclass(spjit.OutOfMemory, MemoryError)
    assert all(issubclass(getattr(spjit, name), spjit.SpjitError) for name in spjit.__all__
               if isinstance(getattr(spjit, name), type)
               and issubclass(getattr(spjit, name), Exception))


def test_is_saved_and_loaded(weights, rng, tmp_path):
    kernel = spjit.compile(weights, bias=True, activation="silu")
    x, bias = floats(rng, 5, 40), floats(rng, 48)
    kernel.save(tmp_path / "fc1")

    loaded = spjit.load(tmp_path / "fc1", threads=2)

    np.testing.assert_array_equal(loaded(x, bias=bias), kernel(x, bias=bias))
    with pytest.raises(spjit.IoError):
        spjit.load(tmp_path / "none")
    (tmp_path / "fc1" / "kernel.o").unlink()
    with pytest.raises(spjit.CacheError):
        spjit.load(tmp_path / "fc1")
