"""CT pooling of an aligned NHWC tensor, opcodes 115..120 (docs/isa.md, Pooling)."""

from __future__ import annotations

from tx8isa.families.aligned import tensor
from tx8isa.families.fold import MAXIMUM, MEAN, MINIMUM, SUM
from tx8isa.families.windows import columns, rows, same_planes
from tx8isa.numbers.formats import FLOATS
from tx8isa.records.meaning import Pool, Reduction
from tx8isa.records.operands import format_suffix, pads, rule, shape, spm, window
from tx8isa.records.record import Engine, Instruction, register

_SOURCE = tuple(f"shape.{lane}" for lane in "nhwc")
_RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")


@rule("dst", "dst1", "@format", *_RESULT)
def _two_results(dst: int, dst1: int, bits: int, n: int, h: int, w: int, c: int) -> bool:
    """dst and dst1 must not overlap"""
    size = tensor(bits, n, h, w, c)
    return dst1 >= dst + size or dst >= dst1 + size


def _record(opcode: int, name: str, fold: Reduction, outside: bool, text: str, evidence: str) -> None:
    indexed = name.endswith("_idx")
    result = spm("dst", "dst0", "write", tensor, "@format", *_RESULT)
    indices = spm("dst1", "dst1", "write", tensor, "@format", *_RESULT)
    operands = (
        format_suffix(FLOATS),
        *((result, indices) if indexed else (result,)),
        spm("src0", "src0", "read", tensor, "@format", *_SOURCE),
        shape("shape", "src0_tfr"),
        shape("dst_shape", "dst_tfr"),
        pads("pad", "pdr"),
        window(),
    )
    register(
        Instruction(
            Engine.CT,
            opcode,
            f"ct.pool.{name}",
            operands,
            FLOATS,
            Pool(fold, outside, indexed),
            f"{text} per channel over windows of an aligned NHWC tensor; padding lanes of the "
            f"result are zero.",
            f"ct.pool.{name}.fp16 dst=0x30000, {'dst1=0x40000, ' if indexed else ''}src0=0x10000, "
            "shape=[1,4,4,64], dst_shape=[1,2,2,64], window=[2,2,2,2]",
            evidence,
            (same_planes, rows, columns, *((_two_results,) if indexed else ())),
        ),
        __name__,
    )


_EVIDENCE = "spec; positions outside the input observed or proposed"
_INDEX_EVIDENCE = "spec; max of 2x2 windows exact on the board; ties, NaN and positions outside proposed"
_IGNORED = "positions outside the input ignored,"
_INDEX = (
    f"{_IGNORED} to dst and its place ky*Kx+kx in the window, an integer as wide as the data, to dst1, the "
    "first of equal ones, 0 when there is no number,"
)
_record(115, "avg", MEAN, True, "Mean over Kx*Ky positions, those outside the input as zeros,", _EVIDENCE)
_record(116, "sum", SUM, True, "Sum, accumulated in FP32 in scan order,", _EVIDENCE)
_record(117, "max", MAXIMUM, False, f"Maximum, {_IGNORED}", _EVIDENCE)
_record(118, "max_idx", MAXIMUM, False, f"Maximum, {_INDEX}", _INDEX_EVIDENCE)
_record(119, "min", MINIMUM, False, f"Minimum, {_IGNORED}", _EVIDENCE)
_record(120, "min_idx", MINIMUM, False, f"Minimum, {_INDEX}", _INDEX_EVIDENCE)
