"""spjit.torch: transposed convolutions, as convolutions of phases."""

from __future__ import annotations

import copy
import itertools
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch._layers import SparseConvTranspose1d, SparseConvTranspose2d  # noqa: E402
from spjit.torch._weights import refusal_of  # noqa: E402
from spjit.torch._transposed_op import TRANSPOSED1D, TRANSPOSED2D  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, compiles, forget, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]

# What torch says of a layer [8 to 12 channels], besides its kernel.
FORMS = [
    (4, {"stride": 2, "padding": 1}),
    (3, {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
    ((2, 3), {"stride": (5, 4), "output_padding": (4, 1), "groups": 4}),  # phases without a tap
    ((2, 3), {"stride": (1, 4), "bias": False}),
    (3, {"dilation": 3, "padding": 2}),
    ((3, 2), {"stride": (2, 3), "dilation": (3, 2), "padding": (3, 1), "output_padding": (2, 0)}),
    ((5, 4), {"stride": 2, "padding": (4, 3), "dilation": (2, 1)}),
    (1, {"padding": 1}),
    (1, {"stride": 3, "padding": 2, "output_padding": 1}),
    (1, {}),
]


def pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def by_loops(x, layer):
    """Images x of float64, tap by tap."""
    weight = layer.weight.detach().double().numpy()
    stride, padding, dilation = (pair(size) for size in (layer.stride, layer.padding,
                                                         layer.dilation))
    more = pair(layer.output_padding)
    taps, groups = weight.shape[2:], layer.groups
    size = [(x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (taps[i] - 1)
            + more[i] + 1 for i in range(2)]
    inputs, outputs = len(weight) // groups, weight.shape[1]
    y = np.zeros((len(x), outputs * groups, *size))
    if layer.bias is not None:
        y += layer.bias.detach().double().numpy()[:, None, None]
    for group, row, column in itertools.product(range(groups), *map(range, taps)):
        own = weight[group * inputs:(group + 1) * inputs, :, row, column]
        for p, q in itertools.product(*map(range, x.shape[2:])):
            at = (p * stride[0] - padding[0] + row * dilation[0],
                  q * stride[1] - padding[1] + column * dilation[1])
            if all(0 <= at[i] < size[i] for i in range(2)):
                y[:, group * outputs:(group + 1) * outputs, at[0], at[1]] += \
                    x[:, group * inputs:(group + 1) * inputs, p, q] @ own
    return torch.from_numpy(y).float()


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("taps", "form"), FORMS)
def test_any_form_gives_what_loops_and_torch_do(always, runs, taps, form, order):
    layer = thin_out(nn.ConvTranspose2d(8, 12, taps, **form), 0.7)
    x = torch.randn(3, 8, 5, 7).to(memory_format=order)

    model, _, reference, report = optimized(x, nn.Sequential(layer))

    row, = report.rows
    assert (row.kind, row.sparse, row.shape) == ("ConvTranspose2d", True, tuple(layer.weight.shape))
    assert type(layer) is SparseConvTranspose2d
    with torch.no_grad():
        runs.clear()
        y = model(x)
        assert len(runs) == 1
        close(y, reference)
        close(y, by_loops(x.double().numpy(), layer))
        assert y.is_contiguous(memory_format=order)
        dense = sparse_free(model)
        for shape in ((1, 8, 9, 3), (8, 5, 7), (0, 8, 5, 7), (2, 8, 1, 1), (2, 8, 1, 6)):
            given = torch.randn(shape)
            if is_refused(dense, given):
                with pytest.raises(RuntimeError):
                    model(given)
            else:
                close(model(given), dense(given))
        turned = torch.randn(2, 8, 7, 5).transpose(2, 3)
        close(model(turned), dense(turned))


def sparse_free(model):
    dense = copy.deepcopy(model)
    sparse.restore_(dense)
    return dense


def is_refused(dense, x):
    try:
        dense(x)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize(("taps", "form"), [
    (16, {"stride": 8, "padding": 4}), (1, {"stride": 3, "padding": 2, "output_padding": 1}),
    (5, {"stride": 3, "padding": 7, "groups": 2, "bias": False}), (3, {"dilation": 5}),
    (2, {"stride": 7, "output_padding": 6})])
def test_of_one_dimension(always, runs, taps, form):
    layer = thin_out(nn.ConvTranspose1d(8, 12, taps, **form), 0.7)
    x = torch.randn(3, 8, 11)

    model, _, reference, report = optimized(x, nn.Sequential(layer))

    assert [row.kind for row in report.sparse] == ["ConvTranspose1d"], str(report)
    assert type(layer) is SparseConvTranspose1d
    dense = sparse_free(model)
    with torch.no_grad():
        runs.clear()
        y = model(x)
        assert len(runs) == 1
        close(y, reference)
        assert y.stride() == reference.stride()
        for given in (torch.randn(1, 8, 30), torch.randn(8, 11), torch.randn(0, 8, 11),
                      torch.randn(2, 11, 8).transpose(1, 2)):
            close(model(given), dense(given))


def test_sizes_of_a_call_are_those_of_torch(always, runs):
    model, x, _, _ = optimized(torch.randn(2, 8, 5, 7), nn.Sequential(
        thin_out(nn.ConvTranspose2d(8, 12, 3, stride=3, padding=1))))
    dense = sparse_free(model)
    with torch.no_grad():
        runs.clear()
        for size in ([14, 20], [13, 21], [2, 12, 15, 19], torch.Size((15, 21))):
            y = model[0](x, size)
            assert y.shape[2:] == tuple(size)[-2:]
            close(y, dense[0](x, output_size=size))
        assert len(runs) == 4
        for wrong in ([17, 20], [12, 20], [13]):
            with pytest.raises(ValueError) as error:
                dense[0](x, wrong)
            with pytest.raises(ValueError, match=re.escape(str(error.value)[:30])):
                model[0](x, wrong)
        with torch.device("cpu"):
            assert model[0](x, [14, 21]).shape[2:] == (14, 21)
        assert len(runs) == 5


class Grown(nn.Module):
    """Its layer is called with a size, which what is behind it needs."""

    def __init__(self):
        super().__init__()
        self.up = thin_out(nn.ConvTranspose2d(8, 12, 4, stride=2))

    def forward(self, x):
        return self.up(x, output_size=(13, 17)).reshape(-1, 12, 13, 17)


def test_a_model_that_calls_with_sizes(always, runs):
    model, x, reference, report = optimized(torch.randn(2, 8, 5, 7), Grown())
    assert len(report.sparse) == 1, str(report)
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 1


@pytest.mark.parametrize("change", [
    {"stride": (3, 1)}, {"padding": (0, 2)}, {"output_padding": (1, 0), "stride": 2},
    {"dilation": 2}, {"stride": [2, 1]}])
def test_changed_attributes_are_seen(always, change):
    model, x, _, _ = optimized(torch.randn(2, 8, 5, 7), nn.Sequential(
        thin_out(nn.ConvTranspose2d(8, 12, 3, padding=1))))
    dense = sparse_free(model)
    for one in (model[0], dense[0]):
        for name, value in change.items():
            setattr(one, name, value)
    with torch.no_grad():
        close(model(x), dense(x))


def test_another_padding_mode_is_what_torch_makes_of_it(always):
    model, x, _, _ = optimized(torch.randn(2, 8, 5, 7), nn.Sequential(
        thin_out(nn.ConvTranspose2d(8, 12, 3))))
    model[0].padding_mode = "reflect"
    with pytest.raises(ValueError, match="padding mode"), torch.no_grad():
        model(x)
    sparse.restore_(model)
    assert refusal_of(model[0]) == "padding_mode is 'reflect'; expected 'zeros'"


@pytest.mark.parametrize("kind", [nn.ConvTranspose1d, nn.ConvTranspose2d])
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_any_number_of_threads_gives_the_same_bits(always, kind, threads):
    size = (5, 7)[:2 if kind is nn.ConvTranspose2d else 1]
    torch.set_num_threads(1)
    model, x, _, _ = optimized(torch.randn(1, 8, *size), nn.Sequential(
        thin_out(kind(8, 3, 4, stride=3, padding=1))))
    with torch.no_grad():
        reference = model(x)
        torch.set_num_threads(threads)
        assert torch.equal(model(x), reference)


def test_gradients_run_dense_and_changed_weights_are_noticed(always, runs, compiles):
    model, x, _, report = optimized(torch.randn(2, 8, 5, 7), nn.Sequential(
        thin_out(nn.ConvTranspose2d(8, 12, 3, stride=2)), nn.ReLU()))
    dense = sparse_free(model)
    given = x.clone().requires_grad_()
    runs.clear()
    model(given).sum().backward()
    expected = x.clone().requires_grad_()
    dense(expected).sum().backward()
    assert not runs and report.dense_calls == {"0": 1}
    close(given.grad, expected.grad)
    close(model[0].weight.grad, dense[0].weight.grad)
    with torch.no_grad():
        for one in (model, dense):
            one[0].weight.mul_(2)
            one[0].bias.add_(1)
        compiles.clear()
        close(model(x), dense(x))
        assert len(compiles) == 1 and runs
        state = {name: 3 * value for name, value in dense.state_dict().items()}
        model.load_state_dict(state), dense.load_state_dict(state)
        close(model(x), dense(x))
    sparse.restore_(model)
    assert type(model[0]) is nn.ConvTranspose2d


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.LeakyReLU(0.1), nn.Tanh(), nn.GELU()],
                         ids=repr)
