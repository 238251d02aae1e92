"""Scales of groups of columns of A."""

import numpy as np
import pytest

import spjit


@pytest.fixture
def integers():
    """[20, 100] of -8 to 7, half of them zeros."""
    draw = np.random.default_rng(3)
    return (draw.integers(-8, 8, (20, 100)) * draw.integers(0, 2, (20, 100))).astype(np.float32)


@pytest.fixture
def scales():
    """[20, 4], for groups of 32 columns."""
    return np.random.default_rng(4).uniform(0.01, 2, (20, 4)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 3, 7])
@pytest.mark.parametrize("kind", ["i4", "i8"])
def test_are_factors_of_the_weights(integers, scales, n, kind):
    groups = spjit.GroupScales(scales, columns=32)
    kernel = spjit.compile(integers, n, types=(kind, "f32", "f32"), group_scales=groups)
    x = np.random.default_rng(5).standard_normal((n, 100), dtype=np.float32)

    y = kernel(x)

    weights = integers.astype(np.float64) * np.repeat(scales, 32, axis=1)[:, :100]
    np.testing.assert_allclose(y, x @ weights.T, rtol=1e-5, atol=1e-4)
    assert kernel.info["group_columns"] == 32


@pytest.mark.parametrize("n", [1, 3, 20])
def test_are_factors_of_exact_sums(integers, scales, n):
    scales[3] = -scales[3]
    kernel = spjit.compile(integers, n, types=("i4", "f32", "f32"), accumulate="integer",
                           quantize="token", group_scales=spjit.GroupScales(scales, columns=32))
    x = np.random.default_rng(5).standard_normal((n, 100), dtype=np.float32)

    y = kernel(x)

    steps = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    weights = integers.astype(np.float64) * np.repeat(scales, 32, axis=1)[:, :100]
    np.testing.assert_allclose(y, np.rint(x / steps) * steps @ weights.T, rtol=1e-5, atol=1e-4)


def test_are_compared_and_hashed_by_value(scales):
    groups = spjit.GroupScales(scales, columns=32)
    scales[0, 0] += 1

    others = spjit.GroupScales(scales, 32)

    assert groups != others
    assert others == spjit.GroupScales(scales, 32)
    assert hash(others) == hash(spjit.GroupScales(scales, 32))
    assert others != spjit.GroupScales(scales, 64)
    with pytest.raises(ValueError):
        groups.values[0, 0] = 3


def test_that_are_none_are_refused(integers, scales):
    with pytest.raises(spjit.InvalidArgument, match="columns is 16; expected 32, 64 or 128"):
        spjit.GroupScales(scales, 16)
    with pytest.raises(spjit.InvalidArgument, match=r"the shape \(4,\); expected"):
        spjit.GroupScales(scales[0], 32)
    with pytest.raises(spjit.InvalidArgument, match="of str; expected real numbers"):
        spjit.GroupScales("many", 32)
    with pytest.raises(spjit.InvalidArgument, match="expected an spjit.GroupScales"):
        spjit.Problem(group_scales=scales)
    given = {"types": ("i4", "f32", "f32")}
    with pytest.raises(spjit.InvalidArgument, match=r"shape \(20, 4\); expected \(20, 2\) for A"):
        spjit.compile(integers, group_scales=spjit.GroupScales(scales, 64), **given)
    with pytest.raises(spjit.InvalidArgument, match=r"shape \(4, 20\); expected \(20, 4\) for A"):
        spjit.compile(integers, group_scales=spjit.GroupScales(scales.T, 32), **given)
    with pytest.raises(spjit.InvalidArgument, match="are of ndarray; expected real numbers"):
        spjit.GroupScales(scales * 1j, 32)
    large = spjit.GroupScales(scales.astype(float) * 1e60, 32)
    with pytest.raises(spjit.InvalidArgument, match="is inf; expected a finite"):
        spjit.compile(integers, group_scales=large, **given)
    scales[3, 2] = np.nan
    with pytest.raises(spjit.InvalidArgument, match="row 3 and group 2 is nan; expected a finite"):
        spjit.compile(integers, group_scales=spjit.GroupScales(scales, 32), **given)
