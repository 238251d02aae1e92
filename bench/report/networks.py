"""Reads "spjit-model-bench-1" (bench/README.md): whole networks, layer after layer."""

from __future__ import annotations

from .model import Case, Networks, Roofline, SideBySide, Timing
from .schema import Node
from .side_by_side import read_cases, read_device, read_library, read_timings


def read_pass(node: Node, flops: float) -> Timing | str:
    """The time of a pass, or why there is none."""
    if reason := node["failed"].text():
        return reason
    times = node["pass"]
    median_us = times["median_us"].number(0, True)
    return Timing(library=node["library"].text(), median_us=median_us,
                  min_us=times["min_us"].number(), noise=times["noise"].number(),
                  samples=times["samples"].integer(1), gflops=flops / median_us * 1e-3,
                  prepare_ms=node["prepare_ms"].number())


def read_network_case(node: Node) -> Case:
    nnz, n = node["nnz"].integer(), node["n"].integer(1)
    timings, failed = read_timings(node, lambda item: read_pass(item, 2.0 * nnz * n))
    return Case(set="network", matrix=node["network"].text(), layer="",
                rows=0, cols=0, nnz=nnz, sparsity=node["sparsity"].number(), n=n,
                threads=node["threads"].integer(1), peak_gflops=None, traffic_bytes=None,
                checked=True, timings=timings, failed=failed)


def read_model_bench(node: Node) -> Networks:
    libraries = [read_library(item) for item in node.items("libraries")]
    return Networks(SideBySide(file=node.file, created=node["created"].text(),
                               command=node["command"].text(), device=read_device(node["device"]),
                               libraries=libraries,
                               cases=read_cases(node, libraries, read_network_case),
                               roofline=Roofline()))
