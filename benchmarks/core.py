"""The speed of the kernel core and of issuing engine instructions, and start-up times.

    python benchmarks/core.py

It measures four loops in MIPS (6, 7, 25 and 9 instructions an iteration), translated and interpreted,
compared with QEMU and Unicorn if they are installed; 10,000 engine instructions of 64 elements; and tx8emu on
a small program. The best of several runs counts.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import asm
from _report import promise
from asm.image import Image, write_image
from emulator.chip.system import System
from tx8isa.machine.description import load_machine

ROUNDS = 5
TURNS = 2_000_000
LONG_RUN = 20_000_000
"""Turns of the translated loops: enough that the time of the translation hardly counts."""
INSTRUCTIONS = 10_000
MACHINE = load_machine(None)

ALU = """
    add x2, x2, x1
    xor x3, x2, x1
    slli x4, x3, 3
    add x2, x2, x4
"""
MEM = """
    lw x3, 0(x28)
    add x3, x3, x1
    sw x3, 1024(x28)
    add x2, x2, x3
    xor x4, x2, x3
"""
MIX = """
    add x2, x2, x1
    xor x3, x2, x1
    slli x4, x3, 3
    sub x7, x4, x1
    or x8, x7, x2
    and x9, x8, x3
    srai x10, x9, 2
    slt x11, x10, x9
    mul x12, x11, x4
    andi x6, x1, 1020
    lw x13, 0(x28)
    addw x14, x13, x12
    sw x14, 1024(x28)
    xori x15, x14, 77
    bne x15, x0, 2f
2:  addi x16, x16, 1
    sltu x17, x15, x14
    srli x18, x14, 5
    lui x19, 4096
    add x20, x19, x18
    lbu x21, 1(x28)
    sb x21, 2(x28)
    sra x22, x20, x11
"""
FLOAT = """
    fcvt.d.w f1, x1
    fmadd.d f2, f1, f3, f2
    fadd.d f4, f2, f1
    fmul.d f5, f4, f6
    fsub.s f7, f8, f9
    fmul.s f10, f7, f9
    flt.d x3, f5, f4
"""
START_FLOAT = """
    la x28, constants
    fld f3, 0(x28)
    fld f6, 8(x28)
    flw f8, 16(x28)
    flw f9, 20(x28)
    fcvt.d.w f2, x0
"""
LOOPS = {"ALU": (ALU, 6), "MEM": (MEM, 7), "MIX": (MIX, 25), "FLOAT": (FLOAT, 9)}
"""The body of each loop, and the instructions in an iteration."""
LEAVE = "\n li a7, 93\n li a0, 0\n ecall\n"
ONE_TILE = "_start: csrr t0, mhartid\n bnez t0, 9f\n"
"""The other tiles exit at once."""


def loop(body: str, turns: int) -> str:
    """A loop that every RISC-V assembler for Linux accepts, without the entry."""
    start = START_FLOAT if body == FLOAT else ""
    count = f"{start} la x28, buf\n li x29, {turns}\n li x1, 0\n"
    data = "constants: .double 1e-3, 0.7\n .float 1.5, 0.3\n.align 6\nbuf: .space 4096\n"
    return f"{count}1: {body} addi x1, x1, 1\n blt x1, x29, 1b\n9:{LEAVE}\n.data\n.align 6\n{data}"


def engine(instruction: str, count: int) -> str:
    return (
        f"{ONE_TILE} li t1, {count}\n1: {instruction}\n addi t1, t1, -1\n bnez t1, 1b\n ncc.wait\n9:{LEAVE}"
    )


def best(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The least seconds of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def seconds(image: Image, *, translate: bool = True) -> float:
    """The least seconds of a run, without loading and without the first run, which compiles kernels."""
    System(image, MACHINE, translate=translate).run()
    times = []
    for _ in range(ROUNDS):
        system = System(image, MACHINE, translate=translate)
        times.append(best(system.run, 1))
    return min(times)


def row(
    what: str,
    value: float,
    unit: str,
    aim: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Print a figure; a figure with a bound is one that the project promises."""
    print(f"{what:44} {value:12,.2f} {unit:8} {aim}")
    if at_least is not None or at_most is not None:
        promise(what, value, unit, at_least=at_least, at_most=at_most)


def scalar_loops() -> dict[str, float]:
    """Measure the loops on the kernel core; returns the MIPS of each with translation."""
    found = {}
    for name, (body, length) in LOOPS.items():
        image = asm.assemble(ONE_TILE + loop(body, LONG_RUN))
        found[name] = LONG_RUN * length / seconds(image) / 1e6
        row(f"{name} loop, tx8emu", found[name], "MIPS", at_least=500 if name == "FLOAT" else 1500)
        image = asm.assemble(ONE_TILE + loop(body, TURNS))
        mips = TURNS * length / seconds(image, translate=False) / 1e6
        row(f"{name} loop, interpreted", mips, "MIPS", at_least=200 if name == "FLOAT" else 500)
    return found


