"""Sliding windows: the geometry that convolutions and pools of ONNX share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from compiler.graph import Array, Box
from compiler.operators.record import Attribute, Call, Rule, rule

Ints = tuple[int, ...]

AUTO_PAD = Attribute("auto_pad", "string", "NOTSET", allowed=("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
STRIDES = Attribute("strides", "ints", minimum=1)
DILATIONS = Attribute("dilations", "ints", minimum=1)
PADS = Attribute("pads", "ints", minimum=0)
CEIL_MODE = Attribute("ceil_mode", "int", 0, allowed=(0, 1))
POOL_SHAPE = Attribute("kernel_shape", "ints", required=True, minimum=1)


@dataclass(frozen=True)
class Window:
    """A window that slides over an image; every tuple has one entry per spatial axis, in elements.

    ``output``, the number of positions, is smaller than 1 for a window that does not fit: rules refuse it.
    """

    image: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints
    output: Ints

    def taps(self) -> Iterator[tuple[slice, ...]]:
        """Yield the part of the padded image that meets each position in the kernel, last axis fastest."""
        for tap in itertools.product(*map(range, self.kernel)):
            starts = [t * d for t, d in zip(tap, self.dilations, strict=True)]
            sizes = zip(starts, self.strides, self.output, strict=True)
            part = [slice(start, start + (n - 1) * step + 1, step) for start, step, n in sizes]
            yield (slice(None), slice(None), *part)

    @property
    def extents(self) -> Ints:
        """Elements from the first to the last tap of the dilated kernel."""
        return _extents(self.kernel, self.dilations)

    def bare(self, axis: int) -> int | None:
        """Return the first output position along a spatial axis whose window contains no element of the
        image.

        A window that begins inside the image contains an element, a window that begins after it contains
        none. Before the image, the gaps between taps repeat after as many positions as the dilation has
        elements.
        """
        dilation, step, pad = self.dilations[axis], self.strides[axis], self.pads_begin[axis]
        positions = np.append(np.arange(dilation + 1), -(-(self.image[axis] + pad) // step))
        positions = np.sort(positions[positions < self.output[axis]])
        start = positions * step - pad
        first = np.maximum(-(start // dilation), 0)
        holds = (first < self.kernel[axis]) & (start + first * dilation < self.image[axis])
        return None if holds.all() else int(positions[~holds][0])

    def margins(self) -> list[tuple[int, int]]:
        """Return the padding before and after each spatial axis, as far as the last window reaches."""
        widths = []
        for axis, size in enumerate(self.image):
            needed = (self.output[axis] - 1) * self.strides[axis] + self.extents[axis]
            widths.append((self.pads_begin[axis], max(needed - size - self.pads_begin[axis], 0)))
        return widths

    def reached(self, positions: Box) -> Box:
        """Return the part of the image, and of its padding, that the windows at some positions reach."""
        axes = zip(positions.intervals, self.strides, self.pads_begin, self.extents, strict=True)
        return Box(
            tuple(
                (begin * step - pad, (end - 1) * step - pad + extent)
                for (begin, end), step, pad, extent in axes
            )
        )

    def padded(self, x: Array, fill: float | int) -> Array:
        """Pad ``x`` [N, C, *image] (:meth:`margins`)."""
        return np.pad(x, [(0, 0), (0, 0), *self.margins()], constant_values=fill)


def _extents(kernel: Ints, dilations: Ints) -> Ints:
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))


def _same_pads(size: int, extent: int, stride: int, upper: bool) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)


def _output_size(size: int, extent: int, stride: int, pads: tuple[int, int], ceil_mode: bool) -> int:
    span = size + sum(pads) - extent
    if not ceil_mode:
        return span // stride + 1
    count = -(-span // stride) + 1
    # A window that would start in the padding at the end is dropped (ONNX, MaxPool and AveragePool).
    return count - 1 if (count - 1) * stride >= size + pads[0] else count


def window_of(call: Call, kernel: Ints) -> Window:
    """Return the geometry of a call whose first operand is [N, C, *image] and whose attributes fit it."""
    image = call.shape(0)[2:]
    ones = (1,) * len(image)
    strides = call.integers("strides") or ones
    dilations = call.integers("dilations") or ones
    extents = _extents(kernel, dilations)
    auto_pad = call.string("auto_pad")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        axes = zip(image, extents, strides, strict=True)
        pads = [_same_pads(size, extent, step, auto_pad == "SAME_UPPER") for size, extent, step in axes]
    else:
        flat = call.integers("pads") or (0,) * (2 * len(image))
        pads = list(zip(flat[: len(image)], flat[len(image) :], strict=True))
    # With auto_pad the sizes are the same with and without ceil_mode (the formulas of MaxPool 22).
    ceil_mode = auto_pad == "NOTSET" and bool(call.attrs.get("ceil_mode", 0))
    sizes = zip(image, extents, strides, pads, strict=True)
    return Window(
        image=image,
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads_begin=tuple(begin for begin, _ in pads),
        pads_end=tuple(end for _, end in pads),
        output=tuple(_output_size(*axis, ceil_mode) for axis in sizes),
    )


@rule
def lengths_match(call: Call) -> str | None:
    """kernel_shape, strides and dilations must have one entry per spatial axis, pads two"""
    axes = call.tensor(0).rank - 2
    for name, factor in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 2)):
        value = call.integers(name)
        if value is not None and len(value) != factor * axes:
            return f"{name} {list(value)} with an image of {list(call.shape(0)[2:])}"
    return None


@rule
def pads_or_auto_pad(call: Call) -> str | None:
    """pads can only be given when auto_pad is NOTSET"""
    pads = call.integers("pads")
    if call.string("auto_pad") == "NOTSET" or pads is None or not any(pads):
        return None
    return f"pads {list(pads)} with auto_pad {call.string('auto_pad')}"


def window_fits(geometry: Callable[[Call], Window]) -> Rule:
    """Make the rule that every output size is at least 1."""

    def check(call: Call) -> str | None:
        window = geometry(call)
        if all(size >= 1 for size in window.output):
            return None
        pads = zip(window.image, window.pads_begin, window.pads_end, strict=True)
        return f"a window of {list(window.extents)} over an image of {[sum(axis) for axis in pads]}"

    return Rule("The dilated kernel must not be larger than the padded image", check)


def windows_touch_image(geometry: Callable[[Call], Window]) -> Rule:
    """Make the rule that no window is in the padding only: it would have no maximum and no average."""

    def check(call: Call) -> str | None:
        window = geometry(call)
        for axis in range(len(window.image)):
            bare = window.bare(axis)
            if bare is not None:
                return f"output position {bare} of spatial axis {axis}"
        return None

    return Rule("Every window must hold at least one element that is not padding", check)
