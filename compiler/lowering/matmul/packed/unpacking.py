"""Packed weights become floats in the scratchpad, on the vector engine."""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import BLOCK
from tx8isa.numbers.layouts import LINE_BYTES

from .chunk import PackedChunk

_MASK_BITS = 64
"""Bits of a mask, which is repeated for all bytes of a chunk."""


class Unpacker:
    """The masks of all fields, and the code that unpacks a chunk."""

    def __init__(self, kernel: Kernel, chunk: PackedChunk) -> None:
        self.kernel, self.chunk = kernel, chunk
        self.masks: Value = 0
        if chunk.fields > 1:
            self.masks = kernel.buffer("masks", chunk.fields * LINE_BYTES)
            for field in range(chunk.fields):
                byte = ((1 << chunk.bits) - 1) << (field * chunk.bits)
                mask = self.masks + field * LINE_BYTES
                kernel.emit("td.memset.int32", dst=mask, value=byte * 0x01010101, n=_MASK_BITS // 32)

    def unpack(self, packed: Value, target: Value) -> None:
        """Elements of a chunk at ``target``, each its weight times a power of two (``packed_chunks``)."""
        for field in range(self.chunk.fields):
            place = target + field * self.chunk.packed * self.chunk.each
            self._convert(packed, field, place)
            if self.chunk.has_zeros:
                self._per_group("sub", place, packed + self.chunk.zeros(field))
            self._per_group("mul", place, packed + self.chunk.scales(field))

    def _convert(self, packed: Value, field: int, place: Value) -> None:
        """The numbers of a field as floats, times the value of the field's lowest bit."""
        kernel, chunk = self.kernel, self.chunk
        source, more = packed, 0
        if chunk.fields > 1:
            source = kernel.buffer("field", chunk.packed)
            mask = self.masks + field * LINE_BYTES
            count = 8 * chunk.packed
            kernel.emit("ct.and.bv.bvubv", dst=source, src0=packed, src1=mask, n=count, unit=_MASK_BITS)
        if field < chunk.fields - 1:
            more = 1 << (chunk.bits - 1 + field * chunk.bits)
        mnemonic = f"ct.cvt.int8.{chunk.fmt.token}"
        kernel.emit(mnemonic, dst=place, src0=source, n=chunk.packed, zero=more)

    def _per_group(self, name: str, place: Value, vectors: Value) -> None:
        """place = place name vectors: the columns of a group of rows have one value each."""
        chunk = self.chunk
        self.kernel.emit(
            f"ct.{name}.vuv_loop.{chunk.fmt.token}",
            dst=place,
            src0=place,
            src1=vectors,
            n=chunk.group * BLOCK,
            unit=BLOCK,
            full=chunk.packed,
            full_unit=chunk.groups * BLOCK,
        )
