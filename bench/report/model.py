"""What a report speaks of, whichever file it came from. Times are medians of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

# What is compared with the peers, and what is part of spjit: neither shows how the machine was.
SUBJECT = "spjit"
OWN_LIBRARIES = ("spjit", "csr")


@dataclass(frozen=True)
class Device:
    kind: str  # "host" or "cuda"; "emulated" only where nothing was timed
    name: str
    isa: str
    cpus: int | None = None
    cache_bytes: dict[str, int] = field(default_factory=dict)  # "L1d", "L2", "L3"
    load_average: float | None = None  # of the minute before the run
    sms: int | None = None  # of a GPU


@dataclass(frozen=True)
class Library:
    name: str
    version: str
    kind: str  # "dense", "sparse", "jit"; "" where the file does not say
    missing: str | None  # why it was not run


@dataclass(frozen=True)
class Timing:
    library: str
    median_us: float
    noise: float  # robust standard deviation of the samples, as a share of the median
    gflops: float  # 2 nnz n / median
    cold_us: float | None = None  # first run with caches flushed
    prepare_ms: float | None = None  # before the first run
    prepare_kind: str = ""


@dataclass(frozen=True)
class Case:
    set: str
    matrix: str
    layer: str
    rows: int
    cols: int
    nnz: int
    sparsity: float
    n: int
    threads: int
    peak_gflops: float | None  # FMA peak of the cores used
    traffic_bytes: float | None  # least bytes: B and C once, A as CSR
    checked: bool  # its timings are of right results
    timings: dict[str, Timing]
    failed: dict[str, str]  # library -> reason

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.set, self.matrix, self.n, self.threads

    @property
    def flops(self) -> float:
        return 2.0 * self.nnz * self.n

    @property
    def name(self) -> str:
        return f"{self.set} {self.matrix} n={self.n} t={self.threads}"

    def speedup(self, peer: str) -> float | None:
        """The peer's time over spjit's; None unless both were timed and found right."""
        if not self.checked or SUBJECT not in self.timings or peer not in self.timings:
            return None
        return self.timings[peer].median_us / self.timings[SUBJECT].median_us

    def noise(self, peer: str) -> float:
        """Of speedup(peer)."""
        return math.hypot(self.timings[peer].noise, self.timings[SUBJECT].noise)


@dataclass(frozen=True)
class Roofline:
    """Of one core; None where it was not measured."""

    fma_peak_gflops: float | None = None
    gbytes_per_s: dict[str, float] = field(default_factory=dict)  # "L1", "L2", "L3", "DRAM"


@dataclass(frozen=True)
class SideBySide:
    file: str
    created: str
    command: str
    device: Device
    libraries: list[Library]
    cases: list[Case]
    roofline: Roofline
    cases_in_all: int | None = None  # with those that a run that was cut off did not get to

    @property
    def peers(self) -> list[str]:
        """The libraries with a time, spjit itself left out."""
        timed = {name for case in self.cases for name in case.timings}
        return [library.name for library in self.libraries
                if library.name in timed and library.name != SUBJECT]

    @property
    def threads(self) -> list[int]:
        return sorted({case.threads for case in self.cases})


@dataclass(frozen=True)
class Networks:
    """A case is a pass over all layers of a network."""

    passes: SideBySide

    @property
    def file(self) -> str:
        return self.passes.file

    @property
    def families(self) -> list[str]:
        """Libraries that are one family of spjit's kernels each."""
        return [library.name for library in self.passes.libraries
                if library.kind == "jit" and library.name != SUBJECT]

    @property
    def dense(self) -> list[str]:
        """Libraries that compute with A's zeros."""
        return [library.name for library in self.passes.libraries if library.kind == "dense"]


@dataclass(frozen=True)
class SearchRow:
    matrix: str
    rows: int
    cols: int
    nnz: int
    n: int
    target: str
    way: str
    candidates: int | None
    seconds: float
    peak_mib: float | None
    killed: bool  # stopped at a limit: `seconds` is a lower bound
    note: str
    compiled: int | None = None  # of the candidates, in full
    estimated_seconds: float | None = None  # of a stopped one, had it gone on: no measurement
    compile_only: bool = False  # for a GPU that was not there: nothing was timed

    @property
    def kernel(self) -> tuple[str, int, str]:
        return self.matrix, self.n, self.target


