"""What a report says of a side-by-side file."""

from __future__ import annotations

import re
import statistics

from . import figures_cost, figures_speed
from .document import Block, Cards, Facts, Figure, Heading, Paragraph, Table
from .figures_speed import Peers, peers_with_speedups
from .model import SUBJECT, Case, Device, Preparation, SideBySide
from .stats import (NOISE_FACTOR, Summary, geometric_mean, grouped, level_of, levels_of, noises,
                    percentile, speedups, summarize, with_threads)
from .text import NONE, count, identifier, percent, ratio, significant, size, whole

# Figures taken while something else ran are disturbed (bench/README.md).
BUSY_LOAD = 0.5


def device_facts(device: Device) -> list[tuple[str, str]]:
    facts = [("CPU" if device.kind == "host" else "GPU", device.name),
             ("instruction set", device.isa)]
    if device.cpus is not None:
        facts.append(("CPUs", str(device.cpus)))
    if device.sms is not None:
        facts.append(("SMs", str(device.sms)))
    if device.cache_bytes:
        facts.append(("caches", ", ".join(f"{name} {size(value)}"
                                          for name, value in device.cache_bytes.items())))
    if device.load_average is not None:
        facts.append(("load before the run", significant(device.load_average, 2)))
    return facts


def library_table(result: SideBySide) -> Table:
    timed = set(result.peers) | {SUBJECT}
    rows = [[library.name, library.kind or NONE, library.version or NONE,
             f"missing: {library.missing}" if library.missing else
             "timed" if library.name in timed else "no timing"] for library in result.libraries]
    return Table("Libraries", ["library", "kind", "version", "state"], rows, 4)


def busy_warning(device: Device) -> list[Block]:
    """A GPU's work is timed as one: what the CPUs do beside it is not in the way."""
    load = device.load_average
    if device.kind != "host" or load is None or load <= BUSY_LOAD:
        return []
    return [Paragraph(f"The machine was busy before the run (load {significant(load, 2)}): these "
                      "figures may be disturbed.", warning=True)]


def warnings(result: SideBySide) -> list[Block]:
    said = []
    if result.device.kind == "emulated":
        said.append("A rehearsal on an emulated GPU: results were checked, nothing was timed.")
    for library in result.libraries:
        if library.missing:
            said.append(f"{library.name} was not run: {library.missing}.")
    unchecked = [case.name for case in result.cases if not case.checked]
    if unchecked:
        said.append(f"{whole(len(unchecked), 'case')} whose results were not found right, left out "
                    f"of every mean and figure: {'; '.join(unchecked)}.")
    wrong = [f"{library} on {case.name}" for case in result.cases
             for library, reason in case.failed.items() if reason.startswith("wrong")]
    if wrong:
        said.append(f"{whole(len(wrong), 'result')} found wrong and not timed: {'; '.join(wrong)}.")
    return busy_warning(result.device) + [Paragraph(text, warning=True) for text in said]


def failure_tables(result: SideBySide) -> list[Block]:
    """A row a reason; reasons that differ only in their numbers are one, as of the first case."""
    reasons: dict[tuple[str, str], list[Case]] = {}
    for case in result.cases:
        for library, reason in case.failed.items():
            reasons.setdefault((library, re.sub(r"\d+", "0", reason)), []).append(case)
    rows = [[library, cases[0].failed[library], count(len(cases)), cases[0].name]
            for (library, _), cases in sorted(reasons.items(), key=lambda entry: entry[0])]
    columns = ["library", "reason, numbers of the first case", "cases", "first case"]
    return [Table("Not timed", columns, rows, 2,
                  "A library that fails on a case is left out of that case only.",
                  folded=len(rows) > 12)] if rows else []


def head(result: SideBySide) -> list[Block]:
    facts = device_facts(result.device)
    if result.created:
        facts.append(("measured", result.created))
    facts += [("command", result.command), ("file", result.file.rsplit("/", 1)[-1])]
    if result.cases_in_all is not None and result.cases_in_all > len(result.cases):
        facts.append(("cases", f"{count(len(result.cases))} of {count(result.cases_in_all)}: the "
                      "run was cut off"))
    values = noises(result)
    facts.append(("noise of a timing", f"median {percent(statistics.median(values))}, 95th "
                  f"percentile {percent(percentile(values, 0.95))} of the time"
                  if values else NONE))
    return [Facts(facts), *warnings(result), library_table(result),
            *failure_tables(result)]


def summary_row(summary: Summary) -> list[str]:
    even = summary.cases - summary.faster - summary.slower
    return [count(summary.cases), ratio(summary.mean), ratio(summary.median),
            ratio(summary.least), ratio(summary.greatest), count(summary.faster), count(even),
            count(summary.slower)]


SUMMARY_COLUMNS = ["cases", "geometric mean", "median", "least", "greatest", "spjit faster", "even",
                   "spjit slower"]


