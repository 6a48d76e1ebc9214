"""Programs for saved states, and runs that are cut in two by one."""

from __future__ import annotations

import random
from typing import Any

import msgspec

import asm
from chip_bench import W, chip
from dte_harness import EXIT
from emulator.chip.pause import Pause
from emulator.chip.registers.dte import DteWindow
from emulator.chip.system import System
from emulator.debug.snapshot import file as snapshot_file
from emulator.debug.snapshot.chip import restore, save
from emulator.debug.snapshot.types import Snapshot
from emulator.memory import state
from stream_programs import CONFIG, COUNT, READY, SPM_STREAM, config, fsm, look, pair, send, user_id, wait
from time_bench import changed
from tx8isa.machine.description import Machine

WRITE = """ li a0, 1
        la a1, text
        li a2, 6
        li a7, 64
        ecall
"""
RING = f"""_start: csrr s0, mhartid
        addi t0, s0, 100
        td.memset.int32 dst=0x100, value=t0, n=64
        ncc.wait
        li s1, 3
        li s2, 0x280300000
        slli t1, s0, 8
        add s2, s2, t1
    1:  addi t1, s0, 1
        andi t1, t1, 3
        dte.unicast dst=0x200, src=0x100, tile=t1, n=256
        td.memset.int32 dst=0x400, value=s1, n=16
        {WRITE}
        bnez s0, 2f
        nop
        nop
    2:  dte.wait
        ncc.barrier
        ct.add.vv.fp16 dst=0x100, src0=0x200, src1=0x400, n=64, rnd=stochastic
        wdma.fp16 dst=s2, src=0x100, n=64
        addi s1, s1, -1
        bnez s1, 1b
        ncc.wait
        {EXIT}
        .data
text:   .ascii "hello\\n"
"""
"""Copies and barriers of four tiles, queues, random numbers, output."""

WORKERS = f"""_start: li s1, 4
    1:  td.memset.int32 dst=0x100, value=s1, n=64, worker=1
        td.memset.int32 dst=0x200, value=s1, n=64, worker=2
        ct.add.vv.fp16 dst=0x300, src0=0x800, src1=0x900, n=64, worker=1
        td.memset.int32 dst=0x400, value=s1, n=64
        rdma.int32 dst=0x500, src=0x280300000, n=16, worker=2
        ct.max.vv.fp16 dst=0x600, src0=0x100, src1=0x900, n=64, worker=1
        addi s1, s1, -1
        bnez s1, 1b
        ncc.wait worker=2
        fcvt.s.l fa0, s1
        li t0, 1
        fcvt.s.l fa1, t0
        fdiv.s fa2, fa0, fa1
        csrw mscratch, s1
        li t0, {W.pmu:#x}
        li t1, 1
        sw t1, 0(t0)
        ct.add.vv.fp16 dst=0x700, src0=0x800, src1=0x900, n=64, worker=1
        ncc.wait worker=1
        lw s5, 0x10(t0)
        li t0, {W.ncc:#x}
        ld s6, 0x740(t0)
        {EXIT}
"""
"""Several workers on one tile, registers of the PMU, CSRs, floats."""

SELF = f"""_start: la t0, place
        lw t1, 1f
        li s1, 2
    2:  sw t1, 0(t0)
        fence.i
place:  addi s2, s2, 1
        addi s1, s1, -1
        bnez s1, 2b
        {EXIT}
    1:  addi s2, s2, 16
"""
"""Code that replaces itself."""

STREAM = pair(
    send(1, 0x800, 32, user_id(SPM_STREAM, 1)) + send(1, 0x820, 16, user_id(SPM_STREAM, 1), block=2),
    wait(SPM_STREAM, 1) + look(READY + 4 * SPM_STREAM, COUNT + 4 * (32 * SPM_STREAM + 1)),
    fsm({CONFIG + 4 * SPM_STREAM: config(48, 3)}),
)
"""Register blocks of the DTE, packets of a stream, polls."""

BUSY = f"""_start: csrr s0, mhartid
        li s1, 4
        li s2, 0x280300000
        slli t1, s0, 14
        add s2, s2, t1
        addi t2, s0, 1
        andi t2, t2, 3
    1:  rdma.int32 dst=0x0, src=s2, n=4, stride0=64, iter0=64
        ct.add.vv.fp16 dst=0x1000, src0=0x0, src1=0x800, n=1024
        wdma.fp16 dst=s2, src=0x1000, n=4, stride0=32, iter0=256
        rdma.int32 dst=0x2000, src=0x280300000, n=512, worker=1
        ct.max.vv.fp16 dst=0x2800, src0=0x2000, src1=0x2400, n=512, worker=1
        td.memset.int32 dst=0x3000, value=s1, n=64, worker=2
        dte.unicast dst=0x3800, src=s2, tile=t2, n=1024
        ncc.wait worker=2
        li s3, 8
    2:  csrr t3, cycle
        addi s3, s3, -1
        bnez s3, 2b
        addi s1, s1, -1
        bnez s1, 1b
        dte.wait
        ncc.wait
        ncc.wait worker=1
        {EXIT}
"""
"""Transfers of two workers, instructions that wait for them, copies out of DDR, reads of time meanwhile."""

