"""Reads what searching and compiling cost: "spjit-search-cost-1", "spjit-search-bench-1",
"spjit-cuda-proxy-bench-1" and the rows of cuda_compile_bench and host_compile_bench."""

from __future__ import annotations

import statistics
from dataclasses import replace

from .model import Device, Scaling, ScalingPoint, SearchCost, SearchRow
from .schema import Node
from .side_by_side import read_device, read_host_device

MIB = 1 << 20


def read_estimate(node: Node) -> float | None:
    """Only where a search was stopped: else there is a measurement, at least as long."""
    estimate = node.get("estimated_seconds")
    if not estimate.is_null() and not node["killed"].flag():
        raise estimate.expected("null: the search was not killed")
    return estimate.number_or_none(node["seconds"].number(0))


def read_compiled(node: Node) -> int | None:
    compiled = node.get("compiled")
    candidates = node.get("candidates").integer_or_none()
    if not compiled.is_null() and candidates is not None and compiled.integer() > candidates:
        raise compiled.expected(f"at most candidates, {candidates}")
    return compiled.integer_or_none()


def read_search_row(node: Node) -> SearchRow:
    return SearchRow(matrix=node["matrix"].text(), rows=node["rows"].integer(),
                     cols=node["cols"].integer(), nnz=node["nnz"].integer(),
                     n=node["n"].integer(1), target=node["target"].text(), way=node["way"].text(),
                     candidates=node.get("candidates").integer_or_none(),
                     seconds=node["seconds"].number(0),
                     peak_mib=node.get("peak_mib").number_or_none(), killed=node["killed"].flag(),
                     loss=None, note=node.get("note").text_or(""), compiled=read_compiled(node),
                     estimated_seconds=read_estimate(node),
                     compile_only="compile_only" in node and node["compile_only"].flag())


def check_search_rows(node: Node, rows: list[SearchRow]) -> list[SearchRow]:
    seen = set()
    for row in rows:
        if (row.kernel, row.way) in seen:
            raise node.error(f"{row.way} twice for {row.matrix}, n = {row.n}, {row.target}; "
                             "expected once")
        seen.add((row.kernel, row.way))
    if not rows:
        raise node.error("has no rows; expected at least one")
    return rows


COST_FACTS = (("limit_s", "killed after [s]"),
              ("compile_threads", "threads that compile for a GPU"), ("spjit", "spjit"))


def read_facts(node: Node, names: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(label, str(node.value[name])) for name, label in names if name in node]


def read_cuda_targets(node: Node) -> list[tuple[str, str]]:
    facts = []
    for item in node.items("cuda_targets") if "cuda_targets" in node else []:
        gpu = item["timed_on"]
        timed = "compiled only" if gpu.is_null() else f"timed on {gpu.text()}"
        facts.append((item["target"].text(), f"{item['toolchain'].text()}; {timed}"))
    return facts


def read_search_cost(node: Node) -> SearchCost:
    rows = [read_search_row(item) for item in node.items("rows")]
    left_out = [item.text() for item in node.items("left_out")] if "left_out" in node else []
    return SearchCost(file=node.file, created=node["created"].text(),
                      device=read_device(node["device"]), rows=check_search_rows(node, rows),
                      facts=read_facts(node, COST_FACTS) + read_cuda_targets(node),
                      left_out=left_out)


def read_search_bench(node: Node) -> SearchCost:
    device = read_host_device(node["device"])
    rows = []
    for case in node.items("cases"):
        if case["error"].text():
            continue
        for way in case.items("ways"):
            seconds = sum(way[part].number() for part in ("rank_ms", "proxy_ms", "full_ms")) / 1000
            # Losses are between halves of the timings, so noise can make one negative.
            rows.append(SearchRow(
                matrix=case["matrix"].text(), rows=case["rows"].integer(),
                cols=case["cols"].integer(), nnz=case["nnz"].integer(), n=case["n"].integer(1),
                target=device.isa, way=way["way"].text(), candidates=None, seconds=seconds,
                peak_mib=None, killed=False, loss=way["loss"].number(-1), note=way["tile"].text()))
    return SearchCost(file=node.file, created="", device=device,
                      rows=check_search_rows(node, rows))