def summary_table(result: SideBySide, peers: Peers) -> Table:
    rows = []
    for (set_name, threads), cases in grouped(result.cases, lambda c: (c.set, c.threads)).items():
        rows += [[peer, set_name, str(threads), *summary_row(summary)] for _, peer in peers
                 if (summary := summarize(cases, peer))]
    return Table("Speed-up of spjit over each peer, on as many threads",
                 ["peer", "set", "threads", *SUMMARY_COLUMNS], rows, 2,
                 f"Medians of warm runs. Even: no further from 1 than {NOISE_FACTOR} times the "
                 "noise of both timings together.")


# The rest is counted, and in the table of all timings.
MOST_LOSSES = 20


def loss_tables(result: SideBySide, peers: Peers) -> list[Block]:
    """Where spjit is the slower one, the worst first."""
    lost = sorted(((value, peer, case) for _, peer in peers
                   for case, value in speedups(result.cases, peer)
                   if 1 / value > 1 + NOISE_FACTOR * case.noise(peer)), key=lambda entry: entry[0])
    rows = [[case.matrix, peer, f"{case.rows}x{case.cols}", percent(case.sparsity, 4), str(case.n),
             str(case.threads), ratio(value)] for value, peer, case in lost[:MOST_LOSSES]]
    note = f"The worst {len(rows)} of {count(len(lost))}." if len(rows) < len(lost) else ""
    return [Table("Where a peer is faster, beyond noise",
                  ["matrix", "peer", "A", "sparsity", "n", "threads", "spjit over it"], rows, 2,
                  note)] if rows else []


def on_threads(result: SideBySide, threads: int) -> str:
    """Behind a comma; a GPU has none to count."""
    return f", {whole(threads, 'thread')}" if result.device.kind == "host" else ""


def cards(result: SideBySide, peers: Peers) -> Cards:
    threads = result.threads[0]
    cases = with_threads(result, threads)
    items = [(ratio(summary.mean), f"{peer} (geometric mean of {whole(summary.cases, 'case')}"
              f"{on_threads(result, threads)})") for _, peer in peers
             if (summary := summarize(cases, peer))]
    return Cards(items)


def sparsity_table(cases: list[Case], peers: Peers, caption: str) -> Table:
    rows = []
    for level in levels_of(cases):
        inside = [case for case in cases if level_of(case.sparsity) == level]
        for n in sorted({case.n for case in inside}):
            group = [case for case in inside if case.n == n]
            shares = [t.gflops / case.peak_gflops for case in group if case.checked
                      and case.peak_gflops and (t := case.timings.get(SUBJECT))]
            means = [[v for _, v in speedups(group, peer)] for _, peer in peers]
            rows.append([level.label, str(n), count(len(group)),
                         percent(statistics.fmean(shares)) if shares else NONE,
                         *(ratio(geometric_mean(v)) if v else NONE for v in means)])
    return Table(caption, ["sparsity", "n", "cases", "share of FMA peak",
                           *(f"over {peer}" for _, peer in peers)], rows, 1,
                 "Geometric means of the speed-ups; the mean of spjit's share of peak.")


def shape_table(cases: list[Case], peers: Peers, caption: str) -> Table:
    rows = []
    for (m, k, n), group in grouped(cases, figures_speed.shape_of).items():
        layers = sorted({case.layer for case in group if case.layer})
        means = [[v for _, v in speedups(group, peer)] for _, peer in peers]
        rows.append([f"{m}x{k}", ", ".join(layers) or NONE, str(n), count(len(group)),
                     *(ratio(geometric_mean(v)) if v else NONE for v in means)])
    return Table(caption, ["A", "layer", "n", "cases", *(f"over {peer}" for _, peer in peers)],
                 rows, 2, "Geometric means over the matrices of a shape.", folded=True)


def speed_blocks(result: SideBySide, peers: Peers, prefix: str) -> list[Block]:
    blocks: list[Block] = []
    groups = grouped(result.cases, lambda c: (c.threads, c.set))
    for (threads, set_name), cases in groups.items():
        shown = peers_with_speedups(cases, peers)
        if not shown:
            continue
        label = f"{set_name}{on_threads(result, threads)}"
        id = f"{prefix}-{identifier(set_name)}-t{threads}"
        blocks += [Heading(f"Set {label}", 3),
                   figures_speed.by_sparsity(f"{id}-sparsity", f"By sparsity: {label}", cases,
                                             shown),
                   figures_speed.by_group(f"{id}-n", f"By n: {label}", "columns n of B",
                                          figures_speed.by_columns(cases), shown),
                   figures_speed.distribution(f"{id}-cdf", f"Distribution: {label}", cases, shown),
                   figures_speed.by_shape(f"{id}-shape", f"By shape: {label}", cases, shown),
                   sparsity_table(cases, shown, f"By sparsity and n: {label}"),
                   shape_table(cases, shown, f"By shape: {label}")]
    return blocks


