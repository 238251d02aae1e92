#!/usr/bin/env python3
"""Holds what lab_bench measured against the goals, and adds them to the file.

    lab_goals.py FILE... [--worst N]

A goal is MET or NOT MET as it is printed, with two decimals. NO DATA: no such case ran. NO GOAL: the
figure is only told. Below a goal are its worst cases. Exit status 1 if a file has no cases of kind
host, layer or conv.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_support import text_of

SCHEMA = "spjit-lab-1"
OWN = "spjit"
NHWC = "-nhwc"
Case = dict[str, Any]
Timing = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """The figure of one case."""

    value: float
    where: str
    weight: float = 1  # how often it counts in a mean
    error: float = 0  # a standard error of the value, as a share of it


@dataclass(frozen=True)
class Goal:
    """A figure over cases, and what it is to be."""

    text: str
    figure: Callable[[Case], Figure | None]  # None: the case does not count
    wanted: float | None = None  # None: it is only told
    unit: str = "x"
    at_least: bool = True  # else: at most; says which is the worst too
    mean: bool = False  # geometric; else the worst
    counted: str = "cases"  # what weights are numbers of
    about: dict[str, Any] | None = None  # what it is of, for readers


def find(case: Case, way: str) -> Timing | None:
    """None unless it was timed."""
    return next((one for one in case["timings"] if one["way"] == way and one["failed"] is None),
                None)


def over(other: Timing | None, subject: Timing | None) -> float | None:
    """The other's time over the subject's."""
    return other["median_us"] / subject["median_us"] if other and subject else None


def over_first(case: Case, timing: Timing) -> float | None:
    """The time over the first way's, of pairs if there are any."""
    ratio = timing["ratio"]
    return ratio if ratio is not None else over(timing, find(case, case["timings"][0]["way"]))


def error_of_median(timing: Timing) -> float:
    """As a share: of normal samples sqrt(pi / 2) times that of a mean."""
    return 1.2533 * timing["noise"] / math.sqrt(timing["samples"])


def error(case: Case, timing: Timing) -> float:
    """A standard error of over_first(), as a share."""
    paired = timing["ratio_error"]
    return paired if paired is not None else math.hypot(
        error_of_median(timing), error_of_median(case["timings"][0]))


def describe(case: Case) -> str:
    shape = case["facts"].get("shape_text") or (
        f"{case['rows']}x{case['cols']}" if case["rows"] else "")
    return " ".join(filter(None, (case["workload"], shape, f"n={case['n']}",
                                  f"t={case['threads']}", case["caches"])))


def state_of(goal: Goal, measured: float) -> str:
    if goal.wanted is None:
        return "NO GOAL"
    given, wanted = (math.floor(100 * value + 0.5) for value in (measured, goal.wanted))
    return "MET" if (given >= wanted if goal.at_least else given <= wanted) else "NOT MET"


def evaluate(goal: Goal, cases: list[Case], most: int) -> dict[str, Any]:
    """`most`: figures in `worst`, the worst first."""
    figures = [figure for case in cases if (figure := goal.figure(case)) is not None]
    result = {"goal": goal.text, "over": "mean" if goal.mean else "worst", "measured": 0.0,
              "wanted": goal.wanted, "unit": goal.unit, "where": "no case", "cases": len(figures),
              "state": "NO DATA", "worst": []}
    if goal.about is not None:
        result["about"] = goal.about
    if not figures:
        return result
    figures.sort(key=lambda one: one.value, reverse=not goal.at_least)
    weights = sum(one.weight for one in figures)
    if goal.mean:
        logs = sum(one.weight * math.log(one.value) for one in figures)
        result |= {"measured": math.exp(logs / weights), "where": f"{weights:.0f} {goal.counted}"}
    else:
        result |= {"measured": figures[0].value, "where": figures[0].where,
                   "worst": [{"figure": one.value, "error": one.error, "where": one.where}
                             for one in figures[:most]]}
    return result | {"state": state_of(goal, result["measured"])}


def to_text(result: dict[str, Any]) -> str:
    where = result["where"] if len(result["where"]) <= 80 else "..." + result["where"][-77:]
    lines = [f"{result['state']:<8} {result['measured']:8.2f} {result['unit']:<10} "
             f"{result['goal']:<62} {where}"]
    lines += [f"{one['figure']:17.2f} {result['unit']:<10} {one['where']}"
              + (f" (+-{100 * one['error']:.1f} %)" if one["error"] > 0 else "")
              for one in result["worst"]]
    return "\n".join(lines)


