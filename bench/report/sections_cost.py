"""What a report says of files on the cost of searching."""

from __future__ import annotations

import statistics
from dataclasses import replace

from . import figures_cost
from .document import Block, Facts, Figure, Heading, Paragraph, Table
from .model import SearchCost, SearchRow
from .stats import geometric_mean
from .text import NONE, count, ratio, significant, whole

# Everything is put in proportion to this way, as the paper does with LO-SpMM-Rank.
REFERENCE_WAY = "ranked"

# LO-SpMM, table 2: average search time over that of LO-SpMM-Rank. Published, not measured here.
PAPER_COLUMNS = ["TVM-S", "SparTA", "EC-SpMM", "LO-SpMM", "LO-SpMM-Rank"]
PAPER_TABLE = {"RTX 2080Ti": [60.68, 105.05, 5.81, 3.41, 1.00],
               "V100": [139.90, 281.29, 18.19, 3.37, 1.00]}


def common_kernels(rows: list[SearchRow], ways: list[str]) -> set[tuple[str, int, str]]:
    """Those that every way has searched: only over them are means comparable."""
    return set.intersection(*({row.kernel for row in rows if row.way == way} for way in ways))


def reference_seconds(rows: list[SearchRow]) -> dict:
    """By kernel; empty if one was stopped: nothing is in proportion to a lower bound."""
    mine = [row for row in rows if row.way == REFERENCE_WAY]
    return {} if any(row.killed for row in mine) else {row.kernel: row.seconds for row in mine}


def way_row(rows: list[SearchRow], way: str, reference: dict) -> list[str]:
    """`rows` are of one target and of the kernels all ways have; `reference` is their seconds."""
    mine = [row for row in rows if row.way == way]
    killed = sum(row.killed for row in mine)
    at_least = "≥ " if killed else ""
    mean = statistics.fmean(row.seconds for row in mine)
    share = mean / statistics.fmean(reference.values()) if reference else None
    each = [row.seconds / reference[row.kernel] for row in mine
            if row.seconds > 0 and reference.get(row.kernel, 0) > 0]
    peaks = [row.peak_mib for row in mine if row.peak_mib is not None]
    candidates = [row.candidates for row in mine if row.candidates is not None]
    return [way, count(len(mine)),
            significant(statistics.fmean(candidates), 3) if candidates else NONE,
            at_least + significant(mean), at_least + ratio(share) if share else NONE,
            at_least + ratio(geometric_mean(each)) if each else NONE,
            significant(max(peaks), 3) if peaks else NONE,
            count(killed)]


COMPILE_ONLY = ("Ranking and compiling alone: there was no GPU, so nothing was timed, and a search "
                "on one takes longer.")

COST_COLUMNS = ["way", "kernels", "candidates (mean)", "mean s", "mean over ranked",
                "geometric mean over ranked", "greatest peak MiB", "stopped"]


def cost_tables(cost: SearchCost) -> list[Block]:
    blocks: list[Block] = []
    for target in dict.fromkeys(row.target for row in cost.rows):
        rows = [row for row in cost.rows if row.target == target]
        ways = list(dict.fromkeys(row.way for row in rows))
        kernels = common_kernels(rows, ways)
        if not kernels:
            blocks.append(Paragraph(f"{target}: no kernel was searched in every way, so there are "
                                    "no means.", warning=True))
            continue
        left_out = len({row.kernel for row in rows} - kernels)
        rows = [row for row in rows if row.kernel in kernels]
        reference = reference_seconds(rows)
        compile_only = all(row.compile_only for row in rows)
        note = ("Mean seconds of a search, and over those of ranked, as in table 2 of the paper. "
                "≥: some were stopped at a limit.")
        if compile_only:
            note = f"{COMPILE_ONLY} {note}"
        if left_out:
            note += f" {whole(left_out, 'kernel')} not searched in every way left out."
        caption = f"Cost of a search: {target}" + (", compile part alone" if compile_only else "")
        blocks.append(Table(caption, COST_COLUMNS,
                            [way_row(rows, way, reference) for way in ways], 1, note))
    return blocks


