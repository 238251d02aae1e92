#!/usr/bin/env python3
"""ring_generate.py OUT [CASE...]: kernels of the ring probe, as cubins.

A is unrolled: its values are literals, FMAs go in ascending columns, a thread has a column of B and
a block a tile of m1 rows x n1 columns. Three forms differ in how B reaches the FMAs:
  plain  ld.global at constant offsets, as the unrolled family does; ptxas moves loads up
  warp   each warp copies its own 32 columns by cp.async, 16 bytes a lane, into a ring of its own
  block  a warp apart fills the block's ring by TMA; in a cluster each block loads its part of a
         stage and multicasts it. The same cubin runs in clusters of 1, 2, 4 and 8.
The warps of a tile do not diverge, so their copies, reads and arrivals need no bar.warp.sync, which
ptxas answers with a second copy of the code. Each row tile is a function, compiled by itself, all at
once, then linked. Writes CASE-FORM.cubin, CASE.csr and the list cases.txt that ring_probe reads.
Without CASE: all of them.
"""

import array
import concurrent.futures
import dataclasses
import os
import pathlib
import struct
import subprocess
import sys

LD = 12544  # leading dimension of B and C, in floats: one code for each n up to it
CLOCK_LIMIT = 100_000_000  # cycles after which no wait goes on: 50 ms
MAX_OFFSET = 8_000_000  # bytes that an instruction's constant offset reaches


@dataclasses.dataclass(frozen=True)
class Case:
    m: int
    k: int
    sparsity: int  # percent
    m1: int
    n1: int
    stage_columns: int = 16
    stages: int = 3

    @property
    def name(self):
        return f"{self.m}x{self.k}-{self.sparsity}-{self.m1}x{self.n1}"

    @property
    def tiles(self):
        return self.m // self.m1

    @property
    def stage_bytes(self):
        return self.stage_columns * self.n1 * 4


CASES = [
    *(Case(512, 512, sparsity, m1, n1)
      for sparsity in (70, 80, 90)
      for m1, n1 in ((16, 256), (32, 256), (16, 128))),
    Case(768, 3072, 50, 12, 256),
]


def forms_of(case):
    """Long rows leave `warp` spilling, and take the longest to compile."""
    return ("plain", "warp", "block") if case.k <= 512 else ("plain", "block")


WARP_COLUMNS = 8  # columns of a stage of the warp form: two cp.async of four rows
WARP_STAGES = 4


def mix(x):
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def matrix_row(case, row):
    """(columns, values) of a row; exactly the share of nonzeros in expectation, no value is 0."""
    columns, values = [], []
    for column in range(case.k):
        bits = mix(case.sparsity << 48 | row << 24 | column)
        if bits % 100 >= case.sparsity:
            columns.append(column)
            values.append(((bits >> 40 & 0xFFFF) + 1) / 65536.0 * (1 if bits >> 60 & 1 else -1))
    return columns, values


def literal(value):
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08x}"


def fmas_by_column(case, tile):
    """[column] -> the FMA lines of the tile, rows ascending."""
    lines = [[] for _ in range(case.k)]
    for row in range(case.m1):
        for column, value in zip(*matrix_row(case, tile * case.m1 + row)):
            lines[column].append(f"fma.rn.f32 c{row},b,{literal(value)},c{row};")
    return lines


class Pointer:
    """A 64-bit register that follows the offsets which are asked of it."""

    def __init__(self, name):
        self.name, self.base = name, 0

    def reach(self, out, offset):
        if offset - self.base > MAX_OFFSET:
            out.append(f"add.s64 {self.name},{self.name},{offset - self.base};")
            self.base = offset
        return f"[{self.name}+{offset - self.base}]"


PASSED = {
    "plain": (("b64", "pb"), ("b64", "pc"), ("b32", "inside")),
    "warp": (("b64", "pb"), ("b64", "pc"), ("b32", "inside"), ("b32", "shared"), ("b32", "to")),
    "block": (("b64", "error"), ("b64", "pc"), ("b32", "inside"), ("b32", "shared"),
              ("b32", "full"), ("b32", "empty"), ("b32", "releases"), ("b32", "start")),
}


def signature(form, tile):
    parameters = ", ".join(f".param .{kind} param_{name}" for kind, name in PASSED[form])
    return f".func tile_{tile}({parameters}) .noreturn"


def header():
    return [".version 9.0", ".target sm_90a", ".address_size 64"]