# Of single matrices.


def host_goals(cases: list[Case], cpus: int) -> Iterable[Goal]:
    def goal(text: str, wanted: float, value: Callable[[Case], float | None],
             **more: Any) -> Goal:
        def figure(case: Case) -> Figure | None:
            measured = value(case)
            return None if measured is None else Figure(measured, describe(case))
        return Goal(text, figure, wanted, **more)

    def is_sparse(case: Case, sparsity: float) -> bool:
        """DLMC's layers reach their nominal sparsity to a tenth of a per cent."""
        return abs(case["sparsity"] - sparsity) < 0.005

    def percent_of_peak(case: Case) -> float | None:
        own = find(case, OWN)
        peak = case["facts"]["peak_gflops"] * min(case["threads"], cpus)
        return own and 100 * 2e-3 * case["nnz"] * case["n"] / own["median_us"] / peak

    def over_dense(case: Case) -> float | None:
        return over(find(case, "openblas"), find(case, OWN))

    def two_threads(two: Case) -> float | None:
        if two["threads"] != 2 or two["nnz"] <= 50_000:
            return None
        one = next((case for case in cases if case["threads"] == 1 and
                    (case["workload"], case["n"]) == (two["workload"], two["n"])), None)
        return over(find(one, OWN), find(two, OWN)) if one else None

    def fact(name: str, counts: Callable[[Case], bool]) -> Callable[[Case], float | None]:
        return lambda case: case["facts"][name] if counts(case) else None

    def encoding(case: Case) -> float | None:
        if case["facts"]["code_bytes"] == 0 or case["nnz"] < 20_000:
            return None  # of fewer a rate is the clock's
        return case["facts"]["encode_ms"] * 1e5 / case["nnz"]

    def is_usual(case: Case) -> bool:
        return (case["rows"], case["cols"]) == (512, 512) and is_sparse(case, 0.9)

    def has_2m(case: Case) -> bool:
        return case["nnz"] >= 1_999_000

    peaks = [(512, 512, 128, sparsity, 95) for sparsity in (0.5, 0.7, 0.8, 0.9)]
    peaks.append((512, 512, 128, 0.95, 85))
    peaks += [(rows, cols, 512, sparsity, 75) for rows, cols in ((2048, 512), (512, 2048),
                                                               (2048, 1024))
              for sparsity in (0.9, 0.95)]
    for rows, cols, n, sparsity, wanted in peaks:
        def share(case: Case, key: Any = (1, n, rows, cols), zeros: float = sparsity
                  ) -> float | None:
            given = (case["threads"], case["n"], case["rows"], case["cols"])
            return percent_of_peak(case) if given == key and is_sparse(case, zeros) else None
        yield goal(f"{rows} x {cols}, {100 * sparsity:.0f} % sparse, n = {n}: >= {wanted} % of peak",
                   wanted, share, unit="% of peak")
    yield goal("90 % sparse: geometric mean >= 8 x OpenBLAS", 8, lambda case: (
        over_dense(case) if case["threads"] == 1 and is_sparse(case, 0.9) and case["nnz"] else None),
        mean=True)
    yield goal("two threads, over 50k nonzeros: >= 1.8 x one thread", 1.8, two_threads)
    yield goal("the same, geometric mean", 1.8, two_threads, mean=True)
    at_most = {"unit": "ms", "at_least": False}
    yield goal("encoding: <= 10 ms per 100k nonzeros", 10, encoding, **at_most)
    yield goal("cold compile of 512 x 512, 90 % sparse, all in: <= 50 ms", 50,
               fact("cold_compile_ms", is_usual), **at_most)
    yield goal("2M nonzeros compile: <= 2 s", 2000, fact("cold_compile_ms", has_2m), **at_most)
    yield goal("2M nonzeros: faster than dense", 1,
               lambda case: over_dense(case) if has_2m(case) else None)
    yield goal("warm cache hit of 512 x 512, 90 % sparse: <= 1 ms", 1,
               fact("warm_hit_ms", is_usual), **at_most)
    yield goal("warm cache hit of any DLMC layer: <= 1 ms", 1, fact(
        "warm_hit_ms", lambda case: case["facts"]["source"] == "dlmc"), **at_most)


