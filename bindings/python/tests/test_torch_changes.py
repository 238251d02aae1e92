"""What a user does to layers besides training them, and inputs that are no plain tensors."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, compiles, optimized, runs, thin_out)

functional = nn.functional


def _dense(model):
    made = copy.deepcopy(model)
    sparse.restore_(made)
    return made


def _as_dense(model, *inputs):
    """The model gives what it gives without kernels."""
    with torch.no_grad():
        close(model(*inputs), _dense(model)(*inputs))


def _set(parameter, value):
    parameter.data = value


@pytest.mark.parametrize("change", [
    lambda layer: _set(layer.weight, layer.weight.data.t()),
    lambda layer: _set(layer.weight, layer.weight.data.view(8, 4, 32).transpose(0, 1).reshape(
        32, 32)),
    lambda layer: (_set(layer.weight, layer.weight.data[:20]),
                   _set(layer.bias, layer.bias.data[:20])),
    lambda layer: _set(layer.bias, layer.bias.data[:1]),
    lambda layer: _set(layer.bias, layer.bias.data[:1].expand(32)),
])
def test_a_view_of_a_weight_in_its_place_is_seen(always, change):
    model, x, _, _ = optimized(torch.randn(5, 32), nn.Sequential(thin_out(nn.Linear(32, 32))))
    change(model[0])
    _as_dense(model, x)


def test_a_view_that_torch_refuses_is_refused(always):
    model, x, _, _ = optimized(torch.randn(5, 32), nn.Sequential(thin_out(nn.Linear(32, 48))))
    model[0].weight.data = model[0].weight.data[:, :16]
    with torch.no_grad(), pytest.raises(RuntimeError, match="cannot be multiplied"):
        model(x)


def test_views_of_weights_of_convolutions_and_under_masks_are_seen(always):
    model, images, _, _ = optimized(torch.randn(2, 8, 9, 9), nn.Sequential(
        thin_out(nn.Conv2d(8, 16, 3, padding=1))))
    model[0].weight.data = model[0].weight.data.transpose(2, 3)
    _as_dense(model, images)

    masked = nn.Sequential(nn.Linear(32, 32))
    nn.utils.prune.l1_unstructured(masked[0], "weight", 0.9)
    _, x, _, _ = optimized(torch.randn(5, 32), masked)
    masked[0].weight_orig.data = masked[0].weight_orig.data.t()
    _as_dense(masked, x)


def _replaced_forward(layer):
    def forward(self, x, weight, bias):
        return functional.conv2d(functional.pad(x, (1, 1, 1, 1), mode="circular"), weight, bias)

    layer._conv_forward = forward.__get__(layer)


@pytest.mark.parametrize("change", [
    lambda layer: setattr(layer, "padding", (0, 2)), lambda layer: setattr(layer, "padding", 0),
    lambda layer: setattr(layer, "padding", "valid"), lambda layer: setattr(layer, "stride", 2),
    lambda layer: setattr(layer, "dilation", (2, 1)),
    lambda layer: setattr(layer, "padding_mode", "circular"), _replaced_forward])
@pytest.mark.parametrize("padding", [1, "same"])
def test_changed_attributes_of_a_convolution_are_seen(always, change, padding):
    model = nn.Sequential(thin_out(nn.Conv2d(8, 16, 3, padding=padding)), nn.ReLU())
    _, images, _, report = optimized(torch.randn(2, 8, 12, 12), model)
    change(model[0])
    if padding == "same" and model[0].stride == 2:
        return  # which torch refuses
    _as_dense(model, images)
    is_other = model[0].padding_mode != "zeros" or "_conv_forward" in vars(model[0])
    assert report.dense_calls == ({"0": 1} if is_other else {})


def test_numbers_for_all_dimensions_are_sizes(always, runs):
    model = nn.Sequential(thin_out(nn.Conv2d(8, 16, 3)), thin_out(nn.Conv1d(8, 16, 3)))
    for layer in model:
        layer.padding, layer.stride, layer.dilation = 1, 2, 1
    for layer, x in zip(model, (torch.randn(2, 8, 12, 12), torch.randn(2, 8, 12))):
        _, _, reference, _ = optimized(x, nn.Sequential(layer))
        runs.clear()
        with torch.no_grad():
            close(layer(x), reference)
        assert runs


def test_a_replaced_convolution_has_its_reason(always):
    model = nn.Sequential(thin_out(nn.Conv2d(8, 16, 3)))
    _replaced_forward(model[0])
    _, images, reference, report = optimized(torch.randn(2, 8, 9, 9), model)
    assert report.rows[0].reason == "its _conv_forward() was replaced"
    with torch.no_grad():
        close(model(images), reference)


def _nested(layout):
    return torch.nested.nested_tensor([torch.randn(2, 32), torch.randn(5, 32)], layout=layout)


class _Wrapped(torch.Tensor):
    """Which knows torch's own operators alone, as DTensor does."""

    @staticmethod
    def __new__(cls, tensor):
        return torch.Tensor._make_wrapper_subclass(cls, tensor.shape, dtype=tensor.dtype)

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function.namespace != "aten":
            return NotImplemented
        plain = [one.tensor if isinstance(one, cls) else one for one in args]
        return cls(function(*plain, **(kwargs or {})))


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_run_dense(always, layout):
    x = _nested(layout)
    model, _, _, report = optimized(torch.randn(5, 32), nn.Sequential(
        thin_out(nn.Linear(32, 48)), nn.ReLU(), thin_out(nn.Linear(48, 16))))
    with torch.no_grad():
        wanted = _dense(model)(x).unbind()
        for y, reference in zip(model(x).unbind(), wanted):
            close(y, reference)
        assert report.dense_calls == {"0": 1, "2": 1}
        if layout is torch.jagged:
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
            for y, reference in zip(compiled(x).unbind(), wanted):
                close(y, reference)


