"""What a report says of the layers of convolutional networks."""

from __future__ import annotations

import math

from .document import Block, Facts, Heading, Paragraph, Table
from .model import SUBJECT, ConvGoal, Convolution, Convolutions
from .sections_speed import busy_warning, device_facts
from .stats import grouped
from .text import NONE, ratio, significant, whole

WAYS = ("Layers of convolutional networks, pruned, with bias and ReLU. Cold: all layers run one "
        "after another. Hot: one layer of each shape runs again and again. Results were compared "
        "with float64 before. oneDNN is the fastest of its ways for each layer: blocked images, "
        "NCHW with reorders, NHWC.")
OWN = (SUBJECT, f"{SUBJECT}-nhwc")
DENSE = "onednn"

# LO-SpMM (ACM TACO 2024), section 7.4: whole networks, fp32, batch 32, one GeForce RTX 2080 Ti.
PAPER = (("BERT", "90.99 %", "TensorRT", "1.84x"), ("BERT", "90.99 %", "SparTA", "1.34x"),
         ("BERT", "90.99 %", "EC-SpMM", "1.16x"), ("ResNet-50", "90 %", "TensorRT", "1.88x"),
         ("ResNet-50", "90 %", "SparTA", "comparable"),
         ("ResNet-50", "90 %", "EC-SpMM", "comparable"))


def weighted_mean(values: list[tuple[float, int]]) -> str:
    """Geometric, of values and how many layers each is of."""
    layers = sum(count for _, count in values)
    if layers == 0:
        return NONE
    return ratio(math.exp(sum(count * math.log(value) for value, count in values) / layers))


def speedups(cases: list[Convolution], own: str, peer: str) -> list[tuple[float, int]]:
    return [(value, case.layers) for case in cases
            if (value := case.speedup(own, peer)) is not None]


def dense_speedup(case: Convolution, own: str) -> float | None:
    """Over the fastest of oneDNN's ways."""
    fastest = case.fastest([name for name in case.median_us if name.startswith(DENSE)])
    return case.speedup(own, fastest) if fastest else None


def dense_speedups(cases: list[Convolution], own: str) -> list[tuple[float, int]]:
    return [(value, case.layers) for case in cases
            if (value := dense_speedup(case, own)) is not None]


def goal_row(goal: ConvGoal) -> list[str]:
    measured = NONE if goal.state == "NO DATA" else f"{goal.measured:.2f}x"
    return [goal.goal, goal.state, measured, f"{goal.wanted:.2f}x", goal.where]


def means_table(result: Convolutions) -> Table:
    """A row a network, sparsity, batch, threads, caches and layout."""
    peers = result.peers
    rows = []
    for key, cases in grouped(result.cases, lambda case: (
            case.network, case.sparsity, case.batch, case.threads, case.caches)).items():
        network, sparsity, *conditions = key
        for own in OWN:
            if not any(own in case.median_us for case in cases):
                continue
            ms = sum(case.layers * case.median_us.get(own, 0) for case in cases) / 1e3
            rows.append([f"{network} {sparsity} %", *map(str, conditions), own,
                         significant(ms, 3), weighted_mean(dense_speedups(cases, own)),
                         *(weighted_mean(speedups(cases, own, peer)) for peer in peers)])
    return Table("Times as long as spjit, geometric means over the layers, and ms of all layers",
                 ["network", "batch", "threads", "caches", "spjit's layout", "ms", "oneDNN's fastest",
                  *peers], rows, 5, "A peer's mean is over the layers that it computes: XNNPACK's is "
                 "over 1x1 ones with stride 1.")


def layer_table(network: str, cases: list[Convolution], peers: list[str]) -> Table:
    rows = []
    for case in cases:
        channels, height, width = case.image
        choice = case.details.get(SUBJECT, "").split(":")[0]
        us = case.median_us.get(SUBJECT)
        rows.append([case.layer, f"{channels}x{height}x{width}", case.kernel, str(case.filters),
                     str(case.layers), choice, significant(us, 3) if us else NONE,
                     *(ratio(case.speedup(SUBJECT, peer)) if case.speedup(SUBJECT, peer) else NONE
                       for peer in peers)])
    one = cases[0]
    return Table(f"{network}, {one.sparsity} % sparse, {whole(one.batch, 'image')}, "
                 f"{whole(one.threads, 'thread')}, {one.caches}: us a layer of spjit, times as long "
                 "of the others", ["first layer", "image", "kernel", "filters", "layers", "family",
                                   SUBJECT, *peers], rows, 6, folded=True)


def slower_than_dense(result: Convolutions) -> list[Block]:
    """Layers at 90 % and more that oneDNN computes faster."""
    rows = []
    for case in result.cases:
        for own in OWN:
            value = dense_speedup(case, own)
            if case.sparsity >= 90 and value is not None and value < 1:
                rows.append([f"{case.network} {case.sparsity} %", case.layer, case.kernel,
                             f"{case.batch}", f"{case.threads}", case.caches, own,
                             case.details[own], ratio(value)])
    if not rows:
        return []
    return [Table("Layers of 90 % and more that are slower than oneDNN's fastest way",
                  ["network", "first layer", "kernel", "batch", "threads", "caches",
                   "spjit's layout", "chosen", "oneDNN's time over spjit's"], rows, 8, folded=True)]


def convolution_blocks(result: Convolutions) -> list[Block]:
    facts = device_facts(result.device)
    facts += [("measured", result.created), ("command", result.command)]
    blocks: list[Block] = [Heading(f"Convolutions on {result.device.name}"), Paragraph(WAYS),
                           Facts(facts), *busy_warning(result.device)]
    if result.wrong:
        blocks.append(Paragraph(f"{whole(len(result.wrong), 'result')} found wrong and not timed.",
                                warning=True))
    for library in result.libraries:
        if library.missing is not None:
            blocks.append(Paragraph(f"{library.name} was not run: {library.missing}", warning=True))
    blocks.append(Table("Goals, over ResNet-50's layers, cold",
                        ["goal", "state", "measured", "wanted", "where"],
                        [goal_row(goal) for goal in result.goals], 2))
    blocks.append(means_table(result))
    blocks.append(Table("Published: LO-SpMM's whole networks, fp32, batch 32, GeForce RTX 2080 Ti",
                        ["network", "sparsity", "against", "speed-up"],
                        [list(row) for row in PAPER], 3,
                        f"Of another device than {result.device.name}, and of whole networks: to be "
                        "read beside the layers above, not compared with them."))
    blocks += slower_than_dense(result)
    for key, cases in grouped(result.cases, lambda case: (
            case.network, case.sparsity, case.batch, case.threads, case.caches)).items():
        blocks.append(layer_table(key[0], cases, result.peers))
    return blocks
