"""spjit.torch: calls of swapped layers: inputs, gradients, weights that change, copies, threads."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import threading
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch import _kernels  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, Encoder, optimized, runs, slow_compiler, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]


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
        with torch.no_grad(), pytest.raises(RuntimeError) as wrong:
            model.up(x)
        with pytest.raises(RuntimeError) as dense:
            nn.functional.linear(x, model.up.weight, model.up.bias)
        assert str(wrong.value) == str(dense.value)


@pytest.mark.parametrize("x", [None, "x", [1.0]])
def test_what_is_no_tensor_says_what_torch_says(always, x):
    model = nn.Sequential(thin_out(nn.Linear(48, 48)), nn.Unflatten(-1, (3, 4, 4)),
                          thin_out(nn.Conv2d(3, 8, 3)))
    model, _, _, _ = optimized(torch.randn(2, 48), model)
    for layer, kind in ((model[0], nn.Linear), (model[2], nn.Conv2d)):
        with torch.no_grad(), pytest.raises(TypeError) as wrong:
            layer(x)
        with pytest.raises(TypeError) as dense:
            kind.forward(layer, x)
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


def test_is_dense_in_autocast_and_types_without_kernels(always, runs):
    model, x, reference, _ = optimized()
    runs.clear()
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        assert not runs
        torch.testing.assert_close(y.float(), reference, rtol=0.1, atol=0.1)
        double = copy.deepcopy(model).double()
        close(double(x.double()).float(), reference)
        assert not runs
    _, _, _, report = optimized(x=x.double(), model=Encoder().double())
    assert report.rows[0].reason == "its weight is float64; expected float32, bfloat16, float16"


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


def _step(model, x, optimizer):
    model(x).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        y = model(x)
        dense = copy.deepcopy(model)
        sparse.restore_(dense)
        close(y, dense(x))
        return y


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_trained_weights_are_seen(always, runs, name, fused):
    model, x, reference, _ = optimized()
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, fused=fused)
    first = _step(model, x, optimizer)
    second = _step(model, x, optimizer)
    assert not torch.allclose(first, reference) and not torch.allclose(first, second)


def test_fused_steps_are_seen_under_masks_and_in_compiled_ones(always, runs):
    model = Encoder()
    nn.utils.prune.l1_unstructured(model.up, "weight", 0.9)
    model, x, reference, _ = optimized(model=model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    first = _step(model, x, optimizer)
    optimizer.step = torch.compile(optimizer.step, backend="eager")
    second = _step(model, x, optimizer)
    assert not torch.allclose(first, reference) and not torch.allclose(first, second)


class _ThroughData(torch.optim.Optimizer):
    """As those of other packages, changes what nothing counts."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad.sign(), alpha=-0.1)


@pytest.mark.parametrize("mask", [None, "hook", "parametrization"])
def test_steps_that_write_to_data_are_seen(always, runs, mask):
    model = Encoder()
    if mask == "hook":
        nn.utils.prune.l1_unstructured(model.up, "weight", 0.9)
    elif mask == "parametrization":
        sparsifier = torch.ao.pruning.WeightNormSparsifier(0.9, (1, 1), 1)
        sparsifier.prepare(model, [{"tensor_fqn": "up.weight"}])
        sparsifier.step()
    model, x, reference, _ = optimized(model=model)
    optimizer = _ThroughData(model.parameters())
    first = _step(model, x, optimizer)
    second = _step(model, x, optimizer)
    assert not torch.allclose(first, reference) and not torch.allclose(first, second)


def test_steps_count_changes_of_weights_that_are_known_alone(always):
    """Autograd refuses graphs of values that were changed, so others' parameters stay theirs."""
    model, x, _, _ = optimized()
    other = nn.Linear(4, 4)
    optimizer = _ThroughData([*model.parameters(), *other.parameters()])
    (model(x).sum() + other(torch.ones(4)).sum()).backward()
    before = other.weight._version, model.up.weight._version

    optimizer.step()

    assert (other.weight._version, model.up.weight._version) == (before[0], before[1] + 1)


def _dense(model):
    made = copy.deepcopy(model)
    sparse.restore_(made)
    return made


