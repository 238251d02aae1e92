"""Channels of a network's values: which are the same number in every run, and which may go. What a
layer makes of them, whether it is a node of an ONNX model or a module of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_LARGEST = float(np.finfo(np.float32).max)
# Channels of an image that convolutions of ONNX Runtime and torch compute side by side with
# AVX-512, where channels are a multiple; twice those with AVX2.
_BLOCK = 16


class Channels(NamedTuple):
    """Those of a value, all along one dimension."""

    trailing: int  # dimensions behind that of the channels
    constant: np.ndarray  # bool [channels]: each element is the same number, in every run
    values: np.ndarray  # fp32 [channels]: that number; of others 0

    @property
    def size(self) -> int:
        return len(self.constant)

    @property
    def column(self) -> np.ndarray:
        """`values` as an operand [1, channels, 1...]."""
        return self.values.reshape(1, -1, *(1,) * self.trailing)

    @classmethod
    def of(cls, trailing: int, constant: np.ndarray, values: np.ndarray) -> Channels:
        known = constant & np.isfinite(values)
        return cls(trailing, known, np.where(known, values, 0).astype(np.float32))

    @classmethod
    def unknown(cls, trailing: int, size: int) -> Channels:
        return cls(trailing, np.zeros(size, bool), np.zeros(size, np.float32))

    def only(self, constant: np.ndarray | bool) -> Channels:
        """Of which these alone are constant."""
        return Channels.of(self.trailing, self.constant & constant, self.values)

    def computed(self, constant: np.ndarray,
                 compute: Callable[[], np.ndarray | None]) -> Channels:
        """Channels like these behind what acts on each by itself, and gives fp32 for the constants;
        None, or another size or type, says that it does something else."""
        values = compute() if constant.any() else None
        if values is None or values.size != self.size or values.dtype != np.float32:
            return self.only(False)
        return Channels.of(self.trailing, constant, values.reshape(-1))


Gone = dict[str, np.ndarray]  # by value: bool [channels]: those that go


def tie(gone: Gone, names: Iterable[str]) -> None:
    """Of these values the same channels go."""
    names = list(names)
    both = np.logical_and.reduce([gone[name] for name in names])
    for name in names:
        gone[name] = both.copy()


def keep_all(gone: Gone, names: Iterable[str]) -> None:
    for name in names:
        if name in gone:
            gone[name][:] = False


def settle(gone: Gone, channels: Mapping[str, Channels],
           limits: Sequence[Callable[[Gone], None]]) -> None:
    """Takes out of `gone` what has to stay: what a limit keeps, from the last to the first one, and
    as many of each value as are in use."""
    order = list(reversed(limits))
    while True:
        before = _count(gone)
        for limit in order:
            limit(gone)
        order.reverse()
        if _count(gone) == before and not _keep_some(gone, channels):
            return


def _count(gone: Gone) -> int:
    return sum(int(one.sum()) for one in gone.values())


def _keep_some(gone: Gone, channels: Mapping[str, Channels]) -> bool:
    """Whether that are more. A dimension of no element is another case for many operators, and
    images of whole blocks of channels are faster."""
    has_changed = False
    for name, one in gone.items():
        left = max(int((~one).sum()), 1)
        if channels[name].trailing and one.size % _BLOCK == 0:
            left += -left % _BLOCK
        more = np.flatnonzero(one)[:left - int((~one).sum())]
        one[more] = False
        has_changed |= more.size > 0
    return has_changed


class Cut(NamedTuple):
    """What goes of a layer."""

    shape: tuple[int, ...]  # of its weight before
    rows: int
    columns: int
    weights: int  # elements, zeros included
    folded: int  # columns whose constant, not 0, became part of the bias


@dataclass(eq=False)
class ChannelLayer:
    """A product or convolution with a constant weight. Rows without entries give constants, and
    columns without entries read nothing."""

    weight: np.ndarray  # fp32 [out, in, all taps]
    shape: tuple[int, ...]  # of the same, [out, in, taps...]
    trailing: int
    bias: np.ndarray | None  # [out]; None: there is none, or another than a constant
    takes_bias: bool  # a constant can be added to the bias as it is
    is_bordered: bool  # outputs at borders see zeros in place of inputs

    def __post_init__(self) -> None:
        taps = self.weight.shape[2]
        self.entries = np.asarray(
            self.weight[:, :, 0] != 0 if taps == 1 else self.weight.any(axis=2))

    def matches(self, x: Channels | None) -> bool:
        return x is not None and (x.trailing, x.size) == (self.trailing, self.entries.shape[1])

    def foldable(self, x: Channels | None) -> np.ndarray:
        """Inputs whose constants may become part of the bias."""
        if x is None:
            return np.zeros(self.entries.shape[1], bool)
        if not x.values.any():
            return x.constant
        total = np.abs(self.weight).sum(axis=2, dtype=np.float64) @ np.abs(
            x.values.astype(np.float64))
        if self.bias is not None:
            total += np.abs(self.bias)
        can_fold = self.takes_bias and not self.is_bordered and bool(np.all(total <= _LARGEST))
        return np.asarray(x.constant & ((x.values == 0) | can_fold))

    def folded(self, x: Channels | None, columns: np.ndarray) -> np.ndarray:
        """What these columns add to each row, fp64."""
        values = np.zeros(0) if x is None else np.where(columns, x.values, 0).astype(np.float64)
        if not values.any():
            return np.zeros(len(self.weight))
        return np.asarray(self.weight.sum(axis=2, dtype=np.float64) @ values)

    def made(self, x: Channels | None, foldable: np.ndarray, *, has_residual: bool = False
             ) -> Channels:
        """Of the output."""
        rows = len(self.entries)
        bias = np.zeros(rows, np.float32) if self.bias is None else self.bias
        constant = ~self.entries[:, ~foldable].any(axis=1)
        if has_residual or (self.bias is None and not self.takes_bias):
            constant = np.zeros(rows, bool)
        return Channels.of(self.trailing, constant,
                           (bias + self.folded(x, foldable)).astype(np.float32))

    def goable(self, foldable: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Inputs that may go, where these rows go: constants, and what no other row reads."""
        return np.asarray(foldable | ~self.entries[~rows].any(axis=0))

    def shifted_bias(self, shift: np.ndarray) -> np.ndarray:
        """With what is added to it, of all rows."""
        bias = np.zeros(len(self.weight), np.float32) if self.bias is None else self.bias
        return bias if not np.any(shift) else (bias + shift).astype(np.float32)

    def cut(self, x: Channels | None, rows: np.ndarray, columns: np.ndarray) -> Cut:
        """Where these are kept."""
        used = self.entries[rows].any(axis=0)
        folds = 0 if x is None else int(np.count_nonzero(~columns & used & (x.values != 0)))
        taps = self.weight.shape[2]
        return Cut(self.shape, int((~rows).sum()), int((~columns).sum()),
                   taps * (self.entries.size - int(rows.sum()) * int(columns.sum())), folds)
