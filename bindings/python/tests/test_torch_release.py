"""Dense weights that optimize_(release_dense=True) frees: whatever reads them has their bits."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from spjit.torch import _optimize  # noqa: E402
from spjit.torch._release import is_released, release  # noqa: E402
from spjit.torch._released import BitmaskWeight, ReleasedParameter  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrize, prune  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, compiles, Convolutions, forget, runs, thin_out)

functional = nn.functional
pytestmark = [pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense"),
              pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


def _model():
    return nn.Sequential(thin_out(nn.Linear(48, 96)), nn.GELU(), nn.Identity(),
                         thin_out(nn.Linear(96, 48, bias=False))).eval()


def _bits(tensor):
    """As integers, in which -0 is not 0 and NaN is NaN."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def _state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def _same_bits(state, other):
    assert list(state) == list(other)
    for name, value in state.items():
        assert type(other[name]) is torch.Tensor
        assert other[name].dtype is value.dtype
        assert other[name].stride() == value.stride()
        assert torch.equal(_bits(value), _bits(other[name])), name


def _released(model=None, x=None):
    """A model, its input, and its state and result before."""
    model = _model() if model is None else model
    x = torch.randn(2, 7, 48) if x is None else x
    state = _state(model)
    with torch.no_grad():
        reference = model(x)
    report = sparse.optimize_(model, (x,), release_dense=True)
    return model, x, state, reference, report


def _run(model, x):
    with torch.inference_mode():
        return model(x).clone()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(7, 9), (1, 1), (3, 5, 3, 2)])
def test_a_bitmask_has_the_bits_of_any_weight(dtype, shape):
    weight = torch.randn(shape)
    weight[torch.rand(shape) < 0.6] = 0
    flat = weight.view(-1)
    for place, value in enumerate((-0.0, float("nan"), float("inf"), -float("inf"), 1e-45, 0.0)):
        flat[place % flat.numel()] = value
    weight = weight.to(dtype)

    orders = [weight]
    if len(shape) == 4:
        orders.append(weight.to(memory_format=torch.channels_last))
    for one in orders:
        dense = BitmaskWeight(one, "", {}).dense()
        assert dense.stride() == one.stride()
        assert torch.equal(_bits(dense), _bits(one))


def test_memory_is_freed_and_the_report_has_its_bytes(always, runs):
    model = _model()
    memory = [weakref.ref(model[i].weight.untyped_storage()) for i in (0, 3)]

    model, x, _, reference, report = _released(model)

    gc.collect()
    assert [one() for one in memory] == [None, None]
    assert [row.released for row in report.rows] == [True, True]
    assert all(is_released(model[i]) for i in (0, 3))
    kept = report.memory
    assert kept.weights_before == 4 * (2 * 48 * 96 + 96)
    assert kept.dense_after == 4 * 96
    assert kept.bitmasks == sum(model[i].weight.spjit_values.nbytes for i in (0, 3))
    assert kept.bitmasks < 0.2 * kept.weights_before
    assert kept.kernels > 0
    assert kept.weights_after == kept.dense_after + kept.bitmasks + kept.kernels
    assert 0 < kept.process_after <= kept.process_peak
    assert "its dense weight is released" in str(report)
    assert "(VmHWM)" in str(report)
    runs.clear()
    close(_run(model, x), reference)
    assert len(runs) == 2
    assert not report.dense_calls


def test_without_being_told_weights_stay(always):
    model = _model()
    report = sparse.optimize_(model, (torch.randn(2, 48),))
    assert report.memory is None
    assert not is_released(model[0])
    assert "released" not in str(report)


def test_the_state_has_the_bits(always):
    model, _, state, _, _ = _released()
    assert any((value == 0).logical_and(value.signbit()).any() for value in state.values())
    _same_bits(state, model.state_dict())
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    _same_bits(state, torch.load(file, weights_only=True))


def _reads(weight):
    plain = weight.detach()
    return [weight.sum().detach(), weight @ torch.eye(weight.shape[1]), weight[3], weight.t()[:, 2],
            weight.clone(), weight.half(), plain.contiguous(), torch.from_numpy(
                plain.numpy().copy()), torch.from_numpy(np.array(np.asarray(plain))),
            torch.tensor(weight.tolist()), weight.data, torch.cat([weight, weight]), abs(weight),
            weight.view(-1), weight.to_sparse().to_dense(), torch.stack(weight.unbind()),
            plain.double(), torch.count_nonzero(weight), copy.deepcopy(weight),
            copy.deepcopy(plain)]


