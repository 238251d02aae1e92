"""Models and fixtures of the tests of channels that are left out."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch import _shortened  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import always, thin_out  # noqa: E402, F401


@pytest.fixture
def shorts(always, monkeypatch):  # noqa: F811
    """Rows that layers without idle channels gave, in each call."""
    seen = []
    run = _shortened.ShortLayer.run

    def counted(self, layer, x, activation):
        y = run(self, layer, x, activation)
        seen.append(y.shape[-1 - self._trailing])
        return y

    monkeypatch.setattr(_shortened.ShortLayer, "run", counted)
    return seen


def without(layer, *, rows=(), columns=()):
    """A sparse layer with these empty; all others have entries."""
    thin_out(layer, 0.8)
    with torch.no_grad():
        layer.weight[:, 0] = layer.weight[0] = 0.5
        layer.weight[:, -1] = layer.weight[-1] = -0.5
        layer.weight[list(rows)] = 0
        layer.weight[:, list(columns)] = 0
    return layer


ROWS, COLUMNS = range(5, 25), range(20, 30)  # of 40 channels: 25 go


def linears(activation=nn.ReLU, bias=True, rows=ROWS, columns=COLUMNS):
    return nn.Sequential(without(nn.Linear(16, 40, bias), rows=rows), activation(),
                         without(nn.Linear(40, 24), columns=columns)).eval()


def called(model, x):
    with torch.inference_mode():
        return model(x)


def whole(model, x):
    """What kernels give that compute all channels."""
    model = copy.deepcopy(model)
    sparse.optimize_(model, (x,), exact_passes=False)
    return called(model, x)


def checked(model, x, shorts, expected, exact=False):  # noqa: F811
    """`expected`: rows of layers in a call."""
    wanted = whole(model, x) if exact else called(model, x)
    largest = max(1.0, float(wanted.abs().max()))
    report = sparse.optimize_(model, (x,))
    assert all(row.sparse for row in report.rows), report
    shorts.clear()
    y = called(model, x)
    assert shorts == expected
    if exact:
        assert torch.equal(y, wanted)
    else:
        torch.testing.assert_close(y, wanted, rtol=0, atol=1e-6 * largest)
    assert y.stride() == wanted.stride()
    return report
