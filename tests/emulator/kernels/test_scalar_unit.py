"""The SCALAR unit: the numbers of CT, in a register of the core or of the window, at once."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import asm
from asm.diagnostics import AsmError
from chip_bench import W, build
from emulator.chip.system import System
from emulator.tile.fault import Fault
from tx8isa.numbers.formats import EXPONENT_BITS, FLOATS, MANTISSA_BITS, Format, narrow, widen
from tx8isa.table.registry import by_mnemonic

NAMES = {"recip": 1, "sqrt": 3, "sin": 103, "cos": 104, "log2": 98, "pow2": 100}
"""Function and the opcode of CT that computes it."""
OPCODES = {name: opcode for opcode, name in enumerate(NAMES)}
VALUES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.3,
    -7.25,
    100.0,
    0.001,
    1e-5,
    math.inf,
    -math.inf,
    math.nan,
    16.5,
    -30.0,
]


def pattern(x: float, fmt: Format) -> int:
    bits = narrow(x, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt], 0, 0)
    return bits << 13 if fmt is Format.TF32 else bits


def number(bits: int, fmt: Format) -> float:
    return widen(bits >> 13 if fmt is Format.TF32 else bits, EXPONENT_BITS[fmt], MANTISSA_BITS[fmt])


def run(text: str) -> System:
    system = build(f"_start: li t0, {W.ncc}\n li t2, {W.spm_weak}\n{text}\n ebreak")
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    return system


def results(name: str, fmt: Format) -> list[int]:
    """Every value comes from the text form; the window gives the same."""
    text = ""
    for k, x in enumerate(VALUES):
        bits = pattern(x, fmt)
        text += f"li a1, {bits}\n sc.{name}.{fmt.token} src=a1, rd=a0\n sd a0, {16 * k}(t2)\n"
        text += f"sw a1, 0x6b0(t0)\n li t3, {OPCODES[name] | int(fmt) << 8 | 1 << 12}\n sd t3, 0x6a0(t0)\n"
        text += f"lwu a0, 0x6c0(t0)\n sd a0, {16 * k + 8}(t2)\n"
    words = run(text).tiles[0].spm.data[: 16 * len(VALUES)].view("<u8").reshape(-1, 2)
    assert (words[:, 0] == words[:, 1]).all()
    return [int(word) for word in words[:, 0]]


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda f: f.token)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_ct(name: str, fmt: Format) -> None:
    size = fmt.bits // 8
    record = next(r for r in by_mnemonic().values() if r.engine == 0 and r.opcode == NAMES[name])
    text = f"{record.mnemonic}.{fmt.token} dst=0x100, src0=0, n={len(VALUES)}\n ncc.wait"
    system = build(f"_start: {text}\n ebreak")
    data = b"".join(pattern(x, fmt).to_bytes(size, "little") for x in VALUES)
    system.tiles[0].spm.data[: len(data)] = np.frombuffer(data, np.uint8)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    expected = system.tiles[0].spm.data[0x100 : 0x100 + len(data)].view(f"<u{size}").tolist()
    assert results(name, fmt) == expected


EXACT = {
    "recip": lambda x: 1 / x,
    "sqrt": mpmath.sqrt,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "log2": lambda x: mpmath.log(x, 2),
    "pow2": lambda x: mpmath.mpf(2) ** x,
}


@pytest.mark.parametrize("name", NAMES)
def test_results_are_within_an_ulp(name: str) -> None:
    """FP32, against mpmath, where the function is finite."""
    found = results(name, Format.FP32)
    compared = 0
    for x, bits in zip(VALUES, found, strict=True):
        rounded = number(pattern(x, Format.FP32), Format.FP32)
        if not math.isfinite(x) or (rounded <= 0 and name in ("recip", "sqrt", "log2")):
            continue
        with mpmath.workprec(200):
            exact = EXACT[name](mpmath.mpf(rounded))
            ulp = mpmath.mpf(2) ** (
                max(mpmath.floor(mpmath.log(abs(exact) + mpmath.mpf(2) ** -126, 2)), -126) - 23
            )
            assert abs(mpmath.mpf(number(bits, Format.FP32)) - exact) <= ulp, (x, bits)
        compared += 1
    assert compared >= 7


def test_without_a_register_only_the_window_has_the_result() -> None:
    tile = run("li a0, 7\n sc.sqrt.fp32 src=4.0\n lw s0, 0x6c0(t0)").tiles[0]
    assert (tile.register(0), tile.register(8), tile.register(10)) == (0, 0x40000000, 7)


def test_the_result_register_is_that_of_the_worker() -> None:
    reads = f"lw s0, 0x6c0(t0)\n li t1, {W.ncc + W.ncc_stride}\n lw s1, 0x6c0(t1)"
    tile = run(f"sc.sqrt.fp32 src=4.0, worker=1\n{reads}").tiles[0]
    assert (tile.register(8), tile.register(9)) == (0, 0x40000000)


def test_upper_bits_of_the_source_do_not_matter_and_those_of_the_result_are_zero() -> None:
    tile = run("li a1, 0x7e7ec000\n sc.recip.fp16 src=a1, rd=s0\n sc.recip.fp32 src=-2.0, rd=s1").tiles[0]
    assert (tile.register(8), tile.register(9)) == (0xB800, 0xBF000000)


def test_every_register_by_both_names() -> None:
    for number_ in range(1, 32):
        both = {
            asm.assemble(f"sc.cos.bf16 src=1.0, rd={name}").segments[0].data
            for name in (f"x{number_}", number_)
        }
        assert len(both) == 1
    image = asm.assemble("sc.cos.bf16 src=1.0, rd=a0, worker=2")
    assert "sc.cos.bf16 src=0x3f80, rd=a0, worker=2" in asm.disassemble(image)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sc.recip.fp32 src=1.0, rd=32", "32 is not one of"),
        ("sc.recip.fp32 src=1.0, rd=f1", "rd"),
        ("sc.recip.int8 src=1", "sc.recip"),
        ("sc.recip.fp32 rd=a0", "operand src missing"),
        ("sc.recip.fp16 src=0x10000", "does not fit the 16 bits of fp16"),
    ],
)
def test_refused_by_the_assembler(text: str, message: str) -> None:
    with pytest.raises(AsmError, match=message):
        asm.assemble(text)


def test_a_source_in_a_register_may_hold_32_bits() -> None:
    with pytest.raises(
        Fault, match=r"sc\.sin\.fp32: operand 'src' from a register: 4294967296 is outside 0\.\.4294967295"
    ):
        build("_start: li a1, 1 << 32\n sc.sin.fp32 src=a1, rd=a0").run()
