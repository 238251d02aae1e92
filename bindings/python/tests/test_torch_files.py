"""spjit.torch: kernels of a model in a file."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
import spjit  # noqa: E402
from spjit.torch._layers import SparseLinear  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, compiles, Convolutions, forget, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]


def _saved(tmp_path):
    torch.manual_seed(3)
    model, x, reference, _ = optimized(model=nn.Sequential(
        thin_out(nn.Linear(48, 96)), nn.GELU(), thin_out(nn.Linear(96, 48, bias=False)),
        nn.Linear(48, 48)))
    sparse.save(model, tmp_path / "model.spjit")
    plain = copy.deepcopy(model)
    sparse.restore_(plain)
    forget()
    return plain, x, reference, tmp_path / "model.spjit"


def test_kernels_are_saved_and_loaded(always, runs, compiles, tmp_path):
    model, x, reference, path = _saved(tmp_path)
    compiles.clear()

    report = sparse.load_(model, path)

    assert [row.sparse for row in report.rows] == [True, True, False]
    assert report.rows[0].activation == "gelu"
    assert report.rows[0].kernel
    assert abs(report.rows[0].zeros - 0.9) < 0.05
    assert report.rows[2].reason == "less than 50 % zeros"
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
    forget()
    compiles.clear()

    assert len(sparse.load_(model, tmp_path / "c.spjit").sparse) == 4

    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 4
    assert not compiles


def _leaky(slope):
    torch.manual_seed(5)
    return nn.Sequential(thin_out(nn.Linear(48, 48)), nn.LeakyReLU(slope), nn.Identity(),
                         thin_out(nn.Conv1d(3, 4, 5)), nn.Hardsigmoid()).eval()


def test_parameters_of_activations_are_saved_and_loaded(always, runs, compiles, tmp_path):
    model, x, reference, _ = optimized(torch.randn(2, 3, 48), _leaky(0.3))
    sparse.save(model, tmp_path / "model.spjit")
    model, other = _leaky(0.3), _leaky(0.7)
    forget()
    compiles.clear()

    report = sparse.load_(model, tmp_path / "model.spjit")

    assert [row.activation for row in report.sparse] == ["leaky-relu:0.3",
                                                         "hard-sigmoid:0.16666667,0.5"]
    assert not compiles
    with torch.no_grad():
        runs.clear()
        close(model(x), reference)
        assert len(runs) == 2
        dense = other(x)
        report = sparse.load_(other, tmp_path / "model.spjit")  # of another slope it is compiled
        assert report.rows[0].activation == "leaky-relu:0.7"
        assert len(compiles) == 1
        close(other(x), dense)


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


def test_layers_that_stay_dense_when_loaded_say_why_and_their_zeros(always, compiles, tmp_path):
    model, _, _, path = _saved(tmp_path)
    with torch.no_grad():
        model[0].weight.fill_(1)
        thin_out(model[3])
    compiles.clear()

    report = sparse.load_(model, path)

    assert [row.reason for row in report.rows] == ["less than 50 % zeros", "",
                                                   "the file has no kernel for it"]
    assert report.rows[2].zeros == pytest.approx(0.9, abs=0.05)
    assert not compiles


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


def test_layers_that_run_dense_as_they_are_now_are_not_saved(always, tmp_path):
    model, x, _, path = _saved(tmp_path)
    sparse.load_(model, path)
    prune.random_unstructured(model[0], "weight", 0.1)
    with torch.inference_mode():  # in which the mask makes a tensor without a count of changes
        reference = model(x)

    sparse.save(model, tmp_path / "one.spjit")

    assert len(spjit.Bundle(tmp_path / "one.spjit")) == 1
    with torch.inference_mode():
        close(model(x), reference)
    with pytest.raises(spjit.InvalidArgument, match="run dense as they are now; '0': a mask came "):
        sparse.save(model.double(), tmp_path / "none.spjit")
    with pytest.raises(spjit.InvalidArgument, match="'up': its weight is float64; expected float32"):
        sparse.save(optimized()[0].double(), tmp_path / "none.spjit")
    assert not (tmp_path / "none.spjit").exists()


def test_convolutions_that_pad_otherwise_now_are_not_saved(always, tmp_path):
    model, _, _, _ = optimized(torch.randn(2, 8, 9, 9), Convolutions())
    model.first.padding_mode = "reflect"

    sparse.save(model, tmp_path / "model.spjit")

    assert len(spjit.Bundle(tmp_path / "model.spjit")) == 3


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
