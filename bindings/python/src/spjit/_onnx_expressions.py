"""What nodes compute of one value and of constants, as expressions; and formulas, which expressions
are compared with. Needs the package onnx."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnx

from ._activation import LARGEST

_COMMUTATIVE = ("Add", "Mul", "Min", "Max")


class Graph(Protocol):
    """What is needed of a graph; its nodes are in an order in which they can run."""

    nodes: Sequence[onnx.NodeProto]

    def users(self, name: str) -> list[int]: ...

    def only_within(self, name: str, nodes: set[int]) -> bool: ...

    def scalar(self, name: str, rank: int = 1) -> float | None: ...


class Expression(NamedTuple):
    """`operator`: an operator of ONNX ("microsoft.Gelu": of com.microsoft), "x", "constant", or in
    formulas "any", a constant of any value, which `name` refers to."""

    operator: str
    operands: tuple[Expression, ...] = ()
    value: float = 0.0
    name: str = ""


X = Expression("x")


def constant(value: float) -> Expression:
    return Expression("constant", value=value)


# ---- Operators ------------------------------------------------------------------------------


class _Operator(NamedTuple):
    """An elementwise operator. Attributes are operands behind its inputs; what they are where the
    node does not say is here."""

    compute: Callable[..., Any]  # of float64
    inputs: int = 1
    attributes: Mapping[str, float] = {}


def erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(one) for one in np.ravel(x)]).reshape(np.shape(x))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / 2 * (1 + erf(x / math.sqrt(2))))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(x / 2 * (1 + np.tanh(inner)))


def hard_swish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


def hard_sigmoid(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.asarray(np.clip(alpha * x + beta, 0, 1))


def leaky_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x < 0, alpha * x, x)


def _swish(x: np.ndarray, slope: float) -> np.ndarray:
    return np.asarray(x * sigmoid(slope * x))


_OPERATORS: dict[str, _Operator] = {
    "Add": _Operator(np.add, 2), "Sub": _Operator(np.subtract, 2),
    "Mul": _Operator(np.multiply, 2), "Div": _Operator(np.divide, 2),
    "Pow": _Operator(np.power, 2), "Max": _Operator(np.maximum, 2),
    "Min": _Operator(np.minimum, 2), "Neg": _Operator(np.negative), "Exp": _Operator(np.exp),
    "Erf": _Operator(erf), "Tanh": _Operator(np.tanh), "Sigmoid": _Operator(sigmoid),
    "Identity": _Operator(np.asarray), "Relu": _Operator(lambda x: np.maximum(x, 0)),
    # Bounds are inputs since version 11 of the operators.
    "Clip": _Operator(lambda x, low, high: np.minimum(np.maximum(x, low), high), 1,
                      {"min": -LARGEST, "max": LARGEST}),
    "HardSigmoid": _Operator(hard_sigmoid, 1, {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": _Operator(leaky_relu, 1, {"alpha": 0.01}), "PRelu": _Operator(leaky_relu, 2),
    "HardSwish": _Operator(hard_swish), "Swish": _Operator(_swish, 1, {"alpha": 1.0}),
    "Gelu": _Operator(lambda x, tanh: (gelu_tanh if tanh else gelu)(x), 1, {"approximate": 0}),
    "microsoft.Gelu": _Operator(gelu), "microsoft.FastGelu": _Operator(gelu_tanh),
    "microsoft.QuickGelu": _Operator(_swish, 1, {"alpha": 1.702}),
}
_WORDS = {b"none": 0.0, b"tanh": 1.0}  # of the attribute `approximate`


def _name_of(node: onnx.NodeProto) -> str:
    prefixes = {"": "", "ai.onnx": "", "com.microsoft": "microsoft."}
    return prefixes[node.domain] + node.op_type if node.domain in prefixes else ""


def expression_of(graph: Graph, node: onnx.NodeProto, known: Mapping[str, Expression],
                  rank: int) -> Expression | None:
    """What the node gives. None unless it is one of these operators, of values that are `known`,
    which have `rank` dimensions, and constants of one element."""
    name = _name_of(node)
    operator = _OPERATORS.get(name)
    if operator is None or len(node.output) != 1:
        return None
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    # An attribute that is not here may change what the node computes, as `axis` of Add did once.
    if not set(given) <= set(operator.attributes):
        return None
    operands = [_operand(graph, value, known, rank) for value in node.input]
    while operands and node.input[len(operands) - 1] == "":
        operands.pop()
    for place, (attribute, default) in enumerate(operator.attributes.items(), operator.inputs):
        value = given.get(attribute, default)
        value = _WORDS.get(value) if isinstance(value, bytes) else float(value)
        if place == len(operands):
            operands.append(None if value is None else constant(value))
        elif place < len(operands) and node.input[place] == "":
            operands[place] = None if value is None else constant(value)
    if len(operands) != operator.inputs + len(operator.attributes):
        return None
    whole = tuple(one for one in operands if one is not None)
    if len(whole) < len(operands):
        return None
    return whole[0] if name == "Identity" else Expression(name, whole)


def _operand(graph: Graph, value: str, known: Mapping[str, Expression],
             rank: int) -> Expression | None:
    if value in known:
        return known[value]
    number = graph.scalar(value, rank) if value else None
    return None if number is None else constant(number)


def computed(expression: Expression, x: np.ndarray) -> np.ndarray:
    """In float64."""
    if expression.operator == "x":
        return x
    if expression.operator == "constant":
        return np.asarray(expression.value)
    given = [computed(one, x) for one in expression.operands]
    with np.errstate(all="ignore"):
        return np.asarray(_OPERATORS[expression.operator].compute(*given))


def constants_of(expression: Expression) -> set[float]:
    found = {expression.value} if expression.operator == "constant" else set()
    return found.union(*map(constants_of, expression.operands))


# ---- Formulas -------------------------------------------------------------------------------

_NUMBERS = {"root_2": math.sqrt(2), "root_half": math.sqrt(0.5),
            "root_2_pi": math.sqrt(2 / math.pi), "inf": math.inf, "c": 0.044715}
_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow"}


def formula(text: str) -> Expression:
    """"x * Sigmoid(x)": operators of ONNX with attributes as operands, numbers and their quotients,
    and names of _NUMBERS; another name is any constant."""
    return _parsed(ast.parse(text, mode="eval").body)


def _parsed(node: ast.expr) -> Expression:
    if isinstance(node, ast.Constant):
        return constant(float(node.value))  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        if node.id in _NUMBERS:
            return constant(_NUMBERS[node.id])
        return X if node.id == "x" else Expression("any", name=node.id)
    if isinstance(node, ast.UnaryOp):
        value = _parsed(node.operand)
        return constant(-value.value) if value.operator == "constant" else Expression(
            "Neg", (value, ))
    if isinstance(node, ast.BinOp):
        made = Expression(_SYMBOLS[type(node.op)], (_parsed(node.left), _parsed(node.right)))
        are_numbers = all(one.operator == "constant" for one in made.operands)
        return constant(float(computed(made, np.zeros(())))) if are_numbers else made
    assert isinstance(node, ast.Call)
    return Expression(ast.unparse(node.func), tuple(map(_parsed, node.args)))


def _is_same(wanted: float, given: float) -> bool:
    """Whether `given` is the number, as fp32: exactly if it is one, and otherwise to four units in
    the last place, as those who write it with seven digits have it."""
    nearest = float(np.float32(wanted))
    if nearest == wanted or not math.isfinite(given):
        return given == wanted
    return abs(given - wanted) <= 4 * float(np.spacing(np.float32(abs(wanted))))


def matches(wanted: Expression, given: Expression,
            found: Mapping[str, float] | None = None) -> Iterator[dict[str, float]]:
    """Constants of `given` by their names in the formula `wanted`, in each way in which the first
    is the second; operands of Add, Mul, Min and Max in any order."""
    found = dict(found or {})
    if wanted.operator == "any":
        if given.operator == "constant" and found.get(wanted.name, given.value) == given.value:
            yield {**found, wanted.name: given.value}
    elif wanted.operator == "constant":
        if given.operator == "constant" and _is_same(wanted.value, given.value):
            yield found
    elif wanted.operator == given.operator and len(wanted.operands) == len(given.operands):
        orders = (itertools.permutations(given.operands) if wanted.operator in _COMMUTATIVE
                  else [given.operands])
        for operands in orders:
            yield from _all_match(list(zip(wanted.operands, operands)), found)


def _all_match(pairs: list[tuple[Expression, Expression]],
               found: Mapping[str, float]) -> Iterator[dict[str, float]]:
    if not pairs:
        yield dict(found)
        return
    (wanted, given), *others = pairs
    for more in matches(wanted, given, found):
        yield from _all_match(others, more)
