"""Times of calls that take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

_MOST_ROUNDS = 40


def usual_time(times: list[float]) -> float:
    """The median of the faster half: what else the machine does only adds."""
    return statistics.median(sorted(times)[:(len(times) + 1) // 2])


def turns(count: int, seconds: float, least_rounds: int) -> Iterator[int]:
    """Whose turn it is of so many calls, round after round. Each round begins with the next call, so
    that none has two turns running more often than another: of two all have, of more none has."""
    end = time.perf_counter() + seconds
    for number in range(_MOST_ROUNDS):
        if number >= least_rounds and time.perf_counter() > end:
            return
        yield from ((number + i) % count for i in range(count))


def in_turn(calls: list[Callable[[], Any]], seconds: float, least_rounds: int) -> list[list[float]]:
    """us of each call. They take turns(). A turn is two calls, of which the second is timed: caches
    are as it leaves them itself, and not as another one does."""
    times: list[list[float]] = [[] for _ in calls]
    for i in turns(len(calls), seconds, least_rounds):
        calls[i]()
        begin = time.perf_counter_ns()
        calls[i]()
        times[i].append((time.perf_counter_ns() - begin) * 1e-3)
    return times
