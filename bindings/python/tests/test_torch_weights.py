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
    of_recurrent = [*model.lstm.parameters(), *model.cell.parameters()]  # which have two lines
    expected = {"lstm", "cell"} | {id(p) for p in model.parameters() if p.dim() >= 2} - set(
        map(id, of_recurrent))
    assert len(rows) == len(report.rows) == len(expected)
    assert {name: row.reason for name, row in rows.items() if row.kind != "Linear"} == {
        "volume": "there is no kernel for Conv3d, of three dimensions; expected one or two",
        "up": "less than 50 % zeros",
        "lstm": "less than 50 % zeros in weight_ih_l0",
        "cell": "less than 50 % zeros in weight_ih",
        "pair": "there is no kernel for Bilinear",
        "attention": "less than 50 % zeros",
        "norm": "it is used element by element",
        "norm.bias": "it is used element by element",
        "own": "a parameter that functions of Zoo use; expected it in an nn.Linear, nn.Conv1d or "
               "nn.Conv2d",
        "list.0": "a parameter that functions of ParameterList use; expected it in an nn.Linear, "
                  "nn.Conv1d or nn.Conv2d",
        "pruned": "the example does not call it"}
    assert rows["attention.out_proj"].reason == "less than 50 % zeros"
    assert rows["tied"].reason
    assert rows["own"].zeros == 1
    assert rows["volume"].zeros > 0.5
    assert rows["pruned"].zeros == pytest.approx(0.75, abs=0.01)


class OfFunctions(nn.Module):
    """Modules whose weights functions use, beside the modules or in their place."""

    def __init__(self):
        super().__init__()
        self.called = thin_out(nn.Linear(16, 16))
        self.both = thin_out(nn.Linear(16, 16))
        self.only = thin_out(nn.Linear(16, 16))
        self.turned = thin_out(nn.Linear(16, 16))
        self.image = thin_out(nn.Conv1d(16, 16, 1))
        self.steps = nn.LSTM(16, 16)
        self.idle = thin_out(nn.Linear(16, 16))
        self.table = nn.Embedding(16, 16)
        self.names = nn.Embedding(16, 16)
        for parameter in self.steps.parameters():
            parameter.data.mul_(torch.rand_like(parameter) > 0.9)

    def forward(self, x):
        y = self.called(self.called(x)) + self.both(x) + functional.linear(x, self.both.weight)
        y = functional.linear(y, self.only.weight) @ self.turned.weight.T
        y = torch.conv1d(y.T, self.image.weight).T[:, None]
        state = (torch.zeros(1, 1, 16),) * 2
        y, *_ = torch._VF.lstm(y, state, self.steps._flat_weights, True, 1, 0.0, False, False,
                               False)
        return torch.matmul(y, self.table.weight) + self.names(torch.arange(16)).sum()


def test_functions_that_use_weights_of_modules_are_said(always):
    model = OfFunctions().eval()

    report = sparse.optimize_(model, torch.randn(3, 16))

    reasons = {row.layer: row.reason for row in report.rows}
    only = "the example does not call it: functions use its weight, and stay dense"
    looked_up = "its rows are looked up, not multiplied"
    assert reasons == {
        "called": "", "both": "", "only": only, "turned": only, "image": only, "steps": only,
        "both.weight": "functions use this weight, too, and stay dense: call the module instead",
        "idle": "the example does not call it", "names": looked_up,
        "table": f"{looked_up}; functions multiply by it, too: expected an nn.Linear with this "
                 "weight"}
    rows = {row.layer: row for row in report.rows}
    assert rows["both.weight"].shape == () and rows["both.weight"].zeros == rows["both"].zeros
    assert report.sparse_share == 2 * 256 / sum(
        p.numel() for p in model.parameters() if p.dim() > 1)