ESTIMATE_COLUMNS = ["matrix", "way", "n", "target", "candidates", "compiled before the limit",
                    "measured s", "estimated s", "estimate over measured ranked"]


def estimate_cells(row: SearchRow, reference: dict) -> list[str]:
    ranked = reference.get(row.kernel)
    return [row.matrix, row.way, str(row.n), row.target, count(row.candidates), count(row.compiled),
            "≥ " + significant(row.seconds), significant(row.estimated_seconds, 3),
            ratio(row.estimated_seconds / ranked) if ranked else NONE]


def estimate_table(cost: SearchCost) -> list[Table]:
    """What searches that were stopped would have taken; apart from all that was measured."""
    finished = [row for row in cost.rows if row.way == REFERENCE_WAY and not row.killed]
    reference = reference_seconds(finished)
    rows = [estimate_cells(row, reference) for row in cost.rows
            if row.estimated_seconds is not None]
    if not rows:
        return []
    return [Table("Estimated, not measured: searches that were stopped", ESTIMATE_COLUMNS, rows, 2,
                  "Candidates are compiled in an order drawn by lot, so those done before the limit "
                  "are a sample: their mean time times all candidates. Estimates are in no other "
                  "table or figure.")]


def paper_table() -> Table:
    rows = [[gpu, *(ratio(value) for value in values)] for gpu, values in PAPER_TABLE.items()]
    return Table("For comparison, as published: LO-SpMM's table 2", ["GPU", *PAPER_COLUMNS], rows,
                 1, "Average search time over LO-SpMM-Rank's, on other GPUs and other matrices. "
                 "Nothing in this table was measured here.")


SEARCH_COLUMNS = ["matrix", "way", "target", "A", "nonzeros", "n", "candidates", "compiled in full",
                  "seconds", "peak MiB", "note"]


def without_empty(columns: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Without the columns that say nothing in any row."""
    shown = [index for index in range(len(columns)) if any(row[index] != NONE for row in rows)]
    return [columns[i] for i in shown], [[row[i] for i in shown] for row in rows]


def search_row_cells(row: SearchRow) -> list[str]:
    return [row.matrix, row.way, row.target, f"{row.rows}x{row.cols}", count(row.nnz), str(row.n),
            count(row.candidates), count(row.compiled),
            ("≥ " if row.killed else "") + significant(row.seconds),
            significant(row.peak_mib, 3), row.note or NONE]


def search_figures(cost: SearchCost, prefix: str) -> list[Figure]:
    """One a target: seconds of different ones are not compared."""
    figures = []
    for target in dict.fromkeys(row.target for row in cost.rows):
        mine = replace(cost, rows=[row for row in cost.rows if row.target == target])
        order = REFERENCE_WAY if REFERENCE_WAY in mine.ways else mine.ways[0]
        if not any(row.seconds > 0 and row.way == order for row in mine.rows):
            continue
        alone = ", compile part alone" if all(row.compile_only for row in mine.rows) else ""
        figures.append(figures_cost.by_kernel(
            f"{prefix}-search" + (f"-{len(figures) + 1}" if figures else ""),
            f"Seconds to search, by kernel: {target}{alone}", mine, mine.ways, order))
    return figures


def search_blocks(cost: SearchCost, prefix: str) -> list[Block]:
    facts = [("CPU" if cost.device.kind == "host" else "GPU", cost.device.name),
             ("instruction set", cost.device.isa)]
    if cost.created:
        facts.append(("measured", cost.created))
    facts += cost.facts
    facts.append(("file", cost.file.rsplit("/", 1)[-1]))
    blocks: list[Block] = [Heading(f"Search cost: {cost.device.name}"), Facts(facts)]
    blocks += [Paragraph(f"Left out: {what}", warning=True) for what in cost.left_out]
    blocks += search_figures(cost, prefix)
    blocks += [*cost_tables(cost), *estimate_table(cost), paper_table()]
    columns, rows = without_empty(SEARCH_COLUMNS, [search_row_cells(row) for row in cost.rows])
    return [*blocks, Table("Every search", columns, rows, 3, folded=True)]