@pytest.mark.parametrize("kind", [nn.ConvTranspose1d, nn.ConvTranspose2d])
def test_saved_compiled_and_with_an_activation(always, runs, compiles, tmp_path, kind, activation):
    size = (6, 7)[:2 if kind is nn.ConvTranspose2d else 1]
    model, x, reference, report = optimized(torch.randn(2, 8, *size), nn.Sequential(
        thin_out(kind(8, 12, 4, stride=3, padding=1, groups=2)), activation))
    assert report.rows[0].activation
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        close(torch.compile(model, dynamic=True, fullgraph=True)(x), reference)
        exported = torch.export.export(model, (x,))
        close(exported.module()(x), reference)
        assert len(runs) == 3
        close(copy.deepcopy(model)(x), reference)
    sparse.save(model, tmp_path / "model.spjit")
    sparse.restore_(model)
    forget()
    compiles.clear()
    assert len(sparse.load_(model, tmp_path / "model.spjit").sparse) == 1
    assert not compiles
    with torch.no_grad():
        close(model(x), reference)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_operators_are_as_torch_asks(always, order):
    model, x, _, _ = optimized(torch.randn(2, 8, 5, 7), nn.Sequential(
        thin_out(nn.ConvTranspose2d(8, 12, 3, stride=2))))
    layer = model[0]
    sizes = ([2, 2], [0, 0], [0, 0], [1, 1], 1, "relu", layer.spjit_key)
    for given in (x.to(memory_format=order), x[0]):
        torch.library.opcheck(TRANSPOSED2D, (given, layer.weight, layer.bias, *sizes))
    model, x, _, _ = optimized(torch.randn(2, 8, 7), nn.Sequential(
        thin_out(nn.ConvTranspose1d(8, 12, 3, stride=2))))
    layer = model[0]
    for given in (x, x[0]):
        torch.library.opcheck(TRANSPOSED1D, (given, layer.weight, layer.bias, [2], [0], [1], [1], 1,
                                             "", layer.spjit_key))