def test_tensors_with_operators_of_their_own_run_dense(always):
    model, x, reference, report = optimized(torch.randn(5, 32), nn.Sequential(
        thin_out(nn.Linear(32, 48)), nn.ReLU()))
    with torch.no_grad():
        close(model(_Wrapped(x)).tensor, reference)
        model[0].weight = nn.Parameter(_Wrapped(model[0].weight.data), requires_grad=False)
        close(model(x).tensor, reference)
    assert report.dense_calls == {"0": 2}


class _Twice(torch.Tensor):
    """Whose products are twice what they are, by nn.functional's names."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        y = super().__torch_function__(function, types, args, kwargs or {})
        return 2 * y if function in _PRODUCTS else y


_PRODUCTS = (nn.functional.linear, nn.functional.conv1d, nn.functional.conv2d)
_LAYERS = {"linear": ((5, 32), lambda: nn.Linear(32, 48)),
           "conv1d": ((2, 8, 9), lambda: nn.Conv1d(8, 16, 3)),
           "conv2d": ((2, 8, 9, 9), lambda: nn.Conv2d(8, 16, 3))}


@pytest.mark.parametrize("kind", _LAYERS)
def test_tensors_with_functions_of_their_own_run_dense(always, kind):
    shape, make = _LAYERS[kind]
    model, x, reference, report = optimized(torch.randn(shape),
                                            nn.Sequential(thin_out(make()), nn.Tanh()))
    given = x.as_subclass(_Twice)
    with torch.no_grad():
        wanted = _dense(model)(given)
        assert not torch.allclose(wanted, reference)
        torch.testing.assert_close(model(given), wanted)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(given), wanted)
    assert report.dense_calls == {"0": 1}


class _Modes(torch.overrides.TorchFunctionMode):
    """Makes products twice what they are."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        y = function(*args, **(kwargs or {}))
        return 2 * y if function in _PRODUCTS else y


@pytest.mark.parametrize("kind", _LAYERS)
def test_modes_of_functions_see_layers(always, kind):
    shape, make = _LAYERS[kind]
    model, x, _, report = optimized(torch.randn(shape), nn.Sequential(thin_out(make()), nn.Tanh()))
    with torch.no_grad(), _Modes():
        wanted = _dense(model)(x)
        torch.testing.assert_close(model(x), wanted)
    assert report.dense_calls == {"0": 1}


