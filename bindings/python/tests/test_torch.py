"""spjit.torch: layers of models become sparse kernels, and nothing else changes."""

from __future__ import annotations

import copy
import gc
import io
import json
import os
import pickle
import signal
import threading

import pytest

torch = pytest.importorskip("torch")

import spjit.torch as sparse  # noqa: E402
import spjit  # noqa: E402
from spjit.torch import _files, _kernels, _op, _optimize  # noqa: E402
from spjit.torch._layers import SparseConv2d, SparseLinear  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


def thin_out(layer, zeros=0.9):
    """Zeros in the weight."""
    with torch.no_grad():
        layer.weight.mul_(torch.rand_like(layer.weight) >= zeros)
    return layer


class Encoder(nn.Module):
    """Two sparse layers, one shared, one dense, a convolution."""

    def __init__(self):
        super().__init__()
        self.up = thin_out(nn.Linear(48, 96))
        self.mixed = thin_out(nn.Linear(96, 96, bias=False))
        self.down = nn.Linear(96, 48)

    def forward(self, x):
        y = self.mixed(nn.functional.gelu(self.up(x)))
        return self.down(self.mixed(y)) + x


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def always(monkeypatch):
    """Whatever is faster, kernels are chosen: tests are not about times."""
    monkeypatch.setattr(_optimize, "_is_slower", lambda before, after: False)


@pytest.fixture
def runs(monkeypatch):
    """Counts runs of kernels."""
    counted = []
    run = _op._run

    def count(*arguments):
        counted.append(1)
        return run(*arguments)

    monkeypatch.setattr(_op, "_run", count)
    return counted


def close(y, reference):
    torch.testing.assert_close(y, reference, rtol=1e-4, atol=1e-4)


def optimized(x=None, model=None):
    """A model and what it gave for x when it was dense."""
    model = (Encoder() if model is None else model).eval()
    x = torch.randn(2, 7, 48) if x is None else x
    with torch.no_grad():
        reference = model(x)
    report = sparse.optimize_(model, (x,))
    return model, x, reference, report


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
    monkeypatch.setattr(_optimize, "_is_slower", lambda before, after: True)

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


@pytest.mark.parametrize("shape", [(48,), (1, 48), (3, 48), (2, 1, 5, 48), (0, 48), (2, 0, 48)])
def test_takes_any_number_of_tokens(always, shape):
    model, _, _, _ = optimized()
    x = torch.randn(shape)

    with torch.no_grad():
        y = model(x)
        sparse.restore_(model)
        close(y, model(x))


def test_takes_inputs_that_are_not_contiguous(always, runs):
    model, _, _, _ = optimized()
    layer = model.up
    wide = torch.randn(6, 7, 60)

    with torch.no_grad():
        for x in (wide[..., 4:52], wide[::2, :, :48], wide[:, :, :48].transpose(0, 1),
                  torch.randn(48, 5).T, torch.randn(48).expand(4, 48)):
            runs.clear()
            y = layer(x)
            assert runs
            close(y, nn.functional.linear(x, layer.weight, layer.bias))


def test_wrong_types_and_shapes_say_what_torch_says(always):
    model, _, _, _ = optimized()
    for x in (torch.randn(3, 48, dtype=torch.float64), torch.zeros(3, 48, dtype=torch.int64),
              torch.randn(3, 47), torch.randn(())):
        with pytest.raises(RuntimeError) as wrong:
            model.up(x)
        with pytest.raises(RuntimeError) as dense:
            nn.functional.linear(x, model.up.weight, model.up.bias)
        assert str(wrong.value) == str(dense.value)


def test_has_gradients(always, runs):
    model, x, reference, _ = optimized()
    runs.clear()
    x.requires_grad_()

    y = model(x)
    y.sum().backward()

    assert not runs
    close(y.detach(), reference)
    assert model.up.weight.grad is not None
    assert x.grad is not None
    model.requires_grad_(False)
    model(x.detach())
    assert len(runs) == 3
    tangents = torch.func.jvp(model, (x.detach(),), (torch.ones_like(x),))[1]
    sparse.restore_(model)
    close(tangents, torch.func.jvp(model, (x.detach(),), (torch.ones_like(x),))[1])


def test_is_dense_in_autocast_and_other_types(always, runs):
    model, x, reference, _ = optimized()
    runs.clear()
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        assert not runs
        torch.testing.assert_close(y.float(), reference, rtol=0.1, atol=0.1)
        half = copy.deepcopy(model).bfloat16()
        torch.testing.assert_close(half(x.bfloat16()).float(), reference, rtol=0.1, atol=0.1)
        assert not runs
        double = copy.deepcopy(model).double()
        close(double(x.double()).float(), reference)
    _, _, _, report = optimized(x=x.bfloat16(), model=Encoder().bfloat16())
    assert "bfloat16" in report.rows[0].reason


