"""Models of bfloat16 and float16: spjit.torch runs their layers sparse, and says what it does not.
"""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch._kernels import content_hash  # noqa: E402
from torch import nn  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    Convolutions,
    Encoder,
    _seeded,
    always,
    optimized,
    runs,
    thin_out,
)

HALVES = (torch.bfloat16, torch.float16)
pytestmark = pytest.mark.parametrize("dtype", HALVES, ids=("bfloat16", "float16"))


def near(y, reference):
    """Each sum and each activation is rounded once by kernels, perhaps twice by torch."""
    unit = torch.finfo(y.dtype).eps
    assert y.dtype is reference.dtype
    torch.testing.assert_close(y.float(), reference.float(), rtol=4 * unit, atol=4 * unit)


def products(layer, x):
    """y of a Linear in fp32 and one rounding, as kernels have it up to the order of sums."""
    y = nn.functional.linear(x.float(), layer.weight.float(),
                             None if layer.bias is None else layer.bias.float())
    return y.to(x.dtype)


def test_linear_layers_run_sparse(always, runs, dtype):
    model, x, reference, report = optimized(x=torch.randn(2, 7, 48).to(dtype),
                                            model=Encoder().to(dtype))
    rows = {row.layer: row for row in report.rows}
    runs.clear()

    with torch.inference_mode():
        y = model(x)

    assert len(runs) == 3
    assert rows["up"].kernel and rows["mixed"].kernel and not rows["down"].kernel
    assert rows["up"].kernel != "reference"
    assert not report.dense_calls
    near(y, reference)


def test_a_bias_is_added_before_the_one_rounding(always, runs, dtype):
    layer = thin_out(nn.Linear(64, 40)).to(dtype)
    layer.requires_grad_(False)
    layer.bias.uniform_(100, 200)
    x = torch.randn(5, 64).to(dtype)
    sparse.optimize_(layer, (x,))
    runs.clear()

    y = layer(x)

    assert len(runs) == 1
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(y.float(), products(layer, x).float(), rtol=unit, atol=0)


def test_one_token_and_many_have_the_same_bits(always, dtype):
    layer = thin_out(nn.Linear(96, 200)).to(dtype).requires_grad_(False)
    x = torch.randn(70, 96).to(dtype)
    sparse.optimize_(layer, (x,))

    whole = layer(x)

    for token in (0, 13, 69):
        assert torch.equal(layer(x[token]), whole[token])
        assert torch.equal(layer(x[token:token + 1])[0], whole[token])


def test_convolutions_run_sparse(always, runs, dtype):
    model = Convolutions().to(dtype)
    for order in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(2, 8, 12, 10).to(dtype).contiguous(memory_format=order)
        swapped, _, reference, report = optimized(x=x, model=copy.deepcopy(model))
        runs.clear()

        with torch.inference_mode():
            y = swapped(x)

        assert [row.kernel for row in report.rows].count("") == 0
        assert runs
        assert y.dtype is dtype
        unit = torch.finfo(dtype).eps
        torch.testing.assert_close(y.float(), reference.float(), rtol=8 * unit, atol=8 * unit)


def test_attention_runs_sparse(always, runs, dtype):
    attention = nn.MultiheadAttention(64, 4, batch_first=True).to(dtype)
    with torch.no_grad():
        for weight in (attention.in_proj_weight, attention.out_proj.weight):
            weight.mul_(torch.rand_like(weight) >= 0.9)
    x = torch.randn(2, 9, 64).to(dtype)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = attention

        def forward(self, x):
            return self.inner(x, x, x, need_weights=False)[0]

    model, _, reference, report = optimized(x=x, model=Attention())
    runs.clear()
    with torch.inference_mode():
        y = model(x)

    assert len(runs) == 2
    assert all(row.kernel for row in report.rows)
    near(y, reference)


def test_layers_that_have_floats_alone_say_so(always, dtype):
    name = str(dtype).removeprefix("torch.")
    model = nn.ModuleDict({"gru": nn.GRU(48, 48), "up": nn.ConvTranspose1d(48, 24, 3)}).to(dtype)
    with torch.no_grad():
        for weight in (model.gru.weight_ih_l0, model.gru.weight_hh_l0, model.up.weight):
            weight.mul_(torch.rand_like(weight) >= 0.9)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = model

        def forward(self, x):
            return self.layers["gru"](x)[0], self.layers["up"](x.transpose(1, 2))

    report = sparse.optimize_(Both().eval(), (torch.randn(2, 7, 48).to(dtype),))

    assert [row.reason for row in report.rows] == [
        f"its weight_ih_l0 is {name}; expected float32", f"its weight is {name}; expected float32"]


def test_other_types_of_x_and_bias_run_dense(always, runs, dtype):
    layer = thin_out(nn.Linear(48, 32)).to(dtype).requires_grad_(False)
    report = sparse.optimize_(layer, (torch.randn(3, 48).to(dtype),))
    runs.clear()

    with pytest.raises(RuntimeError):
        layer(torch.randn(3, 48))
    layer.bias = nn.Parameter(layer.bias.double(), requires_grad=False)
    with pytest.raises(RuntimeError):
        layer(torch.randn(3, 48).to(dtype))

    assert not runs
    assert report.rows[0].kernel


def test_autocast_runs_dense_and_is_counted(always, runs, dtype):
    model, x, _, report = optimized()
    runs.clear()

    with torch.inference_mode(), torch.autocast("cpu", dtype=dtype):
        y = model(x)

    assert not runs
    assert torch.isfinite(y).all()
    assert report.dense_calls == {"up": 1, "mixed": 2}


def test_a_model_that_becomes_one_of_halves_later_is_compiled_anew(always, runs, dtype):
    model, x, _, _ = optimized()
    half = copy.deepcopy(model).to(dtype)
    reference = copy.deepcopy(half)
    sparse.restore_(reference)
    runs.clear()

    with torch.inference_mode():
        y = half(x.to(dtype))

    assert len(runs) == 3
    with torch.inference_mode():
        near(y, reference(x.to(dtype)))


def test_kernels_of_halves_are_saved_and_found(always, runs, tmp_path, dtype):
    model, x, reference, _ = optimized(x=torch.randn(2, 7, 48).to(dtype), model=Encoder().to(dtype))
    other = copy.deepcopy(model)
    sparse.restore_(other)
    sparse.save(model, tmp_path / "model.spjit")

    report = sparse.load_(other, tmp_path / "model.spjit")
    runs.clear()
    with torch.inference_mode():
        y = other(x)

    assert len(runs) == 3
    assert {row.layer for row in report.rows if row.kernel} == {"up", "mixed"}
    near(y, reference)


def test_equal_bytes_of_both_types_are_other_weights(dtype):
    weight = torch.randn(4, 6).to(dtype)
    other = weight.view(HALVES[1 - HALVES.index(dtype)])

    assert content_hash(weight) != content_hash(other)
    assert content_hash(weight) == content_hash(weight.clone())
    assert content_hash(weight) != content_hash(weight.float())
