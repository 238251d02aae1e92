"""spjit.torch: the example, and what passes of the model leave as it was."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, Encoder, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


class Changes(nn.Module):
    """Changes whatever forward() can reach: what it is given, buffers, attributes, generators."""

    def __init__(self):
        super().__init__()
        self.layer = thin_out(nn.Linear(16, 16))
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("replaced", torch.zeros(3))
        self.hidden = None
        self.calls = 0
        self.seen = []
        self.unseen = torch.zeros(4)
        self.cache = [torch.zeros(4), {"steps": [0], "other": torch.Generator().manual_seed(6)}]
        self.numbers = np.zeros(4)
        self.pair = (np.zeros(2), torch.zeros(2))
        self.generator = torch.Generator().manual_seed(5)

    def forward(self, x, scale):
        x *= 2
        scale["by"] += 1
        assert self.count == self.calls < 3  # as in a buffer of three places
        self.mean.mul_(0.5).add_(x.mean(0))
        self.count += 1
        self.replaced = torch.ones(3)
        self.register_buffer("made", torch.ones(2), persistent=False)
        self.hidden = self.layer(x)
        self.calls += 1
        self.seen.append(1)
        self.unseen.data += 1
        assert not self.cache[0].any()
        assert not self.numbers.any()
        self.cache[0] += 1
        self.cache[1]["steps"].append(torch.rand(1, generator=self.cache[1]["other"]))
        self.numbers += 1
        self.pair[0][:] = 1
        self.pair[1].add_(1)
        noise = torch.rand(16) + torch.rand(16, generator=self.generator)
        self.train()
        return self.hidden * scale["by"] * noise * random.random() * np.random.rand()


def _everything(model):
    return ({name: value.clone() for name, value in model.named_buffers()},
            (model.hidden, model.calls, list(model.seen), model.unseen.clone(), model.training,
             model.layer.training, hasattr(model, "made"), model.generator.get_state().tolist(),
             str(model.cache[:1]), str(model.cache[1]["steps"]), str(model.numbers),
             str(model.pair), model.cache[1]["other"].get_state().tolist(),
             torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())))


def test_passes_leave_the_state_and_the_example_as_they_were(always):
    model, x, scale = Changes().eval(), torch.randn(5, 16), {"by": 1.0}
    given, mean = x.clone(), model.mean
    buffers, rest = _everything(model)

    report = sparse.optimize_(model, (x, scale))

    after, rest_after = _everything(model)
    assert len(report.sparse) == 1
    assert torch.equal(x, given)
    assert scale == {"by": 1.0}
    assert after.keys() == buffers.keys()
    assert all(torch.equal(after[name], buffers[name]) for name in buffers)
    assert model.mean is mean
    assert str(rest_after) == str(rest)


class Counts(nn.Module):
    """What forward() changes is in kinds of dict, and in generators of a module's own."""

    def __init__(self):
        super().__init__()
        self.layer = thin_out(nn.Linear(16, 16))
        self.calls = Counter(before=3)
        self.caches = defaultdict(list, {"first": [torch.zeros(2)]})
        self.ordered = OrderedDict(one=1, other=2)
        self.legacy = np.random.RandomState(5)

    def forward(self, x):
        self.calls.update(["before", "now"])
        self.caches["first"][0].add_(1)
        self.caches["later"].append(x)
        self.ordered["more"] = self.ordered.pop("one")
        return self.layer(x) * self.legacy.rand()

    def held(self):
        return str((self.calls, self.caches, list(self.ordered.items()), self.legacy.get_state()))


def test_kinds_of_dict_and_of_generators_come_back(always):
    model = Counts().eval()
    before = model.held()

    report = sparse.optimize_(model, torch.randn(5, 16))

    assert len(report.sparse) == 1
    assert model.held() == before
    assert (type(model.calls), type(model.caches)) == (Counter, defaultdict)