def test_what_reads_a_weight_has_its_values(always):
    model, _, state, _, _ = _released()
    for name, layer in (("0", model[0]), ("3", model[3])):
        weight = layer.weight
        dense = nn.Parameter(state[f"{name}.weight"])
        assert isinstance(weight, nn.Parameter)
        assert (weight.shape, weight.dtype, weight.stride()) == (
            dense.shape, dense.dtype, dense.stride())
        assert weight.requires_grad
        assert weight is dict(model.named_parameters())[f"{name}.weight"]
        for read, expected in zip(_reads(weight), _reads(dense)):
            assert torch.equal(read, expected)
        assert str(dense.detach()) in str(weight)


@pytest.mark.parametrize("write", [
    lambda w: w.data.mul_(2), lambda w: w.detach().zero_(), lambda w: w.data.fill_(1),
    lambda w: w.data.copy_(torch.ones_like(w)), lambda w: w.data[0].zero_(),
    lambda w: w.data.t().zero_(), lambda w: w.data.view(-1).zero_(),
    lambda w: w.data.unbind()[0].zero_(), lambda w: w.data.__setitem__((0, 0), 1.0),
    lambda w: setattr(w, "data", torch.ones_like(w)), lambda w: nn.init.normal_(w),
    lambda w: torch.mul(w.detach(), 2, out=w.data), lambda w: torch._foreach_mul_([w.data], 2.0),
    lambda w: w.data.numpy().__setitem__(0, 1), lambda w: w.data_ptr(),
    lambda w: w.untyped_storage(), lambda w: torch.from_dlpack(w.data),
    lambda w: torch.utils.dlpack.to_dlpack(w.data), lambda w: w.share_memory_(),
    lambda w: torch.Tensor.data_ptr(w), lambda w: w.data.set_(torch.ones(3)),
    lambda w: w.data.resize_(1), lambda w: np.from_dlpack(w.data)])
def test_what_writes_to_a_weight_or_takes_its_address_is_refused(always, write):
    model, x, state, _, _ = _released()
    y = _run(model, x)
    with torch.no_grad(), pytest.raises((spjit.NotSupported, RuntimeError, ValueError)):
        write(model[0].weight)
    _same_bits(state, model.state_dict())
    assert torch.equal(_run(model, x), y)


def test_a_refused_write_says_what_to_do(always):
    model, _, _, _, _ = _released()
    with pytest.raises(spjit.NotSupported, match="changed in place: call spjit.torch.restore_"):
        model[0].weight.data.mul_(2)
    with pytest.raises(spjit.NotSupported, match="no address: weight.clone.. has its values"):
        model[0].weight.data_ptr()


def test_restore_makes_the_same_objects_dense_again(always):
    model = _model()
    weight = model[0].weight
    weight.note = "mine"
    weight.grad = torch.ones_like(weight)
    model, x, state, _, _ = _released(model)
    assert model[0].weight is weight
    assert type(weight) is ReleasedParameter

    sparse.restore_(model)

    assert model[0].weight is weight
    assert type(weight) is nn.Parameter
    assert type(model[0]) is nn.Linear
    assert weight.note == "mine"
    assert weight.grad.sum() == weight.numel()
    assert not [name for name in vars(model[0]) if name.startswith("spjit")]
    _same_bits(state, model.state_dict())
    assert weight.data_ptr()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, lambda p, lr: torch.optim.Adam(
    p, lr=lr, fused=True), lambda p, lr: torch.optim.AdamW(p, lr=lr, foreach=True)])
def test_training_is_refused_until_it_is_restored(always, kind):
    model = _model()
    optimizer = kind(model.parameters(), lr=0.1)
    model, x, state, reference, _ = _released(model)

    y = model(x)
    y.square().sum().backward()
    close(y, reference)
    with pytest.raises(spjit.NotSupported, match="restore_"):
        optimizer.step()
    gradient = model[0].weight.grad.clone()
    _same_bits({"": state["0.weight"]}, {"": model.state_dict()["0.weight"]})

    sparse.restore_(model)
    optimizer.zero_grad()
    model(x).square().sum().backward()
    close(model[0].weight.grad, gradient)
    optimizer.step()
    assert not torch.equal(model[0].weight, state["0.weight"])


