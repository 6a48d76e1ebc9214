"""Puts the constants of a twin into a given image, so that a proof executes the image's own code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asm.image import Buffer, Image
from asm.image.types import Segment
from compiler.graph import GraphError

_OTHER = "it was made from another graph or with other options"
"""The reason why an image is no program of the graph."""


def grafted(image: Image, program: Image, twin: Image) -> Image:
    """Return an image with the twin's constants; ``program`` is the compiler's version of the image.

    Bytes that the twin does not change stay those of the image, even if they differ from the program's.
    GraphError for an image with other inputs, outputs or sections than the program, and for one whose
    constants or factors are not those of the graph.
    """
    if (found := _interface(image)) != (wanted := _interface(program)):
        raise GraphError([f"the image has {', '.join(found)}; the graph's program has {', '.join(wanted)}"])
    sections, own = ([each.section for each in one.segments] for one in (image, program))
    if sections != own or own != [each.section for each in twin.segments]:
        raise GraphError([f"the image has other sections than the graph's program: {_OTHER}"])
    triples = zip(image.segments, program.segments, twin.segments, strict=True)
    return replace(image, segments=tuple(_grafted(*triple) for triple in triples))


def _interface(image: Image) -> list[str]:
    """The inputs and outputs of an image, as text."""
    return [_described(buffer) for buffer in image.buffers if buffer.kind != "constant"]


def _described(buffer: Buffer) -> str:
    return f"{buffer.kind} {buffer.name} {buffer.format} {'x'.join(map(str, buffer.shape)) or 'scalar'}"


def _grafted(image: Segment, program: Segment, twin: Segment) -> Segment:
    """Return a segment of the image with the bytes that the twin changes."""
    given, before, after = (np.frombuffer(bytes(each.data), np.uint8) for each in (image, program, twin))
    if before.shape == after.shape and (before == after).all():
        return image
    of = f"section {image.section} of the image has"
    if not given.shape == before.shape == after.shape:
        raise GraphError([f"{of} {given.size:,} bytes, the graph's program {before.size:,}: {_OTHER}"])
    changed = before != after
    if (differing := changed & (given != before)).any():
        bytes_ = f"{differing.sum():,} other bytes than the graph's program"
        raise GraphError([f"{of} {bytes_}, from 0x{image.address + differing.argmax():x} on: {_OTHER}"])
    return replace(image, data=np.where(changed, after, given).tobytes())
