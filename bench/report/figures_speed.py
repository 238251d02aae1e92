"""Figures of speed-ups: by sparsity, by n, by shape, their
distribution."""

from __future__ import annotations

from dataclasses import dataclass

from .document import Figure
from .model import Case
from .stats import geometric_mean, grouped, level_of, levels_of, speedups
from .svg import (LEFT, LINE, RIGHT, WIDTH, Axis, Box, Legend, Plot, curve, dot, frame, line,
                  log_range, mark, text, text_width)
from .text import ratio

SPEEDUP = "spjit is this many times as fast (1 = as fast as the peer)"


# A peer has the same series in every figure of a report.
Peers = list[tuple[int, str]]


def peers_with_speedups(cases: list[Case], peers: Peers) -> Peers:
    return [(series, peer) for series, peer in peers if speedups(cases, peer)]


def all_ratios(cases: list[Case], peers: Peers) -> list[float]:
    return [value for _, peer in peers for _, value in speedups(cases, peer)]


def describe_means(cases: list[Case], peers: Peers) -> str:
    means = [f"{ratio(geometric_mean(v for _, v in speedups(cases, peer)))} {peer}"
             for _, peer in peers]
    return "Geometric means over all cases shown: " + ", ".join(means) + "."


Groups = list[tuple[str, list[Case]]]

# More peers than this get smaller marks.
FEW_PEERS = 4


def by_level(cases: list[Case]) -> Groups:
    return [(level.label, [c for c in cases if level_of(c.sparsity) == level])
            for level in levels_of(cases)]


def by_columns(cases: list[Case]) -> Groups:
    return [(str(n), group) for (n,), group in grouped(cases, lambda c: (c.n,)).items()]


@dataclass(frozen=True)
class RatioFigure:
    """What a figure of ratios by group is called and says."""

    id: str
    title: str
    axis: str  # of the groups
    ratio: str  # what the ratios are
    description: str


# Label -> of each series its ratios.
RatioGroups = list[tuple[str, list[list[float]]]]


def group_labels(plot: Plot, labels: list[str]) -> float:
    """Where there are many, every second one stands lower; returns by how much."""
    low = 12.0 if len(labels) > 6 else 0.0
    for index, label in enumerate(labels):
        short = label.removesuffix(" %") if len(labels) > 4 else label
        plot.parts.append(text(plot.x(index + 0.5), plot.box.bottom + 15 + low * (index % 2), short,
                               "mid small"))
    return low


def ratios_by_group(what: RatioFigure, groups: RatioGroups, series: Peers) -> Figure:
    """A dot a ratio, a mark for the geometric mean of a group; marks of one series are joined."""
    legend = Legend(series)
    box = frame(legend, 210)
    everything = [value for _, ratios in groups for values in ratios for value in values]
    plot = Plot(Axis(0, len(groups), box.left, box.right),
                Axis(*log_range(everything, 1), box.bottom, box.top, True), box)
    plot.y_ticks()
    low = group_labels(plot, [label for label, _ in groups])
    step = (box.right - box.left) / len(groups)
    marks = []
    for place, (number, _) in enumerate(series):
        shift = ((place + 0.5) / len(series) - 0.5) * 0.75 * step
        means = []
        for index, (_, ratios) in enumerate(groups):
            x = plot.x(index + 0.5) + shift
            plot.parts += [dot(x, plot.y(value), number) for value in ratios[place]]
            if ratios[place]:
                means.append((x, plot.y(geometric_mean(ratios[place]))))
        plot.parts.append(curve(means, number))
        marks += [mark(x, y, number, 1 if len(series) <= FEW_PEERS else 0.75) for x, y in means]
    plot.parts += [*marks, line(box.left, plot.y(1), box.right, plot.y(1), "one"),
                   text((box.left + box.right) / 2, box.bottom + 32 + low, what.axis, "mid soft"),
                   text(4, box.top - 8, what.ratio, "soft")]
    plot.base()
    return Figure(what.id, what.title, what.description, legend.draw(0) + "".join(plot.parts),
                  WIDTH, box.bottom + 44 + low,
                  "A dot is a case, a mark a geometric mean; the axis is logarithmic and the "
                  "dashed line is even.")


