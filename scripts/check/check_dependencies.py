"""Checks that dependencies between the project's folders point one way.

LAYERS is the one list, which CMakeLists.txt repeats: a folder includes headers of itself and of the layers before its own, and of
the public headers those that such layers own. Folders of one layer do not see each other. In
kernels/ what is for CPUs lies in host/, what is for GPUs in cuda/: neither sees the other, nor does
the rest of kernels/ see either. Each family is a folder of its own there, and no family includes
another. Outside of kernels/ only the lists of families name a family's folder: FAMILIES_FILE, and
for what libspjit does not link TUNED_FAMILIES_FILE. A violation is one line
`file:line: what is wrong`; any makes the exit status 1.

    scripts/check/check_dependencies.py [--root DIR]
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# Lowest first. Each folder with the public headers that it implements.
LAYERS: tuple[dict[str, tuple[str, ...]], ...] = (
    {"base": ("error", "export", "parallel_for", "version")},
    {"matrix": ("generate", "matrix", "matrix_io", "model_io", "quantize")},
    {"reorder": ("reorder",)},
    {"plan": ("arguments", "convolution", "data_type", "epilogue", "group_scales", "layout", "numerics",
              "operand", "options", "problem", "progress", "target", "verification")},
    {"rankmodel": (), "runtime": ()},
    {"sass": ()},
    {"clock": ()},
    {"kernels": ("kernel_info", "recurrent_cell")},
    {"artifact": ("bundle", "kernel", "recurrent")},
    {"proxy": ()},
    {"compiler": ("compilation", "compiler", "spjit")},
    {"tools": ()},
    {"bindings": ()},
)

LAYER_OF = {folder: level for level, layer in enumerate(LAYERS) for folder in layer}
MODULES = tuple(LAYER_OF)
# Of libspjit.
LIBRARY = tuple(folder for folder in MODULES if folder not in ("tools", "bindings"))
PUBLIC_OWNER = {f"spjit/{header}.hpp": folder
                for layer in LAYERS for folder, headers in layer.items() for header in headers}
UMBRELLA = "include/spjit/spjit.hpp"

# In kernels/: the wings, and what of their folders is no family.
WINGS = ("host", "cuda")
ROOMS = {"operands", "layer", "object", "loops", "code", "build", "launch", "training"}
FAMILIES_FILE = "artifact/families.cpp"
TUNED_FAMILIES_FILE = "artifact/tuned_families.cpp"
# Checked for that alone.
LAB = "bench"

# Optional, so what needs it is kept in one folder.
LLVM_HEADER = re.compile(r"^llvm(-c)?/")
LLVM_FOLDER = "kernels"

BUILD_FILE = "CMakeLists.txt"
BUILD_LIST = re.compile(r"^spjit_add_modules\(([^)]*)\)", re.MULTILINE)

GETENV_FILE = "base/environment.cpp"
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SOURCE_SUFFIXES = {".cpp", ".hpp", ".h", ".inc"}


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


def owner_of(header: str) -> str | None:
    """The folder a header belongs to; None for those of other projects."""
    folder = header.split("/")[0]
    return PUBLIC_OWNER.get(header, folder if folder in MODULES else None)


def wing_of(path: str) -> str | None:
    """host or cuda: the wing of kernels/ that a path lies in."""
    parts = path.split("/")
    return parts[1] if parts[0] == "kernels" and len(parts) > 2 and parts[1] in WINGS else None


def family_of(path: str) -> str | None:
    """The family of kernels that a path lies in, with its wing."""
    parts = path.split("/")
    if wing_of(path) is None or len(parts) < 4 or parts[2] in ROOMS:
        return None
    return f"{parts[1]}/{parts[2]}"


def check_wings(include: Include) -> str | None:
    """What is wrong with an include of a header of kernels/host or kernels/cuda; None: nothing."""
    family, other = family_of(include.file), family_of(include.header)
    wing, other_wing = wing_of(include.file), wing_of(include.header)
    if not include.file.startswith("kernels/"):
        lists = (FAMILIES_FILE, TUNED_FAMILIES_FILE)
        if other and include.file not in lists:
            return (f"only {FAMILIES_FILE} and {TUNED_FAMILIES_FILE} may name a family, "
                    f"not include {include.header}")
        return None
    if other_wing and other_wing != wing:
        return f"what lies outside of kernels/{other_wing} must not include {include.header}"
    if other and family != other:
        return f"must not include {include.header}, of the family {other}"
    return None


def check_include(module: str, include: Include) -> str | None:
    """Why `module` must not have this include; None if it may."""
    if module != LLVM_FOLDER and LLVM_HEADER.match(include.header):
        return f"only {LLVM_FOLDER} may use LLVM, but {module} includes {include.header}"
    if include.header.startswith("spjit/") and include.header not in PUBLIC_OWNER:
        return f"no layer owns {include.header}; add it to LAYERS"
    if reason := check_wings(include):
        return reason
    owner = owner_of(include.header)
    if owner is None or owner == module or LAYER_OF[owner] < LAYER_OF[module]:
        return None
    return f"{module} must not include {include.header}: {owner} lies above or beside it"


def check_modules(root: Path) -> list[Violation]:
    found: list[Violation] = []
    for module in MODULES:
        for path in source_files(root, module):
            for include in includes_of(root, path):
                reason = check_include(module, include)
                if reason:
                    found.append(Violation(include.file, include.line, reason))
    return found


def check_lab(root: Path) -> list[Violation]:
    return [Violation(include.file, include.line, reason)
            for path in source_files(root, LAB) for include in includes_of(root, path)
            if (reason := check_wings(include))]


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


def check_build(root: Path) -> list[Violation]:
    """The build has the modules of the library in this order."""
    file = root / BUILD_FILE
    if not file.is_file():
        return []
    listed = BUILD_LIST.search(text := file.read_text(encoding="utf-8"))
    built = tuple(listed[1].split()) if listed else ()
    if tuple(folder for folder in built if not folder.startswith("bindings/")) == LIBRARY:
        return []
    line = text[:listed.start()].count("\n") + 1 if listed else 1
    return [Violation(BUILD_FILE, line, f"spjit_add_modules has {' '.join(built) or 'nothing'}; "
                                        f"expected {' '.join(LIBRARY)}, then bindings")]


def check(root: Path) -> list[Violation]:
    return sorted(check_modules(root) + check_lab(root) + check_public_headers(root) +
                  check_environment(root) + check_build(root))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2],
                        help="the repository (default: the one this script is in)")
    root = parser.parse_args().root
    files = sum(len(source_files(root, folder)) for folder in (*MODULES, LAB, "include"))
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
