"""No legal instruction runs for minutes, needs more scratch than there is, or fills the host's memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import asm
from asm.image import Image, Segment, write_image
from chip_bench import CODE, ONE, W, build, chip, word
from emulator.chip import sends, traffic
from emulator.chip.system import System
from emulator.cli import main
from emulator.kernels.ne.backward import backward_scratch_bytes
from emulator.kernels.ne.conv import small_scratch_bytes
from emulator.kernels.ne.depthwise import MAX_TAPS, depthwise_scratch_bytes
from emulator.kernels.ne.gemm import gemm_scratch_bytes
from emulator.kernels.ne.problem import PROBLEM_BYTES, make_problem
from emulator.kernels.ne.sums.floats import make_float
from emulator.kernels.ne.sums.integers import make_integer
from emulator.memory.areas import LARGEST_SPM, SCRATCH_BYTES
from emulator.tile import environment
from emulator.tile.fault import Fault
from tx8isa.errors import Tx8Error
from tx8isa.families.aligned import matrices, tensor
from tx8isa.machine import description as machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.table.registry import by_mnemonic

MACHINE = chip()
ROOM = SCRATCH_BYTES - PROBLEM_BYTES
CHANNELS = sorted(
    {*range(1, 140), *(2**k + d for k in range(7, 15) for d in (-1, 0, 1) if 2**k + d <= 16384)}
)
ARITHMETIC = {
    "fp16": (make_float(Format.FP16, True), 16),
    "tf32": (make_float(Format.TF32, True), 32),
    "int8": (make_integer(), 8),
    "int8 in 16 bits": (make_integer(vnni=False), 8),
}
every_arithmetic = pytest.mark.parametrize("kind", ARITHMETIC)


def fault(text: str, machine: object = MACHINE, limit: int | None = None, timed: bool = False) -> str:
    system = build(f"_start: {text}\n ebreak", machine, timed=timed)  # type: ignore[arg-type]
    with pytest.raises(Fault) as found:
        system.run(limit)
    return str(found.value)


# --- scratch of the matrix engine -------------------------------------------------------------------------


@pytest.mark.long
@every_arithmetic
def test_scratch_of_convolutions(kind: str) -> None:
    """Weights that fill the largest possible SPM, in every proportion of window, inputs and outputs."""
    arithmetic, bits = ARITHMETIC[kind]
    largest = 0
    for c in CHANNELS:
        for o in (1, 2, 3, 4, 15, 16, 17, 32, 33, 48, 49, 64, 65, 128, 1000, 4096, 16384):
            for kx in (1, 3, 16, 64, 128, 200, 255):
                rows = next(
                    (k for k in range(255, 0, -1) if batch_bytes(k * kx * o, c, bits) <= LARGEST_SPM), 0
                )
                if rows:
                    shape = {"batch": 1, "c": c, "oh": 1, "ow": 1, "maps": o, "ky": rows, "kx": kx}
                    problem = make_problem(**shape, out_format=Format.FP32)
                    largest = max(largest, small_scratch_bytes(arithmetic, problem.ctypes.data))
    assert LARGEST_SPM < largest <= ROOM - LARGEST_SPM  # a result of all of SPM is added to it


@every_arithmetic
def test_scratch_of_gemm(kind: str) -> None:
    arithmetic, bits = ARITHMETIC[kind]
    largest = 0
    for k in CHANNELS:
        for n in CHANNELS:
            if min(matrices(bits, 1, n, k), matrices(bits, 1, k, n)) <= LARGEST_SPM:
                largest = max(largest, gemm_scratch_bytes(arithmetic, 1, k, n, 1, 1, int(Format.FP32)))
    assert LARGEST_SPM < largest <= ROOM - LARGEST_SPM


def test_scratch_of_the_other_convolutions() -> None:
    """Everything is fixed except the result."""
    taps = by_mnemonic()["ne.dwconv"].operand("window").lanes
    assert taps[0].high * taps[1].high == MAX_TAPS
    one = tensor(32, 1, 1, 1, 1)
    assert depthwise_scratch_bytes(1, 1, 1, 1, int(Format.FP32)) - one + LARGEST_SPM <= ROOM
    one = batch_bytes(1, 1, 32)
    assert backward_scratch_bytes(1, 1, 1, int(Format.FP32)) - one + LARGEST_SPM <= ROOM


def test_a_machine_with_more_spm_than_scratch_is_made_for() -> None:
    build("_start: ebreak", chip(spm=LARGEST_SPM))
    with pytest.raises(
        Tx8Error, match=f"tx81 has {LARGEST_SPM + 2048} bytes of SPM, .* at most {LARGEST_SPM}"
    ):
        build("_start: ebreak", chip(spm=LARGEST_SPM + 2048))


# --- work ---------------------------------------------------------------------------------------------------

LIMIT = "at most 2**36, the emulator's limit for one instruction"
BYTES = "at most 2**32, the emulator's limit for one instruction"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ne.conv.fp16 a=0, w=0x100000, out=0, shape=[1,1,1,16], dst_shape=[1,300,300,1], "
            "window=[255,255,1,1], pad=[277,276,277,276]",
            LIMIT,
        ),
        (
            "ne.bwconv.fp16 a=0, dy=0, out=0, shape=[1,1,1,16], dst_shape=[255,255,1,16], "
            "window=[255,255,1,1], pad=[277,276,277,276]",
            LIMIT,
        ),
        ("li t0, 0x10000\n li t1, 0x10001\n td.memset.int8 dst=0, value=0, n=1, iter0=t0, iter1=t1", BYTES),
        (
            "li t0, 0x10000\n li t1, 0x10001\n td.gatherscatter dst=0, src0=9, n=1, "
            "src_iter0=t0, src_iter1=t1, dst_iter0=t0, dst_iter1=t1",
            BYTES,
        ),
        (
            "li t0, 0x10000\n li t1, 0x10001\n li t2, 0x280000000\n rdma.int8 dst=0, src=t2, n=1, iter0=t0, "
            "iter1=t1",
            BYTES,
        ),
    ],
)
def test_instructions_that_would_take_minutes(text: str, message: str) -> None:
    assert message in fault(text)


def registers(values: dict[int, int]) -> str:
    """Stores to the registers of DTE block 1."""
    lines = [f"li t0, {W.dte + W.dte_stride}"]
    lines += [f"li t1, {value}\n sw t1, {at}(t0)" for at, value in values.items()]
    return "\n".join(lines)


def test_a_copy_of_the_dte_that_would_take_minutes() -> None:
    """From one place of DDR, repeatedly, to most of DDR."""
    copy = {
        0x00: W.ddr_engine & 0xFFFFFFFF,
        0x04: W.ddr_engine >> 32,
        0x08: 0x80000000,
        0x0C: 2,
        0x14: 3,
        0x18: 1,
        0x24: 0xFFFF,
        0x2C: 0xFFFF,
        0x34: 1,
        0x38: 1,
    }
    assert f"the copy has {1 << 33} bytes, expected {BYTES}" in fault(registers(copy))


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "ne.conv.fp16 a=0, w=0x100000, out=0, shape=[1,1,1,16], dst_shape=[1,256,256,1], "
        "window=[255,255,1,1], pad=[255,254,255,254]",
        "ne.bwconv.fp16 a=0, dy=0, out=0, shape=[1,1,1,4], dst_shape=[255,255,1,4], window=[255,255,1,1], "
        "pad=[254,254,254,254]",
        "ne.dwconv.fp16 a=0, w=0, out=0, shape=[1,600,600,4], dst_shape=[1,600,600,4], window=[255,255,1,1], "
        "pad=[127,127,127,127]",
        "ct.pool.max.fp16 dst=0, src0=0, shape=[1,600,600,4], dst_shape=[1,600,600,4], window=[255,255,1,1], "
        "pad=[127,127,127,127]",
        "ct.pool.max_idx.fp16 dst=0, dst1=0x180000, src0=0, shape=[1,420,420,4], dst_shape=[1,420,420,4], "
        "window=[255,255,1,1], pad=[127,127,127,127]",
        "ct.unpool.avg.fp16 dst=0, src0=0, dst_shape=[1,600,600,4], window=[255,255,1,1]",
        "ct.unpool.index.fp16 dst=0, src0=0, src1=0, dst_shape=[1,600,600,4], window=[255,255,1,1]",
        "li t0, 0x10000\n td.memset.int8 dst=0, value=0, n=1, iter0=t0, iter1=t0",
        "li t0, 0x10000\n td.gatherscatter dst=0, src0=9, n=1, src_iter0=t0, src_iter1=t0, dst_iter0=t0, "
        "dst_iter1=t0",
    ],
)
def test_what_is_legal_ends_within_a_minute(text: str) -> None:
    """A minute of processor time, because other work on the host must not count."""
    fault("td.memset.int8 dst=0, value=0, n=256\n ncc.wait")  # compiled before
    start = time.process_time()
    assert "ebreak" in fault(text + "\n ncc.wait")
    assert time.process_time() - start < 60


# --- memory of the host -------------------------------------------------------------------------------------


def shown(text: str, limit: int) -> Iterator[int]:
    """Return the sizes of a program's output as it is shown; the program is stopped."""
    sizes: list[int] = []
    system = System(build(f"_start: {text}", ONE).image, ONE, show=lambda file, data: sizes.append(len(data)))
    with pytest.raises(Fault, match="the limit given"):
        system.run(limit)
    return iter(sizes)


