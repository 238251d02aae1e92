"""What the benchmarks share: modules of the examples, the CPU's name and files of results."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path[:0] = [str(EXAMPLES / "shared"), str(EXAMPLES / "minilm")]


def cpu_name() -> str:
    """"amd-epyc-family-25-model-1", as names of result files have it."""
    info = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines()
                if ":" in line)
    found = {key.strip(): value.strip() for key, value in info.items()}
    return (f"{found['model name']} family {found['cpu family']} model {found['model']}").lower(
        ).replace(" ", "-")


def text_of(document: dict[str, Any]) -> str:
    """JSON with a line for each member, and for each row."""
    members = []
    for name, value in document.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        members.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def add_rows(path: Path, schema: str, case: Sequence[str], rows: list[dict[str, Any]],
             packages: Sequence[str] = ()) -> None:
    """Adds rows to a file of results, or makes it. Rows of the same case, the values of these
    members, are replaced. `packages`: whose versions are written besides spjit's."""
    def case_of(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in case)

    document: dict[str, Any] = {"schema": schema, "device": cpu_name(), "rows": []}
    if path.exists():
        document = json.loads(path.read_text(encoding="utf-8"))
    if (document["schema"], document["device"]) != (schema, cpu_name()):
        raise SystemExit(f"{path} is of {document['schema']} on {document['device']}; expected "
                         f"{schema} on {cpu_name()}")
    new = {case_of(row) for row in rows}
    document["rows"] = [row for row in document["rows"] if case_of(row) not in new] + rows
    document["versions"] = {"python": platform.python_version(),
                            **{package: version(package) for package in ("spjit", *packages)}}
    path.write_text(text_of(document), encoding="utf-8")
