#!/usr/bin/env python3
"""Checks that dependencies between the project's folders point one way.

Each module says in its CMakeLists.txt which modules it may include (`DEPENDS`); what it may say at
all is the table MAY_DEPEND here. Every `#include "..."` of the modules and of the public headers is
then checked against that. A violation is one line `file:line: what is wrong`; any makes the exit
status 1.

    scripts/check_dependencies.py [--root DIR]
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

MODULES = ("matrix", "reorder", "runtime", "rankmodel", "proxy", "compiler", "tools")

# The direction of the design: matrix <- reorder <- compiler <- tools. The compiler's pipeline is
# the one place that knows every stage.
MAY_DEPEND = {
    "matrix": {"runtime"},
    "reorder": {"matrix", "runtime"},
    "runtime": set(),
    "rankmodel": {"matrix", "reorder", "runtime", "compiler"},
    "proxy": {"matrix", "reorder", "compiler"},
    "compiler": {"matrix", "reorder", "runtime", "rankmodel", "proxy"},
    "tools": {"matrix", "reorder", "runtime", "rankmodel", "proxy", "compiler"},
}

# Plans, tiles, candidates and device limits are values that rankmodel and proxy work on; how they
# are emitted is not theirs.
PLAN_HEADERS = {
    "compiler/cuda_candidate.hpp",
    "compiler/cuda_limits.hpp",
    "compiler/cuda_tile.hpp",
    "compiler/device_limits.hpp",
    "compiler/host_tile.hpp",
    "compiler/kernel_plan.hpp",
    "compiler/occupancy.hpp",
    "compiler/register_prediction.hpp",
    "compiler/tile_candidate.hpp",
}

# What these may include of the runtime: a value too.
PLAN_RUNTIME_HEADERS = {"runtime/compile_cancel.hpp"}

# What one module may see of another, where that is not everything. matrix, reorder and rankmodel may
# use the runtime's plain helpers (files, hashing), not its kernels. Which instruction set a model is
# for is the target's name for it.
VISIBLE = {
    ("rankmodel", "compiler"): PLAN_HEADERS | {"spjit/target.hpp"},
    ("rankmodel", "runtime"): {
        "runtime/arithmetic.hpp",
        "runtime/checked.hpp",
        "runtime/compile_cancel.hpp",
        "runtime/embedded_file.hpp",
        "runtime/gzip.hpp",
        "runtime/hash.hpp",
        "runtime/json_text.hpp",
        "runtime/printable.hpp",
    },
    ("proxy", "compiler"): PLAN_HEADERS,
    ("matrix", "runtime"): {
        "runtime/arithmetic.hpp",
        "runtime/atomic_file.hpp",
        "runtime/compile_cancel.hpp",
        "runtime/hash.hpp",
    },
    ("reorder", "runtime"): {
        "runtime/compile_cancel.hpp",
        "runtime/function_ref.hpp",
        "runtime/row_ranges.hpp",
    },
}

# Public headers that everyone may include, and the module each other one belongs to; one that is
# not named here belongs to the compiler, the top of the library.
BASE_HEADERS = {"spjit/error.hpp", "spjit/export.hpp", "spjit/version.hpp"}
PUBLIC_HEADER_OWNER = {
    "spjit/matrix.hpp": "matrix",
    "spjit/matrix_io.hpp": "matrix",
    "spjit/generate.hpp": "matrix",
    "spjit/reorder.hpp": "reorder",
}
UMBRELLA = "include/spjit/spjit.hpp"

# Modules that must stay free of CUDA: measuring is handed to them as a function. Their own headers
# and PLAN_HEADERS hold values only, whatever their names begin with.
NO_CUDA = {"matrix", "reorder", "rankmodel", "proxy"}
CUDA_HEADER = re.compile(r"(^|/)(cuda|nvrtc|nvjitlink|cubin|ptx)[^/]*$", re.IGNORECASE)

# LLVM is optional: what needs it is kept in one module.
LLVM_HEADER = re.compile(r"^llvm(-c)?/")
LLVM_MODULE = "compiler"

GETENV_FILE = "runtime/environment.cpp"
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SOURCE_SUFFIXES = {".cpp", ".hpp", ".h", ".inc"}
CMAKE_WORD = re.compile(r'"[^"]*"|[^\s()"]+')


@dataclass(frozen=True, order=True)
class Violation:
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Include:
    file: str  # relative to the root
    line: int
    header: str


def without_comments(text: str) -> str:
    """The text with its comments blanked and its line breaks kept. Strings stay."""
    pattern = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return pattern.sub(blank, text)


def source_files(root: Path, folder: str) -> list[Path]:
    base = root / folder
    if not base.is_dir():
        return []
    return sorted(p for p in base.rglob("*") if p.suffix in SOURCE_SUFFIXES)


def includes_of(root: Path, path: Path) -> list[Include]:
    file = path.relative_to(root).as_posix()
    lines = without_comments(path.read_text(encoding="utf-8")).splitlines()
    matches = ((number, INCLUDE.match(line)) for number, line in enumerate(lines, 1))
    return [Include(file, number, m[1] or m[2]) for number, m in matches if m]


def declared_dependencies(root: Path, module: str) -> tuple[dict[str, int], list[Violation]]:
    """The modules that `module` declares, each with its line, and what it must not declare."""
    path = root / module / "CMakeLists.txt"
    if module == "tools" or not path.is_file():
        # The tools are programs on top of everything; a folder without a build file has no say.
        return {name: 1 for name in MAY_DEPEND[module]}, []
    declared: dict[str, int] = {}
    listening = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for word in CMAKE_WORD.findall(line.split("#")[0]):
            if word.isupper() or word == "spjit_add_module":
                listening = word == "DEPENDS"
            elif listening:
                declared[word] = number
        if line.split("#")[0].rstrip().endswith(")"):
            listening = False
    file = path.relative_to(root).as_posix()
    wrong = [
        Violation(file, number, f"{module} must not depend on {name}; it may on: "
                                f"{', '.join(sorted(MAY_DEPEND[module])) or 'nothing'}")
        for name, number in declared.items()
        if name not in MAY_DEPEND[module]
    ]
    return declared, wrong


def owner_of(header: str) -> str | None:
    """The module a header belongs to; None for everyone's, and for those of other projects."""
    folder = header.split("/")[0]
    if folder == "spjit":
        return None if header in BASE_HEADERS else PUBLIC_HEADER_OWNER.get(header, "compiler")
    return folder if folder in MODULES else None


