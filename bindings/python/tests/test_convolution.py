"""Convolutions, beside sums over their taps in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from conftest import assert_close, floats

import spjit


def sparse_weights(rng, *shape):
    return np.where(rng.random(shape) < 0.3, floats(rng, *shape), np.float32(0))


def pair(value):
    return (value, value) if isinstance(value, int) else value


def conv2d(x, weights, of):
    """Y [images, filters, height, width] of X [images, channels, height, width]."""
    pads = pair(of.padding)
    top, left, bottom, right = pads if len(pads) == 4 else (*pads, *pads)
    (down, across), (row_step, column_step) = pair(of.stride), pair(of.dilation)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    filters, channels, rows, columns = weights.shape
    height = (padded.shape[2] - row_step * (rows - 1) - 1) // down + 1
    width = (padded.shape[3] - column_step * (columns - 1) - 1) // across + 1
    y = np.zeros((len(x), filters, height, width))
    for f in range(filters):
        first = f // (filters // of.groups) * channels
        for r in range(rows):
            for s in range(columns):
                seen = padded[:, first:first + channels,
                              r * row_step:r * row_step + (height - 1) * down + 1:down,
                              s * column_step:s * column_step + (width - 1) * across + 1:across]
                y[:, f] += np.einsum("nchw,c->nhw", seen, weights[f, :, r, s].astype(np.float64))
    return y


CONVOLUTIONS = [
    spjit.Conv2d(6, 9, 11, kernel=3, padding=1),
    spjit.Conv2d(6, 9, 11, kernel=(3, 2), stride=2, padding=(1, 0, 2, 3), dilation=(1, 2)),
    spjit.Conv2d(6, 9, 11, kernel=5, padding=(2, 1), groups=3),
    spjit.Conv2d(6, 9, 11),
    spjit.Conv2d(6, 9, 11, stride=(2, 3)),
    spjit.Conv2d(6, 8, 7, kernel=(8, 7)),
    spjit.Conv2d(6, 9, 11, kernel=3, groups=6),
]


def of_size(of, any_size):
    return spjit.Conv2d(**{**of.__dict__, "any_size": any_size})


@pytest.mark.parametrize("of", CONVOLUTIONS, ids=repr)
@pytest.mark.parametrize("any_size", [False, True])
def test_computes_convolutions_in_both_layouts(rng, of, any_size):
    weights = sparse_weights(rng, *of.weight_shape(12))
    x = floats(rng, 4, of.channels, of.height, of.width)
    bias = floats(rng, 12)
    reference = np.maximum(conv2d(x, weights, of) + bias[:, None, None], 0)

    for layout, channels in (("features", 1), ("tokens", -1)):
        kernel = spjit.compile(weights, convolution=of_size(of, any_size), layout=layout, bias=True,
                               activation="relu")
        y = kernel(np.ascontiguousarray(np.moveaxis(x, 1, channels)), bias=bias)
        assert_close(np.moveaxis(y, channels, 1), reference)


def test_takes_images_of_any_size_and_number(rng):
    of = spjit.Conv2d(5, 16, 16, kernel=3, padding=1, stride=2, any_size=True)
    weights = sparse_weights(rng, *of.weight_shape(9))
    kernel = spjit.compile(weights, convolution=of)
    for shape in ((1, 5, 16, 16), (3, 5, 7, 30), (2, 5, 1, 1), (1, 5, 33, 2)):
        x = floats(rng, *shape)

        y = kernel(np.ascontiguousarray(np.moveaxis(x, 1, -1)))

        assert_close(np.moveaxis(y, -1, 1), conv2d(x, weights, of))
    x = floats(rng, 8, 9, 5)
    assert_close(kernel(x), np.moveaxis(conv2d(np.moveaxis(x, -1, 0)[None], weights, of)[0], 0, -1))
    assert kernel(np.zeros((0, 16, 16, 5), np.float32)).shape == (0, 8, 8, 9)
    many = floats(rng, 2, 3, 8, 9, 5)
    np.testing.assert_array_equal(kernel(many)[1, 2], kernel(np.ascontiguousarray(many[1, 2])))


@pytest.mark.parametrize("of", [spjit.Conv2d(6, 9, 11, kernel=3, padding=1),
                                spjit.Conv2d(6, 9, 11)], ids=repr)
def test_takes_both_orders_by_strides_without_copies(rng, of):
    weights = sparse_weights(rng, *of.weight_shape(12))
    kernel = spjit.compile(weights, convolution=of, layout="features", residual=True)
    x, residual = floats(rng, 3, 6, 9, 11), floats(rng, 3, 12, 9, 11)
    reference = kernel(x, residual=residual)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    wide = np.full((3, 9, 6, 9, 11), np.nan, np.float32)
    wide[:, 4] = x
    out = np.moveaxis(np.zeros((3, 9, 11, 12), np.float32), -1, 1)
    residual_last = np.moveaxis(np.ascontiguousarray(np.moveaxis(residual, 1, -1)), -1, 1)

    for view in (last, wide[:, 4]):
        np.testing.assert_array_equal(kernel(view, residual=residual), reference)
    assert kernel(last, residual=residual_last, out=out) is out

    np.testing.assert_array_equal(out, reference)
    cropped = floats(rng, 3, 6, 12, 20)[:, :, :9, :11]
    with pytest.raises(spjit.InvalidArgument, match="expected 4 in one of the last 3 dimensions"):
        kernel(cropped, residual=residual)


def test_takes_weights_as_a_matrix_and_values_of_each_call(rng):
    of = spjit.Conv2d(6, 9, 11, kernel=3, padding=1)
    weights = sparse_weights(rng, *of.weight_shape(12))
    x = floats(rng, 2, 9, 11, 6)
    reference = spjit.compile(weights, convolution=of)(x)

    kernel = spjit.compile(weights.reshape(12, -1), convolution=of, runtime_values=True)
    values = kernel.prepare_values(weights[weights != 0])

    np.testing.assert_array_equal(kernel(x, values=values), reference)


@pytest.mark.parametrize("kernel_size", [1, 3])
def test_values_of_groups_are_those_of_a_matrix_of_their_channels(rng, kernel_size):
    of = spjit.Conv2d(6, 9, 11, kernel=kernel_size, groups=2)
    weights = sparse_weights(rng, *of.weight_shape(12))
    x = floats(rng, 2, 9, 11, 6)
    kernel = spjit.compile(weights, convolution=of, runtime_values=True)

    values = kernel.prepare_values(scipy.sparse.csr_matrix(weights.reshape(12, -1)))

    np.testing.assert_array_equal(kernel(x, values=values),
                                  spjit.compile(weights, convolution=of)(x))
    with pytest.raises(spjit.InvalidArgument, match="expected the pattern"):
        kernel.prepare_values(scipy.sparse.csr_matrix(weights[::-1].reshape(12, -1)))


def test_is_saved_and_loaded(rng, tmp_path):
    of = spjit.Conv2d(6, 9, 11, kernel=(3, 2), stride=2, padding=(1, 0, 2, 3), groups=2)
    weights = sparse_weights(rng, *of.weight_shape(12))
    kernel = spjit.compile(weights, convolution=of)
    x = floats(rng, 2, 9, 11, 6)
    kernel.save(tmp_path / "conv")

    loaded = spjit.load(tmp_path / "conv")

    np.testing.assert_array_equal(loaded(x), kernel(x))
    assert isinstance(loaded, spjit.Conv2dKernel)
    assert loaded.convolution == spjit.Conv2d(6, 9, 11, (3, 2), (2, 2), (1, 0, 2, 3), (1, 1), 1)
    assert kernel.convolution == of
    assert repr(kernel).endswith("[12, 6] images of 9 x 11 layout=tokens>")
    assert kernel.info["convolution"]["kernel"] == [3, 2]


@pytest.mark.parametrize(("given", "message"), [
    ({"kernel": (1, 2, 3)}, "kernel is (1, 2, 3); expected an integer below 2^63, or a tuple of 2"),
    ({"kernel": 3, "padding": (1, 2, 3)}, "padding is (1, 2, 3); expected an integer below 2^63, "
                                          "or a tuple of 2 or 4"),
    ({"kernel": 1.5}, "kernel is 1.5; expected an integer"),
    ({"kernel": (3, 2**64 + 3)}, f"kernel is (3, {2**64 + 3}); expected an integer below 2^63"),
    ({"kernel": 3, "channels": 2**64 + 6}, f"channels is {2**64 + 6}; expected a whole number"),
    ({"kernel": 3, "height": 8.0}, "height is 8.0; expected a whole number"),
    ({"kernel": 3, "width": "8"}, "width is '8'; expected a whole number"),
    ({"kernel": 3, "groups": None}, "groups is None; expected a whole number"),
    ({"kernel": 3, "any_size": 2}, "any_size is 2; expected True or False"),
    ({"kernel": 3, "stride": 0}, "stride of the convolution is 0"),
    ({"kernel": 3, "padding": -1}, "pad_top of the convolution is -1"),
    ({"kernel": 3, "groups": 4}, "[9, 1, 3, 3]"),
    ({"kernel": 2}, "matrix has the shape [9, 6, 3, 3]; expected weights [9, 6, 2, 2]"),
    ({"kernel": 3, "height": 1}, "kernel"),
])
def test_refuses_what_is_no_convolution(rng, given, message):
    with pytest.raises(spjit.InvalidArgument) as error:
        spjit.compile(floats(rng, 9, 6, 3, 3),
                      convolution=spjit.Conv2d(**{"channels": 6, "height": 8, "width": 8, **given}))

    assert message in str(error.value)


def test_takes_integers_of_numpy(rng):
    of = spjit.Conv2d(np.int64(6), np.int32(8), 8, kernel=np.int64(3), stride=(np.int64(2), 1))
    weights = sparse_weights(rng, *of.weight_shape(9))
    x = floats(rng, 2, 8, 8, 6)

    plain = spjit.compile(weights, convolution=spjit.Conv2d(6, 8, 8, 3, (2, 1)))
    np.testing.assert_array_equal(spjit.compile(weights, convolution=of)(x), plain(x))


@pytest.mark.parametrize(("shape", "message"), [
    ((2, 8, 9, 6), "x has the shape [2, 8, 9, 6]; expected [..., 9, 11, 6]"),
    ((2, 9, 11, 5), "expected [..., 9, 11, 6]"),
    ((11, 6), "expected [..., 9, 11, 6]"),
])
def test_refuses_other_images(rng, shape, message):
    of = spjit.Conv2d(6, 9, 11, kernel=3)
    kernel = spjit.compile(sparse_weights(rng, *of.weight_shape(12)), convolution=of)

    with pytest.raises(spjit.InvalidArgument) as error:
        kernel(np.zeros(shape, np.float32))

    assert message in str(error.value)


def test_refuses_images_smaller_than_the_kernel_and_an_n(rng):
    of = spjit.Conv2d(6, 9, 11, kernel=3, any_size=True)
    weights = sparse_weights(rng, *of.weight_shape(12))

    with pytest.raises(spjit.InvalidArgument, match="images of 2 x 9, into which the kernel does"):
        spjit.compile(weights, convolution=of)(np.zeros((1, 2, 9, 6), np.float32))
    with pytest.raises(spjit.InvalidArgument, match="n=5 and a convolution are given"):
        spjit.compile(weights, 5, convolution=of)
    with pytest.raises(TypeError, match="an array of 4 dimensions"):
        spjit.compile(weights)