@pytest.mark.parametrize("kind", _LAYERS)
def test_a_default_device_leaves_layers_sparse(always, runs, kind):
    """And does not see what they ask of tensors."""
    shape, make = _LAYERS[kind]
    model, x, reference, report = optimized(torch.randn(shape), nn.Sequential(thin_out(make())))
    runs.clear()
    with torch.no_grad(), torch.device("cpu"):
        close(model(x), reference)
        assert len(runs) == 1
        with torch.device("meta"):  # of new tensors
            close(model(x), reference)
    assert len(runs) == 2 and not report.dense_calls


class _Duck:
    """No tensor, but functions of torch take it for one."""

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return "its own" if function in _PRODUCTS else NotImplemented


def test_what_is_like_a_tensor_is_its_own(always):
    model, x, _, _ = optimized(torch.randn(5, 32), nn.Sequential(thin_out(nn.Linear(32, 48))))
    assert model(_Duck(x)) == "its own"


@pytest.mark.filterwarnings("ignore:.*(nested tensors|Sparse CSR):UserWarning")
@pytest.mark.parametrize(("make", "kind"), [
    (lambda: torch.randn(5, 32).as_subclass(_Twice), "_Twice (strided, not nested)"),
    (lambda: _nested(torch.strided), "Tensor (strided, nested)"),
    (lambda: _nested(torch.jagged), "NestedTensor (jagged, nested)"),
    (lambda: torch.randn(5, 32).relu().to_sparse(), "Tensor (sparse_coo, not nested)"),
    (lambda: torch.randn(5, 32).relu().to_sparse_csr(), "Tensor (sparse_csr, not nested)"),
])
def test_examples_that_no_kernel_takes_have_their_reason(always, make, kind):
    model = nn.Sequential(thin_out(nn.Linear(32, 48))).eval()
    report = sparse.optimize_(model, make())
    assert report.rows[0].reason == f"its input is a {kind}; expected a plain dense tensor"


def test_a_model_without_memory_gives_shapes(always):
    model, x, _, _ = optimized(torch.randn(5, 32), nn.Sequential(
        thin_out(nn.Linear(32, 48)), nn.ReLU()))
    with torch.no_grad():
        y = model.to("meta")(x.to("meta"))
    assert y.device.type == "meta" and y.shape == (5, 48)


@pytest.mark.parametrize("make", [
    lambda data: torch._neg_view(data), lambda data: torch._neg_view(data.clone())])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_negated_views_in_place_of_parameters_are_seen(always, make, name):
    model, x, _, _ = optimized(torch.randn(5, 32), nn.Sequential(thin_out(nn.Linear(32, 32))))
    conv, images, _, _ = optimized(torch.randn(2, 8, 9, 9),
                                   nn.Sequential(thin_out(nn.Conv2d(8, 16, 3, padding=1))))
    for changed, given in ((model, x), (conv, images)):
        parameter = getattr(changed[0], name)
        with torch.inference_mode():
            changed(given)
        parameter.data = make(parameter.data)
        assert parameter.is_neg()
        _as_dense(changed, given)
        with torch.inference_mode():
            close(changed(given), _dense(changed)(given))


def test_a_negated_weight_has_its_reason(always):
    layer = thin_out(nn.Linear(32, 32))
    layer.weight.data = torch._neg_view(layer.weight.data)
    row, = sparse.optimize_(nn.Sequential(layer), torch.randn(5, 32), budget=0).rows
    assert "negated" in row.reason and not row.sparse


@pytest.mark.parametrize("also_attribute", [False, True])
def test_a_weight_of_other_taps_has_the_padding_that_is_the_same(always, also_attribute):
    for kind, size in ((nn.Conv1d, (5,)), (nn.Conv2d, (5, 5))):
        images = torch.randn(2, 8, *(9,) * len(size))
        model, _, _, _ = optimized(images, nn.Sequential(
            thin_out(kind(8, 16, 3, padding="same"))))
        model[0].weight.data = thin_out(kind(8, 16, 5)).weight.data
        if also_attribute:
            model[0].kernel_size = size
        _as_dense(model, images)


