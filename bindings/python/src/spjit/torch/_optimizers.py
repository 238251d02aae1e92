"""Steps of optimizers that change parameters and do not count it: of torch's fused ones on the CPU,
and of others that write to `parameter.data`."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ._kernels import knows
from ._masks import seen_by_masks


@torch.compiler.disable
def _count(optimizer: Optimizer, *_: Any) -> None:
    """A change of each parameter that the step was for. Of what is not fused only those that a
    kernel or a mask knows as they are now: others were counted, or nobody here asks."""
    seen = seen_by_masks()
    for group in optimizer.param_groups:
        is_fused = group.get("fused")
        for parameter in group["params"]:
            if parameter.is_inference():
                continue
            if (parameter.grad is not None if is_fused else
                    knows(parameter) or seen.get(id(parameter)) == parameter._version):
                increment_version(parameter)


register_optimizer_step_post_hook(_count)
