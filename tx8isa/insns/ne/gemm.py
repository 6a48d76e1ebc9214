"""The matrix engine: GEMM (docs/isa.md, GEMM)."""

from __future__ import annotations

from tx8isa.families.aligned import matrices
from tx8isa.families.matrix import INPUTS, apart, formats, post_rules, shifts, switches, vectors, zero_point
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT, LARGEST_ROWS
from tx8isa.records.meaning import Matrix
from tx8isa.records.operands import control, count, rule, spm
from tx8isa.records.record import Engine, Instruction, register


def _left(bits: int, m: int, k: int, batch: int, transposed: int) -> int:
    """A is stored [M, K], transposed [K, M]."""
    return matrices(bits, batch, k, m) if transposed else matrices(bits, batch, m, k)


def _right(bits: int, k: int, n: int, batch: int, transposed: int) -> int:
    """B is stored [N, K], with rt = 1 [K, N]: the flag is inverted with respect to the left one."""
    return matrices(bits, batch, k, n) if transposed else matrices(bits, batch, n, k)


def _result(bits: int, m: int, n: int, left: int, right: int) -> int:
    return matrices(bits, max(left, right), m, n)


def _partial(bits: int, m: int, n: int, left: int, right: int, used: int) -> int:
    return _result(bits, m, n, left, right) if used else 0


@rule("lb", "rb")
def _batches(lb: int, rb: int) -> bool:
    """lb and rb must be equal, or one of them 1"""
    return lb == rb or lb == 1 or rb == 1


@rule("out", "psum", "inpsum_en", "@out_format", "@psum_format", "m", "n", "lb", "rb")
def _in_place(
    out: int, psum: int, used: int, bits: int, psum_bits: int, m: int, n: int, lb: int, rb: int
) -> bool:
    """psum must be at out with elements as wide, or apart from it"""
    sizes = _result(bits, m, n, lb, rb), _result(psum_bits, m, n, lb, rb)
    return not used or apart(out, psum, sizes[0], sizes[1], bits == psum_bits)


register(
    Instruction(
        Engine.NE,
        3,
        "ne.gemm",
        (
            *formats(INPUTS),
            *switches(),
            control("lt", "gemm_l_trs", 24, 1, 1),
            control("rt", "gemm_r_trs", 25, 1, 1),
            spm("a", "src_a", "read", _left, "@format", "m", "k", "lb", "lt"),
            spm("b", "src_w", "read", _right, "@format", "k", "n", "rb", "rt"),
            spm("out", "out", "write", _result, "@out_format", "m", "n", "lb", "rb"),
            spm(
                "psum",
                "psum",
                "read",
                _partial,
                "@psum_format",
                "m",
                "n",
                "lb",
                "rb",
                "inpsum_en",
                switched_by="inpsum_en",
            ),
            count("m", "gemm_m", 1, LARGEST_ROWS),
            count("k", "gemm_k", 1, LARGEST_CHANNELS),
            count("n", "gemm_n", 1, LARGEST_CHANNELS),
            count("lb", "gemm_lb", 1, LARGEST_EXTENT, default=1),
            count("rb", "gemm_rb", 1, LARGEST_EXTENT, default=1),
            *vectors("n"),
            zero_point("zp_a", "quant_zp_pre"),
            zero_point("zp_b", "quant_reserved"),
            *shifts(),
        ),
        INPUTS,
        Matrix(),
        "out[b] = A[b mod lb] x B[b mod rb] (+ psum[b]), FP32 fused multiply-add in ascending "
        "k, one rounding to "
        "out_format. All matrices are aligned; A is [M,K] (lt=1: [K,M]), B is [N,K] (rt=1: "
        "[K,N]); padding lanes "
        "of inputs are ignored, of the result zero. Bias, scales and activation as in post-processing; "
        "INT8 inputs take the INT8 chain.",
        "ne.gemm.bf16 a=0x10000, b=0x40000, out=0x80000, m=128, k=256, n=128, rt=1",
        "spec and board; order of accumulation, number of batches, post-processing and INT8 details proposed",
        (_batches, _in_place, *post_rules("zp_a", "zp_b")),
    ),
    __name__,
)
