"""Loads and stores of the kernel core in the field: moves are followed, sums are unknown."""

from __future__ import annotations

import numpy as np
import pytest

from chip_bench import TX81, build
from emulator import Fault
from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import PrimeField

FIELD = PrimeField(1, exponentials=False)
FIRST, RESULT = 0x200000, 0x200100
"""Offsets in DDR of eight elements, and of a program's stores."""
TWO = "li t1, 0x40000000\n"
"""The bits of 2.0 in FP32."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lw t0, 0(s0)\n sw t0, 256(s0)", ["x0"]),
        ("flw ft0, 4(s0)\n fsw ft0, 256(s0)", ["x1"]),
        ("ld t0, 8(s0)\n sd t0, 256(s0)", ["x2", "x3"]),
        ("lw t0, 0(s0)\n sw t0, 256(s0)\n sw t0, 260(s0)", ["x0", "x0"]),
        ("lw t0, 0(s0)\n lw t2, 4(s0)\n sw t0, 260(s0)\n sw t2, 256(s0)", ["x1", "x0"]),
        (f"{TWO} sw t1, 256(s0)", ["2"]),
        (f"{TWO} lw t0, 0(s0)\n sw t0, 256(s0)\n sw t1, 256(s0)", ["2"]),
        (f"lw t0, 0(s0)\n sw t0, 260(s0)\n {TWO} sw t1, 256(s0)", ["2", "x0"]),
        ("lw t0, 0(s0)\n lw t2, 4(s0)\n add t0, t0, t2\n sw t0, 256(s0)", ["unknown"]),
        ("flw ft0, 0(s0)\n fadd.s ft0, ft0, ft0\n fsw ft0, 256(s0)", ["unknown"]),
        (f"lw t0, 0(s0)\n {TWO} sw t1, 256(s0)", ["unknown"]),  # it may depend on the element
    ],
)
def test_what_a_core_stores(text: str, expected: list[str]) -> None:
    system = build(f"_start: li s0, {TX81.windows.ddr_cached + FIRST}\n {text}\n ebreak", field=FIELD)
    run, x = system.field_run, FIELD.random("x", (8,))
    assert run is not None
    system.ddr[FIRST : FIRST + 32] = np.random.default_rng(1).uniform(1, 2, 8).astype("f4").view(np.uint8)
    run.ddr.write(FIRST + 4 * np.arange(8), Format.FP32, x)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    run.check()
    found = FIELD.canonical(run.ddr.read(RESULT + 4 * np.arange(len(expected)), Format.FP32))
    known = {f"x{at}": x[:, at] for at in range(8)} | {"2": np.full(3, 2.0), "unknown": np.full(3, np.nan)}
    assert np.array_equal(found, np.stack([known[name] for name in expected], 1), equal_nan=True)
    assert sum(run.not_followed.values()) == expected.count("unknown")
