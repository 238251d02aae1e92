"""spjit.torch: models that torch.export and torch.fx made, whose products are functions."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_testing import _seeded, always, close, runs, thin_out  # noqa: E402, F401

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


def exported(model, x, **named):
    return torch.export.export(model, (x,), **named).module()


def traced(model, x):
    return torch.fx.symbolic_trace(model)


MADE_BY = pytest.mark.parametrize("made_by", [exported, traced])


class Functions(nn.Module):
    """Calls functions with weights of its modules."""

    def __init__(self, bias=True):
        super().__init__()
        self.words = thin_out(nn.Embedding(70, 48))
        self.up = thin_out(nn.Linear(48, 96, bias))
        self.block = nn.Sequential(thin_out(nn.Linear(96, 48)))

    def forward(self, indices):
        x = self.words(indices)
        x = x + self.block(functional.relu(functional.linear(x, self.up.weight, self.up.bias)))
        return functional.linear(x, self.words.weight)


def checked(graph, x, reference, names):
    """These layers are sparse, kernels run for other sizes, too, and names are as they were."""
    parameters = dict(graph.named_parameters())
    with torch.inference_mode():
        report = sparse.optimize_(graph, x)
        assert [row.layer for row in report.sparse] == names, report
        close(graph(x), reference)
    after = dict(graph.named_parameters())
    assert list(after) == list(parameters)
    assert all(after[name] is parameters[name] for name in after)
    return report


@MADE_BY
@pytest.mark.parametrize("bias", [True, False])
def test_products_by_functions_become_layers(always, runs, made_by, bias):
    model, x = Functions(bias).eval(), torch.randint(0, 70, (2, 5))
    with torch.inference_mode():
        reference = model(x)
    graph = made_by(model, x)
    names = list(graph.state_dict())

    # torch.fx keeps the module Embedding, so no layer takes its weight.
    checked(graph, x, reference, ["words", "up", "block.0"] if made_by is exported
            else ["up", "block.0"])

    assert list(graph.state_dict()) == names
    runs.clear()
    with torch.inference_mode():
        graph(x)
        assert len(runs) == (3 if made_by is exported else 2)
        runs.clear()
        sparse.restore_(graph)
        close(graph(x), reference)
        assert not runs


def test_an_exported_model_takes_other_sizes(always, runs):
    model, x = Functions().eval(), torch.randint(0, 70, (2, 5))
    sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("tokens")}
    graph = exported(model, x, dynamic_shapes=(sizes,))

    sparse.optimize_(graph, x)

    with torch.inference_mode():
        for shape in ((1, 1), (7, 3), (4, 64)):
            indices = torch.randint(0, 70, shape)
            close(graph(indices), model(indices))
    assert runs


@MADE_BY
@pytest.mark.parametrize("layer, shape", [
    (nn.Conv2d(16, 24, 3, stride=(2, 1), padding=(1, 0), dilation=2), (2, 16, 15, 17)),
    (nn.Conv2d(16, 24, (3, 1), padding="same", groups=2, bias=False), (1, 16, 9, 8)),
    (nn.Conv1d(16, 24, 5, stride=3, padding=2), (2, 16, 33))])
def test_convolutions_by_functions_become_layers(always, runs, made_by, layer, shape):
    function = functional.conv2d if isinstance(layer, nn.Conv2d) else functional.conv1d

    class Convolves(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = thin_out(copy.deepcopy(layer))

        def forward(self, x):
            return function(x, self.own.weight, self.own.bias, layer.stride, layer.padding,
                            layer.dilation, layer.groups)

    model, x = Convolves().eval(), torch.randn(shape)
    graph = made_by(model, x)
    with torch.inference_mode():
        reference = model(x)

    checked(graph, x, reference, ["own"])

    assert runs


class _Odd(nn.Module):
    """Calls a layer, and a function that does not compute what the layer does."""

    def __init__(self, change):
        super().__init__()
        self.layer = thin_out(nn.Linear(48, 48))
        self.other = nn.Parameter(torch.randn(48))
        self.change = change
        if change == "a hook":
            self.layer.register_forward_hook(lambda module, given, y: y + 1)
        elif change == "another module's bias":
            self.layer.bias = None

    def forward(self, x):
        bias = self.other if self.change == "another module's bias" else self.layer.bias
        if self.change == "no bias":
            bias = None
        return self.layer(x) + functional.linear(x, self.layer.weight, bias)


def test_names_stay_in_their_order(always):
    graph = torch.fx.Graph()
    bias, weight = graph.get_attr("own.bias"), graph.get_attr("own.weight")
    graph.output(graph.call_function(functional.linear, (graph.placeholder("x"), weight, bias)))
    model = nn.Module()
    model.own = thin_out(nn.Linear(48, 48))
    module = torch.fx.GraphModule(model, graph)
    names = list(module.state_dict())
    assert names == ["own.bias", "own.weight"]

    report = sparse.optimize_(module, torch.randn(3, 48))

    assert [row.layer for row in report.sparse] == ["own"]
    assert list(module.state_dict()) == names


@pytest.mark.parametrize("change", ["a hook", "no bias", "another module's bias"])
def test_what_a_layer_would_not_compute_stays_a_function(always, runs, change):
    model, x = _Odd(change).eval(), torch.randn(3, 48)
    graph = traced(model, x)
    with torch.inference_mode():
        reference = model(x)

        sparse.optimize_(graph, x)
        runs.clear()
        close(graph(x), reference)

    assert len(runs) == 1
    assert functional.linear in [node.target for node in graph.graph.nodes]


def test_a_module_with_more_than_a_layer_has_stays(always, runs):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = thin_out(nn.Linear(48, 48)).weight
            self.register_buffer("scale", torch.tensor(3.0))

        def forward(self, x):
            return functional.linear(x, self.weight) * self.scale

    model, x = nn.Sequential(Scaled()).eval(), torch.randn(3, 48)
    graph = exported(model, x)
    before = graph.graph
    with torch.inference_mode():
        sparse.optimize_(graph, x)

        assert torch.equal(graph(x), model(x))
    assert graph.graph is before and not runs


def test_convolutions_that_differ_share_no_layer(always):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = thin_out(nn.Conv2d(16, 16, 3))

        def forward(self, x):
            y = functional.conv2d(x, self.own.weight, self.own.bias)
            z = functional.conv2d(x, self.own.weight, self.own.bias, padding=1)
            return y.sum() + z.sum() + functional.conv2d(y, self.own.weight, self.own.bias).sum()

    model, x = Twice().eval(), torch.randn(1, 16, 12, 12)
    graph = exported(model, x)
    sparse.optimize_(graph, x)

    assert [str(node.target) for node in graph.graph.nodes if node.op == "call_module"
            and node.target == "own"] == ["own", "own"]
    with torch.inference_mode():
        close(graph(x), model(x))


@pytest.mark.parametrize("how", ["the example", "the file"])
def test_an_exception_puts_graphs_back(always, tmp_path, how):
    model, x = Functions().eval(), torch.randint(0, 70, (2, 5))
    graph = exported(model, x)
    before, code, kinds = graph.graph, graph.code, [type(each) for each in graph.modules()]

    with pytest.raises((spjit.SpjitError, IndexError, AssertionError, RuntimeError)):
        if how == "the file":
            (tmp_path / "no.spjit").write_bytes(b"no bundle")
            sparse.load_(graph, tmp_path / "no.spjit")
        else:
            sparse.optimize_(graph, torch.full((2, 5), 99))

    assert graph.graph is before and graph.code == code
    assert [type(each) for each in graph.modules()] == kinds
    with torch.inference_mode():
        assert torch.equal(graph(x), model(x))


def test_kernels_of_an_exported_model_are_loaded(always, runs, tmp_path):
    model, x = Functions().eval(), torch.randint(0, 70, (2, 5))
    first = exported(model, x)
    sparse.optimize_(first, x)
    sparse.save(first, tmp_path / "model.spjit")
    second = exported(model, x)

    report = sparse.load_(second, tmp_path / "model.spjit")

    assert [row.layer for row in report.sparse] == ["words", "up", "block.0"]
    copied = copy.deepcopy(second)
    runs.clear()
    with torch.inference_mode():
        close(copied(x), model(x))
    assert len(runs) == 3


def test_a_graph_within_a_model_has_layers(always, runs):
    part = exported(Functions().eval(), torch.randint(0, 70, (2, 5)))
    model = nn.Sequential(part, thin_out(nn.Linear(70, 8)))
    x = torch.randint(0, 70, (2, 5))
    with torch.inference_mode():
        reference = model(x)

    report = checked(model, x, reference, ["0.words", "0.up", "0.block.0", "1"])

    assert report.sparse_share > 0.99
