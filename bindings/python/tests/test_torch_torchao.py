"""Linear layers that torchao quantised, against their integers and scales by numpy."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from spjit.torch import _integers  # noqa: E402
from spjit.torch._torchao import SparseTensorLinear, TensorKernels  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import _seeded, always, close, runs, thin_out  # noqa: E402, F401

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::UserWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning")]

PerGroup, PerTensor, Asymmetric = ao.PerGroup, ao.PerTensor, ao.MappingType.ASYMMETRIC
WEIGHT_ONLY = {
    "int8 a row": lambda: ao.Int8WeightOnlyConfig(),
    "int8 a tensor": lambda: ao.Int8WeightOnlyConfig(granularity=PerTensor()),
    "int8 of 64": lambda: ao.Int8WeightOnlyConfig(granularity=PerGroup(64)),
    "int4 of 32": lambda: ao.IntxWeightOnlyConfig(torch.int4, PerGroup(32)),
    "int4 of 192": lambda: ao.IntxWeightOnlyConfig(torch.int4, PerGroup(192)),
    "int4 a row": lambda: ao.IntxWeightOnlyConfig(torch.int4),
    "int4 with zero points": lambda: ao.IntxWeightOnlyConfig(torch.int4, PerGroup(128), Asymmetric),
    "int3 of 128": lambda: ao.IntxWeightOnlyConfig(torch.int3, PerGroup(128)),
    "int6 with zero points": lambda: ao.IntxWeightOnlyConfig(torch.int6, PerGroup(128), Asymmetric)}


def _dynamic(**given):
    return ao.Int8DynamicActivationInt8WeightConfig(**given)


def _model(config, bias=True, sizes=(384, 96), zeros=0.8, dtype=torch.float32):
    """Of one quantised layer."""
    model = nn.Sequential(thin_out(nn.Linear(*sizes, bias=bias), zeros)).to(dtype).eval()
    ao.quantize_(model, config)
    return model


def _optimized(config, x=None, **given):
    """A sparse model, its dense copy, an input, and the report's row."""
    model = _model(config, **given)
    dense = copy.deepcopy(model)
    x = torch.randn(7, model[0].in_features).to(model[0].weight.dtype) if x is None else x
    row, = sparse.optimize_(model, (x,)).rows
    return model, dense, x, row


def _both(model, dense, x):
    with torch.inference_mode():
        return model(x).clone(), dense(x).clone()


