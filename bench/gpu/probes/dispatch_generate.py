#!/usr/bin/env python3
"""dispatch_generate.py OUT [--plain]: kernels of the dispatch probe, as cubins.

A is data, its pattern steers the flow of control. A warp keeps `rows` x 32 `columns` sums; a block
is `warps` warps, one above the other. Stages of 16 columns of A, with their rows of B, lie in
shared memory. A column of a row tile is a record: `rows` values, zeros too, then a word whose byte
g is the mask of the rows of group g, then three words of padding. Forms differ in how zeros are
skipped:
  jump       brx.idx into one of 2^group snippets, whose FMAs are those of the mask; each snippet
             ends with the jump of the next group
  hub        the same, but snippets go back to one jump a group
  branch     a uniform branch a row
  predicate  predicated FMAs: zeros cost their issue slot
  dense      nothing is skipped
All have the same FMAs for a nonzero, columns ascending. B and records come by cp.async, double
buffered (`async`), or by plain loads and stores between two barriers (`plain`). Records are read
from shared memory (`shared`) or from global memory, the whole warp the same address (`global`).
Writes NAME.cubin and the list kernels.txt that dispatch_probe reads. With --plain all are `plain`.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys

STAGE = 16  # columns of A in a stage
PADDING = 256  # bytes behind the stages: the record behind the last one is read, not used


@dataclasses.dataclass(frozen=True)
class Kernel:
    form: str
    rows: int
    columns: int  # of a lane
    warps: int = 4
    group: int = 4  # rows a mask
    copy: str = "async"
    records: str = "shared"
    blocks_per_sm: int = 0

    @property
    def name(self):
        return (f"{self.form}-{self.rows}x{self.columns}-g{self.group}-w{self.warps}-{self.copy}-"
                f"{self.records}")

    @property
    def groups(self):
        return self.rows // self.group

    @property
    def n1(self):
        return 32 * self.columns

    @property
    def threads(self):
        return 32 * self.warps

    @property
    def record_bytes(self):
        return 4 * (self.rows + 4)

    @property
    def b_bytes(self):
        return STAGE * self.n1 * 4

    @property
    def stage_bytes(self):
        records = self.warps * STAGE * self.record_bytes if self.records == "shared" else 0
        return self.b_bytes + records

    @property
    def shared_bytes(self):
        return self.stage_bytes * (2 if self.copy == "async" else 1) + PADDING


def kernels():
    sizes = {(16, 8): 3, (8, 8): 5, (16, 4): 5, (8, 4): 8}  # -> blocks of 4 warps an SM
    for form in ("jump", "hub"):
        for (rows, columns), blocks in sizes.items():
            yield Kernel(form, rows, columns, blocks_per_sm=blocks)
    # ptxas makes predicates of branches over four FMAs.
    for form, columns in (("branch", 8), ("predicate", 8), ("predicate", 4), ("dense", 8)):
        for rows in (16, 8):
            yield Kernel(form, rows, columns, blocks_per_sm=sizes[rows, columns])
    yield Kernel("jump", 12, 8, blocks_per_sm=4)
    yield Kernel("jump", 12, 8, group=6, blocks_per_sm=4)
    yield Kernel("hub", 12, 8, group=6, blocks_per_sm=4)
    yield Kernel("hub", 8, 8, group=8, blocks_per_sm=5)
    yield Kernel("hub", 8, 4, group=8, blocks_per_sm=8)
    # Fewer rows a block, for few blocks.
    yield Kernel("jump", 16, 8, warps=2, blocks_per_sm=6)
    yield Kernel("jump", 8, 4, warps=2, blocks_per_sm=16)
    yield Kernel("branch", 16, 8, warps=2, blocks_per_sm=6)
    yield Kernel("branch", 8, 8, warps=2, blocks_per_sm=10)
    yield Kernel("jump", 16, 8, copy="plain", blocks_per_sm=3)
    yield Kernel("jump", 16, 8, records="global", blocks_per_sm=3)
    yield Kernel("branch", 16, 8, records="global", blocks_per_sm=3)


class Writer:
    """The PTX of one kernel."""

    def __init__(self, kernel):
        self.k = kernel
        self.out = []

    def add(self, *lines):
        self.out += lines

    def text(self):
        k = self.k
        self.add(".version 9.0", ".target sm_90a", ".address_size 64",
                 ".extern .shared .align 128 .b8 stages[];",
                 ".visible .entry dispatch_kernel(.param .u64 kernel_a, .param .u64 kernel_b, "
                 ".param .u64 kernel_c, .param .u32 kernel_n, .param .u32 kernel_k)",
                 f".maxntid {k.threads}, 1, 1", f".minnctapersm {k.blocks_per_sm}", "{",
                 ".reg .pred p, q;", ".reg .b32 n, k, thread, warp, lane, tile, first, chunk, row, "
                 "index, word, next_word, left, buffer, base, to_b, to_a, pb, pa, pword, "
                 "same_warp, end, count, t;",
                 ".reg .b64 ga, gb, pc, step, wide, from, reading;",
                 f".reg .f32 b<{k.columns}>, a<{k.rows}>, x<4>;")
        self.add(*(f".reg .f32 c{row}_<{k.columns}>;" for row in range(k.rows)))
        self.prologue()
        self.stage_loop()
        self.store()
        self.add("}")
        return "\n".join(self.out) + "\n"

    def prologue(self):
        k = self.k
        chunks = k.n1 // 4  # of 16 bytes, of a row of B
        self.add("ld.param.u32 n,[kernel_n];", "ld.param.u32 k,[kernel_k];",
                 "mov.u32 thread,%tid.x;", "and.b32 lane,thread,31;", "shr.u32 warp,thread,5;",
                 "mov.u32 same_warp,warp;", self.uniform("same_warp"),
                 "mov.u32 base,stages;",
                 # Records of the warp's row tile.
                 "mov.u32 tile,%ctaid.x;", f"mad.lo.u32 tile,tile,{k.warps},warp;",
                 f"mul.lo.u32 t,k,{k.record_bytes};", "mul.wide.u32 wide,tile,t;",
                 "ld.param.u64 ga,[kernel_a];", "cvta.to.global.u64 ga,ga;", "add.s64 ga,ga,wide;",
                 # What this thread copies of B.
                 "mov.u32 first,%ctaid.y;", f"mul.lo.u32 first,first,{k.n1};",
                 f"and.b32 chunk,thread,{chunks - 1};", f"shr.u32 row,thread,{log2(chunks)};",
                 "mad.lo.u32 t,row,n,first;", "mad.lo.u32 t,chunk,4,t;", "mul.wide.u32 wide,t,4;",
                 "ld.param.u64 gb,[kernel_b];", "cvta.to.global.u64 gb,gb;", "add.s64 gb,gb,wide;",
                 f"mul.wide.u32 step,n,{k.threads // chunks * 4};",
                 "mad.lo.u32 to_b,thread,16,base;")
        if k.records == "shared":
            self.add("mul.wide.u32 wide,lane,16;", "add.s64 ga,ga,wide;",
                     f"mad.lo.u32 to_a,warp,{STAGE * k.record_bytes},base;",
                     "mad.lo.u32 to_a,lane,16,to_a;", f"add.u32 to_a,to_a,{k.b_bytes};")
        self.add(*(f"mov.f32 c{row}_{j},0f00000000;"
                   for row in range(k.rows) for j in range(k.columns)),
                 f"shr.u32 left,k,{log2(STAGE)};", "mov.u32 buffer,0;")
        if k.records == "global":
            self.add("mov.b64 reading,ga;")
            self.load_records(0)

    def copy(self):
        """The next stage into `buffer`; gb and ga move on."""
        k = self.k
        chunks = k.n1 // 4
        rows = k.threads // chunks
        for i in range(STAGE // rows):
            self.copy_chunk("to_b", i * rows * k.n1 * 4, "gb", 0)
            self.add("add.s64 gb,gb,step;")
        if k.records == "global":
            return
        record_chunks = STAGE * k.record_bytes // 16
        for i in range((record_chunks + 31) // 32):
            rest = record_chunks - 32 * i
            if rest < 32:
                self.add(f"setp.lt.u32 q,lane,{rest};")
            self.copy_chunk("to_a", i * 512, "ga", i * 512, "@q " if rest < 32 else "")
        self.add(f"add.s64 ga,ga,{STAGE * k.record_bytes};")

    def copy_chunk(self, to, to_offset, source, source_offset, guard=""):
        if self.k.copy == "async":
            self.add(f"add.u32 t,{to},buffer;",
                     f"{guard}cp.async.cg.shared.global [t+{to_offset}],"
                     f"[{source}+{source_offset}],16;")
        else:
            self.add(f"{guard}ld.global.v4.f32 {{x0,x1,x2,x3}},[{source}+{source_offset}];",
                     f"{guard}st.shared.v4.f32 [{to}+{to_offset}],{{x0,x1,x2,x3}};")

    def stage_loop(self):
        """async: `buffer` is where the next copy goes; the stage before it is computed."""
        k = self.k
        if k.copy == "async":
            self.copy()
            self.add("cp.async.commit_group;", "next_stage:",
                     f"sub.u32 buffer,{k.stage_bytes},buffer;",
                     "setp.le.u32 p,left,1;", "@p bra.uni copied;")
            self.copy()
            self.add("copied:", "cp.async.commit_group;", "cp.async.wait_group 1;",
                     "bar.sync 0;", f"sub.u32 t,{k.stage_bytes},buffer;", "add.u32 t,t,base;")
        else:
            self.add("next_stage:")
            self.copy()
            self.add("bar.sync 0;", "mov.u32 t,base;")
        self.add("mad.lo.u32 pb,lane,16,t;", "mov.u32 count,0;",
                 f"add.u32 t,t,{k.b_bytes};",
                 f"mad.lo.u32 pa,warp,{STAGE * k.record_bytes},t;",
                 f"mad.lo.u32 pword,same_warp,{STAGE * k.record_bytes},t;")
        if k.records == "shared":
            self.add(f"add.u32 end,pword,{STAGE * k.record_bytes};")
            self.load_records(0)
        self.columns()
        self.add("bar.sync 0;", "sub.u32 left,left,1;", "setp.ne.u32 p,left,0;",
                 "@p bra.uni next_stage;")

    def load(self, registers, offset):
        """Of the record; in global memory it is `reading`."""
        kind = f"v4.f32 {{{','.join(registers)}}}" if len(registers) > 1 else f"b32 {registers[0]}"
        if self.k.records == "shared":
            # ptxas moves what a uniform address gives to uniform registers, values at great cost.
            return f"ld.shared.{kind},[{'pa' if len(registers) > 1 else 'pword'}+{offset}];"
        return f"ld.global.nc.{kind},[reading+{offset}];"

    def load_values(self, first, last, offset):
        """Values of the rows first to last of the record `offset` bytes on, in fours."""
        for row in range(first, last, 4):
            self.add(self.load([f"a{row + i}" for i in range(4)], offset + 4 * row))

    def load_records(self, offset):
        self.load_values(0, self.k.rows, offset)
        self.add(self.load(["word"], offset + 4 * self.k.rows), self.uniform("word"))

    @staticmethod
    def uniform(register):
        """Tells ptxas that all lanes have the same: it leaves out BSSY and BSYNC at branches."""
        return f"shfl.sync.idx.b32 {register},{register},0,31,0xffffffff;"

    def columns(self):
        k = self.k
        self.add("column:", self.load(["next_word"], k.record_bytes + 4 * k.rows))
        for part in range(k.columns // 4):
            names = ",".join(f"b{4 * part + i}" for i in range(4))
            self.add(f"ld.shared.v4.f32 {{{names}}},[pb+{part * 512}];")
        self.add(f"add.u32 pb,pb,{k.n1 * 4};")
        if k.form in ("jump", "hub"):
            self.jumps()
        else:
            self.rows()
        self.add("tail:")
        if k.form == "jump":
            self.next_values(k.groups - 1)
        self.add("mov.b32 word,next_word;")
        if k.records == "shared":
            self.add(f"add.u32 pa,pa,{k.record_bytes};",
                     f"add.u32 pword,pword,{k.record_bytes};", "setp.ne.u32 p,pword,end;")
        else:
            self.add(f"add.s64 reading,reading,{k.record_bytes};", "add.u32 count,count,1;",
                     f"setp.ne.u32 p,count,{STAGE};")
        self.add("@p bra.uni column;")

    def fmas(self, row, guard=""):
        self.add(*(f"{guard}fma.rn.f32 c{row}_{j},a{row},b{j},c{row}_{j};"
                   for j in range(self.k.columns)))

    def next_values(self, group):
        """Values of the group's rows in the next column: their registers are free now."""
        k = self.k
        if group == 0:
            self.add(self.uniform("next_word"))
        # A load has four values; a group of six shares one with its neighbour.
        last = (group + 1) * k.group // 4 * 4
        self.load_values(group * k.group // 4 * 4, last, k.record_bytes)

    def jump(self, group):
        self.add(f"bfe.u32 index,word,{8 * group},8;", f"brx.idx.uni index,targets_{group};")

    def jumps(self):
        k = self.k
        masks = range(1 << k.group)
        for group in range(k.groups):
            self.add(f"targets_{group}: .branchtargets " +
                     ",".join(f"to_{group}_{mask}" for mask in masks) + ";")
        self.jump(0)
        for group in range(k.groups):
            last = group + 1 == k.groups
            for mask in masks:
                self.add(f"to_{group}_{mask}:")
                if k.form == "jump" and group > 0:
                    self.next_values(group - 1)  # before the FMAs: a jump waits for all loads
                for i in range(k.group):
                    if mask >> i & 1:
                        self.fmas(group * k.group + i)
                if k.form == "hub":
                    self.add(f"bra.uni hub_{group};")
                    continue
                if last:
                    self.add("bra.uni tail;")
                else:
                    self.jump(group + 1)
            if k.form == "hub":
                self.add(f"hub_{group}:")
                self.next_values(group)
                if not last:
                    self.jump(group + 1)

    def rows(self):
        k = self.k
        self.add(".reg .pred nonzero<4>;")
        for row in range(k.rows):
            guard = ""
            if row % 4 == 0 and k.form != "dense":
                for i in range(4):
                    bit = 8 * ((row + i) // k.group) + (row + i) % k.group
                    self.add(f"and.b32 t,word,{1 << bit};", f"setp.ne.u32 nonzero{i},t,0;")
            if k.form == "branch":
                self.add(f"@!nonzero{row % 4} bra.uni row_{row};")
            if k.form == "predicate":
                guard = f"@nonzero{row % 4} "
            self.fmas(row, guard)
            if k.form == "branch":
                self.add(f"row_{row}:")
            if row % 4 == 3:
                self.load_values(row - 3, row + 1, k.record_bytes)
            if row == 3:
                self.add(self.uniform("next_word"))

    def store(self):
        k = self.k
        self.add(f"mul.lo.u32 row,tile,{k.rows};", "mul.wide.u32 pc,row,n;",
                 "mad.lo.u32 t,lane,4,first;", "cvt.u64.u32 wide,t;", "add.s64 pc,pc,wide;",
                 "shl.b64 pc,pc,2;", "ld.param.u64 wide,[kernel_c];",
                 "cvta.to.global.u64 wide,wide;", "add.s64 pc,pc,wide;", "mul.wide.u32 step,n,4;")
        for row in range(k.rows):
            for part in range(k.columns // 4):
                names = ",".join(f"c{row}_{4 * part + i}" for i in range(4))
                self.add(f"st.global.v4.f32 [pc+{part * 512}],{{{names}}};")
            self.add("add.s64 pc,pc,step;")
        self.add("ret;")


def log2(value):
    return value.bit_length() - 1


def assemble(task):
    folder, kernel = task
    stem = folder / kernel.name
    stem.with_suffix(".ptx").write_text(Writer(kernel).text())
    made = subprocess.run(["ptxas", "-arch=sm_90a", "-v", "-o", stem.with_suffix(".cubin"),
                           stem.with_suffix(".ptx")], check=True, capture_output=True, text=True)
    return kernel, made.stderr


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--plain"]
    if len(arguments) != 1:
        sys.exit("dispatch_generate.py: expected OUT, the folder of cubins, and perhaps --plain")
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(dict.fromkeys(dataclasses.replace(kernel, copy="plain") for kernel in kernels())
                  if "--plain" in sys.argv else kernels())
    longest_first = sorted(wanted, key=lambda kernel: -kernel.group)
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        logs = dict(pool.map(assemble, [(folder, kernel) for kernel in longest_first]))
    for kernel, log in logs.items():
        (folder / f"{kernel.name}.log").write_text(log)
    (folder / "kernels.txt").write_text("".join(
        f"{k.name} {k.form} {k.rows} {k.columns} {k.group} {k.warps} {k.copy} {k.records} "
        f"{k.shared_bytes}\n" for k in wanted))


if __name__ == "__main__":
    main()
