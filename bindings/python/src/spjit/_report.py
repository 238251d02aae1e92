"""What became faster, and why the rest did not."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Optional


LEAST_ZEROS = 0.5  # of a layer that is tried: below it no kernel is as fast as a dense library

# Of a convolution each of whose groups has one channel.
DEPTHWISE = "it is depthwise: a filter has the taps of one channel, too few for a sparse kernel"


def why_too_dense(zeros: float) -> str:
    """Why a layer with this part of zeros is not tried; "" if it is."""
    return f"less than {100 * LEAST_ZEROS:.0f} % zeros" if zeros < LEAST_ZEROS else ""


@dataclass
class Row:
    """A layer. Times are measured in passes of the whole model, in which the layer is as cold as
    the others leave it; on a GPU by events. A time is the median of the faster half of passes. It
    is the sum of all calls of the layer in a pass. With an activation both times include it."""

    layer: str  # the module's or node's name; of a shared module all names
    kind: str  # the module's class, "Linear"; of ONNX the operator, "MatMul"
    shape: tuple[int, ...]  # of the weight
    zeros: float  # part of the weight's elements, 0 to 1
    input: Optional[tuple[int, ...]] = None  # shape in the example; None: not called
    activation: str = ""  # behind it, which the kernel does, too
    kernel: str = ""  # the family; "" while there is none
    before_us: Optional[float] = None  # dense; None: not measured
    after_us: Optional[float] = None  # the kernel
    types: str = ""  # of weights, inputs and outputs: "i8,u8,f32"; "": all are f32
    sparse: bool = False  # whether the kernel is in use
    reason: str = ""  # why it is dense; "" if it is not
    released: bool = False  # whether its dense weight's memory was freed
    dense_stays: str = ""  # why it was not, if the layer is sparse and it was to be


@dataclass
class Memory:
    """Bytes before and after `release_dense`. Those of weights are counted: each memory of
    parameters and buffers once. Those of the process are measured, and None where there is no
    /proc/self/status."""

    weights_before: int  # all are dense
    dense_after: int
    bitmasks: int  # what stays of those that were freed: a bit for each weight, and nonzeros
    kernels: int  # of sparse layers
    process_before: Optional[int]  # VmRSS
    process_after: Optional[int]
    process_peak: Optional[int]  # VmHWM: the most since the process began

    @property
    def weights_after(self) -> int:
        return self.dense_after + self.bitmasks + self.kernels

    def __str__(self) -> str:
        text = (f"weights: {_mb(self.weights_before)} dense before; after "
                f"{_mb(self.weights_after)}: {_mb(self.dense_after)} dense, "
                f"{_mb(self.bitmasks)} bitmasks, {_mb(self.kernels)} kernels (counted)")
        measured = (self.process_before, self.process_after, self.process_peak)
        if None in measured:
            return text
        before, after, peak = map(_mb, measured)  # type: ignore[arg-type]
        return (f"{text}\nprocess: {before} before, {after} after (VmRSS); at its peak {peak} "
                "(VmHWM)")


@dataclass
class Removed:
    """What exact passes took out of a layer (docs/use/onnx.md, docs/use/torch.md)."""

    layer: str
    shape: tuple[int, ...]  # of its weight before
    rows: int  # outputs that are constant, or that nothing reads
    columns: int  # inputs that are constant, or that have no entries
    folded: int  # columns whose constant, not 0, is part of the bias
    flops: int  # of the example, dense: 2 for each weight and token or pixel
    bytes: int  # of weights and outputs, dense


@dataclass
class Report:
    """`str()` is a table. Times of the model are those of whole passes, as of rows."""

    rows: list[Row] = field(default_factory=list)
    threads: int = 1
    before_us: Optional[float] = None  # None: nothing was measured
    after_us: Optional[float] = None
    # By layer: calls of sparse layers that ran dense since then. Of spjit.torch.
    dense_calls: dict[str, int] = field(default_factory=dict)
    removed: list[Removed] = field(default_factory=list)
    memory: Optional[Memory] = None  # of `release_dense`
    gpus: str = ""  # that the model is on: "cuda:0 (NVIDIA H100)"; "": the CPU alone

    @property
    def sparse(self) -> list[Row]:
        """Layers whose kernel is in use."""
        return [row for row in self.rows if row.sparse]

    @property
    def sparse_share(self) -> float:
        """The part of all weights in `rows`, zeros included, that those layers have; 0 to 1."""
        return _weights(self.sparse) / max(_weights(self.rows), 1)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2)

    def __str__(self) -> str:
        header = ("layer", "shape", "zeros", "kernel", "before us", "after us", "")
        text = _table([header, *(_cells(row) for row in self.rows)], (2, 4, 5))
        if self.removed:
            text += f"\n{_removed_table(self.removed)}"
        return f"{text}\n{self._summary()}"

    def _summary(self) -> str:
        text = (f"{len(self.sparse)} of {len(self.rows)} layers are sparse, "
                f"{100 * self.sparse_share:.1f} % of the model's weights")
        if self.before_us is not None and self.after_us is not None:
            place = self.gpus or f"threads={self.threads}"
            text += (f"; the model, cold, {place}: {self.before_us:.0f} us before, "
                     f"{self.after_us:.0f} us after")
        if self.dense_calls:
            text += (f"\n{sum(self.dense_calls.values())} calls of {len(self.dense_calls)} sparse "
                     "layers ran dense since")
        return text if self.memory is None else f"{text}\n{self.memory}"


def _weights(rows: list[Row]) -> int:
    return sum(math.prod(row.shape) for row in rows if row.shape)


def _table(lines: list[tuple[str, ...]], numbers: tuple[int, ...]) -> str:
    """Columns of these numbers are aligned at the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(
        cell.rjust(width) if i in numbers else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


def _removed_table(removed: list[Removed]) -> str:
    header = ("removed from", "shape", "rows", "columns", "folded", "flops", "bytes")
    numbers = [(one.rows, one.columns, one.folded, one.flops, one.bytes) for one in removed]
    total = (f"{len(removed)} layers", "", *(str(sum(each)) for each in zip(*numbers)))
    return _table([header, *((one.layer, "x".join(map(str, one.shape)), *map(str, each))
                             for one, each in zip(removed, numbers)), total], (2, 3, 4, 5, 6))


def _cells(row: Row) -> tuple[str, ...]:
    def time(value: float | None) -> str:
        return "" if value is None else f"{value:.1f}"

    kernel = " ".join(filter(None, (row.kernel, row.types, row.activation))) if row.kernel else ""
    return (row.layer, "x".join(map(str, row.shape)), f"{100 * row.zeros:.1f} %", kernel,
            time(row.before_us), time(row.after_us), row.reason or _of_memory(row))


def _of_memory(row: Row) -> str:
    """What became of the dense weight of a sparse layer, if it was to be freed."""
    if row.released:
        return "its dense weight is released"
    return f"its dense weight stays: {row.dense_stays}" if row.dense_stays else ""


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
