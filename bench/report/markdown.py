"""A document as Markdown; figures are SVG files beside it."""

from __future__ import annotations

from pathlib import Path

from .document import Block, Cards, Document, Facts, Figure, Heading, Paragraph, Table
from .svg import standalone


def escaped(text: str) -> str:
    for character in "\\|*_<>`[]":
        text = text.replace(character, "\\" + character)
    return text.replace("\n", " ")


def table_text(names: list[str], rows: list[list[str]], left: int) -> str:
    lines = ["| " + " | ".join(map(escaped, names)) + " |",
             "|" + "".join("---|" if i < left else "---:|" for i in range(len(names)))]
    return "\n".join(lines + ["| " + " | ".join(map(escaped, row)) + " |" for row in rows])


# Longer folded tables are left to the result file: Markdown cannot scroll them.
MOST_ROWS = 80


def table_markdown(table: Table) -> str:
    if table.folded and len(table.rows) > MOST_ROWS:
        return (f"{escaped(table.caption)}: {len(table.rows):,} rows, in the result file.")
    text = f"**{escaped(table.caption)}**\n\n{table_text(table.columns, table.rows, table.names)}"
    if table.note:
        text += f"\n\n{escaped(table.note)}"
    if table.folded:
        text = f"<details><summary>{escaped(table.caption)}</summary>\n\n{text}\n\n</details>"
    return text


def block_markdown(block: Block, folder: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {escaped(text)}"
        case Paragraph(text, warning):
            return f"> {escaped(text)}" if warning else escaped(text)
        case Facts(rows):
            return "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in rows)
        case Cards(cards):
            return "\n".join(f"- **{escaped(figure)}** {escaped(what)}" for figure, what in cards)
        case Table():
            return table_markdown(block)
        case Figure():
            caption = f"\n\n{escaped(block.caption)}" if block.caption else ""
            return f"![{escaped(block.title)}]({folder}/{block.id}.svg){caption}"


def write_markdown(document: Document, path: Path) -> None:
    """Also every figure, to a folder named after the file, which loses those of another run."""
    folder = path.with_name(path.stem + "-figures")
    for old in folder.glob("f[0-9]*-*.svg"):
        old.unlink()
    figures = [block for block in document.blocks if isinstance(block, Figure)]
    if figures:
        folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        (folder / f"{figure.id}.svg").write_text(
            standalone(figure.title, figure.description, figure.body,
                       (figure.width, figure.height)), encoding="utf-8")
    blocks = [f"# {escaped(document.title)}"]
    blocks += [block_markdown(block, folder.name) for block in document.blocks]
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
