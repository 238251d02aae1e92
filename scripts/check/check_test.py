#!/usr/bin/env python3
"""Stages and changes made up, and what check.py and tidy.py choose to run of them."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check  # noqa: E402
import tidy  # noqa: E402

STAGES = r"""
touch_all = ['^cmake/']
[[stage]]
name = 'tests'
run = 'echo tests >>ran'
long = 'echo long tests >>ran'
always = true
[[stage]]
name = 'bench'
run = 'echo bench >>ran'
touched = ['^bench/']
[[stage]]
name = 'fuzz'
run = 'echo fuzz >>ran'
touched = ['^base/', 'reader']
[[stage]]
name = 'threads'
run = 'echo threads >>ran'
touched = ['^base/pool']
[[stage]]
name = 'soak'
run = ''
long = 'echo soak >>ran'
only_long = true
"""
BUDGET = """
yardstick_s = 3.0
limit_minutes = 60
over_budget = 1.5
[minutes]
tests = 30
bench = 10
fuzz = 15
threads = 10
[long_minutes]
"""


def names(plan: check.Plan) -> list[str]:
    return [stage.name for stage in plan.chosen]


class Plans(unittest.TestCase):
    stages = check.read_stages(STAGES, BUDGET)

    def test_what_is_not_touched_has_its_turn(self):
        for turn, expected in ((0, "bench"), (1, "fuzz"), (2, "threads"), (3, "bench")):
            plan = check.plan_of(self.stages, ["README.md"], turn)
            self.assertEqual(names(plan), ["tests", expected])

    def test_touched_stages_run_beside_one_in_turn(self):
        plan = check.plan_of(self.stages, ["matrix/mtx_reader.cpp"], 2)
        self.assertEqual(names(plan), ["tests", "fuzz", "threads"])
        self.assertEqual([(stage.name, reason) for stage, reason in plan.left_out],
                         [("bench", "not touched"), ("soak", "only in the full check")])

    def test_a_run_ends_where_its_time_is_spent_and_begins_with_the_turn(self):
        for turn, expected in ((0, ["tests", "bench", "fuzz"]), (1, ["tests", "fuzz", "threads"]),
                               (2, ["tests", "bench", "threads"])):
            plan = check.plan_of(self.stages, ["cmake/Spjit.cmake"], turn)
            self.assertEqual(names(plan), expected)
            self.assertTrue(any(reason.startswith("touched, but")
                                for _, reason in plan.left_out), plan.left_out)

    def test_unknown_changes_touch_everything(self):
        plan = check.plan_of(self.stages, None, 0)
        self.assertEqual(names(plan), ["tests", "bench", "fuzz"])

    def test_the_first_in_turn_runs_whatever_it_takes(self):
        stages = check.read_stages(STAGES, BUDGET.replace("fuzz = 15", "fuzz = 500"))
        self.assertEqual(names(check.plan_of(stages, ["README.md"], 1)), ["tests", "fuzz"])


class Lists(unittest.TestCase):
    def refused(self, text: str, stages: str = STAGES, budget: str = BUDGET) -> None:
        with self.assertRaisesRegex(check.Bad, text):
            check.read_stages(stages, budget)

    def test_wrong_lists_are_refused(self):
        self.refused("has .'wen'.", stages=STAGES + "wen = 1\n")
        self.refused("nothing runs stage 'soak'", stages=STAGES.replace("only_long = true", ""))
        self.refused("two stages have one name", stages=STAGES.replace("'bench'", "'fuzz'"))
        self.refused("no stages", budget=BUDGET + "sok = 3\n")
        self.refused("'bench'", budget=BUDGET.replace("bench = 10", ""))
        self.refused("cannot be read", stages="[")

    def test_the_list_of_this_repository_is_right(self):
        root = Path(check.__file__).resolve().parents[2]
        stages = check.read_stages((root / ".ci/stages.toml").read_text(),
                                   (root / ".ci/budget.toml").read_text())
        always = sum(stage.minutes for stage in stages.stages if stage.always)
        self.assertLess(always, stages.limit_minutes)
        self.assertRegex((root / ".ci/base").read_text(), r"\A[0-9a-f]{40}\n\Z")
        untouched = [stage.name for stage in stages.stages
                     if not stages.touched(stage, ["kernels/host/csr/csr_kernel.cpp"])]
        self.assertEqual(untouched, ["benchmarks", "servers"])


class Faults(unittest.TestCase):
    def result(self, status: int, minutes: float, budget: float) -> str:
        stage = Plans.stages.stages[0]
        return check.Result(stage, status, minutes, 60, budget).fault(1.5)

    def test_a_stage_fails_by_its_status_or_its_time(self):
        self.assertEqual(self.result(0, 14.9, 10), "")
        self.assertEqual(self.result(0, 99, 0), "")
        self.assertIn("15.1 minutes", self.result(0, 15.1, 10))
        self.assertIn("exit status 3", self.result(3, 1, 10))


class Runs(unittest.TestCase):
    """In a repository of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for patched in (mock.patch.object(check, "ROOT", self.root),
                        mock.patch.object(check, "yardstick_cpu_s", lambda: 3.0),
                        mock.patch.dict(os.environ)):
            patched.start()
            self.addCleanup(patched.stop)
        (self.root / ".ci").mkdir()
        self.git("init", "-q")
        self.commit(".gitignore", "ran\nbuild/\n")
        self.commit(".ci/stages.toml", STAGES)
        self.commit(".ci/budget.toml", BUDGET)

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, path: str, text: str) -> str:
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", path)
        return self.git("rev-parse", "HEAD")

    def run_check(self, *arguments: str) -> tuple[int, str, list[str]]:
        """Exit status, what it prints, and the stages that ran."""
        (self.root / "ran").unlink(missing_ok=True)
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["check.py", *arguments]), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = check.main()
        ran = self.root / "ran"
        return status, printed.getvalue(), ran.read_text().splitlines() if ran.exists() else []

    def test_ci_looks_at_what_changed_since_the_base(self):
        base = self.commit("bench/a.cpp", "1")
        self.commit(".ci/base", f"{base}\n")
        self.commit("base/pool.cpp", "1")
        turn = int(self.git("rev-list", "--count", base)) % 3
        self.assertEqual(turn, 1)  # the turn of fuzz, which is touched

        status, printed, ran = self.run_check("ci")

        self.assertEqual((status, ran), (0, ["tests", "bench", "fuzz"]), printed)
        self.assertIn("left out: threads: touched, but", printed)

    def test_ci_without_its_base_takes_all_for_touched(self):
        self.commit(".ci/base", "0" * 40 + "\n")
        status, printed, _ = self.run_check("ci", "--dry-run")
        self.assertEqual(status, 0)
        self.assertIn("an unknown number of paths", printed)

    def test_a_stage_that_fails_ends_ci(self):
        self.commit(".ci/stages.toml", STAGES.replace("echo tests >>ran", "echo tests >>ran; exit 4"))
        self.commit(".ci/base", "0" * 40 + "\n")
        status, printed, ran = self.run_check("ci")
        self.assertEqual((status, ran), (1, ["tests"]))
        self.assertIn("stage tests failed with exit status 4", printed)

    def test_a_full_check_goes_on_where_it_was(self):
        self.commit(".ci/base", "0" * 40 + "\n")
        fails = STAGES.replace("echo soak", "false && echo soak")
        self.commit(".ci/stages.toml", fails)

        status, printed, ran = self.run_check("full")
        self.assertEqual((status, ran), (1, ["long tests", "bench", "fuzz", "threads"]), printed)
        self.assertEqual(self.run_check("full")[2], [])
        self.assertEqual((self.root / ".ci/base").read_text(), "0" * 40 + "\n")

        fixed = self.commit(".ci/stages.toml", STAGES)
        status, printed, ran = self.run_check("full")
        self.assertEqual((status, ran), (0, ["long tests", "soak"]), printed)
        self.assertEqual((self.root / ".ci/base").read_text(), f"{fixed}\n")

        self.git("commit", "-qam", "base")
        self.assertEqual(self.run_check("full")[2], [])
        self.commit("base/a.cpp", "2")
        self.assertEqual(self.run_check("full")[2], ["long tests", "fuzz"])
        self.assertEqual(self.run_check("full", "--again", "--only", "soak")[2], ["soak"])

    def test_a_full_check_is_of_a_commit(self):
        (self.root / "new").write_text("")
        status, printed, _ = self.run_check("full")
        self.assertEqual(status, 2)
        self.assertIn("changes without a commit", printed)

    def test_unknown_stages_are_refused(self):
        status, printed, _ = self.run_check("full", "--only", "soaks")
        self.assertEqual(status, 2)
        self.assertIn("expected tests, bench, fuzz, threads, soak", printed)


