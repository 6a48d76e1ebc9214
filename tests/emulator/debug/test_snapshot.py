"""Snapshots: a run that was cut anywhere ends as one that was not; files that are damaged are refused."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asm
import compiler
import emulator
from asm.image import write_image
from chip_bench import TX81, W, chip
from compiler_harness import one
from dte_harness import EXIT, only
from emulator.chip.dte_registers import DteWindow
from emulator.chip.pause import Pause
from emulator.chip.system import System
from emulator.cli import main
from emulator.debug.snapshot import file as snapshot_file
from emulator.debug.snapshot import tile as snapshot_tile
from emulator.debug.snapshot.chip import restore, save
from emulator.debug.snapshot.types import Snapshot, SnapshotError
from emulator.memory import state
from emulator.program import travel_dtype
from emulator.tile.fault import Fault
from emulator.tile.tile import Status
from paths import ROOT
from stream_programs import CONFIG, COUNT, READY, SPM_STREAM, config, fsm, look, pair, send, user_id, wait
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.layouts import LINE_BYTES

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
    """With less DDR: looking for the pages that were touched takes a tenth of a second for 64 GiB."""
    return msgspec.structs.replace(machine, ddr=msgspec.structs.replace(machine.ddr, bytes=2 * SEEN))


FOUR, ONE = small(chip(4, 0x4000)), small(chip(1, 0x4000))


def build(text: str, machine: Machine = ONE, **options: Any) -> System:
    return System(asm.assemble(text, machine=machine), machine, **options)


PROGRAMS: dict[str, tuple[str, Machine]] = {
    "ring": (RING, FOUR),
    "workers": (WORKERS, ONE),
    "self": (SELF, ONE),
    "stream": (STREAM, FOUR),
    "traps": (TRAPS, ONE),
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
        """Everything a program could tell apart, but not as a snapshot holds it."""
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


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    """The name of each program."""
    name: str = request.param
    return name


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
    """The result of a run that was cut at each place and went on in another system."""
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


# --- the rest of a run -------------------------------------------------------------------------------------


def test_cut_after_every_instruction(program: str) -> None:
    expected = whole(program)
    end = longest(expected)
    for place in range(1, end, max(end // 12, 1)):
        assert cut(program, place) == expected, place


@pytest.mark.parametrize("quantum", [5, 17])
def test_cut_in_the_middle_of_rounds(program: str, quantum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.chip.system.QUANTUM", quantum)
    expected = whole(program)
    end = longest(expected)
    for place in range(2, end, max(end // 8, 1)):
        assert cut(program, place) == expected, place


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PROGRAMS)), st.sets(st.integers(1, 60), min_size=1, max_size=4), st.booleans())
def test_cut_several_times(name: str, places: set[int], serial: bool) -> None:
    expected = whole(name, serial=serial)
    inside = sorted(place for place in places if place < longest(expected))
    assert cut(name, *inside, serial=serial) == expected


@pytest.mark.parametrize("place", [3, 20, 33, 47, 60])
def test_simulated_time_goes_on(place: int) -> None:
    expected = whole("ring", timed=True)
    assert expected["cycles"] > 0
    assert cut("ring", place, timed=True) == expected


def test_what_is_on_its_way_is_part_of_the_state() -> None:
    """The cuts above meet instructions in queues, copies, updates, and tiles at a barrier."""
    met = set()
    for name in ("ring", "workers", "stream"):
        run = Run(name)
        while run.system.run(pause=Pause(max(tile.retired for tile in run.system.tiles) + 1)):
            for tile in save(run.system).tiles:
                met |= {"queue"} if any(worker.entries for worker in tile.workers) else set()
                met |= {type(work).__name__ for work in tile.started} | {tile.status}
                met |= {"output"} if tile.output else set()
    assert met >= {"queue", "SavedCopy", "output", "RUNNING", "BARRIER", "SENDING", "EXITED"}


def test_an_update_on_its_way() -> None:
    text = only(
        0,
        fsm({CONFIG + 4 * SPM_STREAM: config(48)}) + " li t0, 0x670000\n li t1, 1\n"
        f" li t2, {SPM_STREAM << 12}\n or t1, t1, t2\n sw t1, 0(t0)\n nop\n nop\n",
    )
    system, other = build(text, FOUR), build(text, FOUR)
    for place in range(1, 100):
        system.run(pause=Pause(place))
        if system.traffic.started[0]:
            break
    restore(other, through_file(system))
    assert other.traffic.started[0] == system.traffic.started[0] != []
    other.run()
    assert other.traffic.dte.streams[0].ready[SPM_STREAM] == 1


def test_stop_at_a_label() -> None:
    text = "_start: li s1, 5\nloop: addi s1, s1, -1\n bnez s1, loop\ndone: nop\n" + EXIT
    image = asm.assemble(text, machine=FOUR)
    system = System(image, FOUR)
    at = image.symbols["done"].address
    assert system.run(pause=Pause(addresses=frozenset((at,))))
    assert [(tile.pc, tile.register(9)) for tile in system.tiles] == [(at, 0)] * 4
    other = System(image, FOUR)
    restore(other, through_file(system))
    assert not other.run()
    assert not system.run()
    assert [t.retired for t in other.tiles] == [t.retired for t in system.tiles]


def test_a_label_in_code_that_was_fetched_again() -> None:
    run = Run("self")
    image = asm.assemble(SELF, machine=ONE)
    assert run.system.run(pause=Pause(addresses=frozenset((image.symbols["place"].address,))))
    assert run.system.tiles[0].register(18) == 0
    run.system.run()
    assert run.result() == whole("self")


def test_a_label_that_is_not_reached_changes_nothing() -> None:
    run = Run("ring")
    assert not run.system.run(pause=Pause(addresses=frozenset((0x8000_0002,))))
    assert run.result() == whole("ring")


def test_going_back_in_the_same_system() -> None:
    run = Run("ring")
    run.system.run(pause=Pause(20))
    saved, written = save(run.system), list(run.output)
    run.system.run()
    first = run.result()
    run.output[:] = written
    restore(run.system, saved)
    assert save(run.system) == saved
    run.system.run()
    assert run.result() == first == whole("ring")


def test_a_fault_comes_at_the_same_place() -> None:
    text = "_start: li s1, 9\n1: addi s1, s1, -1\n bnez s1, 1b\n lw a0, 0(zero)\n"
    messages = []
    for place in (None, 4):
        system = build(text)
        if place:
            system.run(pause=Pause(place))
            saved, system = through_file(system), build(text)
            restore(system, saved)
        with pytest.raises(Fault) as fault:
            system.run()
        messages.append(str(fault.value))
    assert messages[0] == messages[1]


def test_rules_of_the_machine_are_kept() -> None:
    text = "_start: ct.add.vv.fp16 dst=0x3fff00, src0=0, src1=0, n=512\n nop\n" + EXIT
    text = "_start: li t0, 0x3ff0\n ct.add.vv.fp16 dst=t0, src0=0, src1=0, n=512\n nop\n" + EXIT
    system = build(text, on_exception="drop")
    system.run(pause=Pause(3))
    saved = through_file(system)
    with pytest.raises(SnapshotError, match="on_exception='drop'"):
        restore(build(text), saved)
    other = build(text, on_exception="drop")
    restore(other, saved)
    other.run()
    assert other.tiles[0].status is Status.EXITED


@pytest.mark.parametrize("name", ["hello", "vuv_loop", "gemm_tiled", "allgather_ring"])
def test_examples_go_on(name: str) -> None:
    machine = load_machine(None)
    image = asm.assemble_file(ROOT / "examples/assembly" / f"{name}.s")
    check_program(emulator.Program(image, machine), name)


def test_a_compiled_program_goes_on() -> None:
    made = one("Conv", [(8, 3, 10, 10), (16, 3, 3, 3)], pads=(1, 1, 1, 1))
    program = compiler.compile(made, "fp16")
    check_program(emulator.Program(program.image, load_machine(None)), "conv")


def check_program(program: emulator.Program, seed: str) -> None:
    """Outputs, memory, counts and cycles of a run that was cut at a random place."""
    rng = np.random.default_rng(len(seed))
    inputs = {
        buffer.name: rng.integers(0, 4, buffer.shape).astype(travel_dtype(buffer))
        for buffer in program.inputs
    }
    shown: list[bytes] = []
    whole = program.start(inputs, timed=True, show=lambda _, data: shown.append(data))
    whole.run()
    place = int(rng.integers(1, max(tile.retired for tile in whole.tiles)))
    expected, outputs = list(shown), program.results(whole)
    shown.clear()
    first = program.start(inputs, timed=True, threads=2, show=lambda _, data: shown.append(data))
    assert first.run(pause=Pause(place))
    saved = through_file(first)
    second = program.start({}, snapshot=saved, timed=True, show=lambda _, data: shown.append(data))
    second.run()
    assert b"".join(shown) == b"".join(expected)
    for name, array in program.results(second).items():
        assert np.array_equal(array, outputs[name], equal_nan=array.dtype.kind == "f")
    for tile, other in zip(whole.tiles, second.tiles, strict=True):
        assert tile.retired == other.retired
        assert np.array_equal(tile.spm.data, other.spm.data)
        assert np.array_equal(tile.counts, other.counts)
    assert second.cycles == whole.cycles


# --- what is kept ------------------------------------------------------------------------------------------

REMADE = {
    "SINK",
    "LIMIT",
    "DETAIL",
    "TILE",
    "SPM",
    "SPM_BYTES",
    "DDR",
    "DDR_BYTES",
    "SCRATCH",
    "SCRATCH_BYTES",
    "LINES",
    "CODE",
    "CODE_BASE",
    "CODE_WORDS",
    "KERNELS",
    "RECORDS",
    "COUNTS",
    "QUEUE",
    "CORE_SPM",
    "CORE_SPM_STRONG",
    "CORE_DDR",
    "CORE_DDR_UNCACHED",
    "CORE_WINDOW",
    "ENGINE_DDR",
    "ISSUE",
    "DEPTH",
    "TEXT",
    "WRITE_BACK",
    "NUMERIC",
    "WORKERS",
    "WRITE_SPAN",
    "FLOAT_UNIT",
    "NCC",
    "NCC_STRIDE",
    "REGISTERS",
    "REGISTER_MAP",
    "PLAIN",
    "ORDER",
    "TIMING_HOOK",
    "TIMING",
    "SANITIZER_HOOK",
    "SANITIZER",
    "CORE_CHECK",
    "DDR_MARKS",
    "HART",
}
"""Words of the state that a new machine has too, or that mean nothing between two instructions."""


def test_every_word_of_the_state_is_kept_or_made_again() -> None:
    names = {name for name in vars(state) if name.isupper()} - {"SIZE", "ROOM"}
    kept = {name for name in names if getattr(state, name) in snapshot_tile.KEPT}
    assert kept | REMADE == names
    assert not kept & REMADE


def test_no_host_address_is_kept() -> None:
    files = []
    for _ in range(2):
        run = Run("ring", timed=True)
        run.system.run(pause=Pause(25))
        files.append(snapshot_file.encode(save(run.system)))
        keep = run  # so that the next machine lies elsewhere
    assert files[0] == files[1]
    assert keep.system.quanta


def test_a_mostly_empty_machine_is_small() -> None:
    system = build("_start: td.memset.int32 dst=0x100, value=7, n=16\n nop\n" + EXIT, TX81)
    system.run(pause=Pause(2))
    assert len(snapshot_file.encode(save(system))) < 10_000


def test_only_what_differs_from_the_program_is_kept() -> None:
    text = (
        " la t0, out\n li t1, 1\n sd t1, 0(t0)\n nop\n" + EXIT + ".data\n.fill 20000, 1, 0xa5\nout: .quad 0\n"
    )
    system = build("_start:" + text)
    system.run(pause=Pause(5))
    saved = save(system)
    assert len(saved.ddr.data) == 4096
    assert all(not tile.spm.data for tile in saved.tiles)
    other = build("_start:" + text)
    other.ddr[0x30_0000] = 1  # what is not part of the state is gone afterwards
    other.tiles[0].spm.data[5 * LINE_BYTES] = 3
    restore(other, saved)
    assert other.ddr[0x30_0000] == 0
    assert save(other) == saved


def test_restoring_touches_no_page_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from emulator.debug.snapshot.memory import _touched

    system = build(RING, FOUR)
    other = build(RING, FOUR)
    system.run(pause=Pause(30))
    restore(other, through_file(system))
    sizes = [sum(end - first for first, end in _touched(one.ddr)) for one in (system, other)]
    assert sizes[1] <= sizes[0] < 1 << 24


# --- files -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file() -> bytes:
    run = Run("ring")
    run.system.run(pause=Pause(25))
    return snapshot_file.encode(save(run.system))


def test_every_flipped_bit_is_noticed(file: bytes) -> None:
    rng = random.Random(1)
    places = [*range(24), *rng.sample(range(24, len(file)), 300)]
    for place in places:
        damaged = bytearray(file)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(SnapshotError, match=r"^state: "):
            snapshot_file.decode(bytes(damaged), "state")


def test_every_truncation_is_noticed(file: bytes) -> None:
    for size in [*range(26), len(file) // 2, len(file) - 1]:
        with pytest.raises(SnapshotError, match=r"truncated|not a saved state"):
            snapshot_file.decode(file[:size], "state")
    with pytest.raises(SnapshotError, match="damaged: it does not match its checksum"):
        snapshot_file.decode(file + b"\0", "state")


def test_another_version_is_refused(file: bytes) -> None:
    newer = file[:8] + struct.pack("<I", 2) + file[12:]
    with pytest.raises(SnapshotError, match="format version 2: this tool reads version 1"):
        snapshot_file.decode(newer, "state")


@given(st.binary(max_size=60))
def test_any_payload_is_refused_with_one_line(payload: bytes) -> None:
    from zlib import compress, crc32

    for data in (payload, compress(payload)):
        head = struct.pack("<8sIIQ", b"TX8STATE", 1, crc32(data), len(data))
        with pytest.raises(SnapshotError, match=r"^state: damaged: [^\n]*$"):
            snapshot_file.decode(head + data, "state")


def changed(file: bytes, **fields: Any) -> Snapshot:
    return msgspec.structs.replace(snapshot_file.decode(file, "state"), **fields)


def changed_tile(file: bytes, **fields: Any) -> Snapshot:
    tiles = snapshot_file.decode(file, "state").tiles
    return changed(file, tiles=[msgspec.structs.replace(tiles[0], **fields), *tiles[1:]])


def test_a_state_of_something_else_is_refused(file: bytes) -> None:
    saved = snapshot_file.decode(file, "state")
    with pytest.raises(SnapshotError, match="while another program ran"):
        restore(build(RING.replace("li s1, 3", "li s1, 4"), FOUR), saved)
    with pytest.raises(SnapshotError, match="on machine tx81, whose description is not that of tx81"):
        restore(build(RING, small(chip(4, 0x8000))), saved)
    with pytest.raises(SnapshotError, match="another version of tx8emu"):
        restore(build(RING, FOUR), changed(file, emulator=saved.emulator ^ 1))
    with pytest.raises(SnapshotError, match="without simulated time"):
        restore(build(RING, FOUR, timed=True), saved)


def test_a_state_that_does_not_fit_is_refused(file: bytes) -> None:
    """Files with a right checksum that no run has written."""
    tile = snapshot_file.decode(file, "state").tiles[0]
    blocks = tile.spm
    far = msgspec.structs.replace(
        blocks, numbers=np.full(len(blocks.numbers) // 8, 1 << 20, np.int64).tobytes()
    )
    worker = tile.workers[0]
    wrong: dict[str, Any] = {
        "words have 8 bytes": {"words": bytes(8)},
        "names worker 7": {"write_back": 7},
        "3 workers|workers, expected": {"workers": []},
        "up to byte": {"spm": far},
        "are not whole": {"spm": msgspec.structs.replace(blocks, data=b"123")},
        "has the status ASLEEP": {"status": "ASLEEP"},
        "bytes of code": {"code": b"1234"},
        "instructions in the queues": {
            "workers": [msgspec.structs.replace(worker, header=np.arange(48).tobytes()), *tile.workers[1:]]
        },
    }
    for message, fields in wrong.items():
        with pytest.raises(SnapshotError, match=message):
            restore(build(RING, FOUR), changed_tile(file, **fields))


# --- the command -------------------------------------------------------------------------------------------

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and its input, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.bin").write_bytes(write_image(asm.assemble(DOUBLE, "prog.s")))
    np.save(tmp_path / "x.npy", np.arange(64, dtype=np.int32))
    return tmp_path


SAVE = ["prog.bin", "-q", "--input", "x=x.npy", "--save-state", "s.state"]


@pytest.mark.parametrize("at", ["100", "loop", "0x10"])
def test_save_and_load(folder: Path, at: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--at", at, "--output-dir", "out"]) == 0
    assert not list((folder / "out").iterdir())
    assert main(["prog.bin", "-q", "--load-state", "s.state", "--output-dir", "out", "--threads", "2"]) == 0
    assert np.load(folder / "out" / "y.npy").tolist() == list(range(64))
    assert capfd.readouterr() == ("", "")


def test_a_loaded_run_can_be_saved_again(folder: Path) -> None:
    assert main([*SAVE, "--at", "50"]) == 0
    assert main(["prog.bin", "-q", "--load-state", "s.state", "--save-state", "t.state", "--at", "90"]) == 0
    assert main([*SAVE, "--at", "90"]) == 0
    assert (folder / "t.state").read_bytes() == (folder / "s.state").read_bytes()


def test_where_the_limit_stops_the_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--max-instructions", "70"]) == 3
    assert "stopped after 70 instructions, the limit given" in capfd.readouterr().err
    assert main(["prog.bin", "-q", "--load-state", "s.state", "--output-dir", "out"]) == 0
    assert np.load(folder / "out" / "y.npy").tolist() == list(range(64))


def test_a_place_that_is_not_reached(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--at", "99999", "--output-dir", "out"]) == 1
    assert (
        "s.state: not written: the run ended before it came to 99999 instructions" in capfd.readouterr().err
    )
    assert np.load(folder / "out" / "y.npy").tolist() == list(range(64))
    assert not (folder / "s.state").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--save-state", "no/such/s.state", "--at", "5"], "no/such/s.state: No such file or directory"),
        (["--save-state", ".", "--at", "5"], ".: Is a directory"),
        (
            ["--save-state", "s", "--at", "lop"],
            "--at lop: the program has no such label; did you mean 'loop'?",
        ),
        (["--save-state", "s", "--at", "x"], "--at x: 0x280001000 is not in the code of the program"),
        (
            ["--save-state", "s", "--at", "0"],
            "--at 0: expected a number of instructions, at least 1, or a label",
        ),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["prog.bin", "--input", "x=x.npy", *arguments]) == 1
    assert capfd.readouterr().err == f"tx8emu: error: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "5"], "argument --at: it says where --save-state FILE is to save"),
        (["--save-state", "s"], "argument --save-state: where? give --at N|LABEL, or --max-instructions N"),
        (["--save-state", "s", "--at", "5", "--strict"], "not with --strict, which looks at whole runs"),
        (["--load-state", "s", "--input", "x=x.npy"], "not with --input, which is part of the state"),
        (["--load-state", "s", "--ne-post", "proposed"], "not with --ne-post, which is part of the state"),
    ],
)
def test_usage(folder: Path, arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["prog.bin", *arguments])
    assert left.value.code == 2
    assert message in capfd.readouterr().err


def test_files_that_cannot_be_loaded(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*SAVE, "--at", "20"]) == 0
    (folder / "cut.state").write_bytes((folder / "s.state").read_bytes()[:-5])
    for name, message in (
        ("prog.bin", "prog.bin: not a saved state: it starts with 7f 45 4c 46"),
        ("cut.state", "cut.state: truncated: "),
        ("none.state", "none.state: No such file or directory"),
    ):
        assert main(["prog.bin", "--load-state", name]) == 1
        error = capfd.readouterr().err
        assert error.startswith(f"tx8emu: error: {message}")
        assert error.count("\n") == 1
    assert main(["prog.bin", "--load-state", "s.state", "--save-state", "t", "--at", "10"]) == 1
    assert "a tile has executed 20 already" in capfd.readouterr().err
