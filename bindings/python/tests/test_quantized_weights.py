"""Weights of floats as integers."""

import numpy as np
import pytest
import scipy.sparse

import spjit


def weights(rows=24, cols=40, zeros=0.8, seed=1):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, cols)).astype(np.float32)
    matrix[rng.random(matrix.shape) < zeros] = 0
    matrix[3] = 0
    return matrix


def expected_of(matrix):
    """By numpy."""
    largest = np.abs(matrix).max(axis=1)
    scale = np.where(largest == 0, 1, largest / np.float32(127)).astype(np.float32)
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix,
                                  lambda matrix: scipy.sparse.csc_matrix(matrix.astype(float))])
def test_rows_have_integers_and_a_scale(form):
    matrix = weights()

    result = spjit.quantize(form(matrix))

    integers, scale = expected_of(matrix)
    found = result.integers
    if not isinstance(found, np.ndarray):
        assert np.count_nonzero(found.data) == found.nnz
        found = found.toarray()
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, integers)
    np.testing.assert_array_equal(result.scale, scale)
    approximation = integers.astype(float) * scale[:, None].astype(float)
    difference = np.linalg.norm(matrix - approximation) / np.linalg.norm(matrix)
    assert result.relative_error == pytest.approx(difference, rel=1e-6)
    assert result.cosine == pytest.approx(
        (matrix * approximation).sum() / np.linalg.norm(matrix) / np.linalg.norm(approximation))


def test_kernels_of_integers_compute_the_layer():
    matrix, x = weights(), np.random.default_rng(2).standard_normal((5, 40)).astype(np.float32)
    q = spjit.quantize(scipy.sparse.csr_array(matrix))

    kernel = spjit.compile(q.integers, types=("i8", "f32", "f32"), scale=True)
    y = kernel(x, scale=q.scale)

    np.testing.assert_allclose(y, x @ (q.integers.toarray() * q.scale[:, None]).T, rtol=1e-5,
                               atol=1e-5)
    assert kernel.info["numerics"]["a"] == "i8"


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1)])
def test_small_matrices(shape):
    result = spjit.quantize(np.ones(shape, np.float32))

    assert result.integers.shape == shape
    assert result.scale.shape == shape[:1]
    assert result.relative_error < 1e-7


def test_what_cannot_become_integers_is_refused():
    with pytest.raises(spjit.InvalidArgument, match="row 1 has the entry inf"):
        spjit.quantize(np.array([[1.0], [np.inf]], np.float32))
    with pytest.raises(spjit.InvalidArgument, match="row 0 is 1e-40"):
        spjit.quantize(np.array([[1e-40]], np.float32))
    with pytest.raises(spjit.InvalidArgument, match=r"the shape \[3\]; expected \[out, in\]"):
        spjit.quantize(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="matrix is str; expected a scipy.sparse matrix"):
        spjit.quantize("weights.npz")