@dataclass(frozen=True)
class SearchCost:
    file: str
    created: str
    device: Device
    rows: list[SearchRow]
    facts: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # what there are no rows of, and why

    @property
    def ways(self) -> list[str]:
        return list(dict.fromkeys(row.way for row in self.rows))


@dataclass(frozen=True)
class Preparation:
    """What preparing spjit for a matrix took."""

    kind: str  # "cold compile"
    case: Case
    seconds: float


@dataclass(frozen=True)
class WayTiming:
    """What the layers of a case took, called in one way."""

    way: str
    median_us: float
    noise: float
    paired: float | None = None  # the median over rounds of its time over the first's


@dataclass(frozen=True)
class LayerCase:
    """The layers of one shape in a network, for a number of tokens."""

    comparison: str
    network: str
    rows: int
    cols: int
    n: int
    threads: int
    caches: str  # "cold": all layers of the network in sequence; "hot": one again and again
    timings: list[WayTiming]  # the first is what the others are compared with

    @property
    def key(self) -> tuple[str, str, int, int, int, int, str]:
        return (self.comparison, self.network, self.rows, self.cols, self.n, self.threads,
                self.caches)

    def ratio(self, way: str) -> float | None:
        """The way's time over the first's."""
        for timing in self.timings:
            if timing.way == way:
                return timing.paired or timing.median_us / self.timings[0].median_us
        return None


@dataclass(frozen=True)
class GoalFigure:
    measured: float
    wanted: float | None  # at most; None: no goal
    missed: bool


@dataclass(frozen=True)
class LayerSummary:
    """One way against the first, over all cases that count for its goal."""

    comparison: str
    way: str
    unit: str
    threads: int
    caches: str
    cases: int
    mean: GoalFigure  # geometric
    worst: GoalFigure
    where: str  # the worst is


@dataclass(frozen=True)
class WayFailure:
    """A way that was not timed."""

    comparison: str
    way: str
    network: str
    n: int
    threads: int
    reason: str


@dataclass(frozen=True)
class Layers:
    file: str
    created: str
    command: str
    device: Device
    cases: list[LayerCase]
    summaries: list[LayerSummary]
    failures: list[WayFailure]


@dataclass(frozen=True)
class Convolution:
    """The layers of one shape in a network, by every library."""

    network: str
    sparsity: int  # percent
    layer: str  # the first of them
    kernel: str  # "1x1", "3x3"
    layers: int
    filters: int
    image: tuple[int, int, int]  # channels, height, width
    batch: int
    threads: int
    caches: str
    median_us: dict[str, float]  # of one layer, by library; those that were timed
    details: dict[str, str]

    @property
    def key(self) -> tuple[str, int, str, int, int, str]:
        return self.network, self.sparsity, self.layer, self.batch, self.threads, self.caches

    def speedup(self, own: str, peer: str) -> float | None:
        """The peer's time over spjit's; None unless both were timed."""
        if own not in self.median_us or peer not in self.median_us:
            return None
        return self.median_us[peer] / self.median_us[own]

    def fastest(self, libraries: list[str]) -> str | None:
        """Of those that were timed."""
        timed = [library for library in libraries if library in self.median_us]
        return min(timed, key=self.median_us.__getitem__, default=None)


@dataclass(frozen=True)
class ConvGoal:
    goal: str
    measured: float
    wanted: float
    where: str
    state: str  # "MET", "NOT MET", "NO DATA"


@dataclass(frozen=True)
class Convolutions:
    file: str
    created: str
    command: str
    device: Device
    libraries: list[Library]
    cases: list[Convolution]
    goals: list[ConvGoal]
    wrong: list[str]  # results that were not right

    @property
    def peers(self) -> list[str]:
        """The libraries with a time, but for spjit's chosen kernels."""
        timed = {library for case in self.cases for library in case.median_us}
        return [library.name for library in self.libraries
                if library.name in timed and library.name.removesuffix("-nhwc") != SUBJECT]


Result = Networks | SideBySide | Layers | Convolutions | SearchCost
