"""What a report says of whole networks."""

from __future__ import annotations

from .document import Block, Facts, Heading, Paragraph, Table
from .figures_networks import families, passes_by_n
from .figures_speed import Peers, by_columns, by_group, peers_with_speedups
from .model import SUBJECT, Case, Networks
from .sections_speed import device_facts, failure_tables, warnings
from .stats import geometric_mean, grouped, speedups, with_threads
from .text import NONE, identifier, ratio, significant, whole

IN_SEQUENCE = ("The layers of a network run one after another, each with an output of its own; a "
               "pass over all of them is timed. A layer finds the caches as the others left them.")


def of_fastest(cases: list[Case], peers: list[str]) -> list[float]:
    """Of each case the least of the peers' times over spjit's."""
    found = [[value for peer in peers if (value := case.speedup(peer)) is not None]
             for case in cases]
    return [min(values) for values in found if values]


def mean_ratio(values: list[float]) -> str:
    return ratio(geometric_mean(values)) if values else NONE


def means_table(result: Networks, cases: list[Case], peers: list[str], threads: int) -> Table:
    """A row an n: the geometric mean over the networks of each library's time over spjit's, and of
    the fastest ones' of each network."""
    others = [peer for peer in peers if peer not in result.families]
    dense = [peer for peer in others if peer in result.dense]
    own = [peer for peer in peers if peer in result.families]
    rows = []
    for (n,), group in grouped(cases, lambda case: (case.n,)).items():
        means = [[value for _, value in speedups(group, peer)] for peer in peers]
        means += [of_fastest(group, some) for some in (dense, others, own)]
        rows.append([str(n), *map(mean_ratio, means)])
    return Table(f"Times as long as spjit, geometric means over the networks, "
                 f"{whole(threads, 'thread')}, in sequence",
                 ["n", *peers, "fastest dense", "fastest", "own"], rows, 0,
                 f"The fastest of each network: of those that are dense, of all, and of {SUBJECT}'s "
                 "own families, one for all layers.")


def pass_table(cases: list[Case], peers: list[str], threads: int) -> Table:
    rows = []
    for (network, n), (case,) in grouped(cases, lambda c: (c.matrix, c.n)).items():
        own = case.timings.get(SUBJECT)
        rows.append([network, str(n), significant(own.median_us / 1e3, 3) if own else NONE,
                     *(ratio(case.speedup(peer)) for peer in peers)])
    return Table(f"Every network, {whole(threads, 'thread')}: ms a pass of spjit, times as long of "
                 "the others, in sequence", ["network", "n", SUBJECT, *peers], rows, 1,
                 folded=True)


def family_figures(cases: list[Case], peers: Peers, prefix: str) -> list[Block]:
    threads = whole(cases[0].threads, "thread")
    figures = []
    for family, networks in families(cases).items():
        title = f"{family}: ms a pass, {threads}, in sequence"
        figures.append(passes_by_n(f"{prefix}-{identifier(title)}", title, networks, peers))
    return figures


def network_blocks(result: Networks, prefix: str) -> list[Block]:
    passes = result.passes
    facts = device_facts(passes.device)
    facts += [("measured", passes.created), ("command", passes.command)]
    blocks: list[Block] = [Heading(f"Whole networks on {passes.device.name}"),
                           Paragraph(IN_SEQUENCE), Facts(facts), *warnings(passes)]
    for threads in passes.threads:
        cases = with_threads(passes, threads)
        peers = [peer for _, peer in peers_with_speedups(cases, list(enumerate(passes.peers)))]
        if not peers:
            continue
        strangers = [peer for peer in peers if peer not in result.families]
        shown = peers_with_speedups(cases, list(enumerate(strangers)))
        if shown:
            title = f"Networks, {whole(threads, 'thread')}, in sequence"
            blocks.append(by_group(f"{prefix}-{identifier(title)}", title, "columns of B, n",
                                   by_columns(cases), shown))
            blocks += family_figures(cases, shown, prefix)
        blocks += [means_table(result, cases, peers, threads), pass_table(cases, peers, threads)]
    return blocks + failure_tables(passes)
