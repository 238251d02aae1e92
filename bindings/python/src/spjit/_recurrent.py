"""LSTM, GRU and RNN of compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p
from typing import Any, Union

import numpy as np

from . import _arrays
from ._checks import flag
from ._errors import InvalidArgument
from ._kernel import Kernel
from ._library import RECURRENT_ARGUMENTS, Handle, RecurrentLayer, check, library

CELLS = {"lstm": 1, "gru": 2, "gru-reset-first": 3, "rnn-tanh": 4, "rnn-relu": 5}
GATES = {"lstm": 4, "gru": 3, "gru-reset-first": 3, "rnn-tanh": 1, "rnn-relu": 1}
DIRECTIONS = {"forward": 0, "reverse": 1, "both": 2}

_run = library.spjit_recurrent_run
_pack = RECURRENT_ARGUMENTS.pack
_SIZE = RECURRENT_ARGUMENTS.size
_ITEM = 4

Kernels = Union[Kernel, Sequence[Kernel], None]


def _named(value: Any, name: str, numbers: dict[str, int]) -> int:
    if isinstance(value, str) and value in numbers:
        return numbers[value]
    raise InvalidArgument(f"{name} is {value!r}; expected one of {', '.join(map(repr, numbers))}")


def _of_directions(given: Any, name: str, count: int) -> list[Any]:
    """One for each direction; none for None."""
    if given is None:
        return [None] * count
    each = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(each) != count:
        raise InvalidArgument(f"{name} is of {len(each)} directions; expected {count}")
    return each


class Recurrent:
    """A recurrent layer of one direction or both. docs/use/recurrent.md says what it computes.

    cell: "lstm", "gru" (PyTorch's), "gru-reset-first" (ONNX's default), "rnn-tanh" or "rnn-relu".
    input: the Kernel of the weights [gates * hidden, inputs], or two for both directions. Like all
        kernels here it is a product of any number of tokens, with a bias or not:
        `spjit.compile(weight_ih, bias=True)`.
    recurrent: of [gates * hidden, outputs]; of "gru-reset-first" without the rows of n. It may be
        compiled for one number of sequences, n=batch, and input for one step of them.
    candidate: of "gru-reset-first" alone: n, [hidden, hidden].
    projection: of an LSTM: [outputs, hidden] without a bias; None: outputs are hidden.
    direction: "forward", "reverse" or "both".

    Raises InvalidArgument for kernels that do not fit the cell or one another.
    """

    def __init__(self, cell: str, input: Kernels, recurrent: Kernels, *, candidate: Kernels = None,
                 projection: Kernels = None, direction: str = "forward") -> None:
        struct = RecurrentLayer(cell=_named(cell, "cell", CELLS),
                                direction=_named(direction, "direction", DIRECTIONS))
        self.directions = 2 if direction == "both" else 1
        given: dict[str, list[Any]] = {}
        for name, kernels in (("input", input), ("recurrent", recurrent),
                              ("candidate", candidate), ("projection", projection)):
            given[name] = _of_directions(kernels, name, self.directions)
            for each in given[name]:
                if not isinstance(each, (Kernel, type(None))):
                    raise TypeError(f"{name} is {type(each).__name__}; expected a Kernel")
            setattr(struct, name, (c_void_p * 2)(*(None if each is None else each._handle.pointer
                                                   for each in given[name])))
        self._handle = Handle(library.spjit_recurrent_create, library.spjit_recurrent_destroy,
                              byref(struct))
        self.pointer = self._handle.pointer
        self._has_memory = cell == "lstm"
        self.kernels = [each for kernels in given.values() for each in kernels if each is not None]
        first = {name: kernels[0] for name, kernels in given.items()}
        self.inputs: int = first["input"]._in
        self.hidden: int = first["input"]._out // GATES[cell]
        self.outputs: int = (
            self.hidden if first["projection"] is None else first["projection"]._out)
        self._recurrent_rows: int = first["recurrent"]._out
        self._gate_rows: int = first["input"]._out

    def __call__(self, x: Any, *, h0: Any = None, c0: Any = None, lengths: Any = None,
                 input_bias: Any = None, recurrent_bias: Any = None, candidate_bias: Any = None,
                 batch_first: bool = False) -> Any:
        """y and the state after the last step: (y, h_n), of an LSTM (y, h_n, c_n).

        x: [steps, batch, inputs], or [batch, steps, inputs] with batch_first; fp32, arrays of numpy
            or DLPack. Rows are contiguous, others any positive stride apart. So of y.
        h0, c0: [directions, batch, outputs] and [.., hidden], contiguous; None: 0.
        lengths: [batch] of whole numbers: the steps of each sequence; None: all. y of later steps is
            0, the state that of the last one.
        input_bias, recurrent_bias, candidate_bias: one array, or of both directions two, where the
            kernels were compiled with a bias.

        Raises TypeError for another type than fp32, InvalidArgument for what does not fit.
        """
        memory = _arrays.dense(x, "x")
        if len(memory[1]) != 3 or memory[1][2] != self.inputs:
            order = "batch, steps" if flag(batch_first, "batch_first") else "steps, batch"
            raise InvalidArgument(f"x has the shape {list(memory[1])}; expected [{order}, "
                                  f"{self.inputs}]")
        step, row = (1, 0) if flag(batch_first, "batch_first") else (0, 1)
        steps, batch = memory[1][step], memory[1][row]
        x_strides = self._strides_of(memory)
        y = np.empty((*memory[1][:2], self.directions * self.outputs), np.float32)
        h_n = np.empty((self.directions, batch, self.outputs), np.float32)
        c_n = np.empty((self.directions, batch, self.hidden), np.float32)
        before = [self._state(h0, "h0", h_n.shape), self._state(c0, "c0", c_n.shape)]
        ends = self._lengths(lengths, batch)
        biases = [*self._biases(input_bias, "input_bias", self._gate_rows),
                  *self._biases(recurrent_bias, "recurrent_bias", self._recurrent_rows),
                  *self._biases(candidate_bias, "candidate_bias", self.hidden)]
        strides = [stride // _ITEM for stride in y.strides]
        check(_run(self._handle.pointer, _pack(
            _SIZE, steps, batch, memory[0], x_strides[step], x_strides[row], y.ctypes.data,
            strides[step], strides[row], self.outputs, 0 if ends is None else ends.ctypes.data,
            *(0 if each is None else each[0] for each in before), h_n.ctypes.data,
            c_n.ctypes.data if self._has_memory else 0,
            *(0 if each is None else each[0] for each in biases))))
        return (y, h_n, c_n) if self._has_memory else (y, h_n)

    def _strides_of(self, x: _arrays.Dense) -> list[int]:
        """Floats between the first two dimensions' rows; 0 where there is one."""
        _, shape, strides, _ = x
        if 0 in shape:
            return [0, 0]
        contiguous = shape[2] <= 1 or strides[2] == _ITEM
        if not contiguous or any(stride % _ITEM for stride in strides[:2]):
            raise InvalidArgument(f"x has the strides {list(strides)} (bytes); expected {_ITEM} in "
                                  "the last dimension and multiples of it: "
                                  "numpy.ascontiguousarray() makes a copy that has them")
        return [stride // _ITEM if count > 1 else 0 for stride, count in zip(strides, shape)]

    @staticmethod
    def _state(state: Any, name: str, shape: tuple[int, ...]) -> _arrays.Dense | None:
        if state is None:
            return None
        memory = _arrays.dense(state, name)
        if memory[1] != shape:
            raise InvalidArgument(f"{name} has the shape {list(memory[1])}; expected {list(shape)}")
        expected = _arrays.contiguous_strides(shape)
        if 0 not in shape and any(count > 1 and stride != _ITEM * apart
               for count, stride, apart in zip(shape, memory[2], expected)):
            raise InvalidArgument(f"{name} has the strides {list(memory[2])} (bytes); expected a "
                                  "contiguous array: numpy.ascontiguousarray()")
        return memory

    def _biases(self, given: Any, name: str, rows: int) -> list[_arrays.Dense | None]:
        each = _of_directions(given, name, self.directions)
        return [None if bias is None else _arrays.vector(bias, name, rows)
                for bias in (*each, None)[:2]]

    @staticmethod
    def _lengths(lengths: Any, batch: int) -> Any:
        if lengths is None:
            return None
        try:
            given = np.asarray(lengths)
        except ValueError:  # rows of several lengths
            raise InvalidArgument(f"lengths is {lengths!r}; expected [{batch}]") from None
        if given.dtype.kind not in "iu":
            raise TypeError(f"lengths is {given.dtype}; expected integers")
        if given.shape != (batch,):
            raise InvalidArgument(f"lengths has the shape {list(given.shape)}; expected [{batch}]")
        return np.ascontiguousarray(given, np.int64)
