"""Look-up tables for steps that end in bytes: steps and quantisation in one access.

Bytes are coarser than the numbers that they are made of, so a function of one number needs no more than the
upper 15 bits of that number in FP16. These are the offset of a word in a table, whose entries are the bytes,
as FP16 numbers. Two neighbouring numbers, at most a thousandth apart, share an entry: the byte of their
middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned, slice_buffer
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import convert
from compiler.graph import Array
from compiler.lowering.pointwise.record import POINTWISE, known_number
from compiler.lowering.record import Step
from compiler.operators import OPERATORS
from tx8isa.numbers.formats import Format

from .layers import ProductLayer, ResultBytes

_ENTRIES = 1 << 15
_WORD_BITS = 16
_MASK = 0xFFFE
_MASK_WORDS = 128
"""Words with the mask, a line of them; the engine repeats the first four."""
_REPEATED_BITS = 64


@dataclass(frozen=True)
class ByteTable:
    """Addresses of a table and of its mask in the scratchpad."""

    entries: Value
    mask: Value


def is_looked_up(layer: ProductLayer) -> bool:
    """True if the steps of a product and the quantisation of their result are one function of its sums."""
    operands = (tensor for step in layer.steps for tensor in step.operands)
    alone = all(tensor is None or known_number(tensor) is not None for tensor in operands)
    long = any(POINTWISE[step.op].long for step in layer.steps)
    return layer.quantised is not None and not layer.residuals and alone and long


def load_table(kernel: Kernel, layer: ProductLayer) -> ByteTable:
    """Start to load the table of a product."""
    how, size = layer.quantised, _ENTRIES + _MASK_WORDS
    assert how is not None

    def words() -> Array:
        mask = np.full(_MASK_WORDS, _MASK, np.uint16).view(np.float16)
        return np.concatenate([_entries(layer.steps, how), mask])

    symbol = kernel.lazy_constant("table", Format.FP16, size, words).symbol
    base = kernel.buffer("table", 2 * size)
    kernel.emit("rdma.fp16", dst=base, src=DdrTensor(symbol, Format.FP16, (size,)).at(0), n=size)
    return ByteTable(base, base + 2 * _ENTRIES)


def _entries(steps: Sequence[Step], how: ResultBytes) -> Array:
    """The bytes, as FP16 numbers, for all pairs of neighbouring FP16 numbers."""
    pairs = np.arange(2 * _ENTRIES, dtype=np.uint16).view(np.float16).reshape(-1, 2).astype(np.float64)
    with np.errstate(all="ignore"):
        values: Array = np.where(np.isfinite(pairs[:, 0]), pairs.mean(axis=1), pairs[:, 0])
        for step in steps:
            values = _applied(step, values)
        whole = np.rint(values / how.scale) + how.zero
    return np.clip(np.nan_to_num(whole, nan=how.zero, posinf=127, neginf=-128), -128, 127).astype(np.float16)


def _applied(step: Step, values: Array) -> Array:
    """The results of a step."""
    inputs = tuple(None if t is None else replace(t, shape=values.shape) for t in step.call.inputs)
    operands: list[Array | None] = []
    for at, tensor in enumerate(step.call.inputs):
        given = step.operands[at] if at < len(step.operands) else None
        known = None if given is None else np.full(values.shape, known_number(given))
        operands.append(None if tensor is None else values if at in step.running else known)
    return OPERATORS[step.op].reference(replace(step.call, inputs=inputs), *operands)[0]


def looked_up(kernel: Kernel, data: Aligned, table: ByteTable) -> Aligned:
    """The bytes for an FP32 slice."""
    index, found = (
        slice_buffer(kernel, name, Format.FP16, data.grid, data.channels) for name in ("index", "found")
    )
    convert(kernel, index.base, data.base, data.elements, Format.FP32, Format.FP16)
    kernel.emit(
        "ct.and.bv.bvubv",
        dst=index.base,
        src0=index.base,
        src1=table.mask,
        n=data.elements * _WORD_BITS,
        unit=_REPEATED_BITS,
    )
    kernel.emit(
        "ct.lut16", dst=found.base, src0=table.entries, src1=index.base, n=data.elements, entries=_ENTRIES
    )
    target = slice_buffer(kernel, "bytes", Format.INT8, data.grid, data.channels)
    convert(kernel, target.base, found.base, data.elements, Format.FP16, Format.INT8)
    return target
