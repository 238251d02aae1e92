#!/usr/bin/env python3
"""Makes one small wrong change at a time and runs the tests that should notice it.

scripts/check/mutate.sh --help has the options, docs/design/testing.md the format of the list.

A change never touches the sources: the changed text is written below build/mutation/, compiled with
the command of the existing build, and linked before the library that has the unchanged object. So a
change costs one compilation and one link for each test program, and changes run side by side.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutation_anchors as anchors  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LEAST_LIMIT_S = 30  # of a test program; a change that makes it hang is noticed by this
LIMIT_FACTOR = 5  # times what the tests take without a change
MOST_MEMORY_BYTES = 6 << 30  # of a test program and what it starts
KEYS = {"name", "file", "compile", "text", "to", "after", "tests", "reason", "short", "needs"}
CPU_FLAGS = {"avx2", "avx512f"}  # that a change may need, as /proc/cpuinfo names them
TOOL = "tools/spjit"


class BadList(Exception):
    """A change that cannot be judged as it is written."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    text: str  # occurs once in the file, or first after `after`
    to: str
    tests: tuple[str, ...]  # "PROGRAM FILTER"
    after: str = ""  # occurs once in the file
    compile: str = ""  # the source that includes the file, if that is none
    reason: str = ""  # why no test can notice
    short: bool = False
    needs: str = ""  # the CPU flag without which the tests that should notice skip

    @property
    def source(self) -> str:
        """The source whose object has the change."""
        return self.compile or self.file


@dataclasses.dataclass(frozen=True)
class Outcome:
    word: str  # killed, survived, skipped or error
    detail: str


@dataclasses.dataclass(frozen=True)
class Finished:
    """A process that has ended."""
    ended_well: bool
    output: str
    stopped: str = ""  # why it was ended


@dataclasses.dataclass(frozen=True)
class Baseline:
    problem: str
    seconds: float = 0


def load(path: Path) -> list[Mutation]:
    with open(path, "rb") as file:
        try:
            entries = tomllib.load(file).get("mutation", [])
        except tomllib.TOMLDecodeError as error:
            raise BadList(f"{path}: {error}") from error
    mutations = []
    for number, entry in enumerate(entries, 1):
        where = f"{path.name}: {entry.get('name', f'entry {number}')}"
        if unknown := entry.keys() - KEYS:
            raise BadList(f"{where}: unknown {', '.join(sorted(unknown))}")
        if missing := {"name", "file", "text", "to", "tests"} - entry.keys():
            raise BadList(f"{where}: no {', '.join(sorted(missing))}")
        if not re.fullmatch(r"[a-z0-9-]+", entry["name"]):
            raise BadList(f"{where}: a name has only a-z, 0-9 and '-'")
        if not entry["tests"]:
            raise BadList(f"{where}: no test that should notice")
        if (flag := entry.get("needs")) and flag not in CPU_FLAGS:
            raise BadList(f"{where}: needs '{flag}', expected one of {', '.join(sorted(CPU_FLAGS))}")
        mutations.append(Mutation(**{**entry, "tests": tuple(entry["tests"])}))
    return mutations


def load_all(paths: list[Path]) -> list[Mutation]:
    mutations = [mutation for path in paths for mutation in load(path)]
    names = [mutation.name for mutation in mutations]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadList(f"more than one change is named {', '.join(sorted(twice))}")
    return mutations


def changed_text(root: Path, mutation: Mutation) -> str:
    """The file with the change in it."""
    path = root / mutation.file
    if not mutation.source.endswith(".cpp") or not (root / mutation.source).is_file():
        raise BadList(f"{mutation.source} is no source file (.cpp) here")
    if not path.is_file():
        raise BadList(f"{mutation.file} is no file here")
    if mutation.text == mutation.to:
        raise BadList("text and replacement are the same")
    source = path.read_text(encoding="utf-8")
    start = 0
    if mutation.after:
        if source.count(mutation.after) != 1:
            raise BadList(f"stale: {mutation.file} has {source.count(mutation.after)} times "
                          f"'{mutation.after}', expected 1")
        start = source.index(mutation.after) + len(mutation.after)
    found = source.count(mutation.text, start)
    if found == 0 or (found > 1 and not mutation.after):
        raise BadList(f"stale: {mutation.file} has {found} times '{mutation.text}', expected 1")
    place = source.index(mutation.text, start)
    return source[:place] + mutation.to + source[place + len(mutation.text):]