class Tidied(unittest.TestCase):
    sources = {"base/a.cpp": '#include "base/a.hpp"\n', "base/b.cpp": '#include "base/a.hpp"\n',
               "kernels/c.cpp": '#include "spjit/kernel.hpp"\n', "kernels/d.cpp": ""}

    def test_changed_sources_one_for_a_header_and_a_part(self):
        def chosen(changed, part=(0, 0)):
            return sorted(tidy.chosen(self.sources, changed, part))
        self.assertEqual(chosen({"README.md"}), [])
        self.assertEqual(chosen({"base/b.cpp", "base/gone.cpp"}), ["base/b.cpp"])
        self.assertEqual(chosen({"base/a.hpp"}), ["base/a.cpp"])
        self.assertEqual(chosen({"base/a.hpp", "base/b.cpp"}), ["base/b.cpp"])
        self.assertEqual(chosen({"include/spjit/kernel.hpp"}), ["kernels/c.cpp"])
        self.assertEqual(chosen(None), sorted(self.sources))
        parts = [chosen(set(), (number, 3)) for number in range(3)]
        self.assertEqual(sorted(sum(parts, [])), sorted(self.sources))
        self.assertEqual(chosen(set(), (3, 3)), parts[0])


if __name__ == "__main__":
    unittest.main()