# Of layers: every way against the first. (comparison and way begin so): mean and worst, at most, and
# the least entries a row of cases that count.

PREPARE = "prepare 1M values"
LAYER_GOALS: dict[tuple[str, str], tuple[float | None, float | None, int]] = {
    ("layout", "tokens"): (1.08, 1.25, 0), ("runtime-n", "any n"): (1.03, 1.15, 0),
    ("epilogue", "fused"): (1.05, None, 40), ("epilogue", "apart"): (None, None, 40),
    ("batch", "8 x 128"): (1.00, None, 0), ("values", "buffer"): (1.03, None, 0),
    ("values", PREPARE): (None, 5.0, 0)}


def layer_goal_of(comparison: str, way: str) -> tuple[float | None, float | None, int]:
    return next((goal for (begin, of), goal in LAYER_GOALS.items()
                 if comparison.startswith(begin) and way.startswith(of)), (None, None, 0))


def layer_figure(case: Case, way: str) -> Figure | None:
    rows = case["rows"] * case["layers"]
    if not case["timings"] or (case["nnz"] / rows if rows else 0) < layer_goal_of(
            case["comparison"], way)[2]:
        return None

    def where(timing: Timing) -> str:
        return (f"{describe(case)} {'+'.join(timing['chosen'])} "
                f"({'+'.join(case['timings'][0]['chosen'])})")

    if way == PREPARE:
        return next((Figure(one["values_ms"] * 1e6 / case["nnz"], where(one))
                     for one in case["timings"]
                     if one.get("values_ms") is not None and case["nnz"]), None)
    timing = find(case, way)
    ratio = timing and over_first(case, timing)
    return Figure(ratio, where(timing), 1, error(case, timing)) if timing and ratio else None


def layer_goals(cases: list[Case]) -> Iterable[Goal]:
    """Those of one thread first, cold ones first; a mean, then the worst."""
    places: dict[tuple[str, str], int] = {}
    subjects = set()
    for case in cases:
        for way in (*(one["way"] for one in case["timings"][1:]), PREPARE):
            if layer_figure(case, way) is not None:
                place = places.setdefault((case["comparison"], way), len(places))
                subjects.add((place, case["threads"], case["caches"], case["comparison"], way))
    for _, threads, caches, comparison, way in sorted(subjects):
        def figure(case: Case, key: Any = (comparison, threads, caches), of: str = way
                   ) -> Figure | None:
            given = (case["comparison"], case["threads"], case["caches"])
            return layer_figure(case, of) if given == key else None
        for mean, wanted in zip((True, False), layer_goal_of(comparison, way)):
            text = f"{comparison}: {way}, t={threads} {caches}, {'mean' if mean else 'worst'}"
            yield Goal(text + (f" <= {wanted:.2f}" if wanted is not None else ""), figure, wanted,
                       "ms" if way == PREPARE else "x", False, mean,
                       about={"comparison": comparison, "way": way, "threads": threads,
                              "caches": caches})


# Of convolutions: of ResNet-50, cold, for each layout and batches of 1 and 8. A mean counts a shape
# as often as the network has it; "dense" is the fastest of oneDNN's ways.

Pair = tuple[Timing | None, Timing | None]  # ratio: first over second
FAMILIES = ("dense", "compact", "unrolled", "csr")


def fastest(timings: Iterable[Timing | None]) -> Timing | None:
    return min((one for one in timings if one), key=lambda one: one["median_us"], default=None)


def fastest_dense(case: Case) -> Timing | None:
    return fastest(find(case, one["way"]) for one in case["timings"]
                   if one["way"].startswith("onednn"))


def conv_goal(text: str, library: str, pair: Callable[[Case], Pair], wanted: float | None = None,
              **more: Any) -> Goal:
    def words(timing: Timing) -> str:
        chosen = f" ({timing['chosen'][0] if timing['chosen'] else ''})"
        return (f"{timing['way']} {timing['median_us']:.0f} us"
                + (chosen if timing["way"] == library else ""))

    def figure(case: Case) -> Figure | None:
        above, below = pair(case)
        value = over(above, below)
        if value is None or above is None or below is None:
            return None
        return Figure(value, f"{describe(case)}: {words(above)} over {words(below)}",
                      case["layers"])
    return Goal(text, figure, wanted, counted="layers", **more)


