"""ONNX models whose sparse layers ONNX Runtime computes by kernels of spjit.

    fast = spjit.onnx.optimize("model.onnx", x, threads=2)    # x: example inputs, numpy
    print(fast.report); y, = fast(x)
    fast.save("fast.onnx")                                    # and fast.spjit beside it
    session = spjit.onnx.load("fast.onnx", threads=2)         # an onnxruntime.InferenceSession

Needs the packages onnx and onnxruntime, 1.17 or later. docs/use/onnx.md has more.
"""

from .._report import Report, Row
from ._optimize import optimize
from ._optimized import Optimized
from ._sessions import load, register

__all__ = ["Optimized", "Report", "Row", "load", "optimize", "register"]
