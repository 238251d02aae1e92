"""The operator spjit::recurrent: nn.LSTM, nn.GRU and nn.RNN in one, of all layers and directions;
opaque to torch, dense where no kernel can be."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from .._kernel import Kernel
from .._library import RECURRENT_ARGUMENTS, check, library
from .._recurrent import GATES, Recurrent
from ._dispatch import needs_grad
from ._kernels import LayerKey, Step, Variant, find_bound
from ._op import _below_autograd, _definitions, _is_usual, _is_vector, _not_to_onnx, kernel_of

_definitions.define(
    "recurrent(Tensor x, Tensor? batch_sizes, Tensor? h0, Tensor? c0, Tensor[] weights, str mode, "
    "bool has_bias, int layers, bool bidirectional, bool batch_first, str key) -> "
    "(Tensor, Tensor, Tensor)")
RECURRENT = torch.ops.spjit.recurrent.default

_run = library.spjit_recurrent_run
_pack = RECURRENT_ARGUMENTS.pack
_SIZE = RECURRENT_ARGUMENTS.size

CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn-tanh", "RNN_RELU": "rnn-relu"}
_MOST_FIXED = 4  # sequences that kernels of a fixed n are faster for: those of `windows`

_MOST_LAYERS = 16  # that share their first weight

Result = tuple[Tensor, Tensor, Tensor]  # y, h_n, c_n; without an LSTM an empty c_n


class Form(NamedTuple):
    """What of a module says which weights it has."""

    mode: str  # nn.RNNBase.mode
    has_bias: bool
    layers: int
    bidirectional: bool

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1


class Weights(NamedTuple):
    """Of one layer and direction."""

    input: Tensor
    recurrent: Tensor
    input_bias: Optional[Tensor]
    recurrent_bias: Optional[Tensor]
    projection: Optional[Tensor]

    @property
    def outputs(self) -> int:
        return self.recurrent.shape[1]

    @property
    def kernels(self) -> list[Tensor]:
        """Those that have one."""
        parts = [self.input, self.recurrent, self.projection]
        return [part for part in parts if part is not None]


def split(form: Form, weights: list[Tensor]) -> list[Weights] | None:
    """Of each layer and direction, as nn.RNNBase has them in a row; None if they are not as many.
    """
    count = form.layers * form.directions
    own, rest = divmod(len(weights), max(count, 1))
    least = 4 if form.has_bias else 2
    if rest or own not in (least, least + 1):
        return None
    found = []
    for begin in range(0, len(weights), own):
        biases = weights[begin + 2:begin + 4] if form.has_bias else (None, None)
        projection = weights[begin + own - 1] if own > least else None
        found.append(Weights(weights[begin], weights[begin + 1], *biases, projection))
    return found


class Call(NamedTuple):
    """What kernels of a call depend on, besides weights."""

    steps: int
    batch: int
    threads: int
    key: str  # of a LayerKey


@functools.lru_cache(maxsize=1024)
def _key_of_step(key: str) -> str:
    """Of kernels that are run for each step."""
    parsed = LayerKey.parse(key)
    return str(LayerKey(parsed.weights, tokens=parsed.batch, network_nnz=parsed.network_nnz))


def parts(weights: Weights, call: Call) -> list[tuple[Tensor, str, Variant]]:
    """Each weight that has a kernel, with the kernel's LayerKey and Variant."""
    has_bias = weights.input_bias is not None
    step = Step(call.batch) if call.batch <= _MOST_FIXED else ""
    found = [(weights.input, call.key, Variant(call.threads, has_bias,
                                               step if call.steps == 1 else "")),
             (weights.recurrent, _key_of_step(call.key), Variant(call.threads, has_bias, step))]
    if weights.projection is not None:
        found.append((weights.projection, _key_of_step(call.key),
                      Variant(call.threads, False, step)))
    return found


def _layer_of(form: Form, both: list[Weights], call: Call) -> Recurrent | None:
    """Of one layer, for the weights as they are now; None: dense is needed."""
    kernels: list[Kernel] = []
    for weights in both:
        for weight, key, variant in parts(weights, call):
            kernel = kernel_of(weight, key, variant)
            if kernel is None:
                return None
            kernels.append(kernel)
    known = find_bound(both[0].input).recurrent  # type: ignore[union-attr]  # never released
    made = known.get(tuple(map(id, kernels)))
    if made is None:
        of_direction = len(kernels) // len(both)
        columns = [kernels[i::of_direction] for i in range(of_direction)]
        made = Recurrent(CELLS[form.mode], columns[0], columns[1],
                         projection=columns[2] if of_direction > 2 else None,
                         direction="both" if form.bidirectional else "forward")
        if len(known) >= _MOST_LAYERS:  # where the other weights change and this one does not
            known.clear()
        # It keeps the kernels, so that no other one gets the identity of one of them.
        known[tuple(map(id, kernels))] = made
    return made


