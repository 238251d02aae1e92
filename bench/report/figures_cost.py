"""Figures of what searching and compiling cost, and the roofline."""

from __future__ import annotations

import math

from .document import Figure
from .model import Case, Preparation, Roofline, SearchCost
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


def preparing(id: str, prepared: list[Preparation]) -> Figure:
    """Seconds against nonzeros, both logarithmic, a cloud for each kind of preparation."""
    kinds = list(dict.fromkeys(each.kind for each in prepared))
    legend = Legend(list(enumerate(kinds)))
    box = frame(legend, 200)
    plot = Plot(Axis(*log_range([float(each.case.nnz) for each in prepared]), box.left, box.right,
                     True),
                Axis(*log_range([each.seconds for each in prepared]), box.bottom, box.top, True),
                box)
    plot.x_ticks()
    plot.y_ticks()
    plot.parts += [dot(plot.x(each.case.nnz), plot.y(each.seconds), kinds.index(each.kind), 2.8)
                   for each in prepared]
    plot.base()
    title = "seconds to compile"
    plot.titles("nonzeros", title)
    last = {each.kind: each for each in prepared}
    ends = ", ".join(f"{kind}: {significant(each.seconds, 3)} at {each.case.nnz:,} nonzeros"
                     for kind, each in last.items())
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