def by_group(id: str, title: str, axis: str, groups: Groups, peers: Peers) -> Figure:
    cases = [case for _, group in groups for case in group]
    ratios = [(label, [[value for _, value in speedups(group, peer)] for _, peer in peers])
              for label, group in groups]
    description = f"{SPEEDUP}, by {axis}. {describe_means(cases, peers)}"
    return ratios_by_group(RatioFigure(id, title, axis, "times as fast as", description), ratios,
                           peers)


def by_sparsity(id: str, title: str, cases: list[Case], peers: Peers) -> Figure:
    return by_group(id, title, "sparsity of A [%]", by_level(cases), peers)


def distribution(id: str, title: str, cases: list[Case], peers: Peers) -> Figure:
    """Share of cases with at most a speed-up."""
    legend = Legend(peers)
    box = frame(legend, 190)
    plot = Plot(Axis(*log_range(all_ratios(cases, peers), 1), box.left, box.right, True),
                Axis(0, 100, box.bottom, box.top), box)
    plot.x_ticks()
    plot.y_ticks(6)
    plot.parts.append(line(plot.x(1), box.top, plot.x(1), box.bottom, "one"))
    for series, peer in peers:
        ratios = sorted(v for _, v in speedups(cases, peer))
        points = [(plot.x(ratios[0]), plot.y(0))]
        for rank, value in enumerate(ratios, 1):
            points.append((plot.x(value), points[-1][1]))
            points.append((plot.x(value), plot.y(100 * rank / len(ratios))))
        plot.parts.append(curve(points, series))
        x, y = points[len(points) // 2]
        plot.parts.append(mark(x, y, series))
    plot.base()
    plot.titles("at most this many times as fast", "share of cases [%]")
    return Figure(id, title, f"{SPEEDUP}, as a cumulative distribution. "
                  f"{describe_means(cases, peers)}", legend.draw(0) + "".join(plot.parts), WIDTH,
                  box.bottom + 44, "Left of the dashed line the peer is faster; the mark is the "
                  "median.")


def shape_of(case: Case) -> tuple[int, int, int]:
    return case.rows, case.cols, case.n


def by_shape(id: str, title: str, cases: list[Case], peers: Peers) -> Figure:
    """A row a shape: the geometric mean over its sparsities, one mark a peer."""
    groups = grouped(cases, shape_of)
    legend = Legend(peers)
    names = {key: f"{key[0]}x{key[1]} n={key[2]}" for key in groups}
    left = 8 + max(text_width(name) for name in names.values())
    top = legend.height + 22
    box = Box(max(left, LEFT), top, WIDTH - RIGHT, top + LINE * len(groups))
    means = {(key, peer): geometric_mean(values) for key, group in groups.items()
             for _, peer in peers
             if (values := [v for _, v in speedups(group, peer)])}
    plot = Plot(Axis(*log_range(list(means.values()), 1), box.left, box.right, True),
                Axis(0, len(groups), box.top, box.bottom), box)
    plot.x_ticks(6)
    for value in plot.x.ticks(6):
        plot.parts.append(text(plot.x(value), top - 5, f"{value:g}", "mid"))
    for index, (key, name) in enumerate(names.items()):
        y = plot.y(index + 0.5)
        plot.parts.append(text(box.left - 5, y + 4, name, "end small"))
        plot.parts.append(line(box.left, y, box.right, y, "grid"))
        plot.parts += [mark(plot.x(means[key, peer]), y, series, 0.85)
                       for series, peer in peers if (key, peer) in means]
    plot.parts.append(line(plot.x(1), box.top, plot.x(1), box.bottom, "one"))
    plot.parts.append(text((box.left + box.right) / 2, box.bottom + 32, "times as fast as",
                           "mid soft"))
    return Figure(id, title, f"{SPEEDUP}, by shape: rows x columns of A and columns n of B. "
                  f"{describe_means(cases, peers)}", legend.draw(0) + "".join(plot.parts), WIDTH,
                  box.bottom + 40, "Geometric means over the matrices of a shape; rows x columns "
                  "of A, n columns of B.")
