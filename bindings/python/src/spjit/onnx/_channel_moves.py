"""Rules of nodes that move channels: together, apart, and to another dimension."""

from __future__ import annotations

import numpy as np
import onnx

from .._channels import Channels, Gone, tie
from .._onnx_constants import attribute_of
from .._onnx_shapes import NamedExtents
from ._channels import Edits, Rule, Scope, along, same


def transposition(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    x, order = scope.channels.get(node.input[0]), attribute_of(node, "perm", None)
    if x is None or order is None:
        return None
    rank = len(order)
    place = list(order).index(rank - 1 - x.trailing)
    return same(scope, node, node.input[0], x._replace(trailing=rank - 1 - place))


def concatenation(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    axis = attribute_of(node, "axis", None)
    tracked = [scope.channels[name] for name in node.input if name in scope.channels]
    rank = next(filter(None, map(scope.rank, (*node.input, *node.output))), None)
    if not tracked or axis is None or rank is None:
        return None
    trailing = tracked[0].trailing
    if axis % rank != rank - 1 - trailing:
        return _side_by_side(scope, node)
    parts = []  # of the output
    for name in node.input:
        channels = scope.channels.get(name)
        size = along(scope.graph.shapes.get(name), trailing)
        if channels is None and size is None or channels and channels.trailing != trailing:
            return None
        parts.append(channels or Channels.unknown(trailing, size or 0))
    ends = np.cumsum([part.size for part in parts])[:-1]
    made = Channels.of(trailing, *(np.concatenate([part[i] for part in parts]) for i in (1, 2)))

    def limit(gone: Gone) -> None:
        whole = np.split(gone[node.output[0]], ends)
        for _ in range(2):  # an input may be there twice
            for name, part in zip(node.input, whole):
                part &= gone.get(name, False)
                if name in gone:
                    gone[name] &= part

    return Rule({node.output[0]: made}, limit)


def _side_by_side(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """Joined along another dimension: channels are constant where they are the same number."""
    given = [scope.channels.get(name) for name in node.input]
    first = given[0]
    if first is None or any(one is None or (one.trailing, one.size) !=
                            (first.trailing, first.size) for one in given):
        return None
    same = np.logical_and.reduce([one.constant & (one.values == first.values)
                                  for one in given if one is not None])
    return Rule({node.output[0]: first.only(same)},
                lambda gone: tie(gone, [*node.input, node.output[0]]))


def _sizes_of_split(scope: Scope, node: onnx.NodeProto, total: int) -> list[int] | None:
    sizes = attribute_of(node, "split", None)
    if len(node.input) > 1 and node.input[1]:
        sizes = scope.graph.constant(node.input[1])
        if sizes is None:
            return None
    if sizes is None:
        each = -(-total // len(node.output))
        sizes = [each] * (len(node.output) - 1)
        sizes.append(total - sum(sizes))
    found = [int(size) for size in sizes]
    return found if sum(found) == total and min(found) > 0 and len(found) == len(node.output) \
        else None


def splitting(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    x, rank = scope.channels.get(node.input[0]), scope.rank(node.input[0])
    if x is None or rank is None or not all(node.output):
        return None
    outputs = list(node.output)
    if attribute_of(node, "axis", 0) % rank != rank - 1 - x.trailing:
        return Rule(dict.fromkeys(outputs, x), lambda gone: tie(gone, [node.input[0], *outputs]))
    sizes = _sizes_of_split(scope, node, x.size)
    if sizes is None:
        return None
    ends = np.cumsum(sizes)[:-1]
    parts = [Channels.of(x.trailing, constant, values) for constant, values in zip(
        np.split(x.constant, ends), np.split(x.values, ends))]

    def limit(gone: Gone) -> None:
        for name, part in zip(outputs, np.split(gone[node.input[0]], ends)):
            part &= gone[name]
            gone[name] = part.copy()

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> None:
        left = [int((~gone[name]).sum()) for name in node.output]
        kept = [one for one in node.attribute if one.name not in ("split", "num_outputs")]
        del node.attribute[:]
        node.attribute.extend(kept)
        del node.input[1:]
        if scope.graph.opset < 13:
            node.attribute.append(onnx.helper.make_attribute("split", left))
        else:
            node.input.append(edits.put(f"{node.output[0]} sizes", np.array(left, np.int64)))

    return Rule(dict(zip(outputs, parts)), limit, edit)


def slicing(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """Of one range of channels, forwards."""
    x, rank = scope.channels.get(node.input[0]), scope.rank(node.input[0])
    given = [scope.graph.constant(name) if name else None for name in node.input[1:]]
    if x is None or rank is None or len(given) < 2 or given[0] is None or given[1] is None or any(
            one is None for one, name in zip(given, node.input[1:]) if name):
        return None
    count = len(given[0])
    axes = list(range(count)) if len(given) < 3 or given[2] is None else [
        int(axis) % rank for axis in given[2]]
    channel = rank - 1 - x.trailing
    if channel not in axes:
        return same(scope, node, node.input[0], x)
    place = axes.index(channel)
    if axes.count(channel) > 1 or (len(given) > 3 and given[3] is not None
                                   and given[3][place] != 1):
        return None
    begin, end, _ = slice(int(given[0][place]), int(given[1][place])).indices(x.size)
    if end <= begin:
        return None
    part = slice(begin, end)

    def limit(gone: Gone) -> None:
        gone[node.output[0]] &= gone[node.input[0]][part]
        gone[node.input[0]][part] &= gone[node.output[0]]

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> None:
        keep = ~gone[node.input[0]]
        first = int(keep[:begin].sum())
        for i, bound in ((1, first), (2, first + int(keep[part].sum()))):
            bounds = np.array(given[i - 1])
            bounds[place] = bound
            node.input[i] = edits.put(f"{node.output[0]} bounds", bounds)

    return Rule({node.output[0]: Channels.of(x.trailing, x.constant[part], x.values[part])}, limit,
                edit)


def gathering(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """Of a list of channels."""
    x, rank = scope.channels.get(node.input[0]), scope.rank(node.input[0])
    places = scope.graph.constant(node.input[1])
    if x is None or rank is None or places is None or places.ndim != 1 or places.size == 0 or \
            attribute_of(node, "axis", 0) % rank != rank - 1 - x.trailing:
        return None
    index = places.astype(np.int64) % x.size

    def limit(gone: Gone) -> None:
        gone[node.input[0]][index[~gone[node.output[0]]]] = False

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> None:
        place = np.cumsum(~gone[node.input[0]]) - 1
        node.input[1] = edits.put(f"{node.output[0]} places", place[index[~gone[node.output[0]]]])

    return Rule({node.output[0]: Channels.of(x.trailing, x.constant[index], x.values[index])},
                limit, edit)


# ---- Shapes ---------------------------------------------------------------------------------


def _product(sizes: NamedExtents) -> int | None:
    total = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        total *= size
    return total


def _whole_axis(given: NamedExtents, made: NamedExtents,
                trailing: int) -> tuple[int, int] | None:
    """Where the channels are in the new shape, and how many elements of it each has become: one, or
    where what is behind them is flattened into them as many as that."""
    channel = len(given) - 1 - trailing
    count, behind = given[channel], _product(given[channel + 1:])
    for place, size in enumerate(made):
        is_same_before = given[:channel] == made[:place] and None not in made[:place]
        after = _product(made[place + 1:])
        if size == count and (is_same_before or (after is not None and after == behind)):
            return place, 1
    if isinstance(count, int) and behind is not None and made and made[-1] == count * behind:
        return len(made) - 1, behind
    return None


def _new_shape(scope: Scope, node: onnx.NodeProto) -> tuple[NamedExtents, np.ndarray | None] | None:
    """As far as it is known, and what a Reshape says."""
    made = scope.graph.extents.get(node.output[0])
    if node.op_type == "Squeeze" and len(node.input) < 2 and not attribute_of(node, "axes", ()):
        return None  # which dimensions go depends on their sizes
    if node.op_type != "Reshape":
        return None if made is None else (made, None)
    sizes = scope.graph.constant(node.input[1])
    if sizes is None or attribute_of(node, "allowzero", 0):
        return None
    given = scope.graph.extents[node.input[0]]
    known = made if made is not None and len(made) == len(sizes) else (None,) * len(sizes)
    return tuple(given[i] if size == 0 and i < len(given) else int(size) if size > 0 else found
                 for i, (size, found) in enumerate(zip(sizes, known))), sizes


def reshaping(scope: Scope, node: onnx.NodeProto) -> Rule | None:
    """To a shape that has the channels along one dimension."""
    source, output = node.input[0], node.output[0]
    x, given = scope.channels.get(source), scope.graph.extents.get(source)
    if x is None or given is None or len(given) <= x.trailing or given[-1 - x.trailing] != x.size:
        return None
    new = _new_shape(scope, node)
    found = None if new is None else _whole_axis(given, new[0], x.trailing)
    if new is None or found is None:
        return None
    (made, sizes), (place, each) = new, found
    channel = len(given) - 1 - x.trailing
    if sizes is not None and any(size == 0 and (i == channel) != (i == place and each == 1)
                                 for i, size in enumerate(sizes)):
        return None  # a size of the input's that is not the same dimension's

    def limit(gone: Gone) -> None:
        both = gone[source] & gone[output].reshape(x.size, each).all(axis=1)
        gone[source] = both
        gone[output] = np.repeat(both, each)

    def edit(node: onnx.NodeProto, gone: Gone, edits: Edits) -> None:
        if sizes is not None and sizes[place] > 0:
            changed = np.array(sizes)
            changed[place] = int((~gone[output]).sum())
            node.input[1] = edits.put(f"{output} shape", changed)

    return Rule({output: Channels.of(len(made) - 1 - place, np.repeat(x.constant, each),
                                     np.repeat(x.values, each))}, limit, edit)


MOVES = {
    "Transpose": transposition, "Concat": concatenation, "Split": splitting, "Slice": slicing,
    "Gather": gathering, "Reshape": reshaping, "Flatten": reshaping, "Squeeze": reshaping,
    "Unsqueeze": reshaping,
}
