#!/usr/bin/env python3
"""Runs clang-tidy on many sources of the repository, several at a time.

    scripts/check/tidy.py BUILD_DIR [--leave-out FOLDER]... [--jobs N] [--since COMMIT] [--part K/N]

Most of what clang-tidy does for a source is done for the headers that it includes, so sources are
looked at in batches: a source that includes them, with the definitions and folders of all of them.
Names that a source keeps to itself may occur in another one; such sources go into different
batches, as do those with different values of a macro. Sources in which
something is found are looked at alone, the rest together again (where it is in a header, by
halves): only what clang-tidy says of a source by itself, with its own flags, is reported. Exit
status 1 if anything is. SPJIT_CLANG_TIDY names the program (clang-tidy).

A batch is not the file that its sources are, so three kinds of remark that clang keeps for that file
are not made: unused functions (g++ reports those), unused `using` and unused namespace aliases. What
shadows what is left to g++: in a batch it could be another source's.

--since COMMIT leaves out sources that have not changed since, but one for each header that has; all
are looked at where git does not know the commit. --part K/N adds every N-th source, beginning with the
K-th, so that N parts are all of them.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from check_dependencies import LIBRARY  # noqa: E402
from check_names import names_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLANG_TIDY = os.environ.get("SPJIT_CLANG_TIDY", "clang-tidy")
BATCH = 30  # sources; more share little more and leave a core idle at the end
HEADERS = "|".join(("include/spjit", *LIBRARY, "tools"))


def own_names(source):
    """The names that a source keeps to itself, as far as a glance can tell; not their types."""
    return {name.text.partition("(")[0] for name in names_of(source.read_text())}


@dataclasses.dataclass
class Flags:
    """How a source is compiled: what has to be equal in a batch, and what may be joined."""
    common: tuple[str, ...]
    macros: dict[str, str]  # name to definition
    folders: dict[str, None]  # of headers, in order

    def fits(self, other):
        return self.common == other.common and all(
            other.macros.get(name, value) == value for name, value in self.macros.items())

    def join(self, other):
        self.macros.update(other.macros)
        self.folders.update(other.folders)

    def words(self):
        # Some are for g++ only. What is deprecated is left to g++, which knows its own library.
        return [*self.common, "-Wno-unknown-warning-option", "-Wno-deprecated-declarations",
                *self.macros.values(),
                *(word for folder in self.folders for word in folder.split("\0"))]


def flags_of(entry):
    """The flags of a compile command, but for those of how code is made: there is none."""
    words = shlex.split(entry["command"])
    while not re.search(r"(\+\+|cc)(-\d+)?$", words[0]) or words[0].endswith("ccache"):
        words = words[1:]
    flags = Flags((), {}, {})
    common = []
    words = iter(words[1:])
    for word in words:
        if word in ("-o", "--param"):
            next(words)
        elif word == "-isystem":
            flags.folders[f"{word}\0{next(words)}"] = None
        elif word.startswith("-I"):
            flags.folders[word] = None
        elif word.startswith("-D"):
            flags.macros[word[2:].partition("=")[0]] = word
        elif not word.startswith(("-O", "-f")) and word not in ("-c", entry["file"]):
            common.append(word)
    flags.common = tuple(common)
    return flags


@dataclasses.dataclass
class Batch:
    flags: Flags
    directory: str
    names: set[str]
    entries: list[dict[str, str]]


def make_batches(entries):
    """Sources whose flags fit and whose own names differ, no more than BATCH together."""
    batches = []
    for entry in entries:
        flags, names = flags_of(entry), own_names(pathlib.Path(entry["file"]))
        for batch in batches:
            if len(batch.entries) < BATCH and batch.flags.fits(flags) and not names & batch.names:
                batch.flags.join(flags)
                batch.names |= names
                batch.entries.append(entry)
                break
        else:
            batches.append(Batch(flags, entry["directory"], names, [entry]))
    return batches


def flags_for_batch(batch):
    return [*batch.flags.words(), *([] if len(batch.entries) == 1 else ["-Wno-shadow"])]


def written_together(batch, folder):
    """The path of a source that is those of the batch; programs, perhaps, several of them."""
    path = pathlib.Path(folder) / "batch.cpp"
    path.write_text("".join(
        f'#define main main_{number}  // NOLINT(readability-identifier-naming)\n#include "{entry["file"]}"\n#undef main\n'
        for number, entry in enumerate(batch.entries)))
    return path


def that_compile(batch, scratch):
    """The batch, without the sources that do not compile beside the others: those in other batches.
    That is seconds, and clang-tidy would find it out in a minute."""
    if len(batch.entries) == 1:
        return [batch]
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        run = subprocess.run(
            ["clang++-14", "-fsyntax-only", "-w", *flags_for_batch(batch),
             str(written_together(batch, folder))],
            cwd=batch.directory, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return [batch]
    blamed = set(re.findall(r"^([^:\n]+):\d+:\d+: (?:fatal )?error:", run.stderr, re.MULTILINE))
    misfits = [entry for entry in batch.entries if entry["file"] in blamed]
    if not misfits or len(misfits) == len(batch.entries):
        misfits = batch.entries[len(batch.entries) // 2:]
    rest = [entry for entry in batch.entries if entry not in misfits]
    return [fitting for entries in (rest, misfits) for part in make_batches(entries)
            for fitting in that_compile(part, scratch)]


def tidy(batch, scratch):
    """What clang-tidy says of the sources of a batch; empty if nothing."""
    sources = [entry["file"] for entry in batch.entries]
    alone = len(sources) == 1
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        looked_at = sources[0] if alone else written_together(batch, folder)
        files = "|".join(re.escape(source) for source in sources)
        run = subprocess.run(
            [CLANG_TIDY, "--quiet", f"--config-file={ROOT}/.clang-tidy",
             f"--header-filter=^{re.escape(str(ROOT))}/({HEADERS})/.*\\.hpp$|^({files})$",
             *([] if alone else ["--checks=-bugprone-suspicious-include"]),
             str(looked_at), "--", *flags_for_batch(batch)],
            cwd=batch.directory, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return ""
    if alone:
        return run.stdout + (run.stderr if "error:" not in run.stdout else "")
    blamed = set(re.findall(r"^([^:\n]+):\d+:\d+: (?:warning|error):", run.stdout, re.MULTILINE))
    named = [entry for entry in batch.entries if entry["file"] in blamed]
    if named and len(named) < len(sources):
        parts = [[entry] for entry in named]
        parts.append([entry for entry in batch.entries if entry not in named])
    else:
        half = len(sources) // 2
        parts = [batch.entries[:half], batch.entries[half:]]
    return "".join(tidy(part, scratch) for entries in parts for part in make_batches(entries))


def changed_since(commit):
    """The files, as paths from the repository's folder; None where git does not know the commit."""
    run = subprocess.run(["git", "diff", "--name-only", "--no-renames", f"{commit}^{{commit}}", "--"],
                         cwd=ROOT, capture_output=True, text=True, check=False)
    return set(run.stdout.split("\n")) - {""} if run.returncode == 0 else None


