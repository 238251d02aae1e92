"""Reads what searching costs: "spjit-search-cost-1"."""

from __future__ import annotations

from .model import SearchCost, SearchRow
from .schema import Node
from .side_by_side import read_device


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
                     note=node.get("note").text_or(""), compiled=read_compiled(node),
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

