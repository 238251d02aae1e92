"""Steps of torch's fused optimizers on the CPU: they change parameters and do not count it, as all
other optimizers do."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook


@torch.compiler.disable
def _count(optimizer: Optimizer, *_: Any) -> None:
    """A change of each parameter that the step was for."""
    for group in optimizer.param_groups:
        if group.get("fused"):
            for parameter in group["params"]:
                if parameter.grad is not None and not parameter.is_inference():
                    increment_version(parameter)


register_optimizer_step_post_hook(_count)
