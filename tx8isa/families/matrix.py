"""Code that the matrix engine's records share: formats, partial sums, post-processing, INT8."""

from __future__ import annotations

from dataclasses import replace

from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.records.operands import control, count, flag, format_choice, format_suffix, rule, spm
from tx8isa.records.record import Operand, Rule

from .aligned import tensor

FLOAT_INPUTS = (Format.FP16, Format.BF16, Format.TF32)
INPUTS = (*FLOAT_INPUTS, Format.INT8)
_INT8, _INT32, _FP32 = int(Format.INT8), int(Format.INT32), int(Format.FP32)
"""Codes of formats as integers, because rules are compiled."""
MAX_SHIFT = 31
"""Largest value of q1 and q0 (proposed); the packet's fields have 8 bits."""


def formats(inputs: tuple[Format, ...]) -> tuple[Operand, ...]:
    """Formats of inputs, result and partial sums."""
    results = (*inputs, Format.FP32) + ((Format.INT32,) if Format.INT8 in inputs else ())
    sums = (*FLOATS, *((Format.INT32,) if Format.INT8 in inputs else ()))
    return (
        format_suffix(inputs, "input_format"),
        format_choice("out_format", "output_format", 12, results, "format"),
        format_choice("psum_format", "inpsum_format", 16, sums, int(Format.FP32)),
        flag("inpsum_en", "inpsum_en", 7, hidden=True),
    )


def switches() -> tuple[Operand, ...]:
    """Control bits of the post-processing, at their places in the chip's control register."""
    return (
        flag("bias_en", "bias_en", 3, hidden=True),
        flag("scale_en", "scale_en", 4, hidden=True),
        control("relu", "relu_en", 5, 1, 1),
        control("lrelu", "lrelu_en", 6, 1, 1),
        control("sparse", "sparse_en", 21, 1, 1),
    )


def _vector(bits: int, n: int, used: int) -> int:
    return n * bits >> 3 if used else 0


def _scales(bits: int, fmt: int, n: int, used: int) -> int:
    """Bytes of scales: FP32 numbers, INT16 with INT8 inputs (proposed)."""
    return n * (bits if fmt else 16) >> 3 if used else 0


def vectors(channels: str) -> tuple[Operand, ...]:
    """Operands bias and scales: compact vectors with a number for each result channel."""
    below = spm("scale_n", "scale_n", "read", _scales, 32, "format", channels, "scale_en")
    return (
        spm("bias", "bias", "read", _vector, 32, channels, "bias_en", switched_by="bias_en"),
        spm(
            "scale_p", "scale_p", "read", _scales, 32, "format", channels, "scale_en", switched_by="scale_en"
        ),
        replace(below, default="scale_p"),
    )


def zero_point(name: str, field: str) -> Operand:
    """The packet's 8 bits: two's complement, 255 is -1 (proposed)."""
    return count(name, field, 0, 255, default=0)


def shifts() -> tuple[Operand, ...]:
    """The two right shifts of the INT8 chain."""
    return (
        count("q1", "quant_q1", 0, MAX_SHIFT, default=0),
        count("q0", "quant_q0", 0, MAX_SHIFT, default=0),
    )


# --- rules --------------------------------------------------------------------------------------------------


@rule("format", "out_format")
def float_result(fmt: int, out_format: int) -> bool:
    """out_format must be the input format or fp32"""
    return out_format in (fmt, _FP32)


@rule("format", "out_format")
def result_format(fmt: int, out_format: int) -> bool:
    """out_format must be the input format or fp32; with int8 inputs int8 or int32"""
    return out_format == fmt or out_format == (_INT32 if fmt == _INT8 else _FP32)


@rule("format", "psum_format", "inpsum_en")
def psum_format(fmt: int, psum: int, used: int) -> bool:
    """psum_format must be int32 with int8 inputs, a float format with others"""
    return not used or (psum == _INT32) == (fmt == _INT8)


@rule("relu", "lrelu")
def one_activation(relu: int, lrelu: int) -> bool:
    """relu and lrelu exclude each other"""
    return not (relu and lrelu)


@rule("sparse")
def dense(sparse: int) -> bool:
    """sparse must be 0: nobody has published the format of its index table"""
    return not sparse


@rule("scale_en", "scale_n")
def both_scales(used: int, scale_n: int) -> bool:
    """scale_n needs scale_p"""
    return used == 1 or scale_n == 0


@rule("format", "lrelu")
def float_lrelu(fmt: int, lrelu: int) -> bool:
    """lrelu is for float formats; with int8 inputs scale_p and scale_n are the two slopes"""
    return fmt != _INT8 or not lrelu


def integer_rules(*zero_points: str) -> tuple[Rule, Rule]:
    """Rules of the operands that have a meaning only with INT8 inputs, and of the steps to an INT8 result."""
    names = f"q1, q0, {' and '.join(zero_points)}"

    def only_int8(fmt: int, q1: int, q0: int, first: int, second: int) -> bool:
        return fmt == _INT8 or q1 + q0 + first + second == 0

    only_int8.__doc__ = f"{names} are for int8 inputs"
    return rule("format", "q1", "q0", *zero_points)(only_int8), chain


@rule("format", "out_format", "q1", "q0", "scale_en", "relu")
def chain(fmt: int, out_format: int, q1: int, q0: int, scale: int, relu: int) -> bool:
    """q1, q0, scale_p and relu are steps to an int8 result; out_format=int32 is the sum before them"""
    return fmt != _INT8 or out_format == _INT8 or q1 + q0 + scale + relu == 0


def post_rules(*zero_points: str) -> tuple[Rule, ...]:
    """The rules of records with post-processing and INT8."""
    return (
        float_lrelu,
        result_format,
        psum_format,
        one_activation,
        dense,
        both_scales,
        *integer_rules(*zero_points),
    )


def apart(out: int, psum: int, out_bytes: int, psum_bytes: int, same_width: bool) -> bool:
    """Test that partial sums occupy exactly the bytes of the result, or none of them (proposed)."""
    same = out == psum and same_width
    return same or out + out_bytes <= psum or psum + psum_bytes <= out


# --- images -------------------------------------------------------------------------------------------------


def partial_tensor(bits: int, n: int, h: int, w: int, c: int, used: int) -> int:
    """Bytes of the partial sums of an aligned NHWC result."""
    return tensor(bits, n, h, w, c) if used else 0


RESULT = tuple(f"dst_shape.{lane}" for lane in "nhwc")


@rule("out", "psum", "inpsum_en", "@out_format", "@psum_format", *RESULT)
def tensor_in_place(
    out: int, psum: int, used: int, bits: int, psum_bits: int, n: int, h: int, w: int, c: int
) -> bool:
    """psum must be at out with elements as wide, or apart from it"""
    sizes = tensor(bits, n, h, w, c), tensor(psum_bits, n, h, w, c)
    return not used or apart(out, psum, sizes[0], sizes[1], bits == psum_bits)


@rule("shape.n", "dst_shape.n")
def same_batch(n: int, out_n: int) -> bool:
    """dst_shape.n must equal shape.n"""
    return n == out_n
