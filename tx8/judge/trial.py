"""Kernels ready to be judged: programs in assembly, images, and launches of C and Triton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import asm
import emulator
from asm.image import read_again
from emulator.chip.system import System
from emulator.cli.arrays import random_arrays
from emulator.memory.buffers import travel_dtype
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import load_machine
from tx8isa.tools.suggestions import hint

from .guards import Extent
from .spec import Spec

if TYPE_CHECKING:
    from tx8.triton.kernel import TritonKernel

Array = np.ndarray[Any, np.dtype[Any]]


class Trial(NamedTuple):
    """A kernel with the inputs of one run."""

    program: emulator.Program
    inputs: Mapping[str, Any]
    outputs: tuple[str, ...]
    start: Callable[..., System]
    """Return a system at the beginning, with options of ``emulator.Program.start``."""
    results: Callable[[System], Mapping[str, Array]]
    """Return the outputs of a finished system."""
    buffers: Callable[[System], Sequence[Extent]]
    """Return the buffers whose ends are guarded."""


def trial_of(path: Path, spec: Spec, seed: int) -> Trial:
    """Build a kernel with the inputs of a specification; Tx8Error for one that cannot be built."""
    kinds = {".c": _c_trial, ".ttir": _ttir_trial, ".py": _function_trial}
    if path.suffix in kinds:
        return kinds[path.suffix](path, spec, spec.arguments(seed))
    return _program_trial(path, spec, spec.arguments(seed), seed)


def _program(path: Path, spec: Spec) -> emulator.Program:
    """Assemble a file ``.s``, or load a program image."""
    if path.suffix != ".s":
        return emulator.load(path)
    machine = load_machine()
    image = asm.assemble_file(path, (), spec.defines, machine)
    return emulator.Program(read_again(image, path.name), machine)


def _program_trial(path: Path, spec: Spec, given: dict[str, Any], seed: int) -> Trial:
    """Return the trial of a program; inputs that the specification does not give are random."""
    program = _program(path, spec)
    wanted = [(buffer.name, buffer.shape, travel_dtype(buffer)) for buffer in program.inputs]
    unknown = sorted(given.keys() - {name for name, _, _ in wanted})
    if unknown:
        known = [name for name, _, _ in wanted]
        text = f"{path} has no input '{unknown[0]}'{hint(unknown[0], known)}"
        raise Tx8Error(f"{spec.path}: {text}; inputs: {', '.join(known) or 'none'}")
    arrays = {name: np.asarray(value) for name, value in given.items()}
    inputs = random_arrays(wanted, arrays, seed)
    outputs = tuple(buffer.name for buffer in program.outputs)
    if not outputs:
        raise Tx8Error(f"{path} has no output to compare: declare one with .output")

    def start(**options: Any) -> System:
        return program.start(inputs, **options)

    def buffers(system: System) -> Sequence[Extent]:
        found = (*program.inputs, *program.outputs)
        return [Extent(buffer.name, *program.extent(buffer, system.memories)) for buffer in found]

    return Trial(program, inputs, outputs, start, program.results, buffers)


def _launched(spec: Spec, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a launch: arrays, copied because it may write them, and numbers."""
    if not given:
        raise Tx8Error(f"{spec.path}: no inputs: a launch needs its arguments in order, arrays and numbers")
    return {name: np.array(v) if isinstance(v, np.ndarray) and v.ndim else v for name, v in given.items()}


def _c_trial(path: Path, spec: Spec, given: Mapping[str, Any]) -> Trial:
    """Return the trial of a launch of a C kernel."""
    from tx8.kernel import c_kernel  # here: it needs GCC

    arguments = _launched(spec, given)
    ready = c_kernel(path, spec.kernel or path.stem).prepared(spec.grid, *arguments.values())
    names = [name for name, value in arguments.items() if isinstance(value, np.ndarray) and value.ndim]

    def results(system: System) -> Mapping[str, Array]:
        return dict(zip(names, ready.results(system), strict=True))

    base = ready.program.machine.windows.ddr_engine
    extents = [Extent(name, at - base, a.nbytes) for name, (a, at) in zip(names, ready.arrays, strict=True)]
    return Trial(ready.program, arguments, tuple(names), ready.start, results, lambda _: extents)


def _ttir_trial(path: Path, spec: Spec, given: Mapping[str, Any]) -> Trial:
    """Return the trial of a launch of a Triton kernel from its text."""
    from tx8.triton.kernel import triton_kernel

    arguments = _launched(spec, given)
    kernel = triton_kernel(path, spec.kernel)
    return _triton_trial(kernel, spec.grid, list(arguments.values()), arguments)


def _function_trial(path: Path, spec: Spec, given: Mapping[str, Any]) -> Trial:
    """Return the trial of a launch of a function of Triton, which Triton compiles."""
    from .functions import held_launch

    arguments = _launched(spec, given)
    held = held_launch(path, spec, arguments)
    return _triton_trial(held.kernel, held.grid, held.arguments, arguments)


def _triton_trial(
    kernel: TritonKernel, grid: int | Sequence[int], values: Sequence[Any], arguments: Mapping[str, Any]
) -> Trial:
    """Return the trial of a launch with ``values``, whose arrays have the names of ``arguments``."""
    program, named = kernel.bound(grid, *values)
    own = {id(value): name for name, value in arguments.items()}
    inputs = {buffer.name: named[buffer.name] for buffer in program.inputs}
    outputs = {buffer.name: own.get(id(named[buffer.name]), buffer.name) for buffer in program.outputs}

    def results(system: System) -> Mapping[str, Array]:
        return {outputs[name]: array for name, array in program.emulated.results(system).items()}

    def start(**options: Any) -> System:
        return program.emulated.start(inputs, **options)

    return Trial(program.emulated, arguments, tuple(outputs.values()), start, results, lambda _: ())
