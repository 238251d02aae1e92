"""spjit.torch: the operators in graphs of torch: opcheck, compile, export, trace."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from spjit.torch import _kernels, _op  # noqa: E402
from spjit.torch._layers import SparseConv2d  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, Convolutions, Encoder, optimized, runs)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]


def _arguments(layer, x):
    if isinstance(layer, SparseConv2d):
        return (x, layer.weight.detach(), None if layer.bias is None else layer.bias.detach(),
                list(layer.stride), list(layer.spjit_padding), list(layer.dilation), layer.groups,
                layer.spjit_activation, layer.spjit_key)
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
    for one in (x[0], x.to(memory_format=torch.channels_last)[0]):  # [channels, height, width]
        torch.library.opcheck(_op.CONV2D, _arguments(images.first, one))


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
