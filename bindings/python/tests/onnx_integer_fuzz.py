"""Random ONNX graphs of integers, rewritten with kernels, beside ONNX Runtime: bits are the same.

    python onnx_integer_fuzz.py --count 3000 --seed 0      # prints each graph that is wrong
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import numpy as np
from fuzz_main import fuzz
from onnx_graph_bounds import plain_session
from onnx_graph_fuzz import Fuzzer, made_by
from onnx_integer_graphs import case_of
from onnx_integer_images import image_case_of

_EVERY = 4  # of so many graphs one has convolutions


class IntegerFuzzer(Fuzzer):
    """`modes`: kernels so far, by how they are quantised; `images`: of those convolutions."""

    def __init__(self, folder):
        super().__init__(folder)
        self.modes = Counter()
        self.images = Counter()

    def _all_sparse(self, measured, candidates, report):
        layers = [one.layer for one in candidates if one.is_in]
        self.modes.update(one.quantisation.mode for one in layers)
        self.images.update(one.quantisation.mode for one in layers if one.convolution is not None)
        return super()._all_sparse(measured, candidates, report)

    def wrong(self, seed):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            case = image_case_of(seed) if seed % _EVERY == _EVERY - 1 else case_of(seed)
            session = plain_session(case.reference)
            right = dict(zip([one.name for one in session.get_outputs()],
                             session.run(None, case.x)))
            try:
                outputs = self.outputs_of(case)
            except Exception as error:  # of several kinds
                return self._described(seed, case, f"failed: {error}")
        for name, y in outputs.items():
            different = difference(y, right[name], case.has_nan)
            if different:
                return self._described(seed, case, f"output {name} is {different}")
        return ""


def difference(y, right, has_nan):
    """As text; "" where each bit is the same. has_nan: in x, of which all may be NaN."""
    if (y.dtype, y.shape) != (right.dtype, right.shape):
        return f"{y.dtype} {y.shape}; expected {right.dtype} {right.shape}"
    is_same = (y == right) | ((y != y) & ((right != right) | has_nan))
    if y.dtype == np.float32 and not has_nan:
        is_same &= (np.signbit(y) == np.signbit(right)) | (y != y)
    if is_same.all():
        return ""
    place = np.unravel_index(np.argmin(is_same), y.shape)
    return (f"{y[place]!r} at {tuple(map(int, place))}; expected {right[place]!r}; "
            f"{int((~is_same).sum())} of {y.size} elements differ")


if __name__ == "__main__":
    sys.exit(fuzz(__doc__, made_by(IntegerFuzzer), 100, lambda fuzzer: (
        f"kernels={dict(fuzzer.modes)} convolutions={dict(fuzzer.images)} "
        f"nodes_folded={fuzzer.folded}")))