def _is_of_shape(tensor: Tensor | None, shape: tuple[int, ...]) -> bool:
    return tensor is None or (tensor.dtype is torch.float32 and tensor.is_cpu
                              and tensor.shape == shape and not tensor.is_neg())


def _takes(form: Form, all_weights: list[Weights], x: Tensor, states: list[Tensor | None],
           batch: int) -> bool:
    """Whether shapes and types are such that torch would compute the same. Dense says what is wrong
    with others."""
    rows, outputs = len(all_weights), all_weights[0].outputs
    hidden = len(all_weights[0].recurrent) // GATES[CELLS[form.mode]]
    inputs = x.shape[-1]
    for number, weights in enumerate(all_weights):
        if number % form.directions == 0 and number:
            inputs = form.directions * outputs
        gates = len(weights.input)
        if (not all(_is_usual(x, weight, None) for weight in weights.kernels)
                or weights.input.shape != (GATES[CELLS[form.mode]] * hidden, inputs)
                or weights.recurrent.shape != (gates, outputs)
                or not _is_vector(weights.input_bias, gates)
                or not _is_vector(weights.recurrent_bias, gates)):
            return False
    return _is_of_shape(states[0], (rows, batch, outputs)) and _is_of_shape(
        states[1], (rows, batch, hidden))


def run_recurrent(x: Tensor, batch_sizes: Tensor | None, h0: Tensor | None, c0: Tensor | None,
                  weights: list[Tensor], mode: str, has_bias: bool, layers: int,
                  bidirectional: bool, batch_first: bool, key: str) -> Result | None:
    """On the CPU; None: dense is needed. With batch_sizes x is the data of a PackedSequence."""
    form = Form(mode, has_bias, layers, bidirectional)
    all_weights = split(form, weights)
    if all_weights is None or x.dim() != (2 if batch_sizes is not None else 3) or x.numel() == 0:
        return None
    lengths = None
    if batch_sizes is not None:
        batch_first = False
        x, lengths = torch._VF._pad_packed_sequence(  # type: ignore[attr-defined]
            x, batch_sizes, False, 0.0, len(batch_sizes))
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
    if not _takes(form, all_weights, x, [h0, c0], batch):
        return None
    call = Call(steps, batch, torch.get_num_threads(), key)
    result = _run_layers(form, all_weights, call, (x, lengths, h0, c0, batch_first))
    if result is None or batch_sizes is None:
        return result
    y, _ = torch._VF._pack_padded_sequence(  # type: ignore[attr-defined]
        result[0], lengths, False)
    return y, result[1], result[2]


def _run_layers(form: Form, all_weights: list[Weights], call: Call,
                operands: tuple[Any, ...]) -> Result | None:
    x, lengths, h0, c0, batch_first = operands
    rows, outputs, batch = len(all_weights), all_weights[0].outputs, call.batch
    hidden = len(all_weights[0].recurrent) // GATES[CELLS[form.mode]]
    h_n = x.new_empty(rows, batch, outputs)
    has_memory = form.mode == "LSTM"
    c_n = x.new_empty(rows, batch, hidden) if has_memory else x.new_empty(0)
    h0, c0 = (None if state is None else state.contiguous() for state in (h0, c0))
    each = form.directions
    x = x.contiguous()
    for first in range(0, rows, each):
        both = all_weights[first:first + each]
        layer = _layer_of(form, both, call)
        if layer is None:
            return None
        y = _steps_first(x, each * outputs, batch_first)
        strides = (1, 0) if batch_first else (0, 1)  # dimensions of steps and of sequences
        states = [0 if state is None else state.data_ptr() + 4 * first * batch * width
                  for state, width in ((h0, outputs), (c0 if has_memory else None, hidden),
                                       (h_n, outputs), (c_n if has_memory else None, hidden))]
        status = _run(layer.pointer, _pack(
            _SIZE, call.steps, batch, x.data_ptr(), *(x.stride(d) for d in strides), y.data_ptr(),
            *(y.stride(d) for d in strides), outputs,
            0 if lengths is None else lengths.data_ptr(), *states,
            *_pointers([weights.input_bias for weights in both]),
            *_pointers([weights.recurrent_bias for weights in both]), 0, 0))
        if status:
            check(status)
        x = y
    return x, h_n, c_n


