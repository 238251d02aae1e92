"""Figures of what searching and compiling cost, and the roofline."""

from __future__ import annotations

import math
from collections.abc import Callable

from .document import Figure
from .model import Case, Roofline, Scaling, ScalingPoint, SearchCost
from .svg import LINE, WIDTH, Axis, Legend, Plot, curve, dot, frame, line, log_range, mark, text
from .text import significant


def by_kernel(id: str, title: str, cost: SearchCost, ways: list[str], order: str) -> Figure:
    """Seconds of every way, kernels in ascending order of `order` (the paper's figure 11)."""
    seconds = {(row.kernel, row.way): row for row in cost.rows if row.seconds > 0}
    kernels = sorted((key for key, way in seconds if way == order),
                     key=lambda key: seconds[key, order].seconds)
    legend = Legend(list(enumerate(ways)))
    box = frame(legend, 200)
    shown = [seconds[key, way].seconds for key in kernels for way in ways if (key, way) in seconds]
    plot = Plot(Axis(0.5, len(kernels) + 0.5, box.left, box.right),
                Axis(*log_range(shown), box.bottom, box.top, True), box)
    plot.y_ticks()
    plot.x_ticks(6, False)
    for series, way in enumerate(ways):
        points = [(plot.x(i), plot.y(seconds[key, way].seconds))
                  for i, key in enumerate(kernels, 1) if (key, way) in seconds]
        plot.parts.append(curve(points, series))
        plot.parts += [mark(x, y, series) for x, y in points[::max(1, len(points) // 8)]]
    plot.base()
    plot.titles(f"kernel, in order of {order}", "seconds to search")
    return Figure(id, title, "Seconds that each way to search took for each kernel, on a "
                  f"logarithmic axis, in ascending order of {order}.",
                  legend.draw(0) + "".join(plot.parts), WIDTH, box.bottom + 44,
                  "Searches that were stopped at a limit are shown at the limit.")


Quantity = Callable[[ScalingPoint], float | None]


def scaling(id: str, title: str, result: Scaling, quantity: Quantity) -> Figure | None:
    """A quantity against nonzeros, both logarithmic; None where no point has it."""
    curves = {method: [(p.nnz, value) for p in result.points if p.method == method
                       and (value := quantity(p)) is not None and value > 0]
              for method in result.methods}
    curves = {method: sorted(points) for method, points in curves.items() if points}
    if not curves:
        return None
    legend = Legend(list(enumerate(curves)))
    box = frame(legend, 200)
    nonzeros = [float(nnz) for points in curves.values() for nnz, _ in points]
    values = [value for points in curves.values() for _, value in points]
    plot = Plot(Axis(*log_range(nonzeros), box.left, box.right, True),
                Axis(*log_range(values), box.bottom, box.top, True), box)
    plot.x_ticks()
    plot.y_ticks()
    for series, points in enumerate(curves.values()):
        places = [(plot.x(nnz), plot.y(value)) for nnz, value in points]
        # One matrix a size makes a curve; several make a cloud.
        if len({nnz for nnz, _ in points}) == len(points) and len(points) <= 16:
            plot.parts.append(curve(places, series))
            plot.parts += [mark(x, y, series) for x, y in places]
        else:
            plot.parts += [dot(x, y, series, 2.8) for x, y in places]
    plot.base()
    plot.titles("nonzeros", title)
    ends = ", ".join(f"{method}: {significant(points[-1][1], 3)} at {points[-1][0]:,} nonzeros"
                     for method, points in curves.items())
    return Figure(id, title, f"{title} against nonzeros, both axes logarithmic. {ends}.",
                  legend.draw(0) + "".join(plot.parts), WIDTH, box.bottom + 44)


def ceilings(plot: Plot, roofline: Roofline) -> None:
    """Bandwidth times intensity up to the FMA peak, each with its name."""
    peak = roofline.fma_peak_gflops
    if peak is not None:
        plot.parts.append(line(plot.box.left, plot.y(peak), plot.box.right, plot.y(peak),
                               "ceiling"))
        plot.parts.append(text(plot.box.right, plot.y(peak) - 5,
                               f"FMA peak {significant(peak, 3)} GFLOP/s", "end small soft"))
    named = -math.inf  # the last line with its name beside it
    for index, (name, rate) in enumerate(roofline.gbytes_per_s.items()):
        low = max(plot.x.low, plot.y.low / rate)
        high = min(plot.x.high, (peak or plot.y.high) / rate)
        if low >= high:
            continue
        plot.parts.append(line(plot.x(low), plot.y(low * rate), plot.x(high), plot.y(high * rate),
                               "ceiling"))
        plot.parts.append(text(plot.box.right, plot.box.bottom - 6 - 14 * index,
                               f"{name} {significant(rate, 3)} GB/s", "end small soft"))
        if plot.y(low * rate) - named >= LINE:
            named = plot.y(low * rate)
            plot.parts.append(text(plot.x(low) + 10, named + 2, name, "small soft"))


def intensity(case: Case) -> float:
    return case.flops / case.traffic_bytes


def roofline(id: str, title: str, cases: list[Case], ceiling: Roofline) -> Figure:
    """GFLOP/s reached against 2 nnz n over the least bytes; `cases` have both."""
    series = [("best peer", lambda c: max(t.gflops for name, t in c.timings.items()
                                          if name != "spjit")),
              ("spjit", lambda c: c.timings["spjit"].gflops)]
    points = [[(intensity(c), rate(c)) for c in cases] for _, rate in series]
    legend = Legend([(1, "best peer"), (0, "spjit")])
    box = frame(legend, 240)
    rates = [rate for group in points for _, rate in group]
    peak = ceiling.fma_peak_gflops
    more = [] if peak is None else [1.2 * peak]
    ridges = [peak / rate for rate in ceiling.gbytes_per_s.values() if peak and rate]
    plot = Plot(Axis(*log_range([x for x, _ in points[0]], *ridges), box.left, box.right, True),
                Axis(*log_range(rates, *more), box.bottom, box.top, True), box)
    plot.x_ticks()
    plot.y_ticks()
    ceilings(plot, ceiling)
    for number, group in zip((1, 0), points, strict=True):
        plot.parts += [dot(plot.x(x), plot.y(y), number, 2.8) for x, y in group]
    plot.base()
    plot.titles("2 nnz n / least bytes moved [FLOP/byte]", "GFLOP/s")
    return Figure(id, title, "GFLOP/s reached by spjit and by the fastest peer of each case "
                  "against arithmetic intensity, both logarithmic, below the measured ceilings.",
                  legend.draw(0) + "".join(plot.parts), WIDTH, box.bottom + 44,
                  "Least bytes: B and C once and A as CSR. Caches are warm, so cases may lie above "
                  "the slower memories' lines; code that has A in it does not read it as data.")