def test_what_fails_leaves_the_state_too():
    model, x = Changes().eval(), torch.randn(5, 16)
    buffers, rest = _everything(model)
    model.register_forward_hook(lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        sparse.optimize_(model, (x, {"by": 1.0}))

    after, rest_after = _everything(model)
    assert all(torch.equal(after[name], buffers[name]) for name in buffers)
    assert str(rest_after) == str(rest)


def test_each_pass_sees_the_strides_of_the_example_and_the_same_values(always):
    seen = []

    class Looks(Encoder):
        def forward(self, x, other, again):
            seen.append((x.stride(), other.stride(), x.sum().item(), again is x, x.requires_grad))
            assert other.expand_as(other) is not None
            return super().forward(x)

    wide = torch.randn(6, 7, 60)
    x = wide[::2, :, 4:52]

    sparse.optimize_(Looks().eval(), (x, torch.randn(48).expand(4, 48), x))

    assert set(seen) == {(x.stride(), (0, 1), x.sum().item(), True, False)}
    assert len(seen) > 4


def test_an_argument_that_cannot_be_copied_is_the_callers_own(always):
    class Own:
        def __deepcopy__(self, memo):
            raise TypeError("no")

    own, seen = Own(), []

    class Takes(Encoder):
        def forward(self, x, other):
            seen.append(other)
            return super().forward(x)

    sparse.optimize_(Takes().eval(), (torch.randn(2, 7, 48), own))

    assert all(other is own for other in seen)


def test_buffers_made_in_inference_mode_come_back():
    with torch.inference_mode():
        model = Changes().eval()
    x = torch.randn(5, 16)

    with torch.inference_mode():
        sparse.optimize_(model, (x, {"by": 1.0}))

    assert model.count == 0
    assert not model.mean.any()


class Named(Encoder):
    def forward(self, hidden, *, scale=1.0, mask=None):
        y = super().forward(hidden) * scale
        return y if mask is None else y * mask


@pytest.mark.parametrize("given", [
    lambda x, mask: {"example": {"hidden": x, "mask": mask}},
    lambda x, mask: {"example": {"hidden": x}, "kwargs": {"mask": mask}},
    lambda x, mask: {"example": x, "kwargs": {"mask": mask}},
    lambda x, mask: {"kwargs": {"hidden": x, "mask": mask}}], ids=range(4))
def test_takes_named_arguments(always, runs, given):
    model, x, mask = Named().eval(), torch.randn(2, 7, 48), torch.ones(48)
    with torch.no_grad():
        reference = model(x, mask=mask)

    report = sparse.optimize_(model, **given(x, mask))

    assert report.rows[0].input == (2, 7, 48)
    assert len(report.sparse) == 2
    with torch.no_grad():
        close(model(hidden=x, mask=mask), reference)


def test_takes_what_tokenizers_give(always):
    from collections import UserDict

    assert sparse.optimize_(Named().eval(), UserDict(hidden=torch.randn(2, 7, 48))).sparse


def test_refuses_an_argument_twice():
    x = torch.randn(2, 7, 48)

    with pytest.raises(spjit.InvalidArgument, match="example and kwargs both have 'hidden'"):
        sparse.optimize_(Named(), {"hidden": x}, kwargs={"hidden": x})


class FirstCall(nn.Module):
    """Hooks that remove themselves in the first call, as those that initialise by data do."""

    def __init__(self):
        super().__init__()
        self.layer = thin_out(nn.Linear(16, 16))
        self.register_buffer("scale", torch.ones(16))
        self.before = self.register_forward_pre_hook(self.first, with_kwargs=True)
        self.behind = self.register_forward_hook(self.last, always_call=True)

    def first(self, module, args, kwargs):
        self.scale.fill_(2)
        self.before.remove()

    def last(self, module, args, y):
        self.behind.remove()
        self.register_forward_pre_hook(lambda module, args: None)
        return y + 1

    def forward(self, x):
        return self.layer(x) * self.scale


@pytest.mark.parametrize("is_sparse", [True, False])
def test_hooks_that_remove_themselves_are_put_back(is_sparse, always, monkeypatch):
    model, x = FirstCall().eval(), torch.ones(4, 16)
    if not is_sparse:
        thin_out(model.layer, 0)
    held = [list(model._forward_pre_hooks), list(model._forward_hooks)]

    sparse.optimize_(model, (x,))

    assert [list(model._forward_pre_hooks), list(model._forward_hooks)] == held
    with torch.no_grad():
        y = model(x)
        close(y, torch.nn.functional.linear(x, model.layer.weight, model.layer.bias) * 2 + 1)
    assert model.before.id not in model._forward_pre_hooks
    assert not model._forward_pre_hooks_with_kwargs and not model._forward_hooks_always_called
