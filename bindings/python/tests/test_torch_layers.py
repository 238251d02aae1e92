"""spjit.torch: convolutions, and activations behind layers."""

from __future__ import annotations

import copy
import math
import re

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch._fusion import activation_of  # noqa: E402
from spjit.torch._layers import SparseConv1d, SparseConv2d  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, compiles, Convolutions, forget, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_convolutions(always, runs, order):
    model = Convolutions().eval()
    x = torch.randn(2, 8, 14, 17).to(memory_format=order)

    model, _, reference, report = optimized(x, model)

    assert len(report.sparse) == 4, str(report)
    assert type(model.first) is SparseConv2d
    with torch.no_grad():
        runs.clear()
        y = model(x)
        close(y, reference)
        assert len(runs) == 4
        assert y.is_contiguous(memory_format=order)
        for shape in ((1, 8, 30, 20), (3, 8, 7, 9), (8, 14, 17), (0, 8, 14, 17)):
            images = torch.randn(shape)
            y = model(images)
            dense = copy.deepcopy(model)
            sparse.restore_(dense)
            close(y, dense(images))
        turned = torch.randn(2, 8, 17, 14).transpose(2, 3)
        close(model(turned), dense(turned))
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 7, 14, 17))


class Signals(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = thin_out(nn.Conv1d(8, 24, 5, padding=2))
        self.second = nn.Sequential(thin_out(nn.Conv1d(24, 24, 3, stride=2, groups=2, bias=False)),
                                    nn.GELU())
        self.third = thin_out(nn.Conv1d(24, 40, 1))
        self.fourth = thin_out(nn.Conv1d(40, 16, 3, dilation=2, padding="same"))

    def forward(self, x):
        return self.fourth(torch.relu(self.third(self.second(self.first(x)))))


@pytest.mark.parametrize("tokens_first", [False, True])
def test_convolutions_of_one_dimension(always, runs, compiles, tmp_path, tokens_first):
    model = Signals().eval()
    x = torch.randn(2, 31, 8).transpose(1, 2) if tokens_first else torch.randn(2, 8, 31)

    model, _, reference, report = optimized(x, model)

    assert [row.kind for row in report.sparse] == 4 * ["Conv1d"], str(report)
    assert report.rows[1].activation == "gelu"
    assert type(model.first) is SparseConv1d
    dense = copy.deepcopy(model)
    sparse.restore_(dense)
    with torch.no_grad():
        runs.clear()
        y = model(x)
        close(y, reference)
        assert len(runs) == 4
        assert y.stride() == dense(x).stride()
        for shape in ((1, 8, 100), (3, 8, 7), (8, 31), (0, 8, 31)):
            given = torch.randn(shape)
            close(model(given), dense(given))
        close(model(torch.randn(2, 8, 62)[..., ::2]).isnan().any(), torch.tensor(False))
        for wrong in (torch.randn(2, 7, 31), torch.randn(31), torch.randn(2, 8, 1)):
            with pytest.raises(RuntimeError) as error:
                dense(wrong)
            with pytest.raises(RuntimeError, match=re.escape(str(error.value)[:40])):
                model(wrong)
        compiled = torch.compile(model, dynamic=True, fullgraph=True)
        close(compiled(x), reference)
        assert type(copy.deepcopy(model).first) is SparseConv1d
    model(x.clone().requires_grad_()).sum().backward()
    assert model.first.weight.grad is not None
    sparse.save(model, tmp_path / "model.spjit")
    sparse.restore_(model)
    forget()
    compiles.clear()
    assert len(sparse.load_(model, tmp_path / "model.spjit").sparse) == 4
    assert not compiles
    with torch.no_grad():
        close(model(x), reference)


def _refused_forms():
    even = "padding='same' is uneven for this kernel size"
    yield from ((4, {"padding": "same"}, even), (2, {"padding": "same", "dilation": 3}, even))
    for mode in ("circular", "reflect", "replicate"):
        yield 3, {"padding": 1, "padding_mode": mode}, f"padding_mode is '{mode}'; expected 'zeros'"


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d])
@pytest.mark.parametrize(("taps", "form", "reason"), [
    *((taps, form, "") for taps, form in (
        (1, {}), (3, {"padding": "same", "dilation": 2}), (3, {"padding": "valid"}),
        (4, {"stride": 5, "padding": 3}), (2, {"groups": 4, "dilation": 3, "stride": 2}),
        (5, {"padding": "same", "groups": 2, "bias": False}))), *_refused_forms()])
