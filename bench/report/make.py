"""From results to a document and to the headline picture."""

from __future__ import annotations

from .document import Block, Document, Figure, Paragraph
from .figures_speed import Peers, by_columns, by_group, by_sparsity, peers_with_speedups
from .model import Case, Convolutions, Layers, Networks, Result, SearchCost, SideBySide
from .schema import ResultError
from .sections_convolutions import convolution_blocks
from .sections_cost import search_blocks
from .sections_layers import layer_blocks
from .sections_networks import network_blocks
from .sections_speed import side_by_side_blocks
from .stats import with_threads
from .svg import standalone, text
from .text import whole

TITLE = "spjit: benchmark report"

# What is read first.
ORDER = (Networks, SideBySide, Convolutions, Layers, SearchCost)


def blocks_of(result: Result, prefix: str) -> list[Block]:
    match result:
        case Networks():
            return network_blocks(result, prefix)
        case SideBySide():
            return side_by_side_blocks(result, prefix)
        case Convolutions():
            return convolution_blocks(result)
        case Layers():
            return layer_blocks(result, prefix)
        case SearchCost():
            return search_blocks(result, prefix)


def cases_of(result: Result) -> int:
    """How many cases are compared with peers."""
    passes = result.passes if isinstance(result, Networks) else result
    return len(passes.cases) if isinstance(passes, SideBySide) else 0


def report(results: list[Result]) -> Document:
    document = Document(TITLE, [Paragraph(
        "Every figure is measured on the device named beside it. Times are medians; speed-ups are "
        "a peer's time over spjit's on the same device and as many threads; means of speed-ups are "
        "geometric.")])
    ordered = sorted(results, key=lambda result: (ORDER.index(type(result)), -cases_of(result)))
    for number, result in enumerate(ordered, 1):
        document.blocks += blocks_of(result, f"f{number}")
    return document


def headline_cases(result: SideBySide, left_out: list[str]) -> tuple[list[Case], Peers]:
    """On the fewest threads."""
    cases = with_threads(result, result.threads[0])
    peers = [peer for peer in result.peers if peer not in left_out]
    shown = peers_with_speedups(cases, list(enumerate(peers)))
    if not shown:
        raise ResultError(f"{result.file}: no case has a time of spjit and of a peer; expected one "
                          "for the headline picture")
    return [case for case in cases if any(case.speedup(peer) for _, peer in shown)], shown


def headline_figure(result: Networks | SideBySide) -> tuple[Figure, SideBySide, list[Case]]:
    if isinstance(result, Networks):
        cases, peers = headline_cases(result.passes, result.families)
        figure = by_group("headline", "spjit beside its peers, whole networks in sequence",
                          "columns of B, n", by_columns(cases), peers)
        return figure, result.passes, cases
    cases, peers = headline_cases(result, [])
    return by_sparsity("headline", "spjit beside its peers", cases, peers), result, cases


def headline(results: list[Result]) -> str:
    """Speed-ups of whole networks by n, or, where no file has any, by sparsity of the file with the
    most cases; under two lines that say of what."""
    files = [result for result in results if isinstance(result, Networks)] or [
        result for result in results
        if isinstance(result, SideBySide) and result.device.kind != "emulated"]
    if not files:
        raise ResultError("no file has timings of cases; expected one for the headline picture")
    figure, result, cases = headline_figure(max(files, key=cases_of))
    widths = sorted({case.n for case in cases})
    ns = f"n = {widths[0]}" + (f" to {widths[-1]}" if len(widths) > 1 else "")
    device = (f"{whole(result.threads[0], 'core')} of {result.device.name}"
              if result.device.kind == "host" else result.device.name)
    of = f"{whole(len(cases), 'case')}, {ns}, {result.device.isa}"
    head = 58
    body = (text(4, 14, figure.title, "bold") + text(4, 30, device, "soft")
            + text(4, 46, of, "soft")
            + f'<g transform="translate(0 {head})">{figure.body}</g>')
    return standalone(f"{figure.title}: {device}", f"{of}. {figure.description}", body,
                      (figure.width, figure.height + head))
