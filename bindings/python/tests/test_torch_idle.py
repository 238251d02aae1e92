"""spjit.torch: channels that are constant, or that no layer reads, are not computed: where modules
show who reads them, and what a call then gives."""

from __future__ import annotations

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from spjit.torch import _passes, _swap  # noqa: E402
from torch import nn  # noqa: E402
from torch_idle_testing import ROWS, called, checked, linears, shorts, without  # noqa: E402, F401
from torch_testing import _seeded, always  # noqa: E402, F401

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


def images(padding=0, kind=nn.Conv2d, **options):
    return nn.Sequential(
        without(kind(4, 48, 3, padding=1, **options), rows=range(20)), nn.SiLU(),
        without(kind(48, 8, 3, padding=padding), columns=range(16, 24))).eval()


def test_rows_without_entries_and_columns_without_entries(shorts):
    model = linears()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = dict(model.named_parameters())

    report = checked(model, torch.randn(3, 16), shorts, [15, 24])

    first, second = report.removed
    assert (first.layer, first.rows, first.columns, first.folded) == ("0", 25, 0, 0)
    assert (second.layer, second.rows, second.columns) == ("2", 0, 25)
    assert 0 < second.folded < 20
    assert first.flops == 2 * 3 * 25 * 16 and second.flops == 2 * 3 * 25 * 24
    assert "removed from" in str(report)
    assert dict(model.named_parameters()).keys() == parameters.keys()
    assert all(one is parameters[name] for name, one in model.named_parameters())
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())


@pytest.mark.parametrize("activation", [
    nn.GELU, nn.SiLU, nn.Hardswish, nn.Sigmoid, nn.Tanh, nn.ELU, nn.Softplus, nn.Identity,
    nn.Dropout, lambda: nn.LeakyReLU(0.1), lambda: nn.Hardtanh(-2, 2)])
def test_activations_between(shorts, activation):
    checked(linears(activation), torch.randn(2, 3, 16), shorts, [15, 24])


def test_where_no_constant_moves_bits_are_the_same(shorts):
    checked(linears(bias=False), torch.randn(7, 16), shorts, [15, 24], exact=True)
    checked(linears(rows=()), torch.randn(16), shorts, [30, 24], exact=True)


def test_a_constant_makes_a_bias(shorts):
    model = linears(nn.Sigmoid, bias=False)
    model[2].bias = None
    report = checked(model, torch.randn(4, 16), shorts, [15, 24])
    assert report.removed[1].folded == 20 - 5  # 5 of those have no column


@pytest.mark.parametrize("x", [(2, 4, 9, 8), (4, 6, 7)])
def test_images(shorts, x):
    checked(images(), torch.randn(x), shorts, [32, 8])


def test_images_in_the_order_of_channels_last(shorts):
    model = images().to(memory_format=torch.channels_last)
    checked(model, torch.randn(2, 4, 9, 8).to(memory_format=torch.channels_last), shorts, [32, 8])


def test_signals(shorts):
    checked(images(kind=nn.Conv1d), torch.randn(2, 4, 20), shorts, [32, 8])


def test_borders_see_zeros_in_place_of_a_constant(shorts):
    """Of 48 channels 8 have no column, which stay with others to make whole blocks."""
    model = images(padding=1)
    checked(model, torch.randn(2, 4, 9, 8), shorts, [])
    without_bias = images(padding=1, bias=False)
    checked(without_bias, torch.randn(2, 4, 9, 8), shorts, [32, 8])


def test_a_chain_of_three(shorts):
    """Rows of the second layer that only read constants are constant; what its other idle rows read
    goes, too."""
    model = nn.Sequential(
        without(nn.Linear(16, 40), rows=range(10)), nn.GELU(),
        without(nn.Linear(40, 40)), nn.ReLU(), without(nn.Linear(40, 8), columns=range(4))).eval()
    with torch.no_grad():
        model[2].weight[4:9] = 0
        model[2].weight[4:9, :10] = 1
        model[2].weight[4:, 10:14] = 0
    checked(model, torch.randn(5, 16), shorts, [26, 31, 8])


def test_all_rows_without_entries(shorts):
    """One stays."""
    model = linears(rows=range(40), columns=())
    checked(model, torch.randn(3, 16), shorts, [1, 24])


@pytest.mark.parametrize("place", [0, 1])
def test_what_no_kernel_takes_is_dense_and_counted(shorts, place):
    model, x = linears(), torch.randn(3, 16)
    report = checked(model, x, shorts, [15, 24])
    y = called(model, x)
    layer = [model[0], model[2]][place]
    vars(layer.spjit_short)["_run"] = lambda *given: None

    torch.testing.assert_close(called(model, x), y)

    assert report.dense_calls == {str(2 * place): 1}


