"""Linear layers of torch.ao.quantization.quantize_dynamic, against torch's own kernels."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from spjit.torch import _integers  # noqa: E402
from spjit.torch._packed import (  # noqa: E402
    ROUNDING, PackedKernels, SparsePackedLinear, byte_scale)
from torch import nn  # noqa: E402
from torch_testing import _seeded, always, close, runs, thin_out  # noqa: E402, F401

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::UserWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]
quantization = torch.ao.quantization
SCHEMES = {"tensor": quantization.default_dynamic_qconfig,
           "rows": quantization.per_channel_dynamic_qconfig}
QuantisedLinear = torch.ao.nn.quantized.dynamic.Linear


@pytest.fixture(autouse=True)
def _engine():
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch has no quantised kernels here")
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


def _quantised(model, scheme="rows", engine="fbgemm"):
    torch.backends.quantized.engine = engine
    return quantization.quantize_dynamic(model.eval(), {nn.Linear: SCHEMES[scheme]})


def _optimized(scheme="rows", bias=True, sizes=(48, 96), x=None):
    """A model of one layer, its dense copy, an input, and the report."""
    model = _quantised(nn.Sequential(thin_out(nn.Linear(*sizes, bias=bias), 0.8)), scheme)
    dense = copy.deepcopy(model)
    x = torch.randn(7, sizes[0]) if x is None else x
    return model, dense, x, sparse.optimize_(model, (x,))


def _both(model, dense, x):
    with torch.inference_mode():
        return model(x).clone(), dense(x).clone()


def _assert_within_rounding(y, dense, bias):
    bias = 0 if bias is None else bias.abs()
    assert torch.all((y - dense).abs() <= ROUNDING * (dense.abs() + bias))


INPUTS = {
    "usual": lambda x: x, "small": lambda x: x * 1e-8, "tiny": lambda x: x * 1e-40,
    "large": lambda x: x * 1e30, "positive": lambda x: x.abs(), "negative": lambda x: -x.abs(),
    "small and positive": lambda x: x.abs() * 1e-7, "small and negative": lambda x: -x.abs() * 1e-7,
    "zero": lambda x: x * 0, "one": lambda x: x[:1], "batch": lambda x: x.view(1, 7, 48),
    "strided": lambda x: x.t().contiguous().t(), "skewed": lambda x: x + 5}


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("given", list(INPUTS))
def test_results_are_those_of_torch(always, runs, scheme, bias, given):
    model, dense, x, report = _optimized(scheme, bias)
    assert type(model[0]) is SparsePackedLinear
    assert report.rows[0].types == "i8,u8,f32"
    x = INPUTS[given](x)
    runs.clear()

    y, expected = _both(model, dense, x)

    assert len(runs) == 1
    assert y.shape == expected.shape
    _assert_within_rounding(y, expected, dense[0].bias())
    if not bias:
        assert torch.equal(y, expected)
    assert not report.dense_calls


def test_many_sizes_without_a_bias_have_the_bits_of_torch(always):
    generator = np.random.default_rng(3)
    for _ in range(20):
        columns, rows, tokens = (int(size) for size in generator.integers(1, 150, 3))
        model, dense, x, report = _optimized(
            "rows", False, (columns, rows), torch.randn(tokens, columns))
        if report.sparse:
            assert torch.equal(*_both(model, dense, x))


def test_a_result_is_that_of_exact_integers(always):
    """By numpy, apart from what torch has."""
    model, _, x, _ = _optimized()
    weights = PackedKernels.read(model[0])
    scale, zero = byte_scale(float(x.min()), float(x.max()))
    assert 0 <= zero <= 127
    q = np.clip(np.rint(x.numpy() * (np.float32(1) / np.float32(scale))) + zero, 0, 255)
    sums = (q.astype(np.int64) - zero) @ weights.integers.T.astype(np.int64)
    factor = (np.float32(scale) * weights.scale.numpy()).astype(np.float32)
    expected = (sums.astype(np.float32) * factor + weights.bias.numpy()).astype(np.float32)
    with torch.inference_mode():
        np.testing.assert_array_equal(model(x).numpy(), expected)


def test_inputs_that_are_not_finite_run_dense(always, runs):
    model, dense, x, report = _optimized()
    x[2, 3] = float("nan")
    runs.clear()
    y, expected = _both(model, dense, x)
    assert not runs
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)
    assert report.dense_calls == {"0": 1}


def test_other_inputs_run_dense(always, runs):
    model, dense, x, report = _optimized()
    runs.clear()
    close(model(x.clone().requires_grad_()).detach(), _both(model, dense, x)[1])
    assert report.dense_calls == {"0": 1}
    with torch.no_grad():
        model(x[:0])
        with pytest.raises(RuntimeError):
            model(x[:, :40])
        with pytest.raises((RuntimeError, TypeError)):
            model(x.double())
    assert report.dense_calls == {"0": 4}


@pytest.mark.parametrize("engine", ["qnnpack", "onednn", "x86"])
def test_layers_for_other_engines_are_taken_if_they_compute_the_same(always, engine):
    if engine not in torch.backends.quantized.supported_engines:
        pytest.skip(f"torch has no {engine} here")
    model = _quantised(nn.Sequential(thin_out(nn.Linear(48, 96), 0.8)), engine=engine)
    dense, x = copy.deepcopy(model), torch.randn(7, 48)

    row, = sparse.optimize_(model, (x,)).rows

    assert row.sparse == (engine != "qnnpack")
    if row.sparse:
        y, expected = _both(model, dense, x)
        _assert_within_rounding(y, expected, dense[0].bias())
    else:
        assert row.reason.startswith("the engine that it was packed for computes something else")
        assert type(model[0]) is QuantisedLinear
        assert "spjit_quantised" not in vars(model[0])


def test_layers_of_other_kinds_stay_with_a_reason(always):
    def reason(model):
        return sparse.optimize_(model, (torch.randn(3, 48),)).rows[0].reason

    def linear(zeros=0.8):
        return nn.Sequential(thin_out(nn.Linear(48, 96), zeros))

    half = quantization.quantize_dynamic(linear(), {nn.Linear}, dtype=torch.float16)
    assert reason(half) == "its weight is packed as float16; expected qint8"
    old = _quantised(linear())
    old[0].version = 3
    assert reason(old).startswith("its inputs have 8 bits, as in torch before 1.6")
    assert reason(_quantised(linear(0.1))) == "less than 50 % zeros"
    unused = nn.ModuleList([_quantised(linear())[0], nn.Identity()])
    unused.forward = lambda x: x
    assert reason(unused) == "the example does not call it"
    replaced = _quantised(linear())
    replaced[0].forward = replaced[0].forward
    assert reason(replaced) == "its forward() was replaced"


def test_zero_points_of_weights_are_taken_off(always, runs):
    model = _quantised(nn.Sequential(thin_out(nn.Linear(48, 96), 0.8)))
    integers = model[0].weight().int_repr().clamp(-100, 100)
    shifted = torch._make_per_channel_quantized_tensor(
        integers + 20, torch.rand(96).double() / 100 + 0.01, torch.full((96,), 20), 0)
    model[0].set_weight_bias(shifted, model[0].bias())
    dense, x = copy.deepcopy(model), torch.randn(5, 48)

    report = sparse.optimize_(model, (x,))

    assert report.rows[0].zeros > 0.7
    runs.clear()
    y, expected = _both(model, dense, x)
    assert len(runs) == 1
    _assert_within_rounding(y, expected, dense[0].bias())

    wide = torch._make_per_channel_quantized_tensor(
        integers.clamp(0, 120) - 100, torch.ones(96).double(), torch.full((96,), -100), 0)
    model[0].set_weight_bias(wide, None)
    assert sparse.optimize_(model, (x,)).rows[0].sparse
    far = torch._make_per_channel_quantized_tensor(
        (integers.clamp(0, 1) * 227 - 100).to(torch.int8), torch.ones(96).double(),
        torch.full((96,), -100), 0)
    model[0].set_weight_bias(far, None)
    assert sparse.optimize_(model, (x,)).rows[0].reason == (
        "its weights minus their zero points leave int8")


def test_changed_weights_are_seen(always, runs):
    model, dense, x, _ = _optimized()
    other = _quantised(nn.Sequential(thin_out(nn.Linear(48, 96), 0.7)))
    runs.clear()
    model[0].set_weight_bias(*other[0]._weight_bias())
    y, expected = _both(model, other, x)
    _assert_within_rounding(y, expected, other[0].bias())
    model.load_state_dict(dense.state_dict())
    y, expected = _both(model, dense, x)
    _assert_within_rounding(y, expected, dense[0].bias())
    assert len(runs) == 4  # each time a check of the engine, too

    if "qnnpack" in torch.backends.quantized.supported_engines:
        foreign = _quantised(nn.Sequential(thin_out(nn.Linear(48, 96), 0.7)), engine="qnnpack")
        model[0].set_weight_bias(*foreign[0]._weight_bias())
        runs.clear()
        assert torch.equal(*_both(model, foreign, x))
        assert len(runs) == 1  # the check
        assert torch.equal(*_both(model, foreign, x))
        assert len(runs) == 1
        torch.backends.quantized.engine = "fbgemm"

    full = _quantised(nn.Sequential(nn.Linear(48, 96)))
    runs.clear()
    model[0].set_weight_bias(*full[0]._weight_bias())
    assert torch.equal(*_both(model, full, x))
    assert not runs


def test_a_kernel_that_cannot_be_compiled_later_is_said_once(always, monkeypatch):
    model, dense, x, _ = _optimized()

    def fails(*_):
        raise spjit.NotSupported("no")

    monkeypatch.setattr(_integers, "compile_problem", fails)
    model[0].set_weight_bias(*dense[0]._weight_bias())
    with pytest.warns(UserWarning, match=r"a quantised layer \[96, 48\] stays dense: no"):
        assert torch.equal(*_both(model, dense, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(*_both(model, dense, x))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_sparse(always, runs, copied):
    model, dense, x, _ = _optimized()
    other = copied(model)
    assert type(other[0]) is SparsePackedLinear
    runs.clear()
    y = _both(other, dense, x)[0]
    assert len(runs) == 2  # a check of the engine, too
    assert torch.equal(y, _both(model, dense, x)[0])
    with torch.no_grad():
        other[0].set_weight_bias(other[0].weight(), None)
    assert torch.equal(_both(model, dense, x)[0], y)


def test_restoring_gives_torchs_layer(always):
    model, dense, x, _ = _optimized()
    sparse.restore_(model)
    assert type(model[0]) is QuantisedLinear
    assert not [name for name in vars(model[0]) if name.startswith("spjit")]
    assert torch.equal(*_both(model, dense, x))
    assert sparse.optimize_(model, (x,)).sparse
    assert sparse.optimize_(model, (x,)).sparse


def test_another_number_of_threads_has_the_same_bits(always, runs):
    model, dense, x, _ = _optimized()
    y = _both(model, dense, x)[0]
    torch.set_num_threads(torch.get_num_threads() + 1)
    assert torch.equal(_both(model, dense, x)[0], y)


def test_files_have_no_quantised_layers(always, tmp_path):
    model, _, x, _ = _optimized()
    with pytest.raises(spjit.InvalidArgument, match="are quantised, which files do not have"):
        sparse.save(model, tmp_path / "k.spjit")
    both = nn.Sequential(thin_out(nn.Linear(48, 48)), model[0])
    sparse.optimize_(both, (x,))
    sparse.save(both, tmp_path / "k.spjit")
    rows = sparse.load_(both, tmp_path / "k.spjit").rows
    assert [row.sparse for row in rows] == [True, False]
    assert rows[1].reason == "files have no kernels of quantised layers: call optimize_"


def test_compiled_models_run_it_dense_and_traces_are_refused(always, runs):
    model, dense, x, _ = _optimized()
    runs.clear()
    with torch.no_grad():
        close(torch.compile(model, dynamic=True)(x), dense(x))
        with pytest.raises(spjit.NotSupported, match="restore_"):
            torch.jit.trace(model, x)
        with pytest.raises(spjit.NotSupported, match="restore_"):
            torch.jit.script(model)
    assert not runs


def test_releasing_leaves_packed_weights(always):
    model = _quantised(nn.Sequential(thin_out(nn.Linear(48, 96), 0.8)))
    report = sparse.optimize_(model, (torch.randn(3, 48),), release_dense=True)
    assert report.rows[0].dense_stays == "layers of this kind keep it"


def test_a_check_of_the_engine_that_fails_says_so(monkeypatch):
    model, _, _, _ = _optimized()
    sparse.restore_(model)
    kernels = PackedKernels()
    kernels.compile(model[0], spjit.torch._kernels.LayerKey("", tokens=4), 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert kernels.why_other_result(model[0]) == ""
    forward = QuantisedLinear.forward
    monkeypatch.setattr(QuantisedLinear, "forward", lambda self, x: forward(self, x) * (1 + 1e-5))
    assert "computes something else" in kernels.why_other_result(model[0])
