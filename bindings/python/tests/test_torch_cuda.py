"""spjit.torch on a card. Skips where torch has none."""

from __future__ import annotations

import copy
import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import Convolutions, Encoder, _seeded, always, thin_out  # noqa: E402, F401

# Not what tests on the emulated driver name.
IS_EMULATED = "emulated" in os.environ.get("SPJIT_CUDA_DRIVER", "")
WHY = ("SPJIT_CUDA_DRIVER is the emulated driver" if IS_EMULATED else
       "" if torch.cuda.is_available() else "torch has no CUDA device")
pytestmark = [pytest.mark.cuda, pytest.mark.skipif(bool(WHY), reason=WHY),
              pytest.mark.usefixtures("always")]


@pytest.fixture(autouse=True)
def without_tf32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


def close(y, reference):
    torch.testing.assert_close(y, reference, rtol=1e-4, atol=1e-4)


def optimized(model, x):
    """A model on the GPU, x there, what it gave when it was dense, and the report."""
    model, x = model.eval().cuda(), x.cuda()
    with torch.no_grad():
        reference = model(x)
    report = sparse.optimize_(model, (x,), budget=0.05)
    return model, x, reference, report


def test_linear_layers_and_the_report():
    model, x, reference, report = optimized(Encoder(), torch.randn(2, 7, 48))

    with torch.inference_mode():
        close(model(x), reference)
        close(model(x[:, :3]), reference[:, :3])
    assert [row.layer for row in report.sparse] == ["up", "mixed"]
    assert all(row.before_us > 0 and row.after_us > 0 for row in report.sparse)
    assert f"the model, cold, cuda:0 ({torch.cuda.get_device_name(0)}):" in str(report)
    assert not report.dense_calls


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_convolutions_of_any_size(order):
    x = torch.randn(2, 8, 20, 17)
    model, x, reference, report = optimized(Convolutions().to(memory_format=order),
                                            x.contiguous(memory_format=order))
    dense = copy.deepcopy(model)
    sparse.restore_(dense)

    with torch.inference_mode():
        y = model(x)
        assert y.stride() == reference.stride()
        close(y, reference)
        for size in ((16, 16), (31, 9)):
            images = torch.randn(3, 8, *size, device="cuda").contiguous(memory_format=order)
            close(model(images), dense(images))
    assert len(report.sparse) == 4


def test_attention_and_signals():
    model = nn.TransformerEncoderLayer(64, 4, 96, batch_first=True)
    thin_out(model.self_attn.out_proj)
    thin_out(model.linear1)
    with torch.no_grad():
        model.self_attn.in_proj_weight.mul_(torch.rand_like(model.self_attn.in_proj_weight) >= 0.9)
    model, x, reference, report = optimized(model, torch.randn(2, 9, 64))
    with torch.inference_mode():
        close(model(x), reference)
    assert len(report.sparse) == 3

    model, x, reference, _ = optimized(thin_out(nn.Conv1d(8, 16, 3, padding=1)),
                                       torch.randn(2, 8, 30))
    with torch.inference_mode():
        close(model(x), reference)


def test_calls_wait_for_nothing():
    model, x, reference, _ = optimized(Encoder(), torch.randn(2, 7, 48))

    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.inference_mode():
            y = model(x)
    finally:
        torch.cuda.set_sync_debug_mode("default")

    close(y, reference)


@pytest.mark.parametrize("network", [Encoder, Convolutions])
def test_graphs_capture_calls(network):
    sizes = (2, 7, 48) if network is Encoder else (2, 8, 20, 17)
    model, x, reference, _ = optimized(network(), torch.randn(*sizes))
    other = torch.randn_like(x)
    graph = torch.cuda.CUDAGraph()

    with torch.inference_mode():
        model(x)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y = model(x)
        graph.replay()
        torch.cuda.synchronize()
        close(y, reference)
        expected = model(other)
        x.copy_(other)
        graph.replay()
        torch.cuda.synchronize()

    assert torch.equal(y, expected)


