"""spjit.torch: layers under masks of torch.ao.pruning."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch.ao.pruning import FakeSparsity, WeightNormSparsifier  # noqa: E402
from torch.ao.pruning._experimental.pruner import FakeStructuredSparsity  # noqa: E402
from torch.nn.utils import parametrize, prune  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, compiles, forget, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]


def masked(*layers):
    """A model, and the sparsifier that put masks of 90 % zeros to its layers."""
    model = nn.Sequential(*layers).eval()
    sparsifier = WeightNormSparsifier(sparsity_level=0.9, sparse_block_shape=(1, 1),
                                      zeros_per_block=1)
    sparsifier.prepare(model, [{"tensor_fqn": f"{i}.weight"} for i, layer in enumerate(layers)
                               if hasattr(layer, "weight")])
    sparsifier.step()
    return model, sparsifier


def test_masks_of_a_sparsifier_are_honoured(always, runs):
    model, sparsifier = masked(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48, bias=False))
    keys, classes = list(model.state_dict()), [type(layer) for layer in model]

    model, x, reference, report = optimized(torch.randn(5, 48), model)

    assert [row.sparse for row in report.rows] == [True, True]
    assert report.rows[0].zeros == pytest.approx(0.9, abs=0.01)
    assert report.rows[0].activation == "relu"
    assert list(model.state_dict()) == keys
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 2
        model[0].parametrizations.weight.original.mul_(2)
        close(model(x), reference + (model(x) - reference))
        changed = model(x)
        assert not torch.allclose(changed, reference)
        model[0].parametrizations.weight.original.mul_(0.5)
        model[0].parametrizations.weight[0].mask[3] = 0
        close(model[0](x)[:, 3], model[0].bias[3].expand(5))
        other = copy.deepcopy(model)
        y = model(x)
        sparse.restore_(model)
        assert [type(layer) for layer in model] == classes
        close(model(x), y)
        runs.clear()
        close(other(x), y)
        assert len(runs) == 2
    model(x).sum().backward()
    assert model[0].parametrizations.weight.original.grad is not None
    other(x).sum().backward()
    assert other[0].parametrizations.weight.original.grad is not None
    assert len(runs) == 2


def test_squashed_masks_leave_a_sparse_layer(always, runs):
    model, sparsifier = masked(nn.Linear(48, 96), nn.Tanh(), nn.Linear(96, 48))
    model, x, reference, _ = optimized(torch.randn(5, 48), model)

    sparsifier.squash_mask()

    assert list(model.state_dict()) == ["0.bias", "0.weight", "2.bias", "2.weight"]
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 2
        sparse.restore_(model)
        assert [type(layer) for layer in model] == [nn.Linear, nn.Tanh, nn.Linear]
        assert torch.equal(model(x), reference)


def test_masked_convolutions_and_other_devices(always, runs):
    model = nn.Sequential(nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 1)).eval()
    for layer, made in ((model[0], FakeSparsity(torch.rand(16, 4, 3, 3) < 0.1)),
                        (model[2], FakeStructuredSparsity(torch.arange(8) < 2))):
        parametrize.register_parametrization(layer, "weight", made)
    model, x, reference, report = optimized(torch.randn(2, 4, 9, 9), model)

    assert len(report.sparse) == 2
    close(copy.deepcopy(model).double()(x.double()).float(), reference)
    with torch.no_grad():
        close(torch.compile(model, dynamic=True, fullgraph=True)(x), reference)


def test_masks_that_others_join_are_dense_meanwhile(always, runs):
    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * weight

    model, _ = masked(nn.Linear(48, 96))
    model, x, reference, _ = optimized(torch.randn(5, 48), model)
    parametrize.register_parametrization(model[0], "weight", Twice())

    with torch.no_grad():
        runs.clear()
        bias = model[0].bias
        close(model(x) - bias, 2 * (reference - bias))
        assert not runs
        report = sparse.optimize_(model, x)
        assert "parametrized" in report.rows[0].reason
        close(model(x) - bias, 2 * (reference - bias))


class Counted(nn.Module):
    """A parametrization whose result depends on how often it was asked for, as spectral_norm's
    does in training."""

    def __init__(self):
        super().__init__()
        self.times = 0

    def forward(self, weight):
        self.times += 1
        return weight


@pytest.mark.parametrize(("make", "name"), [
    (lambda: nn.LSTM(8, 8), "weight_hh_l0"), (lambda: nn.GRUCell(8, 8), "bias_ih"),
    (lambda: nn.MultiheadAttention(8, 2), "in_proj_weight"), (lambda: nn.Linear(8, 8), "bias")])
def test_reports_say_what_is_parametrized(make, name):
    module = make()
    parametrize.register_parametrization(module, name, Counted())
    given = (torch.randn(3, 8),) * (3 if isinstance(module, nn.MultiheadAttention) else 1)

    report = sparse.optimize_(module, given)

    assert f"its {name} is parametrized: torch.nn.utils" in report.rows[0].reason


@pytest.mark.parametrize("training", [True, False])
def test_attention_asks_for_its_weights_as_often_as_a_dense_one(always, training):
    dense = nn.MultiheadAttention(16, 2, batch_first=True)
    with torch.no_grad():
        dense.in_proj_weight.mul_(torch.rand(48, 16) > 0.8)
    model, x = copy.deepcopy(dense).eval(), torch.randn(2, 5, 16)
    assert sparse.optimize_(model, (x, x, x)).sparse
    counts = []
    for module in (model, dense):
        parametrize.register_parametrization(module.train(training), "in_proj_weight",
                                             counted := Counted())
        counted.times = 0

        module(x, x, x)

        counts.append(counted.times)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("how", ["ao", "prune"])
def test_kernels_of_masked_layers_come_from_a_file(always, runs, compiles, tmp_path, how):
    if how == "ao":
        model, _ = masked(nn.Linear(48, 96), nn.Linear(96, 48))
    else:
        model = nn.Sequential(nn.Linear(48, 96), nn.Linear(96, 48))
        prune.l1_unstructured(model[0], "weight", amount=0.9)
        prune.l1_unstructured(model[1], "weight", amount=0.9)
    model, x, reference, _ = optimized(torch.randn(5, 48), model)
    sparse.save(model, tmp_path / "model.spjit")
    sparse.restore_(model)
    forget()
    compiles.clear()

    report = sparse.load_(model, tmp_path / "model.spjit")

    assert len(report.sparse) == 2
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 2
    assert not compiles


def test_a_pruned_layer_that_moves_to_another_type_moves_its_weight(always):
    model = nn.Sequential(nn.Linear(48, 96)).eval()
    prune.l1_unstructured(model[0], "weight", amount=0.9)
    model, x, reference, _ = optimized(torch.randn(5, 48), model)

    with torch.no_grad():
        close(model.double()(x.double()).float(), reference)


@pytest.mark.parametrize("of", ["prune", "ao"])
def test_other_memory_of_a_mask_is_seen(always, of):
    """Also at an address where the mask was once."""
    for _ in range(20):
        if of == "prune":
            model = nn.Sequential(nn.Linear(64, 64)).eval()
            prune.l1_unstructured(model[0], "weight", amount=0.9)
            original, mask = model[0].weight_orig, model[0].weight_mask
        else:
            model, _ = masked(nn.Linear(64, 64))
            weights = model[0].parametrizations.weight
            original, mask = weights.original, weights[0].mask
        model, x, _, _ = optimized(torch.randn(4, 64), model)

        for _ in range(2):
            mask.data = (torch.rand(64, 64) > 0.8).to(mask.dtype)

        with torch.no_grad():
            close(model(x), nn.functional.linear(x, original * mask, model[0].bias))
