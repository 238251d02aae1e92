"""Kernels that are compiled for one sparse matrix.

    layer = spjit.compile(a, activation="gelu", bias=True)   # A [out, in]: scipy, numpy, a file
    y = layer(x, bias=b)                                     # x [..., tokens, in]

What is computed is a `Problem`, how it is compiled are `Options`; `compile` takes both, or their
fields.
"""

from ._bundle import Bundle, BundleWriter
from ._compiler import Compiler, compile
from ._convolution import Conv2d, Conv2dKernel
from ._errors import (CacheError, Cancelled, CompileFailed, DeadlineExceeded, DeviceError,
                      InternalError, InvalidArgument, InvalidMatrix, IoError, NotSupported,
                      OutOfMemory, SpjitError, VerificationFailed)
from ._group_scales import GroupScales
from ._kernel import Kernel, PreparedValues
from ._library import version as _version
from ._load import load
from ._options import Options
from ._problem import Problem
from ._quantize import Quantized, quantize
from ._recurrent import Recurrent

__version__: str = _version()

__all__ = ["Bundle", "BundleWriter", "CacheError", "Cancelled", "CompileFailed", "Compiler",
           "Conv2d", "Conv2dKernel", "DeadlineExceeded", "DeviceError", "GroupScales",
           "InternalError", "InvalidArgument", "InvalidMatrix", "IoError", "Kernel", "NotSupported",
           "Options", "OutOfMemory", "PreparedValues", "Problem", "Quantized", "Recurrent",
           "SpjitError", "VerificationFailed", "compile", "load", "quantize"]
