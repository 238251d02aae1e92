"""What became faster, and why the rest did not."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Optional


LEAST_ZEROS = 0.5  # of a layer that is tried: below it no kernel is as fast as a dense library


def why_too_dense(zeros: float) -> str:
    """Why a layer with this part of zeros is not tried; "" if it is."""
    return f"less than {100 * LEAST_ZEROS:.0f} % zeros" if zeros < LEAST_ZEROS else ""


@dataclass
class Row:
    """A layer. Times are those of passes of the whole model, in which the layer is as cold as the
    others leave it, the median of the faster half of them; of a layer that is called several times
    in a pass, their sum. With an activation both times include it."""

    layer: str  # the module's or node's name; of a shared module all names
    kind: str  # "Linear", "Conv2d"; of ONNX "MatMul", "Gemm", "Conv"
    shape: tuple[int, ...]  # of the weight
    zeros: float  # part of the weight's elements, 0 to 1
    input: Optional[tuple[int, ...]] = None  # shape in the example; None: not called
    activation: str = ""  # behind it, which the kernel does, too
    kernel: str = ""  # the family; "" while there is none
    before_us: Optional[float] = None  # dense; None: not measured
    after_us: Optional[float] = None  # the kernel
    sparse: bool = False  # whether the kernel is in use
    reason: str = ""  # why it is dense; "" if it is not


@dataclass
class Report:
    """`str()` is a table. Times of the model are those of whole passes, as of rows."""

    rows: list[Row] = field(default_factory=list)
    threads: int = 1
    before_us: Optional[float] = None  # None: nothing was measured
    after_us: Optional[float] = None

    @property
    def sparse(self) -> list[Row]:
        """Layers whose kernel is in use."""
        return [row for row in self.rows if row.sparse]

    @property
    def sparse_share(self) -> float:
        """The part of the rows' weights, by elements, that kernels compute with; 0 to 1."""
        return sum(map(_elements, self.sparse)) / max(sum(map(_elements, self.rows)), 1)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2)

    def __str__(self) -> str:
        header = ("layer", "shape", "zeros", "kernel", "before us", "after us", "")
        lines = [header, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        text = "\n".join("  ".join(
            cell.rjust(width) if i in (2, 4, 5) else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines)
        return f"{text}\n{self._summary()}"

    def _summary(self) -> str:
        count = (f"{len(self.sparse)} of {len(self.rows)} layers are sparse, with "
                 f"{100 * self.sparse_share:.1f} % of the weights")
        if self.before_us is None or self.after_us is None:
            return count
        return (f"{count}; the model, cold, threads={self.threads}: {self.before_us:.0f} us "
                f"before, {self.after_us:.0f} us after")


def _elements(row: Row) -> int:
    return math.prod(row.shape) if row.shape else 0


def _cells(row: Row) -> tuple[str, ...]:
    def time(value: float | None) -> str:
        return "" if value is None else f"{value:.1f}"

    kernel = " ".join(filter(None, (row.kernel, row.activation))) if row.kernel else ""
    return (row.layer, "x".join(map(str, row.shape)), f"{100 * row.zeros:.1f} %", kernel,
            time(row.before_us), time(row.after_us), row.reason)
