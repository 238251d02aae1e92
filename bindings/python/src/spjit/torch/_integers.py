"""Linear layers whose weights are integers with scales: what those of all libraries have."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from .._errors import NotSupported, SpjitError
from .._group_scales import GroupScales
from .._kernel import Kernel
from .._problem import Problem
from .._report import why_too_dense
from ._dispatch import is_plain
from ._kernels import LayerKey, compile_problem
from ._swapped import Swapped

LEAST, MOST = -128, 127  # of weights minus their zero points
TOO_WIDE = "its weights minus their zero points leave int8"


class Weights(NamedTuple):
    """Of one layer."""

    integers: npt.NDArray[np.int16]  # [rows, columns], minus their zero points
    scale: Tensor | None  # fp32 [rows]; None: of groups
    bias: Tensor | None  # fp32 [rows]
    groups: GroupScales | None = None

    @property
    def zeros(self) -> float:
        return 1 - int(np.count_nonzero(self.integers)) / max(self.integers.size, 1)


class IntegerKernels:
    """Of one layer, by the number of threads. A copy or a pickle has none: they are made of the
    module."""

    def __init__(self) -> None:
        self._held: Sequence[Any] = ()  # what they were made of
        self._weights: Weights | None = None
        self._kernels: dict[int, Kernel | None] = {}

    def __reduce__(self) -> Any:
        return type(self), ()

    def __deepcopy__(self, memo: Any) -> IntegerKernels:
        return type(self)()

    @staticmethod
    def is_for(module: nn.Module) -> bool:
        """Whether it is a layer of this library."""
        raise NotImplementedError

    @staticmethod
    def why_other(module: Any) -> str:
        """Why kernels do not compute what it does; "" if they do."""
        raise NotImplementedError

    @staticmethod
    def read(module: Any) -> Weights:
        """Precondition: `why_other` has none."""
        raise NotImplementedError

    @staticmethod
    def types(module: Any) -> tuple[str, str, str]:
        """Of weights, x and y. Precondition: `why_other` has none."""
        raise NotImplementedError

    @staticmethod
    def problem(module: Any, weights: Weights, tokens: int) -> Problem:
        raise NotImplementedError

    @staticmethod
    def held(module: Any) -> Sequence[Any]:
        """Equal while the weights are the same; cheap."""
        raise NotImplementedError

    def run(self, module: Any, x: Tensor) -> Tensor | None:
        """Of an x that `takes`; None: dense is needed."""
        raise NotImplementedError

    def why_other_result(self, module: Any) -> str:
        """Why the library does not compute what kernels do, as seen in one call; "" if it does."""
        raise NotImplementedError

    @staticmethod
    def takes(module: Any, x: Tensor) -> bool:
        """Whether `run` can be tried with an x on the CPU that is not empty."""
        raise NotImplementedError

    @property
    def made(self) -> list[Kernel]:
        return [kernel for kernel in self._kernels.values() if kernel is not None]

    def compile(self, module: Any, key: LayerKey, threads: int) -> Kernel:
        """Of the module as it is now. Raises SpjitError."""
        self._see(module)
        weights = self.read(module)
        kernel = compile_problem(weights.integers.astype(np.float32),
                                 self.problem(module, weights, max(key.tokens, 1)), threads,
                                 key.network_nnz)
        # Which the kernel has.
        self._weights = weights._replace(integers=weights.integers[:0], groups=None)
        self._kernels[threads] = kernel
        return kernel

    def _see(self, module: Any) -> None:
        """Lets go of kernels of other weights than it has now."""
        now = self.held(module)
        if len(now) != len(self._held) or not all(
                one is other or (type(one) is int and one == other)
                for one, other in zip(now, self._held)):
            self._kernels, self._weights, self._held = {}, None, now

    def _kernel_for(self, module: Any) -> Kernel | None:
        self._see(module)
        threads = torch.get_num_threads()
        if threads not in self._kernels:
            self._kernels[threads] = self._compiled(module, threads)
        return self._kernels[threads]

    def _compiled(self, module: Any, threads: int) -> Kernel | None:
        if self.why_other(module) or why_too_dense(self.read(module).zeros):
            return None
        try:
            kernel = self.compile(module, LayerKey.parse(module.spjit_key), threads)
        except SpjitError as error:
            warnings.warn(f"spjit.torch: a quantised layer [{module.out_features}, "
                          f"{module.in_features}] stays dense: {error}", stacklevel=2)
            return None
        return None if self.why_other_result(module) else kernel


class SparseIntegers(Swapped):
    """Of `optimize_`, beside the layer's dense class."""

    _kernels_type: type[IntegerKernels]
    _dense: Any  # that class

    def forward(self, x: Tensor) -> Tensor:
        if not is_compiling():
            y = self._run(x)
            if y is not None:
                return y
            self.count_dense()
        return self._dense.forward(self, x)  # type: ignore[no-any-return]

    def _run(self, x: Any) -> Tensor | None:
        if torch.onnx.is_in_onnx_export() or torch.jit.is_tracing():
            raise NotSupported("torch.onnx.export and torch.jit.trace do not know sparse layers: "
                               "call spjit.torch.restore_(model) before")
        if not (isinstance(x, Tensor) and is_plain(x, x, self._parameters.get("bias"))
                and x.is_cpu and x.numel() > 0 and not x.is_neg()
                and self._kernels_type.takes(self, x)):
            return None
        kernels = vars(self).get("spjit_quantised")
        if kernels is None:
            kernels = vars(self)["spjit_quantised"] = self._kernels_type()
        return kernels.run(self, x)

    def _made_of(self) -> list[Tensor]:
        return []