def test_one_write_of_all_memory_is_a_short_one() -> None:
    text = "li a0, 1\n li a1, 0x80000000\n li a2, 0x80000000\n li a7, 64\n ecall\n mv s0, a0\n1: j 1b"
    assert list(shown(text, 100)) == [environment._MOST_OUTPUT]


def test_many_writes_are_shown_before_more_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single round would collect all of them."""
    kept: list[int] = []
    collect = System.show_output

    def watch(system: System) -> None:
        kept.append(len(system.tiles[0].output))
        collect(system)

    monkeypatch.setattr(System, "show_output", watch)
    text = "li a1, 0x80000000\n li a2, 1\n li a7, 64\n1: li a0, 1\n ecall\n j 1b"
    assert len(list(shown(text, 3000))) == 999
    assert max(kept) == environment._MOST_CALLS < 999


def test_many_copies_are_carried_out_before_more_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that instructions start are noted by compiled code, with and without simulated time."""
    monkeypatch.setattr(traffic, "_MOST_STARTED", 10)
    most: list[int] = []
    carry_out = traffic.Traffic.carry_out_sends

    def watch(all_tiles: traffic.Traffic) -> bool:
        most.append(len(all_tiles.started[0]))
        return carry_out(all_tiles)

    monkeypatch.setattr(traffic.Traffic, "carry_out_sends", watch)
    text = "1: dte.unicast dst={}, src=0, tile=0, n=4\n j 1b"
    for target in ("0x280001000", "0x100"):
        for timed in (False, True):
            most.clear()
            assert "the limit given" in fault(text.format(target), limit=200, timed=timed)
            assert max(most) == sends.MOST + 1, "those that are noted, and the one that finds no room"


def test_more_spm_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is one line, as for any other mistake."""
    text = (Path(machine.__file__).parent / "machines" / "tx81.toml").read_text()
    (tmp_path / "big.toml").write_text(text.replace("bytes = 0x30_0000 ", "bytes = 0x3f_8000 "))
    big = machine.load_machine(tmp_path / "big.toml")
    (tmp_path / "a.bin").write_bytes(write_image(asm.assemble("_start: ebreak", machine=big)))
    assert main([str(tmp_path / "a.bin")]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and f"{0x3F8000} bytes of SPM" in message


# --- the end of the code ------------------------------------------------------------------------------------


def test_code_that_ends_inside_a_word() -> None:
    """Its last bytes would be the beginning of a legal instruction."""
    code = 2 * word("addi", rd=1, rs1=1, imm=1).to_bytes(4, "little")
    code = code[:6]
    with pytest.raises(Fault, match=r"0x80000004: illegal instruction: \.text ends after 2 of its 4 bytes"):
        System(Image(CODE, (Segment(".text", CODE, code, len(code), "rx"),)), ONE).run()