def median_of(runs: list[Node], member: str) -> float | None:
    values = [value for run in runs if (value := run.get(member).number_or_none()) is not None]
    return statistics.median(values) if values else None


def read_scaling_point(node: Node) -> ScalingPoint:
    runs = list(node.items("runs"))
    done = [run for run in runs if "failure" not in run]
    failure = "" if done or not runs else runs[0]["failure"].text()
    if not runs:
        raise node["runs"].error("is empty; expected at least one run")
    for run in done:
        run["seconds"].number(0, True)
    peak, code = median_of(done, "peak_rss_bytes"), median_of(done, "code_bytes")
    return ScalingPoint(method=node["method"].text(), nnz=node["nonzeros"].integer(1),
                        shape=node["shape"].text(), seconds=median_of(done, "seconds"),
                        emit_seconds=median_of(done, "emit_seconds"),
                        cpu_seconds=median_of(done, "cpu_seconds"),
                        peak_mib=None if peak is None else peak / MIB,
                        code_bytes=None if code is None else int(code), runs=len(done),
                        failure=failure)


SCALING_FACTS = (("cpu", "CPU"), ("cpus", "CPUs"), ("target", "compiled for"),
                 ("tile", "tile"), ("toolchain", "toolchain"),
                 ("unit_nonzeros", "nonzeros a unit"), ("limit_s", "killed after [s]"),
                 ("spjit", "spjit"))


def read_scaling(node: Node) -> Scaling:
    """Without a schema member: rows of method, nonzeros and runs, and facts beside them."""
    points = [read_scaling_point(item) for item in node.items("rows")]
    if not points:
        raise node["rows"].error("is empty; expected at least one row")
    facts = read_facts(node, SCALING_FACTS)
    if "toolchain" in node:
        facts.append(("ran on a GPU", "no: compiled only"))
    target = node.get("target").text_or("this CPU")
    return Scaling(file=node.file, title=f"Compiling against nonzeros, {target}", facts=facts,
                   points=points, target=target)


def side_by_side(results: list[Scaling]) -> Scaling | None:
    """What several files of whole kernels say, as one; None of fewer than two. Methods that more
    than one of them has are named with their targets."""
    files = [result for result in results if result.target]
    if len(files) < 2:
        return None
    names = [method for result in files for method in result.methods]
    points, facts = [], []
    for result in files:
        points += [replace(point, method=f"{point.method}, {result.target}")
                   if names.count(point.method) > 1 else point for point in result.points]
        facts.append((result.file.rsplit("/", 1)[-1],
                      ", ".join(value for label, value in result.facts
                                if label in ("CPU", "compiled for", "toolchain"))))
    return Scaling(file="", title="Compiling against nonzeros: host and GPU targets side by side",
                   facts=facts, points=points)


PROXY_METHODS = {"proxies of a search, CUDA C++": "cuda_s", "proxies of a search, PTX": "ptx_s",
                 "one whole kernel, PTX": "kernel_s"}


def read_cuda_proxy(node: Node) -> Scaling:
    points = [ScalingPoint(method=method, nnz=case["nnz"].integer(1), shape=case["matrix"].text(),
                           seconds=case[member].number(), emit_seconds=None, cpu_seconds=None,
                           peak_mib=None, code_bytes=None, runs=1, failure="")
              for method, member in PROXY_METHODS.items() for case in node.items("cases")]
    if not points:
        raise node["cases"].error("is empty; expected at least one case")
    target = node["target"].text()
    facts = [("CPU", node["cpu"].text()), ("compiled for", target), ("n", str(node["n"].integer())),
             ("ran on a GPU", "yes" if node["timed_on_gpu"].flag() else
              "no: compiled only")]
    return Scaling(file=node.file, title=f"Compiling the proxies of a search, {target}",
                   facts=facts, points=points)


def scaling_of_cases(file: str, device: Device, points: list[ScalingPoint]) -> Scaling:
    """Of what compiling the cases of a side-by-side file took."""
    return Scaling(file=file, title=f"Compiling against nonzeros, {device.isa}",
                   facts=[("CPU" if device.kind == "host" else "GPU", device.name)], points=points)
