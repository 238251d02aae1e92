"""Reads "spjit-lab-1" (bench/README.md): what lab_bench measured, of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .model import (SUBJECT, Case, ConvGoal, Convolution, Convolutions, GoalFigure, LayerCase,
                    Layers, LayerSummary, Library, Networks, Result, Roofline, SideBySide, Timing,
                    WayFailure, WayTiming)
from .schema import Node
from .side_by_side import check_times, read_cases, read_device, read_library, read_timings

KINDS = ("host", "layer", "conv", "model")
CACHES = ("cold", "hot")
STATES = ("MET", "NOT MET", "NO DATA", "NO GOAL")


def chosen(node: Node) -> str:
    """The first of its layers' kernels."""
    first = next(node.items("chosen"), None)
    return first.text() if first else ""


def read_pass(node: Node, flops: float) -> Timing | str:
    """The time, or why there is none."""
    if not node["failed"].is_null():
        return node["failed"].text()
    median_us = node["median_us"].number(0, True)
    check_times(node, median_us)
    return Timing(library=node["way"].text(), median_us=median_us, noise=node["noise"].number(),
                  gflops=flops / median_us * 1e-3, prepare_ms=node["prepare_ms"].number_or_none())


def read_one_matrix(node: Node, flops: float) -> Timing | str:
    timing = read_pass(node, flops)
    if isinstance(timing, str) or timing.library != SUBJECT:
        return timing
    return replace(timing, prepare_kind="cold compile")


def read_product(node: Node, read: Callable[[Node, float], Timing | str], **more: object) -> Case:
    """A matrix or a whole network; a library that was found wrong has a reason, and no time."""
    nnz, n = node["nnz"].integer(), node["n"].integer(1)
    timings, failed = read_timings(node, lambda item: read(item, 2.0 * nnz * n), "way")
    return Case(**{"matrix": node["workload"].text(), "layer": "", "rows": node["rows"].integer(),
                   "cols": node["cols"].integer(), "nnz": nnz,
                   "sparsity": node["sparsity"].number(), "n": n,
                   "threads": node["threads"].integer(1), "peak_gflops": None,
                   "traffic_bytes": None, "checked": True, "timings": timings, "failed": failed,
                   **more})


def csr_traffic_bytes(node: Node) -> float:
    """B and C once, A as CSR of 4-byte values, columns and row starts."""
    rows, n = node["rows"].integer(), node["n"].integer(1)
    return 4.0 * (node["cols"].integer() + rows) * n + 8.0 * node["nnz"].integer() + 4.0 * (rows + 1)


def read_host_case(node: Node) -> Case:
    facts = node["facts"]
    return read_product(node, read_one_matrix, set=facts["source"].text(), traffic_bytes=csr_traffic_bytes(node),
                        # The file has the peak of one core.
                        peak_gflops=facts["peak_gflops"].number() * node["threads"].integer(1))


