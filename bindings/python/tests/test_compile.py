"""From a matrix to a kernel."""

from __future__ import annotations

import dataclasses
import inspect
import re

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


def csr_of(data, dtype):
    """A [1, 2] whose only entry is there once for each of the data."""
    zeros = np.zeros(len(data), np.int32)
    return scipy.sparse.csr_matrix((np.array(data, dtype), zeros, [0, len(data)]), shape=(1, 2))


@pytest.mark.parametrize("source", [
    np.array([[1e300, 0], [0, 1]]), np.array([[0, 1], [-3.5e38, 0]]),
    np.array([[np.longdouble("1e4000"), 1]]), csr_of([1e300], np.float64),
    csr_of([3e38, 3e38], np.float32), csr_of([3e38, 3e38], np.float32).tocoo(),
    csr_of([3e38, 3e38], np.float32).tocsc(), csr_of([1e308, 1e308], np.float64),
    csr_of([1e308, 1e308], np.float64).tocoo()], ids=str)
def test_finite_numbers_beyond_fp32_are_refused_as_in_files(source, tmp_path):
    with pytest.raises(spjit.InvalidMatrix) as wrong:
        spjit.compile(source)

    assert re.search(r"element \d is \S*e\+\d+, which does not fit fp32: expected at most "
                     r"3\.4028235e38", str(wrong.value))
    if isinstance(source, np.ndarray) and source.dtype == np.float64:
        np.save(tmp_path / "a.npy", source)
        with pytest.raises(spjit.IoError) as of_file:
            spjit.compile(tmp_path / "a.npy")
        assert str(of_file.value).endswith(str(wrong.value).removeprefix("matrix: "))


@pytest.mark.parametrize(("dtype", "number"), [
    (np.int8, 100), (np.int32, 2**31 - 1), (np.int64, 2**62 + 1), (np.uint64, 2**63 + 5)])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sums_of_entries_that_repeat_do_not_wrap_around(dtype, number, form):
    a = csr_of([number, number], dtype).asformat(form)

    y = spjit.compile(a)(np.array([[1, 0]], np.float32))

    assert y.item() == np.float32(2 * number)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_infinities_and_the_largest_numbers_are_taken_as_in_files(dtype, tmp_path):
    a = np.array([[np.nan, 0, 1], [np.inf, 2, 0], [3.4028235e38, 0, 1e-300]], dtype)
    np.save(tmp_path / "a.npy", a)
    x = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    reference = spjit.compile(tmp_path / "a.npy")(x)

    for source in (a, scipy.sparse.csr_matrix(a), scipy.sparse.coo_matrix(a)):
        np.testing.assert_array_equal(spjit.compile(source)(x), reference)
    assert np.isnan(reference[0, 0])
    assert np.isinf(reference[0, 1])


def test_masked_elements_are_refused_and_plain_masked_arrays_taken(weights, rng):
    x, a = floats(rng, 3, 40), weights.toarray()
    kernel = spjit.compile(np.ma.array(a))
    masked = np.ma.masked_less(x, 0)

    np.testing.assert_array_equal(kernel(np.ma.array(x)), kernel(x))
    with pytest.raises(spjit.InvalidMatrix, match=r"masked elements; .* matrix.filled\(0\)"):
        spjit.compile(np.ma.masked_less(a, 0))
    for operands in ({"x": masked}, {"x": x, "out": np.ma.masked_all((3, 48), np.float32)}):
        with pytest.raises(spjit.InvalidArgument, match="has masked elements"):
            kernel(**operands)


@pytest.mark.parametrize("dtype", [np.uint32, np.int16, np.uint8, np.uint64, ">i4"])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_takes_indices_of_every_integer_type(weights, rng, dtype, form):
    x, a = floats(rng, 3, 40), weights.asformat(form, copy=True)
    a.indices, a.indptr = a.indices.astype(dtype), a.indptr.astype(np.uint32)

    assert_close(spjit.compile(a)(x), expected(weights, x))