def check_include(module: str, declared: dict[str, int], include: Include) -> str | None:
    """Why `module` must not have this include; None if it may."""
    plain = include.header in PLAN_HEADERS or owner_of(include.header) == module
    if module in NO_CUDA and not plain and CUDA_HEADER.search(include.header):
        return f"{module} must know nothing of CUDA, but includes {include.header}"
    if module != LLVM_MODULE and LLVM_HEADER.match(include.header):
        return f"only {LLVM_MODULE} may use LLVM, but {module} includes {include.header}"
    owner = owner_of(include.header)
    if owner is None or owner == module:
        return None
    if owner not in MAY_DEPEND[module]:
        return f"{module} must not include {include.header}: {owner} lies above or beside it"
    if owner not in declared:
        return (f"{include.header} belongs to {owner}, which {module}/CMakeLists.txt does not name "
                f"after DEPENDS")
    visible = VISIBLE.get((module, owner))
    if visible is not None and include.header not in visible:
        return (f"{module} may see of {owner} only {', '.join(sorted(visible))}; "
                f"not {include.header}")
    return None


def check_modules(root: Path) -> list[Violation]:
    found: list[Violation] = []
    for module in MODULES:
        declared, wrong = declared_dependencies(root, module)
        found += wrong
        for path in source_files(root, module):
            for include in includes_of(root, path):
                reason = check_include(module, declared, include)
                if reason:
                    found.append(Violation(include.file, include.line, reason))
    return found


def check_shared_headers(root: Path) -> list[Violation]:
    """What rankmodel and proxy see of the compiler must not lead back to them, or to CUDA."""
    found: list[Violation] = []
    for header in sorted(PLAN_HEADERS):
        path = root / header
        if not path.is_file():
            continue
        for include in includes_of(root, path):
            if include.header in PLAN_RUNTIME_HEADERS:
                continue
            folder = include.header.split("/")[0]
            compiler_internal = folder == "compiler" and include.header not in PLAN_HEADERS
            if folder in {"rankmodel", "proxy", "runtime"} or compiler_internal:
                found.append(Violation(include.file, include.line,
                                       f"{header} is seen by rankmodel and proxy, so it must not "
                                       f"include {include.header}"))
            elif include.header not in PLAN_HEADERS and CUDA_HEADER.search(include.header):
                found.append(Violation(include.file, include.line,
                                       f"{header} is seen by rankmodel and proxy, which must know "
                                       f"nothing of CUDA; it includes {include.header}"))
    return found


def check_public_headers(root: Path) -> list[Violation]:
    found: list[Violation] = []
    headers = [p for p in source_files(root, "include") if p.suffix == ".hpp"]
    for path in headers:
        for include in includes_of(root, path):
            inner = include.header.split("/")[0] in MODULES
            foreign = "/" in include.header and not include.header.startswith(("spjit/", "sys/"))
            if inner or foreign:
                found.append(Violation(include.file, include.line,
                                       "a public header may include only public headers and the "
                                       f"standard library, not {include.header}"))
            elif include.header.startswith("spjit/") and not (
                    root / "include" / include.header).is_file():
                found.append(Violation(include.file, include.line,
                                       f"{include.header} is not a public header"))
    umbrella = root / UMBRELLA
    if umbrella.is_file():
        included = {i.header for i in includes_of(root, umbrella)}
        for path in headers:
            name = path.relative_to(root / "include").as_posix()
            if path != umbrella and name not in included:
                found.append(Violation(UMBRELLA, 1, f"does not include {name}"))
    return found


def check_environment(root: Path) -> list[Violation]:
    found: list[Violation] = []
    for folder in (*MODULES, "include"):
        for path in source_files(root, folder):
            file = path.relative_to(root).as_posix()
            if file == GETENV_FILE:
                continue
            lines = without_comments(path.read_text(encoding="utf-8")).splitlines()
            found += [Violation(file, number, f"only {GETENV_FILE} reads the environment")
                      for number, line in enumerate(lines, 1) if GETENV.search(line)]
    return found


def check(root: Path) -> list[Violation]:
    return sorted(check_modules(root) + check_shared_headers(root) + check_public_headers(root)
                  + check_environment(root))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent,
                        help="the repository (default: the one this script is in)")
    root = parser.parse_args().root
    files = sum(len(source_files(root, folder)) for folder in (*MODULES, "include"))
    if files == 0:
        print(f"{root}: no sources under {', '.join(MODULES)} or include; expected the "
              "repository's root", file=sys.stderr)
        return 2
    violations = check(root)
    for violation in violations:
        print(violation)
    print(f"check_dependencies: {files} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