def test_load_state_dict_has_new_weights(always, runs):
    model, x, _, _, _ = _released()
    other = _model()
    model.load_state_dict(other.state_dict())
    assert is_released(model[0])
    _same_bits(other.state_dict(), model.state_dict())
    runs.clear()
    close(_run(model, x), _run(other, x))
    assert len(runs) == 2

    third = _model()
    model.load_state_dict(third.state_dict(), assign=True)
    assert not is_released(model[0])  # a part of the caller's
    close(_run(model, x), _run(third, x))

    with pytest.raises(RuntimeError, match="size mismatch"):
        _released(_model())[0].load_state_dict(nn.Sequential(nn.Linear(3, 4)).state_dict())


def test_swapping_and_overwriting_conversions_work(always):
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model, x, _, reference, _ = _released()
        model.half().float()
        close(_run(model, x), functional.linear(functional.gelu(functional.linear(
            x, model[0].weight, model[0].bias)), model[3].weight).detach())
        model.load_state_dict(_model().state_dict())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert is_released(model[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_another_type_is_released_again(always, runs, dtype):
    model, x, state, _, report = _released()
    model.to(dtype)
    assert model[0].weight.dtype is dtype
    assert is_released(model[0])
    _same_bits({name: value.to(dtype) for name, value in state.items()}, model.state_dict())
    runs.clear()
    y = _run(model, x.to(dtype))
    assert len(runs) == 2
    sparse.restore_(model)
    torch.testing.assert_close(y, _run(model, x.to(dtype)), rtol=2e-2, atol=2e-2)


def test_types_and_devices_without_kernels_are_dense(always):
    model, x, state, reference, _ = _released()
    model.double()
    assert type(model[0].weight) is nn.Parameter
    close(_run(model, x.double()).float(), reference)
    model.float()
    close(_run(model, x), reference)
    model.to("meta")
    assert model[0].weight.device.type == "meta"


@pytest.mark.parametrize("copied", [
    copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)),
    lambda model: _through_torch(model)])
def test_copies_are_released_too(always, runs, copied):
    model, x, state, reference, _ = _released()
    model[0].weight.requires_grad_(False)
    other = copied(model)
    forget()
    assert is_released(other[0])
    assert not other[0].weight.requires_grad
    _same_bits(state, other.state_dict())
    runs.clear()
    assert torch.equal(_run(other, x), _run(model, x))
    assert len(runs) == 4
    sparse.restore_(other)
    assert is_released(model[0])
    with torch.no_grad():
        other[0].weight.zero_()
    _same_bits(state, model.state_dict())


def _through_torch(model):
    file = io.BytesIO()
    torch.save(model, file)
    dense = io.BytesIO()
    torch.save(_plain(model), dense)
    assert len(file.getvalue()) < len(dense.getvalue())
    file.seek(0)
    return torch.load(file, weights_only=False)


def _plain(model):
    made = copy.deepcopy(model)
    sparse.restore_(made)
    return made


def test_deepcopies_share_values_and_kernels(always, compiles):
    model, x, _, _, _ = _released()
    compiles.clear()
    other = copy.deepcopy(model)
    assert other[0].weight is not model[0].weight
    assert other[0].weight.spjit_values is model[0].weight.spjit_values
    _run(other, x)
    assert not compiles


def test_another_number_of_threads_compiles_from_the_bitmask(always, compiles, runs):
    model, x, _, reference, _ = _released()
    y = _run(model, x)
    compiles.clear()
    torch.set_num_threads(torch.get_num_threads() + 1)
    runs.clear()
    assert torch.equal(_run(model, x), y)
    assert len(compiles) == len(runs) == 2


def test_optimizing_again_starts_from_dense_weights(always):
    model, x, state, reference, _ = _released()
    report = sparse.optimize_(model, (x,))
    assert len(report.sparse) == 2
    assert not is_released(model[0])
    _same_bits(state, model.state_dict())
    assert sparse.optimize_(model, (x,), release_dense=True).memory.bitmasks > 0
    assert is_released(model[0])


