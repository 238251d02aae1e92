"""Reads "spjit-conv-bench-1" (bench/README.md): layers of convolutional networks."""

from __future__ import annotations

from .model import ConvGoal, Convolution, Convolutions
from .schema import Node
from .side_by_side import read_device, read_library

CACHES = ("cold", "hot")
STATES = ("MET", "NOT MET", "NO DATA")


def read_times(node: Node) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Medians and choices by library, and what was found wrong."""
    times, details, wrong = {}, {}, []
    for timing in node.items("timings"):
        library, failed = timing["library"].text(), timing["failed"].text()
        if failed:
            wrong += [f"{library}: {failed}"] if failed.startswith("wrong") else []
            continue
        timing["samples"].integer(1)
        times[library] = timing["median_us"].number(0, True)
        details[library] = timing["detail"].text()
        if timing["min_us"].number() > times[library]:
            raise timing["min_us"].expected(f"at most median_us, {times[library]:g}")
    return times, details, wrong


def read_convolution(node: Node) -> tuple[Convolution, list[str]]:
    times, details, wrong = read_times(node)
    shape = node["shape"]
    return Convolution(
        network=node["network"].text(), sparsity=node["sparsity"].integer(),
        layer=node["layer"].text(), kernel=node["kernel"].text(),
        layers=node["layers"].integer(1), filters=node["filters"].integer(1),
        image=(shape["channels"].integer(1), shape["height"].integer(1),
               shape["width"].integer(1)),
        batch=node["batch"].integer(1), threads=node["threads"].integer(1),
        caches=node["caches"].text(CACHES), median_us=times, details=details), wrong


def read_goal(node: Node) -> ConvGoal:
    return ConvGoal(goal=node["goal"].text(), measured=node["measured"].number(),
                    wanted=node["wanted"].number(), where=node["where"].text(),
                    state=node["state"].text(STATES))


def read_conv_bench(node: Node) -> Convolutions:
    cases, wrong, seen = [], [], set()
    for item in node.items("cases"):
        case, found = read_convolution(item)
        if case.key in seen:
            raise item.error("a second case of its layer, batch, threads and caches; expected one")
        seen.add(case.key)
        cases.append(case)
        wrong += found
    if not cases:
        raise node["cases"].error("is empty; expected at least one case")
    return Convolutions(file=node.file, created=node["created"].text(),
                        command=node["command"].text(), device=read_device(node["device"]),
                        libraries=[read_library(item) for item in node.items("libraries")],
                        cases=cases, goals=[read_goal(item) for item in node.items("goals")],
                        wrong=wrong)