def test_on_another_device_is_dense(always):
    model, x, reference, _ = optimized()

    y = copy.deepcopy(model).to("meta")(x.to("meta"))

    assert y.shape == reference.shape
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            model.to("cuda")


class Doubled(torch.Tensor):
    """Multiplies by twice of it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is nn.functional.linear:
            x, weight, bias = args
            return nn.functional.linear(x, 2 * weight.as_subclass(torch.Tensor), bias)
        return super().__torch_function__(function, types, args, kwargs or {})


def test_weights_of_other_kinds_are_torch_s(always, runs):
    model, x, _, _ = optimized()
    layer, runs[:] = model.mixed, []
    y = torch.randn(3, 96)
    dense = layer.weight.detach()
    with torch.no_grad():
        layer.weight = nn.Parameter(dense.to("meta"))
        assert layer(y).shape == (3, 96)  # as torch has it
        del layer.weight
        layer.weight = dense.as_subclass(Doubled)
        close(layer(y).as_subclass(torch.Tensor), nn.functional.linear(y, 2 * dense))
        with torch.inference_mode():
            del layer.weight
            layer.weight = nn.Parameter(dense.clone(), requires_grad=False)
            close(layer(y), nn.functional.linear(y, dense))
    assert not runs


def test_trained_weights_are_seen(always, runs):
    model, x, _, _ = optimized()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).square().mean().backward()
    optimizer.step()

    with torch.no_grad():
        y = model(x)
        sparse.restore_(model)
        close(y, model(x))


@pytest.mark.parametrize("assign", [False, True])
def test_load_state_dict_is_seen(always, runs, assign):
    model, x, _, _ = optimized()
    other = Encoder().eval()

    model.load_state_dict(other.state_dict(), assign=assign)

    with torch.no_grad():
        runs.clear()
        close(model(x), other(x))
        assert len(runs) == 3
        dense = {name: torch.randn_like(value) for name, value in other.state_dict().items()}
        model.load_state_dict(dense, assign=assign)
        other.load_state_dict(dense)
        runs.clear()
        close(model(x), other(x))
        assert not runs  # of weights without zeros


@pytest.mark.parametrize("copied", [
    copy.deepcopy,
    lambda model: pickle.loads(pickle.dumps(model)),
    lambda model: _through_file(model)], ids=["deepcopy", "pickle", "torch.save"])
def test_is_copied(always, runs, copied):
    model, x, reference, _ = optimized()

    other = copied(model)

    with torch.no_grad():
        runs.clear()
        assert torch.equal(other(x), model(x))
        assert len(runs) == 6
        other.up.weight.zero_()
        close(model(x), reference)
        assert not torch.allclose(other(x), reference)


def _through_file(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_kernels_go_with_the_model(always):
    model, _, _, _ = optimized()
    kernels = [next(iter(_kernels._bound[id(layer.weight)].kernels.values()))
               for layer in (model.up, model.mixed)]
    count = len(_kernels._shared)
    assert count >= len(kernels)
    del model, kernels

    gc.collect()

    assert len(_kernels._shared) <= count - 2


def test_gives_the_same_bits_for_any_batch_and_thread_count(always):
    model, _, _, _ = optimized()
    x = torch.randn(33, 48)
    layer = model.up
    with torch.no_grad():
        whole = layer(x)
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(layer(x), whole)
            assert torch.equal(layer(x[5:7]), whole[5:7])


def test_follows_the_threads_of_torch(always):
    model, x, reference, _ = optimized()
    with torch.no_grad():
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            close(model(x), reference)
    made = {threads for threads, *_ in _kernels._bound[id(model.up.weight)].kernels}
    assert {1, 2} <= made


def test_runs_in_several_threads(always):
    model, x, _, _ = optimized()
    with torch.no_grad():
        reference = model(x)
    wrong = []

    def work():
        with torch.no_grad():
            for _ in range(100):
                if not torch.equal(model(x), reference):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_runs_in_a_forked_child(always):
    torch.set_num_threads(2)
    model, _, _, _ = optimized()
    x = torch.randn(65, 48)
    with torch.no_grad():
        reference = model.up(x)

        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if torch.equal(model.up(x), reference) else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


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


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = thin_out(nn.Conv2d(8, 24, 3, padding=1))
        self.second = thin_out(nn.Conv2d(24, 24, (3, 5), stride=(2, 1), padding=(0, 2), groups=2,
                                         bias=False))
        self.third = thin_out(nn.Conv2d(24, 40, 1))
        self.fourth = thin_out(nn.Conv2d(40, 16, 3, dilation=2, padding="same"))

    def forward(self, x):
        return self.fourth(torch.relu(self.third(self.second(self.first(x)))))


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


def _arguments(layer, x):
    if isinstance(layer, SparseConv2d):
        return (x, layer.weight.detach(), None if layer.bias is None else layer.bias.detach(),
                list(layer.stride), list(layer.spjit_padding), list(layer.dilation), layer.groups,
                layer.spjit_key)
    return (x, layer.weight.detach(), None if layer.bias is None else layer.bias.detach(), "",
            layer.spjit_key)


def test_operators_pass_opcheck(always):
    model, _, _, _ = optimized()
    for layer, x in ((model.up, torch.randn(3, 48)), (model.mixed, torch.randn(2, 5, 96))):
        torch.library.opcheck(_op.LINEAR, _arguments(layer, x))
        torch.library.opcheck(_op.LINEAR, _arguments(layer, x.clone().requires_grad_()))
    images = Convolutions().eval()
    optimized(torch.randn(2, 8, 14, 17), images)
    x = torch.randn(2, 8, 9, 11)
    torch.library.opcheck(_op.CONV2D, _arguments(images.first, x))
    torch.library.opcheck(_op.CONV2D, _arguments(
        images.first, x.to(memory_format=torch.channels_last)))


def test_is_compiled_for_any_size_as_one_graph(always, runs):
    model, x, reference, _ = optimized()
    compiled = torch.compile(model, dynamic=True, fullgraph=True)

    with torch.no_grad():
        runs.clear()
        close(compiled(x), reference)
        assert len(runs) == 3
        for tokens in (3, 20):
            more = torch.randn(4, tokens, 48)
            close(compiled(more), model(more))
        other = Encoder().eval()
        model.load_state_dict(other.state_dict())
        close(compiled(x), other(x))
    model(x)
    close(compiled(x).detach(), other(x).detach())


def test_compiled_graphs_hash_weights_once(always, monkeypatch):
    model, x, _, _ = optimized()
    compiled = torch.compile(model, dynamic=True, fullgraph=True)
    with torch.no_grad():
        compiled(x)
        hashed = []
        monkeypatch.setattr(_kernels, "content_hash", lambda weight: hashed.append(1))
        compiled(x)
    assert not hashed


def test_is_exported_and_loaded(always, runs, tmp_path):
    model, x, reference, _ = optimized()
    tokens = torch.export.Dim("tokens", min=2, max=512)

    with torch.no_grad():
        program = torch.export.export(model, (x,), dynamic_shapes=({1: tokens},))
        torch.export.save(program, tmp_path / "model.pt2")
        loaded = torch.export.load(tmp_path / "model.pt2").module()
        runs.clear()
        close(loaded(x), reference)
        assert len(runs) == 3
        more = torch.randn(2, 40, 48)
        close(loaded(more), model(more))
    assert any("spjit.linear" in str(node.target) for node in program.graph.nodes)
    assert any("spjit.linear" in str(node.target)
               for node in program.run_decompositions().graph.nodes)


def test_is_traced(always, runs):
    model, x, reference, _ = optimized()
    with torch.no_grad():
        traced = torch.jit.trace(model, (x,), check_trace=False)
        close(traced(x), reference)
        close(torch.func.vmap(model)(x[None])[0], reference)


@pytest.mark.parametrize(("activation", "name"), [
    (nn.GELU(), "gelu"), (nn.GELU(approximate="tanh"), "gelu-tanh"), (nn.ReLU(), "relu"),
    (nn.SiLU(), "silu"), (nn.Tanh(), "")], ids=repr)
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


def test_an_activation_with_a_hook_or_of_two_layers_stays_by_itself(always):
    shared = nn.ReLU()
    model = nn.Sequential(thin_out(nn.Linear(48, 48)), shared, thin_out(nn.Linear(48, 48)), shared,
                          thin_out(nn.Linear(48, 48)), nn.ReLU())
    model[5].register_forward_hook(lambda *_: None)

    model, x, reference, report = optimized(torch.randn(5, 48), model)

    assert [row.activation for row in report.rows] == ["", "", ""]
    with torch.no_grad():
        close(model(x), reference)


@pytest.fixture
def compiles(monkeypatch):
    """Counts compilations."""
    counted = []
    compile_layer = _kernels.compile_layer
    for module in (_kernels, _files):
        monkeypatch.setattr(module, "compile_layer",
                            lambda *given: counted.append(1) or compile_layer(*given))
    return counted


def _forget():
    """As a new process."""
    _kernels._bound.clear()
    _kernels._shared.clear()


def _saved(tmp_path):
    torch.manual_seed(3)
    model, x, reference, _ = optimized(model=nn.Sequential(
        thin_out(nn.Linear(48, 96)), nn.GELU(), thin_out(nn.Linear(96, 48, bias=False)),
        nn.Linear(48, 48)))
    sparse.save(model, tmp_path / "model.spjit")
    plain = copy.deepcopy(model)
    sparse.restore_(plain)
    _forget()
    return plain, x, reference, tmp_path / "model.spjit"


def test_kernels_are_saved_and_loaded(always, runs, compiles, tmp_path):
    model, x, reference, path = _saved(tmp_path)
    compiles.clear()

    report = sparse.load_(model, path)

    assert [row.sparse for row in report.rows] == [True, True, False]
    assert report.rows[0].activation == "gelu"
    assert report.rows[0].kernel
    assert abs(report.rows[0].zeros - 0.9) < 0.05
    assert "no kernel" in report.rows[2].reason
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 2
    assert not compiles
    assert "2 of 3 layers are sparse" in str(report)
    sparse.save(model, path)
    assert sparse.load_(model, path).sparse


def test_convolutions_are_saved_and_loaded(always, runs, compiles, tmp_path):
    model = Convolutions().eval()
    model, x, reference, _ = optimized(torch.randn(2, 8, 14, 17), model)
    sparse.save(model, tmp_path / "c.spjit")
    sparse.restore_(model)
    _forget()
    compiles.clear()

    assert len(sparse.load_(model, tmp_path / "c.spjit").sparse) == 4

    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 4
    assert not compiles


def test_layers_with_other_weights_are_compiled_when_loaded(always, runs, compiles, tmp_path):
    model, x, _, path = _saved(tmp_path)
    with torch.no_grad():
        model[0].weight.mul_(2)
        reference = model(x)
    compiles.clear()

    report = sparse.load_(model, path)

    assert len(report.sparse) == 2
    assert len(compiles) == 1
    with torch.no_grad():
        close(model(x), reference)


def test_a_damaged_file_is_refused_and_changes_nothing(always, tmp_path):
    model, x, reference, path = _saved(tmp_path)
    whole = path.read_bytes()
    quarter = len(whole) // 4
    path.chmod(0o600)
    for damaged in (whole[:-1], whole[:100], b"", b"\0" * len(whole),
                    whole[:quarter] + bytes(2 * quarter) + whole[3 * quarter:]):
        path.write_bytes(damaged)
        with pytest.raises(spjit.IoError, match=str(path)):
            sparse.load_(model, path)
        assert [type(layer) for layer in model] == [nn.Linear, nn.GELU, nn.Linear, nn.Linear]
    with pytest.raises(spjit.IoError, match="none"):
        sparse.load_(model, tmp_path / "none")
    with torch.no_grad():
        close(model(x), reference)


def test_what_cannot_be_saved(always, tmp_path):
    model, _, _, _ = optimized()
    with pytest.raises(spjit.IoError, match="nowhere"):
        sparse.save(model, tmp_path / "nowhere" / "model.spjit")
    with pytest.raises(ValueError, match="call optimize_ first"):
        sparse.save(nn.Linear(3, 3), tmp_path / "dense.spjit")
    assert not list(tmp_path.iterdir())


def test_a_bundle_of_something_else_is_refused(always, tmp_path):
    model, _, _, _ = optimized()
    with spjit.BundleWriter(tmp_path / "other.spjit") as bundle:
        bundle.add("fc1", spjit.compile(model.up.weight.detach().numpy()))

    with pytest.raises(spjit.IoError, match="'fc1' is not of spjit.torch.save"):
        sparse.load_(model, tmp_path / "other.spjit")

    assert type(model.up) is SparseLinear


def test_a_file_for_another_cpu_is_compiled_again(always, compiles, tmp_path, monkeypatch):
    model, x, reference, path = _saved(tmp_path)
    compiles.clear()

    def refuse(*_, **__):
        raise spjit.NotSupported("this CPU lacks AVX-512")

    monkeypatch.setattr(spjit.Bundle, "load", refuse)
    report = sparse.load_(model, path)

    assert len(report.sparse) == 2
    assert len(compiles) == 2
    with torch.no_grad():
        close(model(x), reference)