def conv_goals_of(suffix: str, batch: int, cases: list[Case]) -> Iterable[Goal]:
    own, product = OWN + suffix, "im2col+spmm" + suffix

    def counts(case: Case, threads: int, sparsity: str = "") -> bool:
        return (case["workload"].startswith(f"resnet50-{sparsity}") and case["caches"] == "cold"
                and (case["n"], case["threads"]) == (batch, threads))

    def dense(sparsity: str, with_family: bool) -> Callable[[Case], Pair]:
        def pair(case: Case) -> Pair:
            timing = find(case, own)
            if not timing or not counts(case, 1, sparsity) or (
                    not with_family and timing["chosen"][:1] and
                    timing["chosen"][0].startswith("dense")):
                return None, None
            return fastest_dense(case), timing
        return pair

    def kernel(name: str, above: str, below: str) -> Callable[[Case], Pair]:
        return lambda case: ((find(case, above), find(case, below)) if counts(case, 1) and
                             case["facts"]["kernel"] == name else (None, None))

    def two_threads(timing: Callable[[Case], Timing | None]) -> Callable[[Case], Pair]:
        def key(case: Case) -> Any:
            return case["workload"], case["rows"], case["facts"]["shape"]

        def pair(two: Case) -> Pair:
            one = next((case for case in cases if counts(two, 2) and counts(case, 1) and
                        key(case) == key(two)), None)
            return (timing(one), timing(two)) if one else (None, None)
        return pair

    of = f"{'NHWC' if suffix else 'NCHW'}, batch {batch}: "
    yield conv_goal(of + "90 % sparse: mean >= 2.5 x oneDNN", own, dense("90", True), 2.5, mean=True)
    yield conv_goal(of + "80 % sparse: mean >= 1.5 x oneDNN", own, dense("80", True), 1.5, mean=True)
    yield conv_goal(of + "90 % sparse: every layer >= oneDNN", own, dense("90", True), 1)
    yield conv_goal(of + "90 % sparse: layers not by family dense", own, dense("90", False))
    yield conv_goal(of + "3x3: mean >= 1.3 x im2col and spmm", own, kernel("3x3", product, own), 1.3,
                    mean=True)
    yield conv_goal(of + "1x1: mean time <= 1.03 x spmm", own, kernel("1x1", own, product), 1.03,
                    at_least=False, mean=True)
    yield conv_goal(of + "two threads: mean >= 1.8 x one", own,
                    two_threads(lambda case: find(case, own)), 1.8, mean=True)
    # The second CPU may be busy with other work: then oneDNN gains as little.
    yield conv_goal(of + "two threads: oneDNN's fastest", own, two_threads(fastest_dense), mean=True)


def conv_goals(cases: list[Case]) -> Iterable[Goal]:
    """Then layers of all networks that do worst against dense and against the fastest family."""
    for batch in (1, 8):
        for suffix in ("", NHWC):
            yield from conv_goals_of(suffix, batch, cases)
    for suffix in ("", NHWC):
        own = OWN + suffix
        yield conv_goal(f"{own}: least times oneDNN's fastest", own,
                        lambda case, own=own: (fastest_dense(case), find(case, own)))
        yield conv_goal(f"{own}: least times the fastest family by itself", own,
                        lambda case, own=own, suffix=suffix: (fastest(
                            find(case, family + suffix) for family in FAMILIES), find(case, own)))


def goals_of(document: dict[str, Any]) -> list[Goal]:
    cases = document["cases"]
    kinds = {"host": lambda: host_goals(cases, document["device"]["cpus"]),
             "layer": lambda: layer_goals(cases), "conv": lambda: conv_goals(cases)}
    return list(kinds[document["kind"]]()) if document["kind"] in kinds else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--worst", type=int, help="cases below a goal (default: 3, of conv 10)")
    of = parser.parse_args()
    for file in of.files:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document.get("schema") != SCHEMA or not goals_of(document):
            print(f"{file}: expected {SCHEMA} of kind host, layer or conv, with cases",
                  file=sys.stderr)
            return 1
        most = (10 if document["kind"] == "conv" else 3) if of.worst is None else of.worst
        document["goals"] = [evaluate(goal, document["cases"], most)
                             for goal in goals_of(document)]
        print("\n".join(map(to_text, document["goals"])))
        file.write_text(text_of(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
