"""What a report says of layers that are called in several ways."""

from __future__ import annotations

from .document import Block, Facts, Figure, Heading, Paragraph, Table
from .figures_speed import RatioFigure, ratios_by_group
from .model import GoalFigure, LayerCase, Layers, LayerSummary
from .sections_speed import busy_warning, device_facts
from .stats import geometric_mean, grouped
from .text import NONE, identifier, ratio, significant, whole

WAYS = ("Layers of networks, called in several ways; a ratio is a way's time over that of the "
        "first way, of all layers of one shape in a network. Cold: all layers run one after "
        "another. Hot: one layer of a shape runs again and again. Results were compared with "
        "float64 and with each other's bits before.")

# Fewer numbers of tokens are no curve.
LEAST_OF_A_CURVE = 3


def figure_text(figure: GoalFigure, unit: str) -> str:
    measured = f"{figure.measured:.2f}{'x' if unit == 'x' else ' ' + unit}"
    if figure.wanted is None:
        return measured
    return f"{measured}, {'not ' if figure.missed else ''}<= {figure.wanted:.2f}"


def summary_row(summary: LayerSummary) -> list[str]:
    return [summary.comparison, summary.way, str(summary.threads), summary.caches,
            str(summary.cases), figure_text(summary.mean, summary.unit),
            figure_text(summary.worst, summary.unit), summary.where]


def ways_of(cases: list[LayerCase]) -> list[str]:
    """But the first, in the order in which they were timed."""
    return list(dict.fromkeys(timing.way for case in cases for timing in case.timings[1:]))


def ratios(cases: list[LayerCase], way: str) -> list[float]:
    return [value for case in cases if (value := case.ratio(way)) is not None]


def mean_and_worst(values: list[float]) -> str:
    return f"{ratio(geometric_mean(values))}, {ratio(max(values))}" if values else NONE


def tokens_table(comparison: str, cases: list[LayerCase]) -> Table:
    ways = ways_of(cases)
    rows = []
    for (threads, caches, n), group in grouped(
            cases, lambda case: (case.threads, case.caches, case.n)).items():
        rows.append([str(threads), caches, str(n),
                     *(mean_and_worst(ratios(group, way)) for way in ways)])
    return Table(f"{comparison}: times as long as {cases[0].timings[0].way}, geometric mean and "
                 "worst, by n", ["threads", "caches", "n", *ways], rows, 3, folded=True)


def tokens_figure(comparison: str, cases: list[LayerCase], prefix: str) -> Figure | None:
    """Of cold layers and the fewest threads; None where there is no curve."""
    threads = min(case.threads for case in cases)
    shown = [case for case in cases if case.threads == threads and case.caches == "cold"]
    ways = ways_of(shown)
    groups = [(str(n), [ratios(group, way) for way in ways])
              for (n,), group in grouped(shown, lambda case: (case.n,)).items()]
    if len(groups) < LEAST_OF_A_CURVE or not ways:
        return None
    base = shown[0].timings[0].way
    means = ", ".join(f"{significant(geometric_mean(values), 3)} {way}"
                      for way in ways if (values := ratios(shown, way)))
    title = f"{comparison}: times as long as {base}, {whole(threads, 'thread')}, cold"
    return ratios_by_group(
        RatioFigure(f"{prefix}-{identifier(comparison)}", title, "tokens, n", "times as long",
                    f"Times as long as {base}, by tokens. Geometric means over all cases shown: "
                    f"{means}."), groups, list(enumerate(ways)))


def failure_blocks(result: Layers) -> list[Block]:
    rows = [[failure.comparison, failure.way, failure.network, str(failure.n),
             str(failure.threads), failure.reason] for failure in result.failures]
    if not rows:
        return []
    return [Table("Not timed", ["comparison", "way", "network", "n", "threads", "reason"], rows, 6,
                  folded=True)]


def layer_blocks(result: Layers, prefix: str) -> list[Block]:
    facts = device_facts(result.device)
    facts += [("measured", result.created), ("command", result.command)]
    blocks: list[Block] = [Heading(f"Layers on {result.device.name}"), Paragraph(WAYS),
                           Facts(facts), *busy_warning(result.device)]
    wrong = [failure for failure in result.failures if failure.reason.startswith("wrong")]
    if wrong:
        blocks.append(Paragraph(f"{whole(len(wrong), 'way')} found wrong and not timed.",
                                warning=True))
    blocks.append(Table("Ways against the first of their comparison: geometric mean and worst, "
                        "with the goals", ["comparison", "way", "threads", "caches", "cases",
                                           "mean", "worst", "where (first way's family)"],
                        [summary_row(summary) for summary in result.summaries], 2))
    for comparison in dict.fromkeys(case.comparison for case in result.cases):
        cases = [case for case in result.cases if case.comparison == comparison]
        figure = tokens_figure(comparison, cases, prefix)
        blocks += [figure] if figure else []
        blocks.append(tokens_table(comparison, cases))
    return blocks + failure_blocks(result)
