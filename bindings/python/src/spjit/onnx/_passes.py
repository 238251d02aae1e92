"""Times of nodes and of whole models, two models in turn."""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from .._report import usual_time
from ._graph import session_of
from ._sessions import feeds_of

_LEAST_ROUNDS, _MOST_ROUNDS = 5, 60
_SUFFIX = "_kernel_time"

NodeTimes = dict[str, float]  # of each node, us, over passes


def _node_times(profile: Path, skipped: int) -> NodeTimes:
    """Of a profile whose first `skipped` passes do not count."""
    times: dict[str, list[float]] = defaultdict(list)
    for event in json.loads(profile.read_text(encoding="utf-8")):
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX):
            times[event["name"][:-len(_SUFFIX)]].append(float(event["dur"]))
    return {name: usual_time(all_[skipped:] or all_) for name, all_ in times.items()}


def in_turn(calls: list[Callable[[], Any]], seconds: float) -> list[list[float]]:
    """us of each call, which are made in turn, forwards and backwards, after one of each that does
    not count."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    for round_ in range(_MOST_ROUNDS):
        if round_ >= _LEAST_ROUNDS and time.perf_counter() > end:
            break
        order = range(len(calls)) if round_ % 2 else reversed(range(len(calls)))
        for i in order:
            begin = time.perf_counter_ns()
            calls[i]()
            times[i].append((time.perf_counter_ns() - begin) * 1e-3)
    return times


Options = Callable[[], onnxruntime.SessionOptions]


def alone(options: onnxruntime.SessionOptions) -> onnxruntime.SessionOptions:
    """Of a session whose threads, after a pass, leave the CPUs to the next one's: by default they
    wait in a loop for more work."""
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


def node_times(models: list[tuple[onnx.ModelProto, Options]], inputs: tuple[Any, ...],
               seconds: float) -> list[NodeTimes]:
    """Of each model, passes in turn."""
    with tempfile.TemporaryDirectory(prefix="spjit-onnx-") as folder:
        sessions = []
        for i, (model, make) in enumerate(models):
            options = alone(make())
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(folder) / str(i))
            sessions.append(session_of(model, options))
        in_turn([_runner(session, inputs) for session in sessions], seconds)
        return [_node_times(Path(session.end_profiling()), 1) for session in sessions]


def model_times(sessions: list[onnxruntime.InferenceSession], inputs: tuple[Any, ...],
                seconds: float) -> list[float]:
    """us of a pass of each, in turn."""
    calls = [_runner(session, inputs) for session in sessions]
    return [usual_time(times) for times in in_turn(calls, seconds)]


def _runner(session: onnxruntime.InferenceSession, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    feeds = feeds_of(session, inputs)
    return lambda: session.run(None, feeds)


def dense_time(times: NodeTimes, nodes: Iterable[onnx.NodeProto]) -> float | None:
    """us of these nodes; None if they are not in the profile. ONNX Runtime names a convolution of
    its blocked layout after its output."""
    total = 0.0
    for node in nodes:
        names = (node.name, *(f"{output}_nchwc" for output in node.output))
        found = [times[name] for name in names if name in times]
        if not found:
            return None
        total += found[0]
    return total
