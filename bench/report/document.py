"""A report as blocks; markdown.py writes them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    text: str
    warning: bool = False


@dataclass(frozen=True)
class Facts:
    rows: list[tuple[str, str]]


@dataclass(frozen=True)
class Cards:
    """A few figures that sum it up: (figure, what it is)."""

    cards: list[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Cells are texts; the first `names` columns are names, the others numbers."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    names: int = 1
    note: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """`body` is SVG inside of a viewBox of width x height, drawn with the classes of style.py."""

    id: str
    title: str
    description: str  # what it shows, for who cannot see it
    body: str
    width: float
    height: float
    caption: str = ""


Block = Heading | Paragraph | Facts | Cards | Table | Figure


@dataclass
class Document:
    title: str
    blocks: list[Block] = field(default_factory=list)
