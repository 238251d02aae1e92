"""Reads "spjit-layer-bench-2" (bench/README.md): ways to call the layers of networks."""

from __future__ import annotations

from .model import GoalFigure, LayerCase, Layers, LayerSummary, WayFailure, WayTiming
from .schema import Node
from .side_by_side import read_device

CACHES = ("cold", "hot")


def read_way_timing(node: Node) -> WayTiming:
    timing = WayTiming(way=node["way"].text(), median_us=node["median_us"].number(0, True),
                       noise=node["noise"].number(), paired=node["ratio"].number_or_none())
    node["samples"].integer(1)
    if node["min_us"].number() > timing.median_us:
        raise node["min_us"].expected(f"at most median_us, {timing.median_us:g}")
    return timing


def read_layer_case(node: Node) -> LayerCase:
    timings = [read_way_timing(item) for item in node.items("timings")]
    if not timings:
        raise node["timings"].error("is empty; expected the way that others are compared with")
    return LayerCase(comparison=node["comparison"].text(), network=node["network"].text(),
                     rows=node["rows"].integer(), cols=node["cols"].integer(),
                     n=node["n"].integer(1), threads=node["threads"].integer(1),
                     caches=node["caches"].text(CACHES), timings=timings)


def read_figure(node: Node) -> GoalFigure:
    figure = GoalFigure(node["measured"].number(), node["wanted"].number_or_none(),
                        node["missed"].flag())
    above = figure.wanted is not None and round(100 * figure.measured) > round(100 * figure.wanted)
    if figure.missed != above:
        raise node["missed"].expected(f"{str(above).lower()}: {figure.measured:.2f} is measured")
    return figure


def read_summary(node: Node) -> LayerSummary:
    worst = next(node.items("worst_cases"), None)
    return LayerSummary(comparison=node["comparison"].text(), way=node["way"].text(),
                        unit=node["unit"].text(("x", "ms")), threads=node["threads"].integer(1),
                        caches=node["caches"].text(CACHES), cases=node["cases"].integer(1),
                        mean=read_figure(node["mean"]), worst=read_figure(node["worst"]),
                        where=worst["where"].text() if worst else "")


def read_failure(node: Node) -> WayFailure:
    return WayFailure(comparison=node["comparison"].text(), way=node["way"].text(),
                      network=node["network"].text(), n=node["n"].integer(1),
                      threads=node["threads"].integer(1), reason=node["reason"].text())


def read_layer_bench(node: Node) -> Layers:
    cases = []
    seen = set()
    for item in node.items("cases"):
        case = read_layer_case(item)
        if case.key in seen:
            raise item.error("a second case of its comparison, layers, n, threads and caches; "
                             "expected one")
        seen.add(case.key)
        cases.append(case)
    if not cases:
        raise node["cases"].error("is empty; expected at least one case")
    return Layers(file=node.file, created=node["created"].text(), command=node["command"].text(),
                  device=read_device(node["device"]), cases=cases,
                  summaries=[read_summary(item) for item in node.items("summaries")],
                  failures=[read_failure(item) for item in node.items("failures")])