def function(case, form, tile):
    """The PTX of a row tile."""
    out = header()
    out += [f".visible {signature(form, tile)}", "{"]
    for kind, name in PASSED[form]:
        out += [f".reg .{kind} {name};", f"ld.param.{kind} {name},[param_{name}];"]
    out += [f".reg .f32 c<{case.m1}>;", ".reg .f32 b;", ".reg .pred p, q, stores, lane;",
            ".reg .b32 now;"]
    out += [f"mov.f32 c{row},0f00000000;" for row in range(case.m1)]
    lines = fmas_by_column(case, tile)
    {"plain": plain_body, "warp": warp_body, "block": block_body}[form](case, lines, out)
    store(case, tile, out)
    if form == "block":
        out += ["mov.u32 now,%clock;", "sub.u32 now,now,start;",
                f"setp.gt.u32 p,now,{CLOCK_LIMIT};", "@p st.global.u32 [error],1;",
                "barrier.cluster.arrive.relaxed.aligned;", "barrier.cluster.wait.aligned;"]
    out += ["exit;", "}"]
    return "\n".join(out) + "\n"


def plain_body(case, lines, out):
    b = Pointer("pb")
    for column in range(case.k):
        if lines[column]:
            out.append(f"ld.global.nc.f32 b,{b.reach(out, column * LD * 4)};")
            out += lines[column]


