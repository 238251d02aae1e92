"""Activations behind a layer of an ONNX model: which nodes are a function that kernels have. FORMS
is the list: a node or a chain of nodes is one of these by its structure and its constants, or it
stays. Needs the package onnx."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import onnx

from ._activation import LARGEST, PARAMETERS, Activation
from ._onnx_expressions import (
    X,
    Expression,
    Graph,
    computed,
    constant,
    constants_of,
    expression_of,
    formula,
    gelu,
    gelu_tanh,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    matches,
    sigmoid,
)

_MOST_NODES = 64  # that are looked at behind a layer


class Form(NamedTuple):
    """One way to write an activation."""

    activation: str  # its name
    wanted: Expression
    constants: tuple[tuple[str, float], ...] = ()  # of its parameters, those that are fixed


# What each activation computes of x and its parameters.
FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "hard-swish": hard_swish,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "leaky-relu": leaky_relu,
    "hard-sigmoid": hard_sigmoid,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}


def _forms(activation: str, formulas: Sequence[str], **constants: float) -> Iterator[Form]:
    for text in formulas:
        yield Form(activation, formula(text), tuple(constants.items()))


# x * (t + 1) / 2, as exporters order it, with t of one of several forms.
_HALVES = ("x * ({t} + 1) * 0.5", "x * 0.5 * ({t} + 1)", "x * (({t} + 1) * 0.5)",
           "x * ({t} + 1) / 2", "x / 2 * ({t} + 1)", "x * (({t} + 1) / 2)",
           "x * ({t} * 0.5 + 0.5)")
_ERFS = ("Erf(x / root_2)", "Erf(x * root_half)")
_CUBES = ("x ** 3 * c", "x * x * x * c", "x * (x * x * c)", "x * c * x * x", "x * x * (x * c)")
_TANHS = (*(f"Tanh((x + {cube}) * root_2_pi)" for cube in _CUBES),
          *(f"Tanh(x * root_2_pi * ({square} + 1))" for square in ("x * x * c", "x * c * x",
                                                                  "x ** 2 * c")),
          *(f"Tanh(x * ({square} + 1) * root_2_pi)" for square in ("x * x * c", "x ** 2 * c")),
          "Tanh(x * (x * x * (c * root_2_pi) + root_2_pi))")
_GATES = ("Clip(x + 3, 0, 6)", "Min(Relu(x + 3), 6)", "Min(Max(x + 3, 0), 6)",
          "Clip(Relu(x + 3), 0, 6)")
_SIXTHS = ("x * {g} / 6", "x * {g} * (1 / 6)", "x * ({g} / 6)", "x * ({g} * (1 / 6))",
           "x / 6 * {g}", "x * (1 / 6) * {g}")

FORMS: tuple[Form, ...] = (
    *_forms("relu", ("Relu(x)", "Max(x, 0)")),
    *_forms("clamp", ("Clip(x, low, high)", "Min(Max(x, low), high)", "Max(Min(x, high), low)")),
    *_forms("clamp", ("Max(x, low)", ), high=math.inf),
    *_forms("clamp", ("Min(x, high)", ), low=-math.inf),
    *_forms("clamp", ("Min(Relu(x), high)", "Clip(Relu(x), 0, high)"), low=0.0),
    *_forms("gelu", ("Gelu(x, 0)", "microsoft.Gelu(x)",
                     *(half.format(t=t) for half in _HALVES for t in _ERFS))),
    *_forms("gelu-tanh", ("Gelu(x, 1)", "microsoft.FastGelu(x)",
                          *(half.format(t=t) for half in _HALVES for t in _TANHS))),
    *_forms("silu", ("x * Sigmoid(x)", "x / (Exp(-x) + 1)", "Swish(x, 1)",
                     "microsoft.QuickGelu(x, 1)")),
    *_forms("hard-swish", ("HardSwish(x)", "x * HardSigmoid(x, 1 / 6, 0.5)",
                           "x * Clip(x * (1 / 6) + 0.5, 0, 1)", "x * Clip(x / 6 + 0.5, 0, 1)",
                           *(sixth.format(g=gate) for sixth in _SIXTHS for gate in _GATES))),
    *_forms("leaky-relu", ("LeakyRelu(x, alpha)", "PRelu(x, alpha)", "Max(x, x * alpha)")),
    *_forms("hard-sigmoid", ("HardSigmoid(x, alpha, beta)", )),
    *_forms("sigmoid", ("Sigmoid(x)", "1 / (Exp(-x) + 1)")),
    *_forms("tanh", ("Tanh(x)", )),
)


class Found(NamedTuple):
    """Nodes that are an activation of a value."""

    activation: Activation
    output: str
    nodes: frozenset[int]  # indices into graph.nodes


def activation_of(expression: Expression, names: Sequence[str] = ()) -> Activation | None:
    """The function of x that kernels have, if it is one; of these `names`, if there are any."""
    for form in FORMS:
        if form.wanted.operator != expression.operator or (
                names and form.activation not in names):
            continue
        for constants in matches(form.wanted, expression):
            known = {**constants, **dict(form.constants)}
            made = Activation(form.activation, tuple(
                known[name] for name in PARAMETERS.get(form.activation, ())))
            if made.is_valid and _agrees(expression, made):
                return made
    return None


def _points(expression: Expression) -> np.ndarray:
    """Numbers of all of fp32, both sides of each constant of the expression, and special ones."""
    magnitudes = np.concatenate([[0], np.logspace(-45, 38, 167), np.linspace(0, 12, 97),
                                 [LARGEST, np.inf]])
    with np.errstate(all="ignore"):
        constants = np.array(sorted(constants_of(expression))).astype(np.float32)
        both = [np.nextafter(constants, np.float32(side)) for side in (-np.inf, np.inf)]
    around = np.concatenate([constants, *both]).astype(np.float64)
    return np.concatenate([magnitudes, -magnitudes, around, -around, [np.nan]])


def _agrees(expression: Expression, activation: Activation) -> bool:
    """A second look, by numbers: constants of a model are fp32, so there are errors of 1e-7."""
    x = _points(expression)
    given = computed(expression, x)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[activation.name](x, *activation.parameters)
        scale = np.maximum(np.abs(wanted), np.minimum(np.abs(x), 1))
        close = np.abs(given - wanted) <= 2e-6 * scale
    return bool(np.all(close | (given == wanted) | (np.isnan(given) & np.isnan(wanted))))


def activation_behind(graph: Graph, value: str, rank: int, *, seen: bool = False,
                      names: Sequence[str] = ()) -> Found | None:
    """The most nodes that are an activation of `value`, which has `rank` dimensions, and between
    which no other node sees anything; nor `value` itself unless it may be `seen`. `names`: of
    functions, if not any is wanted."""
    known = {value: X}
    makers: dict[str, int] = {}
    waiting = list(graph.users(value))
    heapq.heapify(waiting)
    best = None
    while waiting and len(makers) < _MOST_NODES:
        index = heapq.heappop(waiting)
        node = graph.nodes[index]
        if not node.output or node.output[0] in makers:
            continue
        expression = expression_of(graph, node, known, rank)
        if expression is None:
            continue
        output = node.output[0]
        known[output], makers[output] = expression, index
        for user in graph.users(output):
            heapq.heappush(waiting, user)
        activation = activation_of(expression, names)
        if activation is None:
            continue
        within = _nodes_behind(graph, output, makers)
        hidden = [graph.nodes[i].output[0] for i in within - {index}]
        if all(graph.only_within(one, within) for one in (hidden if seen else [value, *hidden])):
            best = Found(activation, output, frozenset(within))
    return best


def _nodes_behind(graph: Graph, output: str, makers: dict[str, int]) -> set[int]:
    """All that `output` is made of, up to the layer."""
    nodes: set[int] = set()
    waiting = [output]
    while waiting:
        name = waiting.pop()
        if name in makers and makers[name] not in nodes:
            nodes.add(makers[name])
            waiting.extend(graph.nodes[makers[name]].input)
    return nodes


# ---- Activations that ONNX Runtime has made part of a layer -----------------------------------

# Their attributes, in the order in which FusedConv has them as `activation_params`. FusedGemm has
# `activation_alpha` and so on.
_FUSED: dict[str, tuple[str, ...]] = {
    "Relu": (), "Sigmoid": (), "Tanh": (), "Softplus": (), "Softsign": (), "Clip": ("min", "max"),
    "Elu": ("alpha", ), "LeakyRelu": ("alpha", ), "ThresholdedRelu": ("alpha", ),
    "HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma"),
}


class FusedActivation(NamedTuple):
    operator: str  # of ONNX
    attributes: dict[str, float]

    @property
    def expression(self) -> Expression:
        return Expression(self.operator, (X, *map(constant, self.attributes.values())))


def fused_activation(node: onnx.NodeProto) -> FusedActivation | None:
    """The activation within a node of com.microsoft. Raises ValueError for one that is not known.
    """
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    operator = given.get("activation", b"").decode()
    if not operator:
        return None
    if operator not in _FUSED:
        raise ValueError(f"its activation {operator} is not known; expected one of "
                         + ", ".join(sorted(_FUSED)))
    names = _FUSED[operator]
    values = [given[f"activation_{name}"] for name in names if f"activation_{name}" in given]
    values = values or list(given.get("activation_params", []))
    if len(values) != len(names):
        raise ValueError(f"its activation {operator} has {len(values)} parameters; expected "
                         f"{len(names)}")
    return FusedActivation(operator, dict(zip(names, map(float, values))))
