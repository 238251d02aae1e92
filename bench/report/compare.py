"""What got slower between two result files, beyond noise and beyond what the machine did."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .model import OWN_LIBRARIES, Case, SideBySide
from .schema import ResultError
from .stats import NOISE_FACTOR, geometric_mean

DEFAULT_THRESHOLD = 0.03


@dataclass(frozen=True)
class Change:
    """Of one library on one case. Ratios are new over old: above 1 is slower."""

    case: str
    library: str
    old_us: float
    new_us: float
    control: float  # the peers' ratio on this case if they shifted, else 1
    limit: float  # how far from 1 a ratio may be
    verdict: str  # "slower", "faster", "same", "machine": beyond the limit, but so are the peers

    @property
    def ratio(self) -> float:
        return self.new_us / self.old_us

    @property
    def adjusted(self) -> float:
        return self.ratio / self.control


@dataclass(frozen=True)
class Shift:
    """Of a library over all paired cases on some threads."""

    library: str
    threads: int
    cases: int
    ratio: float  # geometric mean of new over old
    control: bool


@dataclass(frozen=True)
class Comparison:
    changes: list[Change]
    shifts: list[Shift]
    missing: list[str]  # in the old file only
    added: list[str]  # in the new file only
    broken: list[str]  # timed and right before, failed or wrong now
    controls: list[str]

    def named(self, verdict: str) -> list[Change]:
        """The largest change first."""
        found = [change for change in self.changes if change.verdict == verdict]
        return sorted(found, key=lambda c: -abs(math.log(c.adjusted)))

    @property
    def regressed(self) -> bool:
        return bool(self.named("slower") or self.broken)


def beyond(ratio: float, limit: float) -> bool:
    return max(ratio, 1 / ratio) > 1 + limit


def limit_of(noise: float, threshold: float) -> float:
    return max(threshold, NOISE_FACTOR * noise)


def control_libraries(old: SideBySide, new: SideBySide) -> list[str]:
    """Not spjit's, and of the same version in both files: they can only show the machine."""
    versions = {library.name: library.version for library in new.libraries}
    return [library.name for library in old.libraries if library.name not in OWN_LIBRARIES
            and versions.get(library.name) == library.version]


def control_of(old: Case, new: Case, controls: list[str], threshold: float) -> tuple[float, float]:
    """The geometric mean of the controls' ratios and its noise; (1, 0) if it is within noise."""
    both = [name for name in controls if name in old.timings and name in new.timings]
    if not both:
        return 1.0, 0.0
    ratio = geometric_mean(new.timings[name].median_us / old.timings[name].median_us
                           for name in both)
    noise = math.hypot(*(timings[name].noise for name in both
                         for timings in (old.timings, new.timings))) / len(both)
    return (ratio, noise) if beyond(ratio, limit_of(noise, threshold)) else (1.0, 0.0)


def change_of(old: Case, new: Case, library: str, control: tuple[float, float],
              threshold: float) -> Change:
    before, after = old.timings[library], new.timings[library]
    ratio = after.median_us / before.median_us
    raw_limit = limit_of(math.hypot(before.noise, after.noise), threshold)
    limit = limit_of(math.hypot(before.noise, after.noise, control[1]), threshold)
    adjusted = ratio / control[0]
    verdict = "same"
    if beyond(adjusted, limit):
        verdict = "slower" if adjusted > 1 else "faster"
    elif beyond(ratio, raw_limit):
        verdict = "machine"
    return Change(old.name, library, before.median_us, after.median_us, control[0], limit, verdict)


def pairs_of(old: SideBySide, new: SideBySide) -> list[tuple[Case, Case]]:
    cases = {case.key: case for case in new.cases}
    return [(case, cases[case.key]) for case in old.cases if case.key in cases]


def broken_timings(pairs: list[tuple[Case, Case]]) -> list[str]:
    broken = []
    for before, after in pairs:
        if before.checked and not after.checked:
            broken.append(f"{after.name}: results were right and are not any more")
        broken += [f"{library} on {after.name}: {after.failed[library]}"
                   for library in OWN_LIBRARIES
                   if library in before.timings and library in after.failed]
    return broken


def shifts_of(pairs: list[tuple[Case, Case]], controls: list[str]) -> list[Shift]:
    ratios: dict[tuple[int, str], list[float]] = {}
    for before, after in pairs:
        for name in before.timings.keys() & after.timings.keys():
            ratios.setdefault((before.threads, name), []).append(
                after.timings[name].median_us / before.timings[name].median_us)
    return [Shift(name, threads, len(values), geometric_mean(values), name in controls)
            for (threads, name), values in sorted(ratios.items())]


def names_of(file: SideBySide) -> set[str]:
    return {f"{library} on {case.name}" for case in file.cases for library in case.timings}


def compare(old: SideBySide, new: SideBySide, threshold: float = DEFAULT_THRESHOLD) -> Comparison:
    """Throws ResultError if no case is in both."""
    pairs = pairs_of(old, new)
    if not pairs:
        raise ResultError(f"{old.file} and {new.file} have no case in common; expected the same "
                          "set, matrix, n and threads in both")
    controls = control_libraries(old, new)
    changes = []
    for before, after in pairs:
        control = control_of(before, after, controls, threshold)
        changes += [change_of(before, after, library, control, threshold)
                    for library in OWN_LIBRARIES
                    if library in before.timings and library in after.timings
                    and before.checked and after.checked]
    return Comparison(changes, shifts_of(pairs, controls),
                      missing=sorted(names_of(old) - names_of(new)),
                      added=sorted(names_of(new) - names_of(old)),
                      broken=broken_timings(pairs), controls=controls)


def check_same_device(old: SideBySide, new: SideBySide) -> None:
    for what in ("kind", "name", "isa"):
        before, after = getattr(old.device, what), getattr(new.device, what)
        if before != after:
            raise ResultError(f"{new.file}: device.{what}: {after!r}; expected {before!r} as in "
                              f"{old.file}, or --any-device: times of two machines say nothing of "
                              "a change")
