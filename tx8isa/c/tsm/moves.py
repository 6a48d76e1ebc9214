"""Members that encode a whole instruction on tensors: pools, moves, and those of ``TsmPeripheral``."""

from __future__ import annotations

from collections.abc import Iterator

from .members import Member
from .vectors import BINARY, SHAPES, UNARY, joined, member

_FORMAT = "Data_Format fmt"
_RETURNING = "uint64_t src0_addr, uint32_t elem_count, Data_Format fmt"
_COUNTS = "uint32_t src_elem_count, uint32_t lut_elem_count"


def pools() -> Iterator[Member]:
    """``TsmPool``: opcodes 115 to 120."""
    windows = "Data_Shape dst_shape, Data_Shape pad, Data_Shape swr, Data_Format fmt"
    head = "uint64_t src0_addr, Data_Shape src_shape, uint64_t dst_addr"
    for name, mnemonic in (
        ("AvgPool", "avg"),
        ("SumPool", "sum"),
        ("MaxPool", "max"),
        ("IndexdMaxPool", "max_idx"),
        ("MinPool", "min"),
        ("IndexdMinPool", "min_idx"),
    ):
        indices = "uint64_t dst1_addr" if mnemonic.endswith("idx") else ""
        yield member(name, f"ct.pool.{mnemonic}", joined(head, indices, windows), published=False)


def unpools() -> Iterator[Member]:
    """``TsmUnPool``: opcodes 121 to 123."""
    rest = "uint64_t dst_addr, Data_Shape dst_shape, Data_Shape swr, Data_Format fmt"
    for name, mnemonic in (("Unpool", "index"), ("UnpoolAvg", "avg"), ("UnpoolIdx", "mask")):
        indices = "" if mnemonic == "avg" else "uint64_t src1_addr"
        text = joined("uint64_t src0_addr", indices, rest)
        yield member(name, f"ct.unpool.{mnemonic}", text, published=False)


def moves() -> Iterator[Member]:
    """``TsmDataMove``: opcodes 124 to 133, 135 and 138. Concat is of CT, the others of TDMA."""
    plain = joined(SHAPES, _FORMAT)
    for name in ("Mirror", "Transpose", "Rotate90", "Rotate180", "Rotate270", "Nchw2nhwc", "Nhwc2nchw"):
        yield member(name, f"td.{name.lower()}", plain, published=True)
    concat = joined(
        "uint64_t src0_addr, Data_Shape src_shape0, uint64_t src1_addr, Data_Shape src_shape1",
        "uint64_t dst_addr, Data_Shape dst_shape, uint32_t dims, Data_Format fmt",
    )
    yield member("Concat", "ct.concat", concat, published=True)
    yield member("Pad", "td.pad", joined(SHAPES, "Data_Shape pad", _FORMAT), published=True)
    yield member("TensorNom", "td.channelnorm", plain, published=True)
    nests = "uint32_t size, St_StrideIteration *src_si, St_StrideIteration *dst_si"
    text = joined("uint64_t src0_addr, uint64_t dst_addr", nests)
    yield member("GatherScatter", "td.gatherscatter", text, published=True)
    windows = "uint64_t src_elem_num, uint64_t dst_elem_num, Data_Shape swr, Data_Shape pdr"
    yield member("Img2col", "td.img2col", joined(SHAPES, windows, _FORMAT), published=True)


def masked_moves() -> Iterator[Member]:
    """``TsmMaskDataMove``: opcodes 134, 136 and 137."""
    masked = "uint64_t src0_addr, uint32_t mask, uint64_t dst_addr, uint32_t elem_count, Data_Format fmt"
    yield member("MaskMove", "ct.maskmove", masked, published=True)
    gather = joined(BINARY, "uint32_t full_elem_count", _FORMAT)
    yield member("MaskGather", "ct.maskgather.v", gather, published=False)
    yield member("MaskGather_bV", "ct.maskgather.bv", joined(BINARY, _FORMAT), published=False)


def peripherals() -> Iterator[Member]:
    """``TsmPeripheral``: opcodes 175 and 177 to 186. Memset is of TDMA, the others of CT."""
    for name in ("Count", "ArgMax", "ArgMin"):
        yield member(name, f"ct.{name.lower()}", _RETURNING, published=True)
    fill = "uint64_t dst_addr, uint32_t value, uint32_t elem_count, St_StrideIteration *si, Data_Format fmt"
    yield member("Memset", "td.memset", fill, published=True)
    parts = "uint64_t src0_addr, uint64_t dst_addr, uint64_t dst1_addr, uint64_t dst2_addr"
    yield member("Factorize", "ct.factorize", joined(parts, "uint32_t elem_count"), published=False)
    yield member("Bit2Fp", "ct.bit2fp", joined(UNARY, _FORMAT), published=True)
    resize = joined(
        "uint64_t src0_addr, uint64_t dst0_addr, Data_Shape src_shape, Data_Shape dst_shape",
        "int32_t scale_w, int32_t scale_h, Data_Format fmt",
    )
    yield member("Bilinear", "ct.bilinear", resize, published=True)
    for bits in (16, 32):
        table = f"uint64_t src1_addr, uint64_t dst0_addr, uint64_t lut{bits}_addr, {_COUNTS}"
        yield member(f"Lut{bits}", f"ct.lut{bits}", table, published=True)
    seeds = joined(
        "uint64_t src0_addr, uint64_t src1_addr",
        "uint64_t dst_addr, uint64_t dst1_addr, uint64_t dst2_addr",
        "uint32_t src_elem_num, Data_Format fmt",
    )
    yield member("RandGen", "ct.randgen", seeds, published=True)
    dropout = joined(
        "uint64_t src0_addr, uint32_t scale, uint64_t dst_addr, uint32_t elem_count",
        "uint32_t probability, RND_MODE rnd_mode, Data_Format fmt",
    )
    yield member("ElemMask", "ct.elemmask", dropout, published=False)
