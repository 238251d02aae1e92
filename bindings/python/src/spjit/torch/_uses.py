"""Which weights functions use, beside the modules that have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ._dispatch import PLAIN
from ._passes import dense_forward, replaced

# By their names: each of them is there as a function, as a method and as an operator.
_PRODUCTS = frozenset((
    "linear", "bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "mv", "bmm", "addmm",
    "addmv", "addbmm", "baddbmm", "einsum", "tensordot", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "multi_head_attention_forward", "lstm", "gru",
    "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"))


class Uses(TorchFunctionMode):
    """Counts, while it is entered, products with each tensor and with each memory."""

    def __init__(self) -> None:
        super().__init__()
        self._by_tensor: Counter[int] = Counter()  # by id()
        self._by_memory: Counter[int] = Counter()
        self._calls: Counter[int] = Counter()  # of modules, by id() of their weights

    def counted(self, module: nn.Module) -> Callable[..., Any]:
        """forward() of a module that multiplies by its weight once in a call."""
        forward = dense_forward(module)

        def run(*given: Any, **named: Any) -> Any:
            self._calls[id(module._parameters.get("weight"))] += 1
            return forward(*given, **named)

        return run

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        if getattr(func, "__name__", "").partition(".")[0] in _PRODUCTS:  # "linear.default"
            self._count((*args, *(kwargs or {}).values()))
        return func(*args, **(kwargs or {}))

    def _count(self, operands: Iterable[Any]) -> None:
        for operand in operands:
            if isinstance(operand, (list, tuple)):
                self._count(operand)
            elif type(operand) in PLAIN and operand.layout is torch.strided:
                self._by_tensor[id(operand)] += 1
                self._by_memory[_memory(operand)] += 1

    def is_by_functions(self, weight: Tensor | None) -> bool:
        """Whether there were more products with this tensor, a parameter of modules, than calls of
        these."""
        return weight is not None and self._by_tensor[id(weight)] > self._calls[id(weight)]

    def of_memory(self, weight: Tensor) -> bool:
        """Whether there were any with it, or with a view of it."""
        return (type(weight) in PLAIN and weight.layout is torch.strided
                and weight.numel() > 0 and self._by_memory[_memory(weight)] > 0)


def uses_in(run: Callable[[], object], modules: list[nn.Module]) -> Uses | None:
    """Of a pass, which `run` makes. None if it fails: torch takes other ways under a mode.
    `modules`: those that multiply by their weight once in a call."""
    uses = Uses()
    try:
        with replaced({(module, "forward"): uses.counted(module) for module in modules}), uses:
            run()
    except Exception:  # it has run without the mode
        return None
    return uses


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


USED_BY_FUNCTIONS = "the example does not call it: functions use its weight, and stay dense"
LOOKED_UP = "its rows are looked up, not multiplied"


def why_looked_up(weight: Tensor, uses: Uses | None) -> str:
    """Of an embedding."""
    if uses is not None and uses.of_memory(weight):
        return (f"{LOOKED_UP}; functions multiply by it, too: expected an nn.Linear with this "
                "weight")
    return LOOKED_UP
