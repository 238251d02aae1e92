"""Parts of weights, as tensors of their own that stay the same while the weight's memory does: what
is known of a tensor by its identity is known of them, too. A part counts the weight's changes."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import torch
from torch import Tensor


class Part(NamedTuple):
    """Rows of a weight, or of its transpose."""

    begin: int
    end: int
    transposed: bool = False

    def of(self, weight: Tensor) -> Tensor:
        """With a graph, as anything else that torch computes."""
        rows = weight.t() if self.transposed else weight
        return rows if (self.begin, self.end) == (0, len(rows)) else rows[self.begin:self.end]


class _Views:
    """Of one weight."""

    def __init__(self, weight: Tensor) -> None:
        identity = id(weight)
        self._weight = weakref.ref(weight, lambda _: _all.pop(identity, None))
        self._memory = weight.data_ptr(), weight.dtype, weight.shape, weight.stride()
        self.made: dict[Part, Tensor] = {}

    def is_of(self, weight: Tensor) -> bool:
        return self._weight() is weight

    def has_memory_of(self, weight: Tensor) -> bool:
        return self._memory == (weight.data_ptr(), weight.dtype, weight.shape, weight.stride())


_all: dict[int, _Views] = {}  # by id() of the weight


def view_of(weight: Tensor, part: Part) -> Tensor:
    """The same tensor as before, unless the weight's memory is another since. Without gradients."""
    known = _all.get(id(weight))
    if known is None or not known.is_of(weight) or not known.has_memory_of(weight):
        known = _all[id(weight)] = _Views(weight)
    view = known.made.get(part)
    if view is None:
        with torch.inference_mode(False):  # where views count no changes
            whole = part == Part(0, len(weight))
            view = known.made[part] = weight if whole else part.of(weight.detach())
    return view


def views_of(weight: Tensor) -> list[Tensor]:
    """All that were made and are not the weight itself."""
    known = _all.get(id(weight))
    if known is None or not known.is_of(weight):
        return []
    return [view for view in known.made.values() if view is not weight]


def drop_views(weight: Tensor) -> list[Tensor]:
    """Lets go of them, and tells which they were."""
    views = views_of(weight)
    known = _all.get(id(weight))
    if known is not None and known.is_of(weight):
        del _all[id(weight)]
    return views
