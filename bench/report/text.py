"""Numbers as they are printed."""

from __future__ import annotations

import math
import re

NONE = "-"


def significant(value: float | None, digits: int = 4) -> str:
    """Rounded to this many significant digits, but never left of the point; no exponent."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(decimals, 0)}f}"


def ratio(value: float | None) -> str:
    return NONE if value is None else significant(value, 3) + "x"


def percent(share: float | None, digits: int = 2) -> str:
    return NONE if share is None else significant(100 * share, digits) + " %"


def count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def whole(value: int, noun: str) -> str:
    """"1 case", "2 cases"."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def size(value: float) -> str:
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{significant(value / factor, 3)} {unit}"
    return f"{value:g} bytes"


def short(name: str, width: int) -> str:
    """Names are paths; their end tells them apart."""
    return name if len(name) <= width else "…" + name[-(width - 1):]


def tick(value: float) -> str:
    """The label of an axis."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    if value >= 1e4:
        return f"{value / 1e3:g}k"
    if 0 < value < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:g}"


def identifier(name: str) -> str:
    """For ids and file names."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
