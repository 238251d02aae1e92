"""Reads "spjit-side-by-side-1" (bench/README.md)."""

from __future__ import annotations

from collections.abc import Callable

from .model import SUBJECT, Case, Device, Library, Roofline, SideBySide, Timing
from .schema import Node

CACHES = {"L1d": "l1d_bytes", "L2": "l2_bytes", "L3": "l3_bytes"}
BANDWIDTHS = {"L1": "l1_gbytes_per_s", "L2": "l2_gbytes_per_s", "L3": "l3_gbytes_per_s",
              "DRAM": "dram_gbytes_per_s"}

# GFLOP/s are a consequence of the median; more than this apart, one of them has the wrong unit.
GFLOPS_TOLERANCE = 0.02


KINDS = ("host", "cuda")


def read_device(node: Node, kinds: tuple[str, ...] = KINDS) -> Device:
    caches = {name: size for name, member in CACHES.items()
              if (size := node.get(member).integer_or_none()) is not None}
    return Device(kind=node["kind"].text(kinds), name=node["name"].text(),
                  isa=node["isa"].text(), cpus=node.get("cpus").integer_or_none(),
                  cache_bytes=caches, load_average=node.get("load_average").number_or_none(),
                  sms=node.get("sms").integer_or_none())


def read_library(node: Node) -> Library:
    missing = node["missing"]
    return Library(node["name"].text(), node["version"].text_or(""), node["kind"].text(),
                   None if missing.is_null() else missing.text())


def check_times(node: Node, median_us: float) -> None:
    node["samples"].integer(1)
    if node["min_us"].number() > median_us:
        raise node["min_us"].expected(f"at most median_us, {median_us:g}")


def read_timing(node: Node, flops: float) -> Timing:
    timing = Timing(library=node["library"].text(), median_us=node["median_us"].number(0, True),
                    noise=node["noise"].number(), gflops=node["gflops"].number(),
                    cold_us=node.get("cold_us").number_or_none(),
                    prepare_ms=node.get("prepare_ms").number_or_none(),
                    prepare_kind=node.get("prepare_kind").text_or(""))
    check_times(node, timing.median_us)
    wanted = flops / timing.median_us * 1e-3
    if abs(timing.gflops - wanted) > GFLOPS_TOLERANCE * wanted + 1e-9:
        raise node["gflops"].expected(f"2 nnz n / median_us = {wanted:.4g} GFLOP/s")
    return timing


def read_timing_or_reason(node: Node, flops: float) -> Timing | str:
    reason = node.get("failed")
    return read_timing(node, flops) if reason.is_null() else reason.text()


def read_timings(node: Node, read: Callable[[Node], Timing | str], name_of: str = "library"
                 ) -> tuple[dict[str, Timing], dict[str, str]]:
    """The times, and why others have none. `read` makes one or the other of an item."""
    timings: dict[str, Timing] = {}
    failed: dict[str, str] = {}
    for item in node.items("timings"):
        name = item[name_of].text()
        if name in timings or name in failed:
            raise item.error(f"a second timing of {name}; expected one a library")
        match read(item):
            case Timing() as timing:
                timings[name] = timing
            case reason:
                failed[name] = reason
    return timings, failed


def read_case(node: Node) -> Case:
    rows, cols = node["rows"].integer(), node["cols"].integer()
    nnz, n = node["nnz"].integer(), node["n"].integer(1)
    if nnz > rows * cols:
        raise node["nnz"].expected(f"at most rows * cols = {rows * cols}")
    timings, failed = read_timings(node, lambda item: read_timing_or_reason(item, 2.0 * nnz * n))
    # A library that was found wrong has no time but a reason; the others of its case were right.
    found_wrong = any(reason.startswith("wrong") for reason in failed.values())
    return Case(set=node["set"].text(), matrix=node["matrix"].text(),
                layer=node.get("layer").text_or(""), rows=rows, cols=cols, nnz=nnz,
                sparsity=node["sparsity"].number(), n=n, threads=node["threads"].integer(1),
                peak_gflops=node.get("peak_gflops").number_or_none(),
                traffic_bytes=node.get("traffic_bytes").number_or_none(),
                checked=node["checked"].flag() or found_wrong, timings=timings, failed=failed)


def read_cases(node: Node, libraries: list[Library], read: Callable[[Node], Case] = read_case,
               wanted: Callable[[Node], bool] = lambda item: True) -> list[Case]:
    """Every case once, every timing of a library that the file lists."""
    known = {library.name for library in libraries}
    seen: set[tuple[str, str, int, int]] = set()
    cases = []
    for item in filter(wanted, node.items("cases")):
        case = read(item)
        if case.key in seen:
            raise item.error(f"a second case of {case.name}; expected one")
        unknown = (case.timings.keys() | case.failed.keys()) - known
        if unknown:
            raise item.error(f"a timing of {min(unknown)}, which libraries does not list")
        seen.add(case.key)
        cases.append(case)
    if not cases:
        raise node["cases"].error("is empty; expected at least one case")
    return cases


def read_roofline(node: Node) -> Roofline:
    if node.is_null():
        return Roofline()
    rates = {name: rate for name, member in BANDWIDTHS.items()
             if (rate := node.get(member).number_or_none()) is not None}
    return Roofline(node.get("fma_peak_gflops").number_or_none(), rates)


def read_side_by_side(node: Node) -> SideBySide:
    libraries = [read_library(item) for item in node.items("libraries")]
    cases = read_cases(node, libraries)
    # A rehearsal checks results; a time of it would be the emulation's.
    timed = any(case.timings for case in cases)
    device = read_device(node["device"], KINDS if timed else (*KINDS, "emulated"))
    return SideBySide(file=node.file, created=node["created"].text(),
                      command=node["command"].text(), device=device, libraries=libraries,
                      cases=cases, roofline=read_roofline(node.get("roofline")),
                      cases_in_all=node.get("cases_in_all").integer_or_none(len(cases)))
