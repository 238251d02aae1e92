"""spjit.torch: what optimize_ and restore_ do to a model."""

from __future__ import annotations

import copy
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from spjit.torch import _passes  # noqa: E402
from spjit.torch._layers import SparseLinear  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, Encoder, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]


def test_swaps_layers_in_place_and_says_which(always, runs, capsys):
    model, x, reference, report = optimized()

    with torch.no_grad():
        runs.clear()
        close(model(x), reference)

    assert len(runs) == 3  # mixed is called twice
    assert [row.layer for row in report.rows] == ["up", "mixed", "down"]
    assert [row.sparse for row in report.rows] == [True, True, False]
    assert "zeros" in report.rows[2].reason
    assert report.rows[0].input == (2, 7, 48)
    assert report.rows[0].kernel
    assert json.loads(report.to_json())["rows"][0]["shape"] == [96, 48]
    assert "2 of 3 layers are sparse" in str(report)
    assert isinstance(model.up, nn.Linear)
    assert capsys.readouterr() == ("", "")


def test_measures_each_layer_both_ways_and_keeps_none_that_is_slower():
    model, _, _, report = optimized()

    for row in report.rows[:2]:
        assert row.before_us > 0
        assert row.after_us > 0
        assert row.sparse == (not row.reason)
        if row.sparse:
            assert row.after_us <= row.before_us
    assert all("forward" not in vars(module) for module in model.modules())


def test_leaves_a_layer_that_is_slower_dense(monkeypatch):
    monkeypatch.setattr(_passes, "is_slower", lambda before, after: True)

    model, x, reference, report = optimized()

    assert not report.sparse
    assert report.rows[0].reason == "dense is faster here"
    assert type(model.up) is nn.Linear
    with torch.no_grad():
        assert torch.equal(model(x), reference)


def test_is_restored(always):
    model, x, reference, _ = optimized()

    sparse.restore_(model)

    assert all(type(module) in (nn.Linear, Encoder) for module in model.modules())
    assert all("spjit_key" not in vars(module) for module in model.modules())
    with torch.no_grad():
        assert torch.equal(model(x), reference)


def test_leaves_state_dict_and_parameters_alone(always):
    model = Encoder()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = dict(model.named_parameters())

    optimized(model=model)

    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert all(value is parameters[name] for name, value in model.named_parameters())


def test_two_models_in_one_process(always):
    first, x, of_first, _ = optimized()
    second, _, of_second, _ = optimized(x=x)

    with torch.no_grad():
        close(first(x), of_first)
        close(second(x), of_second)


def test_a_model_without_sparse_layers(runs):
    model = nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 8))

    report = sparse.optimize_(model, torch.randn(3, 48))

    assert not report.sparse
    assert not runs
    assert all(type(layer) is not SparseLinear for layer in model)
    assert "0 of 2 layers" in str(report)
    assert not sparse.optimize_(nn.Sequential(nn.ReLU()), torch.randn(3, 48)).rows