def test_masks_of_prune_count_as_zeros(always, runs):
    layer = nn.ConvTranspose2d(8, 12, 4, stride=2)
    nn.utils.prune.random_unstructured(layer, "weight", 0.8)
    model, x, reference, report = optimized(torch.randn(2, 8, 5, 7), nn.Sequential(layer))
    assert report.rows[0].sparse, str(report)
    with torch.no_grad():
        close(model(x), reference)


def test_what_has_no_kernel_says_why(always):
    model = nn.ModuleList([thin_out(one) for one in (
        nn.Conv1d(8, 8, 3, groups=8), nn.Conv2d(8, 16, 3, groups=8),
        nn.ConvTranspose1d(8, 8, 3, groups=8), nn.ConvTranspose2d(8, 16, 3, groups=8),
        nn.Conv3d(8, 8, 3), nn.ConvTranspose3d(8, 8, (1, 3, 3)))])

    class All(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = model

        def forward(self, x):
            for layer in self.layers:
                layer(x[(..., *[0] * (5 - layer.weight.dim()))])
            return x

    rows = sparse.optimize_(All(), (torch.randn(2, 8, 5, 5, 5),)).rows

    depthwise = "it is depthwise: a filter has the taps of one channel, too few for a sparse kernel"
    assert [row.reason for row in rows] == [*[depthwise] * 4, *(
        f"there is no kernel for {kind}, of three dimensions; expected one or two"
        for kind in ("Conv3d", "ConvTranspose3d"))]
