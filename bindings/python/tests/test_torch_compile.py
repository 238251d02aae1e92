"""spjit.torch: the operators in graphs of torch: opcheck, compile, export, trace."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from spjit.torch import _kernels, _op  # noqa: E402
from spjit.torch._layers import SparseConv1d, SparseConv2d  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, Convolutions, Encoder, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]


@pytest.mark.parametrize("wrapped", [False, True])
def test_script_says_restore(always, wrapped):
    model, x, reference, _ = optimized()
    model = nn.Sequential(model) if wrapped else model

    with pytest.raises(spjit.NotSupported) as error:
        torch.jit.script(model)

    assert str(error.value) == ("torch.jit.script does not know sparse layers: call "
                                "spjit.torch.restore_(model) before")
    with torch.no_grad():
        close(model(x), reference)
        sparse.restore_(model)
        model = nn.Sequential(nn.Sequential(thin_out(nn.Linear(48, 8)), nn.ReLU())).eval()
        sparse.optimize_(model, x)
        with pytest.raises(spjit.NotSupported, match="restore_"):
            torch.jit.script(model)


@pytest.mark.parametrize("how", ["whole", "a layer", "in place"])
def test_a_compiled_model_is_optimized_without_compiling_passes(always, how):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    model = nn.Sequential(thin_out(nn.Linear(48, 96)), nn.ReLU(), thin_out(nn.Linear(96, 48)))
    model, x = model.eval(), torch.randn(5, 48)
    with torch.no_grad():
        reference = model(x)
    compiled = model
    if how == "whole":
        compiled = torch.compile(model, backend=backend)
    elif how == "a layer":
        model[2] = torch.compile(model[2], backend=backend)
    else:
        model.compile(backend=backend)

    report = sparse.optimize_(compiled, (x,))

    assert not graphs
    assert len(report.sparse) == 2
    with torch.no_grad():
        close(compiled(x), reference)
    assert len(graphs) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("images", [False, True])
def test_onnx_export_says_restore(always, tmp_path, dynamo, images):
    if dynamo:
        pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    model = Convolutions().eval() if images else Encoder().eval()
    x = torch.randn(2, 8, 14, 17) if images else torch.randn(2, 7, 48)
    model, x, reference, _ = optimized(x, model)

    with torch.no_grad(), pytest.raises(Exception) as error:  # torch wraps it
        torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=dynamo)

    assert ("torch.onnx.export does not know sparse layers: call spjit.torch.restore_(model) before"
            in str(error.value))
    with torch.no_grad():
        close(model(x), reference)


def _arguments(layer, x):
    if isinstance(layer, SparseConv1d):
        return (x, layer.weight.detach(), layer.bias.detach(), layer.stride[0],
                layer.padding[0], layer.dilation[0], layer.groups, layer.spjit_activation,
                layer.spjit_key)
    if isinstance(layer, SparseConv2d):
        return (x, layer.weight.detach(), None if layer.bias is None else layer.bias.detach(),
                *map(list, layer.spjit_sizes[2]), layer.groups, layer.spjit_activation,
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
    for one in (x[0], x.to(memory_format=torch.channels_last)[0]):  # [channels, height, width]
        torch.library.opcheck(_op.CONV2D, _arguments(images.first, one))


def test_the_operator_of_one_dimension_passes_opcheck(always):
    model = nn.Sequential(thin_out(nn.Conv1d(8, 16, 3, padding=1))).eval()
    optimized(torch.randn(2, 8, 14), model)
    x = torch.randn(2, 8, 9)
    for given in (x, x[0], x.transpose(1, 2).contiguous().transpose(1, 2),
                  x.clone().requires_grad_()):
        torch.library.opcheck(_op.CONV1D, _arguments(model[0], given))


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
