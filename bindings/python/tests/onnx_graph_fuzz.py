"""Random ONNX graphs, rewritten with kernels, beside ONNX Runtime.

    python onnx_graph_fuzz.py --count 10000 --seed 0      # prints each graph that is wrong
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import spjit.onnx
from fuzz_main import fuzz
from onnx import helper, numpy_helper
from onnx_graph_bounds import bounds_of, difference, is_right
from onnx_random_graphs import case_of
from spjit.onnx import _graph, _optimize


class Fuzzer:
    """Of one folder for files. `swapped`: kernels so far, `folded`: nodes that became part of them.
    """

    def __init__(self, folder):
        self.path = Path(folder) / "model.onnx"
        self.swapped = self.folded = 0

    def _all_sparse(self, measured, candidates, _report):
        """In place of a choice by times."""
        swaps = [one.swap for one in candidates if one.is_in]
        self.swapped += len(swaps)
        self.folded += sum(len(one.layer.nodes) - 1 for one in swaps)
        return _graph.rewritten(measured.base, swaps)

    def outputs_of(self, case):
        onnx.save(case.model, str(self.path))
        with mock.patch.object(_optimize, "_choose", self._all_sparse), mock.patch.object(
                _optimize, "fused", _graph.fused if case.fuse else
                lambda path, *_: _graph.with_unique_names(onnx.load(str(path)))):
            fast = spjit.onnx.optimize(self.path, case.x)
        return dict(zip([one.name for one in fast.session.get_outputs()], fast(case.x)))

    def wrong(self, seed):
        """What is wrong with this graph, as text; "" if nothing is."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            case = case_of(seed)
            bounds = bounds_of(case)
            try:
                outputs = self.outputs_of(case)
            except Exception as error:  # of several kinds
                return self._described(seed, case, f"failed: {error}")
            for name, y in outputs.items():
                right = is_right(y, bounds[name])
                if not right.all() or right.shape != bounds[name][0].shape:
                    return self._described(seed, case, f"output {name} is " + difference(
                        y, bounds[name], right))
        return ""

    @staticmethod
    def _described(seed, case, what):
        values = {one.name: numpy_helper.to_array(one) for one in case.model.graph.initializer}
        lines = [f"  {node.output[0]} = {node.op_type}" + str([
            float(values[i].reshape(())) if i in values and values[i].size == 1 else i
            for i in node.input]) + " ".join(f" {a.name}={helper.get_attribute_value(a)}"
                                             for a in node.attribute)
                 for node in case.model.graph.node]
        return "\n".join([f"seed {seed}: {what}", *lines])


def made_by(fuzzer):
    """fuzz_main.fuzz's `make` of such a class."""
    def made(folder):
        os.environ.setdefault("SPJIT_CACHE_DIR", str(Path(folder) / "cache"))
        return fuzzer(folder)

    return made


if __name__ == "__main__":
    sys.exit(fuzz(__doc__, made_by(Fuzzer), 100, lambda fuzzer: (
        f"kernels={fuzzer.swapped} nodes_folded={fuzzer.folded}")))