def test_weights_that_change_in_each_call_are_compiled_seldom(always, slow_compiler, tmp_path):
    """At most for a tenth of the time, with a word; meanwhile the layer runs dense."""
    model, x, _, report = optimized(torch.randn(4, 48), nn.Sequential(thin_out(nn.Linear(48, 96))))

    def change_and_call():
        with torch.no_grad():
            model[0].weight.mul_(1.25)
            close(model(x), _dense(model)(x))
        return report.dense_calls.get("0", 0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [change_and_call() for _ in range(13)] == [0] * 10 + [1, 2, 3]
        slow_compiler[0] = 20.1  # of which 10 x 0.2 s is a tenth
        with torch.no_grad():
            model(x)
        assert [change_and_call() for _ in range(2)] == [4, 5]
        sparse.save(model, tmp_path / "m.spjit")  # whatever that takes
        with torch.no_grad():
            close(model(x), _dense(model)(x))
    assert report.dense_calls == {"0": 5}
    assert sparse.load_(_dense(model), tmp_path / "m.spjit").rows[0].sparse
    assert len(caught) == 1 and "change so often" in str(caught[0].message)


@pytest.mark.filterwarnings("error:spjit.torch. weights of sparse layers change")
def test_layers_that_were_copies_are_each_compiled_at_once(always, runs, slow_compiler):
    """Copies have one key, until their weights are loaded."""
    layer = thin_out(nn.Linear(48, 48))
    model, x, _, report = optimized(torch.randn(2, 48), nn.Sequential(
        *(copy.deepcopy(layer) for _ in range(25))))
    trained = {name: torch.randn_like(value) * (value != 0) for name, value in
               model.state_dict().items()}

    model.load_state_dict(trained)
    runs.clear()
    with torch.no_grad():
        close(model(x), _dense(model)(x))

    assert (len(runs), report.dense_calls) == (25, {})


def test_parameters_that_are_replaced_in_each_call_are_compiled_seldom(always, slow_compiler):
    model, x, _, report = optimized(torch.randn(4, 48), nn.Sequential(thin_out(nn.Linear(48, 96))))
    with torch.no_grad(), pytest.warns(UserWarning, match="change so often"):
        for _ in range(13):
            model[0].weight = nn.Parameter(model[0].weight * 1.25)
            close(model(x), _dense(model)(x))
    assert report.dense_calls == {"0": 3}


def _other_memory(weight, changed):
    """Twice, so that the second may get what the first was in."""
    for _ in range(2):
        weight.data = changed(weight.data)


def _other_type(weight, changed):
    weight.data = weight.data.double()
    weight.data.copy_(changed(changed(weight.data)))
    weight.data = weight.data.float()


@pytest.mark.parametrize("change", [_other_memory, _other_type])
def test_other_memory_of_a_weight_is_seen(always, runs, change):
    """Also at an address where the weight was once."""
    for _ in range(20):
        layer = thin_out(nn.Linear(64, 64))
        model, x, _, _ = optimized(torch.randn(4, 64), nn.Sequential(layer))

        change(layer.weight, lambda weight: weight * (torch.rand_like(weight) > 0.3))

        with torch.no_grad():
            runs.clear()
            close(model(x), nn.functional.linear(x, layer.weight, layer.bias))
            assert len(runs) == 1


@pytest.mark.parametrize("leave", [lambda model, x: model.double()(x.double()),
                                   lambda model, _: sparse.restore_(model)],
                         ids=["another type", "restored"])
def test_the_memory_of_weights_is_not_kept(always, leave):
    model, x, _, _ = optimized()
    held = [weakref.ref(_kernels._bound[id(layer.weight)]) for layer in (model.up, model.mixed)]

    with torch.no_grad():
        leave(model, x)

    assert [bound() for bound in held] == [None, None]


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


def test_calls_that_record_gradients_of_weights_warn_once_and_are_counted(always, runs):
    model, x, reference, report = optimized()
    assert not report.dense_calls
    runs.clear()

    line = r"torch.inference_mode\(\):.* `model.requires_grad_\(False\)`"
    with pytest.warns(UserWarning, match=line) as said:
        for _ in range(3):
            close(model(x).detach(), reference)

    assert len(said) == 1
    assert not runs
    assert report.dense_calls == {"up": 3, "mixed": 6}
    assert "9 calls of 2 sparse layers ran dense since" in str(report)
    assert report.to_json().count('"mixed": 6') == 1
    model.requires_grad_(False)
    close(model(x), reference)
    with torch.inference_mode():
        close(model(x), reference)
    assert len(runs) == 6
    assert sum(report.dense_calls.values()) == 9


@pytest.mark.filterwarnings("error")
def test_training_and_gradients_of_inputs_do_not_warn(always):
    model, x, _, report = optimized()

    model.train()(x).sum().backward()
    model.eval().requires_grad_(False)
    model(x.clone().requires_grad_()).sum().backward()

    assert report.dense_calls == {"up": 2, "mixed": 4}


def test_calls_in_autocast_of_other_types_and_of_dense_weights_are_counted(always):
    model, x, _, report = optimized()
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model.up(x)
        assert report.dense_calls == {"up": 1}
        copy.deepcopy(model).double().up(x.double())
        assert report.dense_calls == {"up": 1}  # a copy counts for itself
        model.up.weight.uniform_()
        model.up(x)
        assert report.dense_calls == {"up": 2}
        model.mixed(torch.randn(3, 96))
    assert report.dense_calls == {"up": 2}
