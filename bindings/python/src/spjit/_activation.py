"""Activations of kernels with their parameters, as one text: "gelu", "clamp:0,6", "leaky-relu:0.1",
"hard-sigmoid:0.2,0.5", as `--activation` of the command line has them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
# Names of parameters, as Problem has them but for a clamp's, and what they are by default; None:
# always given. Other activations have none.
PARAMETERS: dict[str, dict[str, float | None]] = {
    "clamp": {"low": None, "high": None}, "leaky-relu": {"alpha": 0.01},
    "hard-sigmoid": {"alpha": 1 / 6, "beta": 0.5}}


class Activation(NamedTuple):
    name: str
    parameters: tuple[float, ...] = ()  # all of them, in the order of PARAMETERS

    @property
    def is_valid(self) -> bool:
        """Whether kernels have it: bounds in order, other parameters finite as fp32."""
        if self.name == "clamp":
            return self.parameters[0] <= self.parameters[1]
        return all(abs(one) <= LARGEST for one in self.parameters)

    @property
    def text(self) -> str:
        """Numbers in the fewest digits that fp32 needs."""
        numbers = [str(np.float32(one)).removesuffix(".0") for one in self.parameters]
        return ":".join(filter(None, (self.name, ",".join(numbers))))

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def parse(cls, text: str) -> Activation:
        """Raises ValueError for a number that is none."""
        name, _, numbers = text.partition(":")
        return cls(name, tuple(float(one) for one in numbers.split(",")) if numbers else ())

    @property
    def arguments(self) -> dict[str, Any]:
        """Fields of Problem."""
        if self.name == "clamp":
            return {"clamp": self.parameters}
        return {"activation": self.name or None,
                **dict(zip(PARAMETERS.get(self.name, ()), self.parameters))}