def roofline_blocks(result: SideBySide, prefix: str) -> list[Block]:
    """Of the fewest threads, for which the ceilings hold: they are of one core; of a GPU there are
    none."""
    cases = [case for case in with_threads(result, result.threads[0])
             if case.checked and case.traffic_bytes and case.nnz and SUBJECT in case.timings
             and len(case.timings) > 1]
    if not cases or result.threads[0] != 1 or result.device.kind != "host":
        return []
    figure: Figure = figures_cost.roofline(f"{prefix}-roofline", "Roofline, one core", cases,
                                           result.roofline)
    rates = result.roofline.gbytes_per_s
    peak = result.roofline.fma_peak_gflops
    rows = [["FMA peak", significant(peak), "GFLOP/s"]] if peak is not None else []
    rows += [[f"{name} bandwidth", significant(rate), "GB/s"] for name, rate in rates.items()]
    missing = [name for name in ("L1", "L2", "L3", "DRAM") if name not in rates]
    note = f"Not measured: {', '.join(missing)}." if missing else ""
    return [Heading("Roofline", 3), figure,
            Table("Ceilings of one core", ["ceiling", "rate", "unit"], rows, 1, note)]


def prepare_table(result: SideBySide) -> Table | None:
    """What it takes before the first run, and after how many runs that is won back."""
    rows = []
    for library in result.libraries:
        timed = [case.timings[library.name] for case in result.cases
                 if library.name in case.timings]
        spent = [t for t in timed if t.prepare_ms is not None and t.prepare_kind]
        cold = [t.cold_us / t.median_us for t in timed if t.cold_us is not None]
        if not spent and not cold:
            continue
        times = [t.prepare_ms for t in spent]
        rows.append([library.name, ", ".join(sorted({t.prepare_kind for t in spent})) or NONE,
                     significant(statistics.median(times), 3) if times else NONE,
                     significant(max(times), 3) if times else NONE,
                     ratio(geometric_mean(cold)) if cold and min(cold) > 0 else NONE,
                     pay_back(result, library.name)])
    if not rows:
        return None
    return Table("Before the first run, and the first run itself",
                 ["library", "what", "median ms", "greatest ms", "cold run over warm",
                  "runs until spjit pays"], rows, 2,
                 "Runs until spjit pays: how many runs of this peer take as long as preparing "
                 "spjit and running it as often; the median where spjit is the faster.")


def pay_back(result: SideBySide, peer: str) -> str:
    runs = []
    for case, value in speedups(result.cases, peer):
        own, other = case.timings[SUBJECT], case.timings[peer]
        if peer != SUBJECT and value > 1 and own.prepare_ms is not None:
            extra = own.prepare_ms - (other.prepare_ms or 0)
            runs.append(max(extra, 0) * 1000 / (other.median_us - own.median_us))
    return count(round(statistics.median(runs))) if runs else NONE


def preparations(result: SideBySide) -> list[Preparation]:
    """Once a matrix: the least over its cases."""
    least: dict[tuple[str, str, str], tuple[float, Case]] = {}
    for case in result.cases:
        own = case.timings.get(SUBJECT)
        if own and own.prepare_ms and own.prepare_kind and case.nnz:
            key = own.prepare_kind, case.set, case.matrix
            least[key] = min(least.get(key, (own.prepare_ms, case)), (own.prepare_ms, case),
                             key=lambda entry: entry[0])
    return [Preparation(kind, case, ms / 1000)
            for (kind, _, _), (ms, case) in sorted(least.items(), key=lambda e: e[1][1].nnz)]


def preparation_blocks(result: SideBySide, prefix: str) -> list[Block]:
    prepared = preparations(result)
    if not prepared:
        return []
    rows = [[each.kind, count(each.case.nnz), f"{each.case.rows}x{each.case.cols}",
             significant(each.seconds, 3)] for each in prepared]
    return [Heading(f"Compiling against nonzeros, {result.device.isa}", 3),
            figures_cost.preparing(f"{prefix}-prepare-seconds", prepared),
            Table("Compiling against nonzeros", ["method", "nonzeros", "A", "seconds"], rows, 1,
                  folded=len(rows) > 40)]


def side_by_side_blocks(result: SideBySide, prefix: str) -> list[Block]:
    peers = list(enumerate(result.peers))
    blocks: list[Block] = [Heading(f"Side by side with peers: {result.device.name}"),
                           *head(result)]
    if peers_with_speedups(result.cases, peers):
        blocks += [Paragraph("spjit is this many times as fast as:"), cards(result, peers),
                   summary_table(result, peers),
                   *loss_tables(result, peers), *speed_blocks(result, peers, prefix)]
    else:
        blocks.append(Paragraph("No case has a time of spjit and of a peer.", warning=True))
    blocks += roofline_blocks(result, prefix)
    prepared = prepare_table(result)
    if prepared:
        blocks += [Heading("Preparing", 3), prepared]
    timings = sum(len(case.timings) for case in result.cases)
    return [*blocks, *preparation_blocks(result, prefix), Heading("Every timing", 3),
            Paragraph(f"All timings: {timings:,} rows, in the result file.")]