def _steps_first(x: Tensor, width: int, batch_first: bool) -> Tensor:
    """What a layer gives of x, [..., width]: in the order in which torch computes it."""
    if not batch_first:
        return x.new_empty(*x.shape[:2], width)
    return x.new_empty(x.shape[1], x.shape[0], width).transpose(0, 1)


def _pointers(biases: list[Tensor | None]) -> list[int]:
    """Of two directions."""
    return [0 if bias is None else bias.data_ptr() for bias in (*biases, None)[:2]]


def dense_recurrent(x: Tensor, batch_sizes: Tensor | None, h0: Tensor | None, c0: Tensor | None,
                    weights: list[Tensor], mode: str, has_bias: bool, layers: int,
                    bidirectional: bool, batch_first: bool, key: str) -> Result:
    """As evaluated by torch."""
    first = split(Form(mode, has_bias, layers, bidirectional), weights)[0]  # type: ignore[index]
    rows = layers * (2 if bidirectional else 1)
    batch = batch_sizes[0] if batch_sizes is not None else x.shape[0 if batch_first else 1]
    if h0 is None:
        h0 = x.new_zeros(rows, int(batch), first.outputs)
    if mode == "LSTM" and c0 is None:
        c0 = x.new_zeros(rows, int(batch), len(first.recurrent) // 4)
    state = (h0, c0) if mode == "LSTM" else h0
    function = getattr(torch._VF, mode.lower())  # type: ignore[attr-defined]
    shared = (has_bias, layers, 0.0, False, bidirectional)
    if batch_sizes is None:
        result = function(x, state, weights, *shared, batch_first)
    else:
        result = function(x, batch_sizes, state, weights, *shared)
    return result if mode == "LSTM" else (*result, x.new_empty(0))  # type: ignore[return-value]


def _recurrent(*given: Any) -> Result:
    result = run_recurrent(*given)
    return dense_recurrent(*given) if result is None else result


def takes_gradient(x: Tensor, states: list[Tensor | None], weights: list[Tensor]) -> bool:
    """Whether a call records gradients of anything."""
    return any(needs_grad(x, weight, None) for weight in weights) or any(
        needs_grad(state, weights[0], None) for state in states if state is not None)


def _with_grad(keys: Any, *given: Any) -> Result:
    x, _, h0, c0, weights, *_ = given
    if takes_gradient(x, [h0, c0], weights):
        return dense_recurrent(*given)
    return RECURRENT.redispatch(keys & _below_autograd, *given)  # type: ignore[no-any-return]


def _fake(x: Tensor, batch_sizes: Tensor | None, h0: Tensor | None, c0: Tensor | None,
          weights: list[Tensor], mode: str, has_bias: bool, layers: int, bidirectional: bool,
          batch_first: bool, key: str) -> Result:
    first = split(Form(mode, has_bias, layers, bidirectional), weights)[0]  # type: ignore[index]
    each = 2 if bidirectional else 1
    for one in (h0, c0, *weights):
        if one is not None and (one.device, one.dtype) != (x.device, x.dtype):
            raise RuntimeError(f"the input is {x.dtype} on {x.device}, and a weight or state "
                               f"{one.dtype} on {one.device}; expected all of the same")
    if x.shape[-1] != first.input.shape[1]:
        raise RuntimeError(f"the input has {x.shape[-1]} features; expected "
                           f"{first.input.shape[1]}")
    if batch_sizes is not None:
        batch = h0.shape[1] if h0 is not None else torch.library.get_ctx().new_dynamic_size()
    else:
        batch = x.shape[0 if batch_first else 1]
    c_n = (x.new_empty(layers * each, batch, first.recurrent.shape[0] // 4) if mode == "LSTM"
           else x.new_empty(0))
    y = (x.new_empty(*x.shape[:-1], each * first.outputs) if batch_sizes is not None else
         _steps_first(x, each * first.outputs, batch_first))
    return (y, x.new_empty(layers * each, batch, first.outputs), c_n)


_definitions.impl("recurrent", _recurrent, "CPU")
_definitions.impl("recurrent", _with_grad, "Autograd", with_keyset=True)
for _others in ("CompositeExplicitAutograd", "AutocastCPU", "AutocastCUDA"):
    _definitions.impl("recurrent", dense_recurrent, _others)
torch.library.register_fake("spjit::recurrent", _not_to_onnx(_fake), lib=_definitions)
