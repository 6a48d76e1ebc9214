"""No false alarm: examples, compiled graphs and generated programs without races, run strictly."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import asm
import compiler
from asm.image import read_image, write_image
from c_tools import PROGRAMS, make, needs_gcc
from chip_bench import build
from compiler.frontend.json.reader import load_graph
from compiler_harness import draw, one, small_machine
from emulator import Fault, load
from emulator.memory.buffers import travel_dtype
from emulator.program import Program
from strict_runs import EXAMPLES, orderly

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
    for name in (name for name in PROGRAMS if name != "allreduce"):  # that one is for several chips
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
    """Unused lanes follow results here, and pass through every step without a hazard."""
    constants = {"s": draw(3001), "b": draw(3001)} if op == "LayerNormalization" else None
    inputs = {"a": draw(3, 3001)}
    assert graph_hazards(one(op, [(3, 3001)], constants), "fp16", inputs, small_machine()) == []


# --- generated programs without races -----------------------------------------------------


def kinds(text: str) -> set[str]:
    system = build(f"_start: {text}\n ebreak", strict=True)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    assert system.sanitizer is not None
    return {hazard.kind for hazard in system.sanitizer.hazards()}


@pytest.mark.parametrize("seed", range(25))
def test_generated_programs(seed: int) -> None:
    """Results of 33 elements leave the rest of a line undefined, so programs may have that hazard, but no
    other."""
    text = orderly(Random(seed))
    assert kinds(text) <= {"span"}
    assert kinds(text.replace("n=33", "n=64")) == set()


def test_the_generator_makes_programs_that_a_missing_wait_spoils() -> None:
    broken = [orderly(Random(seed)).replace("ncc.wait worker=1", "nop") for seed in range(10)]
    assert sum("race" in kinds(text) or "unfinished" in kinds(text) for text in broken) >= 8