def engine_instructions() -> None:
    empty = seconds(asm.assemble(engine("nop", 1)))
    for fmt in ("fp32", "fp16"):
        places = "dst=0x3000, src0=0x1000, src1=0x2000"
        took = seconds(asm.assemble(engine(f"ct.add.vv.{fmt} {places}, n=64", INSTRUCTIONS)))
        row(f"{INSTRUCTIONS:,} ct.add.vv.{fmt} of 64 elements", 1e3 * (took - empty), "ms", at_most=1.0)
    registers = "li a1, 0x1000\n li a2, 0x2000\n li a3, 0x3000\n"
    text = engine("ct.add.vv.fp32 dst=a3, src0=a1, src1=a2, n=64", INSTRUCTIONS).replace(
        "1: ", f"{registers}1: "
    )
    row("the same, addresses in registers", 1e3 * (seconds(asm.assemble(text)) - empty), "ms")
    four = "rdma.fp32 dst=0x1000, src=0x280200000, n=64\n rdma.fp32 dst=0x2000, src=0x280201000, n=64\n"
    four += "ct.add.vv.fp32 dst=0x3000, src0=0x1000, src1=0x2000, n=64\n"
    four += "wdma.fp32 dst=0x280202000, src=0x3000, n=64"
    took = seconds(asm.assemble(engine(four, INSTRUCTIONS // 4)))
    row(f"{INSTRUCTIONS:,} of load, load, add, store", 1e3 * (took - empty), "ms")


def start_up(folder: Path) -> None:
    """Measure tx8emu as a process, with an empty cache and with compiled kernels."""
    program = folder / "small.bin"
    program.write_bytes(write_image(asm.assemble(engine("ct.add.vv.fp16 dst=0, src0=0, src1=0, n=64", 1))))
    command = [str(Path(sys.executable).with_name("tx8emu")), "-q", str(program)]

    # Start-up is measured as for an installed program, whose modules are compiled once.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(cache: Path) -> None:
        subprocess.run(command, check=True, env={**environment, "TX8_CACHE_DIR": str(cache)})

    row("tx8emu, small program, empty cache", best(lambda: run(folder / "cache"), 1), "s", at_most=6.0)
    row("tx8emu, small program, kernels ready", best(lambda: run(folder / "cache")), "s", at_most=0.35)
    digits = Path(__file__).resolve().parent.parent / "examples" / "digits"
    compiled = [str(digits / "digits.json"), "--dtype", "fp16", "-q", "-o", str(folder)]
    subprocess.run([str(Path(sys.executable).with_name("tx8cc")), *compiled], check=True, env=environment)
    command[2:] = [str(folder / "prog.bin"), "--input", f"x={digits / 'test_images.npy'}"]
    row("tx8emu, examples/digits, empty cache", best(lambda: run(folder / "digits"), 1), "s", at_most=6.0)


def qemu(folder: Path, own: dict[str, float]) -> None:
    """Measure the loops as Linux programs under QEMU's user mode; a shorter run gives the start-up time."""
    tools = [
        shutil.which(name) for name in ("qemu-riscv64", "riscv64-unknown-elf-as", "riscv64-unknown-elf-ld")
    ]
    if not all(tools):
        print("qemu-riscv64 or GNU binutils for riscv64-unknown-elf are missing: no comparison with QEMU")
        return
    emulator, assembler, linker = (str(tool) for tool in tools)
    for name, (body, length) in LOOPS.items():
        times = []
        for turns in (TURNS, 50 * TURNS):
            source, obj, program = folder / "q.s", folder / "q.o", folder / "q"
            source.write_text(f".globl _start\n_start:\n{loop(body, turns)}")
            subprocess.run([assembler, "-march=rv64imfd", "-o", obj, source], check=True)
            subprocess.run([linker, "-o", program, obj], check=True)
            times.append(best(lambda: subprocess.run([emulator, program], check=True)))  # noqa: B023
        mips = 49 * TURNS * length / (times[1] - times[0]) / 1e6
        row(f"{name} loop, QEMU user mode", mips, "MIPS", f"tx8emu has {own[name] / mips:.2f} of it")


def unicorn(own: dict[str, float]) -> None:
    """Measure the same machine code under Unicorn, which is QEMU's translator as a library."""
    if importlib.util.find_spec("unicorn") is None:
        print("unicorn is not installed: no comparison with it (pip install unicorn)")
        return
    from unicorn import UC_ARCH_RISCV, UC_MODE_RISCV64, Uc
    from unicorn.riscv_const import UC_RISCV_REG_MSTATUS

    for name, (body, length) in LOOPS.items():
        image = asm.assemble("_start: " + loop(body, TURNS))
        text = image.segments[0]
        end = text.address + text.data.rindex(struct.pack("<I", 0x00000073))  # the ecall
        machine = Uc(UC_ARCH_RISCV, UC_MODE_RISCV64)
        machine.mem_map(text.address & ~0xFFFF, 1 << 20)
        for segment in image.segments:
            machine.mem_write(segment.address, segment.data)
        # mstatus: floating point is switched off at first.
        machine.reg_write(UC_RISCV_REG_MSTATUS, 0b11 << 13)
        took = best(lambda: machine.emu_start(image.entry, end))  # noqa: B023
        mips = TURNS * length / took / 1e6
        row(f"{name} loop, Unicorn", mips, "MIPS", f"tx8emu has {own[name] / mips:.2f} of it")


def main() -> None:
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    own = scalar_loops()
    engine_instructions()
    with tempfile.TemporaryDirectory() as name:
        start_up(Path(name))
        qemu(Path(name), own)
    unicorn(own)


if __name__ == "__main__":
    main()
