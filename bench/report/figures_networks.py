"""Figures of whole networks: how long a pass takes, by n."""

from __future__ import annotations

from .document import Figure
from .figures_speed import Peers
from .model import SUBJECT, Case
from .svg import (LEFT, OWN, RIGHT, WIDTH, Axis, Box, Legend, Plot, curve, frame, log_range, mark,
                  text)
from .text import significant

# Of a network's panel.
HEIGHT = 116.0
TITLE = 18.0
BELOW = 26.0
BETWEEN = 12.0
# Labels of n that have room: in a panel beside another, in one alone.
LABELS_BESIDE, LABELS_ALONE = 5, 10

# (series, library)
Lines = list[tuple[int, str]]


def family_of(network: str) -> str:
    """What networks that differ in sparsity have in common: "minilm" of "minilm-80"."""
    return network.split("-")[0]


def families(cases: list[Case]) -> dict[str, dict[str, list[Case]]]:
    """Family -> network -> its cases by n."""
    found: dict[str, dict[str, list[Case]]] = {}
    for case in sorted(cases, key=lambda case: (case.matrix, case.n)):
        found.setdefault(family_of(case.matrix), {}).setdefault(case.matrix, []).append(case)
    return found


def milliseconds(case: Case, library: str) -> float | None:
    timing = case.timings.get(library)
    return timing.median_us / 1e3 if timing else None


def panel(box: Box, cases: list[Case], lines: Lines, y: Axis, x: Axis) -> Plot:
    """A network: a line a library."""
    plot = Plot(x, y, box)
    for series, library in lines:
        points = [(plot.x(case.n), plot.y(ms)) for case in cases
                  if (ms := milliseconds(case, library)) is not None]
        plot.parts.append(curve(points, series))
        plot.parts += [mark(px, py, series, 0.6) for px, py in points]
    plot.base()
    plot.parts.append(text(box.left, box.top - 5, cases[0].matrix, "small bold"))
    return plot


def panel_boxes(count: int, top: float) -> list[Box]:
    """Two in a row, one alone."""
    columns = min(count, 2)
    width = (WIDTH - LEFT - RIGHT - BETWEEN * (columns - 1)) / columns
    boxes = []
    for index in range(count):
        left = LEFT + index % columns * (width + BETWEEN)
        above = top + index // columns * (TITLE + HEIGHT + BELOW)
        boxes.append(Box(left, above, left + width, above + HEIGHT))
    return boxes


def n_labels(plot: Plot, widths: list[int], most: int) -> None:
    step = -(-len(widths) // most)
    for n in widths[::step]:
        plot.x_label(plot.x(n), str(n), True)


def describe(networks: dict[str, list[Case]]) -> str:
    ends = [f"{network}: {significant(first, 3)} at n = {cases[0].n}, "
            f"{significant(last, 3)} at n = {cases[-1].n}"
            for network, cases in networks.items()
            if (first := milliseconds(cases[0], SUBJECT)) and
            (last := milliseconds(cases[-1], SUBJECT))]
    return f"Milliseconds a pass over n, both logarithmic. {SUBJECT}: {'; '.join(ends)}."


def passes_by_n(id: str, title: str, networks: dict[str, list[Case]], peers: Peers) -> Figure:
    """A panel a network, all on the same axes: the time of a pass of spjit and of each peer."""
    lines: Lines = [*peers, (OWN, SUBJECT)]
    cases = [case for group in networks.values() for case in group]
    widths = sorted({case.n for case in cases})
    times = [ms for case in cases for _, library in lines
             if (ms := milliseconds(case, library)) is not None]
    legend = Legend([(OWN, SUBJECT), *peers])
    boxes = panel_boxes(len(networks), frame(legend, 0).top + TITLE)
    parts = [legend.draw(0), text(4, boxes[0].top - TITLE - 4, "ms a pass", "soft")]
    for box, group in zip(boxes, networks.values(), strict=True):
        plot = panel(box, group, lines, Axis(*log_range(times), box.bottom, box.top, True),
                     Axis(*log_range(widths), box.left, box.right, True))
        ticks = Plot(plot.x, plot.y, box)
        n_labels(ticks, widths, LABELS_BESIDE if len(boxes) > 1 else LABELS_ALONE)
        ticks.y_ticks(5, box.left == LEFT)
        parts += [*ticks.parts, *plot.parts]
    bottom = boxes[-1].bottom
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 32, "columns of B, n", "mid soft"))
    return Figure(id, title, describe(networks), "".join(parts), WIDTH, bottom + 44,
                  "All layers one after another; lower is faster.")
