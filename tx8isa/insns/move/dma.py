"""RDMA (DDR to SPM) and WDMA (SPM to DDR), three strides on the DDR side (docs/isa.md, Loads and stores).

In text and encoding n and the strides are elements and the trip counts plain; the packet holds byte strides
and trip counts minus 1 (docs/isa.md, Loads and stores: elements at the setter, inferred).
"""

from __future__ import annotations

from tx8isa.families.nest import element_span, element_stream, whole_bytes
from tx8isa.numbers.formats import DMA_FORMATS
from tx8isa.numbers.limits import LARGEST_BLOCK_STRIDE
from tx8isa.records.meaning import Load, Store
from tx8isa.records.operands import count, ddr, format_suffix, spm
from tx8isa.records.record import Engine, Instruction, Operand, register

_LOOPS: tuple[Operand, ...] = tuple(
    operand
    for level in range(3)
    for operand in (
        count(f"stride{level}", f"stride{level}", 0, LARGEST_BLOCK_STRIDE, default=0),
        count(f"iter{level}", f"iteration{level}", 1, default=1),
    )
)
_STRIDED = ("@format", "n", *(o.name for o in _LOOPS))
_COMPACT = ("@format", "n", "iter0", "iter1", "iter2")
_EVIDENCE = "spec; strided side on the board; stride unit inferred"

register(
    Instruction(
        Engine.RDMA,
        0,
        "rdma",
        (
            format_suffix(DMA_FORMATS, "format"),
            spm("dst", "dst", "write", element_stream, *_COMPACT),
            ddr("src", "src", "read", element_span, *_STRIDED),
            count("n", "elem_count"),
            *_LOOPS,
        ),
        DMA_FORMATS,
        Load(),
        "Copy blocks of n elements from DDR, read through three strides, to consecutive SPM bytes.",
        "rdma.fp16 dst=0x10000, src=0x280000000, n=512, stride0=1024, iter0=7",
        _EVIDENCE,
        (whole_bytes,),
    ),
    __name__,
)

register(
    Instruction(
        Engine.WDMA,
        0,
        "wdma",
        (
            format_suffix(DMA_FORMATS, "format"),
            ddr("dst", "dst", "write", element_span, *_STRIDED),
            spm("src", "src", "read", element_stream, *_COMPACT),
            count("n", "elem_count"),
            *_LOOPS,
        ),
        DMA_FORMATS,
        Store(),
        "Copy consecutive SPM bytes to blocks of n elements in DDR, written through three strides.",
        "wdma.fp16 dst=0x280000000, src=0x10000, n=512, stride0=1024, iter0=7",
        _EVIDENCE,
        (whole_bytes,),
    ),
    __name__,
)
