"""nn.LSTM, nn.GRU, nn.RNN and their cells that call spjit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.fx import Proxy
from torch.nn.utils.rnn import PackedSequence

from .._errors import NotSupported
from ._dispatch import is_foreign, is_plain, is_under_device, is_under_own_mode, takes_graph
from ._op import _refuse_onnx
from ._kernels import LayerKey, Variant
from ._masks import counted, why_uncounted
from ._recurrent_op import (RECURRENT, Call, Form, Result, parts, run_recurrent, split,
                            takes_gradient)
from ._swapped import Swapped

CELLS = (nn.LSTMCell, nn.GRUCell, nn.RNNCell)
RECURRENT_LAYERS = (nn.LSTM, nn.GRU, nn.RNN, *CELLS)


def is_recurrent(module: nn.Module) -> bool:
    return isinstance(module, RECURRENT_LAYERS)


def weight_names(module: nn.Module) -> list[str]:
    """Names of weights and biases, in the order of `spjit::recurrent`."""
    if isinstance(module, CELLS):
        names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        return names if module.bias else names[:2]
    return module._flat_weights_names  # type: ignore[return-value]


def _all_weights(module: nn.Module) -> list[Tensor]:
    return [getattr(module, name) for name in weight_names(module)]


def form_of(module: nn.Module) -> Form:
    if isinstance(module, nn.RNNBase):
        return Form(module.mode, module.bias, module.num_layers, module.bidirectional)
    if isinstance(module, nn.RNNCell):
        return Form(f"RNN_{module.nonlinearity.upper()}", module.bias, 1, False)
    return Form("LSTM" if isinstance(module, nn.LSTMCell) else "GRU",
                module.bias, 1, False)  # type: ignore[arg-type]


def matrix_names(module: nn.Module) -> list[str]:
    """Names of weights that have kernels."""
    return [name for name in weight_names(module) if name.startswith("weight")]


def weights_of_recurrent(module: nn.Module) -> list[Tensor]:
    """Those that have kernels."""
    return [getattr(module, name) for name in matrix_names(module)]


def why_other_recurrent(module: nn.Module) -> str:
    """Why changes of weights are not counted, or they are not as many as torch has; "" if they are.
    """
    if why := why_uncounted(module, weight_names(module)):
        return why
    if split(form_of(module), _all_weights(module)) is None:
        return "its weights are not those of its sizes"
    return ""


def parts_of(module: nn.Module, key: LayerKey) -> list[tuple[Tensor, str, Variant]]:
    """Each weight of its typical call with the LayerKey and Variant of its kernel."""
    steps = key.tokens // max(key.batch, 1)
    call = Call(steps, key.batch, torch.get_num_threads(), str(key))
    found = split(form_of(module), _all_weights(module))
    assert found is not None
    return [part for weights in found for part in parts(weights, call)]


def _unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile runs modules of nn.RNNBase as they are, but compiles functions that they call.
    """
    if "torch._dynamo" not in sys.modules:
        return function
    if function not in _disabled:
        _disabled[function] = torch.compiler.disable(function)
    return _disabled[function]


_disabled: dict[Callable[..., Any], Callable[..., Any]] = {}


class _SwappedRecurrent(Swapped):
    """Of all layers and directions. Its forward() is dense where anything is unusual."""

    _parameters: dict[str, Any]
    batch_first = False

    def _made_of(self) -> list[Tensor]:
        return weights_of_recurrent(self)  # type: ignore[arg-type]

    def _result(self, x: Any, batch_sizes: Tensor | None, h0: Tensor | None,
                c0: Tensor | None) -> Result | None:
        """Of `spjit::recurrent`; None: the module has to run dense, which was counted."""
        if isinstance(x, Proxy):
            raise NotSupported("torch.fx does not know sparse recurrent layers: call "
                               "spjit.torch.restore_(model) before")
        weights = [counted(self, name) for name in weight_names(self)]  # type: ignore[arg-type]
        tensors = [x, *weights, *(state for state in (h0, c0) if state is not None)]
        if (not all(isinstance(each, Tensor) for each in tensors) or is_under_own_mode()
                or any(is_foreign(x, each, None) for each in tensors)):
            return self._dense_instead()
        given = (x, batch_sizes, h0, c0, weights, *form_of(self),  # type: ignore[arg-type]
                 bool(self.batch_first), self.spjit_key)
        # What torch.jit traces is called with and without gradients: the operator decides then.
        if not torch.jit.is_tracing() and takes_gradient(
                x, [h0, c0], weights):  # type: ignore[arg-type]
            if any(takes_graph(weight, None) for weight in weights):  # type: ignore[arg-type]
                self._warn_once()
            return self._dense_instead()
        if not is_compiling():
            if all(is_plain(each, weights[0], None)  # type: ignore[arg-type]
                   for each in (x, h0, c0) if each is not None):
                return _unseen(run_recurrent)(*given) or self._dense_instead()
            if is_under_device(x, weights[0], None):  # type: ignore[arg-type]
                with torch._C.DisableTorchFunction():
                    return self._result(x, batch_sizes, h0, c0)
            _refuse_onnx()
        return RECURRENT(*given)  # type: ignore[no-any-return]

    def _dense_instead(self) -> None:
        if not is_compiling():
            self.count_dense()


