"""A model's kernels in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import index
from typing import Any

import torch
from torch import Tensor, nn

from .._bundle import Bundle, BundleWriter
from .._errors import InvalidArgument, IoError, NotSupported
from .._kernel import Kernel
from .._library import PathLike
from .._report import Report
from ._attention import Projections, is_attention, projection_of, projections_in
from ._candidates import AttentionLayer, Layer, QuantisedLayer, RecurrentLayer
from ._convolutions import Geometry
from ._graph_modules import layers_in_graphs
from ._kernels import LayerKey, Step, Variant, at_place, content_hash, find_kernel
from ._layers import check_model, computed_by, is_sparse, matrix_of
from ._masks import pause_masks
from ._memory import MemoryBefore
from ._places import Place, place_of, target_of
from ._quantised import is_quantised
from ._recurrent import is_recurrent, matrix_names, parts_of
from ._swap import Swap
from ._threads import parallel_for
from ._transposed import TransposedGeometry
from ._weights import why_dense


def _computed(values: list[Any]) -> Geometry | TransposedGeometry | Step:
    if len(values) == 1:
        return Step(index(values[0]))
    *sizes, groups, activation = values
    if len(sizes) == 4:
        return TransposedGeometry.of(sizes, groups, activation)
    stride, padding, dilation = map(tuple, sizes)
    return Geometry(stride, padding, dilation, groups, activation)


@dataclass
class _Saved:
    """A layer of a file. Its text is the layer's name in the bundle."""

    key: LayerKey
    has_bias: bool
    computed: str | Geometry | TransposedGeometry | Step
    name: str  # of the module; of one of several weights also the weight's

    def text(self) -> str:
        computed = self.computed if isinstance(self.computed, str) else list(self.computed)
        return json.dumps({"key": str(self.key), "bias": self.has_bias, "computed": computed,
                           "name": self.name}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> _Saved:
        """Raises ValueError, KeyError or TypeError."""
        saved = json.loads(text)
        computed = saved["computed"]
        if not isinstance(computed, str):
            computed = _computed(computed)
        return cls(LayerKey.parse(saved["key"]), saved["bias"], computed, saved["name"])


def save(model: nn.Module, path: PathLike, *, private_key: PathLike | None = None) -> None:
    """Writes the kernels of the sparse layers to a bundle (docs/use/bundle.md); `load_` puts them
    into a model with the same weights. The model itself is not in it.

    private_key: PEM text of an Ed25519 key, or the path of a file that has it: signs the bundle.

    Layers that run dense as they are now, as of another type or under a mask that came later, are
    left out, and quantised ones.

    Raises InvalidArgument for a model without sparse layers, what is no model and what is no key;
    IoError.
    """
    check_model(model)
    sparse = {name: module for name, module in model.named_modules() if is_sparse(module)}
    if not sparse:
        raise InvalidArgument("no layer of the model is sparse: call optimize_ first")
    layers = {name: module for name, module in sparse.items() if not is_quantised(module)}
    if not layers:
        raise InvalidArgument("all sparse layers of the model are quantised, which files do not "
                              "have: call optimize_ where the model is used")
    reasons = {name: why_dense(module) for name, module in layers.items()}
    if all(reasons.values()):
        name, why = next(iter(reasons.items()))
        raise InvalidArgument(f"all sparse layers of the model run dense as they are now; {name!r}: "
                              f"{why}")
    with BundleWriter(path, private_key=private_key) as bundle:
        for name in (name for name, why in reasons.items() if not why):
            module = layers[name]
            for part, weight, text, variant in _parts(name, module):
                kernel = find_kernel(weight, text, variant, always=True)
                if kernel is not None:
                    key = LayerKey.parse(text).with_weights(content_hash(weight))
                    bundle.add(_Saved(key, variant.has_bias, variant.computed, part).text(), kernel)


def _parts(name: str, module: nn.Module) -> list[tuple[str, Tensor, str, Variant]]:
    """Of a sparse layer with this name: names, weights, and LayerKeys and Variants of kernels."""
    if is_recurrent(module):
        parts = parts_of(module, LayerKey.parse(module.spjit_key))
        return [(f"{name}.{weight_name}", *part)
                for weight_name, part in zip(matrix_names(module), parts)]
    if is_attention(module):
        place = place_of(projection_of(module, projections_in(module)[0]))
        variant = Variant(place, module.in_proj_bias is not None, "")
        return [(f"{name}.{part}", projection_of(module, part), str(key), variant)
                for part, key in Projections.parse(module.spjit_key).keys]
    variant = Variant(place_of(matrix_of(module)), module.bias is not None,
                      computed_by(module, module.spjit_activation))
    return [(name, matrix_of(module), module.spjit_key, variant)]


class _File:
    """A bundle, by content and by name of the module."""

    def __init__(self, path: PathLike, public_key: PathLike | None, any_owner: bool) -> None:
        self._bundle = Bundle(path, public_key=public_key, any_owner=any_owner)
        self.by_content: dict[Any, _Saved] = {}
        self.by_name: dict[str, _Saved] = {}
        self.recurrent: dict[str, _Saved] = {}  # weights of inputs, by content
        for text in self._bundle.layers:
            try:
                saved = _Saved.parse(text)
            except (ValueError, KeyError, TypeError):
                raise IoError(f"{path}: the layer {text!r} is not of "
                              "spjit.torch.save") from None
            self.by_content[saved.key.weights, saved.has_bias, saved.computed] = saved
            self.by_name[saved.name] = saved
            if saved.key.batch:
                self.recurrent[saved.key.weights] = saved

    def kernel(self, saved: _Saved, place: Place) -> Kernel | None:
        """None if it is there for other CPUs and GPUs only."""
        try:
            if isinstance(place, int):
                return self._bundle.load(saved.text(), threads=place, _parallel_for=parallel_for())
            kernel = self._bundle.load(saved.text(), target=target_of(place))
            return None if kernel is None else at_place(kernel, place)
        except NotSupported:
            return None


def load_(model: nn.Module, path: PathLike, *, public_key: PathLike | None = None,
          any_owner: bool = False, release_dense: bool = False) -> Report:
    """Swaps the layers of the model, in place, whose kernels `save` wrote: those of the same
    weights, whatever the layers are called. Layers that were sparse and now have other weights, or
    whose kernels are for another CPU, are compiled. The others stay dense. Nothing is timed.

    public_key: PEM text of an Ed25519 key, or the path of a file that has it. Only a bundle that it
        signed is loaded.
    any_owner: also a file that other users can write to.
    release_dense: as `optimize_` has it.

    Raises IoError for a bundle that cannot be read, is damaged or not signed by the key,
    InvalidArgument for what is no model. Then, and after any other exception, the model is as it
    was.
    """
    check_model(model)
    before = MemoryBefore(model) if release_dense else None
    file = _File(path, public_key, any_owner)
    with layers_in_graphs(model), Swap(model) as swap:
        swap.find()
        for layer in swap.candidates:
            pause_masks(layer.module)
            _load_layer(layer, file)
        swap.keep()
        if before is not None:
            swap.release(before)
    return swap.report(torch.get_num_threads())


def _load_recurrent(layer: RecurrentLayer, file: _File) -> None:
    content = content_hash(layer.weight)
    name = layer.row.layer.split(", ")[0]
    saved = file.recurrent.get(content) or file.by_name.get(
        f"{name}.{matrix_names(layer.module)[0]}")
    if saved is None or not saved.key.batch:
        layer.row.reason = "the file has no kernel for it"
        return

    def kernel(weight: Tensor, variant: Variant) -> Kernel | None:
        found = file.by_content.get((content_hash(weight), variant.has_bias, variant.computed))
        return None if found is None else file.kernel(found, variant.place)

    layer.take(saved.key.with_weights(content), kernel)


def _load_attention(layer: AttentionLayer, file: _File) -> None:
    """What it projects in one, the file says."""
    variant, module = layer.variant, layer.module
    name = layer.row.layer.split(", ")[0]
    hashes = {part: content_hash(projection_of(module, part)) for part in projections_in(module)}

    def of_content(content: str) -> _Saved | None:
        return file.by_content.get((content, variant.has_bias, variant.computed))

    found = {part: of_content(content) for part, content in hashes.items()}
    if not any(found.values()):
        found = {part: file.by_name.get(f"{name}.{part}") for part in hashes}
    keys = tuple((part, saved.key.with_weights(hashes[part]))
                 for part, saved in found.items() if saved is not None)
    if not keys:
        layer.row.reason = "the file has no kernel for it"
        return

    def kernel(weight: Tensor) -> Kernel | None:
        saved = of_content(content_hash(weight))
        return None if saved is None else file.kernel(saved, variant.place)

    layer.take(Projections(keys), kernel)


def _load_layer(layer: Layer, file: _File) -> None:
    if isinstance(layer, QuantisedLayer):
        layer.row.reason = "files have no kernels of quantised layers: call optimize_"
        return
    if isinstance(layer, RecurrentLayer):
        _load_recurrent(layer, file)
        return
    if isinstance(layer, AttentionLayer):
        _load_attention(layer, file)
        return
    variant = layer.variant
    content = content_hash(layer.weight)
    saved = file.by_content.get((content, variant.has_bias, variant.computed))
    kernel = None if saved is None else file.kernel(saved, variant.place)
    if saved is None:
        saved = file.by_name.get(layer.row.layer.split(", ")[0])
    if saved is None:
        layer.row.reason = "the file has no kernel for it"
        return
    layer.take(saved.key.with_weights(content), kernel)
