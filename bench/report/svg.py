"""Axes, marks and legends. Positions are in units of the viewBox, 360 wide as a rule: then type is
readable on a phone without zooming."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

from .style import SERIES, STANDALONE_CSS
from .text import tick

WIDTH = 360.0
LINE = 16.0  # of text


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Axis:
    """Maps values to positions; `start` is where `low` lies."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = math.log(value) if self.log else value
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        return (log_ticks if self.log else linear_ticks)(self.low, self.high, most)


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, at most `most`."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    factors = (1, 2, 5, 10, 20, 50)
    step *= next(f for f in factors if math.floor((high - low) / (step * f)) + 1 <= most)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """1, 2, 5 or 1, 3 or 1 in every decade, or every few decades."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for digits, step in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
        found = [d * 10.0 ** e for e in range(first, last + 1, step) for d in digits
                 if low * 0.999 <= d * 10.0 ** e <= high * 1.001]
        if len(found) <= most:
            break
    return found


def log_range(values: list[float], *more: float) -> tuple[float, float]:
    """Around the values, with a little room."""
    low, high = min(*values, *more, math.inf), max(*values, *more, 0)
    return low / 1.15, high * 1.15


def text(x: float, y: float, content: str, classes: str = "") -> str:
    kind = f' class="{classes}"' if classes else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{classes}"/>'


# The series of spjit itself, where it is shown beside its peers.
OWN = -1


def series_class(series: int) -> str:
    return "own" if series == OWN else f"s{series % SERIES}"


def curve(points: list[tuple[float, float]], series: int) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    again = " again" if series >= SERIES else ""
    return f'<polyline points="{places}" class="stroke {series_class(series)}{again}"/>'


def dot(x: float, y: float, series: int, radius: float = 2) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="faint s{series % SERIES}"/>'


# Of a mark around (0, 0), one a series.
MARK_PATHS = ("M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z", "M-4-4H4V4H-4Z", "M0-5L5 4H-5Z",
              "M0-5.5L5.5 0L0 5.5L-5.5 0Z", "M0 5L5-4H-5Z",
              "M-1.5-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5V-1.5H-1.5Z")


def mark(x: float, y: float, series: int, scale: float = 1) -> str:
    """From the seventh series on, colours come again with other marks."""
    size = "" if scale == 1 else f" scale({scale:g})"
    path = MARK_PATHS[0 if series == OWN else (series + series // SERIES) % SERIES]
    return (f'<path d="{path}" transform="translate({x:.1f} {y:.1f}){size}" '
            f'class="mark {series_class(series)}"/>')


def text_width(content: str) -> float:
    """At 12 units, in a wide font."""
    return 7.2 * len(content)


@dataclass
class Legend:
    """Names of series, in rows."""

    entries: list[tuple[int, str]]
    width: float = WIDTH

    def rows(self) -> list[list[tuple[float, int, str]]]:
        rows: list[list[tuple[float, int, str]]] = [[]]
        at = 8.0
        for series, name in self.entries:
            needed = 22 + text_width(name)
            if at + needed > self.width and rows[-1]:
                rows.append([])
                at = 8.0
            rows[-1].append((at, series, name))
            at += needed
        return rows

    @property
    def height(self) -> float:
        return len(self.rows()) * LINE + 4 if self.entries else 0

    def draw(self, top: float) -> str:
        parts = []
        for index, row in enumerate(self.rows() if self.entries else []):
            y = top + index * LINE + 8
            parts += [mark(x + 6, y, series) + text(x + 15, y + 4, name) for x, series, name in row]
        return "".join(parts)


@dataclass
class Plot:
    """A frame with axes; drawing appends to `parts`."""

    x: Axis
    y: Axis
    box: Box
    parts: list[str] = field(default_factory=list)

    def x_ticks(self, most: int = 7, grid: bool = True) -> None:
        for value in self.x.ticks(most):
            self.x_label(self.x(value), tick(value), grid)

    def x_label(self, at: float, label: str, grid: bool) -> None:
        if grid:
            self.parts.append(line(at, self.box.top, at, self.box.bottom, "grid"))
        self.parts.append(text(at, self.box.bottom + 15, label, "mid"))

    def y_ticks(self, most: int = 7, labels: bool = True) -> None:
        for value in self.y.ticks(most):
            at = self.y(value)
            self.parts.append(line(self.box.left, at, self.box.right, at, "grid"))
            if labels:
                self.parts.append(text(self.box.left - 5, at + 4, tick(value), "end"))

    def titles(self, x: str, y: str) -> None:
        """The y axis' title stands above it, level, where a phone shows it best."""
        self.parts.append(text((self.box.left + self.box.right) / 2, self.box.bottom + 32, x,
                               "mid soft"))
        self.parts.append(text(4, self.box.top - 8, y, "soft"))

    def base(self) -> None:
        self.parts.append(line(self.box.left, self.box.bottom, self.box.right, self.box.bottom,
                               "axis"))


# Room for tick labels and the title of the y axis.
LEFT, RIGHT, ABOVE = 44.0, 16.0, 22.0


def frame(legend: Legend, inner: float, width: float = WIDTH) -> Box:
    """Below the legend; `inner` is the height between the axes."""
    top = legend.height + ABOVE
    return Box(LEFT, top, width - RIGHT, top + inner)


# From the viewBox to pixels, where there is room: at 360 wide the page narrows it anyway.
SCALE = 1.5


def standalone(title: str, description: str, body: str, size: tuple[float, float]) -> str:
    """A file of its own, with its colours for light and dark."""
    width, height = size
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{SCALE * width:g}" height="{SCALE * height:g}" '
            f'role="img" aria-labelledby="t d">\n<title id="t">{escape(title)}</title>\n'
            f'<desc id="d">{escape(description)}</desc>\n'
            f"<style>{STANDALONE_CSS}</style>\n"
            f'<rect width="100%" height="100%" class="page"/>\n{body}\n</svg>\n')