def test_rows_of_the_last_layer_stay(shorts):
    model = nn.Sequential(without(nn.Linear(16, 40), rows=ROWS), nn.ReLU()).eval()
    report = checked(model, torch.randn(3, 16), shorts, [])
    assert report.removed == []


def test_what_is_not_finite_stays(shorts):
    model = linears(columns=())
    with torch.no_grad():
        model[0].bias[5:7] = torch.tensor([float("inf"), float("nan")])
    sparse.optimize_(model, (torch.randn(3, 16),))
    called(model, torch.randn(3, 16))
    assert shorts[-2:] == [22, 24]


def test_without_exact_passes(shorts):
    model, x = linears(), torch.randn(3, 16)
    report = sparse.optimize_(model, (x,), exact_passes=False)
    called(model, x)
    assert shorts == [] and report.removed == []
    with pytest.raises(spjit.InvalidArgument, match="exact_passes is 2"):
        sparse.optimize_(model, (x,), exact_passes=2)


def test_with_released_weights_all_are_computed(shorts):
    report = sparse.optimize_(linears(), (torch.randn(3, 16),), release_dense=True)
    assert report.removed == [] and shorts == []


def test_what_is_slower_stays(shorts, monkeypatch):
    monkeypatch.setattr(_passes, "is_slower", lambda before, after: len(shorts) > 0)
    model, x = linears(), torch.randn(3, 16)
    report = sparse.optimize_(model, (x,))
    shorts.clear()
    called(model, x)
    assert len(report.sparse) == 2 and report.removed == [] and shorts == []


def test_what_is_whole_is_timed_without_looking_for_changes(shorts, monkeypatch):
    model, x = linears(), torch.randn(3, 16)
    seen = []

    def time_switched(switch, run, seconds):
        for is_short in (False, True, False):
            switch(is_short)
            run()
            seen.append((type(model), ["spjit_short" in vars(layer) and
                                       layer.spjit_short is not None
                                       for layer in (model[0], model[2])], len(shorts)))
        return 2.0, 1.0

    monkeypatch.setattr(_swap, "time_switched", time_switched)
    report = sparse.optimize_(model, (x,))

    assert len(report.removed) == 2 and model[0].spjit_short is not None
    kinds, shortened, calls = zip(*seen)
    assert shortened == ([False, False], [True, True], [False, False]) and calls == (0, 2, 2)
    assert kinds[0] is kinds[2]


# ---- What sees channels besides -------------------------------------------------------------


@pytest.mark.parametrize("change", [
    lambda model: model[1].register_forward_hook(lambda *_: None),
    lambda model: model[0].register_forward_hook(lambda *_: None),
    lambda model: model[2].register_forward_pre_hook(lambda *_: None),
])
def test_who_looks_at_modules_sees_all_channels(shorts, change):
    model, x = linears(), torch.randn(3, 16)
    change(model)
    report = sparse.optimize_(model, (x,))
    called(model, x)
    assert shorts == [] and report.removed == []


def _other_activation(model):
    model[1] = nn.Sigmoid()


def _other_slope(model):
    model[1].negative_slope = 0.7


def _other_layer(model):
    model[2] = nn.Linear(40, 24)


def _inserted(model):
    model.insert(1, nn.Tanh())


def _shorter(model):
    del model[2]


def _other_bias(model):
    with torch.no_grad():
        model[0].bias += 1


def _other_weight(model):
    state = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
    model.load_state_dict(state)


def _no_bias(model):
    model[0].bias = None


@pytest.mark.parametrize("change", [
    _other_activation, _other_slope, _other_layer, _inserted, _shorter, _other_bias, _other_weight,
    _no_bias])
def test_a_change_is_seen(shorts, change):
    model, x = linears(lambda: nn.LeakyReLU(0.1)), torch.randn(3, 16)
    plain = copy.deepcopy(model)
    sparse.optimize_(model, (x,))
    change(model)
    torch.manual_seed(1)
    change(plain)
    if change in (_other_layer, _other_weight):
        plain.load_state_dict(model.state_dict())
    shorts.clear()
    torch.testing.assert_close(called(model, x), called(plain, x), rtol=1e-4, atol=1e-4)
    assert shorts == []


def test_the_same_weights_again(shorts):
    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    y = called(model, x)
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    shorts.clear()
    assert torch.equal(called(model, x), y) and shorts == [15, 24]


def test_an_optimizer_that_writes_to_data(shorts):
    class Plain(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})

        def step(self):
            for parameter in self.param_groups[0]["params"]:
                parameter.data += 1

    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    plain = copy.deepcopy(model)
    sparse.restore_(plain)
    for each in (model, plain):
        Plain([each[0].bias]).step()
    torch.testing.assert_close(called(model, x), called(plain, x), rtol=1e-4, atol=1e-4)