def test_says_why_layers_stay_dense():
    class Mine(nn.Linear):
        pass

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.mine = thin_out(Mine(8, 8))
            self.idle = thin_out(nn.Linear(8, 8))
            self.made = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
            self.around = thin_out(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"))
            self.even = thin_out(nn.Conv2d(2, 2, 2, padding="same"))

        def forward(self, x):
            return self.made(self.mine(x))

    reasons = {row.layer: row.reason for row in sparse.optimize_(Model(), torch.randn(3, 8)).rows}

    assert "Mine" in reasons["mine"]
    assert reasons["idle"] == "the example does not call it"
    assert "remove_parametrizations" in reasons["made"]
    assert "circular" in reasons["around"]
    assert "uneven" in reasons["even"]


class PlainSubclass(torch.Tensor):
    pass


@pytest.mark.filterwarnings("ignore:Sparse CSR")  # torch's own
@pytest.mark.parametrize(("change", "reason"), [
    (lambda w: w.to_sparse_csr(), "its weight is sparse_csr"),
    (lambda w: w.as_subclass(PlainSubclass), "its weight is a PlainSubclass")])
def test_weights_that_are_no_plain_tensors_stay_dense(always, change, reason):
    model = nn.Sequential(thin_out(nn.Linear(48, 48)), thin_out(nn.Linear(48, 48)))
    model[0].weight = nn.Parameter(change(model[0].weight.detach()))

    model, x, reference, report = optimized(torch.randn(5, 48), model)

    assert reason in report.rows[0].reason
    assert [row.sparse for row in report.rows] == [False, True]
    close(model(x), reference)


def test_a_layer_without_a_weight_yet_stays_dense(always):
    model = nn.Sequential(nn.LazyLinear(48), thin_out(nn.Linear(48, 48)))

    report = sparse.optimize_(model, torch.randn(5, 32))

    assert "no weight yet" in report.rows[0].reason
    assert report.rows[1].sparse


@pytest.mark.parametrize("layer", [nn.Linear(8, 8), nn.Conv2d(8, 8, 1)], ids=["Linear", "Conv2d"])
def test_a_layer_that_is_parametrized_later_is_dense_meanwhile(always, runs, layer):
    from torch.nn.utils import parametrize

    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * weight

    shape = (4, 8, 5, 5) if isinstance(layer, nn.Conv2d) else (4, 8)
    model, x, reference, _ = optimized(torch.randn(shape), nn.Sequential(thin_out(layer, 0.6)))
    parametrize.register_parametrization(layer, "weight", Twice())
    with torch.no_grad():
        layer.bias.zero_()
        runs.clear()
        y = model(x)
        assert not runs
        report = sparse.optimize_(model, x)
        assert "parametrized" in report.rows[0].reason
        close(model(x), y)
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
        close(2 * model(x), y)
        assert runs


def test_refuses_what_is_no_model_or_number_of_threads():
    model, x = nn.Sequential(nn.Linear(8, 8)), torch.randn(3, 8)
    for given, message in (((None, x), "model is NoneType"),
                           ((model, "x"), "example is str"),
                           ((model, {0: x}), "keys are no names of arguments")):
        with pytest.raises(spjit.InvalidArgument, match=message):
            sparse.optimize_(*given)
        with pytest.raises(spjit.InvalidArgument, match=message):
            sparse.optimize_(*given, release_dense=True)
    for function in (sparse.restore_, lambda model: sparse.save(model, "x.spjit"),
                     lambda model: sparse.load_(model, "x.spjit")):
        with pytest.raises(spjit.InvalidArgument, match="model is type; expected an nn.Module"):
            function(nn.Linear)
    for options, message in (({"threads": -1}, "threads is -1"),
                             ({"threads": "2"}, "threads is '2'"),
                             ({"threads": 10**6}, "to 4096"),
                             ({"budget": "x"}, "budget is 'x'; expected seconds"),
                             ({"budget": -1}, "budget is -1; expected seconds, 0 or more"),
                             ({"budget": float("nan")}, "budget is nan; expected seconds"),
                             ({"budget": float("inf")}, "budget is inf; expected a finite number"),
                             ({"kwargs": [1]}, "kwargs is list")):
        with pytest.raises(spjit.InvalidArgument, match=message):
            sparse.optimize_(model, x, **options)


def test_other_threads_get_right_results_between_passes(always):
    """While the activation is timed within the kernel of the layer before it, a thread that calls
    this layer gets it without."""
    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = nn.Sequential(thin_out(nn.Linear(48, 96)), nn.GELU())

        def forward(self, x):
            y = self.pair(x)
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(torch.no_grad()(self.pair[0]), x).result())
                after.append(pool.submit(torch.no_grad()(self.pair[1]), x).result())
            return y

    seen, after = [], []
    model = Beside().eval().requires_grad_(False)
    x = torch.randn(5, 48)
    expected = nn.functional.linear(x, model.pair[0].weight, model.pair[0].bias)

    report = sparse.optimize_(model, x, budget=0.01)

    assert len(report.sparse) == 1 and len(seen) >= 8
    for linear, activation in zip(seen, after):
        close(linear, expected)
        close(activation, nn.functional.gelu(x))


def test_no_threads_are_all_cpus():
    before = torch.get_num_threads()

    report = sparse.optimize_(nn.Sequential(nn.Linear(8, 8)), torch.randn(3, 8), threads=0)

    assert report.threads == len(os.sched_getaffinity(0))
    assert torch.get_num_threads() == before


def test_what_the_model_raises_comes_out_and_changes_nothing(always):
    model = Encoder().train()

    with pytest.raises(RuntimeError):
        sparse.optimize_(model, torch.randn(3, 47))
    with pytest.raises(ValueError, match="example is str"):
        sparse.optimize_(model, "x")

    assert type(model.up) is nn.Linear
    assert model.training
    assert model.up.training
    assert all("forward" not in vars(module) for module in model.modules())


@pytest.fixture
def default_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("was_sparse", [False, True])
def test_ctrl_c_leaves_the_model_as_it_was(always, default_interrupts, was_sparse):
    model = Encoder().eval()
    prune.l1_unstructured(model.down, "weight", amount=0.9)
    x = torch.randn(2, 7, 48)
    if was_sparse:
        sparse.optimize_(model, x)
    classes = [type(module) for module in model.modules()]
    calls = []

    class Interrupts:
        def __call__(self, *_):
            calls.append(1)
            if len(calls) == 4:
                os.kill(os.getpid(), signal.SIGINT)

    handle = model.register_forward_hook(Interrupts())
    with pytest.raises(KeyboardInterrupt):
        sparse.optimize_(model, x)
    handle.remove()

    assert [type(module) for module in model.modules()] == classes
    assert all("forward" not in vars(module) for module in model.modules())
    with torch.no_grad():
        y = model(x)
        sparse.restore_(model)
        close(y, model(x))


def test_layers_under_nn_utils_prune(always, runs):
    model = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48)).eval()
    prune.l1_unstructured(model[0], "weight", amount=0.9)
    prune.random_unstructured(model[2], "weight", amount=0.8)
    prune.l1_unstructured(model[2], "weight", amount=0.2)
    keys = list(model.state_dict())
    x = torch.randn(5, 48)

    model, _, reference, report = optimized(x, model)

    assert len(report.sparse) == 2
    assert list(model.state_dict()) == keys
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 2
        weight = model[0].weight
        model(x)
        assert model[0].weight is weight  # not computed again
        model[0].weight_orig.mul_(2)
        doubled = model(x)
        state = {name: value * (1 if "mask" in name else 2)
                 for name, value in model.state_dict().items()}
        model.load_state_dict(state)
        loaded = model(x)
        other = copy.deepcopy(model)
        sparse.restore_(model)
        close(loaded, model(x))
        close(other(x), loaded)
        assert not torch.allclose(doubled, loaded)
    model(x).sum().backward()
    assert model[0].weight_orig.grad is not None
    prune.remove(other[0], "weight")
    with torch.no_grad():
        close(other(x), loaded)
