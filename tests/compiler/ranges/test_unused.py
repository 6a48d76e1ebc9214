"""Instructions whose results nothing reads: the remaining ones have the same effect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.passes.ranges.unused import without_unused
from core_steps import interpret

NAMES = ("t0", "a1", "s2")
REGISTERS = st.sampled_from(NAMES)
PLACES = st.integers(0, 2).map(lambda at: f"{8 * at}(tp)")
LINES = st.one_of(
    st.builds(
        lambda op, *names: f"{op} {', '.join(names)}", st.sampled_from(["add", "mul"]), *[REGISTERS] * 3
    ),
    st.builds(lambda name, number: f"li {name}, {number}", REGISTERS, st.integers(-9, 9)),
    st.builds(lambda name, place: f"ld {name}, {place}", REGISTERS, PLACES),
    st.builds(lambda name, place: f"sd {name}, {place}", REGISTERS, PLACES),
    st.builds(lambda *names: f"ble {', '.join(names)}, 1f", *[REGISTERS] * 2),
    st.just("1:"),
)


def code(*lines: str) -> list[str]:
    return [line if line.endswith(":") else f"        {line}" for line in lines]


@given(st.lists(LINES, max_size=25))
def test_memory_is_the_same(lines: list[str]) -> None:
    whole = code(*lines, "1:")
    left = without_unused(whole)
    memories = []
    for each in (whole, left):
        memories.append({f"{8 * at}(tp)": at + 1 for at in range(3)})
        interpret(each, {name: number for number, name in enumerate(NAMES)}, memories[-1])
    assert memories[0] == memories[1]
    assert without_unused(left) == left


@pytest.mark.parametrize(
    ("lines", "unused"),
    [
        (["li t0, 5", "sd t0, 0(tp)"], ()),
        (["li t0, 5", "li t0, 6", "sd t0, 0(tp)"], (0,)),
        (["li t0, 5", "addi t1, t0, 1", "slli t2, t1, 3"], (0, 1, 2)),
        (["li t0, 5", "rdma.fp16 dst=t0, src=a, n=t1"], ()),
        (["li t0, 5", "rdma.fp16 dst=0x10, src=x.t0, n=8"], (0,)),
        (["li t0, 0", "p0.loop0:", "addi t0, t0, 1", "blt t0, t1, p0.loop0"], ()),
        (["li t0, 0", "p0.loop0:", "addi t1, t0, 1", "addi t0, t0, 1", "blt t0, t2, p0.loop0"], (2,)),
        (["li t0, 5", "bge t1, t2, p0.end0", "li t0, 6", "p0.end0:", "sd t0, 0(tp)"], ()),
        (["li t0, 5", "j p0.end0", "sd t0, 0(tp)", "p0.end0:"], (0,)),
        (["li t0, 5", "j p0.done"], (0,)),
        (["li a0, 5", "li t0, 5", "ecall"], ()),
        (["ld t0, 0(a0)"], ()),
        (["ld t0, 8(sp)", "lw t1, -4(gp)", "ld t2, 8(tp)"], (0, 1, 2)),
        (["fcvt.s.l ft0, t0", "fmv.x.w t0, ft0"], ()),
        (["mv t0, t1", "csrr t0, mhartid"], ()),
        (['.live "p0.x", input, 0, 512, "t0"', "li t0, 5"], (1,)),
    ],
)
def test_what_nothing_reads(lines: list[str], unused: tuple[int, ...]) -> None:
    whole = code(*lines)
    assert without_unused(whole) == [line for at, line in enumerate(whole) if at not in unused]
