"""Passes of a model, as it is used, in which layers have other functions."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .._timing import turns, usual_time
from ._hosts import closed
from ._layers import kind_of

if TYPE_CHECKING:
    from ._candidates import Layer

_LEAST_ROUNDS = 4

_Forward = Callable[..., Any]


def _uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Passes change what modules call each time: torch.compile would compile as often, and then
    give up for good."""
    set_stance = getattr(torch.compiler, "set_stance", None)  # of torch 2.6 and later
    return contextlib.nullcontext() if set_stance is None else set_stance("force_eager")


@contextlib.contextmanager
def as_in_use(model: nn.Module, threads: int) -> Iterator[None]:
    """Evaluation without gradients and torch.compile, with so many threads."""
    modes = [(module, getattr(module, "training", None)) for module in model.modules()]
    threads_before = torch.get_num_threads()
    try:
        try:
            model.eval()
        except NotImplementedError:  # of a part that torch.export made, which has one mode
            for module, _ in modes:
                module.training = False
        torch.set_num_threads(threads)
        with torch.no_grad(), _uncompiled():
            yield
    finally:
        torch.set_num_threads(threads_before)
        for module, mode in modes:
            if mode is None:  # frozen by torch.jit: eval() gave it one
                vars(module).pop("training", None)
            else:
                module.training = mode


@contextlib.contextmanager
def replaced(functions: Mapping[tuple[nn.Module, str], _Forward]) -> Iterator[None]:
    """With other functions of modules, as `forward`."""
    try:
        for (module, name), function in functions.items():
            vars(module)[name] = function
        yield
    finally:
        for module, name in functions:
            vars(module).pop(name, None)


def dense_forward(module: nn.Module) -> _Forward:
    return functools.partial(kind_of(module).forward, module)


def is_slower(before_us: float, after_us: float) -> bool:
    return after_us > before_us


def time_switched(switch: Callable[[bool], None], run: Callable[[], float],
                  seconds: float) -> tuple[float, float]:
    """us of passes after switch(False) and after switch(True), in turn, each after one that does not
    count: it may compile, and Python runs code whose objects changed slowly once."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in turns(2, seconds, _LEAST_ROUNDS):
        switch(turn == 1)
        run()
        times[turn].append(run())
    return usual_time(times[0]), usual_time(times[1])


class Passes:
    """Of the model, dense and with sparse layers; each layer takes its own time. `hosts` call their
    layers; without any sparse one they would not, which passes of its own are for."""

    def __init__(self, layers: list[Layer], hosts: list[nn.Module],
                 run: Callable[[], float]) -> None:
        self._layers = layers
        self._hosts = hosts
        self._run = run
        self._thread = threading.get_ident()
        self._is_sparse = False
        self.before: list[float] = []  # us of whole passes
        self.after: list[float] = []

    def _timed(self, layer: Layer, dense: _Forward, sparse: _Forward, alone: _Forward) -> _Forward:
        """`alone`: as `sparse`, for other threads, whose calls may begin or end between two passes.
        """
        now = layer.clock.now

        def forward(*given: Any, **named: Any) -> Any:
            function = dense
            if self._is_sparse and layer.is_candidate:
                function = sparse if threading.get_ident() == self._thread else alone
            begin = now()
            y = function(*given, **named)
            layer.marks.append((begin, now()))
            return y

        return forward

    def _forwards(self) -> dict[tuple[nn.Module, str], _Forward]:
        """Of a pair that is fused, the first does all and the second nothing."""
        forwards: dict[tuple[nn.Module, str], _Forward] = {}
        for layer in self._layers:
            module, then = layer.module, layer.then
            sparse = alone = functools.partial(getattr(type(module), layer.function), module)
            if then is not None:
                sparse = functools.partial(type(module).run, module,  # type: ignore[arg-type]
                                           activation=layer.row.activation)
                activate = functools.partial(type(then).forward, then)
                forwards[then, "forward"] = self._timed(layer, activate, lambda x: x, activate)
            forwards[module, layer.function] = self._timed(layer, layer.dense, sparse, alone)
        return forwards

    def _pass(self, is_sparse: bool) -> float:
        self._is_sparse = is_sparse
        for layer in self._layers:
            layer.marks.clear()
        return self._run()

    def measure(self, seconds: float) -> None:
        """Dense and sparse in turn, after one of each that does not count."""
        dense: list[float] = []
        self.before, self.after = [] if self._hosts else dense, []
        for layer in self._layers:
            layer.before, layer.after = [], []
        with replaced(self._forwards()):
            self._pass(False)
            self._pass(True)
            for turn in turns(3 if self._hosts else 2, seconds, _LEAST_ROUNDS):
                if turn == 2:
                    with closed(self._hosts):
                        self.before.append(self._pass(False))
                    continue
                is_sparse = turn == 1
                (self.after if is_sparse else dense).append(self._pass(is_sparse))
                for layer in self._layers:
                    (layer.after if is_sparse else layer.before).append(layer.spent)
