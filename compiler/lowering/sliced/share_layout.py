"""The places of a share's elements: in the whole value, and in the share by itself.

A value is compact, or in planes of channels. Rows of an image in planes are one run in each plane, so such a
share has several runs. Within the scratchpad of a tile it is an image of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.dialect.planes import image_bytes, used_bytes
from compiler.evaluation.sizes import always
from compiler.graph import Shape
from tx8isa.numbers.layouts import aligned_channels, full_blocks, tail_width

_MOST_IMAGES = 32
"""Most images in planes that tiles share by rows: each image costs a tile commands of its own."""


@dataclass(frozen=True)
class Runs:
    """``count`` runs of a share, with ``each`` elements for every index of the shared axis.

    The first begins at element ``first + each * begin`` of the value, and at ``own`` of the share; the others
    are ``step`` elements apart in the value, and ``own_step`` in the share.
    """

    first: int
    own: int
    each: int
    count: int
    step: int
    own_step: int


def stored_bytes(tensor: DdrTensor, shape: Shape) -> int:
    """Bytes of a share with a shape, or of all of a value."""
    if not tensor.blocked:
        return math.prod(shape) * tensor.bytes_each
    return shape[0] * image_bytes(math.prod(shape[1:-1]), shape[-1], tensor.fmt.bits)


def stored_elements(tensor: DdrTensor) -> int:
    """Elements of all of a value, with padding lanes, and with gaps between images."""
    if not tensor.blocked:
        return tensor.size
    positions, channels = math.prod(tensor.shape[1:-1]), tensor.shape[-1]
    last = used_bytes(positions, channels, tensor.fmt.bits)
    return (
        (tensor.shape[0] - 1) * _image(tensor, tensor.shape) * tensor.bytes_each + last
    ) // tensor.bytes_each


def is_compact(tensor: DdrTensor) -> bool:
    """True if the elements of a value have no padding between them: one plane of a width that planes have."""
    if not tensor.blocked:
        return True
    channels = tensor.shape[-1]
    one_plane = channels <= BLOCK and channels == aligned_channels(channels, BLOCK)
    return one_plane and (tensor.shape[0] == 1 or not _gap(tensor, tensor.shape))


def has_padding(tensor: DdrTensor) -> bool:
    """True if positions have lanes without a channel."""
    return tensor.blocked and tensor.shape[-1] != aligned_channels(tensor.shape[-1], BLOCK)


def has_gaps(tensor: DdrTensor, shape: Shape) -> bool:
    """True if a value of a shape has bytes between its images that nothing writes.

    DDR may have them, but moves within the scratchpad read them.
    """
    return tensor.blocked and shape[0] > 1 and _gap(tensor, shape) > 0


def _gap(tensor: DdrTensor, shape: Shape) -> int:
    positions, channels, bits = math.prod(shape[1:-1]), shape[-1], tensor.fmt.bits
    return image_bytes(positions, channels, bits) - used_bytes(positions, channels, bits)


def is_possible(tensor: DdrTensor, axis: int, size: int) -> bool:
    """True if parts of ``size`` elements of an axis are some runs of a value.

    In planes they are images, rows of whole images, or whole planes; each of several images has commands of
    its own.
    """
    shape = tensor.shape
    if not tensor.blocked:
        return True
    if axis == 0:
        return _gap(tensor, shape) == 0
    if always(shape[0] > _MOST_IMAGES):
        return False
    if axis == len(shape) - 1:
        return shape[axis] % BLOCK == size % BLOCK == 0
    return math.prod(shape[1:axis]) == 1


def _by_image(tensor: DdrTensor, axis: int, size: int) -> Iterator[list[Runs]]:
    """The runs of a share, which has ``size`` elements of an axis; a list for each image of several.

    The runs of a list follow each other in the share without gaps.
    """
    shape, part = tensor.shape, (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
    inner = math.prod(shape[axis + 1 :])
    if not tensor.blocked:
        yield [Runs(0, 0, inner, math.prod(shape[:axis]), shape[axis] * inner, size * inner)]
        return
    image, own_image = _image(tensor, shape), _image(tensor, part)
    if axis == 0:
        yield [Runs(0, 0, image, 1, 0, 0)]
        return
    for number in range(shape[0]):
        yield _runs_of_image(tensor, axis, part, (number * image, number * own_image))


def _runs_of_image(tensor: DdrTensor, axis: int, part: Shape, firsts: tuple[int, int]) -> list[Runs]:
    shape, (first, own) = tensor.shape, firsts
    positions, own_positions = math.prod(shape[1:-1]), math.prod(part[1:-1])
    if axis == len(shape) - 1:
        return [Runs(first, own, positions, 1, 0, 0)]
    planes, tail = full_blocks(shape[-1], BLOCK), tail_width(shape[-1], BLOCK)
    row, found = math.prod(shape[axis + 1 : -1]), []
    if planes:
        found.append(Runs(first, own, row * BLOCK, planes, positions * BLOCK, own_positions * BLOCK))
    if tail:
        before = planes * BLOCK
        found.append(Runs(first + before * positions, own + before * own_positions, row * tail, 1, 0, 0))
    return found


def all_runs(tensor: DdrTensor, axis: int, size: int) -> Iterator[Runs]:
    """The runs of a share, which has ``size`` elements of an axis."""
    for found in _by_image(tensor, axis, size):
        yield from found


def is_one_run(tensor: DdrTensor, axis: int, size: int) -> bool:
    """True if a part is a single run of the value, and has the same bytes there as by itself."""
    found = list(all_runs(tensor, axis, size))
    return len(found) == found[0].count == 1


def first_element(tensor: DdrTensor, axis: int, begin: Value) -> Value:
    """The element of the value at which a part that is one run begins."""
    runs = next(all_runs(tensor, axis, 1 if axis < len(tensor.shape) - 1 else BLOCK))
    return begin * runs.each


def _image(tensor: DdrTensor, shape: Shape) -> int:
    """Elements from one image in planes to the next."""
    return image_bytes(math.prod(shape[1:-1]), shape[-1], tensor.fmt.bits) // tensor.bytes_each
