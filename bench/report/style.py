"""Colours and type of pages and figures, light and dark."""

from __future__ import annotations

# Six series told apart by colour and marker; at least 4.5:1 against the background, and distinct
# to colour-blind readers.
LIGHT = {"bg": "#ffffff", "panel": "#f5f6f8", "ink": "#1c2128", "soft": "#57606a",
         "line": "#d0d7de", "warn": "#8a3b00", "warnbg": "#fff4e5", "s0": "#005ea8",
         "s1": "#b34700", "s2": "#00735c", "s3": "#8f3f8b", "s4": "#7a5c00", "s5": "#4d5660"}
DARK = {"bg": "#0f1419", "panel": "#1a2027", "ink": "#e6edf3", "soft": "#9aa7b4",
        "line": "#343d47", "warn": "#ffb77a", "warnbg": "#33220f", "s0": "#5db3f5",
        "s1": "#ff9354", "s2": "#3fcba6", "s3": "#d896d4", "s4": "#dcbc45", "s5": "#b3bdc7"}
SERIES = 6


def variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


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

COLOURS_CSS = (f":root{{color-scheme:light dark;{variables(LIGHT)}}}"
               f"@media(prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}")

PAGE_CSS = COLOURS_CSS + """
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);line-height:1.5;\
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0 1rem}
h2{font-size:1.3rem;line-height:1.25;margin:2.5rem 0 .75rem;padding-top:1rem;\
border-top:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.75rem 0 .5rem}
h1,h2,h3,p,dd,td,th,figcaption,code{overflow-wrap:anywhere}
p{max-width:46rem;margin:.5rem 0}
a{color:var(--s0)}
.warning{border-left:4px solid var(--warn);background:var(--warnbg);color:var(--ink);\
padding:.5rem .75rem}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.75rem 0;\
font-size:.9rem}
.facts dt{color:var(--soft)}.facts dd{margin:0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;\
margin:1rem 0;padding:0;list-style:none}
.cards li{background:var(--panel);border-radius:8px;padding:.75rem}
.cards strong{display:block;font-size:1.5rem;line-height:1.2}
.cards span{color:var(--soft);font-size:.85rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem;\
align-items:start;margin:1rem 0}
figure{margin:0;min-width:0;background:var(--panel);border-radius:8px;padding:.75rem}
figure svg{display:block;width:100%;height:auto;max-width:640px;margin:0 auto}
figcaption{font-size:.85rem;color:var(--soft);margin-top:.5rem}
.scroll{overflow-x:auto;max-width:100%;margin:.75rem 0}
.tall{max-height:30rem;overflow-y:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.25rem 0;caption-side:top}
th,td{padding:.25rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
thead th{color:var(--soft);font-weight:600;vertical-align:bottom}
th.n,td.n{text-align:left}tbody th{font-weight:400}
.group th{text-align:left;white-space:normal;font-weight:600;padding-top:.7rem}
summary{cursor:pointer;font-weight:600;padding:.35rem 0}
.note{font-size:.85rem;color:var(--soft)}
@media(max-width:480px){main{padding:.75rem}.facts{grid-template-columns:1fr;gap:0}\
.facts dd{margin-bottom:.4rem}th,td{padding:.25rem .4rem}}
@media print{details>*{display:block}}
""" + FIGURE_CSS
