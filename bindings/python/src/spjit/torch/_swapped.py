"""What all swapped layers have beside their dense class."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor

from .._errors import NotSupported
from ._kernels import forget
from ._release import rebuilt
from ._released import dense_of

_HOW_TO_RUN_SPARSE = (
    "spjit.torch: sparse layers run dense while gradients of their weights are recorded; put `with "
    "torch.inference_mode():` around the call, or call `model.requires_grad_(False)` once before")


@dataclass
class DenseCalls:
    """Calls of a model's swapped layers that had to run dense."""

    by_layer: dict[str, int] = field(default_factory=dict)
    has_warned: bool = False


class NotScriptable:
    """torch.jit.script has no types of its calls."""

    def __prepare_scriptable__(self) -> NoReturn:
        raise NotSupported("torch.jit.script does not know sparse layers: call "
                           "spjit.torch.restore_(model) before")


class Swapped(NotScriptable):
    """Weights stay dense in `state_dict()`."""

    spjit_key: str
    spjit_activation: str  # of the module behind it in a SparseSequential; or ""
    spjit_name: str  # in the report
    spjit_calls: DenseCalls
    spjit_short: Any = None  # ShortLayer: what is left of it in a chain, if less than all
    spjit_can_release = False  # whether its dense weight can be freed
    spjit_is_released = False
    training: bool
    _parameters: dict[str, Any]

    def _made_of(self) -> list[Tensor]:
        """Weights that have kernels."""
        raise NotImplementedError

    def _apply(self, *given: Any, **named: Any) -> Any:
        self._let_swap()
        with rebuilt(self):  # type: ignore[arg-type]
            return super()._apply(*given, **named)  # type: ignore[misc]

    def _load_from_state_dict(self, *given: Any, **named: Any) -> None:
        self._let_swap()
        with rebuilt(self):  # type: ignore[arg-type]
            super()._load_from_state_dict(*given, **named)  # type: ignore[misc]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str,
                            keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        if not keep_vars:
            for name in self._parameters:
                if f"{prefix}{name}" in destination:
                    destination[f"{prefix}{name}"] = dense_of(destination[f"{prefix}{name}"])

    def _let_swap(self) -> None:
        """torch.utils.swap_tensors(), by which .to() and load_state_dict() replace parameters if
        they are told to, refuses those that something holds by a weak reference."""
        if torch.__future__.get_swap_module_params_on_conversion():
            for tensor in (*self._made_of(), *self._parameters.values()):
                if tensor is not None:
                    forget(tensor)

    def count_dense(self) -> None:
        counts = self.spjit_calls.by_layer
        counts[self.spjit_name] = counts.get(self.spjit_name, 0) + 1

    def _warn_once(self) -> None:
        """Of gradients that are recorded."""
        if not self.training and not self.spjit_calls.has_warned:
            self.spjit_calls.has_warned = True
            warnings.warn(_HOW_TO_RUN_SPARSE, stacklevel=2)
