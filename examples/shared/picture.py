"""A report as a picture: two bars a layer."""

from __future__ import annotations

from html import escape
from typing import Any

ROW, BAR, LABELS, BARS, NUMBERS = 22, 8, 260, 420, 120  # px
DENSE, SPARSE, KEPT = "#b0b7c3", "#1f6feb", "#d8dce3"


def picture(report: Any, title: str) -> str:
    """SVG text. Of layers that were timed: dense in grey, the kernel in blue where it is in use and
    pale where it was slower."""
    rows = [row for row in report.rows if row.before_us and row.after_us]
    longest = max((max(row.before_us, row.after_us) for row in rows), default=1.0)
    lines = []
    for number, row in enumerate(rows):
        top = 60 + number * ROW
        lines.append(f'<text x="{LABELS - 8}" y="{top + 12}" text-anchor="end">'
                     f'{escape(row.layer)}</text>')
        for place, us, colour in ((0, row.before_us, DENSE),
                                  (1, row.after_us, SPARSE if row.sparse else KEPT)):
            lines.append(f'<rect x="{LABELS}" y="{top + place * BAR}" height="{BAR - 1}" '
                         f'width="{BARS * us / longest:.1f}" fill="{colour}"/>')
        lines.append(f'<text x="{LABELS + BARS + 8}" y="{top + 12}">{row.before_us:.0f} / '
                     f'{row.after_us:.0f} us</text>')
    width, height = LABELS + BARS + NUMBERS, 70 + len(rows) * ROW
    total = ""
    if report.before_us and report.after_us:
        total = f"the model: {report.before_us:.0f} us dense, {report.after_us:.0f} us with kernels"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" '
            f'fill="white"/><text x="12" y="22" font-size="14">{escape(title)}</text>'
            f'<text x="12" y="42">{escape(total)}; grey: dense, blue: the kernel, pale: not used'
            f'</text>{"".join(lines)}</svg>\n')
