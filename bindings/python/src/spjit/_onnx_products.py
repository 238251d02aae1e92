"""Products with constant weights in every form: which dimensions of X, the weights and Y are the
same ones, and how a kernel's operands are made of the model's. Needs the package onnx."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import onnx

from ._onnx_constants import attribute_of
from ._onnx_shapes import Extents
from ._onnx_values import Graph
from ._onnx_weights import Refused

_ELLIPSIS = "..."
# Between OneHot and a product; the last where they keep the last dimension.
_MOVES = ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten")


class Terms(NamedTuple):
    """A letter for each dimension, as Einsum has them."""

    x: str
    w: str
    y: str


class Step(NamedTuple):
    """A node Transpose, Reshape, Unsqueeze or Squeeze, and what it is told."""

    op: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Arrangement:
    """What is around the kernels of a product."""

    before: tuple[Step, ...]
    behind: tuple[Step, ...]
    layout: str  # "tokens" or "features"
    batch: int  # kernels, each of a part of the first dimension; 0: one kernel for all
    rank: int  # dimensions of Y
    trailing: int | None  # those behind that of the rows; None where rows are not one dimension
    tokens: tuple[int, ...]  # the dimensions of X that are a kernel's n

    def typical_n(self, x: Sequence[int]) -> int:
        """Of X with this shape."""
        return max(int(np.prod([x[axis] for axis in self.tokens], dtype=np.int64)), 1)


def arranged(terms: Terms, weight: np.ndarray) -> tuple[np.ndarray, Arrangement]:
    """Weights [out, in], or of several kernels [batch, out, in]. Raises Refused for terms that are
    no product of matrices."""
    x, w, y = terms
    ones = tuple(i for i, one in enumerate(w) if one in x and one in y and weight.shape[i] == 1)
    if ones:  # a batch of one is none
        w = "".join(one for i, one in enumerate(w) if i not in ones)
        terms, weight = Terms(x, w, y), weight.squeeze(ones)
    _check(terms, weight)
    batch = "".join(one for one in w if one in x and one in y)
    inner = "".join(one for one in x if one in w and one not in y)
    rows = "".join(one for one in y if one in w and one not in x)
    matrix = weight.transpose([w.index(one) for one in batch + rows + inner])
    sizes = dict(zip(w, weight.shape))
    out, given = (int(np.prod([sizes[one] for one in of])) for of in (rows, inner))
    matrix = matrix.reshape((*(sizes[one] for one in batch), out, given))
    made = _of_features(terms, batch, rows, inner)
    if made is None:
        made = min((_of_tokens(terms, (batch, rows, inner), sizes, order) for order in (x, y)),
                   key=lambda one: len(one.before) + len(one.behind))
    return matrix, replace(made, batch=sizes[batch] if batch else 0)


def _behind_squeeze(made: Arrangement, axes: tuple[int, ...]) -> Arrangement:
    """With dimensions of X that go before."""
    if not axes:
        return made
    kept = [axis for axis in range(len(axes) + max(made.tokens, default=-1) + 1)
            if axis not in axes]
    return replace(made, before=(Step("Squeeze", axes), *made.before),
                   tokens=tuple(kept[axis] for axis in made.tokens))


def _check(terms: Terms, weight: np.ndarray) -> None:
    x, w, y = terms
    if any(len(set(term)) != len(term) for term in terms):
        raise Refused("a dimension is twice in one operand; expected a product of matrices")
    alone = [one for one in dict.fromkeys(x + w + y) if (one in x) + (one in w) + (one in y) < 2]
    if alone:
        raise Refused(f"dimension {alone[0]!r} is in one operand alone; expected a product of "
                      "matrices")
    if not any(one in x and one not in y for one in w):
        raise Refused("it sums nothing; expected a product of matrices")
    if not any(one not in x for one in w):
        raise Refused("the result has no dimension of its weights; expected a product of matrices")
    shared = [size for one, size in zip(w, weight.shape) if one in x and one in y]
    if len(shared) > 1:
        raise Refused(f"its weights have {len(shared)} dimensions of batches; expected one")
    if weight.size == 0:
        raise Refused("its weights have no elements")


def _of_features(terms: Terms, batch: str, rows: str, inner: str) -> Arrangement | None:
    """X [first, in, ...] and Y [first, out, ...], as they are, or but for the first."""
    x, _, y = terms
    if len(rows) != 1 or len(inner) != 1:
        return None
    first, rest = x.split(inner)
    if y != first + rows + rest or not rest or len(first) > 1 or not first.startswith(batch):
        return None
    around = ((), ()) if first else ((Step("Unsqueeze", (0,)),), (Step("Squeeze", (0,)),))
    return Arrangement(*around, "features", 0, len(y), None if batch else len(rest),
                       tuple(x.index(one) for one in rest))


def _of_tokens(terms: Terms, parts: tuple[str, str, str], sizes: dict[str, int],
               order: str) -> Arrangement:
    """X [batch, ..., in] and Y [batch, ..., out], by moving dimensions. `order`: of those between.
    """
    x, _, y = terms
    batch, rows, inner = parts
    tokens = "".join(one for one in order if one in x and one not in batch + rows + inner)
    lead = batch + tokens
    before = _transposed(x, lead + inner)
    if len(inner) > 1:
        before += _reshaped(len(lead), [int(np.prod([sizes[one] for one in inner]))])
    behind = _reshaped(len(lead), [sizes[one] for one in rows]) if len(rows) > 1 else []
    behind += _transposed(lead + rows, y)
    trailing = len(y) - 1 - y.index(rows) if len(rows) == 1 and not batch else None
    return Arrangement(tuple(before), tuple(behind), "tokens", 0, len(y), trailing,
                       tuple(x.index(one) for one in tokens))


def _transposed(given: str, wanted: str) -> list[Step]:
    return [] if given == wanted else [Step("Transpose", tuple(map(given.index, wanted)))]


def _reshaped(kept: int, last: list[int]) -> list[Step]:
    """So many dimensions stay, also empty ones."""
    return [Step("Reshape", (*(0,) * kept, *last))]


# ---- Of operators ---------------------------------------------------------------------------


def matmul_arranged(shape: Extents | None, weight: np.ndarray, *, left: bool = False,
                    turned_x: bool = False) -> tuple[np.ndarray, Arrangement | None]:
    """arranged() of MatMul; no Arrangement where X and Y are those of a kernel. `left`: the weights
    are the first operand. `turned_x`: the last two dimensions of X are transposed before. Raises
    Refused."""
    if weight.ndim < 2:
        raise Refused(f"its weights are [{', '.join(map(str, weight.shape))}]; expected 2 "
                      "dimensions or more")
    if weight.ndim == 2 and not left and not turned_x:
        return weight.T, None
    if shape is None:
        raise Refused(f"its weights have {weight.ndim} dimensions, and its activations an unknown "
                      "number")
    terms, weight, gone = _matmul_terms(shape, weight, left, turned_x)
    matrix, made = arranged(terms, weight)
    made = _behind_squeeze(made, gone)
    is_plain = not (made.before or made.behind or made.batch) and made.layout == "tokens"
    return matrix, None if is_plain else made


def _matmul_terms(shape: Extents, weight: np.ndarray, left: bool, turned_x: bool,
                  ) -> tuple[Terms, np.ndarray, tuple[int, ...]]:
    """Also the weights, without dimensions that broadcast, and dimensions of X that have to go."""
    more = max(weight.ndim, len(shape)) - 2
    if more + 3 > len(string.ascii_letters):
        raise Refused(f"its operands have {more + 2} dimensions; expected fewer")
    leading = string.ascii_letters[3:3 + more]
    own = leading[more - (weight.ndim - 2):]
    given = leading[more - (len(shape) - 2):] if len(shape) > 1 else ""
    kept, gone = _broadcast(dict(zip(own, weight.shape)), dict(zip(given, shape)))
    matrix = "nk" if left else "kn"
    core = "k" if len(shape) < 2 else "kt" if left != turned_x else "tk"
    result = "n" if len(shape) < 2 else "nt" if left else "tn"
    given = "".join(one for one in given if one not in gone)
    weight = weight.reshape((*(weight.shape[own.index(one)] for one in kept), *weight.shape[-2:]))
    return (Terms(given + core, kept + matrix, leading + result), weight,
            tuple(leading[more - (len(shape) - 2):].index(one) for one in gone))


def _broadcast(own: dict[str, int], given: dict[str, int | None]) -> tuple[str, str]:
    """The weights' leading dimensions without those of which X alone has more, and those of X that
    go, as the weights alone have more."""
    kept, gone = "", ""
    for one, size in own.items():
        of_x = given.get(one, 0)
        if one in given and size == 1:
            continue
        if of_x is None:
            raise Refused(f"its weights are of a batch of {size}, and the model leaves open how "
                          "many the activations are of")
        kept += one
        if of_x == 1:
            gone += one
        elif one in given and of_x != size:
            raise Refused(f"its weights are of a batch of {size}, its activations of {of_x}")
    return kept, gone


def einsum_terms(node: onnx.NodeProto, place: int, shape: Extents | None,
                 weight: np.ndarray) -> Terms:
    """Of Einsum with the weights at this place. Raises Refused."""
    given = attribute_of(node, "equation", b"")
    equation = given.decode(errors="replace").replace(" ", "")
    operands, arrow, result = equation.partition("->")
    terms = operands.split(",")
    if len(node.input) != 2 or len(terms) != 2:
        raise Refused(f"the equation {equation!r} has {len(terms)} operands; expected two")
    if shape is None:
        raise Refused("its activations have an unknown number of dimensions")
    x, w = terms[1 - place], terms[place]
    if not arrow:
        once = sorted(one for one in operands if one.isalpha() and operands.count(one) == 1)
        result = (_ELLIPSIS if _ELLIPSIS in operands else "") + "".join(once)
    letters = "".join(one for one in string.ascii_letters if one not in equation)
    more = len(shape) - len(x.replace(_ELLIPSIS, ""))
    between = letters[:more] if _ELLIPSIS in x and more > 0 else ""
    made = Terms(x.replace(_ELLIPSIS, between), w.replace(_ELLIPSIS, ""),
                 result.replace(_ELLIPSIS, between))
    if len(made.x) != len(shape) or len(made.w) != weight.ndim or \
            not all(one.isalpha() for term in made for one in term):
        raise Refused(f"the equation {equation!r} does not fit operands of {len(shape)} and "
                      f"{weight.ndim} dimensions; expected a letter for each of the weights")
    sizes = dict(zip(made.w, weight.shape))
    for one, size in zip(made.x, shape):
        if one in sizes and size != sizes[one]:
            raise Refused(f"dimension {one!r} is {sizes[one]} in the weights and "
                          f"{'not known' if size is None else size} in the activations")
    return made


# ---- Rows that are looked up ----------------------------------------------------------------


def _is_one_hot(graph: Graph, x: str) -> bool:
    """Along the last dimension."""
    seen: set[str] = set()
    while (maker := graph.maker(x)) is not None and x not in seen:
        seen.add(x)
        node = graph.nodes[maker]
        if node.op_type == "OneHot":
            shape = graph.shapes.get(x, ())
            return attribute_of(node, "axis", -1) in (-1, len(shape) - 1)
        if node.op_type not in _MOVES or not node.input:
            return False
        given, result = (graph.shapes.get(name) or (None,) for name in (node.input[0], x))
        if node.op_type not in ("Cast", "Identity") and (given[-1] is None or
                                                         given[-1] != result[-1]):
            return False
        x = node.input[0]
    return False


def refuse_one_hot(graph: Graph, x: str, weight: np.ndarray,
                   arrangement: Arrangement | None) -> None:
    """A product with vectors of one 1 and else zeros takes elements of the other operand, without
    a sum. Raises Refused. weight: [..., out, in]."""
    if (arrangement is None or not arrangement.before) and _is_one_hot(graph, x):
        raise Refused("its activations are one-hot: each result is a row of the weights, as Gather "
                      "gives it")
    if np.all(np.count_nonzero(weight, axis=-1) == 1) and weight.size and \
            np.all(weight[weight != 0] == 1):
        raise Refused("its weights are one-hot: each result is one of the activations, as Gather "
                      "gives it")
