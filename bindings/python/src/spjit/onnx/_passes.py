"""Times of nodes and of whole models, two models in turn."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from .._timing import in_turn, usual_time
from ._graph import session_of, temporary_folder
from ._sessions import feeds_of

_LEAST_ROUNDS = 8
_SUFFIX = "_kernel_time"

NodeTimes = dict[str, float]  # of each node, us, over passes


def _node_times(profile: Path) -> NodeTimes:
    """Of a profile of in_turn(): of the passes that are timed there. Of a node that runs several
    times in a pass, as in a loop, the sum."""
    passes = _passes_of(profile)
    times: dict[str, list[float]] = defaultdict(list)
    for events in passes[1::2] or passes:
        for name, durations in events.items():
            times[name].append(sum(durations))
    return {name: usual_time(all_) for name, all_ in times.items()}


def _events(profile: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of nodes, by their names, and at the end of each pass one without."""
    for event in json.loads(profile.read_text(encoding="utf-8")):
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX):
            yield event["name"][:-len(_SUFFIX)], event
        elif event.get("cat") == "Session" and event["name"] == "model_run":
            yield "", event


def _passes_of(profile: Path) -> list[dict[str, list[float]]]:
    """Of each pass, what its nodes took."""
    passes: list[dict[str, list[float]]] = []
    current: dict[str, list[float]] = defaultdict(list)
    for name, event in _events(profile):
        if name:
            current[name].append(float(event["dur"]))
        else:
            passes.append(current)
            current = defaultdict(list)
    return passes


Shape = tuple[int, ...]


def operand_shapes(model: onnx.ModelProto, options: onnxruntime.SessionOptions,
                   inputs: tuple[Any, ...]) -> dict[str, list[Shape]]:
    """Shapes of the operands of each node in a run, by its name, also within other nodes; not of
    nodes that do not run."""
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling = True
    with temporary_folder() as folder:
        options.profile_file_prefix = str(folder / "shapes")
        session = session_of(model, options)
        session.run(None, feeds_of(session, inputs))
        found: dict[str, list[Shape]] = {}
        for name, event in _events(Path(session.end_profiling())):
            if name and name not in found:
                found[name] = [tuple(sizes) for operand in event["args"]["input_type_shape"]
                               for sizes in operand.values()]
        return found


Options = Callable[[], onnxruntime.SessionOptions]


def alone(options: onnxruntime.SessionOptions) -> onnxruntime.SessionOptions:
    """Of a session whose threads, after a pass, leave the CPUs to the next one's: by default they
    wait in a loop for more work."""
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


def node_times(models: list[tuple[onnx.ModelProto, Options]], inputs: tuple[Any, ...],
               seconds: float) -> list[NodeTimes]:
    """Of each model, passes in turn."""
    with temporary_folder() as folder:
        sessions = []
        for i, (model, make) in enumerate(models):
            options = alone(make())
            options.enable_profiling = True
            options.profile_file_prefix = str(folder / str(i))
            sessions.append(session_of(model, options))
        in_turn([_runner(session, inputs) for session in sessions], seconds, _LEAST_ROUNDS)
        return [_node_times(Path(session.end_profiling())) for session in sessions]


def model_times(sessions: list[onnxruntime.InferenceSession], inputs: tuple[Any, ...],
                seconds: float) -> list[float]:
    """us of a pass of each, in turn."""
    calls = [_runner(session, inputs) for session in sessions]
    return [usual_time(times) for times in in_turn(calls, seconds, _LEAST_ROUNDS)]


def _runner(session: onnxruntime.InferenceSession, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    feeds = feeds_of(session, inputs)
    return lambda: session.run(None, feeds)


def dense_time(times: NodeTimes, nodes: Iterable[onnx.NodeProto]) -> float | None:
    """us of these nodes, which follow one another; None if the first is not in the profile. Others
    that are not are part of one before: ONNX Runtime fuses them as it makes a session."""
    first, *others = (_time_of(times, node) for node in nodes)
    return None if first is None else first + sum(time or 0.0 for time in others)


def _time_of(times: NodeTimes, node: onnx.NodeProto) -> float | None:
    """ONNX Runtime names a convolution of its blocked layout after its output, one of integers that
    it makes NHWC after itself with a number, and what it fuses after the first node and what it
    did."""
    for name in (node.name, *(f"{output}_nchwc" for output in node.output)):
        if name in times:
            return times[name]
    begins = (f"{node.name}/", f"{node.name}_token_")
    return next((time for name, time in times.items() if name.startswith(begins)), None)
