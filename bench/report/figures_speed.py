"""Figures of speed-ups: by sparsity, by shape, their distribution."""

from __future__ import annotations

from .document import Figure
from .model import Case
from .stats import geometric_mean, grouped, level_of, levels_of, speedups
from .svg import (LEFT, LINE, RIGHT, WIDTH, Axis, Box, Legend, Plot, dot, frame, line, log_range,
                  mark, curve, text)
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


def by_sparsity(id: str, title: str, cases: list[Case], peers: Peers) -> Figure:
    """A dot a case, a mark for the geometric mean; marks of one peer are joined."""
    levels = levels_of(cases)
    legend = Legend(peers)
    box = frame(legend, 210)
    step = (box.right - box.left) / len(levels)
    plot = Plot(Axis(0, len(levels), box.left, box.right),
                Axis(*log_range(all_ratios(cases, peers), 1), box.bottom, box.top, True), box)
    plot.y_ticks()
    for index, level in enumerate(levels):
        at = plot.x(index + 0.5)
        label = level.label.removesuffix(" %") if len(levels) > 5 else level.label
        # Intervals have long labels: every second one lower, where there are many.
        low = 12 if len(levels) > 6 and index % 2 else 0
        plot.parts.append(text(at, box.bottom + 15 + low, label, "mid small"))
    for place, (series, peer) in enumerate(peers):
        shift = (place + 0.5) / len(peers) * 0.7 - 0.35
        means = []
        for index, level in enumerate(levels):
            ratios = [v for case, v in speedups(cases, peer) if level_of(case.sparsity) == level]
            x = plot.x(index + 0.5) + shift * step
            plot.parts += [dot(x, plot.y(value), series) for value in ratios]
            if ratios:
                means.append((x, plot.y(geometric_mean(ratios))))
        plot.parts.append(curve(means, series))
        plot.parts += [mark(x, y, series) for x, y in means]
    plot.parts.append(line(box.left, plot.y(1), box.right, plot.y(1), "one"))
    plot.base()
    low = 12 if len(levels) > 6 else 0
    plot.parts.append(text((box.left + box.right) / 2, box.bottom + 32 + low,
                           "sparsity of A [%]", "mid soft"))
    plot.parts.append(text(4, box.top - 8, "times as fast as", "soft"))
    return Figure(id, title, f"{SPEEDUP}, by sparsity. {describe_means(cases, peers)}",
                  legend.draw(0) + "".join(plot.parts), WIDTH, box.bottom + 44 + low,
                  "A dot is a case, a mark the geometric mean of a sparsity; the axis is "
                  "logarithmic and the dashed line is even.")


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
    left = 6 + max(6.2 * len(name) for name in names.values())
    top = legend.height + 22
    box = Box(max(left, LEFT), top, WIDTH - RIGHT, top + LINE * len(groups))
    means = {(key, peer): geometric_mean(values) for key, group in groups.items() for _, peer in peers
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
        plot.parts += [mark(plot.x(means[key, peer]), y, series)
                       for series, peer in peers if (key, peer) in means]
    plot.parts.append(line(plot.x(1), box.top, plot.x(1), box.bottom, "one"))
    plot.parts.append(text((box.left + box.right) / 2, box.bottom + 32, "times as fast as",
                           "mid soft"))
    return Figure(id, title, f"{SPEEDUP}, by shape: rows x columns of A and columns n of B. "
                  f"{describe_means(cases, peers)}", legend.draw(0) + "".join(plot.parts), WIDTH,
                  box.bottom + 40, "Geometric means over the matrices of a shape; rows x columns "
                  "of A, n columns of B.")
