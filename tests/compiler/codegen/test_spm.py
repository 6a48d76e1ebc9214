"""Scratchpad allocation: buffers that are alive together never share a byte."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.spm import Copies, SpmAllocator, SpmBuffer, SpmOverflow
from tx8isa.numbers.formats import Format

INTERVALS = st.lists(
    st.tuples(st.integers(1, 3000), st.integers(0, 20), st.integers(0, 10)), min_size=1, max_size=25
)


def buffers_of(intervals: list[tuple[int, int, int]]) -> list[SpmBuffer]:
    made = []
    for number, (size, first, length) in enumerate(intervals):
        buffer = SpmBuffer(f"b{number}", size)
        buffer.use(first, first + length)
        made.append(buffer)
    return made


@given(INTERVALS)
def test_live_buffers_do_not_overlap(intervals: list[tuple[int, int, int]]) -> None:
    buffers = buffers_of(intervals)
    SpmAllocator(1 << 20).place(buffers)
    for a, b in combinations(buffers, 2):
        together = a.first <= b.last and b.first <= a.last
        apart = a.address + a.span <= b.address or b.address + b.span <= a.address
        assert apart or not together
    for buffer in buffers:
        assert buffer.address % 256 == 0
        assert buffer.span >= buffer.size
        assert buffer.span % 256 == 0


@given(INTERVALS)
def test_overflow_is_reported_exactly_when_the_sizes_leave_no_choice(
    intervals: list[tuple[int, int, int]],
) -> None:
    """Buffers that are all alive at once need the sum of their spans, and no more."""
    buffers = buffers_of([(size, 0, 5) for size, _, _ in intervals])
    needed = sum(buffer.span for buffer in buffers)
    SpmAllocator(needed).place(buffers)
    with pytest.raises(SpmOverflow, match="does not fit the"):
        SpmAllocator(needed - 256).place(buffers_of([(size, 0, 5) for size, _, _ in intervals]))


def test_space_is_used_again_after_the_last_use() -> None:
    buffers = buffers_of([(1024, 0, 1), (1024, 2, 1), (1024, 4, 1)])
    SpmAllocator(1024).place(buffers)
    assert {buffer.address for buffer in buffers} == {0}


def test_source_and_destination_of_an_instruction_are_apart() -> None:
    first, second = buffers_of([(256, 0, 3), (256, 3, 2)])
    SpmAllocator(512).place([first, second])
    assert first.address != second.address


def test_the_smallest_gap_that_fits_is_taken() -> None:
    allocator = SpmAllocator(1 << 16)
    wall = buffers_of([(0x400, 0, 0), (0x100, 0, 9), (0x200, 0, 0), (0x100, 0, 9)])
    for buffer, address in zip(wall, (0, 0x400, 0x500, 0x700), strict=True):
        buffer.address = address
    allocator.placed = [wall[1], wall[3]]
    (small,) = buffers_of([(0x200, 2, 1)])
    allocator.place([small])
    assert small.address == 0x500


def new_kernel(spm: int = 1 << 16) -> Kernel:
    return Kernel("p0", Target(2, spm, Format.FP16), spm)


def test_a_buffer_used_in_a_loop_lives_through_it() -> None:
    kernel = new_kernel()
    outside = kernel.buffer("outside", 256)
    kernel.emit("td.memset.fp32", dst=outside, value=0.0, n=4)
    with kernel.loop(3):
        kernel.emit("ct.neg.v.fp32", dst=outside, src0=outside, n=4)
        late = kernel.buffer("late", 256)
        kernel.emit("td.memset.fp32", dst=late, value=0.0, n=4)
    kernel.place_buffers()
    a, b = kernel.spm.buffers
    assert (a.first, a.last) == (0, 2)
    assert a.address != b.address, "the next turn of the loop still reads the first one"


def stages(kernel: Kernel) -> list[tuple[int, int]]:
    """Addresses of four buffers of a loop and of their copies, each alive for two of its instructions."""
    with kernel.loop(3):
        names = [kernel.buffer(name, 256) for name in ("x", "y", "z")]
        for source, target in zip(names, [*names[1:], kernel.buffer("out", 256)], strict=True):
            kernel.emit("ct.neg.v.fp32", dst=target, src0=source, n=4)
    kernel.place_buffers()
    return [(buffer.address, buffer.second) for buffer in kernel.spm.buffers]


def test_the_stages_of_a_loop_and_their_copies_are_apart_when_there_is_room() -> None:
    assert len({address for both in stages(new_kernel(2048)) for address in both}) == 8


def test_copies_are_apart_when_stages_share() -> None:
    """Neighbouring iterations overlap more when each has its own bytes than when each stage has."""
    for first, second in zip(*[iter(stages(new_kernel(1024)))] * 2, strict=True):
        assert len({*first, *second}) == 4


def test_the_stages_of_a_loop_share_when_there_is_no_room() -> None:
    found = stages(new_kernel(512))
    assert len({address for address, _ in found}) == 2
    assert {second for _, second in found} == {-1}


def test_what_a_loop_runs_once_has_one_copy() -> None:
    kernel = new_kernel()
    with kernel.items(2):
        kernel.emit("td.memset.fp32", dst=kernel.buffer("x", 256), value=0.0, n=4)
    assert not kernel.spm.buffers[0].doubled


@given(INTERVALS, st.sets(st.integers(0, 24)), st.sampled_from([256, 4096]))
def test_copies_at_one_distance_do_not_overlap(
    intervals: list[tuple[int, int, int]], doubled: set[int], grain: int
) -> None:
    buffers = buffers_of(intervals)
    several = [buffers[at] for at in sorted(doubled | {0}) if at < len(buffers)]
    SpmAllocator(1 << 20, grain=grain).place_apart(buffers, several)
    assert len({buffer.distance for buffer in several}) == 1
    places = [(buffer, buffer.address) for buffer in buffers] + [(each, each.second) for each in several]
    assert all(address % grain == 0 for _, address in places)
    for (a, begin), (b, other) in combinations(places, 2):
        together = a.first <= b.last and b.first <= a.last
        assert not together or begin + a.span <= other or other + b.span <= begin


def small_kernel(spm: int, copies: Copies | None = None) -> Kernel:
    """A kernel whose code should be small."""
    target = Target(2, spm, Format.FP16, small=True)
    return Kernel("p0", target, spm, copies=copies)


def text_of_stages(spm: int, copies: Copies | None = None) -> tuple[Kernel, list[str]]:
    kernel = small_kernel(spm, copies)
    stages(kernel)
    return kernel, [line for line in kernel.text() if not line.lstrip().startswith("#")]


def test_small_code_adds_one_distance_to_all_buffers_of_a_loop() -> None:
    kernel, text = text_of_stages(1 << 16)
    copies = replace(kernel.spm.found_copies(), apart="p0.apart")
    assert copies.doubled == {"p0.x", "p0.y", "p0.z", "p0.out"}
    other, shorter = text_of_stages(1 << 16, copies)
    (distance,) = {buffer.distance for buffer in other.spm.buffers}
    assert f"        .equ p0.apart, {distance}" in shorter
    assert sum(" and " in line for line in text) == 4
    assert not any(" and " in line for line in shorter)
    assert sum(" xor " in line for line in shorter) == 1
    assert len(shorter) < len(text)


def test_small_code_has_addresses_that_are_made_in_one_instruction_where_there_is_room() -> None:
    kernel, _ = text_of_stages(1 << 16)
    kernel.mirror()
    assert all(buffer.address % 4096 == 0 and buffer.second % 4096 == 0 for buffer in kernel.spm.buffers)
    tight, _ = text_of_stages(1 << 12)
    assert any(buffer.address % 4096 for buffer in tight.spm.buffers)


def test_a_loop_without_copies_has_no_variable_for_them() -> None:
    kernel, _ = text_of_stages(512)
    copies = kernel.spm.found_copies()
    assert (copies.doubled, copies.reuse) == (set(), True)
    other, text = text_of_stages(512, copies)
    assert [buffer.address for buffer in other.spm.buffers] == [b.address for b in kernel.spm.buffers]
    assert not any(word in line for line in text for word in (" not ", " and ", " xor "))


def test_copies_that_are_decided_do_not_give_way() -> None:
    kernel, _ = text_of_stages(1 << 16)
    with pytest.raises(SpmOverflow, match="does not fit the 1024 bytes"):
        text_of_stages(1024, kernel.spm.found_copies())


def test_buffers_that_fit_neither_way_are_an_overflow() -> None:
    with pytest.raises(SpmOverflow, match=r"buffer p0\.\w+ of 256 bytes does not fit the 256 bytes of SPM"):
        stages(new_kernel(256))


def test_a_buffer_that_is_never_used_takes_no_space() -> None:
    kernel = new_kernel(256)
    kernel.buffer("unused", 4096)
    kernel.place_buffers()
    assert kernel.spm.buffers[0].address == -1


@pytest.mark.parametrize(
    ("mnemonic", "operands", "message"),
    [
        ("ct.add.vv.fp16", {"dst": 0, "src0": 0, "n": 4}, "missing operands ['src1']"),
        ("ct.add.vv.fp16", {"dst": 0, "src0": 0, "src1": 0, "n": 4, "m": 1}, "unknown operands ['m']"),
        ("ct.add.vvv.fp16", {}, "no instruction ct.add.vvv.fp16"),
    ],
)
def test_an_instruction_must_be_as_its_record_says(
    mnemonic: str, operands: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[").replace("]", r"\]")):
        new_kernel().emit(mnemonic, **operands)


def test_a_control_operand_cannot_come_from_a_register() -> None:
    kernel = new_kernel()
    with pytest.raises(ValueError, match="operand lt cannot come from a register"):
        kernel.emit("ne.gemm.fp16", a=0, b=0, out=0, m=1, k=1, n=1, lt=kernel.tile)


def test_symbols_of_a_phase_are_unique() -> None:
    kernel = new_kernel()
    names = {kernel.buffer("x", 4).symbol, kernel.buffer("x", 4).symbol, kernel.scratch("x", 4).symbol}
    assert names == {"p0.x", "p0.x2", "p0.x3"}
