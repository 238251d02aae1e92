#!/usr/bin/env python3
"""Says whether this tree can be released, and as which version.

    scripts/release/release_check.py [--version X.Y.Z] [--rehearse] [--root FOLDER]

The version is that of include/spjit/version.hpp. CHANGELOG.md has to begin with a section of that
version and a date, README.md has to name the packages of that version and no other, the tree has to
be clean, and the version's tag, where there is one, has to be this commit. A line on standard error
for each thing that is not so, and exit status 1; else the version and the packages' file names on
standard output, one a line. --rehearse says what is not so and goes on, if the version is known.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def read_version(header: str) -> tuple[str, list[str]]:
    """The version that version.hpp says, and what is wrong with it."""
    numbers = [re.search(rf"^#define SPJIT_VERSION_{part} (\d+)$", header, re.MULTILINE)
               for part in ("MAJOR", "MINOR", "PATCH")]
    text = re.search(r'^#define SPJIT_VERSION "([^"]*)"$', header, re.MULTILINE)
    if text is None or None in numbers:
        return "", ["include/spjit/version.hpp: expected SPJIT_VERSION_MAJOR, _MINOR, _PATCH and "
                    "SPJIT_VERSION"]
    version = ".".join(number[1] for number in numbers if number)
    if text[1] != version:
        return version, [f"include/spjit/version.hpp: SPJIT_VERSION is \"{text[1]}\", its numbers "
                         f"say {version}"]
    return version, []


def changelog_problems(changelog: str, version: str) -> list[str]:
    """The first section is that of the version: '## X.Y.Z - YYYY-MM-DD', with an entry."""
    sections = re.split(r"^## +", changelog, flags=re.MULTILINE)[1:]
    problems = []
    if sections and re.match(r"\[?unreleased\b", sections[0], re.IGNORECASE):
        if re.search(r"^- ", sections[0], re.MULTILINE):
            problems.append(f"CHANGELOG.md: entries are 'Unreleased'; move them to '## {version} - "
                            "YYYY-MM-DD'")
        sections = sections[1:]
    heading = sections[0].splitlines()[0] if sections else ""
    match = re.fullmatch(r"\[?([0-9][^\s\]]*)\]?(?: - (\S+))?\s*", heading)
    if match is None or match[1] != version:
        return [*problems, f"CHANGELOG.md: the first release is '{heading}'; expected "
                           f"'{version} - YYYY-MM-DD'"]
    try:
        datetime.date.fromisoformat(match[2] or "")
    except ValueError:
        problems.append(f"CHANGELOG.md: {version} has the date '{match[2] or ''}'; expected "
                        "YYYY-MM-DD")
    if not re.search(r"^- ", sections[0], re.MULTILINE):
        problems.append(f"CHANGELOG.md: {version} has no entry")
    return problems


def packages(version: str) -> list[str]:
    """The files that a user installs, by the names that the build gives them."""
    library = "libspjit" + ".".join(version.split(".")[:2])
    return [f"spjit-{version}-py3-none-manylinux_2_28_x86_64.whl",
            *(f"{name}_{version}-1_amd64.deb" for name in (library, "libspjit-dev", "spjit"))]


def readme_problems(readme: str, version: str) -> list[str]:
    named = set(re.findall(r"\b(?:lib)?spjit[\w.-]*\.(?:whl|deb)\b", readme))
    expected = set(packages(version))
    return ([f"README.md: does not name {name}" for name in sorted(expected - named)]
            + [f"README.md: names {name}, which {version} does not have"
               for name in sorted(named - expected)])


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True,
                          text=True).stdout


def tree_problems(root: Path, version: str) -> list[str]:
    try:
        changed = git(root, "status", "--porcelain", "--untracked-files=normal").splitlines()
        head = git(root, "rev-parse", "HEAD").strip()
        tag = git(root, "tag", "--list", f"v{version}").strip()
        tagged = git(root, "rev-parse", f"{tag}^{{commit}}").strip() if tag else head
    except (OSError, subprocess.CalledProcessError) as error:
        return [f"{root}: not a git repository with a commit ({error})"]
    problems = []
    if changed:
        names = ", ".join(line[3:] for line in changed[:3])
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        problems.append(f"the tree is not clean: {names}{more}; commit or remove them")
    if tagged != head:
        problems.append(f"the tag v{version} is {tagged[:8]}, and this is {head[:8]}; a new "
                        "release needs a new version")
    return problems


def problems_of(root: Path, wanted: str | None) -> tuple[str, list[str]]:
    texts = {}
    for name in ("include/spjit/version.hpp", "CHANGELOG.md", "README.md"):
        try:
            texts[name] = (root / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return "", [f"{name}: {error}"]
    version, problems = read_version(texts["include/spjit/version.hpp"])
    if not version:
        return version, problems
    if wanted is not None and wanted != version:
        problems.append(f"--version {wanted}: include/spjit/version.hpp says {version}")
    problems += changelog_problems(texts["CHANGELOG.md"], version)
    problems += readme_problems(texts["README.md"], version)
    problems += tree_problems(root, version)
    return version, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", metavar="X.Y.Z", help="the version that is meant")
    parser.add_argument("--rehearse", action="store_true", help="go on where something is not so")
    parser.add_argument("--root", type=Path, default=ROOT)
    arguments = parser.parse_args()
    version, problems = problems_of(arguments.root, arguments.version)
    for problem in problems:
        print(f"release_check.py: {problem}", file=sys.stderr)
    accepted = version and (arguments.rehearse or not problems)
    if accepted:
        print(version, *packages(version), sep="\n")
    return 0 if accepted else 1


if __name__ == "__main__":
    sys.exit(main())