class Group:
    """The processes of one session: a test program and what it started."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def memory_bytes(self) -> int:
        pages = 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.leader:  # the session
                    pages += int((folder / "statm").read_text().split()[1])
            except (OSError, IndexError, ValueError):
                continue  # it has ended meanwhile
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        try:
            os.killpg(self.leader, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(command: list[str], folder: Path, limit_s: float,
        environment: dict[str, str] | None = None) -> Finished:
    """Runs a command, at most for so long and with so much memory."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        group = Group(process.pid)
        end = time.monotonic() + limit_s
        stopped = ""
        while not stopped:
            try:
                process.wait(0.5)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > end:
                    stopped = f"no end within {limit_s:.0f} s"
                elif group.memory_bytes() > MOST_MEMORY_BYTES:
                    stopped = f"more than {MOST_MEMORY_BYTES >> 30} GiB of memory"
        group.kill()
        status = process.wait()
        output.seek(0)
        return Finished(status == 0 and not stopped, output.read(), stopped)


class Build:
    """An existing build of the sources, with Ninja."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder = folder
        self.jobs = jobs
        self.compile_entries: dict[str, dict[str, str]] = {}
        self.link_commands: dict[str, list[str]] = {}

    def make(self, programs: set[str]) -> None:
        """Brings the programs up to date, then reads how they are made."""
        targets = sorted({"spjit_tool" if program == TOOL else Path(program).name
                          for program in programs})
        command = ["cmake", "--build", str(self.folder), "-j", str(self.jobs), "--target", *targets]
        if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode != 0:
            raise BadList(f"cannot build {' '.join(targets)} in {self.folder}")
        entries = json.loads((self.folder / "compile_commands.json").read_text(encoding="utf-8"))
        self.compile_entries = {entry["file"]: entry for entry in reversed(entries)}
        for program in programs:
            self.link_commands[program] = self._link_command(program)

    def _link_command(self, program: str) -> list[str]:
        printed = subprocess.run(["ninja", "-C", str(self.folder), "-t", "commands", "-s", program],
                                 check=True, capture_output=True, text=True).stdout
        line = printed.strip().splitlines()[-1]
        words = shlex.split(line.removeprefix(": && ").removesuffix(" && :"))
        if "-o" not in words or "&&" in words:
            raise BadList(f"cannot read how {program} is linked: {line}")
        return words

    def times(self) -> dict[str, int]:
        return {program: (self.folder / program).stat().st_mtime_ns
                for program in self.link_commands}

    def object_of(self, source: Path) -> str:
        if str(source) not in self.compile_entries:
            raise BadList(f"{self.folder} does not compile {source} by itself")
        words = shlex.split(self.compile_entries[str(source)]["command"])
        return words[words.index("-o") + 1]

    def compile(self, source: Path, changed: Path, headers: Path, to: Path) -> str:
        """What the compiler says if it refuses. It finds `headers` before those of the sources."""
        words = shlex.split(self.compile_entries[str(source)]["command"])
        words[words.index("-o") + 1] = str(to)
        words[words.index(str(source))] = str(changed)
        # Headers beside the source are found there; a change may leave something unused.
        quoted = ["-iquote", str(headers), "-iquote", str(source.parent)]
        return self._make([*words, *quoted, "-w"])

    def link(self, program: str, source: Path, changed: Path, to: Path) -> str:
        words = list(self.link_commands[program])
        original = self.object_of(source)
        if original in words:
            words[words.index(original)] = str(changed)
        else:
            # Before the libraries: what it defines is not looked for in them.
            words.insert(words.index("-o"), str(changed))
        words[words.index("-o") + 1] = str(to)
        return self._make(words)

    def _make(self, command: list[str]) -> str:
        done = run(command, self.folder, 600)
        if done.ended_well:
            return ""
        errors = [line for line in done.output.splitlines() if "error" in line or "multiple" in line]
        return (errors or [done.stopped or done.output[-300:]])[0]


class Tests:
    """"PROGRAM FILTER" of a list: a program of Google Test, or one of tests/cli/."""

    def __init__(self, root: Path, spec: str) -> None:
        self.root = root
        self.name, _, chosen = spec.partition(" ")
        self.patterns = [pattern for pattern in chosen.strip().split(":") if pattern]
        self.of_tool = self.name.startswith("cli.")
        folder = "bench" if self.name.startswith("bench_test_") else "tests"
        self.program = TOOL if self.of_tool else f"{folder}/{self.name}"
        if not self.patterns:
            raise BadList(f"'{spec}' names no tests of {self.name}; expected \"PROGRAM FILTER\"")

    def run(self, program: Path, scratch: Path, limit_s: float) -> Finished:
        environment = {"SPJIT_CACHE_DIR": str(scratch / "cache"), "TMPDIR": str(scratch)}
        if self.of_tool:
            environment["SPJIT_TOOL"] = str(program)
            script = self.root / "tests" / "cli" / f"{self.name.removeprefix('cli.')}.py"
            command = [sys.executable, str(script), "-f", "-v"]
            command += [word for pattern in self.patterns for word in ("-k", pattern)]
        else:
            command = [str(program), "--gtest_fail_fast", "--gtest_color=no",
                       f"--gtest_filter={':'.join(self.patterns)}"]
        return run(command, scratch, limit_s, environment)

    def passed(self, output: str) -> int:
        """How many tests ran and did not skip."""
        if self.of_tool:
            return len(re.findall(r" \.\.\. ok$", output, re.MULTILINE))
        return sum(int(count) for count in re.findall(r"^\[  PASSED  \] (\d+)", output, re.MULTILINE))

    def unmatched(self, output: str) -> list[str]:
        """Patterns that no test of a run has."""
        if self.of_tool:
            names = re.findall(r"^(\w+ \([\w.]+\))", output, re.MULTILINE)
            return [pattern for pattern in self.patterns
                    if not any(pattern.strip("*") in name for name in names)]
        return self.unmatched_names(re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE))

    def unmatched_names(self, names: list[str]) -> list[str]:
        """Patterns that none of the names of Google Test has."""
        return [pattern for pattern in self.patterns if not pattern.startswith("-")
                and not any(fnmatch.fnmatchcase(name, pattern) for name in names)]

    def first_failure(self, output: str) -> str:
        pattern = r"^(?:FAIL|ERROR): (\w+)" if self.of_tool else r"^\[  FAILED  \] ([\w/.]+\.[\w/]+)"
        if failed := re.search(pattern, output, re.MULTILINE):
            return failed[1]
        begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        return begun[-1] if begun else "no test named"


def flags_of_cpu() -> set[str]:
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"),
                      re.MULTILINE)
    return set(flags[1].split()) if flags else set()


class Runner:
    def __init__(self, root: Path, build: Build, work: Path) -> None:
        self.root = root
        self.build = build
        self.work = work
        self.cpu_flags = flags_of_cpu()
        self.baselines: dict[str, Baseline] = {}

    def scratch(self, spec: str) -> tempfile.TemporaryDirectory[str]:
        # Thousands of small caches: memory spares the disk.
        memory = Path("/dev/shm")
        in_memory = spec.startswith("faults_") and memory.is_dir()
        folder = tempfile.TemporaryDirectory(prefix="spjit-mutation-", ignore_cleanup_errors=True,
                                             dir=memory if in_memory else None)
        # Tests that root runs become other users.
        os.chmod(folder.name, 0o711)
        return folder

    def baseline(self, spec: str) -> Baseline:
        """Without a change the tests have to pass, at least one of them."""
        tests = Tests(self.root, spec)
        begin = time.monotonic()
        with self.scratch(spec) as scratch:
            done = tests.run(self.build.folder / tests.program, Path(scratch), 600)
        seconds = time.monotonic() - begin
        if not done.ended_well:
            noticed = done.stopped or tests.first_failure(done.output)
            return Baseline(f"'{spec}' fails without a change: {noticed}")
        if unmatched := tests.unmatched(done.output):
            return Baseline(f"'{spec}': no test is named {', '.join(unmatched)}")
        if tests.passed(done.output) == 0:
            return Baseline(f"'{spec}': all of its tests skip here")
        return Baseline("", seconds)

    def judge(self, mutation: Mutation) -> Outcome:
        folder = self.work / mutation.name
        try:
            return self._judge(mutation, folder)
        except BadList as error:
            return Outcome("error", str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _judge(self, mutation: Mutation, folder: Path) -> Outcome:
        text = changed_text(self.root, mutation)
        if mutation.needs and mutation.needs not in self.cpu_flags:
            return Outcome("skipped", f"this CPU has no {mutation.needs}")
        for spec in mutation.tests:
            if problem := self.baselines[spec].problem:
                raise BadList(problem)
        changed = folder / mutation.file
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text, encoding="utf-8")
        source = self.root / mutation.source
        self.build.object_of(source)
        compiled = changed.with_suffix(".o")
        changed_source = source if mutation.compile else changed
        if problem := self.build.compile(source, changed_source, folder, compiled):
            raise BadList(f"does not compile: {problem}")
        for spec in mutation.tests:
            tests = Tests(self.root, spec)
            program = folder / Path(tests.program).name
            if not program.exists():
                if problem := self.build.link(tests.program, source, compiled, program):
                    raise BadList(f"does not link: {problem}")
            limit_s = LEAST_LIMIT_S + LIMIT_FACTOR * self.baselines[spec].seconds
            with self.scratch(spec) as scratch:
                done = tests.run(program, Path(scratch), limit_s)
            if not done.ended_well:
                stopped = f", {done.stopped}" if done.stopped else ""
                return Outcome("killed", f"{tests.name} {tests.first_failure(done.output)}{stopped}")
        return Outcome("survived", mutation.reason or f"of {'; '.join(mutation.tests)}")


class Killed:
    """The changes that a file says were killed at this commit: a line "COMMIT NAME" each."""

    def __init__(self, root: Path, path: Path | None) -> None:
        self.path = path
        self.names: set[str] = set()
        self.commit = ""
        if path is None:
            return
        git = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True,
                             text=True, check=False)
        if git.returncode != 0:
            raise BadList(f"--resume: {root} has no commit")
        self.commit = git.stdout.strip()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.names = {name for commit, _, name in (line.partition(" ") for line in lines)
                      if commit == self.commit}

    def add(self, name: str) -> None:
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(f"{self.commit} {name}\n")


class Report:
    """Prints outcomes as they come, and counts them."""

    def __init__(self, before: Killed) -> None:
        self.lock = threading.Lock()
        self.before = before
        self.killed = self.survived = self.explained = self.skipped = self.errors = 0

    def add(self, mutation: Mutation, outcome: Outcome, seconds: float) -> None:
        with self.lock:
            note = ""
            if outcome.word == "killed":
                self.killed += 1
                self.before.add(mutation.name)
                note = "; its reason to survive can go" if mutation.reason else ""
            elif outcome.word == "survived":
                self.survived += 1
                self.explained += 1 if mutation.reason else 0
            elif outcome.word == "skipped":
                self.skipped += 1
            else:
                self.errors += 1
            print(f"{outcome.word:8} {seconds:5.0f} s  {mutation.name}: {outcome.detail}{note}",
                  flush=True)

    def failed(self) -> bool:
        return self.errors > 0 or self.survived > self.explained

    def close(self) -> int:
        print(f"{self.killed} killed, {self.survived} survived ({self.explained} with a reason), "
              f"{self.skipped} skipped, {self.errors} errors")
        return 2 if self.errors else 1 if self.failed() else 0


def run_all(runner: Runner, mutations: list[Mutation], options: argparse.Namespace) -> int:
    before = Killed(runner.root, options.resume)
    report = Report(before)
    chosen = len(mutations)
    mutations = [mutation for mutation in mutations if mutation.name not in before.names]
    if len(mutations) < chosen:
        print(f"{chosen - len(mutations)} were killed before", flush=True)
    if not mutations:
        return report.close()

    def one(mutation: Mutation) -> None:
        if report.failed() and not options.keep_going:
            return
        begin = time.monotonic()
        outcome = runner.judge(mutation)
        report.add(mutation, outcome, time.monotonic() - begin)

    specs = sorted({spec for mutation in mutations for spec in mutation.tests})
    programs = {Tests(runner.root, spec).program for spec in specs}
    runner.build.make(programs)
    made = runner.build.times()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runner.baselines = dict(zip(specs, pool.map(runner.baseline, specs)))
        for _ in pool.map(one, mutations):
            pass
    runner.build.make(programs)
    if runner.build.times() != made:
        print("error: sources were edited during the run; run it again")
        report.errors += 1
    return report.close()


@functools.cache
def names_in(program: Path) -> list[str]:
    """Of the tests of a program of Google Test."""
    printed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True,
                             text=True).stdout
    names, suite = [], ""
    for line in printed.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith(" "):
            names.append(suite + word)
        else:
            suite = word
    return names


def check_names(tests: Tests, build: Path) -> None:
    """Programs that are not built there, and tests of the command line, are left out."""
    program = build / tests.program
    if tests.of_tool or not program.exists():
        return
    if unmatched := tests.unmatched_names(names_in(program)):
        raise BadList(f"{tests.name} has no test that is named {', '.join(unmatched)}")


def check(root: Path, mutations: list[Mutation], build: Path | None = None) -> int:
    problems = 0
    for mutation in mutations:
        try:
            changed_text(root, mutation)
            for spec in mutation.tests:
                tests = Tests(root, spec)
                if build is not None:
                    check_names(tests, build)
        except BadList as error:
            print(f"{mutation.name}: {error}")
            problems += 1
    print(f"{len(mutations)} changes, {problems} of them do not fit")
    return 2 if problems else 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--file", type=Path, action="append", metavar="LIST")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--resume", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    for flag in ("--short", "--list", "--check", "--keep-going", "--reanchor"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args(arguments)


def select(mutations: list[Mutation], options: argparse.Namespace) -> list[Mutation]:
    chosen = [mutation for mutation in mutations if mutation.short or not options.short]
    if options.only:
        chosen = [mutation for mutation in chosen
                  if any(fnmatch.fnmatchcase(mutation.name, name) for name in options.only)]
    if not chosen:
        raise BadList("no change is chosen; --list prints their names")
    return chosen


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    root = options.root.resolve()
    try:
        lists = options.file or sorted((root / "tests" / "mutations").glob("*.toml"))
        if options.reanchor:
            for path in lists:
                anchors.reanchor(root, path, load(path))
            return check(root, load_all(lists))
        mutations = select(load_all(lists), options)
        if options.list:
            for mutation in mutations:
                print(f"{mutation.name}: {mutation.file}: {'; '.join(mutation.tests)}"
                      f"{' (short)' if mutation.short else ''}"
                      f"{' survives: ' + mutation.reason if mutation.reason else ''}")
            return 0
        if options.check:
            return check(root, mutations, options.build)
        build = Build((options.build or root / "build" / "release").resolve(), options.jobs)
        work = root / "build" / "mutation"
        return run_all(Runner(root, build, work), mutations, options)
    except BadList as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
