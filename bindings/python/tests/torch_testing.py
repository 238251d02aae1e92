"""Models and fixtures of the tests of spjit.torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch import _candidates, _kernels, _op, _passes  # noqa: E402
from torch import nn  # noqa: E402


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


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(7)
    torch.compiler.reset()  # It compiles a function eight times a process at most.
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def always(monkeypatch):
    """Whatever is faster, kernels are chosen: tests are not about times."""
    monkeypatch.setattr(_passes, "is_slower", lambda before, after: False)


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


@pytest.fixture
def compiles(monkeypatch):
    """Counts compilations."""
    counted = []
    compile_layer = _kernels.compile_layer
    for module in (_kernels, _candidates):
        monkeypatch.setattr(module, "compile_layer",
                            lambda *given: counted.append(1) or compile_layer(*given))
    return counted


@pytest.fixture
def slow_compiler(monkeypatch):
    """Time that passes in compilations alone, a list of one number; 0.2 s in each."""
    now, compile_layer = [0.0], _kernels.compile_layer

    def compiled(*given):
        now[0] += 0.2
        return compile_layer(*given)

    monkeypatch.setattr(_kernels, "compile_layer", compiled)
    monkeypatch.setattr(_kernels, "_clock", lambda: now[0])
    return now


def forget():
    """As a new process."""
    _kernels._bound.clear()
    _kernels._shared.clear()
