"""A document as one HTML file: nothing is loaded from elsewhere and no script runs. The syntax is
also well-formed XML."""

from __future__ import annotations

from html import escape

from .document import Block, Cards, Document, Facts, Figure, Heading, Paragraph, Table
from .style import PAGE_CSS
from .text import NONE

# Longer tables scroll inside their own frame.
TALL_ROWS = 24


def cell(content: str, index: int, table: Table) -> str:
    kind = ' class="n"' if index < table.names else ""
    if index == table.group:
        return f'<th scope="row"{kind}>{escape(content)}</th>'
    return f"<td{kind}>{escape(content)}</td>"


def head_cell(name: str, index: int, table: Table) -> str:
    kind = ' class="n"' if index < table.names else ""
    return f'<th scope="col"{kind}>{escape(name)}</th>'


def group_html(row: list[str], table: Table) -> str:
    """What the rows below have in common."""
    said = [row[0], *(f"{name} = {value}" for name, value in
                      zip(table.columns[1:table.group], row[1:], strict=False) if value != NONE)]
    return (f'<tr class="group"><th colspan="{len(table.columns) - table.group}" scope="rowgroup">'
            f"{escape(', '.join(said))}</th></tr>\n")


def body_rows(table: Table) -> str:
    parts = []
    above: list[str] = []
    for row in table.rows:
        if row[:table.group] != above:
            above = row[:table.group]
            parts.append(group_html(row, table))
        cells = "".join(cell(content, index, table) for index, content in enumerate(row)
                        if index >= table.group)
        parts.append(f"<tr>{cells}</tr>\n")
    return "".join(parts)


def table_html(table: Table) -> str:
    head = "".join(head_cell(name, index, table) for index, name in enumerate(table.columns)
                   if index >= table.group)
    tall = " tall" if len(table.rows) > TALL_ROWS else ""
    # Keyboards can only scroll what they can focus.
    text = (f'<div class="scroll{tall}" role="region" tabindex="0" '
            f'aria-label="{escape(table.caption)}">\n<table><caption>{escape(table.caption)}'
            f"</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body_rows(table)}</tbody>"
            "</table></div>")
    if table.note:
        text += f'\n<p class="note">{escape(table.note)}</p>'
    if table.folded:
        text = (f"<details><summary>{escape(table.caption)} ({len(table.rows):,} rows)</summary>\n"
                f"{text}\n</details>")
    return text


def figure_html(figure: Figure) -> str:
    caption = escape(figure.title) + (f". {escape(figure.caption)}" if figure.caption else "")
    return (f'<figure><svg viewBox="0 0 {figure.width:g} {figure.height:g}" role="img" '
            f'aria-labelledby="{figure.id}-t {figure.id}-d">\n'
            f'<title id="{figure.id}-t">{escape(figure.title)}</title>\n'
            f'<desc id="{figure.id}-d">{escape(figure.description)}</desc>\n{figure.body}\n</svg>\n'
            f"<figcaption>{caption}</figcaption></figure>")


def facts_html(facts: Facts) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.rows)
    return f'<dl class="facts">{rows}</dl>'


def cards_html(cards: Cards) -> str:
    items = "".join(f"<li><strong>{escape(figure)}</strong><span>{escape(what)}</span></li>"
                    for figure, what in cards.cards)
    return f'<ul class="cards">{items}</ul>'


def block_html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Paragraph(text, warning):
            kind = ' class="warning"' if warning else ""
            return f"<p{kind}>{escape(text)}</p>"
        case Facts():
            return facts_html(block)
        case Cards():
            return cards_html(block)
        case Table():
            return table_html(block)
        case Figure():
            return figure_html(block)


def body_html(blocks: list[Block]) -> str:
    """Figures in a row are put side by side where there is room."""
    parts: list[str] = []
    inside = False
    for block in blocks:
        if isinstance(block, Figure) != inside:
            parts.append("</div>" if inside else '<div class="figures">')
            inside = not inside
        parts.append(block_html(block))
    return "\n".join([*parts, "</div>"] if inside else parts)


def page(document: Document) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>{escape(document.title)}</title>
<style>{PAGE_CSS}</style>
</head>
<body>
<main>
<h1>{escape(document.title)}</h1>
{body_html(document.blocks)}
</main>
</body>
</html>
"""