def test_refuses_indices_that_are_none(weights):
    for of, message in ((weights.indices.astype(np.float32), "indices is float32; expected int"),
                        (np.full(weights.nnz, 2**63, np.uint64), "indices has 9223372036854775808"),
                        (np.full(weights.nnz, 2**32 - 1, np.uint32), "column 4294967295")):
        a = weights.copy()
        a.indices = of
        a.has_canonical_format = True
        with pytest.raises((TypeError, spjit.InvalidMatrix), match=message):
            spjit.compile(a)


def _damaged_pointers(a):
    a.indptr[3], a.indptr[4] = 10**6, 2


def _damaged_start(a):
    a.indptr[0] = 1


def _damaged_length(a):
    a.indptr = a.indptr[:-1]


def _damaged_indices(a):
    a.indices[0] = 10**6


@pytest.mark.parametrize(("damage", "message"), [
    (_damaged_pointers, "indptr goes from 0 to .*, 1 times downwards; expected 0"),
    (_damaged_start, "indptr goes from 1"), (_damaged_length, "elements; expected"),
    (_damaged_indices, "has (column )?1000000"),
], ids=["pointers", "start", "length", "indices"])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_arrays_that_are_no_matrix_are_refused(weights, form, damage, message):
    """scipy, asked for another format or for duplicates, would write where they point."""
    a = weights.asformat(form, copy=True)
    a = type(a)((a.data.copy(), a.indices.copy(), a.indptr.copy()), shape=a.shape)
    damage(a)

    with pytest.raises(spjit.InvalidMatrix, match=message):
        spjit.compile(a)


def test_room_behind_the_entries_is_left_alone(weights, rng):
    """As scipy leaves it: what is behind indptr[-1] is no entry until prune()."""
    a = weights.tocsr(copy=True)
    a.data = np.append(a.data, np.float32([7, np.inf]))
    a.indices = np.append(a.indices, np.int32([0, 10**6]))
    x = rng.standard_normal((3, a.shape[1]), "float32")

    np.testing.assert_array_equal(spjit.compile(a)(x), spjit.compile(weights)(x))
    kernel = spjit.compile(weights, runtime_values=True)
    np.testing.assert_array_equal(kernel(x, values=kernel.prepare_values(a)),
                                  kernel(x, values=kernel.prepare_values(weights)))
    assert len(a.data) == weights.nnz + 2


def test_coordinates_beyond_the_matrix_are_refused(weights):
    for name, size in zip(("row", "col"), weights.shape):
        a = weights.tocoo(copy=True)
        getattr(a, name)[0] = size

        with pytest.raises(spjit.InvalidMatrix, match=f"{name} has {size}; expected 0 to"):
            spjit.compile(a)


