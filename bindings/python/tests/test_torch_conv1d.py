"""The Conv1D of transformers as a sparse layer, alone and beside other kinds, and weights that
several layers share."""

from __future__ import annotations

import copy
import pickle
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch._layers import is_sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, compiles, forget, runs, thin_out)

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


def conv1d():
    """transformers.pytorch_utils.Conv1D, or what stands there if it is not installed."""
    try:
        from transformers.pytorch_utils import Conv1D
    except ImportError:
        return _Conv1D
    return Conv1D


class _Conv1D(nn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.nx = nx
        self.weight = nn.Parameter(torch.randn(nx, nf) * 0.02)
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        size_out = x.size()[:-1] + (self.nf,)
        x = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return x.view(size_out)


_Conv1D.__module__ = "transformers.pytorch_utils"
_Conv1D.__name__ = _Conv1D.__qualname__ = "Conv1D"


@pytest.fixture
def importable(monkeypatch):
    """pickle looks for the class in its module."""
    if conv1d() is _Conv1D:
        inner = types.SimpleNamespace(Conv1D=_Conv1D)
        monkeypatch.setitem(sys.modules, "transformers.pytorch_utils", inner)
        monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(pytorch_utils=inner))


def layer(inputs, outputs):
    made = thin_out(conv1d()(outputs, inputs))
    with torch.no_grad():
        made.bias.normal_()
        made.weight.mul_(20)
    return made.eval()


def optimized(model, x):
    judge = copy.deepcopy(model).double()
    report = sparse.optimize_(model, (x,), budget=0)
    assert [row.reason for row in report.rows] == [""] * len(report.rows)
    return model, judge, report


