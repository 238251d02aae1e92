"""A comparison as text and as JSON."""

from __future__ import annotations

import dataclasses
import json

from .compare import Change, Comparison
from .stats import NOISE_FACTOR
from .text import percent, significant, whole

# More than these are counted, not printed; --json has all.
MOST_LINES = 40


def change_line(change: Change) -> str:
    control = f", peers {change.control:.3f}x" if change.control != 1 else ""
    return (f"  {change.adjusted:.3f}x  {change.library} on {change.case}: "
            f"{significant(change.old_us)} -> {significant(change.new_us)} us{control} "
            f"(limit {percent(change.limit)})")


def listing(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = len(lines) - MOST_LINES
    rest = [f"  and {more} more; --json has all"] if more > 0 else []
    return [f"{title} ({len(lines)}):", *lines[:MOST_LINES], *rest]


def to_text(comparison: Comparison, threshold: float) -> str:
    lines = [f"A change counts beyond {percent(threshold)} and {NOISE_FACTOR} times the combined "
             "noise; ratios are new over old time, over that of the peers where those shifted."]
    lines.append("Shift of every library (geometric mean over paired cases; controls show what the "
                 "machine did):" if comparison.controls else
                 "Shift of every library (no peer of the same version in both files: nothing shows "
                 "what the machine did):")
    lines += [f"  {shift.ratio:.3f}x  {shift.library}, {whole(shift.threads, 'thread')}, "
              f"{whole(shift.cases, 'case')}{', control' if shift.control else ''}"
              for shift in comparison.shifts]
    for title, verdict in (("Slower", "slower"), ("Faster", "faster"),
                           ("Changed as the peers did: the machine", "machine")):
        lines += listing(title, [change_line(c) for c in comparison.named(verdict)])
    lines += listing("Broken", [f"  {what}" for what in comparison.broken])
    lines += listing("Only in the old file", [f"  {what}" for what in comparison.missing])
    lines += listing("Only in the new file", [f"  {what}" for what in comparison.added])
    same = len(comparison.named("same"))
    lines.append(f"{whole(len(comparison.changes), 'timing')} compared, {same} the same; "
                 f"{'REGRESSED' if comparison.regressed else 'nothing got slower'}")
    return "\n".join(lines)


def to_json(comparison: Comparison, threshold: float) -> str:
    document = {"schema": "spjit-bench-compare-1", "threshold": threshold,
                "noise_factor": NOISE_FACTOR, "regressed": comparison.regressed,
                "controls": comparison.controls,
                "shifts": [dataclasses.asdict(shift) for shift in comparison.shifts],
                "changes": [{**dataclasses.asdict(change), "ratio": change.ratio,
                             "adjusted": change.adjusted} for change in comparison.changes],
                "broken": comparison.broken, "missing": comparison.missing,
                "added": comparison.added}
    return json.dumps(document, indent=1)