def _weight(module):
    """What its integers stand for, in float64: rows, columns."""
    weight = module.weight
    rows, columns = weight.block_size
    shape = (weight.shape[0] // rows, weight.shape[1] // columns)

    def spread(numbers):
        whole = numbers.detach().double().numpy().reshape(shape)
        return whole.repeat(rows, 0).repeat(columns, 1)

    return (weight.qdata.numpy() - spread(weight.zero_point)) * spread(weight.scale)


def _assert_near(module, x, y, eps):
    weight, x = _weight(module), x.double().numpy()
    bias = 0 if module.bias is None else module.bias.detach().double().numpy()
    magnitudes = np.abs(x) @ np.abs(weight).T + np.abs(bias)
    assert np.all(np.abs(y.double().numpy() - (x @ weight.T + bias)) <= eps * magnitudes)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("how", list(WEIGHT_ONLY))
def test_results_are_those_of_integers_and_scales(always, runs, how, bias):
    model, dense, x, row = _optimized(WEIGHT_ONLY[how](), bias=bias)
    assert row.sparse, row.reason
    assert type(model[0]) is SparseTensorLinear
    has_four_bits = how.startswith(("int3", "int4")) and "zero points" not in how
    assert row.types == ("i4,f32,f32" if has_four_bits else "i8,f32,f32")
    runs.clear()

    y, expected = _both(model, dense, x)

    assert len(runs) == 1
    assert y.shape == expected.shape
    _assert_near(dense[0], x, y, 2.0**-21)
    close(y, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("config", [*list(WEIGHT_ONLY)[:4], "dynamic"])
def test_halves_are_rounded_once(always, runs, config, dtype):
    made = _dynamic() if config == "dynamic" else WEIGHT_ONLY[config]()
    model, dense, x, row = _optimized(made, dtype=dtype)
    assert row.sparse, row.reason
    runs.clear()

    y, expected = _both(model, dense, x)

    assert len(runs) == 1
    assert y.dtype is expected.dtype is dtype
    if config == "dynamic":
        torch.testing.assert_close(y, expected, rtol=0.05, atol=0.05)
    else:
        _assert_near(dense[0], x, y, torch.finfo(dtype).eps)


def test_quantised_inputs_have_the_bits_of_the_token_rule(always, runs):
    model, dense, x, row = _optimized(_dynamic())
    assert row.types == "i8,f32,f32"
    x[3] = 0
    x[5] *= 1e-9  # where torchao's least scale of 2^-23 leaves nothing
    runs.clear()
    y, expected = _both(model, dense, x)
    assert len(runs) == 1

    given, scale = x.numpy(), dense[0].weight.scale.flatten().numpy()
    of_tokens = np.abs(given).max(1, keepdims=True) / np.float32(127)
    of_tokens[of_tokens == 0] = 1
    q = np.clip(np.rint(given / of_tokens), -127, 127).astype(np.int64)
    sums = (q @ dense[0].weight.qdata.numpy().T.astype(np.int64)).astype(np.float32)
    exact = sums * (of_tokens * scale) + dense[0].bias.detach().numpy()
    np.testing.assert_array_equal(y.numpy(), exact)
    torch.testing.assert_close(y, expected, rtol=0.02, atol=0.02)


def test_inputs_that_are_not_finite_stay_within_their_token(always):
    model, _, x, _ = _optimized(_dynamic())
    usual = _both(model, model, x)[0]
    x[2, 3] = float("inf")
    y = _both(model, model, x)[0]
    assert torch.all(torch.isnan(y[2]))
    assert torch.equal(y[[0, 1, 3, 4, 5, 6]], usual[[0, 1, 3, 4, 5, 6]])


@pytest.mark.parametrize("shape", [(384,), (1, 384), (2, 3, 384), (1, 1, 1, 384)])
def test_inputs_have_any_number_of_dimensions(always, runs, shape):
    for config in (ao.Int8WeightOnlyConfig(), _dynamic()):
        model, dense, _, _ = _optimized(config)
        runs.clear()
        y, expected = _both(model, dense, torch.randn(shape))
        assert len(runs) == 1
        assert y.shape == expected.shape
        torch.testing.assert_close(y, expected, rtol=0.02, atol=0.02)


def test_other_inputs_run_dense(always, runs):
    model, _, x, _ = _optimized(ao.Int8WeightOnlyConfig())
    report = sparse.optimize_(model, (x,))
    runs.clear()
    model(x)  # whose bias would get gradients
    with torch.no_grad():
        model(x[:0])
        with pytest.raises(RuntimeError):
            model(x[:, :40])
        model(x.bfloat16())
    assert not runs
    assert report.dense_calls == {"0": 4}


def _refused():
    """A model by how torchao quantised it, and the reason."""
    static = ao.Int8StaticActivationInt8WeightConfig(
        act_quant_scale=torch.tensor([[0.1]]), act_quant_zero_point=None,
        granularity=PerTensor())
    yield _model(static), "its inputs have a scale that is given"
    yield (_model(_dynamic(act_mapping_type=Asymmetric)),
           "its inputs are quantised PerRow, ASYMMETRIC; expected PerRow (a token), SYMMETRIC")
    yield (_model(_dynamic(granularity=PerTensor())),
           "its inputs are quantised PerTensor, SYMMETRIC")
    yield (_model(ao.Int8DynamicActivationIntxWeightConfig(torch.int4, PerGroup(32))),
           "its inputs are quantised as int8_asym_per_token")
    yield (_model(ao.Int8WeightOnlyConfig(granularity=PerGroup(16))),
           "its groups have 16 columns; expected a multiple of 32")
    yield _model(ao.Int8WeightOnlyConfig(), zeros=0.1), "less than 50 % zeros"
    scaled = _model(_dynamic())
    scaled[0].weight.act_pre_scale = torch.ones(384)
    yield scaled, "its inputs have scales of their own (act_pre_scale)"
    shifted = _model(ao.Int8WeightOnlyConfig())
    shifted[0].weight.zero_point += 1
    yield shifted, "its weights have zero points other than 0"
    halves = _model(WEIGHT_ONLY["int4 of 32"]())
    halves[0].weight.zero_point = torch.full((96, 12), 0.5)
    yield halves, "its weights have zero points that are no integers"
    wide = _model(WEIGHT_ONLY["int6 with zero points"]())
    wide[0].weight.qdata[0, 0], wide[0].weight.zero_point[0, 0] = 127, -100
    yield wide, "its weights minus their zero points leave int8"
    wrong = _model(ao.Int8WeightOnlyConfig())
    wrong[0].weight.qdata = wrong[0].weight.qdata.short()
    yield wrong, "its integers are torch.int16; expected int8"
    unknown = nn.Sequential(thin_out(nn.Linear(384, 96), 0.8))
    unknown[0].weight = nn.Parameter(ao.NF4Tensor.from_tensor(unknown[0].weight.data, 64, 4), False)
    yield unknown, ("its weight is of torchao's NF4Tensor; expected Int8Tensor or "
                    "IntxUnpackedToInt8Tensor")
    with torch.inference_mode():
        uncounted = _model(ao.Int8WeightOnlyConfig())
    yield uncounted, "its integers or scales are no plain tensors of the CPU, or of inference mode"


def test_other_layouts_stay_with_a_reason(always):
    for model, reason in _refused():
        dense = [type(module) for module in model]
        row, = sparse.optimize_(model, (torch.randn(3, 384),)).rows
        assert row.reason.startswith(reason)
        assert [type(module) for module in model] == dense


def test_scales_that_do_not_fit_are_refused():
    model = _model(ao.Int8WeightOnlyConfig())
    model[0].weight.scale = torch.ones(95, 1)
    assert TensorKernels.why_other(model[0]) == (
        "its scales are [95, 1] of blocks [1, 384]; expected one for each block of [96, 384]")


def test_a_subclass_and_other_modules_stay(always):
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Embedding(50, 384), thin_out(Own(384, 96), 0.8)).eval()
    ao.quantize_(model, WEIGHT_ONLY["int4 of 32"](), lambda module, _: not list(module.children()))
    rows = sparse.optimize_(model, (torch.arange(7),)).rows
    assert [row.sparse for row in rows] == [False, False]
    assert rows[1].reason == "it is a Own, whose forward() may differ"


def test_changed_weights_are_seen(always, runs):
    for config in (ao.Int8WeightOnlyConfig, WEIGHT_ONLY["int4 of 32"], _dynamic):
        model, dense, x, _ = _optimized(config())
        other = _model(config(), zeros=0.7)
        runs.clear()
        model.load_state_dict(other.state_dict())
        torch.testing.assert_close(*_both(model, other, x), rtol=0.02, atol=0.02)
        model[0].weight = dense[0].weight
        model[0].bias = None
        with torch.no_grad():
            expected = nn.functional.linear(x, dense[0].weight)
            torch.testing.assert_close(model(x), expected, rtol=0.02, atol=0.02)
        assert len(runs) == 4  # each time a check of what torchao computes, too

        full = _model(config(), zeros=0)
        model.load_state_dict(full.state_dict(), strict=False)
        runs.clear()
        with torch.no_grad():
            assert torch.equal(model(x), nn.functional.linear(x, full[0].weight))
        assert not runs


def test_a_changed_bias_and_type_are_seen(always, runs):
    model, dense, x, _ = _optimized(ao.Int8WeightOnlyConfig())
    with torch.no_grad():
        model[0].bias += 1
        dense[0].bias += 1
    close(*_both(model, dense, x))
    model, dense, x = model.bfloat16(), dense.bfloat16(), x.bfloat16()
    runs.clear()
    assert torch.equal(*_both(model, dense, x))
    assert not runs  # torchao's weight stays fp32, and takes other inputs


def test_a_kernel_that_cannot_be_compiled_later_is_said_once(always, monkeypatch):
    model, dense, x, _ = _optimized(ao.Int8WeightOnlyConfig())

    def fails(*_):
        raise spjit.NotSupported("no")

    monkeypatch.setattr(_integers, "compile_problem", fails)
    model[0].weight = copy.deepcopy(dense[0].weight)
    with pytest.warns(UserWarning, match=r"a quantised layer \[96, 384\] stays dense: no"):
        assert torch.equal(*_both(model, dense, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(*_both(model, dense, x))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_sparse(always, runs, copied):
    model, _, x, _ = _optimized(_dynamic())
    del model[0].extra_repr  # torchao's, which pickle refuses
    other = copied(model)
    assert type(other[0]) is SparseTensorLinear
    runs.clear()
    assert torch.equal(*_both(model, other, x))
    assert len(runs) == 3  # a check of what torchao computes, too


def test_restoring_gives_torchs_layer(always):
    model, dense, x, _ = _optimized(ao.Int8WeightOnlyConfig())
    sparse.restore_(model)
    assert type(model[0]) is nn.Linear
    assert not [name for name in vars(model[0]) if name.startswith("spjit")]
    assert torch.equal(*_both(model, dense, x))
    assert sparse.optimize_(model, (x,)).sparse
    assert sparse.optimize_(model, (x,)).sparse


def test_quantising_a_sparse_model_makes_it_dense_until_it_is_optimized_again(always, runs):
    model = nn.Sequential(thin_out(nn.Linear(384, 96), 0.8)).eval()
    x = torch.randn(7, 384)
    sparse.optimize_(model, (x,))
    ao.quantize_(model, ao.Int8WeightOnlyConfig())
    runs.clear()
    with torch.no_grad():
        expected = model(x)
        assert not runs
        assert sparse.optimize_(model, (x,)).sparse
        close(model(x), expected)
    assert type(model[0]) is SparseTensorLinear


def test_another_number_of_threads_has_the_same_bits(always):
    model, dense, x, _ = _optimized(_dynamic())
    y = _both(model, dense, x)[0]
    torch.set_num_threads(torch.get_num_threads() + 1)
    assert torch.equal(_both(model, dense, x)[0], y)


def test_files_compilation_and_release_leave_it_out(always, runs, tmp_path):
    model, dense, x, _ = _optimized(ao.Int8WeightOnlyConfig())
    with pytest.raises(spjit.InvalidArgument, match="are quantised, which files do not have"):
        sparse.save(model, tmp_path / "k.spjit")
    runs.clear()
    with torch.no_grad():
        close(torch.compile(model, dynamic=True)(x), dense(x))
        with pytest.raises(spjit.NotSupported, match="restore_"):
            torch.jit.trace(model, x)
    assert not runs
    report = sparse.optimize_(model, (x,), release_dense=True)
    assert report.rows[0].dense_stays == "layers of this kind keep it"
    assert report.memory.weights_before > 96 * 384
    assert report.memory.kernels > 0


@pytest.mark.parametrize("config", [ao.Int8WeightOnlyConfig, _dynamic])
def test_a_torchao_that_computes_something_else_is_noticed(always, monkeypatch, config):
    model, _, _, _ = _optimized(config())
    sparse.restore_(model)
    kernels = TensorKernels()
    kernels.compile(model[0], spjit.torch._kernels.LayerKey("", tokens=4), torch.get_num_threads())
    assert kernels.why_other_result(model[0]) == ""
    forward = nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: forward(self, x) + 0.5)
    assert "torchao computes something else" in kernels.why_other_result(model[0])
