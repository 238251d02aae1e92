"""Colours and type of figures, light and dark."""

from __future__ import annotations

# Six series told apart by colour and marker; at least 4.5:1 against the background, and distinct
# to colour-blind readers.
LIGHT = {"bg": "#ffffff", "ink": "#1c2128", "soft": "#57606a",
         "line": "#d0d7de", "s0": "#005ea8",
         "s1": "#b34700", "s2": "#00735c", "s3": "#8f3f8b", "s4": "#7a5c00", "s5": "#4d5660"}
DARK = {"bg": "#0f1419", "ink": "#e6edf3", "soft": "#9aa7b4",
        "line": "#343d47", "s0": "#5db3f5",
        "s1": "#ff9354", "s2": "#3fcba6", "s3": "#d896d4", "s4": "#dcbc45", "s5": "#b3bdc7"}
SERIES = 6


def series_rules() -> str:
    return "".join(f".s{i}{{color:var(--s{i})}}" for i in range(SERIES))


# Marks take the colour of their series' class.
FIGURE_CSS = f"""
svg text{{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;\
fill:var(--ink)}}
svg .soft{{fill:var(--soft)}}svg .small{{font-size:11px}}svg .bold{{font-weight:600}}
svg .mid{{text-anchor:middle}}svg .end{{text-anchor:end}}
svg .grid{{stroke:var(--line);stroke-width:1}}svg .axis{{stroke:var(--soft);stroke-width:1}}
svg .one{{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:5 3}}
svg .ceiling{{stroke:var(--soft);stroke-width:1.5;fill:none}}
svg .fill{{fill:currentColor}}svg .faint{{fill:currentColor;fill-opacity:.35}}
svg .stroke{{stroke:currentColor;fill:none;stroke-width:2;stroke-linejoin:round}}
svg .own{{color:var(--ink)}}svg .stroke.own{{stroke-width:3}}
svg .again{{stroke-dasharray:6 3}}
svg .mark{{fill:currentColor;stroke:var(--bg);stroke-width:1}}
{series_rules()}
"""


def resolved(css: str, colours: dict[str, str]) -> str:
    """With colours in place of their names."""
    for name, value in colours.items():
        css = css.replace(f"var(--{name})", value)
    return css


# Of an SVG file of its own; not every program that shows one knows CSS variables.
STANDALONE_CSS = (resolved(FIGURE_CSS + "svg .page{fill:var(--bg)}", LIGHT)
                  + "@media(prefers-color-scheme:dark){"
                  + resolved(FIGURE_CSS + "svg .page{fill:var(--bg)}", DARK) + "}")
