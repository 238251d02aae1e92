"""Layers that call spjit: the same module with another class, so that parameters, hooks, names and
whoever holds the module stay as they are."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.ao.nn.quantized.dynamic import Linear as PackedLinear
from torch.compiler import is_compiling
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from .._errors import InvalidArgument
from ._attention import SparseMultiheadAttention, is_attention, weights_of_attention
from ._conv1d import as_rows, conv1d_kind, is_conv1d
from ._convolutions import (CONVOLUTIONS, Geometry, Sizes, is_same, sizes_of,
                            why_other_convolution)
from ._dispatch import is_plain, is_under_device, is_under_own_mode, takes_graph
from ._kernels import forget
from ._masks import (is_masked, maker_of_weight, masked_class, pause_masks, resume_masks,
                     weight_of)
from ._op import (CONV1D, CONV2D, LINEAR, activated, call, run_conv1d, run_conv2d, run_linear,
                  runs_dense)
from ._part_op import LINEAR_PART, run_part
from ._packed import SparsePackedLinear
from ._quantised import is_quantised
from ._recurrent import SPARSE_RECURRENT, is_recurrent, weights_of_recurrent
from ._sizes import taps_of
from ._swapped import DenseCalls, Swapped
from ._torchao import SparseTensorLinear
from ._transposed import (TRANSPOSED, TransposedGeometry, geometry_of_transposed,
                          sizes_of_transposed, why_other_transposed)
from ._transposed_op import TRANSPOSED1D, TRANSPOSED2D, run_transposed1d, run_transposed2d

if TYPE_CHECKING:
    from ._shortened import ShortLayer

# From forward() up to the code that calls the module: two of torch's own between them.
_TO_CALLER = 3


def _operands(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """weight and bias, without what attributes of modules cost: 1 us each."""
    parameters = module._parameters
    weight = parameters.get("weight")
    if weight is None or "bias" not in parameters:  # of masks, which make attributes
        masked = vars(module).get("spjit_masked")
        made = module.weight if masked is None else masked.for_call(module)
        return made, module.bias  # type: ignore[return-value]
    return weight, parameters["bias"]


class _Swapped(Swapped):
    """Of one weight."""

    spjit_can_release = True

    def forward(self, input: Tensor) -> Tensor:
        short = self.spjit_short
        if short is not None and not is_compiling() and short.is_called(input, _TO_CALLER):
            return short.run(self, input, "")
        return self.run(input, "")

    def run(self, input: Tensor, activation: str, *rest: Any) -> Tensor:
        """forward(), and the activation behind it."""
        raise NotImplementedError

    def _eagerly(self, input: Tensor, activation: str, *rest: Any) -> Tensor:
        """run(), between compiled graphs, which take no released weights."""
        return _uncompiled(self, input, activation, *rest)  # type: ignore[no-any-return]

    def _made_of(self) -> list[Tensor]:
        return [weight_of(self)]  # type: ignore[arg-type]

    def _is_own(self) -> bool:
        """Not parametrized since, nor under a hook that makes another weight in each call."""
        own = type(self)
        if _has_own_masks(own):  # type: ignore[arg-type]
            return is_masked(self)  # type: ignore[arg-type]
        return own in _DENSE and not maker_of_weight(self)  # type: ignore[arg-type]

    def _densely(self, x: Tensor, activation: str, *rest: Any) -> Tensor:
        """Of what is no longer the layer that was swapped. `rest`: what forward() gets besides x.
        """
        if not is_compiling():
            self.count_dense()
        y = kind_of(self).forward(self, x, *rest)  # type: ignore[arg-type]
        return activated(y, activation)

    def _slowly(self, operator: Any, x: Any, weight: Tensor, bias: Tensor | None,
                *sizes: Any, rest: tuple[Any, ...] = ()) -> Tensor:
        """By torch, which has to see it, or dense; that is counted."""
        if not is_compiling():
            if is_under_own_mode():
                return self._densely(x, sizes[-2], *rest)
            if is_under_device(x, weight, bias):
                with torch._C.DisableTorchFunction():
                    return self.run(x, sizes[-2], *rest)
        y = call(operator, x, weight, bias, *sizes)
        if not is_compiling() and runs_dense(x, weight, bias):
            self.count_dense()
            if takes_graph(weight, bias):
                self._warn_once()
        return y


def _run(module: _Swapped, input: Tensor, activation: str, *rest: Any) -> Tensor:
    return module.run(input, activation, *rest)


def _disabled(run: Callable[..., Tensor]) -> Any:
    try:
        return torch.compiler.disable(run, reason=(
            "spjit.torch: optimize_(release_dense=True) freed its dense weight, which compiled "
            "graphs need: spjit.torch.restore_(model) brings it back"))
    except TypeError:  # of a torch that takes no reason
        return torch.compiler.disable(run)  # type: ignore[no-untyped-call]


_uncompiled = _disabled(_run)


class SparseLinear(_Swapped, nn.Linear):
    """Of `optimize_` and `load_`."""

    def run(self, input: Tensor, activation: str) -> Tensor:
        if self.spjit_is_released and is_compiling():
            return self._eagerly(input, activation)
        if (type(self) is not SparseLinear or "weight" not in self._parameters) \
                and not self._is_own():
            return self._densely(input, activation)
        weight, bias = _operands(self)
        if not is_compiling() and is_plain(input, weight, bias):
            y = run_linear(input, weight, bias, activation, self.spjit_key)
            if y is not None:
                return y
        return self._slowly(LINEAR, input, weight, bias, activation, self.spjit_key)


class SparseOutProjection(SparseLinear, NonDynamicallyQuantizableLinear):
    """Of an nn.MultiheadAttention."""


class _SwappedConv1D(_Swapped):
    """Of the Conv1D of transformers."""

    spjit_can_release = False  # of whose weight kernels have a view

    def run(self, input: Tensor, activation: str) -> Tensor:
        if "weight" not in self._parameters and not self._is_own():  # type: ignore[attr-defined]
            return self._densely(input, activation)
        weight, bias = _operands(self)  # type: ignore[arg-type]
        given = (0, weight.shape[-1], True, activation, self.spjit_key)
        if not is_compiling() and is_plain(input, weight, bias):
            y = run_part(input, weight, bias, *given)
            if y is not None:
                return y
        return self._slowly(LINEAR_PART, input, weight, bias, *given)


class _SwappedConv(_Swapped):
    """Of a convolution, whose attributes its user may change."""

    spjit_sizes: tuple[tuple[Any, ...], tuple[int, ...], Sizes]  # of which, and they
    stride: Any
    padding: Any
    dilation: Any
    groups: int

    def _sizes(self, weight: Tensor) -> Sizes | None:
        """As they are now; None where forward() does what no kernel does."""
        if why_other_convolution(self):  # type: ignore[arg-type]
            return None
        given, taps, sizes = self.spjit_sizes
        now = (self.stride, self.padding, self.dilation)
        if all(map(is_same, given, now)) and taps == taps_of(weight):
            return sizes
        return sizes_of(self, weight)  # type: ignore[arg-type]


def _conv_run(operator: Any, run_conv: Callable[..., Tensor | None]) -> Callable[..., Tensor]:
    """_Swapped.run of a convolution: `run_conv` is `operator` without torch."""
    def run(self: Any, input: Tensor, activation: str) -> Tensor:
        if self.spjit_is_released and is_compiling():
            return self._eagerly(input, activation)  # type: ignore[no-any-return]
        if (type(self) not in _DENSE or "weight" not in self._parameters) and not self._is_own():
            return self._densely(input, activation)  # type: ignore[no-any-return]
        weight, bias = _operands(self)
        sizes = self._sizes(weight)
        if sizes is None:
            return self._densely(input, activation)  # type: ignore[no-any-return]
        given = (*sizes, self.groups, activation, self.spjit_key)
        if not is_compiling() and is_plain(input, weight, bias):
            y = run_conv(input, weight, bias, *given)
            if y is not None:
                return y
        return self._slowly(operator, input, weight, bias, *given)  # type: ignore[no-any-return]

    return run


class SparseConv1d(_SwappedConv, nn.Conv1d):
    """Of `optimize_` and `load_`."""

    run = _conv_run(CONV1D, run_conv1d)


class SparseConv2d(_SwappedConv, nn.Conv2d):
    """Of `optimize_` and `load_`."""

    run = _conv_run(CONV2D, run_conv2d)


class _SwappedTransposed(_Swapped):
    """Of a transposed convolution, whose attributes its user may change."""

    _operator: Any
    _run_operator: Callable[..., Tensor | None]
    _parameters: dict[str, Any]
    groups: int

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self.run(input, "", output_size)

    def run(self, input: Tensor, activation: str, output_size: list[int] | None = None) -> Tensor:
        if self.spjit_is_released and is_compiling():
            return self._eagerly(input, activation, output_size)
        own: Any = type(self)
        is_usual = own in _DENSE and "weight" in self._parameters
        if (not is_usual and not self._is_own()) or why_other_transposed(
                self):  # type: ignore[arg-type]
            return self._densely(input, activation, output_size)
        weight, bias = _operands(self)  # type: ignore[arg-type]
        stride, padding, more, dilation = sizes_of_transposed(self)  # type: ignore[arg-type]
        if output_size is not None:
            more = tuple(self._output_padding(  # type: ignore[attr-defined]
                input, output_size, stride, padding, taps_of(weight), len(stride), dilation))
        given = (stride, padding, more, dilation, self.groups, activation, self.spjit_key)
        if not is_compiling() and is_plain(input, weight, bias):
            y = self._run_operator(input, weight, bias, *given)
            if y is not None:
                return y
        return self._slowly(self._operator, input, weight, bias, *given, rest=(output_size,))


class SparseConvTranspose1d(_SwappedTransposed, nn.ConvTranspose1d):
    """Of `optimize_` and `load_`."""

    _operator = TRANSPOSED1D
    _run_operator = staticmethod(run_transposed1d)


class SparseConvTranspose2d(_SwappedTransposed, nn.ConvTranspose2d):
    """Of `optimize_` and `load_`."""

    _operator = TRANSPOSED2D
    _run_operator = staticmethod(run_transposed2d)


_SPARSE: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: SparseLinear, nn.Conv1d: SparseConv1d, nn.Conv2d: SparseConv2d,
    nn.ConvTranspose1d: SparseConvTranspose1d, nn.ConvTranspose2d: SparseConvTranspose2d,
    NonDynamicallyQuantizableLinear: SparseOutProjection,
    nn.MultiheadAttention: SparseMultiheadAttention, PackedLinear: SparsePackedLinear,
    **SPARSE_RECURRENT}
_DENSE = {sparse: dense for dense, sparse in _SPARSE.items()}
_DENSE[SparseTensorLinear] = nn.Linear  # whose weight says what it becomes
_LAYERS = tuple(_SPARSE)


@functools.lru_cache(maxsize=None)
def _sparse_conv1d(kind: type[nn.Module]) -> type[nn.Module]:
    """For this class Conv1D."""
    def reduce(self: nn.Module, protocol: Any) -> Any:
        """pickle would look for the class in a module."""
        _, _, *state = super(made, self).__reduce_ex__(2)  # type: ignore[arg-type]
        return _empty_conv1d, (kind,), *state

    made = type("SparseConv1D", (_SwappedConv1D, kind), {"__reduce_ex__": reduce})
    _SPARSE[kind], _DENSE[made] = made, kind
    return made


def _empty_conv1d(kind: type[nn.Module]) -> nn.Module:
    sparse = _sparse_conv1d(kind)
    return sparse.__new__(sparse)


def check_model(model: Any) -> None:
    """Raises InvalidArgument."""
    if not isinstance(model, nn.Module):
        raise InvalidArgument(f"model is {type(model).__name__}; expected an nn.Module")


def is_layer(module: nn.Module) -> bool:
    """Whether it is of a kind that has kernels, in whatever form."""
    return isinstance(module, _LAYERS) or is_conv1d(module)


def kind_of(module: nn.Module) -> type[nn.Module]:
    """nn.Linear, nn.LSTM and so on. Precondition: `is_layer`."""
    found = conv1d_kind(type(module))
    return found or next(kind for kind in _LAYERS if isinstance(module, kind))


def has_sparse_form(kind: type[nn.Module]) -> bool:
    """Whether modules of exactly this class can be swapped."""
    return kind in _SPARSE or kind in _DENSE or conv1d_kind(kind) is kind


def takes_activation(module: nn.Module) -> bool:
    """Whether its kernel can do an activation behind it, too. Precondition: `is_layer`."""
    return not (is_recurrent(module) or is_attention(module) or is_quantised(module))


def _has_own_masks(kind: type[nn.Module]) -> bool:
    """Whether it is a `masked_class`."""
    return "spjit_masks" in vars(kind)


def is_sparse(module: nn.Module) -> bool:
    kind = type(module)
    if kind is SparseMultiheadAttention:  # also if another layer within is sparse
        return "spjit_key" in vars(module)
    return kind in _DENSE or (_has_own_masks(kind) and is_masked(module))


class Told(NamedTuple):
    """What a swapped layer is told, each as an attribute."""

    spjit_key: str
    spjit_activation: str  # of the module behind it, if it is of `fused_pairs`
    spjit_name: str
    spjit_calls: DenseCalls
    spjit_short: Optional[ShortLayer] = None  # what is left of it in a chain, if less than all


def told_of(module: nn.Module) -> Told:
    """Precondition: `is_sparse`."""
    return Told(*(vars(module)[name] for name in Told._fields))


def weights_of(module: nn.Module) -> list[Tensor]:
    """Those that have kernels; packed ones are none. Precondition: `is_layer`."""
    if is_quantised(module):
        return []
    if is_recurrent(module):
        return weights_of_recurrent(module)
    return weights_of_attention(module) if is_attention(module) else [weight_of(module)]


def matrix_of(module: nn.Module) -> Tensor:
    """The weight of a layer of one, as its kernel has it."""
    weight = weight_of(module)
    return as_rows(weight) if is_conv1d(module) else weight


def computed_by(module: nn.Module, activation: str) -> Geometry | TransposedGeometry | str:
    """Variant.computed, with this activation behind the layer. Precondition: `refusal_of` has none.
    """
    if isinstance(module, TRANSPOSED):
        return geometry_of_transposed(module, activation)
    if not isinstance(module, CONVOLUTIONS):
        return activation
    sizes = sizes_of(module, weight_of(module))
    assert sizes is not None
    return Geometry.of(*sizes, index(module.groups), activation)


def swap(module: nn.Module, to: Told) -> None:
    """Precondition: `refusal_of` has none."""
    pause_masks(module)
    told = to._asdict()
    if isinstance(module, CONVOLUTIONS):
        # Copies: lists of a caller, who may change an element.
        given = tuple(copy.copy(each) for each in (module.stride, module.padding, module.dilation))
        weight = weight_of(module)
        told["spjit_sizes"] = given, taps_of(weight), sizes_of(module, weight)
    kind = type(module)
    if (found := conv1d_kind(kind)) is not None:
        _sparse_conv1d(found)
    if is_masked(module):
        if not _has_own_masks(kind):
            told["spjit_dense_class"] = kind
            module.__class__ = masked_class(module, _SPARSE[kind_of(module)])
    elif kind is nn.Linear and is_quantised(module):
        module.__class__ = SparseTensorLinear
    else:
        module.__class__ = _SPARSE.get(kind, kind)
    vars(module).update(told)


def unswap(module: nn.Module) -> None:
    """As it was before `swap`. A module that was parametrized since keeps what it will need when
    that is taken off."""
    if is_sparse(module):
        for tensor in (*weights_of(module), *module._parameters.values()):
            if tensor is not None:
                forget(tensor)
        told = vars(module)
        module.__class__ = told.pop("spjit_dense_class") if _has_own_masks(type(module)) \
            else _DENSE[type(module)]
        for name in (*Told._fields, "spjit_sizes", "spjit_dense_class"):
            told.pop(name, None)
    vars(module).pop("spjit_quantised", None)
    resume_masks(module)
