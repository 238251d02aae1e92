"""Results of swapped layers lie in memory as torch's do, so that what works behind a dense layer,
as view(), works behind a sparse one."""

from __future__ import annotations

import contextlib
import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import spjit.torch as sparse  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch_testing import _seeded, always  # noqa: E402, F401

pytestmark = [pytest.mark.filterwarnings("ignore:LSTM with projections"),
              pytest.mark.filterwarnings("ignore:.*nested_tensor"),
              pytest.mark.filterwarnings("ignore:spjit.torch. sparse layers run dense")]


class Attention(nn.Module):
    def __init__(self, *, heads=4, is_self=True, need_weights=False, mask=None, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, heads, **options)
        self.is_self, self.need_weights, self.mask = is_self, need_weights, mask

    def forward(self, x):
        key = x if self.is_self else x.clone()
        return self.attention(x, key, x, need_weights=self.need_weights, attn_mask=self.mask)


class Decoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(16, 4, 32, **options)

    def forward(self, x):
        return self.layer(x, x)


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options)


IMAGES, SIGNALS, TOKENS = [(2, 8, 6, 5), (8, 6, 5)], [(2, 8, 9), (8, 9)], [(3, 5, 16), (5, 16)]
LAST = torch.channels_last
KINDS = {
    "linear": (lambda: nn.Linear(16, 24), [(16,), (4, 16), (3, 5, 16), (2, 3, 5, 16)]),
    "linear and gelu": (lambda: nn.Sequential(nn.Linear(16, 24), nn.GELU()), TOKENS),
    "conv1d": (lambda: nn.Conv1d(8, 24, 3, padding=1), SIGNALS),
    "conv2d": (lambda: nn.Conv2d(8, 24, 3, padding=1), IMAGES),
    "conv2d of pixels": (lambda: nn.Conv2d(8, 24, 1), IMAGES),
    "conv2d of groups": (lambda: nn.Conv2d(8, 24, 1, stride=2, groups=2), IMAGES),
    "conv2d and relu": (lambda: nn.Sequential(nn.Conv2d(8, 24, 3, padding=1), nn.ReLU()), IMAGES),
    "conv2d, nhwc": (lambda: nn.Conv2d(8, 24, 3, padding=1).to(memory_format=LAST), IMAGES),
    "conv2d of pixels, nhwc": (lambda: nn.Conv2d(8, 24, 1).to(memory_format=LAST), IMAGES),
    "transposed1d": (lambda: nn.ConvTranspose1d(8, 24, 3, stride=2), SIGNALS),
    "transposed2d": (lambda: nn.ConvTranspose2d(8, 24, 3, stride=2, padding=1), IMAGES),
    "transposed2d of one phase": (lambda: nn.ConvTranspose2d(8, 24, 1), IMAGES),
    "transposed2d, nhwc": (lambda: nn.ConvTranspose2d(8, 24, 3, stride=2).to(memory_format=LAST),
                           IMAGES),
    "lstm": (lambda: nn.LSTM(16, 16), TOKENS),
    "lstm, batch first": (lambda: nn.LSTM(16, 16, batch_first=True, proj_size=8), TOKENS),
    "gru, batch first": (lambda: nn.GRU(16, 16, 2, batch_first=True, bidirectional=True), TOKENS),
    "rnn, batch first": (lambda: nn.RNN(16, 16, batch_first=True), TOKENS),
    "lstm cell": (lambda: nn.LSTMCell(16, 16), [(5, 16), (16,)]),
    "gru cell": (lambda: nn.GRUCell(16, 16), [(5, 16), (16,)]),
    "attention": (lambda: Attention(), TOKENS),
    "attention, batch first": (lambda: Attention(batch_first=True), TOKENS),
    "attention of others": (lambda: Attention(batch_first=True, is_self=False), TOKENS),
    "attention, weights": (lambda: Attention(batch_first=True, need_weights=True), TOKENS),
    "attention, no bias": (lambda: Attention(batch_first=True, bias=False), TOKENS[:1]),
    "attention, one head": (lambda: Attention(batch_first=True, heads=1), TOKENS[:1]),
    "attention, key bias": (lambda: Attention(batch_first=True, add_bias_kv=True), TOKENS[:1]),
    "attention, zero": (lambda: Attention(batch_first=True, add_zero_attn=True), TOKENS[:1]),
    "attention, numbers": (lambda: Attention(batch_first=True, mask=torch.zeros(5, 5)),
                           TOKENS[:1]),
    "attention, mask": (lambda: Attention(batch_first=True, mask=torch.eye(5) > 2), TOKENS[:1]),
    "encoder layer": (lambda: encoder_layer(), TOKENS),
    "encoder layer, norm first": (lambda: encoder_layer(norm_first=True), TOKENS),
    "encoder layer, silu": (lambda: encoder_layer(norm_first=True,
                                                  activation=nn.functional.silu), TOKENS[:1]),
    "encoder layer, two eps": (lambda: _with_eps(encoder_layer(norm_first=True)), TOKENS[:1]),
    "encoder": (lambda: nn.TransformerEncoder(encoder_layer(norm_first=True), 2), TOKENS[:1]),
    "decoder layer": (lambda: Decoder(batch_first=True, norm_first=True), TOKENS),
}
OTHER_MODES = ["conv2d", "conv2d, nhwc", "transposed2d", "conv1d", "gru, batch first",
               "attention, batch first", "encoder layer, norm first"]


