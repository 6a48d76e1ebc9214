"""No false alarm: examples, compiled graphs and generated programs without races, run strictly."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from c_tools import make, needs_gcc
from compiler_harness import draw, one, small_machine
from test_c_programs import PROGRAMS
from test_emulator_core import ONE, build

import asm
import compiler
from asm.image import read_image, write_image
from compiler.graph_json import load_graph
from emulator import Fault, load
from emulator.program import Program, travel_dtype

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
GRAPHS = {
    "digits/digits.json": {"x": "digits/test_images.npy"},
    "mlp/mlp.json": {"x": "mlp/x.npy"},
    "attention/attention.json": {"x": "attention/x.npy"},
    "batchnorm/bn30.json": {"x": "batchnorm/bn30_x.npy"},
    "batchnorm/bn129.json": {"x": "batchnorm/bn129_x.npy"},
}


def watched(image: bytes, folder: Path, inputs: dict[str, Any] | None = None) -> list[str]:
    """The hazards of a program, as text; inputs that are not given are drawn."""
    path = folder / "program.bin"
    path.write_bytes(image)
    program = load(path)
    given = dict(inputs or {})
    state = np.random.default_rng(1)
    for buffer in program.inputs:
        drawn = state.standard_normal(buffer.shape).astype(travel_dtype(buffer))
        given.setdefault(buffer.name, drawn)
    program.run(given, strict=True)
    return [hazard.text for hazard in program.hazards]


@pytest.mark.parametrize("name", ["hello", "vuv_loop", "gemm_tiled", "allgather_ring"])
def test_assembly(name: str, tmp_path: Path) -> None:
    image = write_image(asm.assemble_file(EXAMPLES / f"assembly/{name}.s"))
    assert watched(image, tmp_path) == []


@needs_gcc
def test_c(tmp_path: Path) -> None:
    make(tmp_path, *(f"{name}.elf" for name in PROGRAMS))
    for name in PROGRAMS:
        assert watched((tmp_path / f"{name}.elf").read_bytes(), tmp_path) == [], name


def graph_hazards(made: Any, dtype: str, inputs: dict[str, Any], machine: Any = None) -> list[str]:
    """The hazards of a compiled graph, as text."""
    compiled = compiler.compile(made, dtype, 16, machine)
    program = Program(read_image(write_image(compiled.image), "prog.bin"), compiled.machine)
    program.run(inputs, strict=True)
    return [hazard.text for hazard in program.hazards]


@pytest.mark.parametrize("name", GRAPHS)
def test_example_graphs(name: str) -> None:
    inputs = {tensor: np.load(EXAMPLES / file) for tensor, file in GRAPHS[name].items()}
    assert graph_hazards(load_graph(EXAMPLES / name), "fp16", inputs) == []


@pytest.mark.parametrize("op", ["Softmax", "LayerNormalization"])
def test_rows_in_segments(op: str) -> None:
    """Unused lanes lie behind results here, and go through every step without being missed."""
    constants = {"s": draw(3001), "b": draw(3001)} if op == "LayerNormalization" else None
    inputs = {"a": draw(3, 3001)}
    assert graph_hazards(one(op, [(3, 3001)], constants), "fp16", inputs, small_machine()) == []


# --- generated programs without races -----------------------------------------------------

LINES = 40
"""Lines of SPM that the programs use, 256 bytes each; all of them are written first."""
DDR = 0x2_8020_0000
STEPS = (
    "td.memset.fp32 dst={a}, value=2.0, n=64, worker={w}",
    "ct.add.vv.fp32 dst={a}, src0={b}, src1={c}, n=64, worker={w}",
    "ct.abs.v.fp32 dst={a}, src0={b}, n=33, worker={w}",
    "rdma.fp32 dst={a}, src={d}, n=64, worker={w}",
    "wdma.fp32 dst={d}, src={b}, n=64, worker={w}",
    "td.gatherscatter dst={a}, src0={b}, n=4, src_stride0=8, src_iter0=32, dst_stride0=4, dst_iter0=32, "
    "worker={w}",
)


def orderly(rng: Random) -> str:
    """A program of phases: in each, every worker has lines of its own; after each all are waited for."""
    text = [f"td.memset.fp32 dst=0, value=1.0, n={64 * LINES}", f"li s1, {ONE.windows.spm_weak}"]
    text += [f"wdma.fp32 dst={DDR}, src=0, n={64 * LINES}", "ncc.wait"]
    for _ in range(6):
        shuffled = rng.sample(range(LINES), LINES)
        for _ in range(rng.randint(1, 25)):
            worker = rng.randrange(3)
            a, b, c, d = (256 * rng.choice(shuffled[worker::3]) for _ in range(4))
            text.append(rng.choice(STEPS).format(a=a, b=b, c=c, d=DDR + d, w=worker))
        text += ["ncc.wait", "ncc.wait worker=1", "ncc.wait worker=2"]
        place = 8 * rng.randrange(32 * LINES)
        text += [f"li t0, {place}", "add t0, t0, s1", "ld t1, 0(t0)", "sd t1, 0(t0)"]
        if rng.random() < 0.5:
            text += [f"td.memset.fp32 dst={256 * rng.randrange(LINES)}, value=3.0, n=64", "ncc.wait"]
    return "\n".join(text)


def kinds(text: str) -> set[str]:
    system = build(f"_start: {text}\n ebreak", strict=True)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    assert system.sanitizer is not None
    return {hazard.kind for hazard in system.sanitizer.hazards()}


@pytest.mark.parametrize("seed", range(25))
def test_generated_programs(seed: int) -> None:
    """Results of 33 elements leave the rest of a line to chance: programs may have that hazard, no other."""
    text = orderly(Random(seed))
    assert kinds(text) <= {"span"}
    assert kinds(text.replace("n=33", "n=64")) == set()


def test_the_generator_makes_programs_that_a_missing_wait_spoils() -> None:
    broken = [orderly(Random(seed)).replace("ncc.wait worker=1", "nop") for seed in range(10)]
    assert sum("race" in kinds(text) or "unfinished" in kinds(text) for text in broken) >= 8
