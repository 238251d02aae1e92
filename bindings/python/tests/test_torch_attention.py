"""nn.MultiheadAttention and the layers of torch around it as sparse layers."""

from __future__ import annotations

import contextlib
import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit  # noqa: E402
import spjit.torch as sparse  # noqa: E402
from spjit.torch import _part_op, _passes  # noqa: E402
from spjit.torch._attention import SparseMultiheadAttention  # noqa: E402
from spjit.torch._views import Part, view_of  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch_testing import _seeded, always, compiles, forget, runs  # noqa: E402, F401

# torch's own.
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::FutureWarning"),
              pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
              pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")]

HIDDEN = float("-inf")


@contextlib.contextmanager
def without_fast_path():
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def thinned(module, zeros=0.8):
    """In evaluation, with biases that are not 0."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 2:
                parameter.mul_(torch.rand_like(parameter) >= zeros)
            elif parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return module.eval()


def optimized(module, *example, **named):
    """The module, sparse, and a copy of it in float64."""
    judge = copy.deepcopy(module).double()
    report = sparse.optimize_(module, example, kwargs=named, budget=0)
    assert {row.reason for row in report.rows if len(row.shape) == 2} == {""}
    return module, judge


def to_double(value):
    is_real = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_real else value


def assert_as(model, judge, *given, **named):
    """Within rounding of torch's slow path in float64. Arguments that are one tensor are in both.
    """
    doubles = {id(value): to_double(value) for value in given}
    with torch.inference_mode():
        result = model(*given, **named)
        with without_fast_path():
            expected = judge(*(doubles[id(value)] for value in given),
                             **{name: to_double(value) for name, value in named.items()})
    results, all_expected = ((each if isinstance(each, tuple) else (each,))
                             for each in (result, expected))
    for one, other in zip(results, all_expected):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-6, equal_nan=True)
    return result


def attention(size=20, heads=4, **options):
    return thinned(nn.MultiheadAttention(size, heads, **options))


@pytest.mark.parametrize("options", [
    {}, {"batch_first": True}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True}, {"dropout": 0.5},
    {"kdim": 7, "vdim": 20}, {"kdim": 13, "vdim": 9, "batch_first": True, "bias": False}])
def test_computes_what_torch_does(always, runs, options):
    kdim, vdim = options.get("kdim", 20), options.get("vdim", 20)

    def inputs(batch, tokens, keys):
        sizes = ((tokens, 20), (keys, kdim), (keys, vdim))
        if not batch:
            return [torch.randn(steps, width) for steps, width in sizes]
        first = "batch_first" in options
        return [torch.randn(*((batch, steps) if first else (steps, batch)), width)
                for steps, width in sizes]

    model, judge = optimized(attention(**options), *inputs(3, 5, 5))

    for batch, tokens, keys in ((3, 5, 5), (1, 1, 1), (2, 1, 9), (5, 7, 3), (None, 5, 6),
                                (None, 1, 1)):
        query, key, value = inputs(batch, tokens, keys)
        padding = torch.zeros(*((batch,) if batch else ()), keys, dtype=torch.bool)
        padding[..., 1:2] = True
        square = torch.rand(tokens, keys) < 0.3
        square[:, 0] = False
        deep = torch.randn(4 * (batch or 1), tokens, keys)
        calls = [(query, key, value)]
        if kdim == vdim == 20:
            calls += [(query, key, key), (query, query, torch.randn_like(query)),
                      (query, query, query)]
        for given in calls:
            fits = given[1].shape == key.shape
            masks = [{}, {"attn_mask": square}, {"attn_mask": deep}, {"key_padding_mask": padding},
                     {"attn_mask": square, "key_padding_mask": padding}] if fits else [{}]
            for mask in masks:
                for how in ({"need_weights": False}, {}, {"average_attn_weights": False}):
                    runs.clear()
                    assert_as(model, judge, *given, **mask, **how)
                    assert len(runs) >= 2
    assert not model.spjit_calls.by_layer


def test_packed_projections_of_one_tensor_are_one_product(always, runs):
    x, y, z = torch.randn(3, 5, 2, 20)
    for example, count in (((x, x, x), 1), ((x, y, y), 2), ((x, x, y), 2), ((x, y, z), 3),
                           ((x, y, x), 3)):
        model, judge = optimized(attention(), *example)
        for given, expected in ((example, count), ((x, x, x), 1), ((z, y, y), 2)):
            runs.clear()
            assert_as(model, judge, *given)
            assert len(runs) == expected + 1, "and the one behind"


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_causal_call(always, need_weights):
    model, judge = optimized(attention(batch_first=True), *[torch.randn(2, 5, 20)] * 3)
    x = torch.randn(3, 7, 20)
    mask = nn.Transformer.generate_square_subsequent_mask(7)

    assert_as(model, judge, x, x, x, attn_mask=mask, is_causal=True, need_weights=need_weights)
    padding = torch.zeros(3, 7)
    padding[:, 5:] = HIDDEN
    assert_as(model, judge, x, x, x, attn_mask=mask, is_causal=True, key_padding_mask=padding,
              need_weights=need_weights)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        model(x, x, x, is_causal=True)


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_in_training_is_that_of_torch(always, runs, need_weights):
    x = torch.randn(5, 2, 20)
    model, _ = optimized(attention(dropout=0.5), x, x, x)
    dense = copy.deepcopy(model)
    sparse.restore_(dense)
    runs.clear()

    results = []
    for each in (model.train(), dense.train()):
        torch.manual_seed(1)
        with torch.no_grad():
            results.append(each(x, x, x, need_weights=need_weights)[0])

    assert len(runs) == 2
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        assert not torch.equal(model(x, x, x)[0], model(x, x, x)[0])


@pytest.mark.parametrize("shape", [(0, 5, 20), (2, 0, 20)])
def test_empty_batches_and_sequences(always, shape):
    model, judge = optimized(attention(batch_first=True), *[torch.randn(2, 5, 20)] * 3)
    x, other = torch.randn(shape), torch.randn(shape[0], 3, 20)

    assert_as(model, judge, x, x, x)
    assert_as(model, judge, x, other, other)


@pytest.mark.parametrize("wrong", [
    lambda x: (x[..., :19],) * 3, lambda x: (x, x[:, :, :19], x), lambda x: (x, x[0], x[0]),
    lambda x: (x, x[:3], x), lambda x: (x[0, 0],) * 3, lambda x: (x, x, None)])
def test_wrong_calls_are_refused_as_by_torch(always, wrong):
    model = attention()
    x = torch.randn(5, 2, 20)
    dense = copy.deepcopy(model)
    sparse.optimize_(model, (x, x, x))

    for each in (model, dense):
        with torch.no_grad(), pytest.raises((AssertionError, RuntimeError, AttributeError)):
            each(*wrong(x))
    for mask in ({"attn_mask": torch.zeros(4, 5)}, {"key_padding_mask": torch.zeros(5, 2)}):
        with torch.no_grad(), pytest.raises((RuntimeError, AssertionError)) as error:
            dense(x, x, x, need_weights=False, **mask)
        with torch.no_grad(), pytest.raises(type(error.value)):
            model(x, x, x, need_weights=False, **mask)


def encoder(layers=2, norm=True, **options):
    options = {"batch_first": True, **options}
    layer = nn.TransformerEncoderLayer(20, 4, 36, **options)
    return thinned(nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(20) if norm else None))


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"},
                                     {"batch_first": False}, {"bias": False}])
def test_layers_of_an_encoder_are_sparse(always, runs, options):
    x = torch.randn(3, 5, 20)
    model, judge = optimized(encoder(**options), x)

    report = sparse.optimize_(model, (x,))
    assert [(row.layer, row.kind) for row in report.sparse][:4] == [
        ("layers.0.self_attn", "MultiheadAttention"), ("layers.0.self_attn.out_proj", "Linear"),
        ("layers.0.linear1", "Linear"), ("layers.0.linear2", "Linear")]
    assert len(report.sparse) == 8 and report.sparse_share == 1
    for shape in ((3, 5, 20), (1, 1, 20), (4, 9, 20)):
        x = torch.randn(shape)
        runs.clear()
        assert_as(model, judge, x)
        assert len(runs) == 8
        steps = shape[1] if options.get("batch_first", True) else shape[0]
        mask = nn.Transformer.generate_square_subsequent_mask(steps)
        assert_as(model, judge, x, mask=mask)
        assert_as(model, judge, x, mask=mask, is_causal=True)
        # Numbers are added, which torch's own way in evaluation takes for -infinity.
        assert_as(model, judge, x, mask=torch.randn(steps, steps))
    assert not report.dense_calls


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("left_aligned", [True, False])
def test_padding_gives_what_torch_gives(always, runs, norm, left_aligned):
    """Also at the places that are padded: torch makes a nested tensor and then zeros of it."""
    model = encoder(norm=norm)
    dense = copy.deepcopy(model)
    x = torch.randn(3, 5, 20)
    padding = torch.arange(5) >= torch.tensor([[5], [3], [1]])
    if not left_aligned:
        padding = padding.flip(1)

    report = sparse.optimize_(model, (x,), kwargs={"src_key_padding_mask": padding})

    assert len(report.sparse) == 8
    for mask in (padding, torch.zeros(3, 5).masked_fill(padding, HIDDEN)):
        with torch.inference_mode():
            runs.clear()
            y = model(x, src_key_padding_mask=mask)
            assert len(runs) == 8
            expected = dense(x, src_key_padding_mask=mask)
        if not left_aligned:
            y, expected = y[~padding], expected[~padding]
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    assert not report.dense_calls
    assert model.state_dict().keys() == dense.state_dict().keys()
    sparse.restore_(model)
    assert model.use_nested_tensor and type(model) is nn.TransformerEncoder


def test_decoders_and_whole_transformers(always, runs):
    model = thinned(nn.Transformer(20, 4, 1, 2, 36, batch_first=True))
    source, target = torch.randn(3, 7, 20), torch.randn(3, 4, 20)
    model, judge = optimized(model, source, target)

    report = sparse.optimize_(model, (source, target))
    assert len(report.sparse) == 4 + 2 * 6
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    padding = torch.arange(7) >= torch.tensor([[7], [3], [1]])
    for named in ({}, {"tgt_mask": mask}, {"tgt_mask": mask, "tgt_is_causal": True},
                  {"memory_key_padding_mask": padding}):
        runs.clear()
        assert_as(model, judge, source, target, **named)
        assert len(runs) == 4 + 2 * 7, "a query and its memory are two products"
    assert not report.dense_calls


@pytest.mark.parametrize("only", ["in_proj_weight", "out_proj.weight"])
def test_each_projection_is_chosen_by_itself(always, runs, only):
    model = nn.MultiheadAttention(20, 4, batch_first=True).eval()
    with torch.no_grad():
        weight = model.get_parameter(only)
        weight.mul_(torch.rand_like(weight) >= 0.8)
    judge = copy.deepcopy(model).double()
    x = torch.randn(2, 5, 20)

    report = sparse.optimize_(model, (x, x, x))

    assert [bool(row.sparse) for row in report.rows] == [only == "in_proj_weight",
                                                         only != "in_proj_weight"]
    assert type(model) is SparseMultiheadAttention
    runs.clear()
    assert_as(model, judge, x, x, x)
    assert len(runs) == 1
    sparse.restore_(model)
    assert type(model) is nn.MultiheadAttention and "spjit_key" not in vars(model)


def test_torch_s_own_path_is_what_has_to_be_slower(monkeypatch, always):
    """Layers may be faster each, and the model slower than where torch computes all in one."""
    seen = []
    monkeypatch.setattr(_passes, "is_slower",
                        lambda before, after: len(seen) == 9 or seen.append(before) or False)
    calls = []
    own = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd",
                        lambda *given: calls.append(1) or own(*given))
    model = encoder()
    x = torch.randn(3, 5, 20)
    seen.append(0)  # of 8 layers, and then of the model

    report = sparse.optimize_(model, (x,))

    assert not report.sparse
    assert {row.reason for row in report.rows} == {"the model as a whole was not faster"}
    assert len(calls) >= 8, "two layers of at least four passes"
    calls.clear()
    with torch.no_grad():
        model(x)
    assert len(calls) == 2
    assert type(model) is nn.TransformerEncoder
    assert type(model.layers[0]) is nn.TransformerEncoderLayer
    assert type(model.layers[0].self_attn) is nn.MultiheadAttention


def test_gradients_are_those_of_torch(always, runs):
    x = torch.randn(2, 5, 20)
    model = encoder(1)
    dense = copy.deepcopy(model)
    report = sparse.optimize_(model, (x,))
    runs.clear()

    with pytest.warns(UserWarning, match="sparse layers run dense"):
        model(x).square().sum().backward()
    dense(x).square().sum().backward()

    assert not runs
    assert report.dense_calls == {
        "layers.0.self_attn": 1, "layers.0.self_attn.out_proj": 1, "layers.0.linear1": 1,
        "layers.0.linear2": 1}
    for (name, one), other in zip(model.named_parameters(), dense.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5, msg=name)
    model.requires_grad_(False)
    model(x)
    assert len(runs) == 4


def _in_place(model):
    with torch.no_grad():
        model.in_proj_weight.mul_(2)


def _by_data(model):
    model.in_proj_weight.data = model.in_proj_weight.data * 2


def _by_loading(model):
    model.load_state_dict({name: 2 * value for name, value in model.state_dict().items()})


def _by_optimizer(fused):
    def change(model):
        for parameter in model.parameters():
            parameter.grad = torch.where(parameter == 0, 0.0, torch.ones_like(parameter))
        torch.optim.SGD(model.parameters(), lr=0.1, fused=fused).step()
    return change


class _Unseen(torch.optim.Optimizer):
    """Writes to `.data`, as optimizers of other packages do."""

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.mul_(1.5)


@pytest.mark.parametrize("change", [
    _in_place, _by_data, _by_loading, _by_optimizer(False), _by_optimizer(True),
    lambda model: _Unseen(model.parameters(), {}).step()])
def test_changes_of_weights_are_seen(always, runs, compiles, change):
    forget()  # what other tests compiled
    x, memory = torch.randn(5, 2, 20), torch.randn(3, 2, 20)
    model, _ = optimized(attention(), x, memory, memory)
    with torch.no_grad():
        model(x, x, x)

    change(model)
    judge = copy.deepcopy(model).double()
    sparse.restore_(judge)
    compiles.clear()

    for given in ((x, memory, memory), (x, x, x)):
        assert_as(model, judge, *given)
        runs.clear()
        assert_as(model, judge, *given)
        assert len(runs) == (3 if given[1] is memory else 2)
    assert len(compiles) >= 3


def test_other_rows_of_a_weight_have_other_kernels():
    weight = torch.randn(6, 4)

    assert view_of(weight, Part(0, 2)) is view_of(weight, Part(0, 2))
    assert view_of(weight, Part(0, 6)) is weight
    assert torch.equal(view_of(weight, Part(1, 3, True)), weight.t()[1:3])
    view = view_of(weight, Part(2, 6))
    weight.mul_(2)
    assert view._version == weight._version and torch.equal(view, weight[2:])
    weight.data = weight.data.clone()
    assert view_of(weight, Part(2, 6)) is not view


@pytest.mark.parametrize("copied", [
    copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_sparse(always, runs, copied):
    x = torch.randn(3, 5, 20)
    model, judge = optimized(encoder(), x)

    other = copied(model)

    runs.clear()
    assert_as(other, judge, x)
    assert len(runs) == 8
    sparse.restore_(other)
    assert not any(type(module).__module__.startswith("spjit") for module in other.modules())


@pytest.mark.parametrize("make, example", [
    (lambda: encoder(1), (torch.randn(3, 5, 20),)),
    (lambda: nn.ModuleDict({"a": attention()})["a"], (torch.randn(4, 2, 20), *[
        torch.randn(3, 2, 20)] * 2)),
    (lambda: attention(kdim=8, vdim=12), (torch.randn(4, 2, 20), torch.randn(3, 2, 8),
                                          torch.randn(3, 2, 12)))])
def test_kernels_are_saved_and_loaded(always, runs, compiles, tmp_path, make, example):
    torch.manual_seed(3)
    model, judge = optimized(make(), *example)
    sparse.save(model, tmp_path / "model.spjit")
    count = len([module for module in model.modules() if "spjit_key" in vars(module)])
    forget()
    other = copy.deepcopy(model)
    sparse.restore_(other)
    compiles.clear()

    report = sparse.load_(other, tmp_path / "model.spjit")

    assert len(report.sparse) == count
    runs.clear()
    assert_as(other, judge, *example)
    assert not compiles and len(runs) >= count
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    sparse.restore_(other)
    judge = copy.deepcopy(other).double()
    report = sparse.load_(other, tmp_path / "model.spjit")
    assert len(report.sparse) == count and compiles, "found by name"
    assert_as(other, judge, *example)


@pytest.fixture
def other_file(always, tmp_path):
    """With the kernel of a layer that is nowhere else."""
    layer = thinned(nn.Linear(20, 12))
    sparse.optimize_(layer, (torch.randn(4, 2, 20),))
    sparse.save(layer, tmp_path / "layer.spjit")
    return tmp_path / "layer.spjit"


def test_a_file_without_its_kernels_says_so(other_file):
    report = sparse.load_(attention(), other_file)

    assert {row.reason for row in report.rows} == {"the file has no kernel for it"}


def test_nested_tensors_are_torch_s(always, runs):
    model = encoder(1)
    dense = copy.deepcopy(model.layers[0])
    x = torch.nested.nested_tensor([torch.randn(5, 20), torch.randn(3, 20)])

    report = sparse.optimize_(model.layers[0], (x,))
    assert {row.reason for row in report.rows} == {
        "the module around it is called with a Tensor (nested); expected a plain dense tensor"}

    report = sparse.optimize_(model.layers[0], (torch.randn(2, 5, 20),))
    runs.clear()
    with torch.inference_mode():
        for one, other in zip(model.layers[0](x).unbind(), dense(x).unbind()):
            torch.testing.assert_close(one, other)
    assert not runs
    assert report.dense_calls == {"self_attn": 1, "self_attn.out_proj": 1, "linear1": 1,
                                  "linear2": 1}


def test_autocast_and_other_types_run_dense(always, runs):
    x = torch.randn(2, 5, 20)
    model, _ = optimized(attention(batch_first=True), x, x, x)
    dense = copy.deepcopy(model)
    sparse.restore_(dense)
    runs.clear()

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), without_fast_path():
        torch.testing.assert_close(model(x, x, x)[0], dense(x, x, x)[0], rtol=0.05, atol=0.05)
    assert model.spjit_calls.by_layer == {"": 1, "out_proj": 1}
    model.double(), dense.double()
    y = x.double()
    with torch.no_grad():
        torch.testing.assert_close(model(y, y, y), dense(y, y, y))
    assert not runs


def test_a_mode_and_a_default_device(always, runs):
    x = torch.randn(2, 5, 20)
    model, judge = optimized(attention(batch_first=True), x, x, x)

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    runs.clear()
    with torch.no_grad(), Mode():
        model(x, x, x)
    assert not runs and model.spjit_calls.by_layer == {"": 1, "out_proj": 1}
    with torch.no_grad(), torch.device("cpu"):
        model(x, x, x)
    assert len(runs) == 2


def test_hooks_are_refused_and_masks_that_come_later_seen(always, runs):
    x = torch.randn(2, 5, 20)
    hooked = torch.nn.utils.weight_norm(attention(batch_first=True), "in_proj_weight")

    report = sparse.optimize_(hooked, (x, x, x))
    assert "in_proj_weight is made anew in each call: remove hooks" in report.rows[0].reason
    assert report.rows[1].sparse

    model, judge = optimized(attention(batch_first=True), x, x, x)
    prune.random_unstructured(model, "in_proj_weight", amount=0.5)
    runs.clear()
    with torch.no_grad():
        y = model(x, x, x)[0]
    assert len(runs) == 1 and model.spjit_calls.by_layer == {"": 1}
    with torch.no_grad():
        judge.in_proj_weight.copy_(model.in_proj_weight)
        expected = judge(*[x.double()] * 3)[0]
    torch.testing.assert_close(y.double(), expected, rtol=2e-5, atol=2e-6)


def test_subclasses_and_replaced_functions_stay_as_they_are(always):
    class Own(nn.MultiheadAttention):
        pass

    x = torch.randn(5, 2, 20)
    model = thinned(Own(20, 4))
    report = sparse.optimize_(model, (x, x, x))
    used = "the example does not call it: functions use its weight, and stay dense"
    assert [row.reason for row in report.rows] == [
        "it is a Own, whose forward() may differ", used]

    model = attention()
    model.forward = lambda *given: nn.MultiheadAttention.forward(model, *given)
    report = sparse.optimize_(model, (x, x, x))
    assert [row.reason for row in report.rows] == [
        "its forward() was replaced", used]


def test_weights_of_other_sizes_are_refused(other_file):
    model = attention()
    model.in_proj_weight = nn.Parameter(torch.zeros(59, 20))

    report = sparse.load_(nn.ModuleList([model]), other_file)

    assert report.rows[0].reason == "its weights are not those of its sizes"


def test_new_parameters_of_other_sizes_run_dense(always, runs):
    x = torch.randn(5, 2, 20)
    model, _ = optimized(attention(kdim=20, vdim=7), x, x, torch.randn(5, 2, 7))
    model.v_proj_weight = nn.Parameter(torch.zeros(21, 7))

    with torch.no_grad(), pytest.raises(RuntimeError):
        model(x, x, torch.randn(5, 2, 7))

    assert model.spjit_calls.by_layer == {"": 1}


def test_parameters_can_be_swapped_by_torch(always, runs):
    """torch refuses to swap what something holds by a weak reference, as parts of weights do."""
    x, memory = torch.randn(5, 2, 20), torch.randn(3, 2, 20)
    model, judge = optimized(attention(), x, memory, memory)

    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double().float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)

    runs.clear()
    assert_as(model, judge, x, memory, memory)
    assert len(runs) == 3


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_is_dense_where_torch_jit_traces(always, runs):
    x = torch.randn(2, 5, 20)
    model, judge = optimized(attention(batch_first=True), x, x, x)

    with torch.no_grad():
        traced = torch.jit.trace(model, (x, x, x))

    runs.clear()  # torch compares it with the module
    assert_as(traced, judge, x, x, x)
    assert not runs and model.spjit_calls.by_layer


@pytest.mark.parametrize("kind", ["encoder", "cross"])
def test_is_compiled_as_one_graph(always, runs, kind):
    if kind == "encoder":
        shapes = [(2, 5, 20)], [(3, 7, 20)]
        model = encoder(1)
    else:
        shapes = [(5, 2, 20), (3, 2, 20), (3, 2, 20)], [(4, 3, 20), (6, 3, 20), (6, 3, 20)]
        model = attention()
    given = [torch.randn(shape) for shape in shapes[0]]
    if kind == "cross":
        given[2] = given[1]
    model, judge = optimized(model, *given)
    compiled = torch.compile(model, dynamic=True, fullgraph=True)

    for each in shapes:
        given = [torch.randn(shape) for shape in each]
        if kind == "cross":
            given[2] = given[1]
        runs.clear()
        assert_as(compiled, judge, *given)
        assert len(runs) == (4 if kind == "encoder" else 3)
        runs.clear()
        assert_as(compiled, judge, *given)
        assert len(runs) == (4 if kind == "encoder" else 3)
    if kind == "encoder":
        padding = torch.arange(7) >= torch.tensor([[7], [3], [1]])
        assert_as(compiled, judge, given[0], src_key_padding_mask=padding)


def test_export(always, runs):
    x = torch.randn(2, 5, 20)
    model, judge = optimized(encoder(1), x)

    with torch.no_grad():
        exported = torch.export.export(model, (x,)).module()
    runs.clear()
    assert_as(exported, judge, x)

    assert len(runs) == 4


def test_the_operator_passes_opcheck(always):
    model, _ = optimized(attention(), *[torch.randn(4, 2, 20)] * 3)
    bias = model.in_proj_bias.detach()[20:]
    for x in (torch.randn(3, 20), torch.randn(3, 20, requires_grad=True)):
        torch.library.opcheck(_part_op.LINEAR_PART, (
            x, model.in_proj_weight.detach(), bias, 20, 60, False, "", model.spjit_key[4:]))
        torch.library.opcheck(_part_op.LINEAR_PART, (
            x, model.in_proj_weight.detach().t().contiguous(), None, 3, 60, True, "relu",
            model.spjit_key[4:]))


def test_script_and_fx_say_restore(always):
    x = torch.randn(2, 5, 20)
    model, _ = optimized(encoder(1), x)

    with pytest.raises(spjit.NotSupported, match="call spjit.torch.restore_"):
        torch.jit.script(model)
    with pytest.raises(spjit.NotSupported, match="call spjit.torch.restore_"):
        torch.fx.symbolic_trace(model.layers[0])


def test_vmap(always, runs):
    x = torch.randn(3, 2, 5, 20)
    model, judge = optimized(attention(batch_first=True), *[x[0]] * 3)

    with torch.inference_mode(), pytest.warns(UserWarning, match="performance drop"):
        y = torch.func.vmap(lambda one: model(one, one, one, need_weights=False)[0])(x)

    with torch.no_grad():
        expected = torch.stack([judge(*[one.double()] * 3)[0] for one in x])
    torch.testing.assert_close(y.double(), expected, rtol=2e-5, atol=2e-6)


def test_results_under_autocast_have_the_type_of_torchs(always):
    dense = thinned(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True))
    model, x = copy.deepcopy(dense), torch.randn(2, 5, 16)

    report = sparse.optimize_(model, (x,))

    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected, y = dense(x), model(x)
    assert y.dtype == expected.dtype
    torch.testing.assert_close(y, expected)
    assert sum(report.dense_calls.values()) == len(report.sparse)