TRAPS = f"""_start: la t0, handler
        csrw mtvec, t0
        .word 0
        li s3, 7
        {EXIT}
        .align 2
handler: csrr t1, mepc
        addi t1, t1, 4
        csrw mepc, t1
        addi s2, s2, 1
        mret
"""

SEEN = 0x40_0000
"""Bytes of DDR that are compared."""


def small(machine: Machine) -> Machine:
    """A machine with less DDR, because searching 64 GiB for touched pages takes a tenth of a second.

    It has no cold costs, so that more happens at the same time.
    """
    machine = changed(changed(machine, "core", "line", 0.0), "issue", "kind", 0.0)
    return msgspec.structs.replace(machine, ddr=msgspec.structs.replace(machine.ddr, bytes=2 * SEEN))


FOUR, ONE = small(chip(4, 0x4000)), small(chip(1, 0x4000))


def build(text: str, machine: Machine = ONE, **options: Any) -> System:
    return System(asm.assemble(text, machine=machine), machine, **options)


PROGRAMS: dict[str, tuple[str, Machine]] = {
    "ring": (RING, FOUR),
    "compressed": (f"        .option rvc\n{RING}", FOUR),
    "workers": (WORKERS, ONE),
    "self": (SELF, ONE),
    "stream": (STREAM, FOUR),
    "traps": (TRAPS, ONE),
    "busy": (BUSY, FOUR),
}


class Run:
    """A system and what it has written."""

    def __init__(self, name: str, **options: Any) -> None:
        text, machine = PROGRAMS[name]
        self.output: list[tuple[int, bytes]] = []
        self.system = build(
            text, machine, show=lambda file, data: self.output.append((file, data)), **options
        )

    def result(self) -> dict[str, Any]:
        """Everything that a program could distinguish, in another form than a snapshot's."""
        system = self.system
        (window,) = (device for device in system.devices if isinstance(device, DteWindow))
        words = [*range(32), *range(state.F, state.F + 32), state.PC, state.RETIRED, state.FCSR, state.RANDOM]
        return {
            "output": b"".join(data for _, data in self.output),
            "ddr": system.ddr[:SEEN].tobytes(),
            "spm": [(t.spm.data.tobytes(), t.spm.lines.tobytes()) for t in system.tiles],
            "words": [t.words[words].tolist() for t in system.tiles],
            "counts": [t.counts.tolist() for t in system.tiles],
            "registers": [[t.registers(w).tolist() for w in range(t.workers)] for t in system.tiles],
            "tiles": [(t.status, t.exit_code, t.csrs, t.pmu) for t in system.tiles],
            "streams": [vars(one) for one in system.traffic.dte.streams],
            "counters": [vars(one) for one in system.traffic.dte.counters],
            "channels": window.channels,
            "cycles": system.cycles,
        }


def whole(name: str, **options: Any) -> dict[str, Any]:
    run = Run(name, **options)
    assert not run.system.run()
    return run.result()


def longest(result: dict[str, Any]) -> int:
    """Instructions of the tile that executed most."""
    return max(words[-3] for words in result["words"])


def through_file(system: System) -> Snapshot:
    return snapshot_file.decode(snapshot_file.encode(save(system)), "state")


def cut(name: str, *places: int, **options: Any) -> dict[str, Any]:
    """The result of a run that was cut at each place and continued in another system."""
    run = Run(name, **options)
    written: list[tuple[int, bytes]] = []
    for place in places:
        assert run.system.run(pause=Pause(place))
        saved, written = through_file(run.system), [*written, *run.output]
        run = Run(name, **{**options, "threads": random.Random(place).choice((1, 2, 4))})
        restore(run.system, saved)
        assert snapshot_file.encode(save(run.system)) == snapshot_file.encode(saved)
    run.system.run()
    run.output[:0] = written
    return run.result()


DOUBLE = """        .input x, int32, 64
        .output y, int32, 64
_start: csrr t0, mhartid
        bnez t0, 9f
        rdma.int32 dst=0x100, src=x, n=64
        ncc.wait
        li s1, 200
loop:   addi s1, s1, -1
        bnez s1, loop
        wdma.int32 dst=y, src=0x100, n=64
        ncc.wait
9:      li a0, 0
        li a7, 93
        ecall
"""
