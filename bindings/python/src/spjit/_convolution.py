"""2-D convolutions as products of their weights with patches of images."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Union

from . import _library
from ._checks import flag, whole
from ._errors import InvalidArgument
from ._gpu import Gpu
from ._kernel import Kernel
from ._library import Handle

_Pair = Union[int, tuple[int, int]]


def _sizes(value: Any, name: str, counts: tuple[int, ...]) -> tuple[int, ...]:
    """`value` as one of so many integers; one integer stands for two equal ones."""
    sizes = (value, value) if isinstance(value, numbers.Integral) else value
    try:
        if isinstance(sizes, (tuple, list)) and len(sizes) in counts:
            return tuple(whole(size, name) for size in sizes)
    except InvalidArgument:
        pass  # of one of them: all are to be shown
    raise InvalidArgument(f"{name} is {value!r}; expected an integer below 2^63, or a tuple of "
                          + " or ".join(map(str, counts)))


@dataclass(frozen=True)
class Conv2d:
    """A 2-D convolution, for `compile(weights, convolution=...)`. Sizes are those of PyTorch.

    channels, height, width: of an image.
    kernel, stride, dilation: of height and width; one integer: of both.
    padding: of all sides, of height and width, or (top, left, bottom, right).
    groups: of channels and of filters.
    any_size: calls have images of any size; height and width are typical.
    """

    channels: int
    height: int
    width: int
    kernel: _Pair = 1
    stride: _Pair = 1
    padding: Union[_Pair, tuple[int, int, int, int]] = 0
    dilation: _Pair = 1
    groups: int = 1
    any_size: bool = False

    def __post_init__(self) -> None:
        for name in ("kernel", "stride", "dilation"):
            _sizes(getattr(self, name), name, (2,))
        _sizes(self.padding, "padding", (2, 4))
        for name in ("channels", "height", "width", "groups"):
            whole(getattr(self, name), name)
        flag(self.any_size, "any_size")

    @property
    def _kernel(self) -> tuple[int, ...]:
        return _sizes(self.kernel, "kernel", (2,))

    @property
    def _pads(self) -> tuple[int, ...]:
        """top, left, bottom, right"""
        sizes = _sizes(self.padding, "padding", (2, 4))
        return sizes if len(sizes) == 4 else (*sizes, *sizes)

    def weight_shape(self, filters: int) -> tuple[int, int, int, int]:
        """[filters, channels / groups, kernel_height, kernel_width]"""
        rows, columns = self._kernel
        return filters, self.channels // max(self.groups, 1), rows, columns

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of Y for an image; 0 or less where the kernel does not fit into it."""
        stride = _sizes(self.stride, "stride", (2,))
        dilation = _sizes(self.dilation, "dilation", (2,))
        kernel, pads = self._kernel, self._pads
        rows, columns = ((size + pads[i] + pads[i + 2] - dilation[i] * (kernel[i] - 1) - 1)
                         // stride[i] + 1 for i, size in enumerate((height, width)))
        return rows, columns

    def as_struct(self) -> _library.Convolution:
        """spjit_convolution, in which 0 would be a default."""
        stride = _sizes(self.stride, "stride", (2,))
        dilation = _sizes(self.dilation, "dilation", (2,))
        for name, sizes in (("kernel", self._kernel), ("stride", stride), ("dilation", dilation),
                            ("groups", (self.groups,))):
            if 0 in sizes:
                raise InvalidArgument(f"{name} of the convolution is 0; expected 1 or more")
        return _library.Convolution(
            channels=self.channels, height=self.height, width=self.width,
            kernel_height=self._kernel[0], kernel_width=self._kernel[1], stride_height=stride[0],
            stride_width=stride[1], pad_top=self._pads[0], pad_left=self._pads[1],
            pad_bottom=self._pads[2], pad_right=self._pads[3], dilation_height=dilation[0],
            dilation_width=dilation[1], groups=self.groups)

    def takes_size(self, height: int, width: int) -> bool:
        """Whether kernels of it take such images."""
        return self.any_size or (height, width) == (self.height, self.width)

    @classmethod
    def of_info(cls, sizes: dict[str, Any], any_size: bool) -> Conv2d:
        """Of the member `convolution` of a kernel's info."""
        def pair(name: str) -> tuple[int, int]:
            return sizes[name][0], sizes[name][1]

        top, left, bottom, right = sizes["pad"]
        return cls(sizes["channels"], sizes["height"], sizes["width"], pair("kernel"),
                   pair("stride"), (top, left, bottom, right), pair("dilation"), sizes["groups"],
                   any_size)


class Conv2dKernel(Kernel):
    """Y = act(scale * conv2d(X, A) + bias + residual): a Kernel whose x and y are images.

    Layout "features" is NCHW, x [..., channels, height, width]; "tokens" is NHWC, x [..., height,
    width, channels]; y has as many dimensions. One of channels and width has stride 1, rows of an
    image follow one another without a gap, and images are evenly spaced. `residual` and `out` are
    as y. `n` is the pixels of y.
    """

    _token_dims = 2

    def __init__(self, handle: Handle, convolution: Conv2d, gpu: Gpu | None = None) -> None:
        super().__init__(handle, gpu)
        self._convolution = convolution
        # One tap without stride and padding is a product: a run says its pixels.
        self.is_product = self.convolution_sizes is None

    @property
    def convolution(self) -> Conv2d:
        """What it computes; of groups, with the channels of all as one where it was loaded."""
        return self._convolution

    def __repr__(self) -> str:
        of = self._convolution
        size = "any size" if of.any_size else f"{of.height} x {of.width}"
        return (f"<spjit.Conv2dKernel {self._info['family']} [{self._out}, {of.channels}] images "
                f"of {size} layout={self.layout}{self._where()}>")

    def _on(self, handle: Handle, gpu: Gpu) -> Kernel:
        return Conv2dKernel(handle, self._convolution, gpu)

    def _image_of(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """Channels, height and width."""
        if self._tokens_major:
            return shape[-1], shape[-3], shape[-2]
        return shape[-3], shape[-2], shape[-1]

    def _result_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        of = self._convolution
        channels, height, width = self._image_of(shape) if len(shape) >= 3 else (-1, -1, -1)
        if channels != of.channels or not of.takes_size(height, width):
            size = ("height", "width") if of.any_size else (of.height, of.width)
            sizes = (*size, of.channels) if self._tokens_major else (of.channels, *size)
            raise InvalidArgument(f"x has the shape {list(shape)}; expected [..., "
                                  f"{', '.join(map(str, sizes))}]")
        rows, columns = of.output_size(height, width)
        if rows < 1 or columns < 1:
            raise InvalidArgument(f"x has images of {height} x {width}, into which the kernel does "
                                  f"not fit: {of}")
        if self._tokens_major:
            return (*shape[:-3], rows, columns, self._out)
        return (*shape[:-3], self._out, rows, columns)

    def _sizes_of_run(self, n: int, x_shape: tuple[int, ...]) -> tuple[int, int, int]:
        return (n, 0, 0) if self.is_product else (0, *self._image_of(x_shape)[1:])


def kernel_for(handle: Handle, convolution: Conv2d | None) -> Kernel:
    """Of the library's kernel, which computes this convolution; None: it is no convolution."""
    return Kernel(handle) if convolution is None else Conv2dKernel(handle, convolution)