def test_nothing_is_compiled_while_a_graph_is_captured():
    model, x, _, _ = optimized(Convolutions(), torch.randn(2, 8, 20, 17))
    smaller = torch.randn(2, 8, 12, 11, device="cuda")

    with torch.inference_mode(), pytest.raises(spjit.InvalidArgument, match="is being captured"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            model(smaller)


def test_the_current_stream_is_used():
    model, x, reference, _ = optimized(Encoder(), torch.randn(2, 7, 48))
    stream = torch.cuda.Stream()

    with torch.inference_mode(), torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # what comes after has to wait for it
        later = x * 2
        y = model(later)
    stream.synchronize()

    with torch.inference_mode():
        close(y, model(x * 2))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_in_one_graph(dynamic):
    model, x, reference, _ = optimized(Encoder(), torch.randn(2, 7, 48))
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)

    with torch.inference_mode():
        close(compiled(x), reference)
        close(compiled(x[:, :5]), reference[:, :5])


def test_gradients_run_dense():
    model, x, reference, report = optimized(Encoder(), torch.randn(2, 7, 48))

    with pytest.warns(UserWarning, match="run dense while gradients"):
        model(x).sum().backward()

    assert model.up.weight.grad.is_cuda
    assert set(report.dense_calls) == {"up", "mixed"}


def test_new_weights_are_seen():
    model, x, _, _ = optimized(Encoder(), torch.randn(2, 7, 48))
    other = Encoder().eval().cuda()
    model.load_state_dict(other.state_dict())

    with torch.inference_mode():
        close(model(x), other(x))


def test_halves_stay_dense():
    _, _, _, report = optimized(Encoder().half(), torch.randn(2, 7, 48).half())

    assert not report.sparse
    assert report.rows[0].reason == "its weight is float16; expected float32 on cuda"


def test_autocast_runs_dense():
    model, x, _, report = optimized(Encoder(), torch.randn(2, 7, 48))

    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        model(x)

    assert set(report.dense_calls) == {"up", "mixed"}


def test_a_model_moves():
    model, x, reference, _ = optimized(Encoder(), torch.randn(2, 7, 48))

    with torch.inference_mode():
        close(model.cpu()(x.cpu()), reference.cpu())
        close(model.cuda()(x), reference)


def test_files(tmp_path):
    model, x, reference, _ = optimized(Encoder(), torch.randn(2, 7, 48))
    sparse.save(model, tmp_path / "model.spjit")
    sparse.restore_(model)

    report = sparse.load_(model, tmp_path / "model.spjit")

    with torch.inference_mode():
        close(model(x), reference)
    assert len(report.sparse) == 2


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_several_gpus():
    models = [Encoder().eval().to(f"cuda:{device}") for device in (0, 1)]
    for device, model in enumerate(models):
        x = torch.randn(2, 7, 48, device=f"cuda:{device}")
        with torch.no_grad():
            reference = model(x)
        sparse.optimize_(model, (x,), budget=0.05)
        with torch.inference_mode():
            close(model(x), reference)


def test_arrays_of_torch():
    weight = thin_out(nn.Linear(40, 24)).weight.detach()
    major, minor = torch.cuda.get_device_capability(0)
    kernel = spjit.compile(weight.numpy(), target=f"sm_{major}{minor}", bias=True).to_device(0)
    x, bias = torch.randn(5, 40, device="cuda"), torch.randn(24, device="cuda")
    y = torch.empty(5, 24, device="cuda")
    stream = torch.cuda.Stream()

    kernel.launch(x, out=y, bias=bias, stream=stream)
    torch.cuda.current_stream().wait_stream(stream)

    close(y, x @ weight.cuda().t() + bias)
    with pytest.raises(TypeError, match="x is in memory of the CPU"):
        kernel.launch(x.cpu(), out=y, bias=bias)