def test_a_model_that_fails_under_a_mode_has_its_lines(always):
    """A pass under a mode shows what functions use: torch may refuse it, as with nested tensors."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.idle = thin_out(nn.Linear(16, 16)), thin_out(nn.Linear(16, 16))

        def forward(self, x):
            if torch.overrides.has_torch_function((x,)):
                raise RuntimeError("there is a mode")
            return self.layer(x)

    report = sparse.optimize_(Model().eval(), torch.randn(3, 16))

    assert [row.reason for row in report.rows] == ["", "the example does not call it"]


def test_other_parameters_of_layers_have_lines(always):
    """Biases of keys, and what a user put into a layer."""
    attention = nn.MultiheadAttention(16, 2, add_bias_kv=True)
    attention.in_proj_weight.data.mul_(torch.rand(48, 16) > 0.9)
    thin_out(attention.out_proj)
    layer = thin_out(nn.Linear(16, 16))
    layer.extra = nn.Parameter(torch.zeros(4, 4))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.attention = layer, attention

        def forward(self, x):
            return self.attention(*3 * [self.layer(x)])[0]

    report = sparse.optimize_(Model().eval(), torch.randn(5, 1, 16))

    rows = {row.layer: row for row in report.rows}
    assert [name for name, row in rows.items() if row.sparse] == [
        "layer", "attention", "attention.out_proj"]
    assert {name: (row.kind, row.shape) for name, row in rows.items() if not row.sparse} == {
        "layer.extra": ("Linear", (4, 4)), "attention.bias_k": ("MultiheadAttention", (1, 1, 16)),
        "attention.bias_v": ("MultiheadAttention", (1, 1, 16))}
    for name in "kv":
        assert "one more key or value" in rows[f"attention.bias_{name}"].reason
    assert rows["layer.extra"].reason.startswith("a parameter that functions of Linear use")


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


def test_weights_of_exported_models_have_lines():
    x = torch.randn(2, 16)
    # A weight of the graph's own module, which cannot become a layer.
    model = torch.export.export(thin_out(nn.Linear(16, 16)).eval(), (x,)).module()
    with torch.no_grad():
        reference = model(x)

    report = sparse.optimize_(model, (x,))

    assert [(row.layer, row.shape) for row in report.rows] == [("weight", (16, 16))]
    assert "expected it in an nn.Linear" in report.rows[0].reason
    with torch.no_grad():
        assert torch.equal(model(x), reference)


def test_an_exported_model_may_be_a_part_of_another(always):
    part = torch.export.export(nn.Linear(16, 16).eval(), (torch.randn(2, 16),)).module()
    modes = []

    class Looks(nn.Linear):
        def __init__(self):
            super().__init__(16, 16)
            self.register_forward_pre_hook(lambda module, _: modes.append(module.training))

    model = nn.Sequential(part, Looks(), thin_out(nn.Linear(16, 16)))

    report = sparse.optimize_(model, torch.randn(2, 16))

    assert [row.layer for row in report.sparse] == ["2"]
    assert modes
    assert not any(modes)
    assert model.training
    assert model[1].training


def test_scripted_and_traced_modules_have_lines():
    model = nn.Sequential(thin_out(nn.Linear(16, 16)), nn.ReLU()).eval()
    x = torch.randn(3, 16)
    for made in (torch.jit.script(model), torch.jit.trace(model, (x,)),
                 nn.Sequential(torch.jit.script(model[0]))):
        report = sparse.optimize_(made, x)

        assert [(row.kind, row.shape) for row in report.rows] == [("Linear", (16, 16))]
        assert report.rows[0].reason.startswith("torch.jit runs it")
        assert report.rows[0].zeros > 0.5


def test_quantised_modules_have_lines(always):
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
    assert rows["layer"].types == "i8,u8,f32"
    assert rows["layer"].zeros > 0.5
    assert rows["lstm.weight_ih_l0"].shape == (32, 16)
    assert rows["lstm.weight_hh_l0"].shape == (32, 8)


@pytest.mark.parametrize("how", ["scripted", "saved", "frozen"])
def test_packed_weights_of_scripted_modules_have_lines(tmp_path, how):
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch has no quantised kernels here")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.cell = thin_out(nn.Linear(16, 16)), nn.GRUCell(16, 8)
            self.lstm = nn.LSTM(8, 8)

        def forward(self, x):
            return self.lstm(self.cell(self.layer(x))[None])[0]

    made = torch.ao.quantization.quantize_dynamic(
        Model().eval(), {nn.Linear, nn.GRUCell, nn.LSTM})
    x = torch.randn(3, 16)
    made = torch.jit.script(made)
    if how == "saved":
        torch.jit.save(made, str(tmp_path / "model.pt"))
        made = torch.jit.load(str(tmp_path / "model.pt"))
    made = torch.jit.freeze(made) if how == "frozen" else made

    report = sparse.optimize_(made, x)

    assert sorted(row.shape for row in report.rows) == [(16, 16), (24, 8), (24, 16), (32, 8),
                                                        (32, 8)]
    assert all(row.reason.startswith("torch.jit runs it") for row in report.rows)
    row, = [row for row in report.rows if row.layer.split("._packed")[0] == "layer"]
    assert row.zeros > 0.5
    assert len({row.layer for row in report.rows}) == 5


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_packed_weights_of_traced_modules_have_lines():
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch has no quantised kernels here")
    made = torch.ao.quantization.quantize_dynamic(nn.Sequential(thin_out(nn.Linear(16, 24))))
    x = torch.randn(3, 16)

    report = sparse.optimize_(torch.jit.trace(made, (x,)), x)

    assert [(row.layer, row.kind, row.shape) for row in report.rows] == [
        ("0", "Linear", (24, 16))]


def test_weights_of_frozen_modules_have_lines():
    model = nn.Sequential(thin_out(nn.Linear(16, 16)), nn.ReLU()).eval()

    frozen = torch.jit.freeze(torch.jit.script(model))

    report = sparse.optimize_(frozen, torch.randn(3, 16))

    assert not hasattr(frozen, "training")
    assert [(row.layer, row.shape) for row in report.rows] == [("0", (16, 16))]
    assert report.rows[0].reason.startswith("torch.jit runs it")
    assert report.rows[0].zeros > 0.5


class Gptq(nn.Module):
    """As GPTQ and AWQ have layers of 4 bits."""

    def __init__(self, sizes=("in_features", "out_features")):
        super().__init__()
        for name, size in zip(sizes, (16, 24)):
            setattr(self, name, size)
        self.register_buffer("qweight", torch.zeros(2, 24, dtype=torch.int32))
        self.register_buffer("qzeros", torch.zeros(1, 3, dtype=torch.int32))
        self.register_buffer("scales", torch.ones(1, 24, dtype=torch.float16))
        self.register_buffer("g_idx", torch.zeros(16, dtype=torch.int32))

    def forward(self, x):
        return x.new_zeros(*x.shape[:-1], 24)


@pytest.mark.parametrize(("sizes", "shape"), [
    (("in_features", "out_features"), (24, 16)), (("infeatures", "outfeatures"), (24, 16)),
    ((), (2, 24))])
def test_weights_in_buffers_of_integers_have_lines(always, sizes, shape):
    model = nn.Sequential(thin_out(nn.Linear(16, 16)), Gptq(sizes)).eval()

    report = sparse.optimize_(model, torch.randn(3, 16))

    assert [(row.layer, row.kind, row.shape, row.zeros) for row in report.rows[1:]] == [
        ("1.qweight", "Gptq", shape, 0.0)]
    assert report.rows[1].reason == ("its weight is integers that Gptq unpacks (int32); expected "
                                     "float32")
    assert report.sparse_share == 256 / (256 + shape[0] * shape[1])


def test_other_weights_that_are_no_parameters_have_lines():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.eye(16))
            self.register_buffer("mask", torch.ones(16, 16))
            self.register_buffer("weight_mask", torch.ones(16, 16))
            self.bytes = nn.Parameter(torch.tensor([[0, 1]], dtype=torch.int8), requires_grad=False)

        def forward(self, x):
            return x @ self.weight

    own = Own()
    report = sparse.optimize_(nn.Sequential(own, own), torch.randn(3, 16))

    assert [(row.layer, row.zeros, row.reason) for row in report.rows] == [
        ("0.bytes", 0.5, "its weight is integers that Own unpacks (int8); expected float32"),
        ("0", 15 / 16, "a tensor that functions of Own use; expected it in an nn.Linear, nn.Conv1d "
                       "or nn.Conv2d")]


def test_sparse_tensors_in_buffers_and_attributes_have_lines():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kernel", torch.eye(16))
            self.register_buffer("causal_mask", torch.eye(16))
            self.register_buffer("table", torch.ones(16, 16))
            self.register_buffer("state", torch.zeros(16, 16))
            self.plain = torch.eye(16)
            self.same = self.plain
            self.several = [torch.eye(8), "text"]
            self.named = {"first": torch.eye(4)}
            self.numbers = torch.eye(16, dtype=torch.int64)
            self.pruned = nn.ConvTranspose1d(4, 4, 3)
            self.up = nn.Embedding(8, 4)
            prune.l1_unstructured(self.up, "weight", amount=0.75)

        def forward(self, x):
            self.last = torch.relu(x @ self.kernel * 0 + torch.eye(16)[:3])
            return x @ self.plain

    report = sparse.optimize_(Own(), torch.randn(3, 16))

    assert [(row.layer, row.shape) for row in report.rows if row.kind == "Own"] == [
        ("plain", (16, 16)), ("kernel", (16, 16)), ("several.0", (8, 8)), ("named.first", (4, 4))]
    assert [row.layer for row in report.rows if row.kind != "Own"] == ["pruned", "up"]
    assert report.rows[0].zeros == 15 / 16
    assert report.rows[0].reason == ("a tensor that functions of Own use; expected it in an "
                                     "nn.Linear, nn.Conv1d or nn.Conv2d")


def test_loading_reports_every_weight_too(always, tmp_path):
    model = Zoo().eval()
    report = sparse.optimize_(model, torch.randn(3, 16))
    sparse.save(model, tmp_path / "model.spjit")

    loaded = sparse.load_(model, tmp_path / "model.spjit")

    assert [row.layer for row in loaded.rows] == [row.layer for row in report.rows]
    assert all(row.sparse != bool(row.reason) for row in loaded.rows)


def test_a_weight_that_is_a_vector_has_no_kernel(always):
    model, x = nn.Sequential(thin_out(nn.Linear(16, 16)), nn.Linear(16, 16)), torch.ones(4, 16)
    model[1].weight, model[1].bias = nn.Parameter(torch.ones(16)), None

    report = sparse.optimize_(model, (x,))

    assert "its weight has 1 dimensions; expected 2" in str(report)
    with torch.no_grad():
        assert model(x).shape == (4,)
        model[0].weight, model[0].bias = nn.Parameter(torch.ones(16)), None
        assert model[0](x).shape == (4,)