def assert_as(model, judge, x):
    with torch.inference_mode():
        torch.testing.assert_close(model(x).double(), judge(x.double()), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("sizes", [(13, 21), (48, 7), (1, 5)])
def test_conv1d_computes_what_it_did(always, runs, sizes):
    made = layer(*sizes)
    with torch.no_grad():
        made.weight[:, ::2] = 0  # of one row at least half
    model, judge, report = optimized(nn.Sequential(made), torch.randn(2, 7, sizes[0]))

    (row,) = report.rows
    assert (row.kind, row.shape, row.input) == ("Conv1D", sizes, (2, 7, sizes[0]))
    for shape in ((2, 7), (1, 1), (5,), (3, 1, 4), (0, 7)):
        runs.clear()
        assert_as(model, judge, torch.randn(*shape, sizes[0]))
        assert len(runs) == 1
    assert not report.dense_calls


def test_an_activation_behind_conv1d_is_fused(always, runs):
    model, judge, report = optimized(nn.Sequential(layer(48, 96), nn.GELU(), layer(96, 48)),
                                     torch.randn(2, 7, 48))

    assert [row.activation for row in report.rows] == ["gelu", ""]
    assert_as(model, judge, torch.randn(3, 48))


def test_gradients_changes_and_restore(always, runs, compiles):
    x = torch.randn(2, 7, 48)
    model, judge, report = optimized(nn.Sequential(layer(48, 96)), x)
    with pytest.warns(UserWarning, match="sparse layers run dense"):
        model(x).sum().backward()
    judge(x.double()).sum().backward()
    torch.testing.assert_close(model[0].weight.grad.double(), judge[0].weight.grad,
                               rtol=1e-5, atol=1e-5)
    assert report.dense_calls == {"0": 1}

    for change in (lambda weight: weight.mul_(2), lambda weight: setattr(weight, "data",
                                                                        weight.data * 3)):
        compiles.clear()
        with torch.no_grad():
            change(model[0].weight)
            judge[0].weight.copy_(model[0].weight)
        assert_as(model, judge, x)
        assert len(compiles) == 1

    assert type(model[0]).__name__ == "SparseConv1D"
    sparse.restore_(model)
    assert type(model[0]) is conv1d() and not any(
        name.startswith("spjit") for name in vars(model[0]))


def test_copies_and_files(always, runs, compiles, tmp_path, importable):
    x = torch.randn(2, 7, 48)
    model, judge, _ = optimized(nn.Sequential(layer(48, 96)), x)
    sparse.save(model, tmp_path / "model.spjit")

    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        runs.clear()
        assert_as(other, judge, x)
        assert len(runs) == 1
    forget()
    sparse.restore_(other)
    compiles.clear()
    assert len(sparse.load_(other, tmp_path / "model.spjit").sparse) == 1
    assert_as(other, judge, x)
    assert not compiles


def test_masks_of_prune(always, runs):
    x = torch.randn(2, 7, 48)
    model = nn.Sequential(conv1d()(96, 48)).eval()
    prune.l1_unstructured(model[0], "weight", amount=0.9)
    expected = model(x).detach()

    report = sparse.optimize_(model, (x,))

    assert len(report.sparse) == 1
    runs.clear()
    with torch.no_grad():
        close(model(x), expected)
        model[0].weight_mask.zero_()
        assert torch.equal(model(x), model[0].bias.expand(2, 7, 96))
    assert len(runs) == 2


def test_subclasses_stay_dense(always):
    class Own(conv1d()):
        pass

    report = sparse.optimize_(nn.Sequential(Own(96, 48)), (torch.randn(2, 48),))

    assert report.rows[0].reason == "it is a Own, whose forward() may differ"


def test_a_weight_of_other_dimensions_stays_dense(always):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = layer(48, 96)
            self.inner.weight = nn.Parameter(torch.zeros(1, 48, 96))

        def forward(self, x):
            return x @ self.inner.weight[0]

    report = sparse.optimize_(Holder(), (torch.randn(2, 48),))

    assert report.rows[0].reason == "its weight has 3 dimensions; expected 2"


def test_classes_of_that_name_elsewhere_are_others(always):
    other = type("Conv1D", (_Conv1D.__mro__[1],), {})
    model = other()
    model.weight = nn.Parameter(torch.zeros(4, 4))
    model.forward = lambda x: x @ model.weight

    report = sparse.optimize_(model, (torch.randn(2, 4),))

    assert "a parameter that functions of Conv1D use" in report.rows[0].reason


def test_conv1d_is_compiled_as_one_graph(always, runs):
    x = torch.randn(2, 7, 48)
    model, judge, _ = optimized(nn.Sequential(layer(48, 96)), x)
    compiled = torch.compile(model, dynamic=True, fullgraph=True)

    for shape in ((2, 7), (3, 5)):
        runs.clear()
        assert_as(compiled, judge, torch.randn(*shape, 48))
        assert len(runs) == 1


class Tied(nn.Module):
    """Two layers of one weight, and a table that a third one shares."""

    def __init__(self):
        super().__init__()
        self.table = thin_out(nn.Embedding(31, 48))
        self.first = thin_out(nn.Linear(48, 48))
        self.second = nn.Linear(48, 48)
        self.second.weight = self.first.weight
        self.out = nn.Linear(48, 31, bias=False)
        self.out.weight = self.table.weight

    def forward(self, words):
        return self.out(self.second(self.first(self.table(words)))[:, -1])


def test_a_weight_of_two_layers_has_one_kernel(always, runs, compiles):
    forget()
    words = torch.randint(31, (2, 7))
    model = Tied().eval()
    with torch.no_grad():
        expected = model(words)

    report = sparse.optimize_(model, (words,))

    assert [(row.layer, row.reason) for row in report.rows] == [
        ("first", ""), ("second", ""), ("out", "")]
    assert report.rows[1].kernel == report.rows[0].kernel
    assert len(compiles) == 2
    runs.clear()
    with torch.no_grad():
        close(model(words), expected)
        assert len(runs) == 3 and len(compiles) == 2
        model.first.weight.mul_(2)
        model(words)
    assert len(compiles) == 3, "once for both"


class _EveryKind(nn.Module):
    """Layers of each way in which a kernel has a weight."""

    def __init__(self):
        super().__init__()
        self.wide = layer(16, 24)
        self.flat = thin_out(nn.Linear(24, 16))
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.gates = nn.GRU(16, 16, batch_first=True)
        self.up = thin_out(nn.ConvTranspose1d(16, 8, 4, stride=2))
        self.down = thin_out(nn.Conv1d(8, 16, 3, stride=2))
        thin_out(self.attention.out_proj)
        for weight in (self.attention.in_proj_weight, self.gates.weight_ih_l0,
                       self.gates.weight_hh_l0):
            _clear(weight)

    def forward(self, x):
        x = self.flat(self.wide(x))
        x, _ = self.gates(self.attention(x, x, x, need_weights=False)[0])
        return self.down(self.up(x.mT))


def _clear(weight):
    with torch.no_grad():
        weight.mul_(torch.rand_like(weight) >= 0.9)


def test_layers_of_every_kind_are_in_one_file(always, compiles, importable, tmp_path):
    x = torch.randn(2, 7, 16)
    model, judge, report = optimized(_EveryKind().eval(), x)
    assert {row.kind for row in report.rows} == {
        "Conv1D", "Linear", "MultiheadAttention", "GRU", "ConvTranspose1d", "Conv1d"}
    assert_as(model, judge, x)
    sparse.save(model, tmp_path / "model.spjit")
    sparse.restore_(model)
    assert not any(map(is_sparse, model.modules()))
    forget()
    compiles.clear()

    loaded = sparse.load_(model, tmp_path / "model.spjit")

    assert len(loaded.sparse) == len(report.rows)
    assert_as(model, judge, x)
    assert not compiles and not loaded.dense_calls
