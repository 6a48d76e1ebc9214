"""Every example runs the same with and without simulated time, on any number of host threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import asm
from c_tools import EXAMPLES, make, needs_gcc
from emulator import Program, load
from emulator.chip.system import System
from emulator.memory.buffers import travel_dtype
from emulator.tile.fault import Fault
from paths import ROOT
from time_bench import Keep
from tx8isa.machine.description import load_machine

FOLDER = ROOT / "examples"
GRAPHS = ["digits/digits.json", "batchnorm/bn30.json", "attention/attention.json"]
OF_SEVERAL_CHIPS = {"ring"}
"""Their time has tests of its own (``tests/emulator/chips``)."""
LOOK_AT_RESULTS = {"batchnorm", "gemm", "ring", "vector_add"}
"""C programs that load data written by engines or copies."""
C_PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.c") if path.stem != "runtime")


def run(program: Program, **options: object) -> System:
    rng = np.random.default_rng(7)
    inputs = {b.name: rng.uniform(-1, 1, b.shape).astype(travel_dtype(b)) for b in program.inputs}
    system = program.start(inputs, **options)  # type: ignore[arg-type]
    system.run()
    return system


def check(
    program: Program, threads_of_runs: tuple[int, ...] = (1, 2, 4), depends_on_data: bool = False
) -> None:
    """Compare timed runs on several numbers of threads with an untimed run, and with one without data."""
    plain, kept = run(program, timed=False), []
    outputs = program.results(plain)
    for threads in threads_of_runs:
        sink = Keep()
        timed = run(program, sinks=[sink], threads=threads)
        for a, b in zip(plain.tiles, timed.tiles, strict=True):
            assert np.array_equal(a.spm.data, b.spm.data)
            assert np.array_equal(a.counts, b.counts)
            assert np.array_equal(a.words[:33], b.words[:33])
            assert a.retired == b.retired
        for name, array in program.results(timed).items():
            assert array.tobytes() == outputs[name].tobytes()
        assert timed.cycles
        kept.append((sink.slices.tobytes(), sink.ranges.tobytes(), sink.fields.tobytes(), sink.ends))
        issued = sum(int(tile.counts[:, 0].sum()) for tile in timed.tiles)
        assert issued == 0 or len(sink.slices)
    assert all(slices == kept[0] for slices in kept)
    if depends_on_data:
        with pytest.raises(
            Fault, match=r"^tile 0 at 0x\w+.*: f?l\w+ reads what engines or copies make; a run wit"
        ):
            run(program, data=False, threads=threads_of_runs[-1])
    else:
        check_without_data(program, plain, kept[0], threads_of_runs[-1])


def check_without_data(program: Program, plain: System, kept: tuple[object, ...], threads: int) -> None:
    """Compare a run without data with ``plain``, and its slices with others."""
    sink = Keep()
    system = run(program, sinks=[sink], threads=threads, data=False)
    for a, b in zip(plain.tiles, system.tiles, strict=True):
        assert np.array_equal(a.counts, b.counts)
        assert np.array_equal(a.words[:33], b.words[:33])
        assert a.retired == b.retired
    assert (sink.slices.tobytes(), sink.ranges.tobytes(), sink.fields.tobytes(), sink.ends) == kept


@pytest.mark.parametrize(
    "name", sorted({path.stem for path in (FOLDER / "assembly").glob("*.s")} - OF_SEVERAL_CHIPS)
)
def test_assembly(name: str) -> None:
    check(Program(asm.assemble_file(FOLDER / "assembly" / f"{name}.s"), load_machine(None)))


@pytest.mark.parametrize("graph", GRAPHS)
def test_graphs(graph: str, tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("tx8cc")
    subprocess.run([command, "-q", FOLDER / graph, "-o", tmp_path], check=True)
    check(load(tmp_path / "prog.bin"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("c"), *(f"{name}.elf" for name in C_PROGRAMS))


@needs_gcc
@pytest.mark.parametrize("name", C_PROGRAMS)
def test_c(name: str, built: Path) -> None:
    # Their tiles wait at first for a flag in DDR. How often they look depends on the host's threads.
    check(load(built / f"{name}.elf"), (1, 1), name in LOOK_AT_RESULTS)