@pytest.mark.parametrize(("options", "message"), [
    ({"n": 1.5}, "n is 1.5; expected a whole number"),
    ({"typical_n": "8"}, "typical_n is '8'; expected a whole number"),
    *(({name: value}, f"{name} is {value}; expected a whole number")
      for name in ("n", "typical_n", "network_nnz", "threads") for value in (True, False)),
    ({"timeout": True}, "timeout is True; expected seconds"),
    *(({name: 2**64 + 8}, rf"{name} is {2**64 + 8}; expected a whole number below 2\^63")
      for name in ("n", "typical_n", "network_nnz")),
    *(({name: "x\0y"}, rf"{name} is 'x\\x00y'; expected a text without NUL")
      for name in ("target", "search", "family", "verify")),
    ({"target": "\ud800"}, "expected a text that UTF-8 has"),
    ({"cache": "/tmp\0x"}, "expected one without NUL"),
    ({"cache_layers": ["/tmp\0x"]}, "expected one without NUL"),
    ({"clamp": 6}, r"clamp is 6; expected \(low, high\)"),
    ({"clamp": (0, "six")}, r"clamp is \(0, 'six'\); expected"),
    ({"activation": ["relu"]}, r"activation is \['relu'\]; expected one of"),
    ({"cache_layers": "/tmp"}, "cache_layers is '/tmp'; expected a list of paths"),
    ({"cache_layers": 3}, "cache_layers is 3; expected a list of paths"),
    ({"cache_remote": True}, "cache_remote is True; expected a URL, a path, False or None"),
    ({"cache_remote": 3}, "cache_remote is 3; expected a path"),
    ({"cache_remote": "ftp://host"}, "expected https://HOST/PATH"),
    ({"cache_remote": "https://me:word@host"}, "holds a user or a password"),
    *(({name: 3}, f"{name} is 3; expected a text or None")
      for name in ("target", "search", "family", "verify")),
    *(({name: "x"}, f"{name} is 'x'; expected seconds") for name in ("search_budget", "timeout")),
    *(({name: value}, f"{name} is {shown}; expected True or False")
      for name in ("hot", "keep_source", "bias", "scale", "residual", "runtime_values")
      for value, shown in (("x", "'x'"), (-1, "-1"), (None, "None"),
                           (np.zeros(48), r"an array \[48\]"))),
    ({"bias": np.zeros(48)}, "True or False: each call brings its numbers"),
    ({"network_nnz": "many"}, "network_nnz is 'many'; expected a whole number"),
    ({"activation": "leaky-relu", "alpha": "x"}, "alpha is 'x'; expected a number"),
    ({"activation": "hard-sigmoid", "beta": [1]}, r"beta is \[1\]; expected a number"),
    ({"convolution": (3, 3)}, r"convolution is \(3, 3\); expected an spjit.Conv2d"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")
def test_parameters_of_another_type_are_named(weights, options, message):
    with pytest.raises(spjit.InvalidArgument, match=message):
        spjit.compile(weights, **options)


_PROBLEM = {"n": 8, "bias": True, "activation": "leaky-relu", "alpha": 0.2, "layout": "features"}
_OPTIONS = {"threads": 2, "search": "instant", "family": "csr", "cache": False}


def test_problem_and_options_are_what_their_fields_are_in_short(weights):
    problem, options = spjit.Problem(**_PROBLEM), spjit.Options(**_OPTIONS)
    compiler = spjit.Compiler(options)

    kernels = [spjit.compile(weights, **_PROBLEM, **_OPTIONS),
               spjit.compile(weights, problem, options),
               spjit.compile(weights, problem=problem, options=options),
               spjit.compile(weights, problem, **_OPTIONS),
               compiler.compile(weights, problem), compiler.compile(weights, **_PROBLEM)]

    known = [{name: kernel.info[name] for name in (
        "key", "n", "b_layout", "epilogue", "threads", "family", "from_cache")}
        for kernel in kernels]
    assert known[0]["epilogue"]["alpha"] == pytest.approx(0.2)
    assert (known[0]["threads"], known[0]["family"]) == (2, "csr")
    assert all(each == known[0] for each in known)


def test_help_lists_each_field_once():
    problem, options = (tuple(field.name for field in dataclasses.fields(kind))
                        for kind in (spjit.Problem, spjit.Options))

    for function, fields in ((spjit.compile, problem + options), (spjit.Compiler, options),
                             (spjit.Compiler.compile, problem), (spjit.Bundle.find, problem)):
        parameters = inspect.signature(function).parameters
        assert tuple(name for name in parameters if name in fields) == fields
        assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    assert all(f"{name}:" in kind.__doc__ or f"{name}, " in kind.__doc__
               for kind, names in ((spjit.Problem, problem), (spjit.Options, options))
               for name in names)


def test_problem_and_options_do_not_change():
    problem = spjit.Problem(bias=True)

    assert dataclasses.replace(problem, n=3) == spjit.Problem(3, bias=True)
    assert hash(problem) == hash(spjit.Problem(bias=True))
    assert len({spjit.Options(), spjit.Options(threads=1), spjit.Options(threads=2)}) == 2
    for frozen in (problem, spjit.Options()):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.threads = 2


@pytest.mark.parametrize(("make", "kind", "message"), [
    (lambda: spjit.Problem(n="8"), spjit.InvalidArgument, "n is '8'; expected a whole number"),
    (lambda: spjit.Options(threads=-1), spjit.InvalidArgument, "threads is -1; expected 0"),
    (lambda: spjit.compile([], spjit.Problem(), bias=True), spjit.InvalidArgument,
     "an spjit.Problem and bias=True are given; expected all in the Problem"),
    (lambda: spjit.compile([], options=spjit.Options(), threads=2), spjit.InvalidArgument,
     "an spjit.Options and threads=2 are given; expected all in the Options"),
    (lambda: spjit.Compiler(2), spjit.InvalidArgument, "options is 2; expected an spjit.Options"),
    (lambda: spjit.compile([], spjit.Options()), spjit.InvalidArgument, "n is Options"),
    (lambda: spjit.compile([], 8, n=8), TypeError, "multiple values for argument 'n'"),
    (lambda: spjit.compile([], thread=2), TypeError, "unexpected keyword argument 'thread'"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_refuses_what_is_no_problem_and_no_options(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


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
    ({"alpha": 0.1}, "alpha=0.1 and activation=None"),
    ({"activation": "tanh", "beta": 1}, "expected beta with 'hard-sigmoid' alone"),
    ({"activation": "leaky-relu", "beta": 1.0}, "expected beta with 'hard-sigmoid' alone"),
    ({"activation": "leaky-relu", "alpha": float("nan")}, "alpha of leaky-relu is nan"),
    ({"activation": "leaky-relu", "alpha": 1e300}, "alpha is 1e+300; expected a number that fp32"),
    ({"activation": "hard-sigmoid", "beta": -3.5e38}, "beta is -3.5e+38; expected a number that"),
    ({"activation": "leaky-relu", "alpha": float("-inf")}, "alpha of leaky-relu is -inf"),
    ({"target": "pdp-11"}, "pdp-11"),
    ({"threads": -3}, "threads is -3"),
    ({"threads": -1}, "threads is -1"),
    ({"threads": 1 << 20}, "threads is 1048576; expected 0 (all CPUs) to 4096"),
    ({"threads": "2"}, "threads is '2'; expected a whole number"),
    ({"threads": 1.5}, "threads is 1.5; expected a whole number"),
    ({"search": "slow"}, "slow"),
    ({"family": "none"}, "none"),
    ({"timeout": -1}, "timeout is -1; expected seconds, 0 or more"),
    ({"timeout": float("inf")}, "timeout is inf; expected a finite number of seconds"),
    ({"search_budget": float("nan")}, "search_budget is nan; expected seconds, 0 or more"),
    ({"timeout": 1e12}, "timeout_ms is"),
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


def test_a_path_with_nul_is_no_other_files(weights, tmp_path):
    """C would take what is before it: the path of another file."""
    path = tmp_path / "a"
    spjit.compile(weights, cache=False).save(path)
    other = f"{path}\0b"

    for refused in (lambda: spjit.load(other), lambda: spjit.compile(other),
                    lambda: spjit.compile(weights, cache=False).save(other),
                    lambda: spjit.Bundle(other), lambda: spjit.BundleWriter(other)):
        with pytest.raises(spjit.InvalidArgument, match="without NUL"):
            refused()


@pytest.mark.parametrize("name, takers", [
    ("m.safetensors", ["'spjit compile'", "safetensors.numpy.load_file() of Python"]),
    ("m.safetensors.index.json", ["'spjit compile'"]),
    ("m.onnx", ["'python -m spjit compile'", "spjit.onnx.optimize() of Python"]),
    ("m.pth", ["torch.load('m.pth'", "spjit.torch.optimize_() takes the model itself"]),
    ("pytorch_model.bin", ["torch.load('pytorch_model.bin'"]), ("m.gguf", ["gguf_file='m.gguf'"]),
    ("m.spjit", ["'spjit bundle ls'", "spjit.Bundle of Python"])])
def test_files_of_models_say_who_takes_them(name, takers):
    with pytest.raises(spjit.IoError) as wrong:
        spjit.compile(name, n=4)
    message = str(wrong.value)
    assert all(taker in message for taker in takers), message
    assert "list_weights" not in message and len(message.splitlines()) == 1