def test_a_hook_later(shorts):
    """It sees all channels."""
    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    seen = []
    for at in range(3):
        hook = model[at].register_forward_hook(lambda _, given, y: seen.append(y.shape[-1]))
        called(model, x)
        hook.remove()
    assert seen == [40, 40, 24]
    shorts.clear()
    called(model, x)
    assert shorts == [15, 24]


def test_parts_of_a_sequence(shorts):
    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    shorts.clear()
    with torch.inference_mode():
        assert model[:2](x).shape == model[0](x).shape == (3, 40)
        assert nn.Sequential(*model[:2])(x).shape == (3, 40)
        assert model[2](model[1](model[0](x))).shape == (3, 24)
    assert shorts == []


def test_a_layer_that_is_used_twice(shorts):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = linears()
            self.first = self.block[0]

        def forward(self, x):
            return self.block(x).sum() + self.first(x)

    model, x = Both().eval(), torch.randn(3, 16)
    wanted = called(model, x)
    sparse.optimize_(model, (x,))
    torch.testing.assert_close(called(model, x), wanted, rtol=1e-4, atol=1e-4)
    assert shorts == []


def test_a_block_that_is_called_by_several(shorts):
    """Its own flow is the same in each call."""
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = linears()

        def forward(self, x):
            return self.block(x) + self.block(2 * x)

    checked(Twice().eval(), torch.randn(3, 16), shorts, [15, 24, 15, 24])


def test_a_forward_of_its_own(shorts):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, _, self.down = linears()

        def forward(self, x):
            return self.down(torch.relu(self.up(x)))

    report = checked(Own().eval(), torch.randn(3, 16), shorts, [])
    assert report.removed == []


# ---- Features of torch ----------------------------------------------------------------------


def test_gradients(shorts):
    model, x = linears(), torch.randn(3, 16)
    plain = copy.deepcopy(model)
    sparse.optimize_(model, (x,))
    shorts.clear()
    model.train(), plain.train()
    model(x).sum().backward(), plain(x).sum().backward()
    for one, other in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(one.grad, other.grad)
    assert shorts == []
    model.requires_grad_(False)
    model[2].bias.requires_grad_(True)
    model(x)
    assert shorts == []
    model.requires_grad_(False)(x)
    assert shorts == [15, 24]


def test_dropout_in_training(shorts):
    model, x = linears(nn.Dropout), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    shorts.clear()
    model.train()
    called(model, x)
    assert shorts == []
    model.eval()
    called(model, x)
    assert shorts == [15, 24]


def test_copies_compute_all(shorts):
    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    y = called(model, x)
    shorts.clear()
    memory = io.BytesIO()
    torch.save(model, memory)
    memory.seek(0)
    for other in (copy.deepcopy(model), copy.copy(model),
                  torch.load(memory, weights_only=False)):
        torch.testing.assert_close(called(other, x), y, rtol=1e-4, atol=1e-4)
        assert shorts == []
    assert torch.equal(called(model, x), y) and shorts == [15, 24]


def test_restore(shorts):
    model, x = linears(), torch.randn(3, 16)
    wanted = called(model, x)
    sparse.optimize_(model, (x,))
    sparse.restore_(model)
    assert torch.equal(called(model, x), wanted)
    assert all("spjit_short" not in vars(module) for module in model)
    checked(model, x, shorts, [15, 24])


def test_an_exception_puts_all_back(shorts, monkeypatch):
    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    y = called(model, x)
    with pytest.raises(RuntimeError):
        sparse.optimize_(model, (torch.randn(3, 15),))
    shorts.clear()
    assert torch.equal(called(model, x), y) and shorts == [15, 24]


def test_bad_input_is_torchs_error(shorts):
    model = linears()
    sparse.optimize_(model, (torch.randn(3, 16),))
    with pytest.raises(RuntimeError, match="16x40"):
        called(model, torch.randn(3, 15))


def test_other_batches_and_none(shorts):
    model = linears()
    plain = copy.deepcopy(model)
    sparse.optimize_(model, (torch.randn(3, 16),))
    for shape in ((0, 16), (1, 16), (16,), (2, 5, 16)):
        x = torch.randn(shape)
        torch.testing.assert_close(called(model, x), called(plain, x), rtol=1e-5, atol=1e-5)


def test_compiled_graphs_compute_all(shorts):
    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    y = called(model, x)
    shorts.clear()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(called(compiled, x), y, rtol=1e-5, atol=1e-5)
    with torch.inference_mode():
        made = torch.jit.trace(model, (x,), check_trace=False)
        torch.testing.assert_close(made(x), y, rtol=1e-5, atol=1e-5)
    assert shorts == []


def test_parameters_can_be_swapped(shorts):
    model, x = linears(), torch.randn(3, 16)
    sparse.optimize_(model, (x,))
    y = called(model, x)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})
        model.double().float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    torch.testing.assert_close(called(model, x), y, rtol=1e-5, atol=1e-5)
