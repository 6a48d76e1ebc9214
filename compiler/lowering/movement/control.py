"""Frames of control flow: code around graphs that selects one of them, or repeats one.

Every tile reads the condition after a barrier, so all of them take the same branch.
"""

from __future__ import annotations

from compiler.codegen.kernel import Kernel
from compiler.codegen.registers import STACK
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.record import EVERY_TYPE, Work, always, lowering
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

_FRAME = 16
"""Bytes of the stack in which a tile keeps the number of the step: a multiple of 16."""


def place_of_body(prefix: str, number: int) -> str:
    """The line of a frame that represents the code of one of its graphs."""
    return f"        # body {number} of {prefix}"


@lowering("If", types=EVERY_TYPE, on_core=always)
def _if(kernel: Kernel, work: Work) -> None:
    other, end = f"{kernel.prefix}.else", f"{kernel.prefix}.endif"
    _leave_unless(kernel, work.input(0), other)
    kernel.out.lines.append(place_of_body(kernel.prefix, 0))
    _jump(kernel, end)
    kernel.out.label(other)
    kernel.out.lines.append(place_of_body(kernel.prefix, 1))
    kernel.out.label(end)


@lowering("Loop", types=EVERY_TYPE, on_core=always, prefetch=True)
def _loop(kernel: Kernel, work: Work) -> None:
    begin, end = f"{kernel.prefix}.again", f"{kernel.prefix}.done"
    kernel.out.instruction("addi", STACK, STACK, str(-_FRAME))
    kernel.out.instruction("sd", "zero", f"0({STACK})")
    kernel.out.label(begin)
    kernel.synchronize()
    if work.has(0):
        with kernel.registers.scope():
            core = ScalarCode(kernel)
            core.acquire()
            kernel.out.instruction("blt", _step(kernel), core.load(work.input(0), 0), "1f")
        _jump(kernel, end)
        kernel.out.label("1")
    if work.spec.integer("conditional"):
        _leave_unless(kernel, work.input(1), end)
    if work.spec.integer("numbered"):
        _store_step(kernel, step_of_loop(kernel))
        kernel.synchronize()
    kernel.out.lines.append(place_of_body(kernel.prefix, 0))
    with kernel.registers.scope():
        step = _step(kernel)
        kernel.out.instruction("addi", step, step, "1")
        kernel.out.instruction("sd", step, f"0({STACK})")
    _jump(kernel, begin)
    kernel.out.label(end)
    if work.spec.integer("counted"):
        _store_step(kernel, work.others[-1])
    kernel.out.instruction("addi", STACK, STACK, str(_FRAME))


def step_of_loop(kernel: Kernel) -> DdrTensor:
    """The memory in which a loop passes the number of the step to its graph."""
    return DdrTensor(kernel.scratch("step", LINE_BYTES).symbol, Format.INT64, ())


def _step(kernel: Kernel) -> str:
    """A register with the number of the step, which every tile counts for itself."""
    register = kernel.registers.take()
    kernel.out.instruction("ld", register, f"0({STACK})")
    return register


def _store_step(kernel: Kernel, tensor: DdrTensor) -> None:
    """Let one tile store the number of the step."""
    with kernel.if_zero(kernel.tile):
        core = ScalarCode(kernel)
        core.store(tensor, 0, _step(kernel))
        core.publish()


def _leave_unless(kernel: Kernel, condition: DdrTensor, end: str) -> None:
    """Jump to a label unless a condition holds."""
    with kernel.registers.scope():
        core = ScalarCode(kernel)
        core.acquire()
        kernel.out.instruction("bnez", core.load(condition, 0), "1f")
    _jump(kernel, end)
    kernel.out.label("1")


def _jump(kernel: Kernel, label: str) -> None:
    """Jump to a label at any distance: a graph can have more code than a branch or a jump reaches."""
    with kernel.registers.scope():
        register = kernel.registers.take()
        kernel.out.instruction("la", register, label)
        kernel.out.instruction("jr", register)