def _with_eps(layer):
    layer.norm2.eps = 1e-3
    return layer


def layouts(shape):
    """Tensors that lie in memory in different ways; most have this shape."""
    rank = len(shape)
    yield "contiguous", torch.randn(shape)
    yield "sliced", torch.randn([size + 2 for size in shape])[
        tuple(slice(1, size + 1) for size in shape)]
    yield "every second", torch.randn(2 * shape[0], *shape[1:])[::2]
    yield "expanded", torch.randn(*shape[:-1], 1).expand(shape)
    if rank == 1:
        return
    yield "expanded batch", torch.randn(1, *shape[1:]).expand(shape)
    yield "reversed", torch.randn(shape[::-1]).permute(*reversed(range(rank)))
    for axis in range(rank - 1):
        order = [*range(axis), axis + 1, axis, *range(axis + 2, rank)]
        yield f"transposed at {axis}", torch.randn([shape[i] for i in order]).permute(order)
    if 8 in shape:
        yield from layouts_of_images(shape, shape.index(8))


def layouts_of_images(shape, channel):
    for batch in {shape[:channel], (1,) * channel}:
        pixels = shape[channel + 1:]
        sizes = [(*batch, *pixels), (*batch, *(1 for _ in pixels)), (*batch, *pixels[:-1], 1)]
        for size in sizes:
            yield f"channels last, {size}", torch.randn(*size, 8).movedim(-1, channel)
            yield f"pixels {size}", torch.randn(*size, 8).movedim(-1, channel).contiguous()
        wide = torch.randn(*batch, *pixels, 11).movedim(-1, channel)
        yield f"channels last, sliced, {batch}", wide.narrow(channel, 3, 8)
        long = torch.randn(*batch, *pixels[:-1], 2 * pixels[-1], 8).movedim(-1, channel)
        yield f"channels last, every second, {batch}", long[..., ::2]


def places(result):
    """Shapes and strides of all tensors of a result. Where the size is 1, none says anything."""
    if result is None:
        return None
    if isinstance(result, tuple):
        return [places(each) for each in result]
    return [(size, stride if size > 1 else 0)
            for size, stride in zip(result.shape, result.stride())]


def pruned_and_sparse(name, shape):
    torch.set_num_threads(1)
    dense = KINDS[name][0]().eval()
    with torch.no_grad():
        for parameter in dense.parameters():
            if parameter.dim() > 1:
                parameter.mul_(torch.rand_like(parameter) >= 0.9)
        model = copy.deepcopy(dense)
        report = sparse.optimize_(model, (torch.randn(shape),), budget=1e-3)
    assert all(row.sparse for row in report.rows if "bias" not in row.layer), str(report)
    return dense, model, report


def different(dense, model, shape):
    """Layouts of inputs whose results lie in another way than torch's."""
    return {name: (places(dense(x)), places(model(x))) for name, x in layouts(shape)
            if places(dense(x)) != places(model(x))}


@pytest.mark.parametrize("name, shape", [
    pytest.param(name, shape, id=f"{name}, {len(shape)}")
    for name, (_, shapes) in KINDS.items() for shape in shapes])
def test_results_lie_as_torch_s_do(always, name, shape):
    dense, model, report = pruned_and_sparse(name, shape)

    with torch.no_grad():
        assert different(dense, model, shape) == {}

    assert report.dense_calls == {}


@pytest.mark.parametrize("mode", ["gradients", "training", "inference"])
@pytest.mark.parametrize("name", OTHER_MODES)
def test_results_lie_as_torch_s_do_in_other_modes(always, name, mode):
    shape = KINDS[name][1][0]
    dense, model, _ = pruned_and_sparse(name, shape)
    dense.train(mode == "training")
    model.train(mode == "training")

    with torch.inference_mode() if mode == "inference" else contextlib.nullcontext():
        assert different(dense, model, shape) == {}


@pytest.mark.parametrize("name", [name for name in OTHER_MODES if "," not in name] + [
    "linear", "conv2d, nhwc", "conv2d of pixels, nhwc", "transposed1d", "transposed2d, nhwc",
    "lstm, batch first", "gru, batch first", "lstm"])
def test_shapes_that_are_traced_have_the_same_strides(always, name):
    """As torch.compile and torch.export see them."""
    for shape in KINDS[name][1]:
        _, model, _ = pruned_and_sparse(name, shape)
        with torch.no_grad():
            for layout, x in layouts(shape):
                with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                    traced = places(model(mode.from_tensor(x)))
                assert traced == places(model(x)), layout


@pytest.mark.parametrize("name", ["lstm cell", "gru cell"])
def test_results_of_cells_lie_as_torch_s_do_for_states_of_any_order(always, name):
    dense, model, report = pruned_and_sparse(name, (5, 16))
    states = [torch.randn(16, 5).t(), torch.randn(1, 16).expand(5, 16), torch.randn(5, 32)[:, ::2],
              torch.randn(5, 1).expand(5, 16)]
    x = torch.randn(5, 16)

    with torch.no_grad():
        for state in states:
            given = (state, state) if name == "lstm cell" else state
            assert places(model(x, given)) == places(dense(x, given))
            torch.testing.assert_close(model(x, given), dense(x, given), rtol=1e-4, atol=1e-5)

    assert report.dense_calls == {}
