"""Sparse kernels in PyTorch.

    report = spjit.torch.optimize_(model, example=(x,))   # in place; print(report): a table
    with torch.inference_mode():                          # with gradients layers run dense
        y = model(x)
    spjit.torch.save(model, "model.spjit")                # kernels; the model itself: torch.save
    spjit.torch.load_(model, "model.spjit")               # into a model with the same weights
    spjit.torch.restore_(model)                           # all dense again
"""

from .._report import Report, Row
from . import _optimizers  # noqa: F401  (counts what optimizers change)
from ._files import load_, save
from ._optimize import optimize_
from ._swap import restore_

__all__ = ["Report", "Row", "load_", "optimize_", "restore_", "save"]
