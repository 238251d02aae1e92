"""spjit.torch: channels that are left out in graphs of torch.fx and torch.export, which show who
reads them."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_idle_testing import called, checked, linears, shorts, without  # noqa: E402, F401
from torch_testing import _seeded, always  # noqa: E402, F401

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


def exported(model, x):
    return torch.export.export(model, (x,)).module()


def traced(model, x):
    return torch.fx.symbolic_trace(model)


MADE_BY = pytest.mark.parametrize("made_by", [exported, traced])


class Graph(nn.Module):
    """One value that two layers read."""

    def __init__(self, function=functional.gelu, also=lambda y: 0):
        super().__init__()
        self.up, _, self.down = linears(columns=())
        self.other = without(nn.Linear(40, 24))
        self.function, self.also = function, also

    def forward(self, x):
        y = self.function(self.up(x))
        return self.down(y) + self.other(y) + self.also(y)


@MADE_BY
@pytest.mark.parametrize("function", [
    functional.gelu, torch.relu, lambda y: functional.leaky_relu(y, 0.1), lambda y: y.sigmoid(),
    lambda y: functional.dropout(functional.elu(y), 0.1, False),
    lambda y: functional.relu(y, inplace=True)])
def test_graphs(shorts, made_by, function):
    x = torch.randn(3, 16)
    checked(made_by(Graph(function).eval(), x), x, shorts, [20, 24, 24])


@MADE_BY
@pytest.mark.parametrize("also", [
    lambda y: y.mean(), lambda y: y[:, :24], lambda y: y.view(-1)[:1],
    lambda y: functional.softmax(y, -1)[:, :1]])
def test_what_else_reads_channels_keeps_them(shorts, made_by, also):
    x = torch.randn(3, 16)
    report = checked(made_by(Graph(also=also).eval(), x), x, shorts, [])
    assert report.removed == []


def test_in_place_of_a_value_with_another_reader(shorts):
    """The other one, too, reads what is there then."""
    class Changed(Graph):
        def forward(self, x):
            y = self.up(x)
            z = functional.relu(y, inplace=True)
            return self.down(z) + self.other(y)

    x = torch.randn(3, 16)
    checked(traced(Changed().eval(), x), x, shorts, [])


def test_a_layer_that_a_graph_calls_twice(shorts):
    class Twice(Graph):
        def forward(self, x):
            return self.down(torch.relu(self.up(x))) + self.down(torch.relu(self.up(2 * x)))

    x = torch.randn(3, 16)
    checked(traced(Twice().eval(), x), x, shorts, [])


def test_who_calls_layers_of_a_graph(shorts):
    """The graph's code alone gets fewer channels."""
    x = torch.randn(3, 16)
    graph = traced(Graph().eval(), x)
    wanted = called(graph, x)
    sparse.optimize_(graph, (x,))
    shorts.clear()
    with torch.inference_mode():
        assert graph.up(x).shape == (3, 40)
        torch.testing.assert_close(torch.fx.Interpreter(graph).run(x), wanted, rtol=1e-5, atol=1e-5)
    assert shorts == []
    called(graph, x)
    assert shorts == [20, 24, 24]


def test_a_graph_that_changes(shorts):
    x = torch.randn(3, 16)
    graph = traced(Graph().eval(), x)
    sparse.optimize_(graph, (x,))
    copied = copy.deepcopy(graph)
    shorts.clear()
    called(copied, x)
    for node in graph.graph.nodes:
        if node.target is functional.gelu:
            node.target = torch.tanh
    graph.recompile()
    y = called(graph, x)
    with torch.inference_mode():
        hidden = torch.tanh(graph.up(x))
        torch.testing.assert_close(y, graph.down(hidden) + graph.other(hidden))
    assert shorts == []


def test_a_module_of_a_graph_that_is_replaced(shorts):
    x = torch.randn(3, 16)
    graph = traced(nn.Sequential(*linears()).eval(), x)
    sparse.optimize_(graph, (x,))
    graph.get_submodule("1").register_forward_hook(lambda _, given, y: y + 1)
    shorts.clear()
    called(graph, x)
    setattr(graph, "1", nn.Sigmoid())
    called(graph, x)
    assert shorts == []


def test_what_is_written_to_is_no_constant(shorts):
    """A row of `down` that reads a constant alone would be a constant itself."""
    def ignored(y):
        functional.relu(y, inplace=True)

    def in_view(y):
        y.view(-1).add_(1)

    def of_a_dropout(y):
        functional.dropout(y, 0.1, False).add_(1)

    for write in (ignored, in_view, of_a_dropout, lambda y: y.mul_(2)):
        class Written(nn.Module):
            def __init__(self, write=write):
                super().__init__()
                self.up, _, self.down = linears(columns=())
                self.last = without(nn.Linear(24, 8))
                self.write = write
                with torch.no_grad():
                    self.up.bias[5:25] = -5
                    self.down.weight[3] = 0
                    self.down.weight[3, 7] = 1

            def forward(self, x):
                y = self.up(x)
                self.write(y)
                return self.last(self.down(y))

        x = torch.randn(3, 16)
        checked(traced(Written().eval(), x), x, shorts, [])


def test_graphs_that_change_the_mode(shorts):
    x = torch.randn(3, 16)
    graph = traced(Graph(torch.relu).eval(), x)
    node = next(node for node in graph.graph.nodes if node.target is torch.relu)
    with graph.graph.inserting_after(node):
        graph.graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.recompile()
    checked(graph, x, shorts, [])


def test_a_module_that_two_graphs_call(shorts):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = traced(Graph(torch.relu).eval(), None)
            self.last = without(nn.Linear(40, 8))

        def forward(self, x):
            return self.inner(x).sum() + self.last(torch.relu(self.inner.up(x)))

    class Leaves(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return name != ""

    model = Outer().eval()
    graph = torch.fx.GraphModule(model, Leaves().trace(model))
    x = torch.randn(3, 16)
    checked(graph, x, shorts, [])