def chosen(sources, changed, part):
    """Of sources, path to text: those that changed, one that includes each changed header, and every
    part[1]-th from part[0] on."""
    if changed is None:
        return set(sources)
    number, parts = part
    found = set(sources) & changed | set(sorted(sources)[number % parts::parts] if parts else [])
    for header in sorted(each for each in changed if each.endswith((".hpp", ".h"))):
        users = sorted(source for source, text in sources.items() if f'"{header}"' in text
                       or f'"{header.removeprefix("include/")}"' in text)
        if users and not found & set(users):
            found.add(users[0])
    return found


def part_of(text):
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and int(parts) > 0):
        raise argparse.ArgumentTypeError(f"'{text}'; expected K/N, N at least 1")
    return int(number), int(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--part", metavar="K/N", type=part_of, default=(0, 0))
    parser.add_argument("build", type=pathlib.Path, help="folder with compile_commands.json")
    parser.add_argument("--leave-out", action="append", default=[], metavar="FOLDER",
                        help="name of folders, wherever they are")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.build = options.build.resolve()
    left_out = {"build", *options.leave_out}
    entries = [entry for entry in json.loads((options.build / "compile_commands.json").read_text())
               if ROOT in pathlib.Path(entry["file"]).parents
               and not left_out & set(pathlib.Path(entry["file"]).relative_to(ROOT).parts[:-1])]
    if not entries:
        sys.exit(f"{options.build}/compile_commands.json: no source of {ROOT} in it")
    entries = list({entry["file"]: entry for entry in entries}.values())
    if options.since is not None:
        sources = {str(pathlib.Path(entry["file"]).relative_to(ROOT)): entry for entry in entries}
        texts = {path: pathlib.Path(entry["file"]).read_text() for path, entry in sources.items()}
        wanted = chosen(texts, changed_since(options.since), options.part)
        entries = [entry for path, entry in sources.items() if path in wanted]
    with tempfile.TemporaryDirectory(dir=options.build) as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        settled = pool.map(lambda batch: that_compile(batch, scratch), make_batches(entries))
        batches = sorted((part for parts in settled for part in parts),
                         key=lambda batch: -len(batch.entries))
        reports = list(pool.map(lambda batch: tidy(batch, scratch), batches))
    found = [report for report in reports if report]
    print("\n".join(found), end="")
    print(f"clang-tidy: {len(entries)} sources in {len(batches)} batches, "
          f"{'nothing' if not found else 'something'} found")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
