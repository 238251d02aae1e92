#!/usr/bin/env python3
"""Seconds and memory to a finished kernel, way by way to search: the paper's table 2, for the host
and for GPU targets, of which without a GPU only the compiling is measured.

    search_cost_bench.py --program build/release/bench/search_way --json OUT

Each way is a process of its own (bench/search_way.cpp), killed after --limit seconds and repeated
where it is short. Python's standard library is all it needs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_support import text_of

ROOT = Path(__file__).resolve().parents[2]
# Layers of DLMC with 7k, 52k and 105k nonzeros, and what takes their places where there is no DLMC.
LAYERS = {
    "rn50/magnitude_pruning/0.95/bottleneck_2_block_group2_1_1": (128, 1152, 0.95),
    "transformer/magnitude_pruning/0.8/body_encoder_layer_0_self_attention_multihead_attention_q_"
    "fully_connected": (512, 512, 0.8),
    "transformer/magnitude_pruning/0.9/body_decoder_layer_0_ffn_conv1_fully_connected":
        (2048, 512, 0.9)}
# So small that the emulated driver gets through every way.
REHEARSAL = (24, 16, 0.75)
FULL = ("full undivided", "full units", "full ptx units")
WAYS = (*FULL, "proxies", "ranked", "instant")
SOURCES = {"full undivided": "CUDA C++ undivided through NVRTC",
           "full units": "CUDA C++ in units through NVRTC"}
# Of the limit: what all runs of a way that is repeated may take.
REPEAT_SHARE = 1 / 6
HEADER = (f"{'matrix':<36} {'nnz':>7} {'n':>4} {'target':<12} {'way':<15} {'tiles':>6} "
          f"{'compiled':>8} {'seconds':>10} {'estimate':>9} {'peak MiB':>9}  note")


@dataclass
class Run:
    """What a process told until it ended or was killed."""

    seconds: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)  # rows, cols, nnz
    candidates: int = 0  # tiles that it makes code for, itself or as a proxy; 0: unknown
    compiled: int = 0  # kernels or proxies done, failures among them
    failed: int = 0
    begun_s: float = 0.0  # when the first of them was begun
    latest_s: float = 0.0  # when the latest one was done
    note: str = ""
    cpu_seconds: float = 0.0
    peak_mib: float = 0.0
    failure: str = ""
    killed: bool = False

    def hear(self, line: str) -> None:
        told = json.loads(line)
        if "done_s" in told:
            self.compiled += 1
            self.failed += told["failed"]
            self.latest_s = told["done_s"]
        elif "nnz" in told:
            self.sizes = told
        else:
            for name in told.keys() & {"candidates", "begun_s", "note", "seconds"}:
                setattr(self, name, told[name])


def run_in_process(command: list[str], limit_s: float) -> Run:
    run = Run()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
    reader.start()
    killer = threading.Timer(limit_s, process.kill)
    for number, line in enumerate(process.stdout or ()):
        if number == 0:  # the matrix is in memory
            killer.start()
        if line.endswith("\n"):  # else it was cut off by the kill
            run.hear(line)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    killer.cancel()
    run.killed = killer.finished.is_set() and process.returncode == -signal.SIGKILL
    reader.join()
    run.cpu_seconds = usage.ru_utime + usage.ru_stime
    run.peak_mib = usage.ru_maxrss / 1024
    if run.killed:
        run.failure = f"over {limit_s:g} s"
    elif process.returncode != 0:
        run.failure = (errors or [f"the process ended with {process.returncode}"])[0].strip()
    return run


def estimate_seconds(run: Run) -> float | None:
    """What all candidates would take at the mean pace of those that were compiled; none where that
    says nothing."""
    if run.compiled < 1 or run.candidates <= run.compiled:
        return None
    return run.begun_s + (run.latest_s - run.begun_s) / run.compiled * run.candidates


def deciding(runs: list[Run]) -> Run:
    """One that did not come to its end, else the one with the middle time."""
    ended = [run for run in runs if run.failure]
    return ended[0] if ended else sorted(runs, key=lambda run: run.seconds)[(len(runs) - 1) // 2]


def row_of(head: dict[str, Any], runs: list[Run], limit_s: float, note: str) -> dict[str, Any]:
    run = deciding(runs)
    full = head["way"] in FULL
    estimate = estimate_seconds(run) if run.killed and full else None
    # The host's searches tell what they looked at when they are done, and count nothing before.
    counts = run.compiled > 0 or (run.killed and run.candidates > 0)
    notes = [note, run.note, f"{run.failed} of {run.compiled} did not compile" if run.failed else "",
             f"killed: {run.failure}" if run.killed else ""]
    return {**head, **run.sizes, "candidates": run.candidates or None,
            "compiled": run.compiled if full and counts else None,
            "seconds": limit_s if run.killed else run.seconds,
            "estimated_seconds": None if estimate is None else max(estimate, limit_s),
            "cpu_seconds": run.cpu_seconds, "peak_mib": run.peak_mib, "killed": run.killed,
            "runs": len(runs), "note": "; ".join(filter(None, notes))}


def line_of(row: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        return "-" if value is None else f"{value:.0f}"

    name = row["matrix"] if len(row["matrix"]) <= 36 else "~" + row["matrix"][-35:]
    seconds = ("≥" if row["killed"] else "") + f"{row['seconds']:.4g}"
    return (f"{name:<36} {row['nnz']:>7} {row['n']:>4} {row['target']:<12} {row['way']:<15} "
            f"{shown(row['candidates']):>6} {shown(row['compiled']):>8} {seconds:>10} "
            f"{shown(row['estimated_seconds']):>9} {row['peak_mib']:>9.1f}  {row['note']}")


def note_of(target: dict[str, Any], way: str, rehearse: bool) -> str:
    """Of every row of a GPU target."""
    source = SOURCES.get(way, "PTX in units through nvJitLink")
    if rehearse:
        return f"rehearsed on {target['product']}, in no real time"
    if target["gpu"] is None:
        return f"compile part alone, no GPU; {source}"
    # It times nothing anywhere.
    return source if way == "instant" else f"timed on {target['product']}; {source}"


class Bench:
    """Measures the ways one after another. What there is by then is saved after each."""

    def __init__(self, of: argparse.Namespace) -> None:
        self.of = of
        self.begin = time.monotonic()
        self.failures = 0
        device = self.described("host")
        if of.rehearse:
            device["device"]["kind"] = "emulated"
        self.document: dict[str, Any] = {
            "schema": "spjit-search-cost-1",
            "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "spjit": device["spjit"], "device": device["device"], "limit_s": of.limit,
            "compile_threads": of.threads, "seed": of.seed, "cuda_targets": [], "left_out": [],
            "rows": []}

    def described(self, target: str) -> dict[str, Any]:
        """Throws RuntimeError where the target's kernels cannot be compiled here."""
        done = subprocess.run([self.of.program, "--describe", "--target", target], text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.partition("\n")[0])
        return json.loads(done.stdout)

    def leave_out(self, what: str) -> None:
        print(f"left out: {what}", flush=True)
        self.document["left_out"].append(what)

    def save(self) -> None:
        if self.of.json is not None:
            self.of.json.write_text(text_of(self.document), encoding="utf-8")

    def cases(self) -> list[tuple[str, list[str]]]:
        """Names, and how the program is told of them."""
        cases = []
        for name in self.of.matrices:
            if self.of.data.is_dir() and not self.of.rehearse:
                cases.append((name, ["--matrix", str(self.of.data / f"{name}.smtx")]))
                continue
            sizes = REHEARSAL if self.of.rehearse else LAYERS[name]
            rows, cols, sparsity = map("{:g}".format, sizes)
            cases.append((f"uniform/{rows}x{cols}/{sparsity}", ["--uniform", rows, cols, sparsity]))
        return cases[:1] if self.of.rehearse else cases

    def target(self, name: str) -> dict[str, Any]:
        target = self.described(name)
        if "gpu" not in target:
            return target
        emulated = target["product"].startswith("emulated")
        if self.of.rehearse and target["gpu"] is None:
            raise RuntimeError(target["problem"])
        if emulated and not self.of.rehearse:
            raise RuntimeError(f"{target['product']}: has no times; expected a GPU, or --rehearse")
        timed = target["gpu"] is not None and not self.of.rehearse
        record = {"target": target["target"], "toolchain": target["toolchain"],
                  "timed_on": target["product"] if timed else None}
        if not timed:
            record["problem"] = (f"rehearsed on {target['product']}" if self.of.rehearse
                                 else target["problem"])
        self.document["cuda_targets"].append(record)
        return target

    def measure(self, name: str, target: dict[str, Any], case: tuple[str, list[str]], n: int,
                way: str) -> None:
        of = self.of
        cuda = "gpu" in target
        head = {"matrix": case[0], "rows": 0, "cols": 0, "nnz": 0, "n": n,
                "target": target["target"], "way": way,
                "compile_only": cuda and target["gpu"] is None}
        what = f"{case[0]}, n = {n}, {target['target']}, {way}"
        if of.max_minutes and time.monotonic() - self.begin > 60 * of.max_minutes:
            self.leave_out(f"{what}: not begun after {of.max_minutes:g} minutes")
            return
        command = [of.program, *case[1], "--n", n, "--target", name, "--way", way, "--limit",
                   of.limit, "--threads", of.threads, "--seed", of.seed]
        if cuda and target["gpu"] is not None:
            command += ["--gpu", target["gpu"], *(["--rehearse"] if of.rehearse else [])]
        runs: list[Run] = []
        while not runs or (not runs[-1].failure and len(runs) < of.repeats and
                           sum(run.seconds for run in runs) < REPEAT_SHARE * of.limit):
            runs.append(run_in_process([*map(str, command)], of.limit))
        row = row_of(head, runs, of.limit, note_of(target, way, of.rehearse) if cuda else "")
        if (run := deciding(runs)).failure and not run.killed:
            self.failures += 1
            self.leave_out(f"{what}: {run.failure}")
        else:
            print(line_of(row), flush=True)
            self.document["rows"].append(row)
        self.save()

    def run(self) -> int:
        print(HEADER, flush=True)
        for name in self.of.targets:
            try:
                target = self.target(name)
            except RuntimeError as error:
                self.failures += 1
                self.leave_out(f"{name}: {error}")
                continue
            for case in self.cases():
                for n in [64] if self.of.rehearse else self.of.n:
                    for way in self.of.ways:
                        if "gpu" in target or way not in FULL[1:]:  # the host has no units
                            self.measure(name, target, case, n, way)
        if not self.document["rows"]:
            print("search_cost_bench: nothing could be measured", file=sys.stderr)
            return 2
        self.save()
        return 1 if self.failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bench/search_way"))
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data/dlmc",
                        help="folder of .smtx files; without it matrices are generated")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--matrices", nargs="+", default=list(LAYERS),
                        help="paths below --data, without .smtx")
    parser.add_argument("--n", type=int, nargs="+", default=[512], help="columns of B")
    parser.add_argument("--targets", nargs="+", default=["host", "sm_90"])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a way")
    parser.add_argument("--repeats", type=int, default=3, help="of a way that takes little time")
    parser.add_argument("--threads", type=int, default=1,
                        help="that compile for a GPU; 0: one a CPU")
    parser.add_argument("--seed", type=int, default=1, help="of the order of whole kernels")
    parser.add_argument("--max-minutes", type=float, default=0.0,
                        help="begin no other way after this long; 0: go on to the end")
    parser.add_argument("--rehearse", action="store_true",
                        help="a tiny matrix on the emulated driver: no time means anything")
    of = parser.parse_args()
    unknown = [name for name in of.matrices if name not in LAYERS]
    if unknown and not of.data.is_dir():
        parser.error(f"{unknown[0]}: has no file; expected one below --data")
    return Bench(of).run()


if __name__ == "__main__":
    sys.exit(main())
