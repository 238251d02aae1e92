"""spjit.torch: calls without numbers, of tensors on "meta" and of fake ones."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch_testing import _seeded, always  # noqa: E402, F401

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")]


def _thinned(module):
    with torch.no_grad():
        for weight in module.parameters():
            if weight.dim() > 1:
                weight.mul_(torch.rand_like(weight) > 0.8)
    return module.eval()


LAYERS = {
    "Linear": (lambda: nn.Linear(8, 6), (3, 8)), "Conv1d": (lambda: nn.Conv1d(8, 6, 3), (2, 8, 9)),
    "Conv2d": (lambda: nn.Conv2d(8, 6, 3), (2, 8, 9, 7)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(8, 6, 3), (2, 8, 9, 7)),
    "LSTM": (lambda: nn.LSTM(8, 6), (5, 3, 8)), "GRUCell": (lambda: nn.GRUCell(8, 6), (3, 8)),
    "Encoder": (lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1), (2, 5, 8)),
}


@pytest.fixture(params=LAYERS)
def layer(request, always):
    """A sparse one, the same dense, and an input."""
    make, shape = LAYERS[request.param]
    dense, x = _thinned(make()), torch.randn(shape)
    made = copy.deepcopy(dense)
    assert sparse.optimize_(made, x).sparse
    return made, dense, x


def _shape_of(y):
    y = y[0] if isinstance(y, tuple) else y
    return y.shape, y.stride(), y.dtype, y.device


@torch.no_grad()
def test_a_layer_on_meta_gives_shapes(layer):
    made, dense, x = (each.to("meta") for each in layer)

    assert _shape_of(made(x)) == _shape_of(dense(x))


def _refuses(module, x):
    try:
        module(x)
    except (RuntimeError, AssertionError, ValueError, IndexError):
        return True
    return False


@torch.no_grad()
def test_what_dense_layers_refuse_is_refused(layer):
    """There are no numbers, so nothing but shapes, types and devices can be wrong."""
    made, dense, x = layer
    if not isinstance(dense, nn.TransformerEncoder):  # an operator of torch does not look at it
        assert _refuses(made, x.to("meta")) or not _refuses(dense, x.to("meta"))
    made, dense, x = made.to("meta"), dense.to("meta"), x.to("meta")
    features = -1 if isinstance(dense, (nn.Linear, nn.RNNBase, nn.RNNCellBase)) else 1
    for wrong in (x.narrow(features, 0, x.shape[features] - 1), x.double(), x[0, 0]):
        # torch takes some of other types, whose numbers it would refuse.
        assert _refuses(made, wrong) or not _refuses(dense, wrong)


@torch.no_grad()
def test_fake_tensors_are_seen_as_others(layer):
    made, dense, x = layer
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(x)

        assert _shape_of(made(fake)) == _shape_of(dense(fake))
