"""What a file of simulated cycles has to hold (bench/README.md, Simulated cycles)."""

from __future__ import annotations

from typing import Any

LEAST_TILES = 20
COUNTS = ("cycles", "instructions")
TEXTS = ("kind", "device", "simulator", "method", "matrix")
FAMILIES = ("unrolled", "csr", "narrow", "dense", "sputnik-style")


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def record_faults(record: Any, name: str, optional: tuple[str, ...] = (),
                  texts: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with an entry of a list, whose member `name` says what it is of."""
    if not isinstance(record, dict) or not isinstance(record.get(name), str) or not record[name]:
        return [f"a record without {name}: {record}"]
    text = record[name]
    unknown = sorted(record.keys() - {name, *COUNTS, *optional, *texts})
    faults = [f"{text}: unknown member {member}" for member in unknown]
    faults += [f"{text}: {member} is {record[member]!r}; expected a text" for member in texts
               if member in record and not isinstance(record[member], str)]
    for member in (*COUNTS, *(member for member in optional if member in record)):
        if not is_count(record.get(member)):
            faults.append(f"{text}: {member} is {record.get(member)!r}; expected a count above 0")
    return faults


def distinct_faults(records: list[dict], name: str) -> list[str]:
    names = [record.get(name) for record in records if isinstance(record, dict)]
    twice = sorted({str(text) for text in names if names.count(text) > 1})
    return [f"{name} {text!r} is there twice" for text in twice]


def clock_file_faults(document: Any) -> list[str]:
    """Why it is no such file, a line a reason; none: it is one."""
    if not isinstance(document, dict):
        return ["expected an object"]
    faults = [f"{name} is {document.get(name)!r}; expected a text" for name in TEXTS
              if not isinstance(document.get(name), str) or not document[name]]
    if document.get("kind") != "simulated":
        faults.append(f'kind is {document.get("kind")!r}; expected "simulated"')
    if "simulated" not in str(document.get("device")):
        faults.append("device does not say that it is simulated")
    if str(document.get("matrix")).startswith("/"):
        faults.append(f'matrix is {document["matrix"]!r}; expected a path below those of matrices')
    if not is_count(document.get("n")):
        faults.append(f'n is {document.get("n")!r}; expected an integer above 0')
    for name in ("tiles", "families"):
        if not isinstance(document.get(name), list):
            return [*faults, f"{name} is {document.get(name)!r}; expected a list"]
    tiles, families = document["tiles"], document["families"]
    why_fewer = document.get("fewer_tiles")
    if "fewer_tiles" in document and (not isinstance(why_fewer, str) or not why_fewer):
        faults.append(f"fewer_tiles is {why_fewer!r}; expected a text")
    if len(tiles) < LEAST_TILES and not why_fewer:
        faults.append(f"{len(tiles)} tiles; expected {LEAST_TILES} or more")
    for record in tiles:
        faults += record_faults(record, "tile", ("cycles_limited_fetch",))
    for record in families:
        faults += record_faults(record, "family", texts=("detail",))
    faults += [f'family {record.get("family")!r} is unknown' for record in families
               if isinstance(record, dict) and record.get("family") not in FAMILIES]
    return faults + distinct_faults(tiles, "tile") + distinct_faults(families, "family")
