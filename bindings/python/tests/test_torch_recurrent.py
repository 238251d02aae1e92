"""nn.LSTM, nn.GRU, nn.RNN and their cells as sparse layers."""

import copy
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch import _files, _recurrent_op  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence  # noqa: E402

from torch_testing import (  # noqa: E402
    _seeded, always, compiles, forget, slow_compiler, thin_out)  # noqa: F401

# What torch itself says of projections.
pytestmark = [pytest.mark.filterwarnings("ignore:LSTM with projections"),
              pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")]

KINDS = [nn.LSTM, nn.GRU, nn.RNN]
CELLS = [nn.LSTMCell, nn.GRUCell, nn.RNNCell]


@pytest.fixture
def runs(monkeypatch):
    """Counts runs of recurrent layers."""
    counted = []
    run = _recurrent_op._run
    monkeypatch.setattr(_recurrent_op, "_run",
                        lambda *given: counted.append(1) or run(*given))
    return counted


def thinned(module, zeros=0.8):
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "weight" in name:
                parameter.mul_(torch.rand_like(parameter) >= zeros)
    return module.eval()


def optimized(module, *example):
    """The module, sparse, and a copy of it in float64."""
    judge = copy.deepcopy(module).double()
    report = sparse.optimize_(module, example)
    assert [row.reason for row in report.rows] == [""]
    return module, judge


def to_double(value):
    if isinstance(value, PackedSequence):
        return value.to(torch.float64)
    if isinstance(value, tuple):
        return tuple(map(to_double, value))
    return None if value is None else value.double()


def tensors(value):
    """All of a result."""
    if isinstance(value, PackedSequence):
        return [value.data, value.batch_sizes]
    if isinstance(value, tuple):
        return [tensor for each in value for tensor in tensors(each)]
    return [value]


def assert_as(model, judge, *given):
    """Within rounding of what torch computes in float64."""
    with torch.inference_mode():
        result = model(*given)
        expected = judge(*map(to_double, given))
    for one, other in zip(tensors(result), tensors(expected)):
        assert one.shape == other.shape
        torch.testing.assert_close(one.double(), other.double(), rtol=2e-5, atol=2e-6)
    return result


def state_of(kind, rows, batch, outputs, hidden):
    h = torch.randn(*rows, *batch, outputs)
    return (h, torch.randn(*rows, *batch, hidden)) if kind in (nn.LSTM, nn.LSTMCell) else h


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [
    {}, {"bidirectional": True}, {"num_layers": 3}, {"batch_first": True}, {"bias": False},
    {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_computes_what_torch_does(always, runs, kind, options):
    model, judge = optimized(thinned(kind(13, 21, **options)), torch.randn(6, 3, 13))
    rows = options.get("num_layers", 1) * (2 if "bidirectional" in options else 1)

    for steps, batch in ((6, 3), (1, 1), (1, 7), (9, 1), (4, 17)):
        shape = (batch, steps) if "batch_first" in options else (steps, batch)
        x = torch.randn(*shape, 13)
        runs.clear()
        assert_as(model, judge, x)
        assert len(runs) == options.get("num_layers", 1)
        assert_as(model, judge, x, state_of(kind, (rows,), (batch,), 21, 21))
    assert not model.spjit_calls.by_layer


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_projections(always, runs, options):
    model, judge = optimized(thinned(nn.LSTM(13, 21, proj_size=5, **options)),
                             torch.randn(6, 3, 13))
    rows = 4 if options else 1

    x = torch.randn(4, 2, 13)
    assert_as(model, judge, x)
    assert_as(model, judge, x, state_of(nn.LSTM, (rows,), (2,), 5, 21))
    assert_as(model, judge, pack_sequence([torch.randn(n, 13) for n in (5, 3, 1)]))
    assert runs and not model.spjit_calls.by_layer


def test_relu_of_an_rnn(always, runs):
    model, judge = optimized(thinned(nn.RNN(13, 21, nonlinearity="relu")), torch.randn(6, 3, 13))
    assert_as(model, judge, torch.randn(6, 3, 13))
    cell, judge = optimized(thinned(nn.RNNCell(13, 21, nonlinearity="relu")), torch.randn(3, 13))
    assert_as(cell, judge, torch.randn(3, 13))
    assert runs and not cell.spjit_calls.by_layer


@pytest.mark.parametrize("kind", KINDS)
def test_takes_one_sequence_without_a_batch(always, runs, kind):
    for options in ({}, {"batch_first": True, "bidirectional": True}):
        model, judge = optimized(thinned(kind(13, 21, **options)), torch.randn(6, 13))

        assert_as(model, judge, torch.randn(4, 13))
        assert_as(model, judge, torch.randn(4, 13),
                  state_of(kind, (2 if options else 1,), (), 21, 21))
        assert runs and not model.spjit_calls.by_layer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[6, 6, 2, 1], [1, 5, 3, 5], [1], [4, 1]])
def test_takes_packed_sequences(always, runs, kind, lengths):
    model, judge = optimized(thinned(kind(13, 21, 2, bidirectional=True)), torch.randn(6, 4, 13))
    padded = torch.randn(max(lengths), len(lengths), 13)
    packed = pack_padded_sequence(padded, lengths, enforce_sorted=False)
    runs.clear()

    y, _ = assert_as(model, judge, packed)
    assert_as(model, judge, packed, state_of(kind, (4,), (len(lengths),), 21, 21))
    assert isinstance(y, PackedSequence)
    ordered = sorted(lengths, reverse=True)
    sequences = pack_sequence([torch.randn(length, 13) for length in ordered])
    assert_as(model, judge, sequences)
    assert len(runs) == 6
    assert not model.spjit_calls.by_layer


def test_an_example_may_be_packed(always, runs):
    packed = pack_sequence([torch.randn(length, 13) for length in (5, 3)])
    model = thinned(nn.GRU(13, 21))
    judge = copy.deepcopy(model).double()

    report = sparse.optimize_(model, (packed,))

    assert report.rows[0].input == (5, 2, 13)
    assert_as(model, judge, packed)
    assert not report.dense_calls


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("bias", [True, False])
def test_cells(always, runs, kind, bias):
    model, judge = optimized(thinned(kind(13, 21, bias)), torch.randn(3, 13))

    for batch in ((3,), (1,), (17,), ()):
        x = torch.randn(*batch, 13)
        runs.clear()
        assert_as(model, judge, x)
        assert_as(model, judge, x, state_of(kind, (), batch, 21, 21))
        assert len(runs) == 2
    assert not model.spjit_calls.by_layer


def test_a_cell_in_a_loop(always, runs):
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(13, 21)
            self.out = nn.Linear(21, 13)

        def forward(self, x):
            state, y = None, []
            for _ in range(5):
                state = self.cell(x, state)
                x = self.out(state[0])
                y.append(x)
            return torch.stack(y)

    model = thinned(Decoder())
    judge = copy.deepcopy(model).double()
    report = sparse.optimize_(model, torch.randn(2, 13))
    runs.clear()

    assert_as(model, judge, torch.randn(2, 13))

    assert len(runs) == 5
    assert [(row.layer, row.kind) for row in report.sparse] == [("cell", "LSTMCell"),
                                                                ("out", "Linear")]


def test_a_strided_input_is_taken(always, runs):
    model, judge = optimized(thinned(nn.LSTM(13, 21)), torch.randn(6, 3, 13))

    assert_as(model, judge, torch.randn(3, 6, 13).transpose(0, 1))
    assert_as(model, judge, torch.randn(6, 3, 26)[..., ::2],
              tuple(each.transpose(0, 2) for each in torch.randn(2, 21, 3, 1)))
    assert not model.spjit_calls.by_layer


def test_the_report_has_a_row_a_module(always):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(13, 21, 2)
            self.cell = nn.GRUCell(21, 8)

        def forward(self, x):
            return self.cell(self.lstm(x)[0][-1])

    model = thinned(Two())
    report = sparse.optimize_(model, torch.randn(6, 3, 13))

    lstm, cell = report.rows
    assert (lstm.layer, lstm.kind, lstm.input) == ("lstm", "LSTM", (6, 3, 13))
    assert lstm.shape == (84, 13 + 3 * 21)
    assert 0.7 < lstm.zeros < 0.9
    assert lstm.sparse and lstm.kernel and lstm.before_us > 0 and lstm.after_us > 0
    assert (cell.layer, cell.kind, cell.input) == ("cell", "GRUCell", (1, 3, 21))
    assert cell.shape == (24, 29)
    assert report.sparse_share == 1


def refused(module, *example):
    report = sparse.optimize_(module.eval(), example)
    assert not report.sparse
    return report.rows[0].reason


def test_says_why_a_layer_stays_dense(always):
    x = torch.randn(6, 3, 13)

    dense = thinned(nn.LSTM(13, 21))
    nn.init.normal_(dense.weight_hh_l0)
    assert refused(dense, x) == "less than 50 % zeros in weight_hh_l0"
    double = thinned(nn.LSTM(13, 21)).double()
    assert refused(double, x.double()) == "its weight_ih_l0 is float64; expected float32"
    with pytest.warns(FutureWarning):
        hooked = torch.nn.utils.weight_norm(thinned(nn.GRU(13, 21)), "weight_hh_l0")
    assert "its weight_hh_l0 is made anew in each call: remove hooks" in refused(hooked, x)
    replaced = thinned(nn.GRU(13, 21))
    replaced.forward = lambda x: nn.GRU.forward(replaced, x)
    assert refused(replaced, x) == "its forward() was replaced"

    class Own(nn.LSTM):
        def forward(self, x):
            return super().forward(x + 1)

    assert refused(thinned(Own(13, 21)), x) == "it is a Own, whose forward() may differ"

    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(13, 21)

        def forward(self, x):
            return x

    assert refused(thinned(Unused()), x) == "the example does not call it"


def test_gradients_run_dense_and_warn_once(always, runs):
    model, judge = optimized(thinned(nn.LSTM(13, 21)), torch.randn(6, 3, 13))
    x = torch.randn(6, 3, 13)
    runs.clear()

    with pytest.warns(UserWarning, match="run dense while gradients"):
        y, _ = model(x)
    y.sum().backward()
    judge(x.double())[0].sum().backward()

    assert not runs
    torch.testing.assert_close(model.weight_hh_l0.grad.double(), judge.weight_hh_l0.grad,
                               rtol=1e-4, atol=1e-5)
    assert model.spjit_calls.by_layer == {"": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(x)
        model.requires_grad_(False)
        model(x.clone().requires_grad_())[0].sum().backward()
        assert not runs
        model(x)
    assert len(runs) == 1


def test_the_gradient_of_a_state_runs_dense(always, runs):
    model, _ = optimized(thinned(nn.GRUCell(13, 21)), torch.randn(3, 13))
    model.requires_grad_(False)
    h = torch.randn(3, 21, requires_grad=True)
    runs.clear()

    model(torch.randn(3, 13), h).sum().backward()

    assert not runs and h.grad is not None


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l1", "bias_hh_l0"])
def test_changes_of_weights_are_noticed(always, runs, name):
    model, judge = optimized(thinned(nn.LSTM(13, 21, 2)), torch.randn(6, 3, 13))
    x = torch.randn(6, 3, 13)
    assert_as(model, judge, x)

    for each in (model, judge):
        with torch.no_grad():
            getattr(each, name).mul_(-2)
    assert_as(model, judge, x)
    model.load_state_dict(thinned(nn.LSTM(13, 21, 2)).state_dict())
    judge.load_state_dict(model.state_dict())
    assert_as(model, judge, x)
    setattr(model, name, nn.Parameter(getattr(model, name).detach() * 0.5))
    setattr(judge, name, nn.Parameter(getattr(judge, name).detach() * 0.5))
    assert_as(model, judge, x)
    assert not model.spjit_calls.by_layer


def test_weights_that_became_dense_run_dense(always, runs):
    model, judge = optimized(thinned(nn.GRU(13, 21)), torch.randn(6, 3, 13))
    for each in (model, judge):
        with torch.no_grad():
            each.weight_hh_l0.fill_(0.125)
    runs.clear()

    assert_as(model, judge, torch.randn(6, 3, 13))

    assert not runs and model.spjit_calls.by_layer == {"": 1}


def test_a_mask_that_came_later_runs_dense(always, runs):
    model, judge = optimized(thinned(nn.GRU(13, 21)), torch.randn(6, 3, 13))
    for each in (model, judge):
        prune.ln_structured(each, "weight_hh_l0", 0.5, n=1, dim=0)
    runs.clear()

    assert_as(model, judge, torch.randn(6, 3, 13))
    assert not runs
    prune.remove(model, "weight_hh_l0")
    assert_as(model, judge, torch.randn(6, 3, 13))
    assert len(runs) == 1


def test_dropout_runs_dense_in_training(always, runs):
    model, _ = optimized(thinned(nn.LSTM(13, 21, 2, dropout=0.5)), torch.randn(6, 3, 13))
    runs.clear()

    with torch.no_grad():
        model.train()(torch.randn(6, 3, 13))
        assert not runs
        model.eval()(torch.randn(6, 3, 13))
    assert len(runs) == 2


def test_what_torch_refuses_has_its_error(always):
    model, _ = optimized(thinned(nn.LSTM(13, 21)), torch.randn(6, 3, 13))
    dense = nn.LSTM(13, 21)

    with torch.inference_mode():
        for given in ((torch.randn(6, 3, 12),), (torch.randn(13),), (torch.randn(0, 3, 13),),
                      (torch.randn(6, 3, 13), (torch.randn(1, 2, 21), torch.randn(1, 3, 21))),
                      (torch.randn(6, 3, 13), torch.randn(1, 3, 21)),
                      (torch.randn(6, 3, 13).double(),)):
            with pytest.raises(Exception) as expected:
                dense(*given)
            with pytest.raises(type(expected.value)) as raised:
                model(*given)
            assert str(raised.value) == str(expected.value)


def test_restores_all(always):
    model = thinned(nn.LSTM(13, 21, 2))
    before, x = dict(model.named_parameters()), torch.randn(6, 3, 13)
    with torch.no_grad():
        expected = model(x)[0]
    sparse.optimize_(model, x)
    assert type(model) is not nn.LSTM

    sparse.restore_(model)

    assert type(model) is nn.LSTM
    assert all(after is before[name] for name, after in model.named_parameters())
    assert not [name for name in vars(model) if name.startswith("spjit")]
    with torch.no_grad():
        torch.testing.assert_close(model(x)[0], expected, rtol=0, atol=0)


def test_copies_and_state_dicts_stay(always, runs):
    model, judge = optimized(thinned(nn.LSTM(13, 21, 2)), torch.randn(6, 3, 13))
    assert list(model.state_dict()) == list(judge.state_dict())

    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        runs.clear()
        assert_as(copied, judge, torch.randn(6, 3, 13))
        assert len(runs) == 2
    assert_as(model.float(), judge, torch.randn(6, 3, 13))


@pytest.mark.parametrize("shape", [(6, 3, 13), (1, 2, 13), (6, 9, 13)])
def test_saves_and_loads(always, compiles, monkeypatch, tmp_path, shape):
    model = thinned(nn.LSTM(13, 21, 2, bidirectional=True, proj_size=6))
    judge, other = copy.deepcopy(model).double(), copy.deepcopy(model)
    sparse.optimize_(model, torch.randn(*shape))
    sparse.save(model, tmp_path / "model.spjit")
    forget()
    compiles.clear()

    report = sparse.load_(other, tmp_path / "model.spjit")

    assert [row.layer for row in report.sparse] == [""]
    assert_as(other, judge, torch.randn(*shape))
    assert not compiles
    assert_as(other, judge, torch.randn(5, 2, 13))


def test_loads_what_now_has_other_weights(always, compiles, tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(13, 21)

        def forward(self, x):
            return self.cell(x)

    model, other = thinned(Model()), thinned(Model())
    judge = copy.deepcopy(other).double()
    sparse.optimize_(model, torch.randn(3, 13))
    sparse.save(model, tmp_path / "model.spjit")
    compiles.clear()

    report = sparse.load_(other, tmp_path / "model.spjit")

    assert len(compiles) == 2
    assert [row.layer for row in report.sparse] == ["cell"]
    assert_as(other, judge, torch.randn(3, 13))
    stranger = thinned(nn.GRUCell(13, 21))
    assert sparse.load_(stranger, tmp_path / "model.spjit").rows[0].reason == (
        "the file has no kernel for it")


def test_a_file_with_a_wrong_step_is_refused():
    text = '{"key":"w/1/0x0/nchw/0/1","bias":true,"computed":["1"],"name":"a"}'
    with pytest.raises(TypeError):
        _files._Saved.parse(text)
    saved = _files._Saved.parse(text.replace('"1"', "1"))
    assert saved.key.batch == 1 and saved.computed.batch == 1
    assert _files._Saved.parse(saved.text()) == saved


def test_other_batches_are_no_weights_that_change(always, recwarn):
    """Each batch up to 4 has kernels of its own: for 12 matrices more than changes are free."""
    model = thinned(nn.LSTM(5, 7, 3, bidirectional=True))
    report = sparse.optimize_(model, torch.randn(6, 8, 5), budget=0)

    with torch.inference_mode():
        for batch in (1, 2, 3):
            model(torch.randn(6, batch, 5))

    assert not report.dense_calls
    assert not [one for one in recwarn if "change so often" in str(one.message)]


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
def test_is_one_operator_of_traces(always, runs, mode):
    """Also where the trace records gradients, and torch's check of the trace none."""
    model, judge = optimized(thinned(nn.LSTM(13, 21, 2)), torch.randn(6, 3, 13))
    x = torch.randn(6, 3, 13)

    with mode():
        traced = torch.jit.trace(model, x)
        assert str(traced.inlined_graph).count("spjit::recurrent") == 1
    with torch.inference_mode():
        runs.clear()
        result = traced(x)
    assert len(runs) == 2
    torch.testing.assert_close(result[0].double(), judge(x.double())[0], rtol=2e-5, atol=2e-6)


def test_a_compiled_model_has_the_same(always):
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.lstm = nn.GRUCell(13, 21), nn.LSTM(21, 8)

        def forward(self, x):
            return self.lstm(torch.tanh(self.cell(x))[None])[0] + 1

    model = thinned(Decoder())
    judge = copy.deepcopy(model).double()
    sparse.optimize_(model, torch.randn(3, 13))

    with torch.inference_mode():
        x = torch.randn(3, 13)
        y = torch.compile(model, backend="eager")(x)
        torch.testing.assert_close(y.double(), judge(x.double()), rtol=2e-5, atol=2e-6)


def test_fake_tensors_have_the_shapes(always):
    from torch._subclasses.fake_tensor import FakeTensorMode

    for model, x in ((nn.LSTM(13, 21, 2, bidirectional=True, proj_size=5), torch.randn(6, 3, 13)),
                     (nn.GRU(13, 21, batch_first=True), torch.randn(6, 3, 13))):
        sparse.optimize_(thinned(model), x)
        with torch.inference_mode():
            expected = [each.shape for each in tensors(model(x))]
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            given = [torch.empty(each.shape) for each in model._flat_weights]
            fake = torch.ops.spjit.recurrent(
                torch.empty(x.shape), None, None, None, given, model.mode, True, model.num_layers,
                model.bidirectional, model.batch_first, model.spjit_key)
        assert [each.shape for each in fake][:len(expected)] == expected


def test_autocast_and_modes_run_dense(always, runs):
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    model, judge = optimized(thinned(nn.LSTM(13, 21)), torch.randn(6, 3, 13))
    x = torch.randn(6, 3, 13)
    runs.clear()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(x)[0].dtype is nn.LSTM.forward(model, x)[0].dtype
    with Mode():
        assert_as(model, judge, x)
    assert not runs


def test_a_default_device_changes_nothing(always, runs):
    model, judge = optimized(thinned(nn.LSTM(13, 21)), torch.randn(6, 3, 13))
    runs.clear()

    with torch.device("cpu"):
        assert_as(model, judge, torch.randn(6, 3, 13))

    assert len(runs) == 1


@pytest.mark.filterwarnings("error:spjit.torch. weights of sparse layers change")
@pytest.mark.parametrize("layers, bidirectional", [(11, False), (6, True)])
def test_a_package_of_many_layers_is_sparse_at_once(always, runs, slow_compiler, tmp_path, layers,
                                                    bidirectional):
    """With all kernels to find first."""
    model = thinned(nn.GRU(12, 12, num_layers=layers, bidirectional=bidirectional))
    x = torch.randn(5, 2, 12)
    sparse.optimize_(model, (x,))
    with torch.no_grad():
        expected = model(x)[0]
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    loaded = torch.export.load(tmp_path / "m.pt2").module()
    forget()
    runs.clear()

    with torch.no_grad():
        y = loaded(x)[0]

    assert len(runs) == layers
    assert torch.equal(y, expected)


def test_other_exports_are_refused_in_one_line(always):
    from spjit import NotSupported

    model, _ = optimized(thinned(nn.LSTM(13, 21)), torch.randn(6, 3, 13))

    with pytest.raises(NotSupported, match="torch.jit.script does not know sparse layers"):
        torch.jit.script(model)
    with pytest.raises(NotSupported, match="torch.fx does not know sparse recurrent layers"):
        torch.fx.symbolic_trace(nn.Sequential(model))


def test_threads_share_a_layer(always):
    threads = torch.get_num_threads()
    model, judge = optimized(thinned(nn.LSTM(40, 130)), torch.randn(6, 3, 40))
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            assert_as(model, judge, torch.randn(6, 3, 40))
    finally:
        torch.set_num_threads(threads)
    assert not model.spjit_calls.by_layer


def test_a_linear_beside_it_is_counted_alone(always):
    model = nn.Sequential(thin_out(nn.Linear(13, 13)), thinned(nn.RNNCell(13, 13)), nn.ReLU())
    report = sparse.optimize_(model.eval(), torch.randn(4, 13))

    assert [row.kind for row in report.sparse] == ["Linear", "RNNCell"]
    assert [row.activation for row in report.rows] == ["", ""]
