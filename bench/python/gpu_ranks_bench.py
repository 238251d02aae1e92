#!/usr/bin/env python3
"""How proxies rank tiles on a GPU, against whole kernels. scripts/gpu/gpu.sh runs it.

    gpu_ranks_bench.py --program build/gpu/bench/gpu_tiles --json OUT

Each matrix is a process of its own (bench/gpu_tiles.cpp). `oracle` are whole kernels, what is held to
be true; the others are proxies, with and without each reduction. `loss` is how much longer a way's
choice takes than the least of the oracle's times, `tau` Kendall's of both, `pair_accuracy` the share
of pairs of different oracle's times that the way orders alike. Python's standard library is all it
needs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench_support import text_of

ROOT = Path(__file__).resolve().parents[2]
WAYS = ("oracle", "proxy-alone", "proxy-c++", "-kernels", "-blocks", "-iterations", "-occupancy")
# Uneven and even rows, from 6k to 300k nonzeros.
MATRICES = ((128, 96, 0.5, "uniform"), (512, 512, 0.7, "uniform"), (512, 512, 0.9, "uneven_rows"),
            (2048, 512, 0.9, "uniform"), (512, 2048, 0.9, "power_law"),
            (2048, 512, 0.7, "uniform"))
CASES = tuple((*matrix, n) for matrix in MATRICES for n in (128, 512))
REHEARSAL = ((128, 48, 0.9, "uniform", 128),)

Times = dict[str, float]


def name_of(case: tuple[Any, ...]) -> str:
    rows, cols, sparsity, pattern, n = case
    return f"{rows}x{cols} {100 * sparsity:.0f} % {pattern} n={n}"


def pairs_of(times: Times, truth: Times) -> list[tuple[float, float]]:
    """Of each pair of tiles that have both, how they differ in the two."""
    both = [tile for tile in times if tile in truth]
    return [(times[a] - times[b], truth[a] - truth[b])
            for a, b in itertools.combinations(both, 2)]


def kendall_tau(times: Times, truth: Times) -> float:
    """Tau-a: a pair that is tied in either counts as neither. 0 for fewer than two."""
    signs = [x * y for x, y in pairs_of(times, truth)]
    agreeing = sum(1 if sign > 0 else -1 for sign in signs if sign != 0)
    return agreeing / len(signs) if signs else 0.0


def pair_accuracy(times: Times, truth: Times) -> float:
    """1 without a pair of different times."""
    signs = [x * y for x, y in pairs_of(times, truth) if y != 0]
    return sum(sign > 0 for sign in signs) / len(signs) if signs else 1.0


def loss_of(tile: str | None, truth: Times) -> float:
    return truth[tile] / min(truth.values()) - 1 if tile in truth else 0.0


def times_of(told: dict[str, Any]) -> Times:
    return {one["tile"]: one["us"] for one in told["tiles"] if one["us"] is not None}


def way_of(told: dict[str, Any], truth: Times) -> dict[str, Any]:
    times = times_of(told)
    failures = [one["failure"] for one in told["tiles"] if one["failure"] is not None]
    return {"way": told["way"], "tile": told["chosen"], "timed": len(times), "failed": len(failures),
            "loss": loss_of(told["chosen"], truth), "tau": kendall_tau(times, truth),
            "pair_accuracy": pair_accuracy(times, truth), "seconds": told["seconds"],
            "problem": failures[0] if failures else ""}


def result_of(name: str, nnz: int, told: list[dict[str, Any]]) -> dict[str, Any]:
    """Of what the ways told, the oracle first. Throws RuntimeError where one timed nothing."""
    for way in told:
        if way["chosen"] is None:
            failure = next((one["failure"] for one in way["tiles"] if one["failure"]), "")
            raise RuntimeError(f"{way['way']} timed nothing: {failure}")
    truth, proxies = map(times_of, told[:2])
    return {"name": name, "nnz": nnz, "survivors": len(told[0]["tiles"]),
            "best_us": min(truth.values()),
            "instant_loss": loss_of(told[0]["tiles"][0]["tile"], truth),
            "ways": [way_of(one, truth) for one in told],
            "tiles": [{"tile": tile, "us": us, "proxy_us": proxies.get(tile)}
                      for tile, us in sorted(truth.items())],
            "failure": ""}


def without_times(result: dict[str, Any]) -> dict[str, Any]:
    """A rehearsal has no number that could be taken for a time."""
    for one in (result, *result["ways"], *result["tiles"]):
        one.update(dict.fromkeys(one.keys() & {
            "best_us", "instant_loss", "loss", "tau", "pair_accuracy", "seconds", "us",
            "proxy_us"}))
    return result


def table_of(result: dict[str, Any]) -> str:
    lines = [f"{result['name']}: {result['nnz']} nonzeros, {result['survivors']} tiles"]
    for way in result["ways"]:
        judged = ("rehearsed" if way["tau"] is None else
                  f"{way['tile']:<16} loss {100 * way['loss']:5.1f} %  tau {way['tau']:5.2f}  pairs "
                  f"{100 * way['pair_accuracy']:5.1f} %  {way['seconds']:7.2f} s")
        lines.append(f"  {way['way']:<12} {judged}  {way['timed']} timed, {way['failed']} failed")
    return "\n".join(lines)


class Bench:
    def __init__(self, of: argparse.Namespace) -> None:
        self.of = of
        self.counts = {"found": 0, "compiled": 0}
        self.has_failed = False

    def tell(self, *arguments: Any) -> list[dict[str, Any]]:
        """Throws RuntimeError with what the program says."""
        done = subprocess.run([self.of.program, "--device", str(self.of.device),
                               *map(str, arguments)], text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.partition("\n")[0] or f"status {done.returncode}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def run_case(self, case: tuple[Any, ...]) -> dict[str, Any]:
        of = self.of
        sizes = zip(("--rows", "--cols", "--sparsity", "--pattern", "--n"), case, strict=True)
        try:
            *ways, last = self.tell(
                *itertools.chain(*sizes), "--tiles", of.tiles,
                *self.cubins(),
                *(["--compile-only"] if of.precompile else []),
                *(["--rehearse", f"--ways={','.join(WAYS[:2])}"] if of.check_only else []))
            for name in self.counts:
                self.counts[name] += last[name]
            if of.precompile:
                return {"name": name_of(case), "failure": ""}
            result = result_of(name_of(case), last["nnz"], ways)
            return without_times(result) if of.check_only else result
        except RuntimeError as error:
            self.has_failed = True
            return {"name": name_of(case), "failure": str(error)}

    def cubins(self) -> list[Any]:
        folder = self.of.precompile or self.of.cubins
        return ["--cubins", folder, "--target", self.of.target] if folder else []

    def cases(self) -> tuple[tuple[Any, ...], ...]:
        return (REHEARSAL if self.of.check_only else CASES)[:self.of.first]

    def precompile(self) -> None:
        for case in self.cases():
            result = self.run_case(case)
            print(f"ranks {result['name']}: {result['failure'] or 'done'}", flush=True)

    def measure(self) -> None:
        of = self.of
        document = {**self.tell("--describe", *self.cubins())[0], "timed": not of.check_only, "cases_left": 0,
                    "ranks": []}
        if of.append and of.json and of.json.exists():
            earlier = json.loads(of.json.read_text(encoding="utf-8"))
            for name in ("device", "timed", "spjit"):
                if earlier.get(name) != document[name]:
                    raise SystemExit(f"{of.json}: --append goes on with a result that has "
                                     f"{name} {document[name]}")
            document["ranks"] = [one for one in earlier["ranks"] if not one["failure"]]
        begin, longest = time.monotonic(), 0.0
        for case in self.cases():
            if any(one["name"] == name_of(case) for one in document["ranks"]):
                continue
            start = time.monotonic()
            if of.max_minutes and start + longest - begin > 60 * of.max_minutes:
                document["cases_left"] += 1
                continue
            result = self.run_case(case)
            longest = max(longest, time.monotonic() - start)
            print(f"{result['name']}: FAILED: {result['failure']}" if result["failure"]
                  else table_of(result), flush=True)
            document["ranks"].append(result)
            self.save(document)
        if document["cases_left"]:
            print(f"stopped to end within {of.max_minutes:g} minutes: {document['cases_left']} cases "
                  "are left, --append goes on")
        document["cubins"] = self.counts
        self.save(document)

    def save(self, document: dict[str, Any]) -> None:
        if self.of.json:
            self.of.json.write_text(text_of(document), encoding="utf-8")

    def run(self) -> int:
        if self.of.precompile:
            self.precompile()
        else:
            self.measure()
        if self.of.precompile or self.of.cubins:
            print(f"{self.counts['found']} cubins found in the folder, {self.counts['compiled']} "
                  "compiled")
        return 1 if self.has_failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/gpu/bench/gpu_tiles"))
    parser.add_argument("--json", type=Path, help="written after each case")
    parser.add_argument("--append", action="store_true", help="keep the cases of --json's file")
    parser.add_argument("--max-minutes", type=float, default=0.0, help="begin no case that would "
                        "end later, were it as long as the longest; 0: go on")
    parser.add_argument("--tiles", type=int, default=0, help="of a case, spread over the ranking")
    parser.add_argument("--first", type=int, help="only so many cases")
    parser.add_argument("--check-only", action="store_true",
                        help="on the emulated driver: one small matrix and two ways, no times")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--target", help="what cubins are compiled for: sm_90:h100")
    parser.add_argument("--cubins", type=Path, help="load from there; what it lacks is compiled")
    parser.add_argument("--precompile", type=Path, help="only compile into there; needs no GPU")
    of = parser.parse_args()
    if (of.cubins or of.precompile) and not of.target:
        parser.error("--cubins and --precompile need --target")
    try:
        return Bench(of).run()
    except RuntimeError as error:
        print(f"gpu_ranks_bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
