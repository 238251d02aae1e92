"""Two bars a line: a report as a picture, or any times before and after."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

ROW, BAR, LABELS, BARS, NUMBERS = 22, 8, 260, 420, 120  # px
DENSE, SPARSE, KEPT = "#b0b7c3", "#1f6feb", "#d8dce3"


class Pair(NamedTuple):
    """A line of a picture."""

    label: str
    before: float
    after: float
    text: str  # behind the bars
    in_use: bool = True  # else `after` is pale


def bars(pairs: list[Pair], title: str, legend: str) -> str:
    """SVG text: `before` in grey, `after` in blue, both as parts of the largest number."""
    longest = max((max(pair.before, pair.after) for pair in pairs), default=1.0)
    lines = []
    for number, pair in enumerate(pairs):
        top = 60 + number * ROW
        lines.append(f'<text x="{LABELS - 8}" y="{top + 12}" text-anchor="end">'
                     f'{escape(pair.label)}</text>')
        for place, size, colour in ((0, pair.before, DENSE),
                                    (1, pair.after, SPARSE if pair.in_use else KEPT)):
            lines.append(f'<rect x="{LABELS}" y="{top + place * BAR}" height="{BAR - 1}" '
                         f'width="{BARS * size / longest:.1f}" fill="{colour}"/>')
        lines.append(f'<text x="{LABELS + BARS + 8}" y="{top + 12}">{escape(pair.text)}</text>')
    width, height = LABELS + BARS + NUMBERS, 70 + len(pairs) * ROW
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" '
            f'fill="white"/><text x="12" y="22" font-size="14">{escape(title)}</text>'
            f'<text x="12" y="42">{escape(legend)}</text>{"".join(lines)}</svg>\n')


def picture(report: Any, title: str) -> str:
    """SVG text. Of layers that were timed: dense in grey, the kernel in blue where it is in use and
    pale where it was slower."""
    pairs = [Pair(row.layer, row.before_us, row.after_us,
                  f"{row.before_us:.0f} / {row.after_us:.0f} us", row.sparse)
             for row in report.rows if row.before_us and row.after_us]
    total = ""
    if report.before_us and report.after_us:
        total = f"the model: {report.before_us:.0f} us dense, {report.after_us:.0f} us with kernels"
    return bars(pairs, title, f"{total}; grey: dense, blue: the kernel, pale: not used")
