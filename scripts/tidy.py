#!/usr/bin/env python3
"""Runs clang-tidy on many sources of the repository, several at a time.

    scripts/tidy.py BUILD_DIR [--leave-out FOLDER]... [--jobs N]

Most of what clang-tidy does for a source is done for the headers that it includes, so sources with
the same flags are looked at in one batch: a source that includes them. Names that a source keeps to
itself may occur in another one; such sources go into different batches. A batch in which something
is found is split, down to single sources: only what clang-tidy says of a source by itself is
reported. Exit status 1 if anything is.

A batch is not the file that its sources are, so three kinds of remark that clang keeps for that file
are not made: unused functions (g++ reports those), unused `using` and unused namespace aliases. What
shadows what is left to g++: in a batch it could be another source's.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 10  # sources; more share little more and leave a core idle at the end
HEADERS = "include/spjit|matrix|reorder|runtime|compiler|rankmodel|proxy|tools"
OWN_NAME = re.compile(
    r"^(?:struct|class|enum class|using|namespace) (\w+)"  # types and aliases
    r"|^\w[\w:<>,&*\[\] ]*? [&*]*(\w+)(?:\(|\{| = |\[)",  # functions and constants
    re.MULTILINE)
ANONYMOUS = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)


def own_names(source):
    """The names in the anonymous namespaces of a source, as far as a glance can tell."""
    text = source.read_text()
    return {name for body in ANONYMOUS.findall(text)
            for match in OWN_NAME.findall(body) for name in match if name}


def flags_of(entry):
    """A compile command without compiler launcher, source, and output."""
    words = shlex.split(entry["command"])
    while not re.search(r"(\+\+|cc)(-\d+)?$", words[0]) or words[0].endswith("ccache"):
        words = words[1:]
    output = words.index("-o")
    del words[output:output + 2]
    return tuple(word for word in words[1:] if word not in ("-c", entry["file"]))


def make_batches(entries):
    """Lists of sources with equal flags, no more than BATCH, whose own names differ."""
    batches = []  # of (flags, directory, names, sources)
    for entry in entries:
        flags, source = flags_of(entry), pathlib.Path(entry["file"])
        names = own_names(source)
        for batch in batches:
            if batch[0] == flags and len(batch[3]) < BATCH and not names & batch[2]:
                batch[2].update(names)
                batch[3].append(source)
                break
        else:
            batches.append((flags, entry["directory"], set(names), [source]))
    return [(flags, directory, sources) for flags, directory, _, sources in batches]


def tidy(flags, directory, sources, scratch):
    """What clang-tidy says of sources; empty if nothing."""
    alone = len(sources) == 1
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        looked_at = sources[0]
        if not alone:
            looked_at = pathlib.Path(folder) / "batch.cpp"
            looked_at.write_text("".join(f'#include "{source}"\n' for source in sources))
        files = "|".join(re.escape(str(source)) for source in sources)
        run = subprocess.run(
            ["clang-tidy-14", "--quiet", f"--config-file={ROOT}/.clang-tidy",
             f"--header-filter=/({HEADERS})/[^/]*\\.hpp$|^({files})$",
             *([] if alone else ["--checks=-bugprone-suspicious-include"]),
             str(looked_at), "--", *flags, *([] if alone else ["-Wno-shadow"])],
            cwd=directory, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return ""
    if alone:
        return run.stdout + (run.stderr if "error:" not in run.stdout else "")
    half = len(sources) // 2
    return (tidy(flags, directory, sources[:half], scratch) +
            tidy(flags, directory, sources[half:], scratch))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
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
    batches = sorted(make_batches(entries), key=lambda batch: -len(batch[2]))
    with tempfile.TemporaryDirectory(dir=options.build) as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        reports = list(pool.map(lambda batch: tidy(*batch, scratch), batches))
    found = [report for report in reports if report]
    print("\n".join(found), end="")
    print(f"clang-tidy: {len(entries)} sources in {len(batches)} batches, "
          f"{'nothing' if not found else 'something'} found")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
