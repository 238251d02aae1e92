"""spjit.torch: masks of torch.nn.utils.prune on layers of several weights, and where the weight that
they make was made in inference mode."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from spjit.torch import _candidates, _recurrent_op  # noqa: E402
from torch import nn  # noqa: E402
from torch.ao.pruning import FakeSparsity  # noqa: E402
from torch.nn.utils import parametrize, prune  # noqa: E402
from torch_testing import _seeded, always, forget  # noqa: E402, F401
from torch_testing import runs as runs_of_products  # noqa: E402, F401

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore:LSTM with projections"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense"),
              pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")]


@pytest.fixture
def runs(monkeypatch, runs_of_products):
    """Counts runs of kernels and of recurrent layers."""
    run = _recurrent_op._run
    monkeypatch.setattr(_recurrent_op, "_run",
                        lambda *given: runs_of_products.append(1) or run(*given))
    return runs_of_products


def names_of(module):
    return [name for name, parameter in module.named_parameters(recurse=False)
            if "weight" in name and parameter.dim() == 2]


def masked(module, zeros=0.9, names=None):
    """In evaluation, under masks, and a copy in float64 without them."""
    judge = copy.deepcopy(module).double().eval()
    for name in names or names_of(module):
        prune.l1_unstructured(module, name, zeros)
    follow(judge, module)
    return module.eval(), judge


def follow(judge, module):
    """Gives it the weights of the masked module."""
    with torch.no_grad():
        for name in names_of(judge):
            weight = getattr(module, name)
            if hasattr(module, f"{name}_mask"):
                weight = getattr(module, f"{name}_orig") * getattr(module, f"{name}_mask")
            getattr(judge, name).copy_(weight)


def first_of(result):
    return result[0] if isinstance(result, tuple) else result


def assert_as(module, judge, *given):
    with torch.inference_mode():
        result = first_of(module(*given))
        expected = first_of(judge(*(each.double() for each in given)))
    torch.testing.assert_close(result.double(), expected, rtol=2e-5, atol=2e-6)


RECURRENT = [lambda: nn.LSTM(13, 21, 2, bidirectional=True), lambda: nn.GRU(13, 21, bias=False),
             lambda: nn.LSTM(13, 21, proj_size=7), lambda: nn.RNN(13, 21, batch_first=True),
             lambda: nn.GRUCell(13, 21), lambda: nn.LSTMCell(13, 21)]


def example_for(module):
    return torch.randn(3, 13) if isinstance(module, nn.RNNCellBase) else torch.randn(5, 3, 13)


@pytest.mark.parametrize("make", RECURRENT)
def test_masked_recurrent_layers_become_sparse(always, runs, make):
    module, judge = masked(make())
    keys, x = list(module.state_dict()), example_for(module)

    report = sparse.optimize_(module, x)

    row, = report.rows
    assert row.sparse and row.zeros == pytest.approx(0.9, abs=0.01)
    assert list(module.state_dict()) == keys
    runs.clear()
    assert_as(module, judge, x)
    assert_as(module, judge, torch.cat([x, x]))
    assert len(runs) == 2 * (2 if isinstance(module, nn.LSTM) and module.num_layers == 2 else 1)


@pytest.mark.parametrize("make", [lambda: nn.Linear(13, 21), *RECURRENT])
def test_masks_that_were_loaded_count_before_a_call(always, runs, make):
    """load_state_dict() changes their parts, of which only a call makes weights."""
    pruned, judge = masked(make())
    module = make().eval()
    for name in names_of(module):
        prune.identity(module, name)
    module.load_state_dict(pruned.state_dict())
    x = example_for(module) if not isinstance(module, nn.Linear) else torch.randn(5, 13)

    report = sparse.optimize_(module, x)

    assert report.rows[0].sparse and report.rows[0].zeros == pytest.approx(0.9, abs=0.01)
    assert_as(module, judge, x)


def test_weights_under_masks_have_no_second_line():
    """nn.RNNBase also has them in a list."""
    module, _ = masked(nn.LSTM(13, 21))

    report = sparse.optimize_(module, torch.randn(5, 3, 13))

    assert [row.layer for row in report.rows] == [""]


def test_a_mask_of_one_weight_is_enough(always, runs):
    module = nn.LSTM(13, 21)
    with torch.no_grad():
        module.weight_ih_l0.mul_(torch.rand(84, 13) > 0.8)
    module, judge = masked(module, names=["weight_hh_l0"])

    report = sparse.optimize_(module, torch.randn(5, 3, 13))

    assert report.rows[0].sparse
    assert_as(module, judge, torch.randn(1, 2, 13))


def attention():
    return nn.MultiheadAttention(20, 4, batch_first=True)


def test_masked_attention_becomes_sparse(always, runs):
    module, judge = masked(attention())
    prune.l1_unstructured(module.out_proj, "weight", 0.9)
    with torch.no_grad():
        judge.out_proj.weight.copy_(module.out_proj.weight)
    x, y = torch.randn(2, 5, 20), torch.randn(2, 3, 20)

    report = sparse.optimize_(module, (x, x, x), budget=0)

    assert [row.sparse for row in report.rows] == [True, True]
    for given in ((x, x, x), (x, y, y), (x[:, :3], y, y.clone())):
        runs.clear()
        assert_as(module, judge, *given)
        assert len(runs) > 1


def test_an_encoder_with_masks_calls_its_layers(always, runs):
    module = nn.TransformerEncoderLayer(20, 4, 36, batch_first=True).eval()
    judge = copy.deepcopy(module)
    for one, name in ((module.self_attn, "in_proj_weight"), (module.self_attn.out_proj, "weight"),
                      (module.linear1, "weight"), (module.linear2, "weight")):
        prune.l1_unstructured(one, name, 0.9)
    with torch.no_grad():
        for name, parameter in judge.named_parameters():
            path, _, last = name.rpartition(".")
            parameter.copy_(getattr(module.get_submodule(path), last))
    x = torch.randn(2, 5, 20)

    report = sparse.optimize_(module, x, budget=0)

    weights = [row for row in report.rows if len(row.shape) == 2]
    assert len(weights) == 4 and all(row.sparse for row in weights)
    runs.clear()
    assert_as(module, judge.double(), x)
    assert len(runs) == 4


@pytest.mark.parametrize("make", [lambda: nn.GRU(13, 21), attention])
def test_changes_of_masks_and_weights_are_seen(always, runs, make):
    module, judge = masked(make())
    name = names_of(judge)[-1]
    x = torch.randn(2, 5, judge.embed_dim if isinstance(judge, nn.MultiheadAttention) else 13)
    given = (x, x, x) if isinstance(judge, nn.MultiheadAttention) else (x,)
    sparse.optimize_(module, given, budget=0)

    def changed():
        follow(judge, module)
        runs.clear()
        assert_as(module, judge, *given)
        assert runs

    with torch.no_grad():
        getattr(module, f"{name}_orig").mul_(2)
    changed()
    with torch.inference_mode():
        getattr(module, f"{name}_mask")[3] = 0
    changed()
    state = {key: value.clone() for key, value in module.state_dict().items()}
    state[f"{name}_orig"][5] = 0.5
    module.load_state_dict(state)
    changed()


def test_gradients_reach_what_is_behind_the_mask(always, runs):
    module, judge = masked(nn.GRU(13, 21))
    x = torch.randn(5, 3, 13)
    sparse.optimize_(module, x)
    runs.clear()

    module(x)[0].sum().backward()
    judge(x.double())[0].sum().backward()

    assert not runs
    torch.testing.assert_close(module.weight_hh_l0_orig.grad.double(),
                               judge.weight_hh_l0.grad * module.weight_hh_l0_mask, rtol=1e-4,
                               atol=1e-5)
    assert_as(module, judge, x)
    assert len(runs) == 1


def test_copies_and_what_is_restored_compute_the_same(always, runs):
    module, judge = masked(nn.LSTM(13, 21))
    x = torch.randn(5, 3, 13)
    sparse.optimize_(module, x)

    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        runs.clear()
        assert_as(other, judge, x)
        assert len(runs) == 1
    runs.clear()
    sparse.restore_(module)
    assert type(module) is nn.LSTM
    with torch.no_grad():
        module.weight_hh_l0_orig.mul_(2)
    follow(judge, module)
    assert_as(module, judge, x)
    assert not runs
    prune.remove(module, "weight_hh_l0")
    assert_as(module, judge, x)


@pytest.mark.parametrize("make", [lambda: nn.LSTM(13, 21), attention])
def test_kernels_come_from_a_file(always, runs, tmp_path, make, monkeypatch):
    module, judge = masked(make())
    x = torch.randn(2, 5, judge.embed_dim if isinstance(judge, nn.MultiheadAttention) else 13)
    given = (x, x, x) if isinstance(judge, nn.MultiheadAttention) else (x,)
    sparse.optimize_(module, given, budget=0)
    sparse.save(module, tmp_path / "m.spjit")
    sparse.restore_(module)
    forget()
    monkeypatch.setattr(_candidates, "compile_layer", None)

    report = sparse.load_(module, tmp_path / "m.spjit")

    assert report.rows[0].sparse
    runs.clear()
    assert_as(module, judge, *given)
    assert runs


def test_a_cell_under_masks_is_part_of_a_graph(always):
    module, judge = masked(nn.GRUCell(13, 21))
    x = torch.randn(3, 13)
    sparse.optimize_(module, x)

    compiled = torch.compile(module, dynamic=True, fullgraph=True)

    with torch.no_grad():
        torch.testing.assert_close(compiled(x).double(), judge(x.double()), rtol=2e-5, atol=2e-6)


def test_a_pruned_bias_stays_dense(always):
    module, _ = masked(nn.GRU(13, 21))
    prune.l1_unstructured(module, "bias_hh_l0", 0.5)

    report = sparse.optimize_(module, torch.randn(5, 3, 13))

    assert report.rows[0].reason == ("its bias_hh_l0 is made anew in each call: remove hooks and "
                                     "parametrizations before")


@pytest.mark.parametrize("make", [lambda: nn.Linear(13, 21), lambda: nn.GRU(13, 21)])
def test_calls_in_inference_mode_before_and_behind(always, runs, make):
    """The hook of torch makes a weight there whose changes are not counted."""
    module, judge = masked(make())
    x = torch.randn(5, 3, 13)
    assert_as(module, judge, x)

    report = sparse.optimize_(module, x)

    assert report.rows[0].sparse, report.rows[0].reason
    name = names_of(judge)[-1]
    for _ in range(2):
        runs.clear()
        with torch.inference_mode():
            getattr(module, f"{name}_mask")[2] = 0
        follow(judge, module)
        assert_as(module, judge, x)
        assert len(runs) == 1


def test_masks_of_a_sparsifier_that_change_in_inference_mode(always, runs):
    module = nn.Sequential(nn.Linear(48, 96)).eval()
    mask = FakeSparsity(torch.rand(96, 48) < 0.1)
    parametrize.register_parametrization(module[0], "weight", mask)
    x = torch.randn(5, 48)
    sparse.optimize_(module, x)

    with torch.inference_mode():
        mask.mask[3] = 0
        runs.clear()
        y = module(x)

    assert len(runs) == 1
    torch.testing.assert_close(y[:, 3], module[0].bias[3].detach().expand(5))
