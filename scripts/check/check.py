#!/usr/bin/env python3
"""Runs the stages of .ci/stages.toml: what .ci/run and scripts/check/full_check.sh do.

    scripts/check/check.py ci [--dry-run]
    scripts/check/check.py full [--only STAGE]... [--again] [--dry-run]

`ci` runs the stages that always run, those that a change since the commit in .ci/base touches, and
one of the others, whose turn it is by the number of commits up to that commit: a second try has the
same turn. Touched stages begin with the turn, too, and end where the CPU time of a run is spent; what
is left out is named. Without that commit here, everything counts as touched.

`full` runs every stage in its long form. A stage that passed before is not run again unless a path
that touches it changed since (--again: whatever changed). When all have passed here, .ci/base names
this commit. Logs are in build/full_check.

Both measure each stage's CPU time, all processes, and compare it with the stage's budget in
.ci/budget.toml: times what a compilation takes here, over what it took where budgets were written.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from check_dependencies import LIBRARY  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
JOBS = int(os.environ.get("SPJIT_JOBS") or len(os.sched_getaffinity(0)))
KEYS = {"name", "run", "long", "always", "only_long", "touched"}
YARDSTICK = """\
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
bool is_word(const std::string& s) { return std::regex_match(s, std::regex("[a-z]+")); }
"""


class Bad(Exception):
    """The list of stages, or what was asked for, is wrong."""


@dataclasses.dataclass(frozen=True)
class Stage:
    name: str
    run: str
    long: str
    minutes: float  # CPU time of `run` where the yardstick takes yardstick_s
    long_minutes: float = 0  # of `long`; 0: not known
    always: bool = False
    only_long: bool = False
    touched: tuple[str, ...] = ()

    def is_touched(self, paths: list[str]) -> bool:
        return any(re.search(pattern, path) for pattern in self.touched for path in paths)


@dataclasses.dataclass(frozen=True)
class Stages:
    stages: tuple[Stage, ...]
    limit_minutes: float
    yardstick_s: float
    over_budget: float
    touch_all: tuple[str, ...]

    def touched(self, stage: Stage, paths: list[str] | None) -> bool:
        """Whether a change of these paths, or of unknown ones (None), may break the stage."""
        if paths is None or any(re.search(each, path) for each in self.touch_all for path in paths):
            return True
        return (stage.always and paths != []) or stage.is_touched(paths)


def read_stages(text: str, budget: str) -> Stages:
    """Of .ci/stages.toml and .ci/budget.toml. Throws Bad."""
    try:
        listed, limits = tomllib.loads(text), tomllib.loads(budget)
        minutes, long_minutes = limits.pop("minutes"), limits.pop("long_minutes")
        library = "|".join(("include", *LIBRARY))
        stages = []
        for each in listed["stage"]:
            name = each["name"]
            if unknown := set(each) - KEYS:
                raise Bad(f"stage '{name}' has {sorted(unknown)}; expected {sorted(KEYS)}")
            if not (each.get("always") or each.get("only_long") or each.get("touched")):
                raise Bad(f"nothing runs stage '{name}': expected always, only_long or touched")
            touched = tuple(pattern.replace("{library}", library)
                            for pattern in each.get("touched", ()))
            each = {"long": each["run"], **each, "touched": touched}
            stages.append(Stage(minutes=0 if each.get("only_long") else minutes[name],
                                long_minutes=long_minutes.get(name, 0), **each))
        names = [stage.name for stage in stages]
        if len(set(names)) != len(names):
            raise Bad("two stages have one name")
        if unknown := (set(minutes) | set(long_minutes)) - set(names):
            raise Bad(f"there is a budget of {sorted(unknown)}, which are no stages")
        return Stages(tuple(stages), touch_all=tuple(listed["touch_all"]), **limits)
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise Bad(f"the list of stages cannot be read: {error}") from error


@dataclasses.dataclass(frozen=True)
class Plan:
    chosen: tuple[Stage, ...]
    left_out: tuple[tuple[Stage, str], ...]  # with the reason


def plan_of(stages: Stages, paths: list[str] | None, turn: int) -> Plan:
    """The stages of one run of CI."""
    others = [stage for stage in stages.stages if not stage.always and not stage.only_long]
    start = turn % len(others) if others else 0
    others = others[start:] + others[:start]
    touched = [stage for stage in others if stages.touched(stage, paths)]
    resting = [stage for stage in others if stage not in touched]
    wanted = {stage.name for stage in stages.stages if stage.always}
    spent = sum(stage.minutes for stage in stages.stages if stage.always)
    reasons = {stage.name: "only in the full check" for stage in stages.stages if stage.only_long}
    reasons.update((stage.name, "not touched") for stage in resting[1:])
    for place, stage in enumerate(resting[:1] + touched):
        if place > 0 and spent + stage.minutes > stages.limit_minutes:
            reasons[stage.name] = (f"touched, but {stage.minutes:g} minutes more than the "
                                   f"{stages.limit_minutes:g} of a run; its turn comes")
        else:
            wanted.add(stage.name)
            spent += stage.minutes
    return Plan(tuple(stage for stage in stages.stages if stage.name in wanted),
                tuple((stage, reasons[stage.name]) for stage in stages.stages
                      if stage.name not in wanted))


def git(*arguments: str) -> str | None:
    """What git prints; None if it fails."""
    run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True,
                         check=False)
    return run.stdout.strip() if run.returncode == 0 else None


def changed_since(commit: str) -> list[str] | None:
    """Paths; None where the commit is not here. Precondition: it is no option of git's."""
    if not re.fullmatch("[0-9a-f]{40}", commit):
        return None
    changed = git("diff", "--name-only", "--no-renames", commit, "HEAD")
    return None if changed is None else changed.split("\n") if changed else []