def test_an_exception_leaves_it_released(always, monkeypatch):
    model, x, state, reference, _ = _released()

    def fails(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_optimize.Swap, "choose", fails)
    with pytest.raises(KeyboardInterrupt):
        sparse.optimize_(model, (x,))
    assert is_released(model[0])
    close(_run(model, x), reference)
    _same_bits(state, model.state_dict())


def test_kernels_are_saved_and_loaded(always, compiles, runs, tmp_path):
    model, x, state, reference, _ = _released()
    sparse.save(model, tmp_path / "model.spjit")
    plain = _plain(model)
    forget()
    compiles.clear()

    report = sparse.load_(plain, tmp_path / "model.spjit", release_dense=True)

    assert not compiles
    assert [row.released for row in report.rows] == [True, True]
    assert report.memory.bitmasks > 0
    runs.clear()
    close(_run(plain, x), reference)
    assert len(runs) == 2
    _same_bits(state, plain.state_dict())


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_convolutions_are_released(always, runs, order):
    x = torch.randn(2, 8, 14, 17)
    model = Convolutions().eval().to(memory_format=order)
    model, x, state, reference, report = _released(model, x.to(memory_format=order))
    assert [row.released for row in report.rows] == [True] * 4
    runs.clear()
    close(_run(model, x), reference)
    assert len(runs) == 4
    _same_bits(state, model.state_dict())


def test_other_convolutions_and_attention_are_released(always, runs):
    model = nn.Sequential(thin_out(nn.Conv1d(8, 12, 3)), thin_out(nn.ConvTranspose1d(12, 8, 3)))
    model, x, state, reference, report = _released(model.eval(), torch.randn(2, 8, 15))
    assert [row.released for row in report.rows] == [True, True]
    runs.clear()
    close(_run(model, x), reference)
    assert len(runs) == 2
    _same_bits(state, model.state_dict())

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.of = nn.MultiheadAttention(48, 4, batch_first=True)
            thin_out(self.of.out_proj)
            with torch.no_grad():
                self.of.in_proj_weight.mul_(torch.rand_like(self.of.in_proj_weight) > 0.9)

        def forward(self, x):
            return self.of(x, x, x)[0]

    model, x, state, reference, report = _released(Attention().eval())
    rows = {row.layer: row for row in report.rows}
    assert rows["of"].sparse
    assert rows["of"].dense_stays == "layers of this kind keep it"
    assert rows["of.out_proj"].released
    close(_run(model, x), reference)
    _same_bits(state, model.state_dict())
    with torch.no_grad():
        model.of.out_proj.weight.requires_grad_(True)
    close(model(x), reference)  # dense


class _Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = nn.Embedding(96, 48)
        self.out = thin_out(nn.Linear(48, 96))
        self.names.weight = self.out.weight
        self.own = thin_out(nn.Linear(48, 48))

    def forward(self, x):
        return self.out(self.own(x)) + self.names.weight.sum()


def _stays(report):
    return {row.layer: row.dense_stays for row in report.rows if row.sparse}


def test_weights_that_something_else_has_stay(always):
    model, x, _, reference, report = _released(_Tied().eval())
    assert _stays(report) == {"out": "another module has the same weight", "own": ""}
    assert "its dense weight stays: another module has the same weight" in str(report)
    close(_run(model, x), reference)

    model = _model()
    alias = model[0].weight.detach()
    flat = torch.zeros(2, 96 * 48)
    flat[0] = model[3].weight.detach().reshape(-1)
    model[3].weight.data = flat[0].view(48, 96)
    _, _, _, _, report = _released(model)
    assert _stays(report) == {"0": "another tensor is in the weight's memory",
                              "3": "the weight is a view of other memory"}
    with torch.no_grad():
        alias.zero_()
    assert not model[0].weight.any()


