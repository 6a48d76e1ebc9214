"""Finds the dynamic sizes of a run from its inputs, and writes them to the shape block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asm.image import SUM, Buffer, Dimension, Image, Shapes, ddr_offset
from tx8isa.errors import Tx8Error

from .areas import Bytes
from .buffers import Array, check_array, packed, unpacked
from .resetting import Area

WORD = 8
"""Bytes of a size in the shape block."""

Sizes = Mapping[str, int]
"""The size of each dimension of a program in one run, by name."""


class SizeError(Tx8Error):
    """A size outside of the range that a program declares, or sizes of inputs that disagree."""


def extents_of(shapes: Shapes | None, buffer: Buffer) -> tuple[str, ...]:
    """Return the extents of an input or output as the program declares them."""
    found = shapes.extents.get((buffer.kind, buffer.name)) if shapes is not None else None
    return found if found is not None else tuple(map(str, buffer.shape))


def extents_that_stay(shapes: Shapes | None, buffer: Buffer) -> tuple[str, ...]:
    """Return the extents except along the axis on which a state grows."""
    extents = list(extents_of(shapes, buffer))
    axis = None if shapes is None else shapes.room.get((buffer.kind, buffer.name))
    if axis is not None:
        extents[axis] = ""
    return tuple(extents)


def known_sizes(
    shapes: Shapes, buffers: Iterable[Buffer], arrays: Mapping[str, Any], lengths: Sizes | None = None
) -> dict[str, int]:
    """Return the sizes from the arrays of inputs; ``lengths`` are the sizes from states.

    SizeError for a size out of range, for two arrays that disagree, and for a wrong number of axes.
    """
    ranges = {each.name: each for each in shapes.dimensions}
    found: dict[str, tuple[int, str]] = {}
    sums: list[tuple[str, int, str]] = []
    for buffer in buffers:
        if (buffer.kind, buffer.name) not in shapes.extents or buffer.name not in arrays:
            continue
        extents, shape = extents_of(shapes, buffer), np.shape(arrays[buffer.name])
        if len(extents) != len(shape):
            found_axes = " x ".join(map(str, shape)) or "scalar"
            raise SizeError(f"input '{buffer.name}' is {found_axes}, expected {' x '.join(extents)}")
        for extent, size in zip(extents, shape, strict=False):
            if SUM in extent and extent not in ranges:
                sums.append((extent, size, buffer.name))
            if extent not in ranges:
                continue
            _check_range(ranges[extent], size, f"input '{buffer.name}'")
            before, name = found.setdefault(extent, (size, buffer.name))
            if before != size:
                where = f"in input '{name}' and {size} in input '{buffer.name}'"
                raise SizeError(f"{extent} is {before} {where}; it must be the same")
    sizes = {**(lengths or {}), **{name: size for name, (size, _) in found.items()}}
    _check_sums(sums, sizes)
    return sizes


def _check_range(allowed: Dimension, size: int, what: str) -> None:
    if not allowed.least <= size <= allowed.most:
        limits = f"allowed are {allowed.least} to {allowed.most}"
        raise SizeError(f"{what}: {allowed.name} is {size}; {limits}")


def _check_sums(sums: Iterable[tuple[str, int, str]], sizes: Sizes) -> None:
    """Raise SizeError for an axis of an input that differs from its sum of dimensions."""
    for text, size, name in sums:
        parts = text.split(SUM)
        if all(part in sizes or part.isdigit() for part in parts) and _extent(text, sizes, ()) != size:
            wanted = SUM.join(str(sizes.get(part, part)) for part in parts)
            raise SizeError(f"input '{name}': {text} is {size}; expected {wanted}")


def check_length(shapes: Shapes, state: str, dimension: str, length: int) -> None:
    """Raise SizeError unless a step may begin with a state of this length."""
    allowed = next(each for each in shapes.dimensions if each.name == dimension)
    _check_range(allowed, length, f"state '{state}'")


def packed_array(shapes: Shapes | None, buffer: Buffer, sizes: Sizes, array: Array) -> Bytes:
    """Return the bytes of DDR for an array of given sizes; InputError when it does not fit."""
    fitting = sized(shapes, buffer, sizes)
    if shapes is None or (buffer.kind, buffer.name) not in shapes.room:
        return packed(fitting, array)
    check_array(fitting, array)
    return packed(buffer, in_room(buffer, array))


def in_room(buffer: Buffer, array: Array) -> Array:
    """Pad an array with zeros to the largest size of its buffer."""
    whole = np.zeros(buffer.shape, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


def unpacked_array(shapes: Shapes | None, buffer: Buffer, shape: Sequence[int], data: Bytes) -> Array:
    """Convert the bytes of a buffer, which has its largest shape, to an array of a given shape."""
    if shapes is None or (buffer.kind, buffer.name) not in shapes.room:
        same = tuple(shape) == buffer.shape
        return unpacked(buffer if same else replace(buffer, shape=tuple(shape)), data)
    return np.ascontiguousarray(unpacked(buffer, data)[tuple(map(slice, shape))])


def usual_sizes(shapes: Shapes | None) -> dict[str, int]:
    """Return the sizes that the program was optimised for."""
    return {each.name: each.usual for each in shapes.dimensions} if shapes is not None else {}


def sized(shapes: Shapes | None, buffer: Buffer, sizes: Sizes, words: Sequence[int] = ()) -> Buffer:
    """Return a buffer with its shape at given sizes; ``words``: the shape block after a run, for outputs."""
    if shapes is None or (buffer.kind, buffer.name) not in shapes.extents:
        return buffer
    return replace(buffer, shape=tuple(_extent(each, sizes, words) for each in extents_of(shapes, buffer)))


def _extent(extent: str, sizes: Sizes, words: Sequence[int]) -> int:
    if extent in sizes:
        return sizes[extent]
    if SUM in extent:
        return sum(_extent(part, sizes, words) for part in extent.split(SUM))
    return int(words[int(extent[1:])]) if extent.startswith("@") else int(extent)


def block_range(image: Image, words: int | None = None) -> range:
    """Return the range in DDR of the first ``words`` words of the shape block, or of all."""
    assert image.shapes is not None
    offset = ddr_offset(image.shapes.address, image.windows)
    assert offset is not None  # the addresses were checked when the image was read
    return range(offset, offset + (_word_count(image.shapes) if words is None else words) * WORD)


def _word_count(shapes: Shapes) -> int:
    written = [int(e[1:]) for extents in shapes.extents.values() for e in extents if e.startswith("@")]
    return max([len(shapes.dimensions), *(word + 1 for word in written)])


def fitting(shapes: Shapes, buffer: Buffer, array: Array) -> Buffer:
    """Return an input with the shape of an array, if the sizes are in range; otherwise SizeError.

    Sums of dimensions are checked by ``known_sizes``, which has the other inputs.
    """
    sizes = usual_sizes(shapes) | known_sizes(shapes, [buffer], {buffer.name: array})
    found = list(sized(shapes, buffer, sizes).shape)
    for axis, extent in enumerate(extents_of(shapes, buffer)):
        if SUM in extent:
            found[axis] = array.shape[axis]
    return replace(buffer, shape=tuple(found))


def place_sizes(image: Image, sizes: Sizes, area: Area) -> None:
    """Write the sizes of a run into the shape block, if the program has one."""
    if image.shapes is not None:
        block = block_range(image, len(sizes))
        words = np.array([sizes[each.name] for each in image.shapes.dimensions], "<i8")
        area.data[block.start : block.stop] = words.view(np.uint8)
        area.mark(block.start, len(block))


def sized_outputs(image: Image, outputs: Sequence[Buffer], area: Area) -> tuple[Buffer, ...]:
    """Return the outputs with their shapes after a run."""
    shapes = image.shapes
    if shapes is None:
        return tuple(outputs)
    block = block_range(image)
    words = [int(word) for word in area.data[block.start : block.stop].view("<i8")]
    sizes = {each.name: word for each, word in zip(shapes.dimensions, words, strict=False)}
    return tuple(sized(shapes, buffer, sizes, words) for buffer in outputs)