def yardstick_cpu_s() -> float:
    """CPU time of a compilation while every core has one: what minutes are worth here."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "yardstick.cpp"
        source.write_text(YARDSTICK)
        before = cpu_s()
        runs = [subprocess.Popen(["c++", "-std=c++20", "-O2", "-c", str(source), "-o",
                                  f"{folder}/{job}.o"]) for job in range(JOBS)]
        if any([run.wait() for run in runs]):
            raise Bad("c++ does not compile the yardstick")
        return (cpu_s() - before) / JOBS


def cpu_s() -> float:
    """Of all that this process has started and that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclasses.dataclass(frozen=True)
class Result:
    stage: Stage
    status: int
    cpu_minutes: float
    wall_s: float
    budget: float  # CPU minutes here; 0: none

    def fault(self, over_budget: float) -> str:
        if self.status != 0:
            return f"failed with exit status {self.status}"
        if self.budget > 0 and self.cpu_minutes > over_budget * self.budget:
            return (f"took {self.cpu_minutes:.1f} minutes of CPU time; expected at most "
                    f"{over_budget:g} times its {self.budget:.1f} (.ci/budget.toml)")
        return ""


def run_stage(stage: Stage, command: str, budget: float, log: Path | None = None) -> Result:
    print(f"\n==> stage {stage.name}", flush=True)
    start, before = time.monotonic(), cpu_s()
    if log is not None:
        command = f"{{ {command}\n}} 2>&1 | tee '{log}'"
    status = subprocess.run(["bash", "-c", f"set -euo pipefail\n{command}"], cwd=ROOT,
                            env={**os.environ, "SPJIT_JOBS": str(JOBS)}, check=False).returncode
    result = Result(stage, status, (cpu_s() - before) / 60, time.monotonic() - start, budget)
    print(f"==> stage {stage.name}: {'passed' if status == 0 else 'FAILED'} after "
          f"{result.wall_s:.0f} s", flush=True)
    return result


def print_results(results: list[Result], stages: Stages) -> None:
    print("\n| stage | CPU min | budget here | wall s | |\n|---|---|---|---|---|")
    for result in results:
        budget = f"{result.budget:.1f}" if result.budget else ""
        print(f"| {result.stage.name} | {result.cpu_minutes:.1f} | {budget} | "
              f"{result.wall_s:.0f} | {result.fault(stages.over_budget) or 'passed'} |")
    print(f"| all | {sum(result.cpu_minutes for result in results):.1f} | | "
          f"{sum(result.wall_s for result in results):.0f} | |", flush=True)