def _pair(hx: Any, is_lstm: bool) -> tuple[Any, Any] | None:
    """h0 and c0 of a call; None if they are none."""
    if hx is None:
        return None, None
    if is_lstm:
        return (hx[0], hx[1]) if isinstance(hx, (tuple, list)) and len(hx) == 2 else None
    return hx, None


class _SwappedLayers(_SwappedRecurrent):
    """Of nn.RNNBase."""

    mode: str
    dropout: float
    num_layers: int

    def forward(self, input: Any, hx: Any = None) -> Any:
        found = self._sparsely(input, hx)
        return self._dense(input, hx) if found is None else found

    def _dense(self, input: Any, hx: Any) -> Any:
        kind = next(kind for kind in RECURRENT_LAYERS if isinstance(self, kind))
        return kind.forward(self, input, hx)  # type: ignore[arg-type]

    def _sparsely(self, input: Any, hx: Any) -> Any:
        is_lstm = self.mode == "LSTM"
        states = _pair(hx, is_lstm)
        if states is None or (self.training and self.dropout > 0 and self.num_layers > 1):
            return self._dense_instead()
        if isinstance(input, PackedSequence):
            return self._packed(input, states, is_lstm)
        is_single = isinstance(input, Tensor) and input.dim() == 2
        if isinstance(input, Tensor) and input.dim() not in (2, 3):
            return self._dense_instead()
        sequence = 0 if self.batch_first else 1
        if is_single:
            if any(state is not None and state.dim() != 2 for state in states):
                return self._dense_instead()
            input = input.unsqueeze(sequence)
            states = tuple(None if each is None else each.unsqueeze(1) for each in states)
        elif any(state is not None and state.dim() != 3 for state in states):
            return self._dense_instead()
        result = self._result(input, None, *states)
        if result is None:
            return None
        y, h_n, c_n = result
        if is_single:
            y, h_n = y.squeeze(sequence), h_n.squeeze(1)
            c_n = c_n.squeeze(1) if is_lstm else c_n
        return y, ((h_n, c_n) if is_lstm else h_n)

    def _packed(self, input: PackedSequence, states: tuple[Any, Any], is_lstm: bool) -> Any:
        """Sequences in descending order of their lengths, and their states as well."""
        data, batch_sizes, to_sorted, from_sorted = input
        if any(state is not None and state.dim() != 3 for state in states):
            return self._dense_instead()
        if to_sorted is not None:
            states = tuple(None if each is None else each.index_select(1, to_sorted)
                           for each in states)  # type: ignore[assignment]
        result = self._result(data, batch_sizes, *states)
        if result is None:
            return None
        y, h_n, c_n = result
        if from_sorted is not None:
            h_n = h_n.index_select(1, from_sorted)
            c_n = c_n.index_select(1, from_sorted) if is_lstm else c_n
        packed = PackedSequence(y, batch_sizes, to_sorted, from_sorted)
        return packed, ((h_n, c_n) if is_lstm else h_n)


class SparseLSTM(_SwappedLayers, nn.LSTM):
    """Of `optimize_` and `load_`."""


class SparseGRU(_SwappedLayers, nn.GRU):
    """Of `optimize_` and `load_`."""


class SparseRNN(_SwappedLayers, nn.RNN):
    """Of `optimize_` and `load_`."""


class _SwappedCell(_SwappedRecurrent):
    """Of nn.RNNCellBase: a layer of one step."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        found = self._sparsely(input, hx)
        if found is not None:
            return found
        kind = next(kind for kind in CELLS if isinstance(self, kind))
        return kind.forward(self, input, hx)  # type: ignore[arg-type]

    def _sparsely(self, input: Any, hx: Any) -> Any:
        is_lstm = isinstance(self, nn.LSTMCell)
        states = _pair(hx, is_lstm)
        if states is None or (isinstance(input, Tensor) and input.dim() not in (1, 2)):
            return self._dense_instead()
        is_single = isinstance(input, Tensor) and input.dim() == 1
        if any(state is not None and state.dim() != (1 if is_single else 2) for state in states):
            return self._dense_instead()

        def widened(tensor: Any) -> Any:
            if tensor is None or isinstance(tensor, Proxy):
                return tensor
            return tensor[None, None] if is_single else tensor[None]

        result = self._result(widened(input), None, *map(widened, states))
        if result is None:
            return None
        h, c = result[1][0], result[2][0] if is_lstm else result[2]
        if is_single:
            h, c = h[0], c[0] if is_lstm else c
        if isinstance(self, nn.GRUCell) and hx is not None and not hx.is_contiguous():
            h = (hx - h).copy_(h)  # the strides that torch's own differences with hx have
        return (h, c) if is_lstm else h


class SparseLSTMCell(_SwappedCell, nn.LSTMCell):
    """Of `optimize_` and `load_`."""


class SparseGRUCell(_SwappedCell, nn.GRUCell):
    """Of `optimize_` and `load_`."""


class SparseRNNCell(_SwappedCell, nn.RNNCell):
    """Of `optimize_` and `load_`."""


SPARSE_RECURRENT: dict[type[nn.Module], type[nn.Module]] = {
    nn.LSTM: SparseLSTM, nn.GRU: SparseGRU, nn.RNN: SparseRNN, nn.LSTMCell: SparseLSTMCell,
    nn.GRUCell: SparseGRUCell, nn.RNNCell: SparseRNNCell}