def test_weights_of_masks_and_hooks_and_shared_memory_stay(always):
    model = nn.Sequential(*(nn.Linear(48, 48) for _ in range(4))).eval()
    prune.l1_unstructured(model[0], "weight", 0.9)
    for layer in model[1:]:
        thin_out(layer)
    model[1].weight.register_hook(lambda gradient: gradient)
    model[2].weight.share_memory_()
    with torch.no_grad():
        model[3].weight.copy_(torch.randn(48, 48) * (torch.arange(48) % 2))
    model[3].weight.data = model[3].weight.data.half().float()
    model, x, _, reference, report = _released(model, torch.randn(3, 48))
    assert _stays(report) == {
        "0": "a mask or a parametrization makes the weight",
        "1": "the weight has hooks of gradients",
        "2": "the weight is in memory that processes share", "3": ""}
    close(_run(model, x), reference)


def test_functions_keep_the_weights_that_they_use(always):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = thin_out(nn.Linear(48, 48))

        def forward(self, x):
            return functional.linear(self.layer(x), self.layer.weight)

    model, x, _, reference, report = _released(Both().eval())
    assert report.rows[0].dense_stays == "functions use the weight, too"
    close(_run(model, x), reference)


def test_a_weight_without_enough_zeros_stays(always):
    layer = nn.Linear(64, 64)
    layer.__class__ = sparse._layers.SparseLinear
    layer.spjit_key = "x"
    assert release(layer) == "it is not smaller without its zeros"
    assert type(layer.weight) is nn.Parameter


def test_what_torch_refuses_to_swap_stays(always):
    model = _model()
    watcher = weakref.ref(model[0].weight)
    model, x, _, reference, report = _released(model)
    assert "swap_tensors refuses it" in _stays(report)["0"]
    assert _stays(report)["3"] == ""
    close(_run(model, x), reference)
    assert watcher() is model[0].weight


def test_a_weight_that_something_refers_to_is_not_rebuilt(always):
    model, x, state, reference, _ = _released()
    held = model(x)  # its graph has the weights
    with pytest.raises(spjit.NotSupported, match="delete results of calls with gradients"):
        sparse.restore_(model)
    close(_run(model, x), reference)
    _same_bits(state, model.state_dict())
    del held
    sparse.restore_(model)
    assert type(model[0].weight) is nn.Parameter
    _same_bits(state, model.state_dict())


def test_functions_that_get_a_released_weight_have_its_values(always):
    model, x, state, reference, _ = _released()
    first = functional.linear(x, state["0.weight"], state["0.bias"])
    close(functional.linear(x, model[0].weight, model[0].bias).detach(), first)
    close(torch.func.functional_call(model, dict(model.named_parameters()), (x,)), reference)
    close(torch.func.functional_call(model, state, (x,)), reference)
    with torch.no_grad():
        close(torch.func.vmap(model)(x), reference)
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(model(x).float(), reference, rtol=3e-2, atol=3e-2)
        traced = torch.fx.symbolic_trace(model)
        close(traced(x), reference)


def test_masks_come_later_and_parametrizations_after_restoring(always):
    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * weight

    model, x, state, reference, _ = _released()
    with pytest.raises(spjit.NotSupported, match="restore_"):
        parametrize.register_parametrization(model[3], "weight", Twice())
    close(_run(model, x), reference)

    prune.l1_unstructured(model[0], "weight", 0.95)
    y = _run(model, x)
    dense = nn.functional.gelu(functional.linear(x, model[0].weight, model[0].bias))
    close(y, functional.linear(dense, state["3.weight"]).detach())

    sparse.restore_(model)
    parametrize.register_parametrization(model[3], "weight", Twice())
    assert not [one for one in model.parameters() if type(one) is ReleasedParameter]
    close(_run(model, x), 2 * y)
    prune.remove(model[0], "weight")
    assert type(model[0].weight) is nn.Parameter


def test_compiled_models_run_it_between_their_graphs(always, runs):
    model, x, _, reference, _ = _released()
    compiled = torch.compile(model, dynamic=True)
    runs.clear()
    with torch.no_grad():
        close(compiled(x), reference)
    assert len(runs) == 2
    with torch.no_grad(), pytest.raises(Exception, match="restore_"):
        torch.compile(model, fullgraph=True)(x)
    with torch.no_grad(), pytest.raises(Exception, match="restore_"):
        torch.export.export(model, (x,))
    with torch.no_grad(), pytest.raises(spjit.NotSupported, match="restore_"):
        torch.jit.trace(model, x)
