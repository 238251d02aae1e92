"""Checks the C interface of a shared libspjit against the list of its symbols and their versions.

The list is the linker's version script, bindings/c/spjit.map. A symbol that begins with spjit_ and
is not in the list, one in the list that the library lacks or has under another version, and a name
of the list that spjit.h does not declare are a line each; any makes the exit status 1.

    scripts/check/check_symbols.py LIBRARY [--map FILE] [--header FILE]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def listed_symbols(text: str) -> dict[str, str]:
    """From each name to its version."""
    text = re.sub(r"#[^\n]*", "", text)
    found: dict[str, str] = {}
    for version, body in re.findall(r"(\w[\w.]*)\s*\{([^}]*)\}", text):
        for name in re.findall(r"(\w+)\s*;", body):
            found[name] = version
    return found


def symbols_of(nm_output: str) -> dict[str, str]:
    """The same of what `nm -D --defined-only` prints; "" without a version."""
    found: dict[str, str] = {}
    for line in nm_output.splitlines():
        symbol = line.split()[-1]
        name, _, version = symbol.partition("@@" if "@@" in symbol else "@")
        if name.startswith("spjit_"):
            found[name] = version
    return found


def declared_names(header: str) -> set[str]:
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"SPJIT_API[^;(]*?\b(spjit_\w+)\s*\(", code))


def differences(listed: dict[str, str], found: dict[str, str], declared: set[str]) -> list[str]:
    lines = [f"{name}: the library does not have it"
             for name in sorted(listed.keys() - found.keys())]
    lines += [f"{name}: not in the list" for name in sorted(found.keys() - listed.keys())]
    lines += [f"{name}: its version is '{found[name]}', listed is '{listed[name]}'"
              for name in sorted(listed.keys() & found.keys()) if listed[name] != found[name]]
    lines += [f"{name}: spjit.h does not declare it" for name in sorted(listed.keys() - declared)]
    lines += [f"{name}: spjit.h declares it, but it is not in the list"
              for name in sorted(declared - listed.keys())]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--map", type=Path, default=ROOT / "bindings/c/spjit.map")
    parser.add_argument("--header", type=Path, default=ROOT / "include/spjit.h")
    arguments = parser.parse_args()
    nm = subprocess.run(["nm", "-D", "--defined-only", arguments.library], check=True,
                        capture_output=True, text=True)
    listed = listed_symbols(arguments.map.read_text(encoding="utf-8"))
    lines = differences(listed, symbols_of(nm.stdout),
                        declared_names(arguments.header.read_text(encoding="utf-8")))
    for line in lines:
        print(line)
    print(f"check_symbols: {len(listed)} symbols, {len(lines)} differences")
    return 1 if lines or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
