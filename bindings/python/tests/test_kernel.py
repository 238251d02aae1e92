"""Calls of kernels: shapes, strides, operands."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from conftest import assert_close, expected, floats, gelu

import spjit


def test_computes_the_layer(weights, rng):
    kernel = spjit.compile(weights, activation="gelu", bias=True, scale=True, residual=True)
    x, residual = floats(rng, 21, 40), floats(rng, 21, 48)
    bias, scale = floats(rng, 48), floats(rng, 48)

    y = kernel(x, bias=bias, scale=scale, residual=residual)

    assert_close(y, expected(weights, x, bias=bias, scale=scale, residual=residual, act=gelu))


@pytest.mark.parametrize(("options", "act"), [
    ({"activation": "relu"}, lambda y: np.maximum(y, 0)),
    ({"activation": "silu"}, lambda y: y / (1 + np.exp(-y))),
    ({"activation": "hard-swish"}, lambda y: y * np.clip(y + 3, 0, 6) / 6),
    ({"activation": "leaky-relu"}, lambda y: np.where(y < 0, 0.01 * y, y)),
    ({"activation": "leaky-relu", "alpha": -0.5}, lambda y: np.where(y < 0, -0.5 * y, y)),
    ({"activation": "hard-sigmoid"}, lambda y: np.clip(y / 6 + 0.5, 0, 1)),
    ({"activation": "hard-sigmoid", "alpha": 0.2, "beta": 0.25},
     lambda y: np.clip(0.2 * y + 0.25, 0, 1)),
    ({"activation": "sigmoid"}, lambda y: 1 / (1 + np.exp(-y))),
    ({"activation": "tanh"}, np.tanh),
    ({"clamp": (-0.5, 0.75)}, lambda y: np.clip(y, -0.5, 0.75)),
    ({"clamp": (0, float("inf"))}, lambda y: np.maximum(y, 0)),
])
def test_computes_every_activation(weights, rng, options, act):
    x = floats(rng, 9, 40)

    assert_close(spjit.compile(weights, **options)(x), expected(weights, x, act=act))


@pytest.mark.parametrize("shape", [(40,), (1, 40), (7, 40), (2, 3, 40), (2, 1, 3, 40), (1, 1, 40)])
def test_takes_any_number_of_tokens_and_leading_dimensions(weights, rng, shape):
    x = floats(rng, *shape)

    assert_close(spjit.compile(weights)(x), expected(weights, x))


@pytest.mark.parametrize("shape", [(0, 40), (0, 3, 40), (2, 0, 40)])
def test_of_no_tokens_gives_no_tokens(weights, shape):
    y = spjit.compile(weights)(np.zeros(shape, np.float32))

    assert y.shape == (*shape[:-1], 48)


@pytest.mark.parametrize("layout", ["tokens", "features"])
def test_of_no_features_gives_the_bias(layout):
    kernel = spjit.compile(np.zeros((5, 0), np.float32), bias=True, layout=layout)
    bias = np.arange(5, dtype=np.float32)
    for shape in ((3, 0), (2, 3, 0)):
        x = np.zeros(shape, np.float32)
        y = kernel(x if layout == "tokens" else x.swapaxes(-1, -2), bias=bias)
        np.testing.assert_array_equal(y if layout == "tokens" else y.swapaxes(-1, -2),
                                      np.broadcast_to(bias, (*shape[:-1], 5)))


def test_of_a_fixed_n_takes_that_and_batches_of_it(weights, rng):
    kernel = spjit.compile(weights, 6)

    for shape in ((6, 40), (3, 6, 40), (2, 2, 6, 40)):
        x = floats(rng, *shape)
        assert_close(kernel(x), expected(weights, x))
    for shape in ((5, 40), (12, 40), (40,), (6, 2, 40)):
        with pytest.raises(spjit.InvalidArgument, match=r"expected \[\.\.\., 6, 40\]"):
            kernel(np.zeros(shape, np.float32))
    x = floats(rng, 40)
    assert_close(spjit.compile(weights, 1)(x), expected(weights, x))


def test_of_features_has_them_first(weights, rng):
    kernel = spjit.compile(weights, layout="features", bias=True)
    bias = floats(rng, 48)
    for shape in ((40, 1), (40, 17), (3, 40, 5)):
        x = floats(rng, *shape)

        y = kernel(x, bias=bias)

        reference = expected(weights, x.swapaxes(-1, -2), bias=bias)
        assert_close(y, reference.swapaxes(-1, -2))
    assert kernel(np.zeros((40, 0), np.float32), bias=bias).shape == (48, 0)
    with pytest.raises(spjit.InvalidArgument, match=r"expected \[\.\.\., 40, n\]"):
        kernel(np.zeros(40, np.float32), bias=bias)


def views(array):
    """The same numbers with strides that a run can have, by name."""
    *lead, tokens, features = array.shape
    wide = np.full((*lead, tokens, features + 5), np.nan, np.float32)
    wide[..., 2:features + 2] = array
    yield "columns of a wider array", wide[..., 2:features + 2]
    apart = np.full((*lead, 2 * tokens, features), np.nan, np.float32)
    apart[..., ::2, :] = array
    yield "every other token", apart[..., ::2, :]
    turned = np.ascontiguousarray(array.swapaxes(-1, -2))
    yield "features first", turned.swapaxes(-1, -2)
    if lead:
        back = np.ascontiguousarray(np.flip(array, 0))
        yield "batch backwards", np.flip(back, 0)
        tokens_first = np.ascontiguousarray(np.moveaxis(array, 0, -2))
        yield "batch within tokens", np.moveaxis(tokens_first, -2, 0)


@pytest.mark.parametrize("shape", [(7, 40), (3, 7, 40)])
def test_takes_strided_operands_without_copies(weights, rng, shape):
    kernel = spjit.compile(weights, residual=True)
    contiguous_x, contiguous_r = floats(rng, *shape), floats(rng, *shape[:-1], 48)
    reference = kernel(contiguous_x, residual=contiguous_r)
    targets = dict(views(np.zeros((*shape[:-1], 48), np.float32)))
    residuals = dict(views(contiguous_r))
    for name, x in views(contiguous_x):
        np.testing.assert_array_equal(kernel(x, residual=contiguous_r), reference, err_msg=name)
        for target, out in targets.items():
            same_order = residuals[target]

            y = kernel(x, residual=same_order, out=out)

            assert y is out
            np.testing.assert_array_equal(y, reference, err_msg=f"{name} into {target}")


def test_writes_nothing_between_rows_of_out(weights, rng):
    kernel = spjit.compile(weights)
    x = floats(rng, 7, 40)
    whole = np.full((7, 60), 5, np.float32)

    kernel(x, out=whole[:, 10:58])

    np.testing.assert_array_equal(whole[:, 10:58], kernel(x))
    assert (whole[:, :10] == 5).all()
    assert (whole[:, 58:] == 5).all()


def test_takes_a_broadcast_batch_of_x(weights, rng):
    x = floats(rng, 7, 40)

    y = spjit.compile(weights, 7)(np.broadcast_to(x, (3, 7, 40)))

    assert_close(y, expected(weights, np.broadcast_to(x, (3, 7, 40))))


def test_takes_out_as_the_residual(weights, rng):
    kernel = spjit.compile(weights, residual=True)
    x, residual = floats(rng, 7, 40), floats(rng, 7, 48)
    reference = kernel(x, residual=residual)

    assert kernel(x, residual=residual, out=residual) is residual

    np.testing.assert_array_equal(residual, reference)


def test_takes_values_of_each_call(weights, rng):
    kernel = spjit.compile(weights, runtime_values=True)
    x = floats(rng, 7, 40)
    other = weights.copy()
    other.data = floats(rng, weights.nnz)

    for matrix in (weights, other):
        values = kernel.prepare_values(matrix)
        assert_close(kernel(x, values=values), expected(matrix, x))
        same = kernel.prepare_values(np.ascontiguousarray(matrix.data))
        assert_close(kernel(x, values=same), expected(matrix, x))
    with pytest.raises(spjit.InvalidArgument, match="values is missing"):
        kernel(x)
    with pytest.raises(spjit.InvalidArgument, match="expected"):
        kernel.prepare_values(np.zeros(3, np.float32))
    other = other.astype(np.float64)
    other.data[5] = 1e300
    with pytest.raises(spjit.InvalidMatrix, match=r"matrix: element 5 is 1e\+300, which does not"):
        kernel.prepare_values(other)
    with pytest.raises(spjit.InvalidArgument, match="another kernel"):
        spjit.compile(weights, runtime_values=True, typical_n=8)(x, values=values)
    with pytest.raises(spjit.InvalidArgument, match="values is given"):
        spjit.compile(weights)(x, values=values)


def moved(a):
    """As many entries, one of them at another place."""
    a = a.copy()
    row = a[0].indices
    a.indices[0] = next(column for column in range(a.shape[1]) if column not in row)
    a.has_sorted_indices = False
    a.sort_indices()
    return a


def test_values_of_another_pattern_are_refused(weights, rng):
    kernel = spjit.compile(weights, runtime_values=True)
    x = floats(rng, 7, 40)
    turned = weights.tocsc().tocoo()  # columns first

    assert_close(kernel(x, values=kernel.prepare_values(turned)), expected(weights, x))
    assert moved(weights).nnz == weights.nnz
    for other, given in ((moved(weights), rf"\[48 x 40\] with {weights.nnz} entries, not all at"),
                         (weights.T, r"\[40 x 48\]"), (weights[:, ::-1], ".*not all at the same"),
                         (weights[:20], r"\[20 x 40\] with")):
        for form in ("csr", "csc", "coo"):
            with pytest.raises(spjit.InvalidArgument, match=f"a matrix {given}.*expected the "
                                                            "pattern that this kernel was"):
                kernel.prepare_values(other.asformat(form))
    damaged = weights.copy()
    damaged.indices[0] = 10**6
    with pytest.raises(spjit.InvalidMatrix):
        kernel.prepare_values(damaged)
    loaded = pickle.loads(pickle.dumps(kernel))
    assert_close(loaded(x, values=loaded.prepare_values(weights)), expected(weights, x))
    with pytest.raises(spjit.InvalidArgument, match="not all at the same places"):
        loaded.prepare_values(moved(weights))


@pytest.mark.parametrize(("x", "message"), [
    (np.zeros((3, 40)), "x is float64; expected float32: x.astype(numpy.float32)"),
    (np.zeros((3, 40), np.int32), "x is int32"),
    (np.zeros((3, 40), ">f4"), "x is >f4"),
    ([[0.0] * 40], "x is list; expected a float32 array"),
    (None, "x is NoneType"),
])
def test_refuses_other_types(weights, x, message):
    with pytest.raises(TypeError) as error:
        spjit.compile(weights)(x)

    assert message in str(error.value)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(("operands", "message"), [
    ({"x": np.zeros((3, 41), np.float32)}, "x has the shape [3, 41]; expected [..., tokens, 40]"),
    ({"x": np.zeros((), np.float32)}, "x has the shape []"),
    ({"x": np.zeros((3, 80), np.float32)[:, ::2][:, ::-1]}, "expected 4 in one"),
    ({"x": np.zeros((6, 80), np.float32)[::2, ::2]}, "x has the strides [640, 8]"),
    ({"x": np.zeros((3, 40), np.float32)[::-1]}, "numpy.ascontiguousarray()"),
    ({"x": np.zeros((3 * 40 * 4 + 1,), np.uint8)[1:].view(np.float32).reshape(3, 40)},
     "no multiple of 4"),
    ({"bias": None}, "bias is missing; this kernel was compiled with bias=True"),
    ({"bias": np.zeros(47, np.float32)}, "bias has the shape [47]; expected [48]"),
    ({"bias": np.zeros(96, np.float32)[::2]}, "bias has a stride of 8 bytes"),
    ({"scale": np.zeros(48, np.float32)}, "scale is given; this kernel was compiled without"),
    ({"residual": np.zeros((3, 48), np.float32)}, "residual is given"),
    ({"out": np.zeros((3, 47), np.float32)}, "out has the shape [3, 47]; expected [3, 48]"),
    ({"out": read_only(np.zeros((3, 48), np.float32))}, "out is read-only"),
])
def test_refuses_other_shapes_and_strides(weights, operands, message):
    given = {"x": np.zeros((3, 40), np.float32), "bias": np.zeros(48, np.float32), **operands}

    with pytest.raises(ValueError) as error:
        spjit.compile(weights, bias=True)(given.pop("x"), **given)

    assert isinstance(error.value, spjit.InvalidArgument)
    assert message in str(error.value)


def test_runs_a_batch_backwards(weights):
    x = np.random.default_rng(5).standard_normal((4, 3, 40), dtype=np.float32)
    kernel = spjit.compile(weights)
    y = np.full((4, 3, 48), 7, np.float32)

    kernel(x[::-1], out=y[::-1])

    np.testing.assert_array_equal(y, kernel(x))


def test_refuses_an_out_that_overlaps_x(weights):
    memory = np.zeros(3 * 48, np.float32)

    with pytest.raises(spjit.InvalidArgument, match="overlap"):
        spjit.compile(weights)(memory[:120].reshape(3, 40), out=memory.reshape(3, 48))


class Exported:
    """What another library has: memory through DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_takes_and_fills_arrays_with_dlpack(weights, rng):
    kernel = spjit.compile(weights, bias=True)
    x, bias = floats(rng, 7, 50)[:, 4:44], floats(rng, 48)
    out = np.zeros((7, 60), np.float32)
    target = Exported(out[:, 1:49])

    y = kernel(Exported(x), bias=Exported(bias), out=target)

    assert y is target
    np.testing.assert_array_equal(out[:, 1:49], kernel(x, bias=bias))
    np.testing.assert_array_equal(np.from_dlpack(kernel(x, bias=bias)), out[:, 1:49])
    with pytest.raises(TypeError, match="x is float64"):
        kernel(Exported(np.zeros((3, 40))), bias=bias)
    with pytest.raises(TypeError, match="x is int32"):
        kernel(Exported(np.zeros((3, 40), np.int32)), bias=bias)


def test_negated_views_of_torch_are_refused():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = spjit.compile(np.eye(4, dtype=np.float32), bias=True, residual=True)
    negated = torch.zeros(2, 4, dtype=torch.complex64).conj().imag.contiguous()
    negated = negated if negated.is_neg() else torch._neg_view(torch.ones(2, 4))
    plain, bias = torch.ones(2, 4), torch.ones(4)
    for x, b, residual, out, name in (
            (negated, bias, plain, None, "x"), (plain, negated[0], plain, None, "bias"),
            (plain, bias, negated, None, "residual"), (plain, bias, plain, negated, "out")):
        with pytest.raises(spjit.InvalidArgument, match=f"{name} is a negated view.*resolve_neg"):
            kernel(x, bias=b, residual=residual, out=out)
    np.testing.assert_array_equal(
        kernel(negated.resolve_neg(), bias=bias, residual=plain), negated.numpy(force=True) + 2)