def ci(stages: Stages, dry_run: bool) -> int:
    base = (ROOT / ".ci/base").read_text().strip()
    paths = changed_since(base)
    turn = int(git("rev-list", "--count", base if paths is not None else "HEAD") or 0)
    os.environ.update(SPJIT_CHECK_BASE=base if paths is not None else "",
                      SPJIT_TURN=str(turn))
    plan = plan_of(stages, paths, turn)
    print(f"{'an unknown number of' if paths is None else len(paths)} paths changed since {base}; "
          f"turn {turn}")
    for stage in plan.chosen:
        print(f"  runs: {stage.name} ({stage.minutes:g} minutes)")
    for stage, reason in plan.left_out:
        print(f"  left out: {stage.name}: {reason}")
    if dry_run:
        return 0
    scale = yardstick_cpu_s() / stages.yardstick_s
    print(f"a minute of the budgets is {scale:.2f} minutes of CPU time here", flush=True)
    results: list[Result] = []
    for stage in plan.chosen:
        results.append(run_stage(stage, stage.run, stage.minutes * scale))
        if results[-1].status != 0:
            break
    print_results(results, stages)
    return report_faults(results, stages)


def report_faults(results: list[Result], stages: Stages) -> int:
    faults = [(result.stage.name, fault) for result in results
              if (fault := result.fault(stages.over_budget))]
    for name, fault in faults:
        print(f"stage {name} {fault}", file=sys.stderr)
    return 1 if faults else 0


def passed_before(stages: Stages, stage: Stage, record: Path) -> bool:
    try:
        paths = changed_since(json.loads(record.read_text())["commit"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return paths is not None and not stages.touched(
        stage, [path for path in paths if path != ".ci/base"])


def full(stages: Stages, only: list[str], again: bool, dry_run: bool) -> int:
    if unknown := set(only) - {stage.name for stage in stages.stages}:
        raise Bad(f"there is no stage {sorted(unknown)}; expected "
                  f"{', '.join(stage.name for stage in stages.stages)}")
    if git("status", "--porcelain", "--", ".", ":!.ci/base"):
        raise Bad("there are changes without a commit; a full check is of a commit")
    commit = git("rev-parse", "HEAD")
    if commit is None:
        raise Bad("there is no commit here; a full check is of a commit")
    logs = ROOT / "build/full_check"
    logs.mkdir(parents=True, exist_ok=True)
    wanted = [stage for stage in stages.stages if stage.long]
    scale = None
    results = []
    for stage in wanted:
        record = logs / f"{stage.name}.json"
        if only and stage.name not in only:
            continue
        if not again and passed_before(stages, stage, record):
            print(f"passed before: {stage.name}")
            continue
        if dry_run:
            print(f"to run: {stage.name}")
            continue
        scale = yardstick_cpu_s() / stages.yardstick_s if scale is None else scale
        result = run_stage(stage, stage.long, stage.long_minutes * scale, logs / f"{stage.name}.log")
        results.append(result)
        if result.fault(stages.over_budget):
            record.unlink(missing_ok=True)
            continue
        written = record.with_suffix(".new")
        written.write_text(json.dumps({"commit": commit, "cpu_minutes": result.cpu_minutes,
                                       "wall_s": result.wall_s}))
        written.replace(record)
    print_results(results, stages)
    if not dry_run and all(passed_before(stages, stage, logs / f"{stage.name}.json")
                           for stage in wanted):
        (ROOT / ".ci/base").write_text(f"{commit}\n")
        print(f"all stages have passed; .ci/base names {commit}: commit it")
    return report_faults(results, stages)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ci", "full"))
    parser.add_argument("--only", action="append", default=[], metavar="STAGE")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if options.what == "ci" and (options.only or options.again):
        parser.error("--only and --again are for the full check")
    try:
        stages = read_stages((ROOT / ".ci/stages.toml").read_text(),
                             (ROOT / ".ci/budget.toml").read_text())
        if options.what == "ci":
            return ci(stages, options.dry_run)
        return full(stages, options.only, options.again, options.dry_run)
    except (Bad, OSError) as error:
        print(f"check.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