def test_forms_of_convolutions_of_one_and_two_dimensions(always, runs, kind, taps, form, reason):
    size = (11, 9)[:1 if kind is nn.Conv1d else 2]
    model, x, reference, report = optimized(torch.randn(3, 8, *size), nn.Sequential(
        thin_out(kind(8, 12, taps, **form), 0.7)))

    assert report.rows[0].reason == reason
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == (0 if reason else 1)


@pytest.mark.parametrize(("activation", "name"), [
    (nn.GELU(), "gelu"), (nn.GELU(approximate="tanh"), "gelu-tanh"), (nn.ReLU(), "relu"),
    (nn.SiLU(), "silu"), (nn.Hardswish(), "hard-swish"), (nn.Sigmoid(), "sigmoid"),
    (nn.Tanh(), "tanh"), (nn.Hardsigmoid(), "hard-sigmoid:0.16666667,0.5"),
    (nn.LeakyReLU(), "leaky-relu:0.01"), (nn.LeakyReLU(3, inplace=True), "leaky-relu:3.0"),
    (nn.LeakyReLU(0.0), ""), (nn.LeakyReLU(-0.1), ""), (nn.PReLU(), ""), (nn.Softplus(), ""), (nn.Hardtanh(), "")],
    ids=repr)
def test_an_activation_behind_a_layer_is_part_of_its_kernel(always, runs, activation, name):
    model = nn.Sequential(thin_out(nn.Linear(48, 96)), activation, nn.Identity(),
                          thin_out(nn.Linear(96, 48)))
    seen = []

    model, x, reference, report = optimized(torch.randn(5, 48), model)

    assert [row.activation for row in report.rows] == [name, ""]
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 2
        activation.forward = lambda y: seen.append(1) or type(activation).forward(activation, y)
        close(model(x), reference)  # somebody looks at what is between
        assert seen
        del activation.forward
        close(activation(model[0](x)), activation(nn.functional.linear(
            x, model[0].weight, model[0].bias)))  # by itself it is the layer alone
        close(copy.deepcopy(model)(x), reference)
    model(x).sum().backward()
    assert model[0].weight.grad is not None
    sparse.restore_(model)
    assert type(model) is nn.Sequential
    with torch.no_grad():
        assert torch.equal(model(x), reference)


@pytest.mark.parametrize("activation", [nn.ReLU(inplace=True), nn.SiLU(), nn.GELU(),
                                        nn.Hardswish(), nn.Sigmoid(), nn.Tanh(), nn.Hardsigmoid(),
                                        nn.LeakyReLU(0.2)], ids=repr)
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_an_activation_behind_a_convolution_is_part_of_its_kernel(always, runs, compiles, tmp_path,
                                                                  activation, order):
    model = nn.Sequential(thin_out(nn.Conv2d(8, 16, 3, padding=1)), activation,
                          nn.Sequential(thin_out(nn.Conv2d(16, 8, 1)), nn.ReLU()))
    x = torch.randn(2, 8, 9, 11).to(memory_format=order)

    model, _, reference, report = optimized(x, model)

    assert [bool(row.activation) for row in report.rows] == [True, True]
    with torch.no_grad():
        runs.clear()
        y = model(x)
        assert len(runs) == 2
        close(y, reference)
        assert y.is_contiguous(memory_format=order)
        close(model(x[0]), reference[0])
        assert model(x[:0]).shape == (0, 8, 9, 11)
        close(torch.compile(model, dynamic=True, fullgraph=True)(x), reference)
        assert len(runs) == 6
        copied = copy.deepcopy(model)
        close(copied(x), reference)
        layer = model[0]
        close(layer(x), nn.functional.conv2d(x, layer.weight, layer.bias, padding=1))
    model(x.clone().requires_grad_()).sum().backward()
    assert model[0].weight.grad is not None
    sparse.save(model, tmp_path / "model.spjit")
    sparse.restore_(model)
    forget()
    compiles.clear()
    report = sparse.load_(model, tmp_path / "model.spjit")
    assert all(row.sparse and row.activation for row in report.rows)
    assert not compiles
    with torch.no_grad():
        close(model(x), reference)


SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0, -0.0, 1e-45, -1e-45, 3e38, -3e38,
                        90, -90, -1, 2, -3, 3, 0.5])


@pytest.mark.parametrize("activation", [nn.Sigmoid(), nn.Tanh(), nn.Hardsigmoid(), nn.LeakyReLU(0.2)],
                         ids=repr)
@pytest.mark.parametrize("kind", ["Linear", "Conv1d", "Conv2d"])
def test_special_values_of_activations(always, runs, activation, kind):
    """A layer that gives what it takes."""
    x = torch.stack([SPECIAL.roll(i) for i in range(16)])
    layer = nn.Linear(16, 16, bias=False) if kind == "Linear" else getattr(nn, kind)(
        16, 16, 1, bias=False)
    given = x if kind == "Linear" else x[..., None] if kind == "Conv1d" else x[..., None, None]
    with torch.no_grad():
        layer.weight.copy_(torch.eye(16).reshape(layer.weight.shape))
        model = nn.Sequential(layer, activation).eval()
        report = sparse.optimize_(model, (given,))
        assert report.sparse and report.rows[0].activation
        runs.clear()
        y, reference = model(given).reshape(x.shape), activation(x.clone())

    assert len(runs) == 1
    torch.testing.assert_close(y, reference, rtol=1e-6, atol=1.2e-7, equal_nan=True)
    zeros = (reference == 0) & (x != 0) & (x.abs() < 80)  # products have -0 as 0
    assert torch.equal(y[zeros].signbit(), reference[zeros].signbit())


def test_slopes_that_kernels_do_not_have():
    for slope in (-0.1, -0.0, 0.0, math.inf, math.nan, 1e39):
        assert activation_of(nn.LeakyReLU(slope)) == ""


def test_another_slope_is_another_kernel(always, runs):
    model = nn.Sequential(thin_out(nn.Linear(48, 96)), nn.LeakyReLU(0.125)).eval()
    model, x, _, _ = optimized(torch.randn(5, 48), model)
    with torch.no_grad():
        other = copy.deepcopy(model)
        other[1].negative_slope = 0.5  # by itself, behind the layer
        dense = copy.deepcopy(other)
        sparse.restore_(dense)
        close(other(x), dense(x))
        assert sparse.optimize_(other, (x,)).rows[0].activation == "leaky-relu:0.5"
        runs.clear()
        close(other(x), dense(x))
        assert len(runs) == 1


def test_hooks_of_all_modules_see_layer_and_activation(always):
    model, x, reference, _ = optimized(torch.randn(5, 48), nn.Sequential(
        thin_out(nn.Linear(48, 48)), nn.ReLU()))
    seen = []
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, *_: seen.append(type(module).__name__))
    try:
        with torch.no_grad():
            close(model(x), reference)
    finally:
        hook.remove()
    assert seen == ["SparseLinear", "ReLU", "SparseSequential"]


def test_an_activation_with_a_hook_or_of_two_layers_stays_by_itself(always):
    shared = nn.ReLU()
    model = nn.Sequential(thin_out(nn.Linear(48, 48)), shared, thin_out(nn.Linear(48, 48)), shared,
                          thin_out(nn.Linear(48, 48)), nn.ReLU())
    model[5].register_forward_hook(lambda *_: None)

    model, x, reference, report = optimized(torch.randn(5, 48), model)

    assert [row.activation for row in report.rows] == ["", "", ""]
    with torch.no_grad():
        close(model(x), reference)