def test_an_element_of_a_list_of_sizes_that_changes_is_seen(always):
    layer = thin_out(nn.Conv2d(8, 16, 3, padding=1))
    layer.padding = [1, 1]
    model, images, _, _ = optimized(torch.randn(2, 8, 9, 9), nn.Sequential(layer))
    layer.padding[0] = 2
    _as_dense(model, images)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("make", [
    lambda layer: nn.utils.prune.l1_unstructured(layer, "weight", 0.95),
    nn.utils.weight_norm, nn.utils.spectral_norm])
def test_a_hook_that_makes_the_weight_anew_makes_its_layer_dense(always, runs, compiles, make):
    """Not compiled in each call."""
    model, x, _, report = optimized()
    make(model.up)
    model.eval()
    compiles.clear()
    runs.clear()
    with torch.no_grad():
        y = model(x)
    assert report.dense_calls == {"up": 1} and len(runs) == 2 and not compiles
    sparse.restore_(model)
    with torch.no_grad():
        close(y, model(x))


def test_masks_that_are_taken_off_leave_a_sparse_layer(always, runs):
    model, x, _, report = optimized()
    nn.utils.prune.l1_unstructured(model.up, "weight", 0.95)
    nn.utils.prune.remove(model.up, "weight")
    runs.clear()
    _as_dense(model, x)
    assert len(runs) == 3 and not report.dense_calls


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_weight_that_a_hook_makes_has_its_reason(always):
    model = nn.Sequential(nn.utils.weight_norm(thin_out(nn.Linear(48, 96))))
    report = sparse.optimize_(model, torch.randn(2, 48))
    assert [row.reason for row in report.rows][0] == (
        "a hook makes its weight anew in each call: WeightNorm")


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d])
def test_sizes_of_numpy_are_numbers(always, runs, tmp_path, kind):
    size = np.int64
    layer = thin_out(kind(8, 16, 3, padding=size(1), stride=size(2), groups=size(2)))
    x = torch.randn(2, 8, *[12] * (layer.weight.dim() - 2))
    model, _, reference, report = optimized(x, nn.Sequential(layer))
    assert report.rows[0].sparse
    sparse.save(model, tmp_path / "model")
    sparse.restore_(model)
    assert sparse.load_(model, tmp_path / "model").rows[0].sparse
    for padding in (size(3), torch.tensor(2)):
        layer.padding = padding
        runs.clear()
        _as_dense(model, x)
        assert len(runs) == 1


def test_other_biases_are_torch_s(always):
    model, x, _, _ = optimized(torch.randn(96, 48))
    layer = model.up
    with torch.no_grad():
        layer.bias = nn.Parameter(torch.randn(96, 1))  # to each token, where there are 96
        close(layer(x), functional.linear(x, layer.weight, layer.bias))
        layer.bias = nn.Parameter(torch.empty(96, device="meta"))
        with pytest.raises(RuntimeError, match="meta"):
            layer(x)


def test_an_import_within_autocast_leaves_autocast_dense():
    code = """
import torch
from torch import nn
with torch.autocast("cpu", dtype=torch.bfloat16):
    from spjit.torch import _dispatch
x, weight = torch.ones(2, 48), torch.ones(96, 48)
with torch.no_grad():
    assert _dispatch.is_plain(x, weight, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not _dispatch.is_plain(x, weight, None)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.fixture
def swaps():
    """.to() and load_state_dict() put other tensors in the place of parameters."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def test_parameters_may_be_swapped(always, runs, swaps):
    model, x, reference, _ = optimized(model=nn.Sequential(thin_out(nn.Linear(48, 96)), nn.ReLU()))
    other = _dense(model)
    with torch.no_grad():
        other[0].weight *= 2
        model.double()
        close(model(x.double()).float(), reference)
        model.float()
        close(model(x), reference)
        model.load_state_dict(other.state_dict())
        runs.clear()
        close(model(x), other(x))
    assert len(runs) == 1
