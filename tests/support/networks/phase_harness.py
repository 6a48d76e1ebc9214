"""One lowering by itself: a hand-made phase between tensors of any format and layout, run on the chip."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

import asm
import emulator
from asm.image import read_image, write_image
from compiler.codegen import program
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.registers.spilling import Spills, fitting
from compiler.codegen.slices.precision import stored
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.spm import SpmOverflow
from compiler.graph import Array
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format

DTYPES = {Format.FP16: "float16", Format.BF16: "bfloat16", Format.INT8: "bool"}
_AFTER, _AFTER_BYTES = "after_the_output", 1 << 16
"""Space in DDR that no phase may write, where rows beyond the last one of the output would be."""
TRAVEL = {Format.FP16: np.float16, Format.INT8: np.bool_}
"""Types of the arrays in which buffers of these formats are given; float32 for all others."""


def _directive(kind: str, tensor: DdrTensor) -> str:
    layout = "ncx" if tensor.blocked else program.layout_of(tensor.shape)
    dtype = DTYPES.get(tensor.fmt, "float32")
    shape = program.extents(tensor.shape)
    return f"        .{kind} {tensor.symbol}, {tensor.fmt.token}, {shape}, {layout}, {dtype}"


def generated(lower: Callable[[Kernel], None], target: Target) -> Kernel:
    """The code of a phase, with the largest slices that fit."""
    budget = target.spm_bytes
    while True:
        try:
            return generated_in(lower, target, budget)
        except SpmOverflow:
            budget //= 2
            assert budget >= 1024, "the phase fits no scratchpad"


def generated_in(lower: Callable[[Kernel], None], target: Target, budget: int) -> Kernel:
    """The code of a phase with slices for this many bytes; SpmOverflow if it does not fit."""
    return fitting(partial(_placed, lower, target, budget))


def _placed(lower: Callable[[Kernel], None], target: Target, budget: int, spills: Spills) -> Kernel:
    kernel = Kernel("p0", target, budget, spills=spills)
    lower(kernel)
    kernel.place_buffers()
    return kernel


def phase_program(
    lower: Callable[[Kernel], None],
    tensors: list[DdrTensor],
    output: DdrTensor,
    tiles: int = 4,
    machine: Machine | None = None,
    small: bool = False,
) -> tuple[emulator.Program, list[str]]:
    """A program of one phase, and its lines of code; ``tensors`` are operands, constants by their value."""
    machine = machine or load_machine(None)
    room = min(machine.spm.reserved, machine.spm.bytes)
    target = Target(tiles, room, output.fmt, small=small)
    kernel = generated(lower, target)
    data = program.Data(machine.ddr.bank_bytes)
    for tensor in tensors:
        if tensor.value is not None:
            data.constant(tensor.symbol, tensor.fmt, tensor.shape, stored(tensor.value, tensor.fmt))
        else:
            data.out.lines.append(_directive("input", tensor))
    for constant in kernel.constants:
        data.made(constant.symbol, constant.fmt, constant.key, constant.compute)
    data.out.lines.append(_directive("output", output))
    data.space(_AFTER, _AFTER_BYTES)
    for scratch in kernel.scratches:
        data.space(scratch.symbol, scratch.size)
    lines = kernel.text()
    code = [*data.out.lines, *program.prologue(tiles, machine.tiles), *program.phase("n", lines)]
    text = "\n".join([*code, *program.epilogue()]) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / program.CONSTANTS_FILE).write_bytes(data.blob)
        image = asm.assemble(text, "prog.s", [folder], machine=machine)
    return emulator.Program(read_image(write_image(image), "prog.bin"), machine), lines


def travelling(inputs: Mapping[str, Array], tensors: list[DdrTensor]) -> dict[str, Array]:
    """The inputs of a phase in the types in which its program takes them."""
    return {
        t.symbol: inputs[t.symbol].astype(TRAVEL.get(t.fmt, np.float32)) for t in tensors if t.value is None
    }


def run_phase(
    lower: Callable[[Kernel], None],
    inputs: Mapping[str, Array],
    tensors: list[DdrTensor],
    output: DdrTensor,
    tiles: int = 4,
    machine: Machine | None = None,
    strict: bool = False,
    small: bool = False,
) -> tuple[Array, list[str]]:
    """Run a phase; return the contents of ``output`` in the caller's form, and its lines of code.

    ``tensors`` are its operands: constants by their value, the others by ``inputs``. ``strict``: a hazard is
    an AssertionError. ``small``: small code.
    """
    loaded, lines = phase_program(lower, tensors, output, tiles, machine, small)
    return output_of(loaded, travelling(inputs, tensors), strict), lines


def output_of(loaded: emulator.Program, inputs: Mapping[str, Array], strict: bool = True) -> Array:
    """Runs a program of one phase and gives its output.

    AssertionError for a hazard, and for a store before the output or directly after it. Later bytes belong to
    the phase.
    """
    (output,) = loaded.outputs
    system = loaded.start(inputs, strict=strict)
    end = loaded.image.symbols[_AFTER].address - loaded.machine.windows.ddr_engine + _AFTER_BYTES
    before = system.memories.ddr[:end].copy()
    system.run()
    if system.sanitizer is not None:
        hazards = system.sanitizer.hazards()
        assert not hazards, hazards[0]
    first, size = loaded.extent(output, system.memories)
    changed = np.flatnonzero(before != system.memories.ddr[:end])
    wrong = changed[(changed < first) | (changed >= first + size)]
    assert not wrong.size, f"{wrong.size} bytes beside the output are changed; the first: {wrong[0] - first}"
    return np.asarray(loaded.results(system)[output.name])
