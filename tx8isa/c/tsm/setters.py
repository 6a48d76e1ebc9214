"""Members that fill a part of a packet, for the matrix engine and for loads and stores.

Several calls make one instruction. Names and parameters of published members are the vendor's (spec).
"""

from __future__ import annotations

from collections.abc import Iterator

from tx8isa.records.record import Engine
from tx8isa.table.packets import PACKETS

from .members import Member, parameters

_NE = PACKETS[Engine.NE]
_TYPE = ("inter_type", "TSM_TYPE(instr, TX8_ENGINE_NE)")
_QUANT = (("quant_q0", "q0"), ("quant_q1", "q1"))


def _setter(name: str, text: str, *fills: tuple[str, str], published: bool = True) -> Member:
    return Member(name, _NE, parameters(text), (_TYPE, *fills), published)


def _shared(address: str) -> Iterator[Member]:
    """Setters common to products and convolutions; ``address``: the vendor's name for a scale's address."""
    for side in ("Negative", "Positive"):
        field = f"scale_{side[0].lower()}"
        # The positive and the negative scale share the bit, so a setter without a scale leaves it.
        enabled = ("scale_en", "instr->scale_en | (scale_en != 0)")
        text = f"uint8_t scale_en, uint64_t {address}"
        yield _setter(f"Set{side}AxisScale", text, (field, f"(uint32_t){address}"), enabled)
    psum = (("inpsum_en", "psum_en != 0"), ("psum", "(uint32_t)psum_addr"), ("inpsum_format", "(uint8_t)fmt"))
    yield _setter("SetPsum", "uint8_t psum_en, uint64_t psum_addr, Data_Format fmt", *psum)
    yield _setter("EnableRelu", "", ("relu_en", "1"), ("lrelu_en", "0"))
    yield _setter("EnableLeakyRelu", "", ("lrelu_en", "1"), ("relu_en", "0"))
    yield _setter("DisableRelu", "", ("relu_en", "0"), published=False)
    yield _setter("DisableLeakyRelu", "", ("lrelu_en", "0"), published=False)


def products() -> Iterator[Member]:
    """``TsmGemm``."""
    left = (("src_a", "(uint32_t)L_addr"), ("src_w", "(uint32_t)R_addr"), ("input_format", "(uint8_t)in_fmt"))
    operands = "uint64_t L_addr, uint64_t R_addr, Data_Format in_fmt"
    yield _setter("AddInput", operands, ("type", "TX8_NE_GEMM"), *left)
    extents = tuple((f"gemm_{letter.lower()}", f"(uint16_t){letter}") for letter in "MKN")
    yield _setter("ConfigMKN", "uint32_t M, uint32_t K, uint32_t N", *extents)
    batches = (("gemm_lb", "(uint16_t)Left_batch"), ("gemm_rb", "(uint16_t)Right_batch"))
    yield _setter("ConfigBatch", "uint32_t Left_batch, uint32_t Right_batch", *batches)
    result = (("out", "(uint32_t)Out_addr"), ("output_format", "(uint8_t)Out_fmt"))
    yield _setter("AddOutput", "uint64_t Out_addr, Data_Format Out_fmt", *result)
    flags = (("gemm_l_trs", "L_trans"), ("gemm_r_trs", "R_trans"))
    yield _setter("SetTransflag", "uint8_t L_trans, uint8_t R_trans", *flags)
    zeros = (("quant_zp_pre", "zp_left"), ("quant_reserved", "zp_right"))
    text = "uint8_t q0, uint8_t q1, uint8_t zp_left, uint8_t zp_right"
    yield _setter("SetQuant", text, *_QUANT, *zeros, published=False)
    bias = (("bias_en", "bias_en != 0"), ("bias", "(uint32_t)addr"))
    yield _setter("AddBias", "uint8_t bias_en, uint64_t addr", *bias)
    yield from _shared("addr")


