"""Moves of blocks in the field: loads, stores, loop nests, fills, gathers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Compress, Fill, Gather, Load, Nest, Store

from .memory import Places, move
from .step import FieldStep, NotFollowed


def nest(values: Mapping[str, int], prefix: str, base: int, bits: int = 8) -> Places:
    """Return the first bytes of the blocks of a loop nest, level 0 innermost; ``bits``: unit of strides."""
    trips = [np.arange(values[f"{prefix}iter{level}"]) for level in range(3)]
    strides = [values[f"{prefix}stride{level}"] * bits // 8 for level in range(3)]
    inner = trips[0] * strides[0]
    middle = (trips[1] * strides[1]).reshape(-1, 1)
    outer = (trips[2] * strides[2]).reshape(-1, 1, 1)
    return base + (outer + middle + inner).ravel()


def gather_scatter(step: FieldStep) -> None:
    values = step.values
    sources, targets = nest(values, "src_", values["src0"]), nest(values, "dst_", values["dst"])
    move(step.spm, sources, step.spm, targets, values["n"])


def fill(step: FieldStep) -> None:
    """Fill with a number: an element of its intended value if the format rounds it, else a literal."""
    values = step.values
    blocks = nest(values, "", values["dst"])
    if step.form in (Format.FP16, Format.BF16, Format.FP32):
        number = step.scalar("value")
        exact = step.field.of_patterns(np.array([values["value"] & (1 << step.form.bits) - 1]), step.form)
        if (step.field.canonical(number) != step.field.canonical(exact)).any():
            places = (blocks.reshape(-1, 1) + np.arange(values["n"]) * step.size).ravel()
            step.write(places, np.broadcast_to(number, (number.shape[0], places.size)))
            return
    for first in blocks.tolist():
        step.spm.clear(first, values["n"] * step.size)


def transfer(step: FieldStep) -> None:
    values, bits = step.values, step.form.bits
    loads = isinstance(step.meaning, Load)
    block = -(-bits * values["n"] // 8)
    far = nest(values, "", values["src" if loads else "dst"], bits)
    near = values["dst" if loads else "src"] + np.arange(far.size) * block
    if loads:
        move(step.ddr, far, step.spm, near, block)
    else:
        move(step.spm, near, step.ddr, far, block)


def gather(step: FieldStep) -> None:
    meaning, count = step.meaning, step.values["n"]
    size = (meaning.bits or step.form.bits) // 8
    places = step.vector("src1", count, size)
    if not step.literal(places):
        look_up(step, places)
        return
    index = np.zeros(count, np.int64)
    for byte in range(size):
        index |= step.spm.data[places + byte].astype(np.int64) << 8 * byte
    sources = step.values["src0"] + (index if meaning.in_bytes else index * size)
    sources = np.minimum(sources, step.spm.data.size - size)
    step.spm.move(sources, step.vector("dst", count, size), size)


def look_up(step: FieldStep, places: Places) -> None:
    """Apply the function whose table is read at numbers, which are the offsets of its words.

    Entries for NaN and infinities, which no number needs, do not count.
    """
    meaning, first, count = step.meaning, step.values["src0"], step.values.get("entries", 0)
    fmt = Format.FP16
    if meaning.in_bytes and meaning.bits == fmt.bits and count:
        words = first + np.arange(count * (fmt.bits // 8))
        table = step.spm.data[words].view(np.float16) + np.float16(0)  # no zero is negative
        table[~np.isfinite(np.arange(0, 2 * count, 2).astype(np.uint16).view(np.float16))] = 0
        function = step.functions.get(table.tobytes())
        are_words = not (step.spm.data[places] & 1).any()
        if function is not None and are_words and step.literal(words):
            step.write(step.vector("dst", places.size, fmt.bits // 8), function(step.read(places, fmt)), fmt)
            return
    raise NotFollowed("a gather by indices that are elements")


def compress(step: FieldStep) -> None:
    count = step.values["n"]
    first = step.values["src1"]
    bits = np.unpackbits(step.spm.data[first : first + -(-count // 8)], bitorder="little")[:count]
    sources = step.vector("src0", count)[bits.astype(bool)]
    step.spm.move(sources, step.vector("dst", sources.size), step.size)


RULES: dict[type, Callable[[FieldStep], None]] = {
    Nest: gather_scatter,
    Fill: fill,
    Load: transfer,
    Store: transfer,
    Gather: gather,
    Compress: compress,
}
