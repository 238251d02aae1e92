"""Layers and what they compute, by numpy in float64."""

from __future__ import annotations

import math
import os
import subprocess

import numpy as np
import pytest
import scipy.sparse


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    os.environ["SPJIT_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def weights(rng):
    """A [48, 40] with empty and full rows."""
    a = scipy.sparse.random(48, 40, density=0.2, format="lil", dtype=np.float32, random_state=1)
    a[3, :] = 0
    a[5, :] = rng.standard_normal(40)
    return a.tocsr()


@pytest.fixture
def signing_keys(tmp_path):
    """Makes the files of an Ed25519 key pair of a name: private and public."""
    def make(name):
        private, public = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub"
        try:
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private],
                           check=True, capture_output=True)
            subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public],
                           check=True)
        except FileNotFoundError:
            pytest.skip("there is no openssl")
        return private, public

    return make


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def gelu(x):
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) if x.size else x


def expected(a, x, *, bias=0, scale=1, residual=0, act=lambda y: y):
    """Y of X [..., tokens, in]."""
    product = x.astype(np.float64) @ a.toarray().astype(np.float64).T
    return act(product * scale + bias + residual)


def assert_close(y, reference):
    assert isinstance(y, np.ndarray)
    assert y.dtype == np.float32
    assert y.shape == reference.shape
    np.testing.assert_allclose(y, reference, rtol=1e-4, atol=1e-4)