def convolutions(depthwise: bool) -> Iterator[Member]:
    """``TsmConv``, and ``TsmDepthwiseConv``, whose input makes the convolution a depthwise one."""

    def setter(name: str, text: str, *fills: tuple[str, str], published: bool = True) -> Member:
        return _setter(name, text, *fills, published=published and not depthwise)

    kind = (("type", "TX8_NE_DWCONV"),) if depthwise else ()
    image = (("src_a", "(uint32_t)X_addr"), ("tfr_0", "tsm_shape(shape)"), ("input_format", "(uint8_t)fmt"))
    yield setter("AddInput", "uint64_t X_addr, Data_Shape shape, Data_Format fmt", *kind, *image)
    # The packet has no field for the weights' shape and format; window and input imply them.
    weights = ("src_w", "(uint32_t)W_addr")
    yield setter("AddWeight", "uint64_t W_addr, Data_Shape shape, Data_Format fmt", weights)
    bias = (("bias_en", "bias_en != 0"), ("bias", "(uint32_t)bias_addr"))
    yield setter("AddBias", "uint8_t bias_en, uint64_t bias_addr", *bias)
    result = (("out", "(uint32_t)Out_addr"), ("tfr_1", "tsm_shape(shape)"), ("output_format", "(uint8_t)fmt"))
    yield setter("AddOutput", "uint64_t Out_addr, Data_Shape shape, Data_Format fmt", *result)
    yield setter("SetOpType", "uint8_t type", ("type", "type"))
    sparse = (("sparse_en", "sparse_en != 0"), ("sparse_index", "(uint32_t)sparse_addr"))
    yield setter("SetSparse", "uint8_t sparse_en, uint64_t sparse_addr", *sparse)
    for name, field in (("SetPads", "pdr"), ("SetUnPads", "unpdr")):
        text = "uint32_t top, uint32_t bottom, uint32_t left, uint32_t right"
        yield setter(name, text, (field, "tsm_lanes(top, bottom, left, right)"))
    window = ("swr", "tsm_lanes(Kx, Ky, Sx, Sy)")
    yield setter("SetKernelStrides", "uint32_t Kx, uint32_t Ky, uint32_t Sx, uint32_t Sy", window)
    dilation = ("dilation", "tsm_lanes(0, 0, d0, d1)")
    yield setter("SetDilations", "uint32_t d0, uint32_t d1", dilation, ("dilation_conv", "1"))
    zeros = (("quant_zp_pre", "zp_in"), ("quant_zp_cur", "zp_out"))
    text = "uint8_t q0, uint8_t q1, uint8_t zp_in, uint8_t zp_out"
    yield setter("SetQuant", text, *_QUANT, *zeros, published=False)
    for shared in _shared("scale_addr"):
        published = shared.published and not depthwise
        yield Member(shared.name, _NE, shared.parameters, shared.fills, published)


def transfers(engine: Engine) -> Iterator[Member]:
    """``TsmRdma`` and ``TsmWdma``: they take strides in elements and plain trip counts (spec: the vendor's
    callers); the packet holds strides in bytes and trips minus 1."""
    packet = PACKETS[engine]
    kind = ("inter_type", f"TSM_TYPE(instr, TX8_ENGINE_{engine.name})")
    ends = (("src", "src"), ("dst", "dst"))
    nest = (
        fill
        for level in range(3)
        for fill in (
            (f"stride{level}", f"tsm_bytes(instr->format, stride{level})"),
            (f"iteration{level}", f"iteration{level} - 1"),
        )
    )
    still = ((f"{word}{level}", "0") for level in range(3) for word in ("stride", "iteration"))
    loops = (f"uint32_t stride{level}, uint32_t iteration{level}" for level in range(3))
    count = ("elem_count", "elem_count")

    def transfer(name: str, text: str, *fills: tuple[str, str]) -> Member:
        return Member(name, packet, parameters(text), (kind, *fills), published=True)

    text = "uint64_t src, uint64_t dst, Data_Format fmt"
    yield transfer("AddSrcDst", text, *ends, ("format", "(uint8_t)fmt"))
    yield transfer("ConfigStrideIteration", ", ".join(["uint32_t elem_count", *loops]), count, *nest)
    text = "uint64_t src, uint64_t dst, uint32_t elem_count, uint32_t format"
    name = f"{engine.name.capitalize()}1d"
    yield transfer(name, text, *ends, ("format", "(uint8_t)format"), count, *still)