def read_matrices(node: Node, libraries: list[Library], common: dict) -> SideBySide:
    cases = read_cases(node, libraries, read_host_case)
    peaks = sorted(case.peak_gflops / case.threads for case in cases)
    l2 = node["device"].get("l2_gbytes_per_s").number_or_none()
    return SideBySide(**common, libraries=libraries, cases=cases,
                      roofline=Roofline(peaks[len(peaks) // 2], {} if l2 is None else {"L2": l2}))


def read_networks(node: Node, libraries: list[Library], common: dict) -> Networks:
    """Passes in sequence; hot ones only say what sequence costs."""
    cases = read_cases(node, libraries, lambda item: read_product(item, read_pass, set="network"),
                       lambda item: item["caches"].text(CACHES) == "cold")
    return Networks(SideBySide(**common, libraries=libraries, cases=cases, roofline=Roofline()))


def once(node: Node, read: object, of_what: str) -> list:
    """Every case, none of them twice."""
    cases, seen = [], set()
    for item in node.items("cases"):
        case = read(item)
        if case.key in seen:
            raise item.error(f"a second case of its {of_what}; expected one")
        seen.add(case.key)
        cases.append(case)
    if not cases:
        raise node["cases"].error("is empty; expected at least one case")
    return cases


def read_way(node: Node) -> WayTiming:
    timing = WayTiming(way=node["way"].text(), median_us=node["median_us"].number(0, True),
                       noise=node["noise"].number(), paired=node["ratio"].number_or_none())
    check_times(node, timing.median_us)
    return timing


def read_layer_case(node: Node) -> LayerCase:
    items = list(node.items("timings"))
    if not items:
        raise node["timings"].error("is empty; expected the way that others are compared with")
    return LayerCase(comparison=node["comparison"].text(), network=node["workload"].text(),
                     rows=node["rows"].integer(), cols=node["cols"].integer(),
                     n=node["n"].integer(1), threads=node["threads"].integer(1),
                     caches=node["caches"].text(CACHES),
                     timings=[read_way(item) for item in items if item["failed"].is_null()])


def read_failures(node: Node) -> list[WayFailure]:
    """Of each way once, however many shapes its network has."""
    failures = {}
    for case in node.items("cases"):
        for item in case.items("timings"):
            if item["failed"].is_null():
                continue
            failure = WayFailure(comparison=case["comparison"].text(), way=item["way"].text(),
                                 network=case["workload"].text(), n=case["n"].integer(1),
                                 threads=case["threads"].integer(1), reason=item["failed"].text())
            failures[failure] = None
    return list(failures)


def read_figure(node: Node) -> GoalFigure:
    figure = GoalFigure(node["measured"].number(), node["wanted"].number_or_none(),
                        node["state"].text(STATES) == "NOT MET")
    above = figure.wanted is not None and round(100 * figure.measured) > round(100 * figure.wanted)
    if figure.missed != above:
        raise node["state"].expected(f"{'NOT MET' if above else 'MET or NO GOAL'}: "
                                     f"{figure.measured:.2f} is measured")
    return figure


def read_summaries(node: Node) -> list[LayerSummary]:
    """A mean is followed by the worst of the same cases."""
    summaries = []
    goals = list(node.items("goals"))
    for mean, worst in zip(goals[::2], goals[1::2], strict=True):
        about = mean["about"]
        summaries.append(LayerSummary(
            comparison=about["comparison"].text(), way=about["way"].text(),
            unit=mean["unit"].text(("x", "ms")), threads=about["threads"].integer(1),
            caches=about["caches"].text(CACHES), cases=mean["cases"].integer(1),
            mean=read_figure(mean), worst=read_figure(worst), where=worst["where"].text()))
    return summaries


def read_layers(node: Node, _libraries: list[Library], common: dict) -> Layers:
    cases = once(node, read_layer_case, "comparison, layers, n, threads and caches")
    return Layers(**common, cases=[case for case in cases if case.timings], summaries=read_summaries(node),
                  failures=read_failures(node))


def read_convolution(node: Node) -> Convolution:
    """Times are of one layer, in the mean of those of the case."""
    facts, layers = node["facts"], node["layers"].integer(1)
    shape = facts["shape"]
    network, _, percent = node["workload"].text().rpartition("-")
    if not network or not percent.isdigit():
        raise node["workload"].expected("NETWORK-PERCENT")
    times, details = {}, {}
    for timing in node.items("timings"):
        if not timing["failed"].is_null():
            continue
        way, median_us = timing["way"].text(), timing["median_us"].number(0, True)
        check_times(timing, median_us)
        times[way], details[way] = median_us / layers, chosen(timing)
    return Convolution(
        network=network, sparsity=int(percent), layer=node["layer"].text(),
        kernel=facts["kernel"].text(), layers=layers, filters=node["rows"].integer(1),
        image=(shape["channels"].integer(1), shape["height"].integer(1),
               shape["width"].integer(1)),
        batch=node["n"].integer(1), threads=node["threads"].integer(1),
        caches=node["caches"].text(CACHES), median_us=times, details=details)


def read_conv_goal(node: Node) -> ConvGoal:
    return ConvGoal(goal=node["goal"].text(), measured=node["measured"].number(),
                    wanted=node["wanted"].number(), where=node["where"].text(),
                    state=node["state"].text(STATES))


def read_convolutions(node: Node, libraries: list[Library], common: dict) -> Convolutions:
    wrong = [f"{timing['way'].text()}: {timing['failed'].text()}"
             for case in node.items("cases") for timing in case.items("timings")
             if timing["failed"].text_or("").startswith("wrong")]
    return Convolutions(**common, libraries=libraries,
                        cases=once(node, read_convolution, "layer, batch, threads and caches"),
                        goals=[read_conv_goal(item) for item in node.items("goals")
                               if not item["wanted"].is_null()], wrong=wrong)


READERS = {"host": read_matrices, "layer": read_layers, "conv": read_convolutions,
           "model": read_networks}


def read_lab(node: Node) -> Result:
    common = {"file": node.file, "created": node["created"].text(),
              "command": node["command"].text(), "device": read_device(node["device"])}
    libraries = [read_library(item) for item in node.items("libraries")]
    return READERS[node["kind"].text(KINDS)](node, libraries, common)
