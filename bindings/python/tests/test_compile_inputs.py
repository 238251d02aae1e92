"""What compile() is given: matrices that are damaged or of other libraries, and no seconds."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import assert_close, expected, floats

import spjit


def _of_lists(a):
    a = a.tocsr()
    a.data = list(a.data)
    return a


def _of_short_rows(a):
    a = a.tolil()
    a.data[5] = a.data[5][:-1]
    return a


def _of_short_data(a):
    a = a.tocoo()
    a.data = a.data[:-1]
    return a


def _of_a_far_key(a):
    a = a.todok()
    a._dict[99, 0] = 1.0
    return a


@pytest.mark.parametrize(("damage", "message"), [
    (_of_lists, "data is list; expected a numpy array"),
    (_of_short_rows, "a row of the lil matrix has not as many values as columns"),
    (_of_short_data, "all index and data arrays must have the same length"),
    (_of_a_far_key, "axis 0 index 99"),
])
def test_damage_that_scipy_does_not_look_for_is_refused(weights, damage, message):
    with pytest.raises(spjit.InvalidMatrix, match=message):
        spjit.compile(damage(weights.copy()))


class OfAnotherLibrary:
    """As the COO of PyData's sparse: with another format's members, and a tocsr()."""

    format = "coo"

    def __init__(self, a, csr):
        self.shape, self._csr = a.shape, csr

    def tocsr(self):
        return self._csr


def test_matrices_of_other_libraries_are_taken_by_their_tocsr(weights, rng):
    x = floats(rng, 3, 40)

    assert_close(spjit.compile(OfAnotherLibrary(weights, weights))(x), expected(weights, x))
    with pytest.raises(TypeError, match="matrix is OfAnotherLibrary, and its tocsr.. gives int"):
        spjit.compile(OfAnotherLibrary(weights, 5))


def test_no_seconds_are_no_time(weights):
    """And not the library's default, which 0 is there: no limit, and a minute."""
    with pytest.raises(spjit.DeadlineExceeded):
        spjit.compile(weights, timeout=0, cache=False)
    budgets = [spjit.Options(search_budget=budget).as_struct().search_budget_ms
               for budget in (None, 0, 2)]
    assert budgets[0] == 0 < budgets[1] < 1e-3
    assert budgets[2] == 2000


@pytest.mark.parametrize(("options", "message"), [
    ({"cache": 1}, "cache is 1; expected a path"),
    ({"cache_layers": [None]}, "a path of cache_layers is None; expected a path"),
    ({"accumulate": ["ordered"]}, r"accumulate is \['ordered'\]; expected 'ordered'"),
    ({"typical_n": 0}, "typical_n is 0; expected 1 to 2147483647"),
    ({"typical_n": 2**31}, "typical_n is 2147483648; expected 1 to"),
])
def test_values_of_another_type_or_size_are_named(weights, options, message):
    with pytest.raises(spjit.InvalidArgument, match=f"^{message}"):
        spjit.compile(weights, **options)


def test_weights_without_filters_are_a_kernel_of_none():
    image = np.zeros((1, 9, 9, 4), np.float32)

    kernel = spjit.compile(np.zeros((0, 4, 3, 3)), convolution=spjit.Conv2d(4, 9, 9, kernel=3))

    assert kernel(image).shape == (1, 7, 7, 0)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_whose_memory_torch_does_not_give_are_named(weights):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    kernel = spjit.compile(weights, bias=True)
    x, bias = torch.ones(2, 40), torch.ones(48)
    wrong = (x.clone().requires_grad_(), x.to("meta"), x.to_sparse(),
             torch.nested.nested_tensor([x]))

    for each in wrong:
        with pytest.raises(spjit.InvalidArgument, match="x is a Tensor whose memory DLPack does"):
            kernel(each, bias=bias)
    with pytest.raises(spjit.InvalidArgument, match="bias is a Tensor .*detach"):
        kernel(x, bias=bias.requires_grad_())


def test_keys_of_another_type_are_named(tmp_path):
    with pytest.raises(spjit.InvalidArgument, match="private_key is 5; expected PEM text"):
        spjit.BundleWriter(tmp_path / "b.spjit", private_key=5)
