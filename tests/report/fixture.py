"""Result files with made-up numbers that can be checked by hand, and the scripts that read them."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BENCH_DIR = Path(os.environ.get("SPJIT_BENCH_DIR", ROOT / "build/release/bench"))
# Its command.
SEARCH_COST = (sys.executable, ROOT / "bench/python/search_cost_bench.py", "--program",
               BENCH_DIR / "search_way")
sys.path.insert(0, str(ROOT / "bench"))

DEVICE = {"kind": "host", "name": "Test CPU 9000", "isa": "avx512", "cpus": 2, "l1d_bytes": 49152,
          "l2_bytes": 1048576, "l3_bytes": 33554432, "load_average": 0.1}
LIBRARIES = [
    {"name": "spjit", "version": "0.1.0", "kind": "jit", "missing": None},
    {"name": "csr", "version": "0.1.0", "kind": "sparse", "missing": None},
    {"name": "openblas", "version": "OpenBLAS 0.3.21", "kind": "dense", "missing": None},
    {"name": "mkl", "version": "", "kind": "sparse", "missing": "libmkl_rt.so.2 was not found"},
]
ROOFLINE = {"fma_peak_gflops": 140.5, "l1_gbytes_per_s": 501.0, "l2_gbytes_per_s": 252.0,
            "l3_gbytes_per_s": 83.0, "dram_gbytes_per_s": 21.0}


def timing(library: str, median_us: float, flops: float, **more: Any) -> dict:
    return {"library": library, "median_us": median_us, "min_us": 0.9 * median_us, "noise": 0.01,
            "samples": 31, "gflops": flops / median_us * 1e-3, "cold_us": None, "prepare_ms": None,
            "prepare_kind": "", "detail": "", "failed": None, **more}


def failed_timing(library: str, reason: str) -> dict:
    return {"library": library, "median_us": None, "min_us": None, "noise": None, "samples": 0,
            "gflops": None, "cold_us": None, "prepare_ms": None, "prepare_kind": "", "detail": "",
            "failed": reason}


def case(matrix: str, medians: dict[str, float], **more: Any) -> dict:
    """512 x 512 at 90 %, n = 128, one thread: 6,710,784 flops."""
    made = {"set": "dlmc", "matrix": matrix, "layer": "", "rows": 512, "cols": 512, "nnz": 26214,
            "sparsity": 0.9, "n": 128, "threads": 1, "peak_gflops": 280.0, "traffic_bytes": 736000,
            "checked": True, **more}
    flops = 2.0 * made["nnz"] * made["n"]
    made["timings"] = [timing(name, us, flops) for name, us in medians.items()]
    return made


def side_by_side(cases: list[dict], **more: Any) -> dict:
    return copy.deepcopy({"schema": "spjit-side-by-side-1", "created": "2026-01-02T03:04:05Z",
                          "command": "side_by_side_bench --n 128", "device": DEVICE,
                          "libraries": LIBRARIES, "cases": cases, "roofline": ROOFLINE, **more})


def two_cases() -> dict:
    """Speed-ups of 2 and 8 over OpenBLAS: 4 in the geometric mean."""
    return side_by_side([
        case("a.smtx", {"spjit": 12.34, "csr": 24.68, "openblas": 24.68}, sparsity=0.5, nnz=131072),
        case("b.smtx", {"spjit": 11.11, "csr": 22.22, "openblas": 88.88})])


def search_cost(rows: list[dict]) -> dict:
    return copy.deepcopy({"schema": "spjit-search-cost-1", "created": "2026-01-02T03:04:05Z",
                          "device": DEVICE, "rows": rows})


def search_row(matrix: str, way: str, seconds: float, **more: Any) -> dict:
    return {"matrix": matrix, "rows": 512, "cols": 512, "nnz": 26214, "n": 128,
            "target": "host-avx512", "way": way, "candidates": 24, "seconds": seconds,
            "peak_mib": 123.4, "killed": False, "note": "", **more}


def lab(kind: str, cases: list[dict], **more: Any) -> dict:
    """As lab_bench writes it."""
    return copy.deepcopy({"schema": "spjit-lab-1", "kind": kind, "created": "2026-01-02T03:04:05Z",
                          "command": f"lab_bench {kind}", "device": DEVICE, "libraries": LIBRARIES,
                          "workloads": [], "cases": cases, "goals": [], **more})


def lab_case(workload: str, timings: list[dict], **more: Any) -> dict:
    """512 x 512 at 90 %, n = 128, one thread."""
    return {"workload": workload, "rows": 512, "cols": 512, "layers": 1, "nnz": 26214,
            "sparsity": 0.9, "n": 128, "threads": 1, "caches": "cold", "facts": {},
            "timings": timings, **more}


def lab_timing(way: str, median_us: float | None, **more: Any) -> dict:
    return {"way": way, "median_us": median_us, "min_us": 0.9 * median_us if median_us else None,
            "noise": 0.01, "samples": 9, "ratio": None, "ratio_error": None, "chosen": ["compact"],
            "prepare_ms": 12.5, "failed": None, **more}


def lab_failed(way: str, reason: str) -> dict:
    return lab_timing(way, None, failed=reason, samples=0, noise=None, chosen=[], prepare_ms=None)


def lab_goal(goal: str, measured: float, wanted: float | None, state: str, **more: Any) -> dict:
    return {"goal": goal, "over": "mean", "measured": measured, "wanted": wanted, "unit": "x",
            "where": "3 cases", "cases": 3, "state": state, "worst": [], **more}


def to_record_lines(document: dict) -> str:
    """As bench/json_file.hpp writes it: a line a record."""
    def text_of(member: Any) -> str:
        if not isinstance(member, list) or not member:
            return json.dumps(member)
        return "[\n" + ",\n".join(f"  {json.dumps(record)}" for record in member) + "\n ]"
    members = (f" {json.dumps(name)}: {text_of(member)}" for name, member in document.items())
    return "{\n" + ",\n".join(members) + "\n}\n"


class ReportTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="spjit-report-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, document: dict | str, name: str = "result.json") -> Path:
        path = self.folder / name
        text = document if isinstance(document, str) else to_record_lines(document)
        path.write_text(text, encoding="utf-8")
        return path

    def run_script(self, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        # Without the packages of this machine (-S), of which the scripts need none.
        command = [sys.executable, "-S", str(ROOT / "scripts" / "data" / name), *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=300, check=False)

    def make_page(self, *documents: dict) -> str:
        """The Markdown, with its pictures' text in place of their links."""
        files = [self.write(d, f"{i}.json") for i, d in enumerate(documents)]
        result = self.run_script("bench_report.py", *files, "--markdown", "report.md")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        page = (self.folder / "report.md").read_text(encoding="utf-8")
        return re.sub(r"!\[.*?\]\((report-figures/[^)]*)\)", lambda link: re.sub(
            r"\n| xmlns=\"[^\"]*\"", "", (self.folder / link[1]).read_text(encoding="utf-8")), page)


def plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def add_text(parent: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(parent, tag).text = plain(text)


def add_table(page: ElementTree.Element, caption: str, lines: list[str]) -> None:
    table = ElementTree.SubElement(page, "table")
    add_text(table, "caption", caption.strip("*"))
    head, body = ElementTree.SubElement(table, "thead"), ElementTree.SubElement(table, "tbody")
    for index, line in enumerate(lines):
        row = ElementTree.SubElement(body if index > 1 else head, "tr")
        for cell in re.split(r" (?<!\\)\| ?", line.removeprefix("| "))[:-1]:
            add_text(row, "td" if index else "th", cell)


def parse_page(page: str) -> ElementTree.Element:
    """The report's Markdown as elements that are named as in HTML."""
    root = ElementTree.Element("page")
    above = ""
    for block in page.rstrip("\n").split("\n\n"):
        if heading := re.fullmatch(r"(#+) (.*)", block):
            add_text(root, f"h{len(heading[1])}", heading[2])
        elif block.startswith("<svg"):
            ElementTree.SubElement(root, "figure").append(ElementTree.fromstring(block))
        elif block.startswith("|"):
            add_table(root, above, block.split("\n"))
        elif block.startswith("- ") and not block.startswith("- **"):
            facts = ElementTree.SubElement(root, "dl")
            for line in block.split("\n"):
                name, value = line.removeprefix("- ").split(": ", 1)
                add_text(facts, "dt", name)
                add_text(facts, "dd", value)
        else:
            add_text(root, "p", block)
        above = block
    return root


def table_rows(page: ElementTree.Element, caption: str) -> list[list[str]]:
    """The rows below the head of the tables whose caption begins so."""
    return [[cell.text or "" for cell in row] for table in page.iter("table")
            if table.find("caption").text.startswith(caption) for row in table.find("tbody")]