def warp_body(case, lines, out):
    groups = case.k // WARP_COLUMNS
    b = Pointer("pb")

    def copy(group):
        if group < groups:
            slot = group % WARP_STAGES
            for part in range(WARP_COLUMNS // 4):
                column = group * WARP_COLUMNS + part * 4
                source = b.reach(out, column * LD * 4)
                out.append("cp.async.cg.shared.global "
                           f"[to+{(slot * WARP_COLUMNS + part * 4) * 128}],{source},16;")
        out.append("cp.async.commit_group;")

    for group in range(WARP_STAGES - 1):
        copy(group)
    for group in range(groups):
        out.append(f"cp.async.wait_group {WARP_STAGES - 2};")
        copy(group + WARP_STAGES - 1)
        slot = group % WARP_STAGES
        for index in range(WARP_COLUMNS):
            column = group * WARP_COLUMNS + index
            if lines[column]:
                out.append(f"ld.shared.f32 b,[shared+{(slot * WARP_COLUMNS + index) * 128}];")
                out += lines[column]


def block_body(case, lines, out):
    out.append("setp.ne.u32 lane,releases,0;")
    for stage in range(case.k // case.stage_columns):
        slot, parity = stage % case.stages, stage // case.stages % 2
        wait = f"mbarrier.try_wait.parity.shared::cta.b64 p,[full+{slot * 8}],{parity};"
        # Once without the clock, which is slow to read.
        out += [wait, f"@p bra.uni go_{stage};", f"wait_{stage}:", wait, f"@p bra.uni go_{stage};",
                "mov.u32 now,%clock;", "sub.u32 now,now,start;",
                f"setp.lt.u32 q,now,{CLOCK_LIMIT};", f"@q bra.uni wait_{stage};",
                f"go_{stage}:"]
        for index in range(case.stage_columns):
            column = stage * case.stage_columns + index
            if lines[column]:
                offset = (slot * case.stage_columns + index) * case.n1 * 4
                out.append(f"ld.shared.f32 b,[shared+{offset}];")
                out += lines[column]
        out.append(f"@lane mbarrier.arrive.shared::cluster.b64 _,[empty+{slot * 8}];")


def store(case, tile, out):
    out.append("setp.ne.u32 stores,inside,0;")
    out.append(f"add.s64 pc,pc,{tile * case.m1 * LD * 4};")
    out += [f"@stores st.global.f32 [pc+{row * LD * 4}],c{row};" for row in range(case.m1)]


def min_blocks(case, form):
    """As the unrolled family counts registers; the rings also need shared memory."""
    registers = (case.m1 + (14 if form == "plain" else 20) + 7) // 8 * 8
    threads = case.n1 + (32 if form == "block" else 0)
    blocks = min(65536 // (registers * threads), 2048 // threads)
    if form != "plain":
        blocks = min(blocks, 227 * 1024 // (shared_bytes(case, form) + 1024))
    return max(blocks, 1)


def entry(case, form):
    """The PTX of the kernel: it finds its place, fills the ring's barriers, and calls its tile."""
    threads = case.n1 + (32 if form == "block" else 0)
    out = header()
    if form != "plain":
        out.append(".extern .shared .align 1024 .b8 ring_shared[];")
    out += [f".extern {signature(form, tile)};" for tile in range(case.tiles)]
    out += [".visible .entry ring_kernel(.param .u64 kernel_b, .param .u64 kernel_c, "
            ".param .u64 kernel_error, .param .u32 kernel_n, .param .align 64 .b8 kernel_map[128])",
            f".maxntid {threads}, 1, 1", f".minnctapersm {min_blocks(case, form)}", "{",
            ".reg .pred p, q;",
            ".reg .b32 tile, j, first, n, thread, now, part, slot, phase, stage, data, barrier, y, "
            "rank, blocks, warp, laneid, bytes;",
            ".reg .b16 mask;", ".reg .b64 offset, map;"]
    out += [f".reg .{kind} {name};" for kind, name in PASSED[form]]
    out += ["mov.u32 tile,%ctaid.x;", "mov.u32 first,%ctaid.y;", "mov.u32 thread,%tid.x;",
            f"mul.lo.u32 first,first,{case.n1};", "add.u32 j,first,thread;",
            "ld.param.u32 n,[kernel_n];", "setp.lt.u32 p,j,n;", "selp.u32 inside,1,0,p;",
            "ld.param.u64 pc,[kernel_c];", "cvta.to.global.u64 pc,pc;",
            "mul.wide.u32 offset,j,4;", "add.s64 pc,pc,offset;"]
    if form != "block":
        out += ["ld.param.u64 pb,[kernel_b];", "cvta.to.global.u64 pb,pb;"]
    if form == "plain":
        out += ["@!p exit;", "add.s64 pb,pb,offset;"]
    if form == "warp":
        out += warp_prologue()
    if form == "block":
        out += block_prologue(case)
    out.append("targets: .branchtargets " +
               ",".join(f"to_{tile}" for tile in range(case.tiles)) + ";")
    out.append("brx.idx tile,targets;")
    for tile in range(case.tiles):
        out += [f"to_{tile}:", "{"]
        for kind, name in PASSED[form]:
            out += [f".param .{kind} arg_{name};", f"st.param.{kind} [arg_{name}],{name};"]
        out += [f"call tile_{tile},({','.join('arg_' + name for _, name in PASSED[form])});", "}",
                "exit;"]
    out.append("}")
    return "\n".join(out) + "\n"


def warp_prologue():
    """`to`: where a lane's 16 bytes go; `pb`: where they come from; `shared`: the lane's column."""
    ring = WARP_COLUMNS * WARP_STAGES * 128
    return ["and.b32 laneid,thread,31;", "shr.u32 warp,thread,5;",
            "mov.u32 shared,ring_shared;", f"mad.lo.u32 shared,warp,{ring},shared;",
            "mad.lo.u32 to,laneid,16,shared;", "mad.lo.u32 shared,laneid,4,shared;",
            # Lane l copies 16-byte part l % 8 of row l / 8.
            "mad.lo.u32 j,warp,32,first;", "and.b32 part,laneid,7;", "mad.lo.u32 j,part,4,j;",
            "mul.wide.u32 offset,j,4;", "add.s64 pb,pb,offset;", "shr.u32 part,laneid,3;",
            f"mul.wide.u32 offset,part,{LD * 4};", "add.s64 pb,pb,offset;"]


def block_prologue(case):
    """Barriers, then the producer's loop; threads of the tile go on after it."""
    ring = case.stages * case.stage_bytes
    warps = case.n1 // 32
    out = ["mov.u32 start,%clock;", "mov.u32 shared,ring_shared;", f"add.u32 full,shared,{ring};",
           f"add.u32 empty,full,{case.stages * 8};", "mov.u32 rank,%cluster_ctarank;",
           "mov.u32 blocks,%cluster_nctarank;", "ld.param.u64 error,[kernel_error];",
           "cvta.to.global.u64 error,error;", "setp.ne.u32 p,thread,0;", "@p bra initialized;",
           f"mul.lo.u32 part,blocks,{warps};"]
    for slot in range(case.stages):
        out += [f"mbarrier.init.shared::cta.b64 [full+{slot * 8}],1;",
                f"mbarrier.init.shared::cta.b64 [empty+{slot * 8}],part;"]
    out += ["fence.mbarrier_init.release.cluster;", "initialized:",
            "barrier.cluster.arrive.relaxed.aligned;", "barrier.cluster.wait.aligned;",
            f"setp.lt.u32 p,thread,{case.n1};", "@p bra consumer;",
            f"setp.ne.u32 p,thread,{case.n1};", "@p bra produced;"]
    out += producer(case)
    out += ["produced:", "bar.warp.sync 0xffffffff;", "barrier.cluster.arrive.relaxed.aligned;",
            "barrier.cluster.wait.aligned;", "exit;", "consumer:",
            # Lane l < blocks tells block l of the cluster that this warp has read a stage.
            "and.b32 laneid,thread,31;", "setp.lt.u32 p,laneid,blocks;",
            "selp.u32 releases,1,0,p;", "selp.u32 laneid,laneid,0,p;",
            "mapa.shared::cluster.u32 empty,empty,laneid;",
            "mad.lo.u32 shared,thread,4,shared;"]
    return out


def producer(case):
    """One thread: each stage waits until all blocks have read the slot, then loads its part."""
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    return ["mov.b64 map,kernel_map;", "cvta.param.u64 map,map;",
            f"mov.u32 part,{case.stage_columns};", "div.u32 part,part,blocks;",
            f"mul.lo.u32 bytes,part,{case.n1 * 4};", "mul.lo.u32 bytes,bytes,rank;",
            "mul.lo.u32 y,part,rank;", "mov.u32 now,1;", "shl.b32 now,now,blocks;",
            "sub.u32 now,now,1;", "cvt.u16.u32 mask,now;",
            "mov.u32 slot,0;", "mov.u32 phase,1;", "mov.u32 stage,0;",
            "next:", "mad.lo.u32 barrier,slot,8,empty;",
            "wait_empty:",
            "mbarrier.try_wait.parity.shared::cta.b64 p,[barrier],phase;",
            "@p bra filled;", "mov.u32 now,%clock;", "sub.u32 now,now,start;",
            f"setp.lt.u32 q,now,{CLOCK_LIMIT};", "@q bra wait_empty;",
            "st.global.u32 [error],1;", "bra produced;",
            "filled:", "mad.lo.u32 barrier,slot,8,full;",
            f"mbarrier.arrive.expect_tx.shared::cta.b64 _,[barrier],{case.stage_bytes};",
            f"mad.lo.u32 data,slot,{case.stage_bytes},shared;", "add.u32 data,data,bytes;",
            "setp.eq.u32 p,blocks,1;",
            f"@p {load} [data],[map,{{first,y}}],[barrier];",
            f"@!p {load}.multicast::cluster [data],[map,{{first,y}}],[barrier],mask;",
            f"add.u32 y,y,{case.stage_columns};", "add.u32 slot,slot,1;",
            f"setp.eq.u32 p,slot,{case.stages};", "@p mov.u32 slot,0;", "@p xor.b32 phase,phase,1;",
            "add.u32 stage,stage,1;", f"setp.lt.u32 p,stage,{case.k // case.stage_columns};",
            "@p bra next;"]


def shared_bytes(case, form):
    if form == "warp":
        return case.n1 // 32 * WARP_COLUMNS * WARP_STAGES * 128
    return case.stages * case.stage_bytes + case.stages * 16 if form == "block" else 0


def assemble(task):
    """One unit, in a process of its own; returns its object."""
    folder, case, form, tile = task
    stem = folder / "units" / f"{case.name}-{form}-{tile}"
    text = entry(case, form) if tile < 0 else function(case, form, tile)
    stem.with_suffix(".ptx").write_text(text)
    # A function of its own is told the registers that the launch bounds leave.
    threads = case.n1 + (32 if form == "block" else 0)
    warps = (threads + 31) // 32 * min_blocks(case, form)
    registers = min(65536 // (warps * 32) // 8 * 8, 255)
    bound = ["-maxrregcount", str(registers)] if tile >= 0 else []
    subprocess.run(["ptxas", "-c", "-arch=sm_90a", *bound, "-o", stem.with_suffix(".cubin"),
                    stem.with_suffix(".ptx")], check=True)
    stem.with_suffix(".ptx").unlink()
    return str(stem.with_suffix(".cubin"))


def write_matrix(folder, case):
    """m, k, nonzeros; row pointers, columns, values."""
    pointers, columns, values = array.array("i", [0]), array.array("i"), array.array("f")
    for row in range(case.m):
        of_row = matrix_row(case, row)
        columns.extend(of_row[0])
        values.extend(of_row[1])
        pointers.append(len(columns))
    with open(folder / f"{case.name}.csr", "wb") as out:
        array.array("i", [case.m, case.k, len(columns)]).tofile(out)
        for part in (pointers, columns, values):
            part.tofile(out)


def main():
    if len(sys.argv) < 2:
        sys.exit("ring_generate.py: expected OUT, the folder of cubins")
    folder = pathlib.Path(sys.argv[1])
    names = sys.argv[2:]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"ring_generate.py: no case {', '.join(sorted(unknown))}; expected some of "
                 f"{', '.join(case.name for case in CASES)}")
    cases = [case for case in CASES if not names or case.name in names]
    (folder / "units").mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        matrices = [pool.submit(write_matrix, folder, case) for case in cases]
        units = {(case, form): [pool.submit(assemble, (folder, case, form, tile))
                                for tile in range(-1, case.tiles)]
                 for case in cases for form in forms_of(case)}
        lines = []
        for (case, form), parts in units.items():
            cubin = folder / f"{case.name}-{form}.cubin"
            objects = [part.result() for part in parts]
            subprocess.run(["nvlink", "-arch=sm_90a", "-o", cubin, *objects], check=True)
            for path in objects:
                os.unlink(path)
            lines.append(f"{case.name} {form} {case.m} {case.k} {case.sparsity} {case.m1} "
                         f"{case.n1} {case.stage_columns} {shared_bytes(case, form)}\n")
            (folder / "cases.txt").write_text("".join(lines))
        for matrix in matrices:
            matrix.result()


if __name__ == "__main__":
    main()
