"""spjit.torch: each weight of two dimensions and more has a line and a reason."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch_testing import (  # noqa: E402, F401
    _seeded, always, close, optimized, runs, thin_out)

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore::UserWarning:torch.*")]


class Zoo(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 16)
        self.layer = thin_out(nn.Linear(16, 16))
        self.tied = nn.Linear(16, 5, bias=False)
        self.tied.weight = self.table.weight
        self.volume = thin_out(nn.Conv3d(1, 2, 2))
        self.up = nn.ConvTranspose2d(1, 2, 2)
        self.lstm = nn.LSTM(16, 8, bidirectional=True)
        self.cell = nn.GRUCell(16, 8)
        self.pair = nn.Bilinear(16, 16, 4)
        self.attention = nn.MultiheadAttention(16, 2)
        self.norm = nn.LayerNorm((3, 16))
        self.own = nn.Parameter(torch.zeros(16, 4))
        self.list = nn.ParameterList([torch.ones(2, 2)])
        self.pruned = nn.ConvTranspose1d(4, 4, 3)
        prune.l1_unstructured(self.pruned, "weight", amount=0.75)

    def forward(self, x):
        return functional.linear(self.layer(x), self.own.T)


def test_every_weight_of_two_dimensions_has_a_line_and_a_reason(always):
    model = Zoo().eval()

    report = sparse.optimize_(model, torch.randn(3, 16))

    rows = {row.layer: row for row in report.rows}
    expected = {id(p) for p in model.parameters() if p.dim() >= 2}
    assert len(rows) == len(report.rows) == len(expected)
    assert {name: row.reason for name, row in rows.items() if row.kind != "Linear"} == {
        "volume": "there is no kernel for Conv3d",
        "up": "there is no kernel for ConvTranspose2d",
        "lstm.weight_ih_l0": "there is no kernel for LSTM",
        "lstm.weight_hh_l0": "there is no kernel for LSTM",
        "lstm.weight_ih_l0_reverse": "there is no kernel for LSTM",
        "lstm.weight_hh_l0_reverse": "there is no kernel for LSTM",
        "cell.weight_ih": "there is no kernel for GRUCell",
        "cell.weight_hh": "there is no kernel for GRUCell",
        "pair": "there is no kernel for Bilinear",
        "attention.in_proj_weight": "there is no kernel for MultiheadAttention",
        "norm": "it is used element by element",
        "norm.bias": "it is used element by element",
        "own": "a parameter that functions of Zoo use; expected it in an nn.Linear, nn.Conv1d or "
               "nn.Conv2d",
        "list.0": "a parameter that functions of ParameterList use; expected it in an nn.Linear, "
                  "nn.Conv1d or nn.Conv2d",
        "pruned": "there is no kernel for ConvTranspose1d"}
    assert "NonDynamicallyQuantizableLinear" in rows["attention.out_proj"].reason
    assert rows["tied"].reason
    assert rows["own"].zeros == 1
    assert rows["volume"].zeros > 0.5
    assert rows["pruned"].zeros == pytest.approx(0.75, abs=0.01)


def test_the_summary_has_the_share_of_weights_that_became_sparse(always):
    model = nn.Sequential(thin_out(nn.Linear(16, 30)), nn.Linear(30, 4), nn.Flatten(),
                          nn.Unflatten(1, (1, 4)), nn.ConvTranspose1d(1, 10, 4)).eval()

    report = sparse.optimize_(model, torch.randn(3, 16))

    assert report.sparse_share == 16 * 30 / (16 * 30 + 30 * 4 + 10 * 4)
    assert "1 of 3 layers are sparse, 75.0 % of the model's weights; the model" in str(report)
    assert sparse.optimize_(nn.ReLU(), torch.randn(3)).sparse_share == 0


def test_an_embedding_has_its_own_line():
    report = sparse.optimize_(nn.Embedding(5, 16), torch.tensor([1]))

    assert [(row.layer, row.kind, row.reason) for row in report.rows] == [
        ("weight", "Embedding", "its rows are looked up, not multiplied")]


def test_scripted_and_traced_modules_have_lines():
    model = nn.Sequential(thin_out(nn.Linear(16, 16)), nn.ReLU()).eval()
    x = torch.randn(3, 16)
    for made in (torch.jit.script(model), torch.jit.trace(model, (x,)),
                 nn.Sequential(torch.jit.script(model[0]))):
        report = sparse.optimize_(made, x)

        assert [(row.kind, row.shape) for row in report.rows] == [("Linear", (16, 16))]
        assert report.rows[0].reason.startswith("torch.jit runs it")
        assert report.rows[0].zeros > 0.5


def test_quantised_modules_have_lines():
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch has no quantised kernels here")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.lstm = thin_out(nn.Linear(16, 16)), nn.LSTM(16, 8)

        def forward(self, x):
            return self.lstm(self.layer(x))[0]

    made = torch.ao.quantization.quantize_dynamic(Model().eval(), {nn.Linear, nn.LSTM})

    report = sparse.optimize_(made, torch.randn(3, 1, 16))

    rows = {row.layer: row for row in report.rows}
    assert rows["layer"].reason == "its weight is quantised (qint8); expected float32"
    assert rows["layer"].zeros > 0.5
    assert rows["lstm.weight_ih_l0"].shape == (32, 16)
    assert rows["lstm.weight_hh_l0"].shape == (32, 8)


def test_conv1d_of_transformers_says_what_is_expected():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = nn.Sequential(transformers.pytorch_utils.Conv1D(8, 16))

    report = sparse.optimize_(model, torch.randn(3, 16))

    assert "expected an nn.Linear in its place" in report.rows[0].reason


def test_loading_reports_every_weight_too(always, tmp_path):
    model = Zoo().eval()
    report = sparse.optimize_(model, torch.randn(3, 16))
    sparse.save(model, tmp_path / "model.spjit")

    loaded = sparse.load_(model, tmp_path / "model.spjit")

    assert [row.layer for row in loaded.rows] == [row.layer for row in report.rows]
    assert all(row.sparse != bool(row.reason) for row in loaded.rows)
