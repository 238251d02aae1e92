"""Recurrent layers of an ONNX model with constant weights, gates in the order of spjit. Needs the
package onnx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
import onnx

from ._onnx_constants import attribute_of
from ._onnx_protos import Scope
from ._onnx_shapes import Extents
from ._onnx_values import Graph, is_standard
from ._onnx_weights import Refused, zeros_of

# From spjit's gates to those of ONNX: i, f, g, o are in i, o, f, c; r, z, n in z, r, h.
_PLACES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_DIRECTIONS = {b"forward": "forward", b"reverse": "reverse", b"bidirectional": "both"}
_ACTIVATIONS = {"LSTM": [b"Sigmoid", b"Tanh", b"Tanh"], "GRU": [b"Sigmoid", b"Tanh"]}
_PEEPHOLES = 7  # the place of P


class Matrices(NamedTuple):
    """Of one direction."""

    input: np.ndarray  # fp32 [gates * hidden, inputs]
    recurrent: np.ndarray  # [gates * hidden, hidden], or without the rows of n
    candidate: Optional[np.ndarray]  # those


@dataclass(frozen=True, eq=False)
class OnnxRecurrent:
    """A node LSTM, GRU or RNN."""

    name: str
    op: str
    cell: str  # of spjit.Recurrent
    direction: str
    matrices: tuple[Matrices, ...]  # of each direction
    bias: np.ndarray | None  # fp32 [directions, 2 * gates * hidden]
    input: str  # names of values of the graph; "" for what is missing
    lengths: str
    states: tuple[str, str]  # h, c
    outputs: tuple[str, str, str]  # y, h, c
    nodes: tuple[int, ...]  # the one
    input_shape: Extents | None
    prefix: str  # of names of its kernels, which a slash follows

    activation = None
    residual = None
    convolution = None
    behind = None
    scope: Scope = ()

    @property
    def output(self) -> str:
        return next(name for name in self.outputs if name)

    @property
    def weight(self) -> np.ndarray:
        """All side by side."""
        columns = [np.concatenate([one.recurrent, *([] if one.candidate is None
                                                    else [one.candidate])])
                   for one in self.matrices]
        return np.concatenate([*(one.input for one in self.matrices), *columns], axis=1)

    @property
    def zeros(self) -> float:
        return zeros_of(self.weight)


def is_recurrent(node: onnx.NodeProto) -> bool:
    return is_standard(node) and node.op_type in _PLACES


def recurrent_at(graph: Graph, index: int, name: str) -> OnnxRecurrent | None:
    """Of a node that `is_recurrent`; None if its weights are no constants. Raises Refused."""
    node = graph.nodes[index]
    given = [*node.input, *[""] * (8 - len(node.input))]
    outputs = [*node.output, *["", "", ""]][:3]
    weights = [graph.constant(given[place]) for place in (1, 2)]
    if any(weight is None for weight in weights) or not any(outputs):
        return None
    given_direction = attribute_of(node, "direction", b"forward")
    direction = _DIRECTIONS.get(given_direction) if isinstance(given_direction, bytes) else None
    if direction is None:
        raise Refused("its direction is none of ONNX")
    directions = 2 if direction == "both" else 1
    _check(node, given, directions)
    bias = graph.constant(given[3]) if given[3] else None
    if given[3] and bias is None:
        raise Refused("its bias is computed; expected a constant")
    for value in (*weights, *([] if bias is None else [bias])):
        assert value is not None
        if value.dtype != np.float32:
            raise Refused(f"its weights are {value.dtype}; expected float32")
    _check_shapes(node, directions, [weights[0], weights[1], bias])
    resets_first = node.op_type == "GRU" and not attribute_of(node, "linear_before_reset", 0)
    return OnnxRecurrent(
        name=name, op=node.op_type, cell=_cell(node, resets_first), direction=direction,
        matrices=_matrices(node.op_type, weights[0], weights[1], resets_first),
        bias=None if bias is None else _bias(node.op_type, bias), input=given[0],
        lengths=given[4], states=(given[5], given[6]), outputs=(outputs[0], outputs[1], outputs[2]),
        nodes=(index,), input_shape=graph.shapes.get(given[0]), prefix=name)


def _check(node: onnx.NodeProto, given: list[str], directions: int) -> None:
    """Raises Refused for what kernels do not compute."""
    if attribute_of(node, "layout", 0):
        raise Refused("its layout is 1, batches first; expected 0")
    if attribute_of(node, "clip", None) is not None:
        raise Refused("its cells are clipped, which kernels do not do")
    if attribute_of(node, "input_forget", 0):
        raise Refused("its input and forget gates are coupled, which kernels do not do")
    if node.op_type == "LSTM" and given[_PEEPHOLES]:
        raise Refused("it has peepholes, which kernels do not have")
    usual = _ACTIVATIONS.get(node.op_type)
    activations = _activations(node)
    if usual is not None and activations and activations != usual * directions:
        names = b", ".join(activations).decode(errors="replace")
        raise Refused(f"its activations are {names}; expected the default")


def _activations(node: onnx.NodeProto) -> list[bytes]:
    """Empty for the default. Raises Refused for another type."""
    given = attribute_of(node, "activations", [])
    if not isinstance(given, list) or not all(isinstance(name, bytes) for name in given):
        raise Refused(f"its activations are {given!r}; expected names")
    return given


def _check_shapes(node: onnx.NodeProto, directions: int,
                  weights: list[np.ndarray | None]) -> None:
    """Of W, R and B. Raises Refused for others than those of ONNX."""
    w, r, bias = weights
    assert w is not None and r is not None
    hidden = r.shape[-1] if r.ndim else 0
    rows = len(_PLACES[node.op_type]) * hidden
    fits = (w.ndim == 3 and w.shape[:2] == (directions, rows) and min(w.shape) > 0
            and r.shape == (directions, rows, hidden)
            and attribute_of(node, "hidden_size", hidden) == hidden
            and (bias is None or bias.shape == (directions, 2 * rows)))
    if not fits:
        shapes = ", ".join(str(list(one.shape)) for one in weights if one is not None)
        expected = f"[{directions}, {rows}, inputs], [{directions}, {rows}, {hidden}]"
        raise Refused(f"its weights and biases are {shapes}; expected {expected} and "
                      f"[{directions}, {2 * rows}], and hidden_size {hidden}")


def _cell(node: onnx.NodeProto, resets_first: bool) -> str:
    if node.op_type != "RNN":
        return "lstm" if node.op_type == "LSTM" else "gru-reset-first" if resets_first else "gru"
    kinds = set(_activations(node) or [b"Tanh"])
    if kinds not in ({b"Tanh"}, {b"Relu"}):
        names = b", ".join(sorted(kinds)).decode(errors="replace")
        raise Refused(f"its activations are {names}; expected Tanh or Relu")
    return "rnn-tanh" if kinds == {b"Tanh"} else "rnn-relu"


def _gates(op: str, array: np.ndarray) -> np.ndarray:
    """Rows [gates * hidden, ...] of ONNX in spjit's order."""
    places = _PLACES[op]
    parts = array.reshape(len(places), -1, *array.shape[1:])
    return np.ascontiguousarray(parts[list(places)].reshape(array.shape))


def _matrices(op: str, inputs: Any, recurrent: Any, resets_first: bool) -> tuple[Matrices, ...]:
    found = []
    for w, r in zip(inputs, recurrent):
        rows = _gates(op, r)
        split = 2 * r.shape[1] if resets_first else len(rows)
        found.append(Matrices(_gates(op, w), rows[:split], rows[split:] if resets_first else None))
    return tuple(found)


def _bias(op: str, bias: np.ndarray) -> np.ndarray:
    half = bias.shape[1] // 2
    return np.stack([np.concatenate([_gates(op, one[:half]), _gates(op, one[half:])])
                     for one in bias])
